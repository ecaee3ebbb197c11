"""Tables in every layout, and on a terminal."""

from __future__ import annotations

import math

import pytest
from rich.console import Console

from assay.cli import terminal
from assay.core.text import Remark, printable
from assay.tables.table import (
    Cell,
    Table,
    Words,
    as_csv,
    as_latex,
    as_markdown,
    as_text,
    brief_page,
    table_of,
)

TABLE = Table(
    ("run", "AP", "num"),
    (
        (Cell("a|b"), Cell(0.123456, "fraction"), Cell(12.0, "count")),
        (Cell("=1+1"), Cell(math.nan, "fraction"), Cell(3.0, "count", best=True)),
    ),
)


def test_text_is_aligned():
    assert as_text(TABLE).splitlines() == [
        "run       AP  num",
        "a|b   0.1235   12",
        "=1+1       –    3",
    ]


class CountedRows(tuple):
    """Rows that count how often they are gone through."""

    walks = 0

    def __iter__(self):
        self.walks += 1
        return super().__iter__()


@pytest.mark.parametrize("write", [as_text, as_markdown, as_csv])
def test_long_tables_are_gone_through_a_few_times_only(write):
    """The text of 8,600 rows took a minute: which columns are text was found out for each row."""
    walks = []
    for length in (2, 200):
        rows = CountedRows((Cell("a"), Cell(0.5, "fraction")) for _ in range(length))
        write(Table(("run", "AP"), rows))
        walks.append(rows.walks)
    assert walks[0] == walks[1]


def test_markdown_escapes_what_it_would_take_for_markup():
    assert as_markdown(TABLE).splitlines()[2:] == [
        r"| a\|b | 0.1235 | 12 |",
        "| =1+1 | – | **3** |",
    ]
    assert as_markdown(Table(("x",), ((Cell("<b>_*"),),))).endswith(r"| \<b\>\_\* |")


def test_csv_keeps_digits_and_disarms_formulas():
    assert as_csv(TABLE).splitlines()[1:] == ["a|b,0.123456,12", "'=1+1,,3"]
    assert as_csv(TABLE, "\t").splitlines()[1] == "a|b\t0.123456\t12"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31mred\x1b[0m", r"\x1b[31mred\x1b[0m"),
        ("a\nb\tc\r", r"a\nb\tc\r"),
        ("\x9b31m\x7f\x00", r"\x9b31m\x7f\x00"),
        ("\u202eevil\u2028", r"\u202eevil\u2028"),
        ("naïve 漢字 🙂", "naïve 漢字 🙂"),
    ],
)
def test_control_characters_are_shown(text, shown):
    assert printable(text) == shown


@pytest.mark.parametrize("width", [40, 80, 120])
def test_a_wide_table_goes_on_below_itself(monkeypatch, width):
    columns = ("run", *(f"P@{k}" for k in range(1, 31)))
    row = (Cell("some-run"), *(Cell(k / 31, "fraction", best=True) for k in range(1, 31)))
    console = Console(width=width, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    monkeypatch.setattr(terminal, "Console", lambda **_: console)
    page = [Words("t", "verdict"), Table(columns, (row,)), Words("s" * 300, "signature")]
    terminal.print_page(page)
    lines = console.export_text().splitlines()
    shown = " ".join(lines).split()
    assert all(f"P@{k}" in shown for k in range(1, 31))
    assert all(f"{k / 31:.4f}" in shown for k in range(1, 31))
    assert all(len(line) <= width for line in lines if "s" * 50 not in line)
    console.file.close()


def test_a_range_keeps_its_dash_in_latex() -> None:
    table = table_of(("model", "95 % CI"), [("a", Cell("39.6–52.2", "figure"))])
    assert r"a & 39.6--52.2 \\" in as_latex(table)
    signed = table_of(("a", "b"), [("x", Cell("-0.5", "figure"))])
    assert r"x & $-$0.5 \\" in as_latex(signed)


def test_information_is_no_warning_on_one_screen() -> None:
    said = [Remark("trained on 9 documents", n=0), Remark("3 queries without judgments", n=True)]
    page = [Words(text, "remark") for text in said] + [Words("v1|seed:0", "signature")]
    warnings = [part.text for part in brief_page(page) if part.role == "remark"]
    assert warnings == ["⚠ 3 queries without judgments"]


def test_a_table_without_headings_has_no_empty_line() -> None:
    assert as_text(Table(("", ""), ((Cell("uid"), Cell("a1")),))) == "uid  a1"
