"""The report on codes as tables for people, a long table for CSV, and plain data for JSON."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from assay.arrays import or_none
from assay.codes.encoders import FLOAT
from assay.codes.search import RADIUS, map_measure
from assay.codes.settings import HASHING
from assay.comparison.compare import Comparison
from assay.comparison.standings import format_p
from assay.core.text import format_percent, signed
from assay.stats import Interval
from assay.tables.page import Page, Words
from assay.tables.table import Cell, Table

if TYPE_CHECKING:
    from assay.codes.result import CodesReport, CodesSettings, QuantizationResult


_BAR: Final = 15


def report_page(report: CodesReport, *, brief: bool = False) -> Page:
    """Return similarity to the float ranking, scores, costs and remarks.

    In `brief`, similarity is the overlap at the first cut.
    """
    settings = report.settings
    page: Page = [Words(_title(report), "verdict")]
    page += [overlap_table(report, k) for k in settings.k[: 1 if brief else None]]
    if not brief:
        page += [rbo_table(report), correlation_table(report), Words(_tie_note(report))]
        words = (
            f"With the first {settings.k[0]} documents of the float ranking as the relevant ones"
        )
        page += [Words(words), *(near_table(report, k) for k in settings.k)]
    if report.comparison is not None:
        for measure, verdict in report.comparison.verdicts.items():
            page.append(Words(verdict, "verdict"))
            page.append(judged_table(report, report.comparison, measure))
    if settings.hashing is not None:
        page += _hashing_part(report, settings.hashing)
    page += [cost_table(report), *(Words(remark, "remark") for remark in report.remarks)]
    if report.comparison is not None:
        page.append(Words(report.comparison.method, "method"))
    return [*page, Words(report.signature, "signature")]


def _title(report: CodesReport) -> str:
    settings = report.settings
    again = f"; the first {settings.rerank} of codes re-ranked by float" if settings.rerank else ""
    if settings.oversample:
        times = ", ".join(f"×{factor}" for factor in settings.oversample)
        again = f"; {times}: the first so many times {settings.k[-1]} documents re-ranked by float"
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


def _interval_head(report: CodesReport) -> str:
    return f"{100 * (1 - report.settings.level):g} % interval"


def _ends(low: float, high: float) -> Cell:
    return Cell(None if math.isnan(low) else f"[{low:.4f}, {high:.4f}]", "figure")


def overlap_table(report: CodesReport, k: int) -> Table:
    """Return overlap at one cut, with the effect of ties; the last row is a random order."""
    name = f"Overlap@{k}"
    rows = []
    for code in report.codes:
        span = report.intervals[code.name][name]
        rows.append(
            (
                Cell(code.name),
                Cell(code.cost.bytes_per_vector, "count"),
                *_mean_cells(span),
                Cell(float(code.similarity.overlap[k]["order"].mean()), "fraction"),
                Cell(format_percent(code.similarity.tied(k).mean()), "figure"),
                _bar(span.estimate),
            )
        )
    blank = Cell(None, "figure")
    chance = report.chance(k)
    rows.append(
        (Cell("chance"), blank, Cell(chance, "fraction"), blank, blank, blank, _bar(chance))
    )
    columns = ("code", "bytes", name, _interval_head(report), "by index", "tied", "")
    return Table(columns, tuple(rows), n_optional=1)


def _bar(share: float) -> Cell:
    return Cell("" if math.isnan(share) else "#" * round(_BAR * share))


def _mean_cells(span: Interval) -> tuple[Cell, Cell]:
    return Cell(span.estimate, "fraction"), _ends(span.low, span.high)


def rbo_table(report: CodesReport) -> Table:
    """Return rank-biased overlap, weighted towards the first ranks."""
    name = f"RBO(p={report.settings.p:g})"
    rows = []
    for code in report.codes:
        span = report.intervals[code.name][name]
        size = Cell(code.cost.bytes_per_vector, "count")
        rows.append((Cell(code.name), size, *_mean_cells(span), _bar(span.estimate)))
    blank, chance = Cell(None, "figure"), report.chance_rbo
    rows.append((Cell("chance"), blank, Cell(chance, "fraction"), blank, _bar(chance)))
    columns = ("code", "bytes", name, _interval_head(report), "")
    return Table(columns, tuple(rows), n_optional=1)


def correlation_table(report: CodesReport) -> Table:
    """Rank correlations of the whole order."""
    names = ("Kendall", "Spearman")
    rows = [_mean_row(report, code, names) for code in report.codes]
    zero, blank = Cell(0.0, "fraction"), Cell(None, "figure")
    rows.append((Cell("chance"), zero, blank, zero, blank))
    return Table(_mean_columns(report, names), tuple(rows))


def near_table(report: CodesReport, k: int) -> Table:
    """Return recall and nDCG where the float ranking's first documents are the relevant ones."""
    names = (f"R@{k}", f"nDCG@{k}")
    rows = tuple(_mean_row(report, code, names) for code in report.codes)
    return Table(_mean_columns(report, names), rows)


