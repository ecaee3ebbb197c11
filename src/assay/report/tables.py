"""Tables of a report: means with marks, what stands behind them, and how the page shows tables.

On the page tables sort, filter, print, and can be copied or downloaded. Some are coloured: all
pairs of systems, shares by rank, means by group. The style sheet has a shade for each step from s0
to s9, light and dark.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from assay.comparison.paper import paper_table
from assay.comparison.verdict import Verdict, verdict_words
from assay.core.text import guard_formula, printable
from assay.errors import MeasureError, PluginError, error_text
from assay.measures import parse
from assay.plugins import find_hooks
from assay.report.chart_data import Row
from assay.report.svg import interval_strip
from assay.runs.leaderboard import Leaderboard
from assay.scoring.scores import describe_counts
from assay.stats.choices import MOST_PAIRS
from assay.stats.corrections import split_letters
from assay.tables.html import (
    Attributes,
    Decoration,
    ExtraColumn,
    Markup,
    cell_text,
    html_table,
    html_text,
    tag,
)
from assay.tables.svg import Scale, percent, svg_text
from assay.tables.table import Cell, Page, Table, Words, columns_of, table_of

if TYPE_CHECKING:
    from assay.comparison.compare import Comparison
    from assay.measures import Measure
    from assay.report.report import Report


_BETTER: Final = "*"
_WORSE: Final = "†"


def means_table(board: Leaderboard) -> tuple[Table, list[list[str]]]:
    """Return runs × measures, in bold what may be the best, and the marks of each row.

    `marks_note` explains the marks. The last row is chance, where it is known.
    """
    names = [standing.name for standing in board.standings_on(board.measures[0])]
    columns = [_column(board, str(measure)) for measure in board.measures]
    rows = [(Cell(name), *(column[name] for column in columns)) for name in names]
    each = [_marks(board, str(measure)) for measure in board.measures]
    marks = [[column_marks.get(name, "") for column_marks in each] for name in names]
    chances = [board.chance_on(measure) for measure in board.measures]
    if not all(map(math.isnan, chances)):
        rows.append((Cell("chance"), *(Cell(chance, "fraction") for chance in chances)))
        marks.append([""] * len(chances))
    return Table(("run", *map(str, board.measures)), tuple(rows)), marks


def overview_table(board: Leaderboard) -> Table:
    """Return the table of means with each mark behind its mean."""
    table, marks = means_table(board)

    def add_mark(cell: Cell, mark: str) -> Cell:
        return Cell(f"{cell.text} {mark}", "figure", cell.best) if mark else cell

    pairs = zip(table.rows, marks, strict=True)
    rows = [(row[0], *map(add_mark, row[1:], signs)) for row, signs in pairs]
    return Table(table.columns, tuple(rows))


def _column(board: Leaderboard, measure: str) -> dict[str, Cell]:
    """Return the cells of one measure."""
    rows = board.standings_on(measure)
    return {row.name: Cell(row.mean.estimate, "fraction", row.leads) for row in rows}


def _marks(board: Leaderboard, measure: str) -> dict[str, str]:
    comparison = board.comparison
    if comparison is None:
        return {}
    if comparison.baseline is None:
        return {row.name: row.letters for row in comparison.standings_on(measure)}
    words = {"better": _BETTER, "worse": _WORSE}
    return {pair.a: words.get(pair.outcome, "") for pair in comparison.pairs_on(measure)}


def marks_note(board: Leaderboard) -> str:
    """Explain the marks behind the means."""
    comparison = board.comparison
    if comparison is None:
        return ""
    if comparison.baseline is None:
        return "Runs that share a letter on a measure do not differ significantly on it."
    return f"{_BETTER} better and {_WORSE} worse than {comparison.baseline}, by the test below."


def counts_table(board: Leaderboard) -> Table:
    """Return how many queries stand behind which means; what is alike, once."""
    counted: dict[str, list[tuple[str, str]]] = {}
    for run in board.runs:
        counts = run.scored().mean().counts
        alike: dict[str, list[str]] = {}
        for name in counts:
            alike.setdefault(describe_counts(counts[name]), []).append(name)
        whole = len(alike) == 1
        counted[run.name] = [("all" if whole else ", ".join(m), text) for text, m in alike.items()]
    first, *rest = counted.values()
    if rest and all(pairs == first for pairs in rest):
        counted = {"all": first}
    rows = ((run, *pair) for run, pairs in counted.items() for pair in pairs)
    return table_of(("run", "measures", "queries"), rows)


def provenance_table(board: Leaderboard) -> Table | None:
    """Return where each run comes from; None where nothing is known."""
    keys = list(dict.fromkeys(key for run in board.runs for key in run.provenance))
    if not keys:
        return None
    rows = tuple(
        (Cell(run.name), *(Cell(run.provenance.get(key)) for key in keys)) for run in board.runs
    )
    return Table(("run", *keys), rows)


def single_table(board: Leaderboard, measure: Measure) -> Table:
    """Return one run alone: its mean and interval."""
    standing = board.standings_on(measure)[0]
    cells = (standing.name, standing.mean.estimate, standing.mean.cell())
    return table_of(("run", "mean", standing.mean.heading(standing.mean.level)), [cells])


def first_pair(comparison: Comparison, measure: str) -> tuple[str, str]:
    """Return the pair to show first: the best, and the baseline or the next that differs."""
    first, *others = (row.name for row in comparison.standings_on(measure))
    if comparison.baseline is not None:
        return others[0] if first == comparison.baseline else first, comparison.baseline
    same = [
        {pair.a, pair.b} for pair in comparison.pairs_on(measure) if pair.outcome == "identical"
    ]
    return first, next((name for name in others if {first, name} not in same), others[0])


def ranked_table(comparison: Comparison, measure: str) -> Table:
    """Return the systems on one measure with their ranks in front."""
    table = comparison.table(measure)
    rank = table.columns.index("rank")
    return columns_of(table, [rank, *(i for i in range(len(table.columns)) if i != rank)])


_TERMS: Final = {
    "group": "Runs that share a letter do not differ significantly from each other.",
    "interval": "The range in which the mean of all such queries lies, at the stated confidence.",
    "p": "How often chance alone gives a difference this large; small means significant.",
    "max-t": "A correction for testing many pairs: the significance level holds for all of them "
    "together.",
    "nDCG": "Ranking quality from 0 to 1: relevant documents count more the higher they stand; "
    "1 is the best possible order.",
}


def method_terms(comparison: Comparison | None) -> list[str]:
    """Return the terms that a reader of a comparison meets."""
    if comparison is None:
        return ["interval"]
    letters = ["group"] if comparison.baseline is None else []
    return ["p", "interval", *letters, *re.findall("max-t", comparison.method)[:1]]


def say_verdict(verdict: Verdict, comparison: Comparison | None) -> tuple[str, str, str]:
    """Return the verdict in one plain sentence, its numbers, and how they were tested."""
    numbers = ". ".join(filter(None, (verdict.numbers, verdict.holes)))
    how = comparison and comparison.method.partition(". ")[0].removeprefix("p: ")
    return verdict.headline, numbers, f"Test: {how}" if how else ""


def verdict_box(sentence: str, *small: str, measure: int | None = None) -> str:
    """Write a verdict: its sentence large, its numbers and method small below."""
    lines = [f"<p>{html_text(sentence)}.</p>", *(tag("small", html_text(s)) for s in small if s)]
    return tag("div", "".join(lines), class_="verdict", data_measure=measure)


def explain_terms(words: Iterable[str]) -> Markup:
    """Write terms as buttons that open their meaning, by mouse, keyboard and touch; once a page."""
    written = []
    for number, word in enumerate(dict.fromkeys(words)):
        text = _TERMS.get(word) or _TERMS.get(word.partition("@")[0])
        with suppress(MeasureError):
            text = text or parse(word).definition.summary
        if text:
            id = f"term-{number}"
            button = tag("button", html_text(word), type="button", class_="term", popovertarget=id)
            written.append(button + tag("span", html_text(text), id=id, popover="auto"))
    return Markup(tag("span", "Terms: " + " ".join(written), class_="terms") if written else "")


def report_page(report: Report, *, paper: bool = False) -> Page:
    """Lay out verdicts, means with marks, pairs, disclosures, and the command.

    With `paper`, the means are a table with caption, label, superscripts and notes.
    """
    page: Page = [*verdict_words(report.verdicts.values())]
    headline = str(report.measures[0])
    comparison = report.comparison
    if paper and comparison is not None:
        page.append(paper_table(comparison, label="tab:report", system="Run"))
    else:
        page += [overview_table(report), Words(marks_note(report))]
    if comparison is not None and len(comparison.pairs_on(headline)) <= MOST_PAIRS:
        page += [Words(f"Pairs on {headline}"), comparison.pair_table(headline)]
    if comparison is not None and comparison.slices is not None:
        page += comparison.slices.page_on(headline)
    page += section_words(report.plugin_sections)
    page += [Words(remark, "remark") for remark in report.remarks]
    for run in report.runs:
        if run.provenance:  # in a line: a table would be too wide
            parts = ", ".join(f"{key} {value}" for key, value in run.provenance.items() if value)
            page.append(Words(f"{run.name}: {parts}"))
    page += [Words(report.method, "method"), Words(report.aligned.signature, "signature")]
    if report.command:
        page += [Words("Make it again:"), Words(report.command, "signature")]
    return page


def section_words(sections: Iterable[tuple[str, Table | str]]) -> Page:
    """Lay out the sections of plugins, each under its title."""
    page: Page = []
    for title, part in sections:
        lines = [part] if isinstance(part, Table) else map(Words, part.splitlines())
        page += [Words(title), *lines]
    return page


def plugin_parts(hook: str, subject: Any) -> list[tuple[str, Table | str]]:
    """Return what plugins add to a page: titles, each with a table or a text.

    Args:
        hook: `report_sections` or `dashboard_views`.
        subject: What the functions of the hook get: the records, or the run.

    Raises:
        PluginError: A plugin fails, or returns something else.
    """
    parts: list[tuple[str, Table | str]] = []
    for function in find_hooks(hook):
        name = f"{function.__module__}.{function.__qualname__} ({hook})"
        try:
            answer = [(str(title), part) for title, part in function(subject)]
        except Exception as error:  # whatever another package raises
            raise PluginError(
                f"The plugin function {name} failed: {error_text(error)}. "
                "Repair or uninstall its package."
            ) from error
        for title, part in answer:
            if not isinstance(part, Table | str):
                raise PluginError(
                    f"The plugin function {name} returns {type(part).__name__} for {title!r}, not "
                    "a table or a text. Repair or uninstall its package."
                )
        parts += answer
    return parts


# Tables on the page

# Columns in which less is better, so that the first click shows the smallest.
_SMALL_FIRST: Final = ("rank", "p")
_LONG: Final = 40  # rows; longer tables scroll inside, and print in part
_WIDEST: Final = 6
MOST_IN_MATRIX: Final = 30  # systems; a larger square is not readable
_STEPS: Final = 10


class Sortable(Decoration):
    """Heads to click; beside what people see, what a program should read where that differs.

    `best` is the column by which the rows are sorted already.
    """

    best: int | None = None

    def head(self, column: int, name: str, left: bool) -> tuple[Attributes, str]:
        """Write the name as a button."""
        attributes, text = super().head(column, name, left)
        exact = guard_formula(name)
        attributes["data_x"] = exact if exact != printable(name) else None
        attributes["data_up"] = "" if left or name in _SMALL_FIRST else None
        attributes["aria_sort"] = "descending" if column == self.best else None
        return attributes, tag("button", text or "–", type="button")

    def cell(self, row: int, column: int, cell: Cell, left: bool) -> tuple[Attributes, str]:
        """Write the value, with all digits for programs."""
        exact = cell.exact
        return {
            "class_": None if left else "n",
            "data_x": exact if exact != cell.text else None,
        }, cell_text(cell)


class MarkedTable(Sortable):
    """Marks in a narrow column of their own behind each number, so that decimals align."""

    best = 1

    def __init__(self, marks: Sequence[Sequence[str]], n_runs: int) -> None:
        self._marks = [[_brief(mark) for mark in row] for row in marks]
        self._n_runs = n_runs
        widest = max((len(mark) for row in self._marks for mark in row), default=0)
        self._mark_class = f"m{min(widest, _WIDEST)}"

    def cell(self, row: int, column: int, cell: Cell, left: bool) -> tuple[Attributes, str]:
        """Write a number and its mark; rows after those of the runs stay last."""
        attributes, text = super().cell(row, column, cell, left)
        if not column:
            return {**attributes, "class_": None if row < self._n_runs else "last"}, text
        mark = tag("i", html_text(self._marks[row][column - 1]), class_=self._mark_class)
        return {**attributes, "data_x": cell.exact}, text + mark


def _brief(letters: str) -> str:
    """Shorten group letters: three or more in a row become a range.

    >>> _brief("abcdfg"), _brief("*")
    ('a–dfg', '*')
    """
    letters_of = split_letters(letters)
    if len(letters_of) < 3 or any(len(letter) > 1 for letter in letters_of):
        return letters
    parts = [[letters_of[0]]]
    for letter in letters_of[1:]:
        if ord(letter) == ord(parts[-1][-1]) + 1:
            parts[-1].append(letter)
        else:
            parts.append([letter])
    return "".join(f"{p[0]}–{p[-1]}" if len(p) > 2 else "".join(p) for p in parts)


class BoardTable(Sortable):
    """A leaderboard: beside each interval its picture, and the ends of the scale in the head."""

    def __init__(self, rows: Sequence[Row], chance: float | None, table: Table) -> None:
        self.best = at = table.columns.index("mean")
        self._classes = {at - 1: "name", at + 1: "wide"}
        ends = [row[key] for row in rows for key in ("mean", "low", "high")]
        scale = Scale.around(ends).extend([chance])
        strips = [
            interval_strip(
                scale, row["mean"], row["low"], row["high"], chance=chance, first=row["first"]
            )
            for row in rows
        ]
        ticks = [
            svg_text(percent(scale.at(tick)), "75%", f"{tick:g}", class_="middle")
            for tick in scale.ticks(4)
        ]
        words = tag("span", "interval", class_="unseen")
        head = words + tag("svg", "".join(ticks), class_="scale", aria_hidden="true")
        self._strips = ExtraColumn(at, "picture", head, strips)

    def extra_columns(self) -> Sequence[ExtraColumn]:
        """Return the intervals as pictures."""
        return (self._strips,)

    def head(self, column: int, name: str, left: bool) -> tuple[Attributes, str]:
        """Mark what a phone leaves out."""
        attributes, text = super().head(column, name, left)
        return self._add_class(attributes, column), text

    def cell(self, row: int, column: int, cell: Cell, left: bool) -> tuple[Attributes, str]:
        """Mark the name, and what a phone leaves out."""
        attributes, text = super().cell(row, column, cell, left)
        if not column and 0 not in self._classes:  # a rank with its interval
            rank, _, ends = text.partition(" ")
            text = f"{rank} {tag('span', ends, class_='wide')}" if ends else rank
        return self._add_class(attributes, column), text

    def _add_class(self, attributes: Attributes, column: int) -> Attributes:
        """Mark names; and the ends of intervals, which a picture shows on a phone, too."""
        kind = " ".join(filter(None, (attributes.get("class_"), self._classes.get(column))))
        return {**attributes, "class_": kind or None}


def shade_steps(values: Sequence[Sequence[float]]) -> list[list[int | None]]:
    """Return a step from 0 to 9 for each number, smallest to largest.

    >>> shade_steps([[0.0, 0.5], [1.0, math.nan]])
    [[0, 5], [9, None]]
    """
    defined = [value for row in values for value in row if not math.isnan(value)]
    low, high = min(defined, default=0.0), max(defined, default=0.0)
    size = (high - low) / _STEPS or 1.0
    return [
        [None if math.isnan(v) else min(int((v - low) / size), _STEPS - 1) for v in row]
        for row in values
    ]


class HeatTable(Sortable):
    """Numbers on shades from the smallest of the table to the largest."""

    def __init__(self, values: Sequence[Sequence[float]]) -> None:
        self._steps = shade_steps(values)

    def cell(self, row: int, column: int, cell: Cell, left: bool) -> tuple[Attributes, str]:
        """Write a number on its shade."""
        attributes, text = super().cell(row, column, cell, left)
        step = self._steps[row][column - 1] if column else None
        if step is not None:
            attributes["class_"] = f"n heat s{step}"
        return attributes, text


def table_figure(
    table: Table | str,
    caption: str,
    *,
    file_name: str,
    look: Decoration | None = None,
    kind: str = "",
    titled: bool = False,
) -> str:
    """Write a table that can be sorted, copied, and downloaded as CSV.

    `kind` says more of it to the style sheet and the script: `systems` has a row for each run.
    Its caption is only heard where a heading has `titled` it.
    """
    label = html_text(caption)
    note = "" if isinstance(table, str) else html_note(table.note.replace("Bold", "Bold and blue"))
    inside = table if isinstance(table, str) else html_table(table, look or Sortable())
    long = not isinstance(table, str) and len(table.rows) > _LONG
    region = f"Table: {label}" if titled else label  # a landmark, as its section is
    return (
        f'<figure class="table{" " if kind else ""}{kind}" data-file="{html_text(file_name)}">'
        f'<figcaption>{"<span></span>" if titled else label}<span class="tools">'
        f'<button type="button" data-do="copy" aria-label="Copy the table: {label}">Copy</button>'
        f'<button type="button" data-do="csv" aria-label="Download as CSV: {label}">CSV</button>'
        "</span></figcaption>"
        f'<div class="scroll{" long" if long else ""}" tabindex="0" role="region" '
        f'aria-label="{region}">{inside}</div>{note}</figure>'
    )


def html_note(text: str) -> str:
    """Write a small paragraph; nothing without a text."""
    return f'<p class="note">{html_text(text)}</p>' if text else ""


@dataclass(frozen=True)
class PairMark:
    """A difference of the better minus the other, its p, and whether the test separates them."""

    difference: float
    p: float
    clear: bool


def pair_marks(
    comparison: Comparison, measure: str
) -> tuple[list[str], dict[tuple[int, int], PairMark]]:
    """Return the systems best first, and each pair by its two places."""
    names = [standing.name for standing in comparison.standings_on(measure)]
    place = {name: i for i, name in enumerate(names)}
    marks = {}
    for pair in comparison.pairs_on(measure):
        i, j = sorted((place[pair.a], place[pair.b]))
        difference = pair.interval_of(names[i]).estimate
        marks[i, j] = PairMark(difference, pair.p, pair.winner is not None)
    return names, marks


def pair_matrix(
    names: Sequence[str],
    marks: Mapping[tuple[int, int], PairMark],
    link: Callable[[int, int], str] | None = None,
) -> str:
    """Write a table of all pairs: differences above the diagonal, p below.

    Pairs that the test separates are shaded by their difference. A difference is a link where
    `link` gives its address, else a button for the script of the page.
    """
    several = range(len(names))
    rows = tuple((Cell(names[i]), *(_square(marks, i, j) for j in several)) for i in several)
    return html_table(Table(("", *names), rows), _Squares(marks, link))


def _square(marks: Mapping[tuple[int, int], PairMark], i: int, j: int) -> Cell:
    mark = marks.get((min(i, j), max(i, j)))
    if i == j or mark is None:
        return Cell("", "figure")
    number = mark.difference if i < j else mark.p
    if math.isnan(number):
        return Cell(None, "figure")
    return Cell(_short(number) if i < j else _short_p(number), "figure")


def _short(difference: float) -> str:
    """Format a difference with three decimals and a sign.

    >>> _short(0.0512), _short(-3.25)
    ('+.051', '−3.250')
    """
    sign = "−" if difference < 0 else "+"
    return sign + f"{abs(difference):.3f}".removeprefix("0")


def _short_p(p: float) -> str:
    """Format p with three decimals; a smaller one is not rounded to 0.

    >>> _short_p(0.0424), _short_p(0.0001)
    ('.042', '<.001')
    """
    return "<.001" if p < 0.001 else f"{p:.3f}".removeprefix("0")


class _Squares(Decoration):
    def __init__(
        self, marks: Mapping[tuple[int, int], PairMark], link: Callable[[int, int], str] | None
    ) -> None:
        clear = [pair for pair, mark in marks.items() if mark.clear]
        sizes = [abs(marks[pair].difference) for pair in clear]
        steps = shade_steps([[0.0, *sizes]])[0][1:]
        self._shades = dict(zip(clear, steps, strict=True))
        self._link = link

    def head(self, column: int, name: str, left: bool) -> tuple[Attributes, str]:
        """Write names that run upwards."""
        if not column:
            return {"scope": "col"}, tag("span", "row − column", class_="unseen")
        return {"scope": "col", "title": name}, tag("span", html_text(name))

    def cell(self, row: int, column: int, cell: Cell, left: bool) -> tuple[Attributes, str]:
        """Write a name, a difference, or a p."""
        if not column:
            return {}, cell_text(cell)
        i, j = row, column - 1
        step = self._shades.get((min(i, j), max(i, j)))
        attributes: Attributes = {"class_": None if step is None else f"heat s{step}"}
        if i >= j or not cell.text:
            return {"class_": "same"} if i == j else attributes, cell_text(cell)
        if self._link is None:
            return attributes, tag("button", cell_text(cell))
        return attributes, tag("a", cell_text(cell), href=self._link(i, j))
