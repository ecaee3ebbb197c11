"""Hostile text in reports stays text. tests/browser opens the same page in Chromium."""

from __future__ import annotations

import csv
import io
import re
from html import unescape
from pathlib import Path

import pytest

from assay.core.text import printable
from assay.report.tables import table_figure
from assay.tables.table import Cell, Table, as_csv, latex_page, markdown_page
from tests.hostile import HOSTILE
from tests.report.samples import hostile_report


@pytest.fixture(scope="module")
def report():
    return hostile_report()


def test_names_are_shown_literally_and_make_no_markup(report):
    page = report.to_html()
    markup = re.sub(r"<(script|style)[^>]*>.*?</\1>", "", page, flags=re.S)
    assert set(re.findall(r"<(\w+)", markup)) <= {
        "html",
        "head",
        "meta",
        "title",
        "body",
        "a",
        "header",
        "div",
        "h1",
        "p",
        "label",
        "select",
        "option",
        "button",
        "main",
        "section",
        "h2",
        "h3",
        "details",
        "summary",
        "wbr",
        "ul",
        "li",
        "figure",
        "figcaption",
        "span",
        "table",
        "thead",
        "tr",
        "th",
        "tbody",
        "td",
        "small",
        "strong",
        "code",
        "pre",
        "noscript",
        "nav",
        "dialog",
        "input",
        "i",
        "svg",
        "g",
        "line",
        "circle",
        "polyline",
        "text",
    }
    shown = unescape(markup)
    for text in HOSTILE:
        assert printable(text) in shown


def test_data_cannot_end_its_block(report):
    page = report.to_html()
    block = re.search(r'<script type="application/json" id="assay-data">(.*?)</script>', page, re.S)
    assert not re.search("[<>&'\u2028\u2029]", block.group(1))


def test_markdown_holds_no_markup_of_names(report):
    text = markdown_page(report.page())
    outside_code = re.sub(r"`[^`\n]*`", "", text)
    assert not re.search(r"(?<!\\)<(script|img|svg|!--)", outside_code)


def test_cells_of_tables_are_no_formulas():
    table = Table(("=x", "name"), tuple((Cell(i, "count"), Cell(t)) for i, t in enumerate(HOSTILE)))
    cells = [cell for row in csv.reader(io.StringIO(as_csv(table))) for cell in row]
    assert not [cell for cell in cells if re.match(r"[=+\-@\t\r]", cell)]
    exact = [
        unescape(x) for x in re.findall(r'data-x="([^"]*)"', table_figure(table, "", file_name=""))
    ]
    assert "'=x" in exact
    for text in HOSTILE:
        if text[0] in "=+-@":
            assert f"'{text}" in exact


def test_latex_commands_in_names_are_text(report):
    lines = latex_page(report.page()).splitlines()
    read = [line for line in lines if not line.startswith("%")]  # the others are comments
    assert not [line for line in read if r"\input{" in line]
    assert [line for line in read if r"\textbackslash{}input\{/etc/passwd\}" in line]
    assert not [line for line in read if re.search(r"(?<!\\)[%#]", line)]


def test_no_terminal_code_reaches_page_or_terminal(report, tmp_path: Path, assay, monkeypatch):
    for text in (report.to_html(), markdown_page(report.page()), latex_page(report.page())):
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f]", text)
    monkeypatch.chdir(tmp_path)
    Path("a\x1b[31m.run").write_text("q Q0 a 1 2 t\x1b[32m\nq Q0 b 2 1 t\x1b[32m\n")
    Path("qrels.txt").write_text("q 0 a 1\n")
    answer = assay("report", "a\x1b[31m.run", "-r", "qrels.txt", "-o", "\x1b[33mr.md")
    assert answer.code == 0, answer.err
    assert "\x1b" not in answer.err
    assert "\x1b" not in Path("\x1b[33mr.md").read_text()
