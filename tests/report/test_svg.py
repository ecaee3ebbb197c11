"""Charts as SVG: every value is where it belongs, whatever the names."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import numpy as np
import pytest

from assay.report.svg import (
    CostPoint,
    QueryBar,
    TrendPoint,
    cost_picture,
    curve_lines,
    difference_bars,
    histogram,
    interval_strip,
    pareto_front,
    trend_line,
)
from assay.tables.svg import Scale
from tests.hostile import HOSTILE


def bar_of(position: int) -> QueryBar:
    return QueryBar(f"/query?query=q{position}", f"q{position}")


def parsed(markup: str) -> ElementTree.Element:
    return ElementTree.fromstring(str(markup))


def test_histogram_counts_every_query_once():
    rng = np.random.default_rng(0)
    values = rng.random(500)
    values[:30] = np.nan
    counts = [
        int(n.replace(",", ""))
        for n in re.findall(r": ([\d,]+) queries</title>", histogram(values, "AP", 0.5))
    ]
    assert sum(counts) == 470
    assert histogram(np.full(3, np.nan), "AP", None) == ""
    assert "1,000 queries" in histogram(np.ones(1000), "AP", 1.0)


def test_bars_are_wins_then_losses():
    found = parsed(difference_bars(np.asarray([-0.5, 0.25, np.nan, 0.0, 0.75]), "x", bar_of))
    kinds = [rect.get("class") for rect in found.iter("rect")]
    assert kinds == ["win", "win", "loss"]
    links = [link.get("href")[-2:] for link in found.iter("a")]
    assert links == ["q4", "q1", "q0"]
    assert [tip.text for tip in found.iter("title")] == links
    heights = [float(rect.get("height").rstrip("%")) for rect in found.iter("rect")]
    assert heights[0] == pytest.approx(3 * heights[1], rel=1e-2)
    many = parsed(difference_bars(np.random.default_rng(1).normal(size=100_000), "x", bar_of))
    assert 300 < len(list(many.iter("rect"))) <= 400


def test_hostile_names_make_no_markup():
    for text in HOSTILE:
        points = [TrendPoint("2026-01-01", 0.5, None, None, "same", "/run/1?x=<", text)]
        for chart in (
            trend_line(points, text),
            difference_bars(np.ones(3), text, lambda _, text=text: QueryBar("/query", text)),
            histogram(np.ones(3), text, 1.0),
            curve_lines({text: [(1, 0.5), (10, 0.6)]}, text),
            cost_picture([CostPoint(text, 1, 0.5), CostPoint("b", 2, 0.6)], text, text, str),
        ):
            assert not [node for node in parsed(chart).iter() if node.tag in ("script", "img")]
    assert interval_strip(Scale(0, 1), None, None, None) == ""
    assert parsed(interval_strip(Scale(0, 1), 0.5, 0.4, 0.6, chance=0.1)).get("aria-label") == (
        "0.5000 from 0.4000 to 0.6000"
    )


def curves_of(n: int) -> ElementTree.Element:
    points = [(1, 0.2), (10, 0.4), (100, 0.5)]
    return parsed(curve_lines({f"system {i}": points for i in range(n)}, "nDCG"))


@pytest.mark.parametrize(("n", "size"), [(3, "low"), (20, "high"), (40, "higher"), (60, "higher")])
def test_curves_are_named_at_their_ends_and_names_do_not_touch(n, size):
    found = curves_of(n)
    assert found.get("class") == f"plot curves {size}"
    assert len(list(found.iter("polyline"))) == n
    height = {"low": 280, "high": 420, "higher": 620}[size]
    places = sorted(
        float(text.get("y").rstrip("%")) * height / 100
        for text in found.iter("text")
        if text.get("class") == "name"
    )
    assert len(places) == min(n, 40)
    assert min(np.diff(places)) >= 14.9
    assert places[-1] <= height + 1e-6


def test_curves_are_drawn_on_a_logarithmic_axis():
    (path,) = curves_of(1).iter("polyline")
    places = [tuple(map(float, place.split(","))) for place in path.get("points").split()]
    assert [x for x, _ in places] == [0, 50, 100]
    heights = [y for _, y in places]
    assert (heights[0] - heights[1]) == pytest.approx(2 * (heights[1] - heights[2]))


def test_the_front_is_what_nothing_cheaper_beats():
    rng = np.random.default_rng(2)
    points = [CostPoint(f"s{i}", *pair) for i, pair in enumerate(rng.random((30, 2)).tolist())]
    front = pareto_front(points)
    for point in points:
        beaten = any(
            (other.cost <= point.cost and other.value > point.value)
            or (other.cost < point.cost and other.value >= point.value)
            for other in points
        )
        assert (point in front) != beaten


def test_costs_stand_on_a_logarithmic_axis_with_intervals():
    points = [
        CostPoint("cheap", 0.001, 0.4, 0.3, 0.5),
        CostPoint("dear", 0.1, 0.6, 0.5, 0.7),
        CostPoint("worse", 0.01, 0.35),
        CostPoint("unknown", 0.0, 0.9),
    ]
    found = parsed(cost_picture(points, "AP", "search time", lambda cost: f"{cost:g} s"))
    marks = {mark.get("data-system"): mark for mark in found.iter("g")}
    assert [marks[name].get("class") for name in ("cheap", "dear", "worse")] == [
        "system first",
        "system first",
        "system",
    ]
    assert "unknown" not in marks
    across = {name: float(mark.find("circle").get("cx")[:-1]) for name, mark in marks.items()}
    assert across["worse"] == pytest.approx((across["cheap"] + across["dear"]) / 2, abs=0.01)
    assert len(marks["dear"].findall("line")) == 1
    assert not marks["worse"].findall("line")
    assert marks["dear"].find("title").text == "dear: 0.6000 [0.5000, 0.7000], 0.1 s"
    assert cost_picture(points[:1], "AP", "search time", str) == ""
    linked = cost_picture([CostPoint("a", 1, 0.1, href="/run/1"), points[0]], "AP", "x", str)
    assert parsed(linked).find(".//a").get("href") == "/run/1"
