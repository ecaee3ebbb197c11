"""Tables and pages as text, Markdown, LaTeX (booktabs), HTML, CSV and TSV.

A cell holds its value; only the layouts for people round it. Text from outside (names, ids) is
shown with its control characters escaped, so that it can neither move the cursor nor colour a line;
in LaTeX it breaks nothing and runs nothing. A page is words and tables one below the other.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from assay.core.on_demand import OnDemand
from assay.core.text import guard_formula, printable, shorten_remarks, signed

if TYPE_CHECKING:
    from assay.tables import html
else:
    html = OnDemand("assay.tables.html")


UNDEFINED = "–"
# The one meaning of bold, in tables, reports, LaTeX and the dashboard.
BOLD: Final = (
    "Bold: may be the best, that is the highest or not significantly worse than it; "
    "the highest only where nothing was tested."
)

# A repr is read between two lines of a session.
_LINES, _WIDTH, _CHARACTERS = 20, 160, 1600
_WIDE: Final = 6  # columns that fit beside each other on a printed page
_LONG: Final = 70  # characters of a row of small type
_MARKDOWN = re.compile(r"([\\`*_\[\]<>|])")


@dataclass(frozen=True)
class Cell:
    """A value and its format.

    Its kind is text, fraction, difference (with a sign), percent, count or figure (ready to print).
    `best` is bold wherever it is shown, and means what `BOLD` says. `marks` are superscripts that
    LaTeX prints behind the value.
    """

    value: str | float | int | None
    kind: str = "text"
    best: bool = False
    marks: str = ""

    @property
    def text(self) -> str:
        """The value as people read it: rounded, and safe to print."""
        if self.value is None or (isinstance(self.value, float) and math.isnan(self.value)):
            return UNDEFINED
        if self.kind == "fraction":
            return f"{self.value:.4f}"
        if self.kind == "difference":
            return signed(float(self.value))
        if self.kind == "percent":
            return f"{100 * float(self.value):.2f}"
        if self.kind == "count":
            return f"{float(self.value):.0f}"
        return printable(self.value)

    @property
    def exact(self) -> str:
        """The value as programs read it: every digit, and empty where undefined."""
        if self.value is None or (isinstance(self.value, float) and math.isnan(self.value)):
            return ""
        if self.kind == "count":
            return f"{float(self.value):.0f}"
        if self.kind in ("text", "figure"):
            return guard_formula(str(self.value))
        return repr(float(self.value))


@dataclass(frozen=True)
class Table:
    """Rows of cells under column names; text columns stand left, numbers right.

    The last `n_optional` columns are left out where there is no room for them. With a `caption`,
    LaTeX prints a float for a paper, with label and notes.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    n_optional: int = 0
    caption: str = ""
    label: str = ""
    notes: tuple[str, ...] = ()

    @property
    def note(self) -> str:
        """The meaning of bold, where the table has some and does not explain it itself."""
        is_marked = any(cell.best for row in self.rows for cell in row)
        return BOLD if is_marked and BOLD not in self.notes else ""

    @property
    def left(self) -> tuple[bool, ...]:
        """Which columns are text."""
        return tuple(
            all(row[i].kind == "text" for row in self.rows) for i in range(len(self.columns))
        )


def columns_of(table: Table, numbers: Iterable[int]) -> Table:
    """Return some columns of a table, in the order given."""
    keep = list(numbers)
    rows = tuple(tuple(row[i] for i in keep) for row in table.rows)
    return Table(tuple(table.columns[i] for i in keep), rows)


def table_of(columns: Iterable[str], rows: Iterable[Iterable[Any]]) -> Table:
    """Return a table of values: text, whole numbers as counts, others as fractions, or cells.

    >>> print(as_text(table_of(("run", "AP", "p"), [("a", 0.25, Cell("0.01", "figure"))])))
    run      AP     p
    a    0.2500  0.01
    """
    kinds = {str: "text", int: "count"}

    def cell_of(value: Any) -> Cell:
        return value if isinstance(value, Cell) else Cell(value, kinds.get(type(value), "fraction"))

    return Table(tuple(columns), tuple(tuple(map(cell_of, row)) for row in rows))


