"""What a command says where it was mistyped: what exists, and what to type."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import Answer

Assay = Callable[..., Answer]
pytestmark = pytest.mark.usefixtures("folder")
EVAL = ("eval", "run.txt", "-r", "qrels.txt")
COMPARE = ("compare", "run.txt", "other.txt", "-r", "qrels.txt")


@pytest.mark.parametrize(
    ("typed", "code", "said"),
    [
        ((*COMPARE, "--alpha", "0.01"), 2, "Unknown option --alpha. It is called --level here"),
        ((*COMPARE, "--resample", "9"), 2, "Did you mean --resamples"),
        ((*EVAL, "--qrel", "x"), 2, "Did you mean --qrels"),
        (("eval", "run.txt", "qrels.txt"), 2, "type `assay eval run.txt -r qrels.txt`"),
        (("eval", "run.txt"), 2, "For example: `assay eval dense.run --qrels qrels.txt`"),
        (("eval", "rnu.txt", "-r", "qrels.txt"), 5, "rnu.txt does not exist. Did you mean run.txt"),
        (("eval", "no/run.txt", "-r", "qrels.txt"), 5, "There is no folder no either"),
        (("bench", "--corpus", "nothere", "--model", "bm25"), 5, "nothere does not exist"),
        (("predict", "nofile.npy"), 5, "nofile.npy does not exist"),
        (("runs", "list"), 5, "assay eval run.txt -r qrels.txt --save"),
        (("runs", "list", "--store", "s.db"), 5, "--store s.db"),
        (("verify",), 2, "For example: `assay verify scores.json`"),
        (("rank",), 2, "For example: `assay rank queries.npy docs.npy"),
    ],
)
def test_a_message_says_what_to_type(
    assay: Assay, typed: tuple[str, ...], code: int, said: str
) -> None:
    answer = assay(*typed)
    assert (answer.code, answer.out) == (code, "")
    assert said in answer.err
    assert "\\n" not in answer.err


def test_measures_may_be_listed(assay: Assay, folder: Path) -> None:
    listed = assay(*EVAL, "-m", "nDCG@10", "AP", "P@1")
    assert (listed.code, listed.err) == (0, "")
    assert listed.out == assay(*EVAL, "-m", "nDCG@10", "-m", "AP", "-m", "P@1").out
    (folder / "AP").write_text((folder / "run.txt").read_text())
    assert assay("compare", "run.txt", "-r", "qrels.txt", "-m", "RR", "AP").out.count("AP") > 1


def test_an_endpoint_without_its_key_is_named_before_any_request(
    assay: Assay, monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    (folder / "d.jsonl").write_text('{"_id": "a", "text": "x"}\n')
    (folder / "q.tsv").write_text("q1\tx\n")
    (folder / "j.txt").write_text("q1 0 a 1\n")
    files = ("--corpus", "d.jsonl", "--queries", "q.tsv", "-r", "j.txt", "--no-cache")
    answer = assay("bench", *files, "--model", "openai:text-embedding-3-small")
    assert answer.code == 2
    assert "needs a key. Set OPENAI_API_KEY" in answer.err


@pytest.mark.parametrize(
    ("typed", "cure"),
    [
        (EVAL, "a smaller --depth or fewer runs"),
        (("measures",), "smaller files"),
    ],
)
def test_memory_that_runs_out_names_options_that_the_command_has(
    assay: Assay, monkeypatch: pytest.MonkeyPatch, typed: tuple[str, ...], cure: str
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise MemoryError

    monkeypatch.setattr("assay.cli.output.emit", fail)
    answer = assay(*typed)
    assert answer.code == 5
    assert f"out of memory. Use {cure}" in answer.err
