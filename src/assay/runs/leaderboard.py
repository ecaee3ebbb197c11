"""Leaderboard: records compared with each other, or one of them alone, measure by measure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property

from assay.comparison.alignment import Aligned, align, cluster_settings
from assay.comparison.compare import Comparison, Standing, compare
from assay.comparison.pairs import ComparisonSettings
from assay.comparison.sensitivity import Sensitivity, sensitivity
from assay.comparison.tables import describe_intervals
from assay.comparison.verdict import join_names
from assay.core.text import Remark, short_remark
from assay.errors import UsageError
from assay.io.formats import as_judgments
from assay.measures import Measure
from assay.runs.record import RecordsLike, RunRecord, as_records
from assay.scoring.output import disclosures, is_below_chance
from assay.stats import RankInterval, intervals

__all__ = ["Leaderboard", "rank_records", "vary_conventions"]


@dataclass(frozen=True, eq=False)
class Leaderboard:
    """Records and what may be said about them; made by `rank_records`.

    `comparison` is None where there is one record; the first measure is the headline.
    """

    runs: tuple[RunRecord, ...]
    aligned: Aligned
    comparison: Comparison | None
    settings: ComparisonSettings

    @property
    def measures(self) -> tuple[Measure, ...]:
        """The measures that are means over queries, the headline first."""
        return self.aligned.measures

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the runs."""
        return self.aligned.names

    @property
    def baseline(self) -> str | None:
        """The name of the run that the others are compared with, if there is one."""
        return None if self.comparison is None else self.comparison.baseline

    @cached_property
    def verdicts(self) -> dict[str, str]:
        """A sentence for each measure; it names those that a random order beats."""
        if self.comparison is None:
            return {str(measure): self._alone(str(measure)) for measure in self.measures}
        said = self.comparison.verdicts
        return {str(one): said[str(one)] + self._below_chance(one) for one in self.measures}

    def _below_chance(self, measure: Measure) -> str:
        """Whom a random order beats; where any order is right (chance 1), a remark says that."""
        chance = self.chance_on(measure)
        low = [
            one.name
            for one in self.standings_on(measure)
            if chance < 1 - 1e-12 and is_below_chance(measure, one.mean.estimate, chance)
        ]
        if not low:
            return ""
        verb = "is" if len(low) == 1 else "are"
        return f"; {join_names(low)} {verb} worse than a random order, which reaches {chance:.4f}"

    def _alone(self, measure: str) -> str:
        one = self.standings_on(measure)[0]
        mean = one.mean
        ends = "" if math.isnan(mean.low) else f" [{mean.low:.4f}, {mean.high:.4f}]"
        chance = self.chance_on(measure)
        beside = "" if math.isnan(chance) else f"; a random order reaches {chance:.4f}"
        return f"{one.name} reaches {mean.estimate:.4f}{ends} on {measure}{beside}"

    def standings_on(self, measure: str | Measure) -> tuple[Standing, ...]:
        """The runs on one measure, best first."""
        if self.comparison is not None:
            return self.comparison.standings_on(measure)
        return tuple(one for one in self._only if one.measure == str(measure))

    @cached_property
    def _only(self) -> list[Standing]:
        """The only run, with an interval and rank 1."""
        settings, values = self.settings, self.aligned.values[0]
        level = 1 - settings.level
        means = intervals(
            values,
            method=settings.interval,
            level=level,
            resamples=settings.resamples,
            seed=settings.seed,
            clusters=self.aligned.clusters,
            bounds=[measure.bounds for measure in self.measures],
        )
        first = RankInterval(1.0, math.nan, math.nan, level, values.shape[1], 0, 0, settings.seed)
        return [
            Standing(self.names[0], str(measure), mean, first, "")
            for measure, mean in zip(self.measures, means, strict=True)
        ]

    def chance_on(self, measure: str | Measure) -> float:
        """What a random order scores, from the first run that knows; NaN where none does."""
        for run in self.runs:
            means = run.chance_means()
            if means is not None:
                return means.get(str(measure), math.nan)
        return math.nan

    @property
    def remarks(self) -> tuple[str, ...]:
        """What a reader should know besides the numbers."""
        return self.run_remarks

    @cached_property
    def run_remarks(self) -> tuple[str, ...]:
        """What a mean alone would hide of the runs and the comparison; what all share, once."""
        each = [list(disclosures(run.scored(), run.chance_means())) for run in self.runs]
        shared = [remark for remark in each[0] if all(remark in one for one in each)]
        mark = "all: " if len(each) > 1 else ""
        own = [Remark(mark + remark, short_remark(remark)) for remark in shared] + [
            Remark(f"{run.name}: {remark}", short_remark(remark))
            for run, found in zip(self.runs, each, strict=True)
            for remark in found
            if remark not in shared
        ]
        between = self.aligned.remarks if self.comparison is None else self.comparison.remarks
        mixed = (_mixed_data, _mixed_query_sets, _indexes_among_models)
        both = (*(text for look in mixed for text in look(self.runs)), *own, *between)
        return tuple(dict.fromkeys(both))

    @property
    def group_columns(self) -> tuple[str, ...]:
        """The group columns that all runs have."""
        first = self.runs[0].scored().groups
        return tuple(name for name in first if all(name in r.scored().groups for r in self.runs))

    @property
    def method(self) -> str:
        """How p-values and intervals were found; of one run, only its intervals."""
        if self.comparison is not None:
            return self.comparison.method
        settings = self.settings
        resampled = f"{settings.resamples:,} resamples, seed {settings.seed}"
        return f"Intervals: {describe_intervals(self._only)}, {resampled}."


