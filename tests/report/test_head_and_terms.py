"""The head of a report, short lists, curves that end early, and terms that explain themselves."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import date
from html import unescape
from pathlib import Path

import pytest

from assay import judge, preset, score
from assay.cli.main import main
from assay.io.demo_collection import make_demo
from assay.io.formats import as_ranking
from assay.report import make_report
from assay.report.svg import curve_lines
from assay.report.tables import explain_terms
from assay.runs import RunRecord
from tests.hostile import HOSTILE
from tests.report.samples import demo_report, demo_runs


def head_of(page: str) -> list[str]:
    header = page.partition("<header>")[2].partition('<div class="controls">')[0]
    return [unescape(text) for text in re.findall(r">([^<]+)<", header)]


def test_the_head_says_dataset_queries_and_date_and_nothing_twice():
    runs = [replace(run, dataset="demo") for run in demo_runs()]
    report = make_report(runs, resamples=100, date="18 November 2026")
    assert head_of(report.to_html()) == ["3 runs compared", "demo · 50 queries · 18 November 2026"]
    titled = make_report(runs, resamples=100, title="Which engine?")
    assert head_of(titled.to_html()) == ["Which engine?", "3 runs · demo · 50 queries"]
    alone = make_report(runs[:1], resamples=100)
    assert head_of(alone.to_html()) == ["dense", "demo · 50 queries"]


def test_equal_reports_give_equal_bytes():
    assert demo_report(date="x").to_html() == demo_report(date="x").to_html()


def test_the_command_names_judgments_and_the_day(tmp_path: Path):
    folder = tmp_path / "files"
    assert main(["demo", "--files", str(folder), "--quiet"]) == 0
    files = [str(folder / name) for name in ("dense.run", "lexical.run")]
    page = tmp_path / "report.html"
    args = ["report", *files, "-r", str(folder / "qrels.txt"), "-o", str(page)]
    days = {f"{date.today():%-d %B %Y}"}
    assert main(args) == 0
    days.add(f"{date.today():%-d %B %Y}")  # it may be midnight
    _, facts = head_of(page.read_text())
    assert facts in {f"judgments qrels.txt · 50 queries · {day}" for day in days}


def first_of(ranking, depth: int) -> dict[str, dict[str, float]]:
    """The first documents of every query, with their scores."""
    parts = {
        str(query): slice(start, start + depth)
        for query, start in zip(ranking.query_ids, ranking.offsets[:-1], strict=True)
    }
    return {
        query: dict(
            zip(ranking.doc_ids.take(ranking.docs[part]), ranking.scores[part], strict=True)
        )
        for query, part in parts.items()
    }


@pytest.fixture(scope="module")
def cut_report():
    """Two runs, one of which returns ten documents for a query."""
    rankings, qrels = make_demo()
    runs = []
    for name, depth in (("dense", 100), ("lexical", 10)):
        hits = judge(as_ranking(first_of(rankings[name], depth), preset("trec_eval")), qrels)
        runs.append(RunRecord(name, score(hits, ["nDCG@10", "AP"]), hits=hits))
    return make_report(runs, resamples=100)


def test_short_lists_are_something_to_know(cut_report):
    short = [remark for remark in cut_report.remarks if "returns at most" in remark]
    assert short == [
        "lexical: returns at most 10 documents for a query, others up to 100: beyond rank 10 it "
        "can gain nothing"
    ]
    page = cut_report.to_html()
    known = page.partition('<section id="disclosures"')[2].partition("</section>")[0]
    assert "<h3>Short lists</h3><ul><li>lexical: returns at most 10" in known
    assert "Short lists: lexical ends at 10." in page
    assert not [remark for remark in demo_report().remarks if "returns at most" in remark]


@pytest.mark.parametrize(("length", "said"), [(50, True), (51, False), (99, False)])
def test_only_lists_of_half_the_length_or_less_are_short(length, said):
    rankings, qrels = make_demo()
    runs = []
    for name, depth in (("dense", 100), ("lexical", length)):
        ranked = as_ranking(first_of(rankings[name], depth), preset("trec_eval"))
        hits = judge(ranked, qrels)
        runs.append(RunRecord(name, score(hits, ["nDCG@10"]), hits=hits))
    remarks = make_report(runs, resamples=100).remarks
    assert any("returns at most" in remark for remark in remarks) is said


def test_a_name_stands_at_the_end_of_its_line():
    chart = curve_lines(
        {"long": [(1, 0.9), (10, 0.5), (100, 0.6)], "cut": [(1, 0.8), (10, 0.4)]}, "x"
    )
    places = dict(re.findall(r'<text x="([\d.]+)%"[^>]*class="name">(\w+)<', chart))
    assert places == {"100": "long", "50": "cut"}
    names = [f"s{i}" for i in range(30)]  # equal ends are moved apart, those of others are not
    equal = curve_lines({name: [(1, 0.5), (10, 0.5)] for name in names} | {"cut": [(1, 0.5)]}, "x")
    labels = re.findall(r'<text x="([\d.]+)%" y="([\d.]+)%"[^>]*class="name">(\w+)<', equal)
    ends = [float(y) for x, y, name in labels if name != "cut"]
    assert len({round(y, 2) for y in ends}) == 30
    assert [(float(x), float(y)) for x, y, name in labels if name == "cut"] == [(0, 50)]


def test_terms_are_buttons_that_open_their_meaning():
    page = demo_report().to_html()
    targets = re.findall(r'popovertarget="([^"]+)"', page)
    assert len(targets) == len(set(targets)) >= 4
    for target in targets:
        assert re.search(rf'<span id="{target}" popover="auto">[^<]{{20,}}</span>', page)
    shown = re.findall(r'class="term"[^>]*>([^<]+)<', page)
    assert {"nDCG@10", "AP", "group", "max-t", "p"} <= set(shown)
    assert "group" not in re.findall(
        r'class="term"[^>]*>([^<]+)<', demo_report(baseline="dense").to_html()
    )


@pytest.mark.parametrize("text", HOSTILE)
def test_unknown_and_hostile_terms_are_left_out(text):
    assert explain_terms([text]) == ""
