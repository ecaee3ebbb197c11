"""Reports of labels and diffs, which have no values of queries; details of charts."""

from __future__ import annotations

import re
from datetime import date
from pathlib import Path

import numpy as np
import pytest

from assay.report import make_report
from assay.report.report import save_sections
from assay.report.svg import CostPoint, TrendPoint, cost_picture, histogram, trend_line
from assay.runs import RunRecord
from assay.runs.results import Aggregate
from tests.report.samples import demo_runs


def labelled(name: str = "a vs b") -> RunRecord:
    """A record as `assay compare --pool --save` stores it."""
    lead = "a leads b by 1.1883 on DCG@10 (0.4621 to 1.9145)"
    about = {
        "verdicts": [f"{lead}; more labels do not help; 150 of 866 pairs labelled (17 %)"],
        "remarks": ["2 queries have no label"],
        "signature": "labels:human:150",
    }
    number = Aggregate("DCG@10", 1.1883, low=0.4621, high=1.9145, level=0.95, subset="a − b")
    return RunRecord(name, task="judging", dataset="pool", aggregates=[number], details=about)


@pytest.fixture
def page(tmp_path: Path) -> str:
    path = save_sections([labelled()], tmp_path / "r.html", title="", command="assay report 1")
    return path.read_text()


def test_the_verdict_comes_first_in_a_sentence_with_its_numbers_below(page: str) -> None:
    box = page[page.index('<div class="verdict">') :].partition("</div>")[0]
    assert box == (
        '<div class="verdict"><p>a leads b by 1.1883 on DCG@10 (0.4621 to 1.9145).</p>'
        "<small>more labels do not help; 150 of 866 pairs labelled (17 %)</small>"
    )
    assert page.count("a leads b by") == 1
    assert "<p>2 queries have no label</p>" in page


def test_its_head_has_dataset_and_date_and_no_heading_is_said_twice(page: str) -> None:
    today = f"{date.today():%-d %B %Y}"
    assert f'<h1>a vs b</h1><p class="size">pool · {today}</p>' in page
    heads = re.findall(r"<h2[^>]*>([^<]+)</h2>", page)
    assert heads == ["Verdict from labels", "Numbers from labels", "Signature", "Reproduction"]
    assert "<figcaption>Numbers" not in page
    landmarks = re.findall(r'role="region" aria-label="([^"]+)"', page)
    assert landmarks == ["Table: Numbers from labels"]
    columns = re.findall(r"<th[^>]*>(?:<button[^>]*>)?([^<]+)", page)
    assert columns == ["measure", "of", "estimate", "95 % CI"]


def test_several_records_keep_their_names(tmp_path: Path) -> None:
    records = [labelled("x"), labelled("y")]
    path = save_sections(records, tmp_path / "r.html", title="", command="")
    text = path.read_text()
    assert "Verdict from labels: x" in text
    assert "Numbers from labels: y" in text


def test_two_systems_have_a_row_and_three_have_a_square() -> None:
    runs = demo_runs()
    pair = make_report(runs[:2], resamples=200).to_html()
    assert "pairs with intervals" not in pair.lower()
    assert 'data-file="pairs nDCG@10"' in pair
    assert 'data-file="matrix nDCG@10"' not in pair
    assert 'data-file="matrix nDCG@10"' in make_report(runs, resamples=200).to_html()


@pytest.mark.parametrize(("mean", "side"), [(0.1, "start"), (0.7, "start"), (0.79, "end")])
def test_the_words_of_a_mean_stand_where_a_phone_has_room(mean: float, side: str) -> None:
    assert f'class="mean {side}"' in histogram(np.asarray([0.0, 1.0]), "AP", mean)


def test_a_narrow_range_of_costs_has_numbers_on_its_axis() -> None:
    points = [CostPoint(str(i), 0.0071 + 0.0001 * i, 0.5 + 0.01 * i) for i in range(20)]
    drawn = cost_picture(points, "AP", "search time", lambda cost: f"{1000 * cost:g} ms")
    assert [n for n in ("7 ms", "8 ms", "9 ms") if f">{n}<" in drawn] == ["7 ms", "8 ms", "9 ms"]


@pytest.mark.parametrize(
    ("moments", "words"),
    [
        (["2026-06-02T07:30:00.000000Z", "2026-06-02T08:45:00.000000Z"], ["07:30", "08:45"]),
        (["2026-06-02T07:30:00.000000Z", "2026-11-19T08:45:00.000000Z"], ["2 Jun", "19 Nov"]),
        (
            ["2025-06-02T07:30:00.000000Z", "2026-06-02T08:45:00.000000Z"],
            ["2 Jun 2025", "2 Jun 2026"],
        ),
    ],
)
def test_days_of_a_trend_are_short(moments: list[str], words: list[str]) -> None:
    points = [TrendPoint(when, 0.5, None, None, "same", "/", "") for when in moments]
    below = re.findall(r'dy="1.4em"[^>]*>([^<]+)<', trend_line(points, "AP"))
    assert below == words
