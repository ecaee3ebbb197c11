"""The sections of a report's page, each as markup; one that has nothing to say is empty.

Parts of one measure carry its number, so that the script of the page shows those of the chosen one.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from assay.comparison.verdict import join_names
from assay.report import chart_data, tables
from assay.report.charts import difference_pair, runs_of
from assay.report.svg import cost_picture, curve_lines
from assay.report.tables import html_note, table_figure
from assay.stats.choices import MOST_PAIRS
from assay.tables.html import html_text
from assay.tables.table import Cell, Table

if TYPE_CHECKING:
    from assay.measures import Measure
    from assay.report.report import Report


_MOST_COLUMNS: Final = 8  # runs in a table of groups
_OTHER: Final = "Data and systems"
# The first pattern that is found names the kind.
_KINDS: Final = (
    ("Short lists", r"^returns at most "),
    (_OTHER, r"^(error|warning|note): "),
    ("Ties", r"\bties?\b|\btied\b"),
    ("Chance", r"\bchance\b|random order"),
    ("Statistics", r"minimum detectable|\bp is\b|resamples|interval|groups by|Tukey|correction"),
    ("Queries", r"\bquer(y|ies)\b"),
)
_CHANGING: Final = re.compile(r"'[^']*'|[\d.,]+")
_MORE: Final = re.compile(r" \(as for \d+ more\)")


def _verdicts(report: Report) -> Iterator[str]:
    said = [report.plain_verdict(measure) for measure in report.measures]
    items, terms = "", tables.method_terms(report.comparison)
    for number, (sentence, *small) in enumerate(said):
        yield tables.verdict_box(sentence, *small, measure=number)
        items += f"<li>{html_text(sentence)}. <small>{html_text(small[0])}</small></li>"
    yield tables.explain_terms([*map(str, report.measures[:4]), *terms])
    if len(said) > 1:
        yield f"<details><summary>On all {len(said)} measures</summary><ul>{items}</ul></details>"


def _of_measures(
    numbers: Sequence[int], title: object, parts: Iterable[str], *, said: bool = True
) -> str:
    """Write the part of some measures, visible while one is selected.

    Its heading is only heard where a caption has `said` the measure.
    """
    inside = "\n".join(filter(None, parts))
    if not inside:
        return ""
    which = " ".join(map(str, numbers))
    heard = ' class="unseen"' if said else ""
    return f'<div data-measure="{which}"><h3{heard}>{html_text(title)}</h3>{inside}</div>'


def _each_measure(
    write: Callable[[Report, Measure], Iterable[str]], *, said: bool = True
) -> Callable[[Report], Iterator[str]]:
    """Return what writes a section with a part for each measure."""

    def section(report: Report) -> Iterator[str]:
        for number, measure in enumerate(report.measures):
            yield _of_measures([number], measure, write(report, measure), said=said)

    return section


def _board(report: Report, measure: Measure) -> Iterator[str]:
    name, comparison, chance = str(measure), report.comparison, report.chance_on(measure)
    rows = chart_data.standing_rows(report.standings_on(measure))
    if comparison is None:
        table, file_name = tables.single_table(report, measure), f"mean {name}"
    else:
        table, file_name = tables.ranked_table(comparison, name), f"leaderboard {name}"
    look = tables.BoardTable(rows, None if math.isnan(chance) else chance, table)
    yield table_figure(table, f"Runs on {name}", file_name=file_name, look=look, kind="systems")
    if comparison is not None and comparison.baseline is None:
        yield html_note("Runs that share a letter do not differ significantly.")
    yield html_note("" if math.isnan(chance) else f"A random order reaches {chance:.4f}.")
    yield html_note("" if comparison is None else comparison.power_note(name))


def _pairs(report: Report, measure: Measure) -> Iterator[str]:
    name, comparison = str(measure), report.comparison
    if comparison is None:
        return
    pairs = comparison.pairs_on(name)
    square = comparison.baseline is None and 2 < len(comparison.names) <= tables.MOST_IN_MATRIX
    if square:
        matrix = tables.pair_matrix(*tables.pair_marks(comparison, name))
        yield table_figure(matrix, f"All pairs on {name}", file_name=f"matrix {name}", kind="pairs")
        yield html_note(
            "Above the diagonal: row minus column; below: p. Shaded: significant, the darker the "
            "larger."
        )
        yield '<p class="note on-screen">A click on a difference shows the pair query by query.</p>'
    if len(pairs) <= MOST_PAIRS:
        table = table_figure(
            comparison.pair_table(name), f"Pairs on {name}", file_name=f"pairs {name}"
        )
        fold = f"<details><summary>Pairs with intervals ({len(pairs)})</summary>{table}</details>"
        yield fold if square else table
    elif not square:
        yield html_note(f"{len(pairs):,} pairs are not listed here; assay compare lists them.")


def _costs(report: Report, measure: Measure) -> Iterator[str]:
    charts = ""
    for axis in chart_data.cost_axes(report, measure):
        picture = cost_picture(axis.points, str(measure), axis.name, axis.write)
        caption = f"<figcaption>{html_text(measure)} against {axis.name}</figcaption>"
        charts += f"<figure>{caption}{picture}</figure>"
    if charts:
        yield f'<div class="side-by-side">{charts}</div>'


def _overview(report: Report) -> Iterator[str]:
    if len(report.measures) > 1:
        table, marks = tables.means_table(report)
        look = tables.MarkedTable(marks, len(report.runs))
        yield table_figure(
            table, "Means of all measures", file_name="means", look=look, kind="systems means"
        )
        yield html_note(tables.marks_note(report))


def _slices(report: Report, measure: Measure) -> Iterator[str]:
    slices = None if report.comparison is None else report.comparison.slices
    if slices is None:
        return
    yield from (f"<p>{html_text(sentence)}.</p>" for sentence in slices.verdicts[str(measure)])
    means, pairs = slices.means_table(measure), slices.table(measure)
    yield table_figure(means, f"Means by {slices.column}", file_name=f"slices {measure}")
    table = table_figure(pairs, f"Pairs by {slices.column}", file_name=f"slice pairs {measure}")
    yield f"<details><summary>{len(pairs.rows)} pairs</summary>{table}</details>"


def _curves(report: Report) -> Iterator[str]:
    """Draw one chart for all cutoffs of a measure."""
    families: dict[str, list[int]] = {}
    for number, measure in enumerate(report.measures):
        families.setdefault(chart_data.family(measure) or str(measure), []).append(number)
    for family, numbers in families.items():
        rows = chart_data.curve_rows(report, report.measures[numbers[0]])
        if rows:
            defined = [row for row in rows if row["mean"] is not None]
            curves: dict[str, list[tuple[int, float]]] = {}
            for row in sorted(defined, key=lambda row: (row["place"], row["k"])):
                curves.setdefault(row["run"], []).append((row["k"], row["mean"]))
            cutoffs, runs = sorted({row["k"] for row in rows}), runs_of(rows)
            means = {(row["run"], row["k"]): row["mean"] for row in defined}
            values = [[means.get((run, k), math.nan) for k in cutoffs] for run in runs]
            grid = _grid("run", [f"@{k}" for k in cutoffs], runs, values, "fraction")
            chart = curve_lines(curves, family)
            table = table_figure(grid, f"{family} by cutoff", file_name=f"{family}")
            fold = f"<details><summary>As a table</summary>{table}</details>"
            ends = {
                run: curve[-1][0] for run, curve in curves.items() if curve[-1][0] < cutoffs[-1]
            }
            short = [f"{run} ends at {k}" for run, k in ends.items()]
            note = html_note(f"Short lists: {join_names(short)}." if short else "")
            yield _of_measures(numbers, family, [chart, note, fold], said=False)


def _grid(
    corner: str,
    columns: Sequence[str],
    names: Sequence[str],
    values: Sequence[Sequence[float]],
    kind: str,
) -> Table:
    """Return a table of numbers under names."""
    rows = [
        (Cell(name), *(Cell(value, kind) for value in numbers))
        for name, numbers in zip(names, values, strict=True)
    ]
    return Table((corner, *columns), tuple(rows))


def _groups(report: Report, measure: Measure) -> Iterator[str]:
    for column in report.group_columns:
        rows, total = chart_data.group_rows(report, measure, column)
        if not rows:
            continue
        n_groups = len({row["group"] for row in rows})
        runs = runs_of(rows)[:_MOST_COLUMNS]
        groups = list(
            dict.fromkeys(row["group"] for row in sorted(rows, key=lambda row: row["order"]))
        )
        means = {(row["group"], row["run"]): row["mean"] for row in rows}
        values = [[means.get((group, run), math.nan) for run in runs] for group in groups]
        table = _grid(column, runs, groups, values, "fraction")
        caption = f"{measure} by {column}"
        yield table_figure(
            table, caption, file_name=f"groups {column} {measure}", look=tables.HeatTable(values)
        )
        few = [f"the {len(runs)} best runs"] if len(report.runs) > len(runs) else []
        few += [f"the {n_groups} largest of {total:,} groups"] if n_groups < total else []
        yield html_note(f"Shown are {' and '.join(few)}." if few else "")


def _ranks(report: Report) -> Iterator[str]:
    rows = chart_data.rank_rows(report)
    if not rows:
        return
    buckets = list(dict.fromkeys(row["rank"] for row in rows))
    shares = {(row["run"], row["rank"]): row["share"] for row in rows}
    runs = runs_of(rows)
    values = [[shares[run, bucket] for bucket in buckets] for run in runs]
    percents = [[round(100 * share, 1) for share in run_shares] for run_shares in values]
    yield table_figure(
        _grid("run", buckets, runs, percents, "figure"),
        "Percent of queries by the rank of the first relevant document",
        file_name="ranks",
        look=tables.HeatTable(values),
        kind="systems",
    )


def _differences(report: Report) -> Iterator[str]:
    pair, names, pick = difference_pair(report), list(report.names), ""
    if pair is not None:
        first, second = (options(names, names.index(name)) for name in (pair.a, pair.b))
        pick = (
            f'<label>First <select id="first">{first}</select></label>'
            f'<label>minus second <select id="second">{second}</select></label>'
        )
    yield (
        f'<div class="controls">{pick}<label>Queries <input type="search" id="find" '
        'placeholder="id or text" autocomplete="off"></label>'
        '<button type="button" id="all-values">All values as CSV</button></div>'
        '<p id="difference-note" class="note" aria-live="polite"></p>'
        '<div id="difference-chart"></div><div id="difference-table"></div>'
    )


@dataclass(frozen=True)
class SharedRemark:
    """A sentence; `variants` say it with other numbers of the runs or measures in `also`."""

    text: str
    variants: tuple[str, ...] = ()
    also: str = ""


def group_remarks(remarks: Iterable[str], subjects: Sequence[str]) -> dict[str, list[SharedRemark]]:
    """Group remarks by kind; `subjects` are runs and measures, which begin a remark.

    >>> group_remarks(["a: 3 queries empty", "b: 3 queries empty"], ["a", "b"])
    {'Queries': [SharedRemark(text='a and b: 3 queries empty', variants=(), also='')]}
    """
    kinds: dict[str, list[SharedRemark]] = {kind: [] for kind, _ in _KINDS}
    for same in _alike(remarks, subjects):
        first, *rest = _merge(same)
        also = join_names([subject for subject, _ in rest]) if rest else ""
        remark = SharedRemark(first[1], tuple(text for _, text in rest), also)
        text = same[0][1]
        kind = next((kind for kind, pattern in _KINDS if re.search(pattern, text)), _OTHER)
        kinds[kind].append(remark)
    return {kind: remarks_of_kind for kind, remarks_of_kind in kinds.items() if remarks_of_kind}


def _alike(remarks: Iterable[str], subjects: Sequence[str]) -> list[list[tuple[str, str]]]:
    """Group subjects and texts that differ only in names and numbers."""
    longest = sorted(set(subjects), key=len, reverse=True)
    names = re.compile(rf"(?<!\w)({'|'.join(map(re.escape, longest))})(?!\w)")
    groups: dict[str, list[tuple[str, str]]] = {}
    for remark in remarks:
        subject = next((name for name in longest if remark.startswith(f"{name}: ")), "")
        text = remark[len(subject) + 2 :] if subject else remark
        skeleton = _CHANGING.sub("#", names.sub("#", _MORE.sub("", text)))
        groups.setdefault(f"{bool(subject)} {skeleton}", []).append((subject, text))
    return list(groups.values())


def _merge(same: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return a sentence for each text, after all its subjects."""
    subjects: dict[str, list[str]] = {}
    for subject, text in same:
        subjects.setdefault(text, []).append(subject)
    joined = {text: join_names(names) for text, names in subjects.items()}
    return [(names, f"{names}: {text}" if names else text) for text, names in joined.items()]


