"""`assay fuse`: runs in, a run out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from assay import fuse, read_run


@pytest.fixture
def runs(tmp_path: Path) -> list[Path]:
    texts = ["q1 Q0 a 1 9 x\nq1 Q0 b 2 7 x\n", "q1 Q0 b 1 .5 y\nq1 Q0 c 2 .4 y\nq2 Q0 a 1 1 y\n"]
    paths = [tmp_path / name for name in ("one.run", "two.run")]
    for path, text in zip(paths, texts, strict=True):
        path.write_text(text)
    return paths


def test_it_writes_what_the_function_returns(assay: Any, runs: list[Path], tmp_path: Path) -> None:
    target = tmp_path / "both.run"
    done = assay("fuse", *runs, "-o", target)
    assert (done.code, done.out) == (0, "")
    assert "2 queries, 4 results" in done.err
    wanted = fuse([read_run(run) for run in runs])
    assert read_run(target).row("q1") == wanted.row("q1")
    assert target.read_text().splitlines()[0].split()[-1] == "rrf"


def test_options_reach_the_function(assay: Any, runs: list[Path], tmp_path: Path) -> None:
    target = tmp_path / "both.csv"
    options = ["--method", "combmnz", "--normalize", "zscore", "-w", "2", "-w", ".5", "--depth", 2]
    assert assay("fuse", *runs, *options, "-o", target).code == 0
    wanted = fuse(
        [read_run(run) for run in runs],
        method="combmnz",
        normalize="zscore",
        weights=[2, 0.5],
        depth=2,
    )
    assert read_run(target).row("q1") == wanted.row("q1")


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        (["-w", "1"], 3, "weights has 1, rankings has 2"),
        (["-w", "0", "-w", "1"], 3, "Weight 0 is 0.0"),
        (["--method", "borda"], 2, "combsum"),
        (["--rrf-k", "-1"], 2, "rrf-k"),
    ],
)
def test_bad_requests(
    assay: Any, runs: list[Path], tmp_path: Path, options: list[str], code: int, words: str
) -> None:
    done = assay("fuse", *runs, *options, "-o", tmp_path / "both.run")
    assert done.code == code
    assert words in done.err
    assert not (tmp_path / "both.run").exists()


def test_an_input_is_never_overwritten(assay: Any, runs: list[Path]) -> None:
    before = runs[0].read_text()
    assert assay("fuse", *runs, "-o", runs[0]).code != 0
    assert runs[0].read_text() == before
