"""All pairs as a table of colours."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from assay.report.tables import PairMark, pair_marks, pair_matrix
from tests.hostile import HOSTILE
from tests.report.samples import demo_report


def cells_of(markup: str) -> list[list[ElementTree.Element]]:
    return [list(row) for row in ElementTree.fromstring(markup).iter("tr")]


def test_differences_stand_above_the_diagonal_and_p_below():
    comparison = demo_report().comparison
    names, marks = pair_marks(comparison, "AP")
    assert names == [one.name for one in comparison.standings_on("AP")]
    rows = cells_of(pair_matrix(names, marks))[1:]
    for pair in comparison.pairs_on("AP"):
        i, j = sorted((names.index(pair.a), names.index(pair.b)))
        difference = pair.interval_of(names[i]).estimate
        above, below = rows[i][j + 1], rows[j][i + 1]
        assert float("".join(above.itertext())) == pytest.approx(difference, abs=6e-4)
        shown = "".join(below.itertext())
        assert float(shown.lstrip("<")) == pytest.approx(pair.p, abs=1e-3)
        for cell in (above, below):
            shaded = (cell.get("class") or "").startswith("heat")
            assert shaded == (pair.winner is not None)
            assert not cell.findall(".//strong")  # bold means something else
    assert [rows[i][i + 1].get("class") for i in range(3)] == ["same"] * 3


def test_the_largest_difference_has_the_strongest_shade():
    marks = {(0, 1): PairMark(0.1, 0.01, True), (0, 2): PairMark(0.4, 0.001, True)}
    marks[1, 2] = PairMark(0.3, 0.2, False)
    rows = cells_of(pair_matrix(["a", "b", "c"], marks))[1:]
    assert [rows[0][2].get("class"), rows[0][3].get("class")] == ["heat s2", "heat s9"]
    assert rows[1][3].get("class") is None


def test_cells_are_links_where_addresses_are_given_and_names_stay_text():
    several = [(i, j) for j in range(len(HOSTILE)) for i in range(j)]
    marks = {pair: PairMark(float("nan"), float("nan"), False) for pair in several}
    markup = pair_matrix(HOSTILE, marks, lambda i, j: f"/compare?runs={i},{j}&x=<")
    found = ElementTree.fromstring(markup)
    assert len(list(found.iter("a"))) == len(several)
    assert not [node for node in found.iter() if node.tag in ("script", "img", "svg")]
    assert next(found.iter("a")).get("href") == "/compare?runs=0,1&x=<"
