"""The kit for static charts, and the heat map that is built on it."""

from __future__ import annotations

import re
from importlib.resources import files
from xml.etree import ElementTree

import numpy as np
import pytest

from assay.tables.svg import COLOURS, Drawing, Scale, circle, group, heat_map, rect, shade, svg_text
from tests.hostile import HOSTILE


@pytest.mark.parametrize("ends", [(0, 1), (0.3123, 0.3127), (-5, 1200), (1e-9, 2e-9), (-3, -2)])
def test_ticks_are_few_round_and_inside(ends):
    scale = Scale(*map(float, ends))
    ticks = scale.ticks()
    assert 2 <= len(ticks) <= 6
    assert all(scale.low <= tick <= scale.high for tick in ticks)
    steps = np.diff(ticks)
    assert np.allclose(steps, steps[0], rtol=1e-3)


def test_a_scale_of_one_value_or_none_has_a_length():
    for values in ([], [None], [float("nan")], [0.5], [0.0], [0.5, 0.5]):
        scale = Scale.around(values)
        assert scale.low < scale.high
        assert scale.ticks()


def test_shades_darken_and_stay_inside_the_range():
    lightness = [sum(bytes.fromhex(shade(share)[1:])) for share in (0, 0.01, 0.2, 0.5, 1)]
    assert lightness == sorted(lightness, reverse=True)
    assert shade(-1) == shade(0)
    assert shade(2) == shade(1)


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_words_make_no_elements(text):
    marks = svg_text(0, 0, text) + rect(0, 0, 1, 1, tip=text) + circle(0, 0, 1, fill=text)
    found = ElementTree.fromstring(group(0, 0, marks))
    assert {one.tag for one in found.iter()} <= {"g", "text", "rect", "title", "circle"}


def test_drawings_are_stacked_below_one_another():
    whole = Drawing.stack([Drawing(10, 5, circle(1, 1, 1)), Drawing(7, 6, circle(2, 2, 1))])
    assert (whole.width, whole.height) == (10, 11)
    root = ElementTree.fromstring(whole.to_svg())
    groups = root.findall("{*}g")
    assert [one.get("transform") for one in groups] == ["translate(0 0)", "translate(0 5)"]
    assert root.get("viewBox") == "0 0 10 11"


def test_every_share_above_zero_is_a_cell_of_the_heat_map():
    shares = np.asarray([[0.25, 0.75, 0.0], [0.0, 1.0, 0.0], [np.nan] * 3])
    drawing = heat_map(["a", "b", "c"], shares, title="t", rows="query", columns="retrieved")
    tips = re.findall(r"<title>(.*?)</title>", drawing.marks)
    assert tips == ["a → a: 0.2500", "a → b: 0.7500", "b → b: 1.0000", "c: no queries"]


def test_the_style_sheet_of_the_dashboard_uses_the_colours_of_the_kit():
    style = (files("assay.web") / "assets" / "dashboard.css").read_text("utf-8").lower()
    named = dict(re.findall(r"--(blue|orange|chart): (#[0-9a-f]{6})", style))
    assert set(named.values()) <= set(COLOURS)
    assert named.keys() == {"blue", "orange", "chart"}
