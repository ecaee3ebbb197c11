"""Text where a number is due is refused by name, whichever door it comes through."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import assay
from assay import cluster, stats
from assay.codes import evaluate_codes, make_encoder
from assay.crossmodal import label_retrieval
from assay.errors import AssayError
from assay.integrations import assert_at_least, assert_not_worse
from assay.models import EncoderSettings
from assay.prediction import (
    evaluate_candidates,
    evaluate_confidence,
    evaluate_predictions,
)
from assay.search.indexes import build_index
from assay.vision import (
    Estimator,
    Keypoints,
    Matcher,
    by_size,
    demo_patch_scenes,
    error_auc,
    inside_border,
    make_demo_scenes,
    random_subset,
    shared,
    strongest,
)

A, B = (np.random.default_rng(seed).random(12) for seed in (1, 2))
VECTORS = np.eye(6, 8, dtype=np.float32)
CODES = assay.pack_codes(np.eye(6, 8, dtype=bool))
RUNS = [{f"q{i}": {"a": 2.0, "b": b} for i in range(8)} for b in (1.0, 3.0)]
QRELS = {f"q{i}": {"a": 1} for i in range(8)}
SCORES = [assay.evaluate(run, QRELS, "RR") for run in RUNS]
GROUPS = dict.fromkeys(QRELS, "a")
LABELS = np.array(["x", "y"] * 3)
TABLE = [
    {"system": s, "task": t, "query": q, "value": q / 10}
    for s in "ab"
    for t in "xy"
    for q in range(5)
]
PLACES = evaluate_predictions(VECTORS, np.arange(6))
POINTS = Keypoints.of([[1, 1], [4, 4]], size=3)
DRAWS = {"level": "0.95", "resamples": "1000", "seed": "1"}

DOORS: dict[str, tuple[Callable[..., Any], dict[str, str]]] = {
    "assert_at_least": (lambda limit: assert_at_least(SCORES[0], "RR", limit), {"limit": "0.3"}),
    "assert_not_worse": (
        lambda **k: assert_not_worse(*SCORES, "RR", **k),
        {**DRAWS, "margin": "0.1"},
    ),
    "compare": (lambda **k: assay.compare(*SCORES, **k), {**DRAWS, "margin": "0.1"}),
    "compare_tasks": (lambda **k: assay.compare_tasks(TABLE, **k), DRAWS),
    "evaluate": (lambda **k: assay.evaluate(RUNS[0], QRELS, "RR", **k), {"depth": "5"}),
    "Conventions": (assay.Conventions, {"depth": "5"}),
    "check": (lambda **k: assay.check(RUNS[0], QRELS, **k), {"depth": "5"}),
    "fuse": (lambda **k: assay.fuse(RUNS, **k), {"rrf_k": "60", "depth": "5"}),
    "fuse weights": (
        lambda weight: assay.fuse(RUNS, weights=[1, weight]),
        {"weight": "1"},
    ),
    "judge_ranks": (lambda **k: assay.judge_ranks([1, 2], **k), {"n_docs": "5"}),
    "rank": (
        lambda k=2, threads=1: assay.rank(VECTORS, VECTORS, k, threads=threads),
        {"k": "10", "threads": "2"},
    ),
    "rank_codes": (
        lambda k=2, threads=1: assay.rank_codes(CODES, CODES, k, threads=threads),
        {"k": "10", "threads": "2"},
    ),
    "prepare": (lambda **k: assay.prepare(VECTORS, **k), {"threads": "2"}),
    "target_ranks": (
        lambda **k: assay.target_ranks(VECTORS, VECTORS, np.arange(6), **k),
        {"threads": "2"},
    ),
    "target_ranks_from_scores": (
        lambda **k: assay.target_ranks_from_scores(VECTORS, np.arange(6), **k),
        {"threads": "2"},
    ),
    "mean": (
        lambda weight: SCORES[0].with_groups(g=GROUPS).mean(by="g", weights={"a": weight}),
        {"weight": "1"},
    ),
    "compare_jointly": (lambda **k: stats.compare_jointly([A, B], [(0, 1)], **k), DRAWS),
    "compare_seeds": (lambda **k: stats.compare_seeds([A, B], [B, A], **k), DRAWS),
    "difference_interval": (lambda **k: stats.difference_interval(A, B, **k), DRAWS),
    "interval": (lambda **k: stats.interval(A, method="bca", **k), DRAWS),
    "intervals": (lambda **k: stats.intervals([A, B], method="bca", **k), DRAWS),
    "rank_intervals": (lambda **k: stats.rank_intervals([A, B], **k), DRAWS),
    "equivalent": (
        lambda margin=0.1, **k: stats.equivalent(A, B, margin, **k),
        {"margin": "0.1", "resamples": "1000", "seed": "1"},
    ),
    "non_inferior": (
        lambda margin=0.1, **k: stats.non_inferior(A, B, margin, **k),
        {"margin": "0.1", "resamples": "1000", "seed": "1"},
    ),
    "paired_test": (
        lambda **k: stats.paired_test(A, B, **k),
        {"resamples": "1000", "seed": "1"},
    ),
    "tukey_hsd": (lambda **k: stats.tukey_hsd([A, B], **k), {"resamples": "1000", "seed": "1"}),
    "levels_of_one": (lambda **k: stats.levels_of_one([0.1, 0.2], **k), {"level": "0.05"}),
    "minimum_detectable_difference": (
        lambda **k: stats.minimum_detectable_difference(A - B, **k),
        {"power": "0.8", "level": "0.05"},
    ),
    "queries_needed": (
        lambda difference=0.1, **k: stats.queries_needed(A - B, difference=difference, **k),
        {"difference": "0.1", "power": "0.8", "level": "0.05"},
    ),
    "build_index": (lambda **k: build_index("exact", VECTORS, **k), {"threads": "2"}),
    "EncoderSettings": (
        EncoderSettings,
        {"max_length": "10", "dimensions": "10", "batch_size": "10"},
    ),
    "make_encoder": (
        lambda **k: make_encoder("gaussian", VECTORS, **{"bits": 8, **k}),
        {"bits": "8", "seed": "1"},
    ),
    "evaluate_codes": (
        lambda **k: evaluate_codes(VECTORS, **{"bits": [8], "k": [2], **k}),
        {"bits": "8", "k": "2", "p": "0.9", "threads": "2", "rerank": "10", **DRAWS},
    ),
    "label_retrieval": (
        lambda **k: label_retrieval({"a": VECTORS}, LABELS, **k),
        {"k_values": "10", "depth": "5", "confusion_k": "1", "threads": "2"},
    ),
    "label_retrieval k": (
        lambda k: label_retrieval({"a": VECTORS}, LABELS, k_values=[k]),
        {"k": "10"},
    ),
    "evaluate_predictions": (
        lambda **k: evaluate_predictions(VECTORS, np.arange(6), **k),
        {"threads": "2"},
    ),
    "evaluate_candidates": (
        lambda **k: evaluate_candidates([["a", "b"]], ["a"], **k),
        {"n_classes": "5"},
    ),
    "evaluate_confidence": (
        lambda **k: evaluate_confidence(VECTORS, np.arange(6), **k),
        {"bins": "5", "seed": "1"},
    ),
    "Estimator": (Estimator, {"pixels": "3"}),
    "Matcher": (lambda **k: Matcher("ratio", **k), {"ratio": "0.8"}),
    "error_auc": (lambda threshold: error_auc(A, threshold), {"threshold": "5"}),
    "inside_border": (lambda border: inside_border(POINTS, (9, 9), border=border), {"border": "1"}),
    "by_size": (lambda **k: by_size(POINTS, **k), {"least": "1", "most": "9"}),
    "shared": (lambda **k: shared(POINTS, POINTS, **k), {"tolerance": "1"}),
    "strongest": (lambda n: strongest(POINTS, n), {"n": "9"}),
    "random_subset": (
        lambda n=9, seed=0: random_subset(POINTS, n, seed=seed),
        {"n": "9", "seed": "1"},
    ),
    "make_demo_scenes": (make_demo_scenes, {"seed": "1", "n_images": "2"}),
    "demo_patch_scenes": (demo_patch_scenes, {"seed": "1"}),
    "plan_shards": (
        lambda **k: cluster.plan_shards(VECTORS, [VECTORS], **{"k": 2, **k}),
        {"k": "10", "workers": "2", "query_block": "2", "in_flight": "2"},
    ),
    "rank_shards": (lambda k: cluster.rank_shards(VECTORS, [VECTORS], k), {"k": "10"}),
    "sample_queries": (
        lambda **k: cluster.sample_queries(**{"n_queries": 10, "sample": 3, **k}),
        {"n_queries": "10", "sample": "3", "seed": "1"},
    ),
    "ThreadExecutor": (cluster.ThreadExecutor, {"workers": "2"}),
    "Cluster": (cluster.Cluster, {"query_block": "2", "in_flight": "2", "threads": "2"}),
}


@pytest.mark.parametrize(
    ("door", "name", "text"),
    [(door, name, text) for door, (_, given) in DOORS.items() for name, text in given.items()],
)
def test_text_for_a_number_is_refused_with_the_text(door: str, name: str, text: str) -> None:
    with pytest.raises(AssayError, match=repr(text)):
        DOORS[door][0](**{name: text})