def rank_records(
    runs: RecordsLike,
    *,
    baseline: str | None = None,
    test: str = "randomisation",
    correction: str | None = None,
    level: float = 0.05,
    interval: str = "auto",
    resamples: int = 10_000,
    seed: int = 0,
    margin: float | None = None,
    by: str | None = None,
    slices: str | None = None,
) -> Leaderboard:
    """Compare records as `assay.compare` does; one of them stands alone.

    Runs of a store are taken as they are, with the measures that all of them have. Without `by`,
    the `clusters` of the records are resampled as whole groups.
    """
    records = tuple(as_records(runs))
    if not records:
        raise UsageError("A report needs at least one run.")
    names = [run.name for run in records]
    scores = [run.scored() for run in records]
    if by is None:
        together = cluster_settings((run.clusters, run.scored()) for run in records)
        by = together.get("by")
    how = (interval, resamples, seed, margin, by)
    settings = ComparisonSettings(test, correction or "", level, *how)
    comparison = None
    if len(records) > 1:
        comparison = compare(
            scores[0],
            scores[1],
            *scores[2:],
            names=names,
            baseline=baseline,
            test=test,
            correction=correction,
            level=level,
            interval=interval,
            resamples=resamples,
            seed=seed,
            margin=margin,
            by=by,
            slices=slices,
        )
    elif baseline is not None:
        raise UsageError(f"There is one run; the baseline {baseline!r} has nothing to compare.")
    elif slices is not None:
        raise UsageError(f"There is one run; slices by {slices!r} compare two or more.")
    chosen = {"baseline": baseline, **asdict(settings)}
    aligned = align(scores, names=names, measures=None, by=by, settings=chosen)
    return Leaderboard(records, aligned, comparison, settings)


def vary_conventions(
    records: Sequence[RunRecord], qrels: str, comparison: Comparison
) -> Iterator[Sensitivity]:
    """Compare scored run files again under other conventions, measure by measure.

    `records` are of `score_run_files`, and `comparison` is theirs.
    """
    judgments = as_judgments(qrels)
    scores = records[0].scored()
    groups = {
        name: dict(zip(scores.query_ids, column.tolist(), strict=True))
        for name, column in scores.groups.items()
    }
    for measure in comparison.measures:
        yield sensitivity(
            {one.name: next(iter(one.files)) for one in records},
            judgments,
            measure,
            conventions=scores.conventions,
            groups=groups,
            allow_mismatch=True,  # refused, if at all, when the files were scored
            baseline=comparison.baseline,
            **asdict(comparison.settings),
        )


def _mixed_data(runs: Iterable[RunRecord]) -> list[str]:
    found = list(dict.fromkeys(run.dataset for run in runs if run.dataset))
    if len(found) < 2:
        return []
    return [
        f"the runs are said to be of {len(found)} datasets ({', '.join(found[:5])}): queries with "
        "the same id need not be the same queries"
    ]


def _mixed_query_sets(runs: Iterable[RunRecord]) -> list[str]:
    if len({run.query_set for run in runs if run.query_set}) < 2:
        return []
    return ["the runs were made on different query sets: their means are not comparable"]


def _indexes_among_models(runs: Iterable[RunRecord]) -> list[str]:
    """A model behind an index is one of its own family: itself and its exact search."""
    found = [run.name for run in runs if run.config.get("index_of")]
    if not found:
        return []
    named = ", ".join(found[:5]) + (f" and {len(found) - 5} more" if len(found) > 5 else "")
    return [
        f"models behind an index are compared with all others here ({named}), which makes every "
        "comparison stricter: compare each with its own exact search alone"
    ]
