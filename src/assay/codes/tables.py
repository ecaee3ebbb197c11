"""The report on codes as tables for people, a long table for CSV, and plain data for JSON."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from assay.arrays import or_none
from assay.codes.encoders import FLOAT
from assay.codes.search import RADIUS, map_measure
from assay.codes.settings import HASHING
from assay.comparison.compare import Comparison
from assay.comparison.paper import paper_page
from assay.comparison.paper import paper_table as comparison_table
from assay.comparison.standings import difference_cells, standings_table
from assay.comparison.verdict import verdict_words
from assay.core.text import format_percent
from assay.stats import Interval
from assay.tables.table import Cell, Page, Table, Words, columns_of, table_of

if TYPE_CHECKING:
    from assay.codes.result import CodesReport, QuantizationResult


_BAR: Final = 15


def report_page(report: CodesReport, *, brief: bool = False) -> Page:
    """Return similarity to the float ranking, scores, costs and remarks.

    In `brief`, similarity is the overlap at the first cut.
    """
    settings, comparison = report.settings, report.comparison
    page: Page = [] if comparison is None else [*verdict_words(comparison.verdicts.values())]
    page.append(Words(_title(report), "note" if page else "verdict"))
    page += [overlap_table(report, k) for k in settings.k[: 1 if brief else None]]
    if not brief:
        first, rbo = settings.k[0], f"RBO(p={settings.p:g})"
        page += [
            _similarity_table(report, rbo, report.chance_rbo, {}),
            mean_table(report, "Kendall", "Spearman", chance=0.0),
            Words(_tie_note(report)),
            Words(f"With the first {first} documents of the float ranking as the relevant ones"),
            *(mean_table(report, f"R@{k}", f"nDCG@{k}") for k in settings.k),
        ]
    if comparison is not None:
        page += [judged_table(report, comparison, measure) for measure in comparison.verdicts]
    if settings.hashing is not None:
        page.append(Words(_hashing_note(settings.hashing)))
        page += [paper_table(report, map_measure(settings.hashing)), radius_table(report)]
    page += [cost_table(report), *(Words(remark, "remark") for remark in report.remarks)]
    if comparison is not None:
        page.append(Words(comparison.method, "method"))
    return [*page, Words(report.signature, "signature")]


def codes_paper(report: CodesReport) -> Page:
    """Return one table of codes × bytes, overlap and judged measures; mAP by bits for hashing."""
    settings, comparison = report.settings, report.comparison
    sizes = f"{report.n_queries:,} queries and {report.n_docs:,} documents"
    if settings.hashing is not None:
        measure = map_measure(settings.hashing)
        table = replace(
            paper_table(report, measure),
            caption=f"{measure} by method and length of the code, over {sizes}.",
            label="tab:hashing",
            notes=(_hashing_note(settings.hashing),),
        )
        return paper_page(table, report_page(report), [radius_table(report)])
    names = [code.name for code in report.codes]
    columns: dict[str, dict[str, float]] = {
        "Bytes": {code.name: code.cost.bytes_per_vector for code in report.codes}
    }
    columns |= {
        f"Overlap@{k}": {n: report.intervals[n][f"Overlap@{k}"].estimate for n in names}
        for k in settings.k
    }
    caption = f"Codes and float vectors over {sizes}."
    if comparison is None:
        rows = [(name, *(values[name] for values in columns.values())) for name in names]
        table = table_of(("Code", *columns), rows)
        note = (
            "Overlap: documents shared with the ranking of the float vectors. Nothing was tested."
        )
        table = replace(table, caption=caption, label="tab:codes", notes=(note,))
    else:
        table = comparison_table(
            comparison, caption=caption, label="tab:codes", system="Code", columns=columns
        )
    return paper_page(table, report_page(report))


def _title(report: CodesReport) -> str:
    settings = report.settings
    again = f"; the first {settings.rerank} of codes re-ranked by float" if settings.rerank else ""
    if settings.oversample:
        times = ", ".join(f"×{factor}" for factor in settings.oversample)
        again = f"; {times}: that many times {settings.k[-1]} documents re-ranked by float"
    docs = "other documents" if settings.exclude_self else "documents"
    return (
        f"{report.n_queries} queries, {report.n_docs} {docs} to find, {settings.metric}; "
        f"against the ranking of the float vectors ({report[FLOAT].method}){again}"
    )


def _tie_note(report: CodesReport) -> str:
    value = {
        "expected": "the mean over all orders of tied documents",
        "order": "what the lower index first gives",
        "best": "the most that any order of tied documents gives",
        "worst": "the least that any order of tied documents gives",
    }[report.settings.ties]
    return (
        f"Means are {value}; 'by index' is Overlap with the lower index first; 'tied' is the share "
        "of queries whose Overlap depends on the order of tied documents."
    )


_BLANK: Final = Cell(None, "figure")


def _mean_cells(span: Interval) -> tuple[Cell, Cell]:
    return Cell(span.estimate, "fraction"), span.cell()


def _similarity_table(
    report: CodesReport,
    name: str,
    chance: float,
    further: Mapping[str, Callable[[QuantizationResult], Cell]],
) -> Table:
    """Return one similarity to the float ranking, also as a bar.

    The last rows are the most that equal vectors allow, where that is below 1, and a random order.
    """

    def draw_bar(share: float) -> Cell:
        return Cell("" if math.isnan(share) else "#" * round(_BAR * share))

    rows = []
    for code in report.codes:
        span = report.intervals[code.name][name]
        front = Cell(code.name), Cell(code.cost.bytes_per_vector, "count"), *_mean_cells(span)
        rows.append((*front, *(cell(code) for cell in further.values()), draw_bar(span.estimate)))
    blanks = [_BLANK] * (1 + len(further))
    for end, share in (("ceiling", report.ceiling(name)), ("chance", chance)):
        if share is not None:
            rows.append((Cell(end), _BLANK, Cell(share, "fraction"), *blanks, draw_bar(share)))
    columns = ("code", "bytes", name, report.interval_heading, *further, "")
    return Table(columns, tuple(rows), n_optional=1)


def overlap_table(report: CodesReport, k: int) -> Table:
    """Return overlap at one cut, with the effect of ties."""
    further: dict[str, Callable[[QuantizationResult], Cell]] = {
        "by index": lambda code: Cell(
            float(code.similarity.overlap[k]["order"].mean()), "fraction"
        ),
        "tied": lambda code: Cell(format_percent(code.similarity.tied(k).mean()), "figure"),
    }
    return _similarity_table(report, f"Overlap@{k}", report.chance(k), further)


def mean_table(report: CodesReport, *names: str, chance: float | None = None) -> Table:
    """Return means of some similarities; with `chance`, the last row is a random order."""
    rows: list[tuple[Cell, ...]] = []
    for code in report.codes:
        cells = (_mean_cells(report.intervals[code.name][name]) for name in names)
        rows.append((Cell(code.name), *chain(*cells)))
    if chance is not None:
        rows.append((Cell("chance"), *[Cell(chance, "fraction"), _BLANK] * len(names)))
    heads = chain(*((name, report.interval_heading) for name in names))
    return Table(("code", *heads), tuple(rows))


def judged_table(report: CodesReport, comparison: Comparison, measure: str) -> Table:
    """Return one measure against the judgments: means, and the difference of each code to float."""
    by_name = {standing.name: standing for standing in comparison.standings_on(measure)}
    pairs = {pair.a: pair for pair in comparison.pairs_on(measure)}
    means = standings_table(
        [by_name[code.name] for code in report.codes],
        headings={"system": "code", "mean": measure},
        without=("rank", "vs {baseline}"),
    )
    rows = []
    for code, cells in zip(report.codes, means.rows, strict=True):
        difference: tuple[Cell, ...] = (_BLANK,) * 3
        if pair := pairs.get(code.name):
            difference = difference_cells(code.name, pair.interval_of(code.name), pair.p)[1:]
        rows.append((*cells, *difference))
    return Table((*means.columns, f"− {FLOAT}", report.interval_heading, "p"), tuple(rows))


def _hashing_note(preset: str) -> str:
    return (
        f"mAP@{HASHING[preset] or 'all'} as learning to hash prints it: AP over the relevant "
        "documents among those that count, 0 where there are none. Within a Hamming radius a query "
        "without any document has precision 0; 'found' is the share of queries with one."
    )


def paper_table(report: CodesReport, measure: str) -> Table:
    """Return mAP by method and length of the code, as papers print it."""
    lengths = sorted({code.cost.bits for code in report.codes if code.curve is not None})
    by_method: dict[str, dict[int | None, float]] = {}  # None: a code without bits
    for bits in (True, False):  # codes of bits stand above the others
        for code in report.codes:
            if (code.curve is not None) is bits and code.judged is not None:
                name = code.method if bits and code.method != "given" else code.name
                length = code.cost.bits if bits else None
                by_method.setdefault(name, {})[length] = code.judged.mean()[measure]
    rows = [(name, *map(values.get, (*lengths, None))) for name, values in by_method.items()]
    chance = ("chance", *[_BLANK] * len(lengths), report.chance_map)
    columns = ("method", *(f"{bits} bits" for bits in lengths), "no bits")
    return table_of(columns, [*rows, chance])


def radius_table(report: CodesReport) -> Table:
    """Return precision, recall and filled balls at radius 2 and nearer."""
    rows = []
    for code in report.codes:
        if (curve := code.curve) is None:
            continue
        at = min(RADIUS, curve.bits)
        front = Cell(code.name), *_mean_cells(report.radius_intervals[code.name])
        places = curve.recall[at], curve.precision[0], curve.precision[min(1, at)]
        recall, *precision = (Cell(float(share), "fraction") for share in places)
        rows.append((*front, recall, Cell(format_percent(curve.filled[at]), "figure"), *precision))
    head = (f"P@radius {RADIUS}", report.interval_heading, f"R@radius {RADIUS}", "found")
    return Table(("code", *head, "P@radius 0", "P@radius 1"), tuple(rows))


def cost_table(report: CodesReport) -> Table:
    """Return bits, bytes and seconds."""
    width = report[FLOAT].cost.bytes_per_vector
    rows = []
    for code in report.codes:
        cost, milliseconds = code.cost, 1000 * code.cost.search_seconds / report.n_queries
        figures = (f"{width / cost.bytes_per_vector:.1f}", f"{cost.encode_seconds:.3f}")
        costs = (Cell(text, "figure") for text in (*figures, f"{milliseconds:.3f}"))
        sizes = code.name, cost.bits, cost.bytes_per_vector
        rows.append((*sizes, *costs, Cell(cost.codebook_bytes or None, "count")))
    columns = ("code", "bits", "bytes", "times smaller", "encoding (s)", "search (ms per query)")
    table = table_of((*columns, "codebook bytes"), rows)
    learnt = any(code.cost.codebook_bytes for code in report.codes)
    return replace(table, n_optional=1) if learnt else columns_of(table, range(len(columns)))


_OF_TIES: Final = ("by_index", "best", "worst", "tied_share")
_OF_PAIR: Final = ("difference", "difference_low", "difference_high", "p")
_NUMBERS: Final = ("mean", "low", "high", "n", *_OF_TIES, "ceiling", "chance", *_OF_PAIR)


def data_table(report: CodesReport) -> Table:
    """Return a row for each code and measure, every digit, for CSV."""
    rows = []
    for code in report_data(report)["codes"]:
        sizes = (Cell(code[key], "count") for key in ("bits", "bytes_per_vector"))
        front = (Cell(code["name"]), Cell(code["method"]), *sizes)
        for against in ("float_ranking", "judgments", "radius"):
            for name, data in code.get(against, {}).items():
                kinds = (("count" if key == "n" else "fraction") for key in _NUMBERS)
                numbers = map(Cell, map(data.get, _NUMBERS), kinds)
                learnt = Cell(code["codebook_bytes"], "count")
                rows.append((*front, Cell(against), Cell(name), *numbers, learnt))
    front_columns = ("code", "method", "bits", "bytes", "against", "measure")
    return Table((*front_columns, *_NUMBERS, "codebook_bytes"), tuple(rows))


def report_data(report: CodesReport) -> dict[str, Any]:
    """Return everything, with every digit; hashing and oversampling only where they are set."""
    values = vars(report.settings) | {
        key: list(vars(report.settings)[key]) for key in ("k", "oversample")
    }
    settings = {key: v for key, v in values.items() if v or key not in ("hashing", "oversample")}
    data: dict[str, Any] = {
        "signature": report.signature,
        "queries": report.n_queries,
        "docs": report.n_docs,
        "settings": settings,
        "codes": [_code_data(report, code) for code in report.codes],
        "remarks": list(report.remarks),
    }
    if report.chance_map is not None:
        data["chance_map"] = report.chance_map
    if report.comparison is not None:
        data["verdicts"] = dict(report.comparison.verdicts)
        data["comparison"] = report.comparison.to_dict()["measures"]
    return data


def _code_data(report: CodesReport, code: QuantizationResult) -> dict[str, Any]:
    data: dict[str, Any] = {
        "name": code.name,
        **code.kind,
        "encode_seconds": code.cost.encode_seconds,
        "search_seconds": code.cost.search_seconds,
        "float_ranking": _similarity_data(report, code),
    }
    if report.comparison is not None:
        data["judgments"] = _judged_data(report.comparison, code)
    if (curve := code.curve) is not None:
        shares = {"P": curve.precision, "R": curve.recall, "filled": curve.filled}
        data["radius"] = {
            f"{name}@radius {radius}": {"mean": float(values[radius])}
            for radius in range(curve.bits + 1)
            for name, values in shares.items()
        }
        near = f"P@radius {min(RADIUS, curve.bits)}"
        data["radius"][near] = _mean_data(report.radius_intervals[code.name])
    return data


def _similarity_data(report: CodesReport, code: QuantizationResult) -> dict[str, Any]:
    data = {name: _mean_data(span) for name, span in report.intervals[code.name].items()}
    for name, counts in code.near.mean().counts.items():
        data[name]["tied_share"] = counts.tied_share
    for k in report.settings.k:
        means = {ties: float(values.mean()) for ties, values in code.similarity.overlap[k].items()}
        data[f"Overlap@{k}"] |= {
            "expected": means["expected"],
            "by_index": means["order"],
            "best": means["best"],
            "worst": means["worst"],
            "tied_share": float(code.similarity.tied(k).mean()),
            "chance": report.chance(k),
        }
    for name in (*(f"Overlap@{k}" for k in report.settings.k), f"RBO(p={report.settings.p:g})"):
        if (ceiling := report.ceiling(name)) is not None:
            data[name]["ceiling"] = ceiling
    return data


def _judged_data(comparison: Comparison, code: QuantizationResult) -> dict[str, Any]:
    data = {}
    for measure in map(str, comparison.measures):
        mean = next(s.mean for s in comparison.standings_on(measure) if s.name == code.name)
        data[measure] = _mean_data(mean)
        pair = next((p for p in comparison.pairs_on(measure) if p.a == code.name), None)
        if pair is not None:
            numbers = (pair.difference, pair.interval.low, pair.interval.high, pair.p)
            data[measure] |= dict(zip(_OF_PAIR, map(or_none, numbers), strict=True))
            data[measure]["outcome"] = pair.outcome
    return data


def _mean_data(span: Interval) -> dict[str, Any]:
    return {**span.to_dict("mean"), "n": span.n, "removed": span.n_removed}
