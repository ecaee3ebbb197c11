"""The tables of every task as LaTeX, as papers print them."""

from __future__ import annotations

import json

import numpy as np
import pytest

TEXTS = ["red apple", "green pear", "red plum", "blue plum", "green apple"]


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(4)
    np.save("docs.npy", rng.standard_normal((60, 16)).astype(np.float32))
    np.savez("net.npz", scores=rng.standard_normal((20, 4)), targets=rng.integers(0, 4, 20))
    lines = [json.dumps({"id": f"d_{i}", "text": text}) for i, text in enumerate(TEXTS)]
    (tmp_path / "docs.jsonl").write_text("\n".join(lines) + "\n")
    (tmp_path / "queries.jsonl").write_text(lines[0] + "\n" + lines[3] + "\n")
    (tmp_path / "qrels").write_text("d_0 0 d_0 1\nd_3 0 d_3 1\n")
    (tmp_path / "run").write_text("d_0 Q0 d_0 1 3 t\nd_3 Q0 d_0 1 2 t\n")


@pytest.mark.parametrize(
    "line",
    [
        "eval run -r qrels",
        "eval run -r qrels --percent",
        "predict net.npz --histogram",
        "codes --embeddings docs.npy --bits 8 --k 5",
        "bench --corpus docs.jsonl --queries queries.jsonl -r qrels --model bm25 --no-cache",
    ],
)
def test_every_task_has_latex(assay, files, line):
    if "bm25" in line:
        pytest.importorskip("bm25s")
    answer = assay(*line.split(), "--format", "latex")
    assert answer.code == 0, answer.err
    table = answer.out[answer.out.index(r"\begin{tabular}") :]
    assert table.count(r"\begin{tabular}") == table.count(r"\end{tabular}") >= 1
    assert table.count(r"\toprule") == table.count(r"\bottomrule")
    last = max(table.rfind(r"\end{table}"), table.rindex(r"\end{tabular}"))
    outside = table[last:].splitlines()[1:]
    assert all(one.startswith("%") or not one.strip() for one in outside)
    assert "% preset:" in table


def test_runs_of_different_queries_do_not_share_a_number(assay, files, tmp_path):
    """Means of fewer queries must not stand under the number of the first run."""
    (tmp_path / "half").write_text("d_0 Q0 d_0 1 3 t\n")
    line = ("-r", "qrels", "--missing", "skip", "-m", "P@1")
    for runs in (("run", "half"), ("half", "run")):
        latex = assay("eval", *runs, *line, "--format", "latex").out
        assert r"\caption{Means over 1 to 2 queries.}" in latex
        assert "n = 1 to 2 queries." in latex
    alone = assay("eval", "half", *line, "--format", "latex").out
    assert r"\caption{Means over 1 query.}" in alone
