"""A page: words and tables one below the other, as text, Markdown, LaTeX or HTML."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from html import escape

from assay.core.text import printable
from assay.tables.latex import as_latex, latex_comment, latex_text
from assay.tables.table import Cell, Table, as_markdown, as_text, markdown_text

__all__ = ["Page", "Words", "as_html", "html_page", "latex_page", "markdown_page", "text_page"]


@dataclass(frozen=True)
class Words:
    """A paragraph; its role is verdict, note or signature."""

    text: str
    role: str = "note"


Page = list[Words | Table]


def text_page(page: Page) -> str:
    """Plain text."""
    return _laid_out(page, as_text, lambda words: printable(words.text))


def markdown_page(page: Page) -> str:
    """Markdown: verdicts in bold, the signature as code."""
    return _laid_out(page, as_markdown, _markdown_words)


def latex_page(page: Page) -> str:
    """LaTeX: verdicts as text, tables with booktabs, the rest as comments."""
    return _laid_out(page, as_latex, _latex_words)


def html_page(page: Page) -> str:
    """HTML for notebooks; nothing in a name is taken for markup."""
    return _laid_out(page, as_html, _html_words, "")


def _laid_out(
    page: Page, table: Callable[[Table], str], words: Callable[[Words], str], gap: str = "\n\n"
) -> str:
    parts = [part for part in page if isinstance(part, Table) or part.text]
    return gap.join(table(part) if isinstance(part, Table) else words(part) for part in parts)


def _markdown_words(words: Words) -> str:
    if words.role == "signature":
        return f"`{printable(words.text)}`"
    text = markdown_text(words.text)
    return f"**{text}**" if words.role == "verdict" else text


def _latex_words(words: Words) -> str:
    return latex_text(words.text) if words.role == "verdict" else latex_comment(words.text)


def _html_words(words: Words) -> str:
    text = escape(printable(words.text))
    mark = {"verdict": "strong", "note": "span", "signature": "small"}[words.role]
    return f'<p style="overflow-wrap:anywhere"><{mark}>{text}</{mark}></p>'


def as_html(table: Table) -> str:
    """One table element, the best values in bold.

    Notebooks bring style sheets of their own, so that text and numbers say where they stand.

    >>> as_html(Table(("run",), ((Cell("<b>"),),))).partition("<tbody>")[2]
    '<tr><td style="text-align:left">&lt;b&gt;</td></tr></tbody></table>'
    """
    sides = ["left" if left else "right" for left in table.left]
    head = "".join(map(_head, table.columns, sides))
    body = "".join(f"<tr>{''.join(map(_cell, row, sides))}</tr>" for row in table.rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _head(name: str, side: str) -> str:
    return f'<th style="text-align:{side}">{escape(printable(name))}</th>'


def _cell(cell: Cell, side: str) -> str:
    shown = escape(cell.shown)
    shown = f"<strong>{shown}</strong>" if cell.best else shown
    return f'<td style="text-align:{side}">{shown}</td>'