def _mean_columns(report: CodesReport, names: tuple[str, ...]) -> tuple[str, ...]:
    return ("code", *(part for name in names for part in (name, _interval_head(report))))


def _mean_row(
    report: CodesReport, code: QuantizationResult, names: tuple[str, ...]
) -> tuple[Cell, ...]:
    means = [_mean_cells(report.intervals[code.name][name]) for name in names]
    return (Cell(code.name), *(cell for pair in means for cell in pair))


def judged_table(report: CodesReport, comparison: Comparison, measure: str) -> Table:
    """Return one measure against the judgments: means, and the difference of each code to float."""
    standings = {code.name: code.mean for code in comparison.standings_on(measure)}
    pairs = {pair.a: pair for pair in comparison.pairs_on(measure)}
    rows = []
    for code in report.codes:
        mean, pair = standings[code.name], pairs.get(code.name)
        row = [Cell(code.name), *_mean_cells(mean)]
        if pair is None:
            row += [Cell(None, "figure")] * 3
        else:
            difference, low, high = pair.difference_of(code.name)
            clear = pair.winner is not None
            span = None if math.isnan(low) else f"[{signed(low)}, {signed(high)}]"
            text = None if math.isnan(difference) else signed(difference)
            row += [
                Cell(text, "figure", clear),
                Cell(span, "figure"),
                Cell(format_p(pair.p), "figure", clear),
            ]
        rows.append(tuple(row))
    head = _interval_head(report)
    return Table(("code", measure, head, f"− {FLOAT}", head, "p"), tuple(rows))


def _hashing_part(report: CodesReport, preset: str) -> Page:
    measure = map_measure(preset)
    note = (
        f"mAP@{HASHING[preset] or 'all'} as learning to hash prints it: AP over the relevant "
        "documents among those that count, 0 where there are none. Within a Hamming radius a query "
        "without any document has precision 0; 'found' is the share of queries with one."
    )
    return [Words(note), paper_table(report, measure), radius_table(report)]


def paper_table(report: CodesReport, measure: str) -> Table:
    """Return mAP by method and length of the code, as papers print it."""
    means = {
        code.name: code.judged.mean()[measure] for code in report.codes if code.judged is not None
    }
    binary = [code for code in report.codes if code.curve is not None]
    lengths = sorted({code.cost.bits for code in binary})
    by_method: dict[str, dict[int, float]] = {}
    for code in binary:
        row = by_method.setdefault(code.name if code.method == "given" else code.method, {})
        row[code.cost.bits] = means[code.name]
    for code in report.codes:
        if code.curve is None:
            by_method[code.name] = {}
    rows = (
        (
            Cell(name),
            *(Cell(values.get(bits), "fraction") for bits in lengths),
            Cell(None if values else means[name], "fraction"),
        )
        for name, values in by_method.items()
    )
    blank = [Cell(None, "fraction")] * len(lengths)
    chance = (Cell("chance"), *blank, Cell(report.chance_map, "fraction"))
    columns = ("method", *(f"{bits} bits" for bits in lengths), "no bits")
    return Table(columns, (*rows, chance))


def radius_table(report: CodesReport) -> Table:
    """Return precision, recall and filled balls at radius 2 and nearer."""
    rows = []
    for code in report.codes:
        if (curve := code.curve) is None:
            continue
        at = min(RADIUS, curve.bits)
        rows.append(
            (
                Cell(code.name),
                *_mean_cells(report.radius_intervals[code.name]),
                Cell(float(curve.recall[at]), "fraction"),
                Cell(format_percent(curve.filled[at]), "figure"),
                Cell(float(curve.precision[0]), "fraction"),
                Cell(float(curve.precision[min(1, at)]), "fraction"),
            )
        )
    head = (f"P@radius {RADIUS}", _interval_head(report), f"R@radius {RADIUS}", "found")
    return Table(("code", *head, "P@radius 0", "P@radius 1"), tuple(rows))


def cost_table(report: CodesReport) -> Table:
    """Return bits, bytes and seconds."""
    rows = [
        (
            Cell(code.name),
            Cell(code.cost.bits, "count"),
            Cell(code.cost.bytes_per_vector, "count"),
            Cell(f"{_smaller(report, code):.1f}", "figure"),
            Cell(f"{code.cost.encode_seconds:.3f}", "figure"),
            Cell(f"{1000 * code.cost.search_seconds / report.n_queries:.3f}", "figure"),
        )
        for code in report.codes
    ]
    columns = ("code", "bits", "bytes", "times smaller", "encoding (s)", "search (ms per query)")
    return Table(columns, tuple(rows))


