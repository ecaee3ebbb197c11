"""Charts as Vega-Lite, built with altair.

Names reach a chart only as data, never as a field, an expression or a format, so nothing in them
can be taken for code. Colours and labels are those of the static charts (`assay.tables.svg`).
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from assay.errors import UsageError, need
from assay.report import chart_data
from assay.report.chart_data import Row
from assay.report.tables import first_pair
from assay.runs.leaderboard import Leaderboard
from assay.tables.svg import BLUE, COLOURS, GREY, VERMILION, unique_labels

if TYPE_CHECKING:
    from assay.comparison.compare import QueryDifferences
    from assay.comparison.pairs import Pair
    from assay.comparison.standings import Standing
    from assay.measures import Measure
    from assay.runs.results import Aggregate
    from assay.scoring.scores import Scores


FORMATS: Final = ("svg", "png", "pdf")
_PIXELS: Final = 2.0  # for each unit, so that a PNG is sharp on paper and on fine screens


def check_format(format: str) -> None:
    """Refuse a format in which no figure is written."""
    if format not in FORMATS:
        raise UsageError(
            f"The format of a figure is one of {', '.join(FORMATS)}; found {format!r}."
        )


def render_chart(spec: dict[str, Any], format: str) -> bytes:
    """Render a chart as SVG, PNG or PDF."""
    check_format(format)
    draw = getattr(need("vl_convert", "Writing figures", "report"), f"vegalite_to_{format}")
    options = {"scale": _PIXELS} if format == "png" else {}
    drawn: str | bytes = draw(json.dumps(spec), **options)
    return drawn.encode() if isinstance(drawn, str) else drawn


_SHAPES: Final = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down")
_MOST_BARS: Final = 4  # runs side by side in one bar chart; beyond, a table of colours
_WIDTH: Final = 520
_LINE: Final = 24  # height of a row
_FEW_TICKS: Final = 6


def _altair() -> Any:
    return need("altair", "Drawing charts", "report")


def _data(rows: Sequence[Row]) -> Any:
    return _altair().Data(values=list(rows))


def _add_title(chart: Any, description: str, height: int) -> Any:
    return chart.properties(width=_WIDTH, height=height, description=description)


def _x(field: str, title: str, **options: Any) -> Any:
    alt = _altair()
    axis = alt.Axis(tickCount=_FEW_TICKS, format=options.pop("format", "~g"))
    return alt.X(f"{field}:Q", title=title, axis=axis, **options)


def leaderboard_chart(rows: Sequence[Row], measure: str, *, chance: float = math.nan) -> Any:
    """Draw a point with its interval for each row, possible winners in blue.

    Group letters stand beside the intervals, and chance is a dashed line.
    """
    alt = _altair()
    scale = alt.Scale(zero=False, nice=True)
    y = alt.Y("run:N", title=None, sort=alt.EncodingSortField("place", op="min"))
    colour = alt.condition("datum.first", alt.value(BLUE), alt.value(GREY))
    base = alt.Chart(_data(rows)).encode(y=y)
    with_interval = alt.Chart(_data([row for row in rows if row["low"] is not None])).encode(y=y)
    layers = [
        with_interval.mark_rule(size=2).encode(
            x=_x("low", measure, scale=scale), x2="high:Q", color=colour
        ),
        base.mark_point(filled=True, size=80, opacity=1).encode(
            x=_x("mean", measure, scale=scale), color=colour, tooltip=_mean_tips()
        ),
        with_interval.mark_text(align="left", dx=6).encode(x=_x("high", measure), text="letters:N"),
    ]
    if not math.isnan(chance):
        layers += _chance_line(chance, measure)
    described = f"{measure} with intervals, {len(rows)} rows, best first"
    return _add_title(alt.layer(*layers), described, _LINE * len(rows))


def _chance_line(chance: float, measure: str) -> list[Any]:
    alt = _altair()
    line = alt.Chart(_data([{"chance": chance, "what": "chance"}]))
    x = _x("chance", measure)
    text = line.mark_text(baseline="bottom", dy=-3)
    return [
        line.mark_rule(strokeDash=[5, 4]).encode(x=x, tooltip=[_tip("chance", "chance")]),
        text.encode(x=x, y=alt.value(0), text="what:N"),
    ]


def _tip(field: str, title: str, format: str = ".4f") -> Any:
    return _altair().Tooltip(f"{field}:Q", title=title, format=format)


def _named_tip(field: str, title: str) -> Any:
    return _altair().Tooltip(f"{field}:N", title=title)


def _mean_tips() -> list[Any]:
    ends = [_tip("low", "from"), _tip("high", "to")]
    return [_named_tip("run", "name"), _tip("mean", "mean"), *ends, _named_tip("letters", "group")]


def runs_of(rows: Sequence[Row]) -> list[str]:
    """Return the runs of some rows, best first."""
    places = {row["run"]: row["place"] for row in rows}
    return sorted(places, key=lambda run: (places[run], run))


def _run_colour(runs: Sequence[str]) -> Any:
    """Encode a colour for each of the first runs; the rest is grey."""
    alt = _altair()
    colours = [*COLOURS, *[GREY] * max(0, len(runs) - len(COLOURS))][: len(runs)]
    scale = alt.Scale(domain=list(runs), range=colours)
    return alt.Color("run:N", scale=scale, legend=_run_legend(runs))


def _run_shape(runs: Sequence[str]) -> Any:
    alt = _altair()
    shapes = [_SHAPES[i % len(_SHAPES)] for i in range(len(runs))]
    scale = alt.Scale(domain=list(runs), range=shapes)
    return alt.Shape("run:N", scale=scale, legend=_run_legend(runs))


def _run_legend(runs: Sequence[str]) -> Any:
    """Name the coloured runs below the chart."""
    named = list(runs[: len(COLOURS)])
    return _altair().Legend(
        title=None, orient="bottom", columns=3, labelLimit=160, values=named, symbolLimit=0
    )


def curve_chart(rows: Sequence[Row], measure: str) -> Any:
    """Draw means against the cutoff, the six best runs in colour."""
    alt = _altair()
    runs = runs_of(rows)
    cutoffs = sorted({row["k"] for row in rows})
    axis = alt.Axis(values=cutoffs, grid=False, format="d")
    base = alt.Chart(_data(rows)).encode(
        x=alt.X("k:Q", title="cutoff k", scale=alt.Scale(type="log", nice=False), axis=axis),
        y=alt.Y("mean:Q", title=measure, axis=alt.Axis(tickCount=_FEW_TICKS, format="~g")),
        color=_run_colour(runs),
    )
    points = base.mark_point(filled=True, size=45, opacity=1).encode(
        shape=_run_shape(runs),
        tooltip=[_named_tip("run", "run"), _tip("k", "k", "d"), _tip("mean", measure)],
    )
    chart = alt.layer(base.mark_line(strokeWidth=1.5), points)
    return _add_title(chart, f"{measure} by cutoff for {len(runs)} runs", 260)


def group_chart(rows: Sequence[Row], measure: str, by: str) -> Any:
    """Draw means of each group: bars for a few runs, points for more."""
    alt = _altair()
    runs = runs_of(rows)[: len(COLOURS)]
    shown_rows = [row for row in rows if row["run"] in set(runs)]
    y = alt.Y("group:N", title=by, sort=alt.EncodingSortField("order", op="min"))
    tips = [_named_tip("group", by), _named_tip("run", "run"), _tip("mean", measure)]
    base = alt.Chart(_data(shown_rows)).encode(
        x=_x("mean", measure), y=y, color=_run_colour(runs), tooltip=tips
    )
    if len(runs) <= _MOST_BARS:
        bars = base.encode(yOffset=alt.YOffset("run:N", scale=alt.Scale(domain=runs)))
        chart, line = bars.mark_bar(), 12 * len(runs) + 6
    else:
        points = base.mark_point(filled=True, size=60, opacity=1)
        chart, line = points.encode(shape=_run_shape(runs)), _LINE
    n_groups = len({row["group"] for row in shown_rows})
    return _add_title(chart, f"{measure} by {by} for {len(runs)} runs", line * n_groups)


def difference_chart(rows: Sequence[Row], title: str) -> Any:
    """Draw a bar for each query, the largest win first."""
    alt = _altair()
    colour = alt.condition("datum.difference > 0", alt.value(BLUE), alt.value(VERMILION))
    tips = [
        _named_tip("query", "query"),
        _tip("a", "first"),
        _tip("b", "second"),
        _tip("difference", "difference", "+.4f"),
    ]
    chart = alt.Chart(_data(rows)).encode(
        x=alt.X("place:Q", axis=None, scale=alt.Scale(nice=False)),
        x2="after:Q",
        y=alt.Y("difference:Q", title=title, axis=alt.Axis(tickCount=_FEW_TICKS, format="~g")),
        y2=alt.datum(0),
        color=colour,
        tooltip=tips,
    )
    return _add_title(chart.mark_bar(), f"{title}, {len(rows)} queries sorted by difference", 220)


def rank_chart(rows: Sequence[Row]) -> Any:
    """Draw shares of queries by the rank of their first relevant document."""
    alt = _altair()
    runs = runs_of(rows)
    x = alt.X(
        "rank:N",
        title="rank of the first relevant document",
        sort=alt.EncodingSortField("order", op="min"),
    )
    tips = [_named_tip("run", "run"), _named_tip("rank", "rank"), _tip("share", "queries", ".1%")]
    base = alt.Chart(_data(rows)).encode(x=x, tooltip=tips)
    described = f"share of queries by the rank of the first relevant document, {len(runs)} runs"
    if len(runs) > _MOST_BARS:
        return _level_labels(_add_title(_rank_table(base), described, _LINE * len(runs)))
    chart = base.mark_bar().encode(
        y=alt.Y("share:Q", title="share of queries", axis=alt.Axis(tickCount=5, format="%")),
        xOffset=alt.XOffset("run:N", scale=alt.Scale(domain=runs)),
        color=_run_colour(runs),
    )
    return _level_labels(_add_title(chart, described, 200))


def _level_labels(chart: Any) -> Any:
    """Keep the names below the bars level."""
    return chart.configure_axisXDiscrete(labelAngle=0)


def _rank_table(base: Any) -> Any:
    """Draw a table of colours, which holds any number of runs."""
    alt = _altair()
    y = alt.Y("run:N", title=None, sort=alt.EncodingSortField("place", op="min"))
    shade = alt.Color("share:Q", scale=alt.Scale(scheme="blues", domainMin=0), legend=None)
    dark = alt.condition("datum.share > 0.5", alt.value("white"), alt.value("black"))
    text = base.mark_text(fontSize=10).encode(
        y=y, text=alt.Text("share:Q", format=".0%"), color=dark
    )
    return alt.layer(base.mark_rect().encode(y=y, color=shade), text).resolve_scale(
        color="independent"
    )


@dataclass(frozen=True)
class ReportChart:
    """A chart, its kind, the number of its measure (None: it is about all) and a file name."""

    kind: str
    measure: int | None
    file_name: str
    chart: Any
    note: str = ""

    def spec(self) -> dict[str, Any]:
        """Return the chart in Vega-Lite; tests hold it against the schema, which takes long."""
        spec: dict[str, Any] = self.chart.to_dict(validate=False)
        return spec


def report_charts(board: Leaderboard) -> Iterator[ReportChart]:
    """Yield leaderboards, curves and groups of each measure, then ranks and differences."""
    for number, measure in enumerate(board.measures):
        yield from _measure_charts(board, number, measure)
    if ranks := chart_data.rank_rows(board):
        yield ReportChart("ranks", None, "ranks", rank_chart(ranks))
    if (pair := difference_pair(board)) is not None:
        chart = difference_chart(chart_data.difference_rows(pair), f"difference in {pair.measure}")
        yield ReportChart("differences", None, f"differences-{_file_part(pair.measure)}", chart)


def _measure_charts(board: Leaderboard, number: int, measure: Measure) -> Iterator[ReportChart]:
    name = str(measure)
    rows = chart_data.standing_rows(board.standings_on(measure))
    means = leaderboard_chart(rows, name, chance=board.chance_on(measure))
    yield ReportChart("leaderboard", number, f"leaderboard-{_file_part(name)}", means)
    if curve := chart_data.curve_rows(board, measure):
        kind = chart_data.family(measure) or name
        yield ReportChart("curve", number, f"curve-{_file_part(name)}", curve_chart(curve, kind))
    for place, column in enumerate(board.group_columns):
        groups, total = chart_data.group_rows(board, measure, column)
        if not groups:
            continue
        chart = group_chart(groups, name, unique_labels([column])[column])
        n_shown = min(total, chart_data.MOST_GROUPS)
        note = "" if n_shown == total else f"The {n_shown} largest of {total:,} groups."
        yield ReportChart("groups", number, f"groups-{place + 1}-{_file_part(name)}", chart, note)


def difference_pair(board: Leaderboard) -> QueryDifferences | None:
    """Return the queries of the pair to show first; None for one run."""
    if board.comparison is None:
        return None
    measure = board.measures[0]
    return board.comparison.differences(measure, *first_pair(board.comparison, str(measure)))


def _file_part(name: str) -> str:
    """Return a part of a file name.

    >>> _file_part("AP(rel=2)@100")
    'AP-rel-2-100'
    """
    return re.sub(r"[^A-Za-z0-9.]+", "-", name).strip("-.")


class _ShownAsSvg:
    """What a chart of altair is in a notebook: altair's own display loads scripts from a host."""

    def _repr_mimebundle_(self, *_: Any, **__: Any) -> dict[str, str]:
        chart: Any = self
        return {"image/svg+xml": render_chart(chart.to_dict(), "svg").decode()}


