"""The door upwards: charts and reports of values, loaded when somebody looks at one.

Values lie below the layer that draws them. Their `plot()` and `report()` come through this file,
the only one that imports a higher layer, and only inside functions.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from assay.comparison.compare import Standing
    from assay.comparison.differences import QueryDifferences
    from assay.comparison.pairs import Pair
    from assay.report.report import Report
    from assay.runs.record import HasRecord
    from assay.runs.results import Aggregate
    from assay.scoring.scores import Scores

__all__ = ["plot_aggregates", "plot_differences", "plot_means", "plot_standings", "report_on"]


def plot_means(scores: Scores) -> Any:
    """A chart of the means of some scores with 95 % intervals."""
    from assay.report.chart_data import mean_rows
    from assay.report.charts import leaderboard_chart

    return leaderboard_chart(mean_rows(scores), "mean")


def plot_standings(
    standings: Sequence[Standing], measure: str, against: Sequence[Pair] | None
) -> Any:
    """A chart of systems with intervals and group letters, or against a baseline."""
    from assay.report.chart_data import standing_rows
    from assay.report.charts import leaderboard_chart

    return leaderboard_chart(standing_rows(standings, against), measure)


def plot_differences(differences: QueryDifferences) -> Any:
    """A chart of two systems query by query."""
    from assay.report.chart_data import difference_rows
    from assay.report.charts import difference_chart

    return difference_chart(difference_rows(differences), f"difference in {differences.measure}")


def plot_aggregates(means: Sequence[tuple[str, Aggregate]], title: str) -> Any:
    """A chart of named means with their intervals, in this order."""
    from assay.report.chart_data import aggregate_rows
    from assay.report.charts import leaderboard_chart

    return leaderboard_chart(aggregate_rows(means), title)


def report_on(records: Iterable[HasRecord], **settings: Any) -> Report:
    """A report of records; settings are those of `assay.report.make_report`."""
    from assay.report.report import make_report

    return make_report(records, **settings)
