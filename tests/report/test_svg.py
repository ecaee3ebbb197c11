"""Charts of the dashboard: every value is where it belongs, whatever the names."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import numpy as np
import pytest

from assay.report.svg import (
    QueryBar,
    TrendPoint,
    difference_bars,
    histogram,
    interval_strip,
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
        ):
            assert not [node for node in parsed(chart).iter() if node.tag in ("script", "img")]
    assert interval_strip(Scale(0, 1), None, None, None) == ""
    assert parsed(interval_strip(Scale(0, 1), 0.5, 0.4, 0.6, chance=0.1)).get("aria-label") == (
        "0.5000 from 0.4000 to 0.6000"
    )