def _show_offline(chart: Any) -> Any:
    """Return a chart that a notebook displays without a network; all else is as in altair."""
    kind = type(chart)
    shown = type(kind.__name__, (_ShownAsSvg, kind), {"__module__": kind.__module__})
    object.__setattr__(chart, "__class__", shown)  # an assignment would set a field of the chart
    return chart


def plot_means(scores: Scores) -> Any:
    """Draw the means of some scores with 95 % intervals."""
    return _show_offline(leaderboard_chart(chart_data.mean_rows(scores), "mean"))


def plot_standings(
    standings: Sequence[Standing], measure: str, against: Sequence[Pair] | None
) -> Any:
    """Draw systems with intervals and group letters, or against a baseline.

    Standings say which are better than the baseline, so the pairs `against` it are not needed.
    """
    return _show_offline(leaderboard_chart(chart_data.standing_rows(standings), measure))


def plot_differences(differences: QueryDifferences) -> Any:
    """Draw two systems query by query."""
    title = f"difference in {differences.measure}"
    return _show_offline(difference_chart(chart_data.difference_rows(differences), title))


def plot_aggregates(means: Sequence[tuple[str, Aggregate]], title: str) -> Any:
    """Draw named means with their intervals, in this order."""
    return _show_offline(leaderboard_chart(chart_data.aggregate_rows(means), title))