def _remarks(report: Report) -> Iterator[str]:
    subjects = ["all", *report.names, *map(str, report.measures)]
    groups = group_remarks(report.remarks, subjects)
    if not groups:
        yield "<p>No query is missing or empty, and none depends on ties.</p>"
    for kind, remarks in groups.items():
        lines = (f"{_sentence(remark.text)}{_variants(remark)}" for remark in remarks)
        items = "".join(f"<li>{line}</li>" for line in lines)
        yield f"<h3>{kind}</h3><ul>{items}</ul>"
    title = "Queries in each mean"
    table = table_figure(tables.counts_table(report), title, file_name="queries")
    yield f"<details><summary>{title}</summary>{table}</details>"


def _sentence(remark: str) -> str:
    return html_text(remark if remark.endswith((".", "?", "!")) else f"{remark}.")


def _variants(remark: SharedRemark) -> str:
    """Fold what is said of other runs or measures with other numbers."""
    if not remark.variants:
        return ""
    items = "".join(f"<li>{_sentence(text)}</li>" for text in remark.variants)
    who = html_text(remark.also or f"{len(remark.variants)} more")
    return f"<details><summary>Also {who}</summary><ul>{items}</ul></details>"


def _reproduce(report: Report) -> Iterator[str]:
    yield f"<p>{html_text(report.method)}</p>"
    signature = html_text(report.aligned.signature).replace("|", "|<wbr>")
    yield f"<h3>Conventions</h3><p><code>{signature}</code></p>"
    if report.command:
        yield f"<h3>Command</h3><pre>{html_text(report.command)}</pre>"
    details = tables.provenance_table(report)
    if details is not None:
        yield table_figure(details, "Runs", file_name="runs")


