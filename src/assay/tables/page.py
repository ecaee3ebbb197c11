"""A page: words and tables one below the other, as text, Markdown, LaTeX or HTML."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from assay.core.on_demand import OnDemand
from assay.core.text import printable
from assay.tables.table import Table, as_markdown, as_text, markdown_text

if TYPE_CHECKING:
    from assay.tables import html, latex
else:
    html = OnDemand("assay.tables.html")
    latex = OnDemand("assay.tables.latex")

__all__ = ["Page", "Words", "html_page", "latex_page", "markdown_page", "text_page"]


@dataclass(frozen=True)
class Words:
    """A paragraph; its role is verdict, note or signature."""

    text: str
    role: str = "note"


Page = list[Words | Table]


def text_page(page: Page) -> str:
    """Plain text."""
    return _lay_out(page, as_text, lambda words: printable(words.text))


def markdown_page(page: Page) -> str:
    """Markdown: verdicts in bold, the signature as code."""
    return _lay_out(page, as_markdown, _markdown_words)


def latex_page(page: Page) -> str:
    """LaTeX: verdicts as text, tables with booktabs, the rest as comments."""
    return _lay_out(page, latex.as_latex, _latex_words)


def html_page(page: Page) -> str:
    """HTML for notebooks; nothing in a name is taken for markup."""
    return _lay_out(page, html.as_html, _html_words, "")


def _lay_out(
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
    return (
        latex.latex_text(words.text) if words.role == "verdict" else latex.latex_comment(words.text)
    )


def _html_words(words: Words) -> str:
    text = html.html_text(words.text)
    mark = {"verdict": "strong", "note": "span", "signature": "small"}[words.role]
    return f'<p style="overflow-wrap:anywhere"><{mark}>{text}</{mark}></p>'
