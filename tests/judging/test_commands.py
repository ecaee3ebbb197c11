"""The commands of judging, and eval and compare with a pool, from files to results."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from assay.io.demo_collection import write_demo
from assay.judging.demo import write_files
from tests.conftest import Answer
from tests.schemas import flaws

Assay = Callable[..., Answer]
POOL = ("--pool", "pool.tsv", "--labels", "pool.labels.jsonl")
TEXTS = ("--queries", "topics.jsonl", "--docs", "notes.jsonl")
MACHINE = ("--machine-labels", "machine.labels.jsonl")
ONE = ("-n", "1", "--seed", "1")
EXTEND = ("--extend", "pool.tsv", "-o", "x.tsv")


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("demo")
    write_demo(folder)
    write_files(folder, np.random.default_rng(0))
    (folder / "kinds.tsv").write_text("query\tkind\nq00\tlong\n")
    return folder


@pytest.fixture
def inside(demo: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(demo)
    return demo


def result_of(answer: Answer) -> dict[str, Any]:
    assert answer.code == 0, answer.err
    data: dict[str, Any] = json.loads(answer.out)
    assert not flaws(data)
    return data


def test_measures_that_are_not_linear_have_bounds(assay: Assay, inside: Path) -> None:
    runs, named = ("dense.run", "lexical.run"), ("-m", "nDCG@10", "-m", "DCG@10")
    data = result_of(assay("compare", *runs, *POOL, *named, "--json"))
    (ends,) = data["bounds"]
    assert ends["worst"] < 0 < ends["best"]
    assert (ends["measure"], ends["exact"], len(data["estimates"])) == ("nDCG@10", True, 1)
    shown = assay("compare", *runs, *POOL, "-m", "AP").out
    assert "AP of dense − lexical: difference −" in shown
    assert ", an outer bound over all grades of the" in shown
    assert "only: its denominator depends on missing labels" in shown
    alone = result_of(assay("eval", "dense.run", *POOL, "-m", "nDCG@10", "--rel", "2", "--json"))
    assert 0 < alone["bounds"][0]["worst"] < alone["bounds"][0]["best"] < 1
    report = assay("compare", *runs, *POOL, "-m", "AP", "--save", "--store", "bounds.db")
    assert report.code == 0, report.err
    assert "outer bounds" in assay("runs", "show", "1", "--store", "bounds.db", "--json").out


def test_compare_with_a_pool(assay: Assay, inside: Path) -> None:
    runs = ("compare", "dense.run", "lexical.run")
    alone = result_of(assay(*runs, *POOL, "--json"))
    helped = result_of(assay(*runs, *POOL, *MACHINE, "--json"))
    assert alone["command"] == "compare labels"
    assert alone["labels"]["machine"] == 0
    first, second = alone["estimates"][0], helped["estimates"][0]
    assert second["high"] - second["low"] < first["high"] - first["low"]
    shown = assay(*runs, *POOL, *MACHINE)
    assert "dense leads lexical on DCG@10" in shown.out
    only = result_of(assay("compare", "dense.run", "-b", "lexical.run", *POOL, "--json"))
    assert only["estimates"][0]["estimate"] == first["estimate"]
    csv = assay(*runs, *POOL, "--format", "csv")
    assert csv.out.startswith("measure,a,b,difference")


def test_eval_with_a_pool(assay: Assay, inside: Path) -> None:
    data = result_of(assay("eval", "dense.run", *POOL, "-m", "P@5", "--json"))
    each = data["estimates"][0]
    assert 0 <= each["low"] <= each["estimate"] <= each["high"]
    full = result_of(assay("eval", "dense.run", "-r", "qrels.txt", "-m", "P@5", "--json"))
    assert each["low"] <= full["runs"][0]["measures"]["P@5"]["mean"] <= each["high"]


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        (("eval", "dense.run", "--pool", "pool.tsv"), "--pool requires --labels"),
        (("eval", "dense.run", *POOL, "-r", "qrels.txt"), "excludes -r"),
        (
            ("pool", "dense.run", "lexical.run", "-m", "nDCG@10", "-o", "x.tsv"),
            "Use P@k, DCG@k and RBP",
        ),
        (("eval", "dense.run", *POOL, "--chance"), "--chance excludes --pool"),
        (("compare", "dense.run", *POOL), "A comparison needs two"),
        (("eval", "coarse.run", *POOL), "DCG@10 of coarse are not in this pool"),
        (("eval", "dense.run", "--pool", "qrels.txt", "--labels", "x"), "not a pool"),
        (("eval", "dense.run", "--pool", "pool.tsv", "--labels", "no.jsonl"), "no.jsonl"),
        (("pool", "dense.run", "-o", "x.tsv"), "Differences need two runs, found 1"),
        (
            ("pool", "dense.run", "lexical.run", "-o", "x.tsv", "--scale", "3"),
            "Cannot read the scale '3'",
        ),
        (("pool", "dense.run", "lexical.run", "-o", "dense.run"), "would be lost"),
        (("judge", "pool.tsv", "--model", "py:a:b", "--labels", "y"), "--queries and --docs"),
        (
            (
                "judge",
                "pool.tsv",
                *TEXTS,
                "--model",
                "py:demo_judge:judge",
                "--labels",
                "y",
                "--prompt",
                "no.txt",
            ),
            "no.txt does not exist",
        ),
        (
            ("label", "pool.tsv", "--terminal", "--guidelines", "qrels.txt"),
            "qrels.txt: write lines as '2: answers in",
        ),
        (("eval", "dense.run", *POOL, "--format", "trec"), "--format trec cannot hold estimates"),
        (("agreement", "pool.labels.jsonl"), "two labellers"),
        (("label", "pool.tsv", "--import", "kinds.tsv"), "cannot tell which column"),
        (("label", "pool.tsv", "--export", "pool.tsv"), "would be lost"),
        (("label", "pool.tsv", "--export", "pool.labels.jsonl"), "would be lost"),
        (("label", "pool.tsv", "--import", "qrels.txt", "--labels", "pool.tsv"), "would be lost"),
        (("label", "pool.tsv", "--terminal", "--kind", "machine"), "--kind requires --import"),
        (
            ("label", "pool.tsv", "--import", "qrels.txt", "--export", "x.csv"),
            "--export excludes --import",
        ),
        (("label", "pool.tsv", "--export", "x.csv", "--twice", "1"), "--twice excludes --export"),
        (
            ("label", "pool.tsv", "--labels", "no-such.jsonl", "--export", "x.csv"),
            "no-such.jsonl does not exist",
        ),
        (("label", "pool.tsv", "--terminal", "--format", "csv"), "--format requires --import or"),
        (
            ("pool", "dense.run", "lexical.run", *EXTEND, "--seed", "5"),
            "--seed excludes --extend, whose pool decides",
        ),
        (
            ("pool", "dense.run", "lexical.run", *EXTEND, "--scale", "0-1"),
            "--scale excludes --extend, whose pool decides",
        ),
        (
            ("pool", "dense.run", "lexical.run", *MACHINE, "-o", "x.tsv"),
            "machine.labels.jsonl states no confidence",
        ),
        (("pool", "dense.run", "lexical.run", *ONE, "-o", "x.tsv"), "No pair of 838 was drawn"),
        (("queries", "searches.csv", "--column", "query", "-o", "x"), "--column requires --log"),
        (
            ("queries", "searches.csv", "--log", "--per-doc", "2", "-o", "x"),
            "--per-doc excludes --log",
        ),
        (("queries", "notes.jsonl", "--cache", "c.jsonl", "-o", "x"), "--cache requires --model"),
        (("queries", "notes.jsonl", "--price", "1", "2", "-o", "x"), "--price requires --model"),
    ],
)
def test_what_does_not_fit_is_said(
    assay: Assay, inside: Path, typed: tuple[str, ...], said: str
) -> None:
    answer = assay(*typed)
    assert answer.code in (2, 3, 5)
    assert said in answer.err
    assert "Traceback" not in answer.err


def test_a_torn_log_is_read_by_every_command(
    assay: Assay, inside: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A killed process leaves a piece of a line; the whole labels count."""
    whole = Path("pool.labels.jsonl").read_bytes()
    first, _, rest = whole.partition(b"\n")
    runs = ("compare", "dense.run", "lexical.run", "--pool", "pool.tsv", "--json")
    expected = result_of(assay(*runs, "--labels", "pool.labels.jsonl"))
    for name, content in (
        ("end", whole + first[:40]),
        ("middle", first + b"\n" + first[:40] + b"\n" + rest),
        ("start", first[:7] + b"\n" + whole),
    ):
        torn = tmp_path / f"{name}.labels.jsonl"
        torn.write_bytes(content)
        result = result_of(assay(*runs, "--labels", str(torn)))
        assert result["estimates"] == expected["estimates"]
        assert result["remarks"] == ["1 truncated lines were skipped"]
        agreed = assay("agreement", str(torn), MACHINE[1], "--resamples", "100")
        assert "on 150 pairs" in agreed.out
    only = tmp_path / "only.labels.jsonl"
    only.write_bytes(first[:30])
    monkeypatch.setattr("sys.stdin", io.StringIO("q\n"))
    again = assay("label", "pool.tsv", "--terminal", "--labels", str(only))
    assert "0 of 150 pairs labelled" in again.out


