"""What shorter vectors lose: similarity to the float ranking, scores and cost of each code."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from assay.arrays import Floats
from assay.codes.encoders import FLOAT
from assay.codes.search import RADIUS, RadiusCurve, map_measure
from assay.codes.tables import codes_paper, data_table, report_data, report_page
from assay.comparison.compare import Comparison
from assay.errors import UsageError
from assay.runs.record import RunRecord
from assay.runs.results import Aggregate
from assay.scoring.scores import Scores, signature_of
from assay.search.neighbours import RankingSimilarity
from assay.stats import Interval
from assay.tables.html import tag
from assay.tables.svg import COLOURS, GREY, Drawing, Scale, circle, group, line, svg_text
from assay.tables.table import Page, Shown, Table


@dataclass(frozen=True)
class CodesSettings:
    """Settings of the comparison of codes."""

    k: tuple[int, ...]
    metric: str
    ties: str
    p: float
    rerank: int | None
    exclude_self: bool
    level: float
    resamples: int
    seed: int
    zero: str = "error"
    hashing: str | None = None
    oversample: tuple[int, ...] = ()
    train: str = ""

    @property
    def resampling(self) -> dict[str, Any]:
        """Arguments of `intervals`."""
        return {"level": 1 - self.level, "resamples": self.resamples, "seed": self.seed}


@dataclass(frozen=True)
class CodeCost:
    """The length of a code, and seconds to encode all vectors and to search for all queries.

    `codebook_bytes` is the size of what the code learnt, `train` names what it learnt from.
    """

    bits: int
    bytes_per_vector: int
    encode_seconds: float = 0.0
    search_seconds: float = 0.0
    codebook_bytes: int = 0
    train: str = ""


@dataclass(frozen=True, eq=False)
class QuantizationResult:
    """One kind of code: its cost, the similarity of its ranking to the float ranking, its scores.

    Values are in the order of query ids, that of rows where there are none.
    `kendall` and `spearman` compare whole orders, of a sample of queries and documents where there
    are many. `near` scores its ranking with the first documents of the float ranking as the
    relevant ones, `judged` with the judgments; `curve` is what lies within each Hamming radius.
    `oversample` says how many times the largest k documents were re-ranked by float.
    """

    name: str
    method: str
    cost: CodeCost
    similarity: RankingSimilarity
    kendall: Floats
    spearman: Floats
    near: Scores
    judged: Scores | None
    curve: RadiusCurve | None = None
    oversample: int | None = None

    @property
    def kind(self) -> dict[str, Any]:
        """Method and size of the code, with oversampling if any."""
        sizes = {
            key: vars(self.cost)[key] for key in ("bits", "bytes_per_vector", "codebook_bytes")
        }
        again = {} if self.oversample is None else {"oversample": self.oversample}
        return {"method": self.method, **sizes, **again}

    def neighbour_values(self, settings: CodesSettings) -> dict[str, Floats]:
        """Return values per query of each similarity to the float ranking."""
        values = {f"Overlap@{k}": self.similarity.overlap[k][settings.ties] for k in settings.k}
        values[f"RBO(p={settings.p:g})"] = self.similarity.rbo
        values |= {str(measure): self.near[measure] for measure in self.near.measures}
        return {**values, "Kendall": self.kendall, "Spearman": self.spearman}


@dataclass(frozen=True, eq=False, repr=False)
class CodesReport(Shown):
    """Codes compared with the vectors they were made from; made by `evaluate_codes`.

    `codes` has the float vectors first. `intervals` are of the means of `neighbour_values`, by
    code and measure, `radius_intervals` of precision within radius 2. `comparison` tests every
    code against float on the judgments; `chance_map` is mAP of a random order.
    `remarks` say what was left out and what to know.
    """

    codes: tuple[QuantizationResult, ...]
    settings: CodesSettings
    n_queries: int
    n_docs: int
    intervals: dict[str, dict[str, Interval]]
    comparison: Comparison | None
    remarks: tuple[str, ...]
    radius_intervals: dict[str, Interval] = field(default_factory=dict)
    chance_map: float | None = None

    @property
    def signature(self) -> str:
        """The conventions and the settings behind the numbers, listed where codes differ."""
        numbers = {key: vars(self.settings)[key] for key in ("p", "level", "resamples", "seed")}
        return signature_of([code.near for code in self.codes], numbers)

    @property
    def interval_heading(self) -> str:
        """Heading of a column of intervals."""
        return Interval.heading(1 - self.settings.level)

    def __getitem__(self, name: str) -> QuantizationResult:
        for code in self.codes:
            if code.name == name:
                return code
        have = ", ".join(code.name for code in self.codes)
        raise UsageError(f"Unknown code {name!r}. Known: {have}.")

    def chance(self, k: int) -> float:
        """Return Overlap@k of two random orders."""
        return k / self.n_docs

    @property
    def chance_rbo(self) -> float:
        """RBO of two random orders: at depth d they share d²/n documents, d/n of the depth."""
        p, depth = self.settings.p, self.settings.k[-1]
        shares = [(1 - p) * p ** (d - 1) * self.chance(d) for d in range(1, depth + 1)]
        return math.fsum(shares) + p**depth * self.chance(depth)

    def ceiling(self, measure: str) -> float | None:
        """Return the most that any code can have of Overlap@k or RBO, where that is below 1.

        It is what the float vectors have against themselves: where equal vectors tie across the
        cut, two orders drawn independently agree no better.
        """
        of_float = self.intervals[FLOAT][measure].estimate
        return of_float if self.settings.ties == "expected" and of_float < 1 else None

    def records(self) -> list[RunRecord]:
        """Return records of the codes, the float vectors first.

        They are scored by the judgments, or by the float neighbours where there are none.
        """
        return [
            RunRecord(
                code.name,
                code.near if code.judged is None else code.judged,
                task="codes",
                config={
                    **code.kind,
                    "relevant": "float neighbours" if code.judged is None else "judged",
                },
                seeds={"seed": self.settings.seed},
                aggregates=self._similarities(code),
                timings={"encode": code.cost.encode_seconds, "search": code.cost.search_seconds},
            )
            for code in self.codes
        ]

    def _similarities(self, code: QuantizationResult) -> list[Aggregate]:
        """Return mean similarities to the float ranking, without scored measures."""
        chance = {f"Overlap@{k}": self.chance(k) for k in self.settings.k}
        chance[f"RBO(p={self.settings.p:g})"] = self.chance_rbo
        near = set(map(str, code.near.measures))
        spans = {
            name: span
            for name, span in self.intervals[code.name].items()
            if code.judged is not None or name not in near
        }
        if code.name in self.radius_intervals:
            spans[f"P@radius {RADIUS}"] = self.radius_intervals[code.name]
        numbers = []
        for name, span in spans.items():
            about = {
                "subset": "float neighbours" if name in near else "",
                "chance": chance.get(name),
            }
            numbers.append(Aggregate.of_interval(name, span, **about))
        return numbers

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON; undefined numbers are None."""
        return report_data(self)

    def table(self) -> Table:
        """Return a row for each code and measure, with every digit."""
        return data_table(self)

    def page(self) -> Page:
        """Return similarity, scores, costs and remarks as words and tables."""
        return report_page(self)

    def screen(self) -> Page:
        """Return the page for one screen: of similarity, the first overlap."""
        return report_page(self, brief=True)

    def paper(self) -> Page:
        """Return one table for a paper: codes × bytes, overlap and judged measures."""
        return codes_paper(self)

    def svg(self) -> str:
        """Return the curve: similarity to the float ranking and scores, over bytes per vector."""
        return report_chart(self)