def as_text(table: Table) -> str:
    """Return columns padded with spaces; one line for each row, so that grep and awk can read it.

    >>> print(as_text(Table(("run", "AP"), ((Cell("a"), Cell(0.25, "fraction")),))))
    run      AP
    a    0.2500
    """
    grid = [[printable(name) for name in table.columns]] if any(table.columns) else []
    grid += [[cell.text for cell in row] for row in table.rows]
    widths, left = column_widths(table), table.left
    return "\n".join(_pad(line, widths, left) for line in grid)


def drop_optional(table: Table, width: int, widths: Sequence[int], gap: int = 2) -> Table:
    """Drop the optional columns that do not fit into a width."""
    n_columns = len(table.columns)
    while n_columns > len(table.columns) - table.n_optional:
        if sum(widths[:n_columns]) + gap * n_columns - 1 <= width:
            break
        n_columns -= 1
    return columns_of(table, range(n_columns))


def split_columns(
    table: Table, width: int, length: Callable[[str], int] = len, gap: int = 2
) -> Iterator[Table]:
    """Yield blocks of columns that fit; each repeats the first and the text columns in front."""
    widths = column_widths(table, length)
    front = next((i for i, left in enumerate(table.left) if not left and i), len(widths))
    fixed = list(range(front))
    used = start = sum(widths[i] + gap for i in fixed) - 1
    columns: list[int] = []
    for i in range(front, len(widths)):
        if columns and used + widths[i] + gap > width:
            yield columns_of(table, fixed + columns)
            columns, used = [], start
        columns.append(i)
        used += widths[i] + gap
    yield columns_of(table, fixed + columns)


def column_widths(table: Table, length: Callable[[str], int] = len) -> list[int]:
    """Return the characters that each column needs."""
    grid = [[printable(name) for name in table.columns]]
    grid += [[cell.text for cell in row] for row in table.rows]
    return [max(length(line[i]) for line in grid) for i in range(len(table.columns))]


def _pad(line: Sequence[str], widths: Sequence[int], left: Sequence[bool]) -> str:
    cells = [
        text.ljust(width) if to_left else text.rjust(width)
        for text, width, to_left in zip(line, widths, left, strict=True)
    ]
    return "  ".join(cells).rstrip()


def as_markdown(table: Table) -> str:
    """Return a Markdown table with the best value of each column in bold.

    >>> print(as_markdown(Table(("run", "AP"), ((Cell("a"), Cell(0.25, "fraction", True)),))))
    | run | AP |
    |:---|---:|
    | a | **0.2500** |
    """
    head = [markdown_text(name) for name in table.columns]
    rule = "|" + "|".join(":---" if left else "---:" for left in table.left) + "|"
    body = [[_markdown_cell(cell) for cell in row] for row in table.rows]
    lines = [f"| {' | '.join(line)} |" for line in [head, *body]]
    return "\n".join([lines[0], rule, *lines[1:]])


def markdown_text(text: object) -> str:
    """Return the text with everything escaped that Markdown would take for markup."""
    return _MARKDOWN.sub(r"\\\1", printable(text))


def _markdown_cell(cell: Cell) -> str:
    text = markdown_text(cell.text) if cell.kind == "text" else cell.text
    return f"**{text}**" if cell.best else text


def as_csv(table: Table, delimiter: str = ",") -> str:
    """Return every digit.

    A name that a spreadsheet would take for a formula gets a leading quote.
    """
    import csv
    from io import StringIO

    buffer = StringIO()
    writer = csv.writer(buffer, delimiter=delimiter, lineterminator="\n")
    writer.writerow([guard_formula(name) for name in table.columns])
    writer.writerows([cell.exact for cell in row] for row in table.rows)
    return buffer.getvalue().rstrip("\n")