def _smaller(report: CodesReport, code: QuantizationResult) -> float:
    return report[FLOAT].cost.bytes_per_vector / code.cost.bytes_per_vector


_OF_TIES: Final = ("by_index", "best", "worst", "tied_share")
_OF_PAIR: Final = ("difference", "difference_low", "difference_high", "p")
_NUMBERS: Final = ("mean", "low", "high", "n", *_OF_TIES, "chance", *_OF_PAIR)


def data_table(report: CodesReport) -> Table:
    """Return a row for each code and measure, every digit, for CSV."""
    rows = []
    for code in report_data(report)["codes"]:
        front = (
            Cell(code["name"]),
            Cell(code["method"]),
            Cell(code["bits"], "count"),
            Cell(code["bytes_per_vector"], "count"),
        )
        for against in ("float_ranking", "judgments", "radius"):
            for name, data in code.get(against, {}).items():
                numbers = (_number_cell(key, data.get(key)) for key in _NUMBERS)
                rows.append((*front, Cell(against), Cell(name), *numbers))
    front_columns = ("code", "method", "bits", "bytes", "against", "measure")
    return Table((*front_columns, *_NUMBERS), tuple(rows))


def _number_cell(name: str, value: float | None) -> Cell:
    return Cell(value, "count" if name == "n" else "fraction")


def report_data(report: CodesReport) -> dict[str, Any]:
    """Return everything, with every digit."""
    settings = report.settings
    data: dict[str, Any] = {
        "signature": report.signature,
        "queries": report.n_queries,
        "docs": report.n_docs,
        "settings": {**_chosen(settings), "k": list(settings.k)},
        "codes": [_code_data(report, code) for code in report.codes],
        "remarks": list(report.remarks),
    }
    if report.chance_map is not None:
        data["chance_map"] = report.chance_map
    if report.comparison is not None:
        data["verdicts"] = dict(report.comparison.verdicts)
        data["comparison"] = report.comparison.to_dict()["measures"]
    return data


def _chosen(settings: CodesSettings) -> dict[str, Any]:
    """Return the settings; hashing and oversampling only where they were asked for."""
    values = vars(settings) | {"oversample": list(settings.oversample)}
    return {key: v for key, v in values.items() if v or key not in ("hashing", "oversample")}


def _radius_data(report: CodesReport, code: QuantizationResult) -> dict[str, Any]:
    """Return precision, recall and the share of filled balls, by measure."""
    curve = code.curve
    assert curve is not None
    data: dict[str, Any] = {}
    for radius in range(curve.bits + 1):
        data[f"P@radius {radius}"] = {"mean": float(curve.precision[radius])}
        data[f"R@radius {radius}"] = {"mean": float(curve.recall[radius])}
        data[f"filled@radius {radius}"] = {"mean": float(curve.filled[radius])}
    data[f"P@radius {min(RADIUS, curve.bits)}"] = _mean_data(report.radius_intervals[code.name])
    return data


def _code_data(report: CodesReport, code: QuantizationResult) -> dict[str, Any]:
    data: dict[str, Any] = {
        "name": code.name,
        "method": code.method,
        "bits": code.cost.bits,
        "bytes_per_vector": code.cost.bytes_per_vector,
        **({} if code.oversample is None else {"oversample": code.oversample}),
        "encode_seconds": code.cost.encode_seconds,
        "search_seconds": code.cost.search_seconds,
        "float_ranking": _similarity_data(report, code),
    }
    if report.comparison is not None:
        data["judgments"] = _judged_data(report.comparison, code)
    if code.curve is not None:
        data["radius"] = _radius_data(report, code)
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
    return data


def _judged_data(comparison: Comparison, code: QuantizationResult) -> dict[str, Any]:
    data = {}
    for measure in map(str, comparison.measures):
        mean = next(s.mean for s in comparison.standings_on(measure) if s.name == code.name)
        data[measure] = _mean_data(mean)
        pair = next((p for p in comparison.pairs_on(measure) if p.a == code.name), None)
        if pair is not None:
            data[measure] |= {
                "difference": or_none(pair.difference),
                "difference_low": or_none(pair.interval.low),
                "difference_high": or_none(pair.interval.high),
                "p": or_none(pair.p),
                "outcome": pair.outcome,
            }
    return data


def _mean_data(span: Interval) -> dict[str, Any]:
    return {
        "mean": or_none(span.estimate),
        "low": or_none(span.low),
        "high": or_none(span.high),
        "n": span.n,
        "removed": span.n_removed,
    }
