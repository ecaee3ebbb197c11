"""Sweeps: systems by value, the choice on one half of the queries, and its honesty."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest

from assay.bench import (
    BenchPlan,
    Sweep,
    SweepCurve,
    choose_point,
    draw_curves,
    run_bench,
    sweep_curves,
)
from assay.bench import search as searches
from assay.bench.sweep import SweepPoint
from assay.cli.schema import result_schema
from assay.errors import UsageError
from assay.io.collections import write_collection
from assay.stats import Interval, difference_interval, interval
from tests.bench.samples import small


def test_an_option_of_an_index_takes_every_value() -> None:
    plan = BenchPlan.of(["bm25", "lsa:8"], indexes=["faiss:HNSW8?efSearch=1&efConstruction=9"])
    swept, curves = Sweep.parse("efSearch=4, 16").expand(plan)
    specs = [f"faiss:HNSW8?efConstruction=9&efSearch={value}" for value in (4, 16)]
    assert swept.indexes == tuple(specs)
    name = "lsa:8 @ faiss:HNSW8?efSearch=1&efConstruction=9"
    assert curves[name] == tuple(f"lsa:8 @ {spec}" for spec in specs)


def test_depth_and_weight_vary_rerankers_and_fusions() -> None:
    plan = BenchPlan.of(
        ["bm25", "tfidf"],
        fusions=["both=combsum:bm25+tfidf?tune"],
        reranks=["two=rerank/5:bm25>py:tests.bench.samples:shared_words"],
    )
    swept, curves = Sweep.parse("depth=2,3").expand(plan)
    assert [(two.name, two.depth) for two in swept.reranks] == [
        ("two depth=2", 2),
        ("two depth=3", 3),
    ]
    assert curves == {"two": ("two depth=2", "two depth=3")}
    swept, _ = Sweep.parse("weight=0.25,0.5").expand(plan)
    assert [fusion.weights for fusion in swept.fusions] == [(0.25, 0.75), (0.5, 0.5)]
    assert all(fusion.tune is None for fusion in swept.fusions)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("efSearch", "NAME=VALUE"),
        ("efSearch=", "NAME=VALUE"),
        ("=1,2", "NAME=VALUE"),
        ("efSearch=4", "two values"),
        ("efSearch=4,4", "two values"),
        ("efSearch=4,nan", "NAME=VALUE"),
        ("efSearch=4,-8", "NAME=VALUE"),
        ("efSearch=4,8", "The sweep of efSearch needs an index"),
        ("weight=0.1,0.2", "The sweep of weight needs a fusion"),
        ("depth=1,2", "The sweep of depth needs a reranker"),
    ],
)
def test_bad_sweeps(text: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        Sweep.parse(text).expand(BenchPlan.of(["bm25"]))


def test_bad_values() -> None:
    plan = BenchPlan.of(["bm25", "tfidf"], ["rrf:bm25+tfidf"], (), ["bm25>py:a:b"])
    for text in ("weight=0.5,1", "depth=0,3", "depth=1.5,3"):
        with pytest.raises(UsageError):
            Sweep.parse(text).expand(plan)


def test_the_choice_is_the_cheapest_that_is_not_worse_by_queries_that_do_not_report() -> None:
    rng = np.random.default_rng(0)
    noise = rng.normal(0, 0.02, (4, 80))
    quality = np.clip(np.array([[0.2], [0.6], [0.6], [0.601]]) + noise, 0, 1)
    best, choice, held_out, loss, n = choose_point(quality, [1.0, 3.0, 2.0, 9.0])
    assert (choice, n, held_out.n) == (2, 40, 40)
    first = np.isin(np.arange(80), np.random.default_rng(0).permutation(80)[:40])
    assert best == int(np.argmax(quality[:, first].mean(axis=1)))
    expected = interval(quality[2, ~first], bounds=(0, 1))
    assert (held_out.low, held_out.high) == (expected.low, expected.high)
    if best != choice:
        assert loss is not None
        expected = difference_interval(quality[2, ~first], quality[best, ~first], bounds=(0, 1))
        assert (loss.low, loss.high) == (expected.low, expected.high)


def test_groups_stay_in_one_half_and_few_queries_are_refused() -> None:
    rng = np.random.default_rng(1)
    users = np.repeat(np.arange(20), 5)
    quality = np.clip(0.5 + rng.normal(0, 0.1, 20)[users] + rng.normal(0, 0.01, (2, 100)), 0, 1)
    _, _, held_out, _, n = choose_point(quality, [1, 2], clusters=users)
    assert (n, held_out.groups is not None) == (50, True)
    with pytest.raises(UsageError, match="5 groups are too few"):
        choose_point(quality, [1, 2], clusters=users % 5)
    with pytest.raises(UsageError, match="11 queries are too few"):
        choose_point(quality[:, :11], [1, 2])


def test_a_sweep_of_a_search_option_builds_one_index(monkeypatch: pytest.MonkeyPatch) -> None:
    built: list[str] = []
    make = searches.build_index

    def build(spec: str, *rest: Any, **how: Any) -> Any:
        built.append(spec)
        return make(spec, *rest, **how)

    monkeypatch.setattr(searches, "build_index", build)
    indexes = [f"faiss:HNSW8?efSearch={value}" for value in (4, 16, 64)]
    result = run_bench(small(), ["lsa:8"], indexes=indexes, threads=1)
    assert built == indexes[:1]
    alone = run_bench(small(), ["lsa:8"], indexes=indexes[-1:], threads=1)
    assert len(built) == 2
    a, b = result.systems[-1], alone.systems[-1]
    assert a.ranking.docs.tolist() == b.ranking.docs.tolist()
    assert a.scores.signature == b.scores.signature
    assert a.result.costs.build_seconds == result.systems[1].result.costs.build_seconds


def test_undefined_queries_are_left_out() -> None:
    quality = np.tile(np.linspace(0.1, 0.9, 30), (2, 1))
    quality[0, 3] = np.nan
    assert choose_point(quality, [2, 1])[1:3][1].n == 15


def test_a_sweep_of_depth_counts_pairs() -> None:
    reranks = ["two=rerank/5:bm25>py:tests.bench.samples:shared_words"]
    plan, curves = Sweep.parse("depth=2,8").expand(BenchPlan.of(["bm25"], reranks=reranks))
    sweep = Sweep("depth", ("2", "8"))
    result = run_bench(small(), plan.models, reranks=plan.reranks, measures="RR")
    (curve,) = sweep_curves(result, sweep, curves, resamples=200)
    assert (curve.unit, curve.measure) == ("pairs/query", "RR")
    assert [point.cost for point in curve.points] == [2.0, 8.0]
    for point, name in zip(curve.points, curves["two"], strict=True):
        assert point.mean.estimate == pytest.approx(result[name].scores.mean()["RR"])
        others = [other for other in curve.points if other is not point]
        assert point.pareto == all(
            point.mean.estimate > other.mean.estimate or point.cost < other.cost for other in others
        )
    assert curve.setting(curve.choice) in curve.verdict
    assert "reported on the other 13" in curve.method
    assert draw_curves([curve]).count("<circle") == 2


def test_an_index_costs_its_median_latency() -> None:
    sweep = Sweep.parse("efSearch=4,64")
    pytest.importorskip("faiss")
    plan, curves = sweep.expand(BenchPlan.of(["lsa:8"], indexes=["faiss:HNSW4"]))
    result = run_bench(small(), plan.models, indexes=plan.indexes, measures="RR")
    (curve,) = sweep_curves(result, sweep, curves, resamples=200)
    systems = [result[name] for name in curves["lsa:8 @ faiss:HNSW4"]]
    reports = [system.result.index for system in systems]
    assert [point.cost for point in curve.points] == [r.latency_ms["p50"] for r in reports if r]


def make_curve() -> SweepCurve:
    spans = [Interval(mean, mean - 0.1, mean + 0.1, 0.95, "t", 20) for mean in (0.5, 0.4, 0.6)]
    costs = (1.0, 2.0, 3.0)
    points = tuple(SweepPoint(str(i), spans[i], costs[i], i != 1) for i in range(3))
    loss = Interval(-0.2, -0.3, -0.1, 0.95, "t", 20)
    return SweepCurve("x", "a", "RR", "ms/query", points, 2, 0, spans[0], loss, 20, 0)


def test_a_choice_that_loses_on_held_out_queries_is_said() -> None:
    page = make_curve().page()
    words = [part.text for part in page if hasattr(part, "role") and part.role == "remark"]
    assert words == [
        "The chosen value is significantly worse on held-out queries. Use x=2, or more queries."
    ]


def test_the_command_prints_draws_and_signs_it(
    assay: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_collection(small(), tmp_path / "made")
    monkeypatch.chdir(tmp_path)
    usual = ["bench", "--corpus", "made", "--model", "bm25", "--model", "tfidf", "--no-cache"]
    usual += ["--resamples", "200"]
    fused = ["--fusion", "combsum:bm25+tfidf"]
    swept = [*usual, *fused, "--sweep", "weight=0.2,0.8"]
    data = json.loads(assay(*swept, "--chart", "curve.svg", "--json").out)
    jsonschema.validate(data, result_schema("bench"))
    (sweep,) = data["sweeps"]
    assert sweep["choice"] == sweep["best"]  # a weight costs nothing
    assert data["signature"].endswith(sweep["method"])
    assert Path("curve.svg").read_text().count("<circle") == 2
    models = "".join(f'[[model]]\nspec = "{name}"\n' for name in ("bm25", "tfidf"))
    Path("bench.toml").write_text(f'corpus = "made"\nsweep = "weight=0.2,0.8"\n{models}')
    text = assay("bench", "bench.toml", "--no-cache", "--resamples", 200, *fused).out
    assert "chosen" in text
    assert "on 12 queries); nDCG@10" in text
    assert "on the 13 held-out queries" in text
    assert "--chart requires --sweep" in assay(*usual, "--chart", "curve.svg").err


@pytest.mark.slow
def test_held_out_intervals_cover_where_those_of_the_winner_do_not() -> None:
    """Eight equal settings: the winner's own interval misses too often, the held-out one does not.

    A random level for each setting makes the means of 8 settings differ by chance alone.
    """
    rng = np.random.default_rng(7)
    n_draws, held, naive = 1500, 0, 0
    for draw in range(n_draws):
        quality = rng.beta(2, 2, (8, 60))
        span = choose_point(quality, [1.0] * 8, resamples=100, seed=draw)[2]
        held += span.low <= 0.5 <= span.high
        best = int(np.argmax(quality.mean(axis=1)))
        own = interval(quality[best], bounds=(0, 1))
        naive += own.low <= 0.5 <= own.high
    assert 0.935 <= held / n_draws <= 0.965
    assert naive / n_draws < 0.88