_COLOURS: Final = (*COLOURS, "#555555", "#8c564b", "#9a9a00", "#17a2b8")
_INK, _SOFT, _GRID = "#222222", "#666666", "#e4e4e4"
_WIDTH, _HEIGHT = 460, 330
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 16, 40, 46
_LEGEND_COLUMNS: Final = 6
# Styles of the code itself, then by oversampling.
_DASHES: Final = ({}, *({"stroke_dasharray": dash} for dash in ("8 3", "4 3", "1 3")))
_Y: Final = Scale(0.0, 1.0, start=_HEIGHT - _BOTTOM, end=_TOP)


def report_chart(report: CodesReport) -> str:
    """Draw overlap at the smallest k, and nDCG if judged, over bytes."""
    k, preset = report.settings.k[0], report.settings.hashing
    overlap = {code.name: report.intervals[code.name][f"Overlap@{k}"] for code in report.codes}
    panels = [(f"Overlap@{k} with the float ranking", overlap, report.chance(k))]
    if report.comparison is not None:
        measure = f"nDCG@{k}" if preset is None else map_measure(preset)
        judged = {code.name: code.mean for code in report.comparison.standings_on(measure)}
        chance = math.nan if report.chance_map is None else report.chance_map
        panels.append((f"{measure} against the judgments", judged, chance))
    methods = list(dict.fromkeys(map(_method, report.codes)))
    colours = {name: _COLOURS[i % len(_COLOURS)] for i, name in enumerate(methods)}
    powers = [math.log2(code.cost.bytes_per_vector) for code in report.codes]
    x = Scale(min(powers) - 0.5, max(powers) + 0.5, start=_LEFT, end=_WIDTH - _RIGHT)
    curves = [code for code in report.codes if code.curve is not None]
    width = _WIDTH * (len(panels) + bool(curves))
    factors = report.settings.oversample
    lines = -(-len(methods) // _legend_columns(methods, width)) + bool(factors)
    height = _HEIGHT + 6 + 20 * lines
    marks = [
        group(_WIDTH * i, 0, "".join(_panel_marks(report.codes, *panel, x, colours)))
        for i, panel in enumerate(panels)
    ]
    if curves:
        marks.append(group(_WIDTH * len(panels), 0, "".join(_radius_marks(report, colours))))
    marks += [*_legend(colours, width), *_dash_legend(factors, height)]
    return Drawing(width, height, tag("g", "\n".join(marks), fill=_INK)).to_svg(font_size=12)


def _method(code: QuantizationResult) -> str:
    """Return the method of a code; codes that were given stand for themselves."""
    name = code.name if code.oversample is None else code.name.rpartition(" ")[0]
    return name if code.method == "given" or name == FLOAT else code.method


def _panel_marks(
    codes: tuple[QuantizationResult, ...],
    title: str,
    means: dict[str, Interval],
    chance: float,
    x: Scale,
    colours: dict[str, str],
) -> Iterator[str]:
    yield svg_text(_LEFT, 22, title, font_size=14, font_weight="bold")
    yield from _axes(x)
    for name, level in (("chance", chance), (FLOAT, means[FLOAT].estimate)):
        if not math.isnan(level):
            y = _Y.at(level)
            yield line(_LEFT, y, _WIDTH - _RIGHT, y, stroke=GREY, stroke_dasharray="4 3")
            yield svg_text(_LEFT + 4, y - 4, name, fill=_SOFT, font_size=11)
    factors = sorted({code.oversample or 1 for code in codes})
    by_size = sorted(codes, key=lambda code: code.cost.bytes_per_vector)
    defined = [code for code in by_size if not math.isnan(means[code.name].estimate)]
    for method, colour in colours.items():
        for number, factor in enumerate(factors):
            drawn = {
                code.name: code.cost.bytes_per_vector
                for code in defined
                if _method(code) == method and (code.oversample or 1) == factor
            }
            yield from _curve(drawn, means, x, colour, _DASHES[number % len(_DASHES)])


def _axes(x: Scale) -> Iterator[str]:
    right, bottom = _WIDTH - _RIGHT, _Y.at(0)
    for step in range(0, 11, 2):
        y = _Y.at(step / 10)
        yield line(_LEFT, y, right, y, stroke=_GRID)
        yield svg_text(_LEFT - 8, y + 4, f"{step / 10:.1f}", text_anchor="end")
    for power in range(math.ceil(x.low), math.floor(x.high) + 1):
        at = x.at(power)
        yield line(at, bottom, at, bottom + 5, stroke=GREY)
        yield svg_text(at, bottom + 18, 2**power, text_anchor="middle")
    yield svg_text((_LEFT + right) / 2, _HEIGHT - 8, "bytes per vector", text_anchor="middle")


def _radius_marks(report: CodesReport, colours: dict[str, str]) -> Iterator[str]:
    """Yield precision over recall by Hamming radius; the number at a line is that of its bits."""
    yield svg_text(_LEFT, 22, "By Hamming radius", font_size=14, font_weight="bold")
    x = Scale(0.0, 1.0, start=_LEFT, end=_WIDTH - _RIGHT)
    yield from _shares(x)
    for code in report.codes:
        if code.curve is None:
            continue
        colour = colours[_method(code)]
        places = [
            (x.at(r), _Y.at(p), radius)
            for radius, (r, p, filled) in enumerate(code.curve.shares())
            if filled > 0
        ]
        path = " ".join(f"{at:g},{y:g}" for at, y, _ in places)
        yield tag("polyline", points=path, fill="none", stroke=colour, stroke_width=1.5)
        at, y, _ = min(places, key=lambda place: abs(place[0] - x.at(0.4)))
        yield svg_text(at + 3, y - 3, code.cost.bits, font_size=10, fill=colour)
        for at, y, radius in places[:1] + [p for p in places[1:] if p[2] == RADIUS]:
            yield circle(at, y, 2.5, tip=f"{code.name}, radius {radius}", fill=colour)


def _shares(x: Scale) -> Iterator[str]:
    for step in range(0, 11, 2):
        yield line(_LEFT, _Y.at(step / 10), x.end, _Y.at(step / 10), stroke=_GRID)
        yield svg_text(_LEFT - 8, _Y.at(step / 10) + 4, f"{step / 10:.1f}", text_anchor="end")
        yield svg_text(x.at(step / 10), _Y.at(0) + 18, f"{step / 10:.1f}", text_anchor="middle")
    middle = (_LEFT + x.end) / 2
    yield svg_text(middle, _HEIGHT - 8, "recall; upwards: precision", text_anchor="middle")


def _curve(
    sizes: dict[str, int], means: dict[str, Interval], x: Scale, colour: str, style: dict[str, str]
) -> Iterator[str]:
    """Yield the marks of some codes, by their names and bytes per vector."""
    places = [(x.at(math.log2(size)), _Y.at(means[name].estimate)) for name, size in sizes.items()]
    if len(sizes) > 1:
        path = " ".join(f"{at:g},{y:g}" for at, y in places)
        yield tag("polyline", points=path, fill="none", stroke=colour, stroke_width=2, **style)
    for (name, size), (at, y) in zip(sizes.items(), places, strict=True):
        mean = means[name]
        if not math.isnan(mean.low):
            yield line(at, _Y.at(mean.low), at, _Y.at(mean.high), stroke=colour)
        yield circle(at, y, 3.5, tip=f"{name}: {mean.estimate:.4f}, {size} bytes", fill=colour)
        if len(sizes) == 1 and style:  # there is no line whose dashes would tell
            yield svg_text(at + 7, y + 4, name.rpartition(" ")[2], font_size=10, fill=colour)


def _legend_columns(methods: Iterable[str], width: int) -> int:
    """Return how many names stand side by side: as many as there is room for, six at most."""
    longest = 30 + 7 * max(map(len, methods))
    return max(1, min(_LEGEND_COLUMNS, (width - _LEFT) // longest))


def _legend(colours: dict[str, str], width: int) -> Iterator[str]:
    columns = _legend_columns(colours, width)
    step = min(130.0, (width - _LEFT) / columns)
    for i, (name, colour) in enumerate(colours.items()):
        x, y = _LEFT + (i % columns) * step, _HEIGHT + 12 + 20 * (i // columns)
        yield circle(x, y - 4, 4, fill=colour)
        yield svg_text(x + 9, y, name)


def _dash_legend(factors: tuple[int, ...], height: int) -> Iterator[str]:
    for number, factor in enumerate((1, *factors) if factors else ()):
        x, y = _LEFT + 110 * number, height - 14
        style = _DASHES[number % len(_DASHES)]
        yield line(x - 4, y - 4, x + 24, y - 4, stroke=GREY, stroke_width=2, **style)
        yield svg_text(x + 30, y, "code alone" if number == 0 else f"re-ranked ×{factor}")