def test_from_runs_to_a_verdict(assay: Assay, inside: Path, tmp_path: Path) -> None:
    """Pool, import, judge, agreement, compare: what each writes, the next one reads."""
    pool, machine = str(tmp_path / "p.tsv"), str(tmp_path / "m.jsonl")
    made = result_of(assay("pool", "dense.run", "lexical.run", "-n", "80", "-o", pool, "--json"))
    assert made["drawn"] <= made["pairs"]
    texts = ("--queries", "topics.jsonl", "--docs", "notes.jsonl")
    model = ("--model", "py:demo_judge:judge")
    judged = result_of(assay("judge", pool, *model, *texts, "--labels", machine, "--json"))
    assert judged["labelled"] == made["pairs"]
    labels = str(tmp_path / "p.labels.jsonl")
    (tmp_path / "few.csv").write_text(
        "query,doc,grade\n"
        + "".join(
            f"{line.split()[0]},{line.split()[1]},{n % 4}\n"
            for n, line in enumerate(Path(pool).read_text().splitlines()[1:])
            if line.split()[-1] == "1"
        )
    )
    done = assay("label", pool, "--import", str(tmp_path / "few.csv"), "--by", "team")
    assert done.code == 0
    assert f"{made['drawn']} labels" in done.err
    agreed = result_of(assay("agreement", labels, machine, "--resamples", "200", "--json"))
    assert agreed["pairs"] == made["drawn"]
    drawn = ("--pool", pool, "--labels", labels, "--machine-labels", machine)
    verdict = result_of(assay("compare", "dense.run", "lexical.run", *drawn, "--json"))
    assert verdict["labels"] == {
        "pairs": made["pairs"],
        "drawn": made["drawn"],
        "labelled": made["drawn"],
        "machine": made["pairs"],
    }
    for format, file in (("trec", "q.txt"), ("argilla", "a.jsonl"), ("label-studio", "l.json")):
        place = str(tmp_path / file)
        assert assay("label", pool, "--export", place, "--format", format).code == 0
        again = str(tmp_path / f"{format}.jsonl")
        back = assay("label", pool, "--import", place, "--format", format, "--labels", again)
        assert f"{made['drawn']} labels" in back.err
    Path(pool).write_text(Path(pool).read_text().replace('"seed": 0', '"seed": 5'))
    assert "was edited" in assay("label", pool, "--export", str(tmp_path / "x.csv")).err
