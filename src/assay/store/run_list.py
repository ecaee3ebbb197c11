"""Runs of a store in a list that shows itself in a notebook."""

from __future__ import annotations

from typing import Any

from assay.errors import UsageError
from assay.store.aggregates import Aggregate, canonical
from assay.store.run import Run, names_of

__all__ = ["RunList", "plotted"]


class RunList(list[Run]):
    """A list of runs: a table in a notebook, and a chart of one measure."""

    def plot(self, measure: str | None = None) -> Any:
        """A chart of the means of one measure, the best first; needs the extra `report`.

        Without a measure it is the first that all of the runs have.
        """
        name = self._shared() if measure is None else canonical(measure)
        means = zip(names_of(self), (_mean(run, name) for run in self), strict=True)
        found = [(run, mean) for run, mean in means if mean is not None and mean.value is not None]
        if not found:
            raise UsageError(f"None of the {len(self)} runs has a mean of {name!r}.")
        return plotted(sorted(found, key=lambda one: -(one[1].value or 0.0)), name)

    def _shared(self) -> str:
        names = [run.means() for run in self]
        found = [name for name in names[0] if all(name in each for each in names)] if names else []
        if not found:
            raise UsageError(f"{len(self)} runs have no measure in common. Name one.")
        return found[0]

    def _repr_html_(self) -> str:
        from assay.report.page import html_page
        from assay.report.stored_tables import list_table

        return html_page([list_table(self)])


def _mean(run: Run, measure: str) -> Aggregate | None:
    found = (one for one in run.aggregates if one.measure == measure)
    return next((one for one in found if not one.by_column and not one.subset), None)


def plotted(means: list[tuple[str, Aggregate]], title: str) -> Any:
    """A chart of means with their intervals, in this order."""
    from assay.report.chart_data import labels
    from assay.report.charts import leaderboard_chart

    names = labels([name for name, _ in means])
    rows = [
        {"run": names[name], "place": place, "mean": one.value, "low": one.low, "high": one.high,
         "letters": "", "first": True}
        for place, (name, one) in enumerate(means)
    ]  # fmt: skip
    return leaderboard_chart(rows, title)