def plugin_sections(
    sections: Iterable[tuple[str, Table | str]], *, alone: bool = False
) -> Iterator[tuple[str, str, Iterable[str]]]:
    """Yield id, title and markup of the sections that plugins add.

    Where these are `alone` on a page, the first line is its verdict.
    """
    for number, (title, part) in enumerate(sections, 1):
        if isinstance(part, str):
            lines = [line for line in part.splitlines() if line.strip()]
            inside = [f"<p>{html_text(line)}</p>" for line in lines]
            if alone and number == 1:
                inside[:1] = [tables.verdict_box(*lines[0].rstrip(".").split("; ", 1))]
        else:
            inside = [table_figure(part, title, file_name=title, titled=True)]
        yield f"plugin-{number}", title, inside


def options(names: Iterable[str], selected: int = 0) -> str:
    """Write the options of a select, whose values are numbers."""
    return "".join(
        f'<option value="{i}"{" selected" if i == selected else ""}>{html_text(name)}</option>'
        for i, name in enumerate(names)
    )


# The sections in their order: the id, the title, and what writes it.
SECTIONS: Final = (
    ("verdict", "Verdict", _verdicts),
    ("leaderboard", "Leaderboard", _each_measure(_board)),
    ("pairs", "Pairs", _each_measure(_pairs)),
    ("costs", "Cost and quality", _each_measure(_costs)),
    ("overview", "All measures", _overview),
    ("slices", "Slices", _each_measure(_slices, said=False)),
    ("curve", "Measures by cutoff", _curves),
    ("groups", "By group", _each_measure(_groups)),
    ("ranks", "Rank of the first relevant document", _ranks),
    ("differences", "Query by query", _differences),
    ("disclosures", "What to know", _remarks),
    ("reproduce", "Reproduction", _reproduce),
)