_LATEX_SPECIALS: Final = {
    **{mark: f"\\{mark}" for mark in "{}$&#_%"},
    **{mark: rf"\symbol{{{ord(mark)}}}" for mark in "\"'`"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "−": "$-$",
    "–": "--",
    "≤": r"$\leq$",
    "≥": r"$\geq$",
    "κ": r"$\kappa$",
    "τ": r"$\tau$",
    "±": r"$\pm$",
}
_LATEX_SPECIAL: Final = re.compile("|".join(map(re.escape, _LATEX_SPECIALS)))
# A row ends with \\, which would take a [ or * at the start of the next one for its own.
_LATEX_TAKEN: Final = re.compile(r"^(\s*)([\[*])")


def latex_text(text: object) -> str:
    r"""Return the text with everything escaped that LaTeX would take for a command.

    >>> print(latex_text(r"50% of a_b & \input{x}"))
    50\% of a\_b \& \textbackslash{}input\{x\}
    """
    safe = _LATEX_SPECIAL.sub(lambda match: _LATEX_SPECIALS[match.group()], printable(text))
    return _LATEX_TAKEN.sub(r"\1{\2}", safe)


def latex_comment(text: object) -> str:
    """Return a line that LaTeX skips; line breaks in the text are written out."""
    return f"% {printable(text)}"


def as_latex(table: Table) -> str:
    r"""Return a tabular with the rules of booktabs, the best values in bold.

    A table with a caption is a float, its notes below. Superscripts have a column without a gap, so
    that numbers stay aligned.

    >>> print(as_latex(Table(("run", "AP"), ((Cell("a_b"), Cell(0.25, "fraction", True)),))))
    \begin{tabular}{lr}
    \toprule
    run & AP \\
    \midrule
    a\_b & \textbf{0.2500} \\
    \bottomrule
    \end{tabular}
    """
    marked = [any(row[i].marks for row in table.rows) for i in range(len(table.columns))]
    columns = "".join(
        "r@{}l" if is_marked else "l" if left else "r"
        for left, is_marked in zip(table.left, marked, strict=True)
    )
    heads = [
        rf"\multicolumn{{2}}{{c}}{{{latex_text(name)}}}" if is_marked else latex_text(name)
        for name, is_marked in zip(table.columns, marked, strict=True)
    ]
    lines = [
        rf"\begin{{tabular}}{{{columns}}}",
        r"\toprule",
        " & ".join(heads) + r" \\",
        r"\midrule",
        *(" & ".join(map(_latex_cell, row, marked)) + r" \\" for row in table.rows),
        r"\bottomrule",
        r"\end{tabular}",
    ]
    if not table.caption:
        return "\n".join(lines)
    front = [r"\begin{table}[t]", r"\centering", rf"\caption{{{latex_text(table.caption)}}}"]
    front.append(rf"\label{{{table.label}}}")
    if len(table.columns) > _WIDE:
        length = max(sum(len(cell.text) for cell in row) for row in table.rows)
        size, gap = ("small", 3) if length < _LONG else ("scriptsize", 2)
        front.append(rf"\{size}\setlength{{\tabcolsep}}{{{gap}pt}}")
    notes = " ".join(map(latex_text, table.notes))
    below = [rf"\par\smallskip\parbox{{\linewidth}}{{\footnotesize {notes}}}"] if notes else []
    return "\n".join([*front, *lines, *below, r"\end{table}"])


def _latex_cell(cell: Cell, is_marked: bool) -> str:
    text = "--" if cell.text == UNDEFINED else latex_text(cell.text)
    text = re.sub("^  ", r"\\quad ", text)
    if cell.kind != "text":
        text = re.sub(r"(?<![\w$-])-(?=\d)", "$-$", text)
    text = rf"\textbf{{{text}}}" if cell.best else text
    marks = rf"\textsuperscript{{{latex_text(cell.marks)}}}" if cell.marks else ""
    return f"{text} & {marks}".rstrip() if is_marked else text


# Pages


@dataclass(frozen=True)
class Words:
    """A paragraph. Its role is verdict, numbers (behind it), note, signature, remark (what to know
    about the numbers), method (how they were made), footnote (below a table) or next (a command).
    """

    text: str
    role: str = "note"


Page = list[Words | Table]


def brief_page(page: Page, *, whole_signature: bool = False) -> Page:
    """Return the page on one screen.

    Remarks are counted in one line, the signature is an id, methods are left out.
    """
    screen: Page = []
    texts = [part.text for part in page if isinstance(part, Words) and part.role == "remark"]
    remarks = [remark for remark in texts if getattr(remark, "n", 1)]
    for part in page:
        if isinstance(part, Words) and part.role == "signature":
            signature = part if whole_signature else _signature_id(part)
            screen, remarks = [*screen, Words(_remark_line(remarks), "remark"), signature], []
        elif isinstance(part, Table) or part.role not in ("remark", "method"):
            screen.append(part)
    return screen if not remarks else [*screen, Words(_remark_line(remarks), "remark")]


def _remark_line(remarks: list[str]) -> str:
    """Return one remark as it is, several in a few words each."""
    if len(remarks) < 2:
        return "".join(f"⚠ {remark}" for remark in remarks)
    return f"⚠ {' · '.join(shorten_remarks(remarks))} · details: --full"


def _signature_id(words: Words) -> Words:
    """Return a few letters that stand for the signature.

    Other letters mean other conventions or data.
    """
    if not words.text:
        return words
    letters = hashlib.sha256(words.text.encode()).hexdigest()[:10]
    return Words(f"signature {letters} (whole: --signature)", "signature")


def text_page(page: Page) -> str:
    """Return plain text; the numbers of a verdict stand in the line below it."""
    return _lay_out(page, as_text, lambda words: printable(words.text), near="\n")


def markdown_page(page: Page) -> str:
    """Return markdown: verdicts in bold, the signature as code."""
    return _lay_out(page, as_markdown, _markdown_words)


def latex_page(page: Page) -> str:
    """Return LaTeX: verdicts as text, tables with booktabs, the rest as comments."""
    return _lay_out(page, as_latex, _latex_words)


def html_page(page: Page) -> str:
    """Return HTML for notebooks; names are never taken for markup."""
    return _lay_out(page, html.as_html, _html_words, "")


class Shown:
    """A result with a `page`: short as a repr, whole when printed and in a notebook.

    A repr too long for a page is taken from its `screen`, if there is one, and cut.
    """

    def __str__(self: Any) -> str:
        """Return the whole page as text."""
        return text_page(self.page())

    def __repr__(self: Any) -> str:
        text = str(self)
        if hasattr(self, "screen") and not _is_short(text):
            text = text_page(self.screen())
        lines = [line[:_WIDTH] + "…" * (len(line) > _WIDTH) for line in text.split("\n")[:_LINES]]
        while not _is_short(text):
            lines.pop()
            text = "\n".join([*lines, "… print() shows all"])
        return text

    def _repr_html_(self: Any) -> str:
        return html_page(self.page())


def _is_short(text: str) -> bool:
    return text.count("\n") < _LINES and len(text) <= _CHARACTERS


def explain_bold(page: Page) -> Page:
    """Return the page with a footnote on bold below the last table that has some."""
    if any(isinstance(part, Table) and BOLD in part.notes for part in page):
        return page
    last = max(
        (i for i, part in enumerate(page) if isinstance(part, Table) and part.note), default=-1
    )
    return [*page[: last + 1], *([Words(BOLD, "footnote")] if last >= 0 else []), *page[last + 1 :]]


def _lay_out(
    page: Page,
    table: Callable[[Table], str],
    words: Callable[[Words], str],
    gap: str = "\n\n",
    near: str = "",
) -> str:
    parts = [part for part in page if isinstance(part, Table) or part.text]
    text = ""
    for part in parts if table is as_text else explain_bold(parts):
        close = near if isinstance(part, Words) and part.role == "numbers" else ""
        laid = table(part) if isinstance(part, Table) else words(part)
        text += ((close or gap) if text else "") + laid
    return text


def _markdown_words(words: Words) -> str:
    if words.role == "signature":
        return f"`{printable(words.text)}`"
    text = markdown_text(words.text)
    return f"**{text}**" if words.role == "verdict" else text


def _latex_words(words: Words) -> str:
    if words.role == "footnote":
        return rf"{{\footnotesize {latex_text(words.text)}\par}}"
    as_text = words.role in ("verdict", "numbers")
    return latex_text(words.text) if as_text else latex_comment(words.text)


def _html_words(words: Words) -> str:
    text = html.html_text(words.text)
    mark = {"verdict": "strong", "signature": "small"}.get(words.role, "span")
    return f'<p style="overflow-wrap:anywhere"><{mark}>{text}</{mark}></p>'
