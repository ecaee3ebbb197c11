"""Numbers at the ends of their range through every command: no warning of numpy, no exit 70.

pytest turns warnings into errors, so that a command which warns ends with 70.
"""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import numpy as np
import pytest

from assay.search.fusion import METHODS

LARGE, SMALL = 1.7e308, 5e-324
SCORES = (LARGE, -LARGE, SMALL, -SMALL, 0.0, -0.0, 1.0)
GRADES = (1e150, SMALL, 1, 0, -1, 2**53, 2**31)
N = 12
CODES = ("codes", "--embeddings", "v.npy", "--k", "2", "--bits", "4", "--method")
VECTORS = {
    "large": np.full((N, 4), 3.4e38, np.float32) * np.tile([1, -1], (N, 2)).astype(np.float32),
    "small": np.full((N, 4), 1e-45, np.float32),
    "huge": np.linspace(1, LARGE, N * 4).reshape(N, 4),
    "mixed": np.geomspace(1e-38, 3e38, N * 4, dtype=np.float32).reshape(N, 4),
    "half": np.full((N, 4), 65504, np.float16),
    "integers": np.full((N, 4), -(2**63), np.int64),
    "bytes": np.full((N, 4), -128, np.int8),
}
LOGITS = {
    "large": np.tile([LARGE, -LARGE, 1.0], (N, 1)),
    "infinite": np.tile([-np.inf, 0.0, 1.0], (N, 1)),
    "lost": np.full((N, 3), -np.inf),
    "small": np.tile([SMALL, -SMALL, 0.0], (N, 1)),
    "half": np.tile([65504, -65504, 0], (N, 1)).astype(np.float16),
    "probabilities": np.tile([0.0, 1.0, 0.0], (N, 1)),
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for system, shift in (("a", 0), ("b", 3)):
        lines = [
            f"q{query} Q0 d{doc} 1 {SCORES[(doc + shift + query) % len(SCORES)]!r} {system}\n"
            for query, doc in itertools.product(range(N), range(len(SCORES)))
        ]
        (tmp_path / f"{system}.run").write_text("".join(lines))
    qrels = {
        f"q{query}": {f"d{doc}": GRADES[(doc + query) % len(GRADES)] for doc in range(5)}
        for query in range(N)
    }
    (tmp_path / "qrels.json").write_text(json.dumps(qrels))
    (tmp_path / "binary.json").write_text(json.dumps({f"q{i}": {"d1": 1} for i in range(N)}))
    np.save("targets.npy", np.arange(N) % 3)
    np.save("labels.npy", np.arange(N) % 3)
    rows = [("system", "task", "value")]
    rows += [
        (system, f"t{task}", repr(SCORES[(task + shift) % len(SCORES)]))
        for system, shift in (("s1", 0), ("s2", 1), ("s3", 2))
        for task in range(7)
    ]
    (tmp_path / "tasks.csv").write_text("\n".join(map(",".join, rows)))
    return tmp_path


RUNS = (
    "eval a.run b.run -r QRELS",
    "eval a.run -r QRELS -m all_trec",
    "eval a.run -r QRELS --per-query --json",
    "check a.run QRELS",
    "explain a.run -r QRELS --query q1",
    "compare a.run b.run -r QRELS --resamples 100",
    "compare a.run b.run -r QRELS --resamples 100 --test t",
    "compare a.run b.run -r QRELS --resamples 100 --test wilcoxon --json",
    "compare a.run -r QRELS --baseline b.run --resamples 100 --fail-if-worse",
    "report a.run b.run -r QRELS --resamples 100 -o o.html",
    "trec_eval -q -c -m all_trec QRELS a.run",
    "convert a.run o.json",
)


@pytest.mark.parametrize("qrels", ["qrels.json", "binary.json"])
@pytest.mark.parametrize("command", RUNS)
def test_scores_and_grades(folder, assay, command, qrels):
    answer = assay(*command.replace("QRELS", qrels).split())
    assert answer.code in (0, 1, 3), answer.err


@pytest.mark.parametrize("method", METHODS)
def test_fusion(folder, assay, method):
    scales = (None,) if method == "rrf" else ("minmax", "zscore", "none")
    for scale in scales:
        more = () if scale is None else ("--normalize", scale)
        answer = assay("fuse", "a.run", "b.run", "--method", method, *more, "-o", "f.run")
        assert answer.code in (0, 3), answer.err


@pytest.mark.parametrize("kind", VECTORS)
def test_vectors(folder, assay, kind):
    np.save("v.npy", VECTORS[kind])
    for metric in ("cosine", "dot", "l2"):
        answer = assay("rank", "v.npy", "v.npy", "-k", 2, "--metric", metric, "-o", "o.run")
        assert answer.code in (0, 1, 3), answer.err
    for words in (
        (*CODES, "sign", "gaussian", "itq", "float16", "int8", "int4", "rabitq:1"),
        (*CODES, "sign", "asymmetric", "--labels", "labels.npy"),
        ("crossmodal", "--modality", "a=v.npy", "--modality", "b=v.npy", "--labels", "labels.npy"),
    ):
        answer = assay(*words)
        assert answer.code in (0, 1, 3), answer.err


@pytest.mark.parametrize("kind", LOGITS)
def test_logits(folder, assay, kind):
    np.save("l.npy", LOGITS[kind])
    kinds = [("--confidence", "--scores", kind) for kind in ("logits", "probabilities")]
    for more in ((), *kinds):
        answer = assay("predict", "l.npy", "--targets", "targets.npy", *more)
        assert answer.code in (0, 1, 3), answer.err


def test_values_of_tasks(folder, assay):
    answer = assay("tasks", "tasks.csv", "--resamples", "100")
    assert answer.code in (0, 1, 3), answer.err
