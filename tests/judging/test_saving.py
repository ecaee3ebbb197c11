"""Estimates and agreement in a store: listed, repeated, verified, reported, on the dashboard."""

from __future__ import annotations

import html
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from assay import store as stores
from assay.io.demo_collection import write_demo
from assay.judging import Label, LabelSet, estimate_from_labels, make_pool, read_pool
from assay.judging.demo import write_files
from assay.runs.record import RunRecord
from assay.runs.results import QueryResults, ResultDoc
from tests.conftest import Answer
from tests.judging.samples import make_runs
from tests.web.samples import Client

Assay = Callable[..., Answer]
POOL = ("--pool", "pool.tsv", "--labels", "pool.labels.jsonl")
MACHINE = ("--machine-labels", "machine.labels.jsonl")
RUNS = ("dense.run", "lexical.run")
SIGNATURE = "labels:human:150 of 866 pairs|machine:866 by demo|pool:"


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("demo")
    write_demo(folder)
    write_files(folder, np.random.default_rng(0))
    return folder


@pytest.fixture
def stored(demo: Path, assay: Assay, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store of a comparison (1), two means (2, 3), an agreement (4) and an ordinary run (5)."""
    monkeypatch.chdir(demo)
    place = tmp_path / "assay.db"
    save = ("--save", "--store", str(place), "--dataset", "demo")
    labels = ("pool.labels.jsonl", "machine.labels.jsonl")
    for command in (
        ("compare", *RUNS, *POOL, *MACHINE),
        ("eval", *RUNS, *POOL),
        ("agreement", *labels, "--resamples", "200"),
        ("eval", "dense.run", "-r", "qrels.txt", "-m", "nDCG@10"),
    ):
        answer = assay(*command, *save)
        assert answer.code == 0, answer.err
    return place


def test_records_say_what_was_printed(assay: Assay, stored: Path) -> None:
    shown = assay("compare", *RUNS, *POOL, *MACHINE, "--json")
    first = json.loads(shown.out)["estimates"][0]
    with stores.open(str(stored)) as store:
        run = store.run(1)
        number = run.aggregates[0]
        assert (run.task, run.dataset, run.name) == ("judging", "demo", "dense vs lexical")
        assert (number.value, number.low, number.high) == tuple(
            first[key] for key in ("estimate", "low", "high")
        )
        assert (number.subset, number.n, run.n_queries) == ("dense − lexical", 50, 50)
        assert run.signature.startswith(SIGNATURE)
        assert run.config["pool"] == "pool.tsv"
        assert {"pool.tsv", "pool.labels.jsonl", "machine.labels.jsonl", *RUNS} == {*run.data}
        assert [store.run(n).name for n in (2, 3)] == ["dense", "lexical"]
        assert store.run(4).aggregates[2].measure == "weighted κ"
        assert store.run(5).task == "retrieval"
        assert "pool" not in store.run(5).config


def test_stored_estimates_are_listed_and_shown(assay: Assay, stored: Path) -> None:
    listed = assay("runs", "list", "--store", str(stored), "--task", "judging")
    assert "dense vs lexical" in listed.out
    shown = assay("runs", "show", "1", "--store", str(stored))
    assert SIGNATURE in shown.out
    assert "difference from drawn labels" in shown.out


@pytest.mark.parametrize("number", ["1", "2", "4"])
def test_stored_estimates_are_repeated(assay: Assay, stored: Path, number: str) -> None:
    answer = assay("runs", "rerun", number, "--store", str(stored))
    assert answer.code == 0, answer.err
    assert f"has the same numbers as run {number}" in answer.err


def test_a_repetition_with_other_labels_is_told_apart(
    assay: Assay, stored: Path, demo: Path
) -> None:
    file = demo / "pool.labels.jsonl"
    before = file.read_text()
    file.write_text("".join(before.splitlines(keepends=True)[:-20]))
    try:
        answer = assay("runs", "rerun", "1", "--store", str(stored))
    finally:
        file.write_text(before)
    assert answer.code == 1
    assert "pool.labels.jsonl has changed" in answer.err
    assert "dense vs lexical: run 6 differs in numbers from run 1" in answer.err


def test_results_of_labels_are_verified(assay: Assay, stored: Path, tmp_path: Path) -> None:
    for command in (
        ("compare", *RUNS, *POOL, *MACHINE, "--within", "0.3"),
        ("agreement", "pool.labels.jsonl", "machine.labels.jsonl", "--resamples", "200"),
    ):
        file = str(tmp_path / "result.json")
        assert assay(*command, "--json", "-o", file).code == 0
        answer = assay("verify", file)
        assert "reproduced to the last digit" in answer.out, answer.err


@pytest.mark.parametrize(
    ("runs", "ending"), [(("1", "2"), "html"), (("5", "1"), "html"), (("1",), "md")]
)
def test_a_report_tells_of_labels(
    assay: Assay, stored: Path, tmp_path: Path, runs: tuple[str, ...], ending: str
) -> None:
    file = tmp_path / f"report.{ending}"
    answer = assay("report", *runs, "--store", str(stored), "-o", str(file))
    assert answer.code == 0, answer.err
    page = html.unescape(file.read_text())
    assert "150 of 866 pairs labelled (17 %)" in page
    assert "dense leads lexical on" in page
    assert SIGNATURE.partition("|")[0] in page
    assert "dense − lexical" in page
    assert ("nDCG@10" in page) == ("5" in runs)


def test_the_dashboard_tells_of_labels(stored: Path) -> None:
    client = Client(stored)
    views = client("/run/1.json").json["views"]
    assert views[0]["text"].startswith("dense leads lexical on")
    assert views[0]["text"].endswith("; 150 of 866 pairs labelled (17 %)")
    page = client("/run/1").text.replace("<wbr>", "")
    verdict = page[page.index('<div class="verdict">') :].partition("</div>")[0]
    assert verdict.startswith('<div class="verdict"><p>dense leads lexical on')
    assert "<small>" in verdict
    assert "150 of 866 pairs labelled (17 %)</small>" in verdict
    assert page.count("dense leads lexical on") == 1
    assert page.count(html.escape(SIGNATURE)) == 1  # among the facts of the run
    assert "weighted κ" in html.unescape(client("/run/4").text)
    assert client("/run/5.json").json["views"] == []
    for page in ("/", "/runs", "/leaderboard", "/compare?runs=1,5", "/run/3"):
        assert client(page).status < 500, page


def test_labels_to_come_are_planned_from_the_design() -> None:
    runs = make_runs(2, 60, 10)
    pool = make_pool(runs, 150)
    names = [pool.names[place] for place in pool.order.tolist()]
    labels = LabelSet(tuple(Label(q, d, sum(map(ord, q + d)) % 4) for q, d in names))
    plain = estimate_from_labels(runs, pool, labels).estimates[0]
    assert plain.within == plain.interval.half_width / 2
    wide = estimate_from_labels(runs, pool, labels, within=plain.interval.half_width * 0.8)
    assert 0 < wide.estimates[0].more < len(pool)
    assert f"about {wide.estimates[0].more:,.0f} more labels for ± " in wide.verdict()
    narrow = estimate_from_labels(runs, pool, labels, within=1e-6)
    assert "for ± 1e-06 add queries, not labels" in narrow.verdict()
    enough = estimate_from_labels(runs, pool, labels, within=plain.interval.half_width * 2)
    assert enough.verdict().endswith(")")


def test_a_plan_needs_a_pool(assay: Assay, demo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(demo)
    answer = assay("eval", "dense.run", "-r", "qrels.txt", "--within", "0.1")
    assert (answer.code, "--pool" in answer.err) == (2, True)
    answer = assay("eval", "dense.run", *POOL, "--within", "-1")
    assert (answer.code, "must be a number above 0" in answer.err) == (2, True)


def rows_of(run: dict[str, list[str]]) -> dict[str, Any]:
    return {
        query: QueryResults(
            query, tuple(ResultDoc(doc, 1.0 / (n + 1), None) for n, doc in enumerate(docs))
        )
        for query, docs in run.items()
    }


def test_a_pool_of_stored_runs_and_of_a_folder_is_that_of_the_files(
    assay: Assay, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    runs = make_runs(2)
    Path("runs").mkdir()
    with stores.open("assay.db") as store:
        for name, rows in runs.items():
            store.save(RunRecord(name, results=rows_of(rows)))
            lines = (f"{q} Q0 {d} {n} {-n} x\n" for q, ds in rows.items() for n, d in enumerate(ds))
            Path(f"runs/{name}.run").write_text("".join(lines))
        store.save(RunRecord("bare"))
    for number, words in enumerate((("runs",), ("1", "2"), ("run:1", "2"))):
        answer = assay("pool", *words, "-n", "9", "-o", f"p{number}.tsv")
        assert answer.code == 0, answer.err
    digests = {read_pool(f"p{number}.tsv").digest for number in range(3)}
    assert digests == {make_pool(runs, 9).digest}
    assert "the first 6 documents of each query are stored" in answer.err
    pairs = read_pool("p2.tsv")
    drawn = [pairs.names[place] for place in pairs.order.tolist()]
    lines = [f"{query},{doc},{n % 4}\n" for n, (query, doc) in enumerate(drawn)]
    Path("labels.csv").write_text("".join(["query,doc,grade\n", *lines]))
    labels = ("--pool", "p2.tsv", "--labels", "labels.csv", "--json")
    estimates = json.loads(assay("compare", "1", "2", *labels).out)
    limits = [f"{name}: the first 6 documents of each query are stored" for name in runs]
    assert [remark for remark in estimates["remarks"] if "stored" in remark] == limits
    agreed = ("agreement", "labels.csv", "labels.csv", "--run", "1", "--run", "2", "--json")
    assert json.loads(assay(*agreed).out)["remarks"][-2:] == limits
    assert "Run 3 has no stored results" in assay("pool", "1", "3", "-o", "x.tsv").err
    Path("empty").mkdir()
    assert "holds no run files" in assay("pool", "empty", "-o", "x.tsv").err
    assert assay("pool", "1", "99", "-o", "x.tsv").code != 0
