"""One writer of HTML tables: values, decoration and escaping."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from assay.tables.html import Decoration, ExtraColumn, as_html, html_table, html_text, tag
from assay.tables.table import BOLD, Cell, Table, Words, html_page
from tests.hostile import HOSTILE

TABLE = Table(
    ("run", "AP"),
    (
        (Cell("a"), Cell(0.5, "fraction", best=True)),
        (Cell("b"), Cell(None, "fraction")),
    ),
)


def cells(markup: str, name: str) -> list[ElementTree.Element]:
    return list(ElementTree.fromstring(markup).iter(name))


def text_of(element: ElementTree.Element) -> str:
    return "".join(element.itertext())


def test_every_value_is_a_cell_and_numbers_are_marked():
    heads, found = cells(html_table(TABLE), "th"), cells(html_table(TABLE), "td")
    assert [text_of(one) for one in heads] == ["run", "AP"]
    assert [text_of(one) for one in found] == ["a", "0.5000", "b", "–"]
    assert [one.get("class") for one in found] == [None, "n", None, "n"]
    assert [one.find("strong") is not None for one in found] == [False, True, False, False]


def test_decorations_add_attributes_content_and_columns():
    class Linked(Decoration):
        def extra_columns(self):
            boxes = [tag("input", type="checkbox", value=i) for i in range(2)]
            return [ExtraColumn(-1, "pick", "", boxes), ExtraColumn(0, "picture", "p", ["x", "y"])]

        def cell(self, row, column, cell, left):
            attributes, text = super().cell(row, column, cell, left)
            return {**attributes, "data_row": row}, tag("a", text, href=f"/{row}")

    markup = html_table(TABLE, Linked())
    assert [one.get("class") for one in cells(markup, "th")] == ["pick", None, "picture", "n"]
    assert [one.get("class") for one in cells(markup, "td")][:4] == ["pick", None, "picture", "n"]
    assert [one.get("data-row") for one in cells(markup, "td")][4:] == [None, "1", None, "1"]
    assert [one.get("href") for one in cells(markup, "a")] == ["/0", "/0", "/1", "/1"]


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_stays_text_in_cells_heads_and_attributes(text):
    table = Table((text, "n"), ((Cell(text), Cell(1, "count")),))
    for markup in (html_table(table), as_html(table), tag("p", html_text(text), title=text)):
        tags = {one.tag for one in ElementTree.fromstring(markup).iter()}
        assert tags <= {"table", "thead", "tbody", "tr", "th", "td", "p"}


def test_a_page_for_notebooks_is_one_sequence_of_elements():
    markup = html_page([Words("a < b", "verdict"), TABLE, Words("")])
    parts = list(ElementTree.fromstring(f"<div>{markup}</div>"))
    assert [one.tag for one in parts] == ["p", "table", "p"]
    assert text_of(parts[0]) == "a < b"
    assert text_of(parts[2]) == BOLD
    assert (
        cells(markup.partition("</p>")[2].rpartition("<p")[0], "td")[1].get("style")
        == "text-align:right"
    )
