"""A comparison as the table of a paper: systems × measures, superscripts for significance."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from string import ascii_lowercase
from typing import TYPE_CHECKING, Any, Final

from assay.comparison.verdict import METHOD_NAMES, RESTS
from assay.tables.table import Cell, Page, Table, Words, table_of

if TYPE_CHECKING:
    from assay.comparison.compare import Comparison

_TESTS: Final = {
    "randomisation": "paired randomisation test",
    "bootstrap": "paired bootstrap test",
    "t": "paired Student t-test",
    "wilcoxon": "Wilcoxon signed-rank test",
    "sign": "sign test",
}
_DRAWN: Final = ("randomisation", "bootstrap")
_LONG_RUN: Final = 4  # letters in a row that are written as a range


def paper_table(
    comparison: Comparison,
    *,
    caption: str = "",
    label: str = "tab:comparison",
    system: str = "System",
    columns: Mapping[str, Mapping[str, Any]] | None = None,
) -> Table:
    """Return systems × measures in the order of the systems, with caption, label and notes.

    Superscripts are the letters of the systems that a row is significantly better than, in
    parentheses where it is only probably better.

    Args:
        comparison: The comparison.
        caption: The caption; by default it counts systems and queries.
        label: The label, for `\\ref`.
        system: The heading of the systems.
        columns: Further columns in front of the measures: a value by system each.

    Returns:
        The table, for `as_latex`.
    """
    letters = _letters(len(comparison.names))
    standings = {(row.measure, row.name): row for row in comparison.standings}
    rows = []
    for letter, name in zip(letters, comparison.names, strict=True):
        row = [letter, name, *(values[name] for values in (columns or {}).values())]
        for measure in map(str, comparison.measures):
            standing, marks = standings[measure, name], _marks(comparison, name, measure, letters)
            row.append(Cell(standing.mean.estimate, "fraction", standing.leads, marks))
        rows.append(row)
    table = table_of(("", system, *(columns or {}), *map(str, comparison.measures)), rows)
    return replace(
        table,
        caption=caption or f"Means of {len(rows)} systems over {comparison.sample}.",
        label=label,
        notes=tuple(_notes(comparison, table)),
    )


def paper_page(table: Table, page: Page, extra: Iterable[Words | Table] = ()) -> Page:
    """Return the table of a paper, then `extra`, and the remarks and method of `page`."""
    about = [
        part
        for part in page
        if isinstance(part, Words) and part.role in ("remark", "method", "signature")
    ]
    return [Words(r"Needs \usepackage{booktabs}."), table, *extra, *about]


def _letters(number: int) -> Sequence[str]:
    """Return a letter for each system; numbers where the alphabet is too short."""
    if number <= len(ascii_lowercase):
        return ascii_lowercase[:number]
    return [str(place + 1) for place in range(number)]


def _marks(comparison: Comparison, name: str, measure: str, letters: Sequence[str]) -> str:
    """Return the letters of the systems that one is better than, unsure ones in parentheses."""
    places: dict[bool, list[int]] = {True: [], False: []}
    for pair in comparison.pairs_on(measure):
        if pair.winner == name:
            is_sure = not pair.outcome.startswith("probably")
            places[is_sure].append(comparison.names.index(pair.other(name)))
    sure, unsure = (_join_letters(sorted(places[is_sure]), letters) for is_sure in (True, False))
    return sure + (f"({unsure})" if unsure else "")


def _join_letters(places: Sequence[int], letters: Sequence[str]) -> str:
    """Return letters one after the other, long runs as a range, numbers with commas.

    >>> _join_letters([0, 2, 3, 4, 5], "abcdef"), _join_letters([0, 1], ["1", "2"])
    ('ac–f', '1,2')
    """
    parts = []
    for _, run in groupby(enumerate(places), lambda entry: entry[1] - entry[0]):
        names = [letters[place] for _, place in run]
        parts += [f"{names[0]}–{names[-1]}"] if len(names) >= _LONG_RUN else names
    return ("," if letters[0].isdigit() else "").join(parts)


def _notes(comparison: Comparison, table: Table) -> list[str]:
    """Return what superscripts and bold mean: the test, its correction, level and n."""
    settings, pairs = comparison.settings, comparison.pairs
    marks = {cell.marks for row in table.rows for cell in row}
    how = [_TESTS[settings.test]]
    if settings.correction == "tukey":
        how = [METHOD_NAMES["tukey"]]
    elif pairs[0].n_pairs > 1:
        correction = METHOD_NAMES.get(settings.correction, settings.correction)
        how.append("not corrected" if correction == "none" else f"{correction} correction")
    how[-1] += f" over {comparison.family}" if pairs[0].n_pairs > 1 else ""
    how += [f"level {100 * settings.level:g} %", f"n = {comparison.sample}"]
    if settings.test in _DRAWN:
        how.insert(-1, f"{settings.resamples:,} resamples")
    said = "Superscripts: significantly better than the systems with these letters"
    if all(pair.outcome == "undecided" for pair in pairs):
        said = f"Not tested: {pairs[0].untestable}"
    elif marks == {""}:
        said = "No difference is significant"
    notes = [f"{said} ({'; '.join(how)})."]
    if any("(" in each for each in marks):
        notes.append(f"In parentheses: probably better ({RESTS}).")
    if comparison.baseline is not None:
        notes.append(f"Only differences to {comparison.baseline} were tested.")
    return [*notes, table.note] if table.note else notes
