"""A page: words and tables one below the other, as text, Markdown, LaTeX or HTML."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from assay.core.on_demand import OnDemand
from assay.core.text import printable, short_remark
from assay.tables.table import Table, as_markdown, as_text, markdown_text

if TYPE_CHECKING:
    from assay.tables import html, latex
else:
    html = OnDemand("assay.tables.html")
    latex = OnDemand("assay.tables.latex")


@dataclass(frozen=True)
class Words:
    """A paragraph. Its role is verdict, note, signature, remark (what to know about the numbers),
    method (how they were made) or next (what to type now).
    """

    text: str
    role: str = "note"


Page = list[Words | Table]


def brief_page(page: Page, *, whole_signature: bool = False) -> Page:
    """Return the page on one screen.

    Remarks are counted in one line, the signature is an id, methods are left out.
    """
    screen: Page = []
    remarks = [part.text for part in page if isinstance(part, Words) and part.role == "remark"]
    for part in page:
        if isinstance(part, Words) and part.role == "signature":
            screen += [Words(_remark_line(remarks), "remark")]
            remarks = []
            screen.append(part if whole_signature else _signature_id(part))
        elif isinstance(part, Table) or part.role not in ("remark", "method"):
            screen.append(part)
    return screen if not remarks else [*screen, Words(_remark_line(remarks), "remark")]


def _remark_line(remarks: list[str]) -> str:
    """Return one remark as it is.

    Several in a few words each, those of one kind counted.
    """
    kinds = Counter(map(short_remark, remarks))
    if len(remarks) < 2:
        return "".join(f"⚠ {remark}" for remark in remarks)
    words = [kind if n == 1 else f"{kind} ({n}×)" for kind, n in kinds.items()]
    return f"⚠ {' · '.join(words)} · details: --full"


def _signature_id(words: Words) -> Words:
    """Return a few letters that stand for the signature.

    Other letters mean other conventions or data.
    """
    if not words.text:
        return words
    letters = hashlib.sha256(words.text.encode()).hexdigest()[:10]
    return Words(f"signature {letters} (whole: --signature)", "signature")


def text_page(page: Page) -> str:
    """Return plain text."""
    return _lay_out(page, as_text, lambda words: printable(words.text))


def markdown_page(page: Page) -> str:
    """Return markdown: verdicts in bold, the signature as code."""
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
    mark = {"verdict": "strong", "signature": "small"}.get(words.role, "span")
    return f'<p style="overflow-wrap:anywhere"><{mark}>{text}</{mark}></p>'
