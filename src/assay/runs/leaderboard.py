"""Leaderboard: records compared with each other."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

from assay.comparison import alignment
from assay.comparison.alignment import Aligned
from assay.comparison.compare import Comparison, compare
from assay.comparison.pairs import ComparisonSettings
from assay.comparison.sensitivity import Sensitivity, sensitivity
from assay.comparison.standings import Standing, describe_intervals, standings_table
from assay.comparison.verdict import Verdict, join_names, verdict_words
from assay.core.text import remark_about
from assay.errors import UsageError
from assay.io.formats import as_judgments, as_ranking, read_questions
from assay.measures import Measure
from assay.runs.record import RecordsLike, RunRecord, as_records
from assay.scoring.output import disclosures, is_below_chance
from assay.stats import RankInterval, intervals
from assay.stats.choices import INTERVAL, LEVEL, RESAMPLES
from assay.tables.table import Page, Shown, Words


@dataclass(frozen=True, eq=False, repr=False)
class Leaderboard(Shown):
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
    def verdicts(self) -> dict[str, Verdict]:
        """A sentence for each measure; it names those that a random order beats."""
        if self.comparison is None:
            return {str(measure): self._alone(str(measure)) for measure in self.measures}
        return {
            str(compared): block.verdict.extended(self._below_chance(compared))
            for compared, block in zip(self.measures, self.comparison.blocks, strict=True)
        }

    def _below_chance(self, measure: Measure) -> str:
        """Return the runs that a random order beats; chance 1 has a remark instead."""
        chance = self.chance_on(measure)
        low = [
            standing.name
            for standing in self.standings_on(measure)
            if chance < 1 - 1e-12 and is_below_chance(measure, standing.mean.estimate, chance)
        ]
        if not low:
            return ""
        verb = "is" if len(low) == 1 else "are"
        return f"; {join_names(low)} {verb} worse than a random order, which reaches {chance:.4f}"

    def _alone(self, measure: str) -> Verdict:
        mean, chance = self.standings_on(measure)[0].mean, self.chance_on(measure)
        parts = [] if math.isnan(mean.low) else [f"{mean.heading(mean.level)} {mean.text()}"]
        parts += [] if math.isnan(chance) else [f"a random order reaches {chance:.4f}"]
        said = f"{self.names[0]} scores {mean.estimate:.4f} on {measure}"
        return Verdict(said, " · ".join(parts))

    def standings_on(self, measure: str | Measure) -> tuple[Standing, ...]:
        """Return the runs on one measure, best first."""
        if self.comparison is not None:
            return self.comparison.standings_on(measure)
        return tuple(standing for standing in self._only if standing.measure == str(measure))

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
        """Return what a random order scores, from the first run that knows.

        NaN where none does.
        """
        for run in self.runs:
            means = run.chance_means()
            if means is not None:
                return means.get(str(measure), math.nan)
        return math.nan

    @property
    def remarks(self) -> tuple[str, ...]:
        """Warnings about the numbers."""
        return self.run_remarks

    @cached_property
    def run_remarks(self) -> tuple[str, ...]:
        """Warnings about the runs and the comparison; shared ones once."""
        each = [list(disclosures(run.scored(), run.chance_means())) for run in self.runs]
        shared = [remark for remark in each[0] if all(remark in remarks for remarks in each)]
        of_runs = [remark_about("all", remark) if len(each) > 1 else remark for remark in shared]
        named: dict[str, bool] = {
            remark_about(run.name, remark): remark in shared
            for run, disclosed in zip(self.runs, each, strict=True)
            for remark in disclosed
        }
        between = self.aligned.remarks if self.comparison is None else self.comparison.remarks
        rest = (remark for remark in (*named, *between) if not named.get(remark))
        return tuple(dict.fromkeys((*_mixture_remarks(self.runs), *of_runs, *rest)))

    @property
    def group_columns(self) -> tuple[str, ...]:
        """The group columns that all runs have."""
        first = self.runs[0].scored().groups
        return tuple(name for name in first if all(name in r.scored().groups for r in self.runs))

    def page(self) -> Page:
        """Return verdicts, one table of all measures, remarks, method and signature."""
        rows = [row for measure in self.measures for row in self.standings_on(measure)]
        below = [
            *(Words(remark, "remark") for remark in self.remarks),
            Words(self.method, "method"),
        ]
        signature = Words(self.aligned.signature, "signature")
        return [*verdict_words(self.verdicts.values()), standings_table(rows), *below, signature]

    @property
    def method(self) -> str:
        """How p-values and intervals were found; of one run, only its intervals."""
        if self.comparison is not None:
            return self.comparison.method
        settings, drawn = self.settings, any(row.mean.resamples for row in self._only)
        how = f", {settings.resamples:,} resamples, seed {settings.seed}" if drawn else ""
        return f"Intervals: {describe_intervals(self._only)}{how}."


def rank_records(
    runs: RecordsLike,
    *,
    baseline: str | None = None,
    test: str = "randomisation",
    correction: str | None = None,
    level: float = LEVEL,
    interval: str = INTERVAL,
    resamples: int = RESAMPLES,
    seed: int = 0,
    margin: float | None = None,
    by: str | None = None,
    slices: str | None = None,
) -> Leaderboard:
    """Compare records as `assay.compare` does; one of them stands alone.

    Runs of a store are taken with the measures that all of them have.

    Args:
        runs: Records, runs of a store, or scores by name.
        baseline: The system to compare all others with; by default all pairs are compared.
        test: randomisation, t, wilcoxon, sign or bootstrap.
        correction: For several pairs of a measure: max-t (all pairs in one family; the default of
            randomisation), holm (the default of other tests), bonferroni, bh, tukey or none.
        level: Significance level.
        interval: auto (of differences: the one that belongs to the test), bca, percentile,
            studentised or t.
        resamples: Number of resamples.
        seed: Seed of the draws.
        margin: Adds tests of non-inferiority and equivalence.
        by: As of `compare`; by default the `clusters` of the records are resampled as whole
            groups.
        slices: A group column that cuts the queries into kinds; the systems are also compared in
            each (`Comparison.slices`).

    Returns:
        The records, and what may be said about them.

    Raises:
        UsageError: There is no run, or one where several are needed.

    Example:
        >>> from assay import evaluate
        >>> rank_records({"good": evaluate({"q": {"a": 1}}, {"q": {"a": 1}}, "RR")}).verdicts["RR"]
        'good scores 1.0000 on RR'
    """
    records = tuple(as_records(runs))
    if not records:
        raise UsageError("A report needs at least one run.")
    names = [run.name for run in records]
    scores = [run.scored() for run in records]
    if by is None:
        together = alignment.cluster_settings((run.clusters, run.scored()) for run in records)
        by = together.get("by")
    settings = ComparisonSettings(
        test, correction or "", level, interval, resamples, seed, margin, by
    )
    options: dict[str, Any] = {"baseline": baseline, **asdict(settings)}
    comparison = None
    measures = _put_idle_last(records)
    if len(records) > 1:
        comparison = compare(*scores, names=names, measures=measures, slices=slices, **options)
    elif baseline is not None:
        raise UsageError(f"A baseline needs two runs, found one ({baseline!r}). Pass another.")
    elif slices is not None:
        raise UsageError(f"Slices by {slices!r} compare two or more runs, found one. Pass another.")
    aligned = alignment.align(scores, names=names, measures=measures, by=by, settings=options)
    return Leaderboard(records, aligned, comparison, settings)


def _put_idle_last(records: Sequence[RunRecord]) -> list[Measure] | None:
    """Return the measures with those last that no order can change, None where all may stay.

    Such a measure, whose chance is its ceiling (R@100 of 34 documents), never heads a verdict.
    """
    limits = [(run.chance_means() or {}, run.ceiling_means() or {}) for run in records]

    def is_idle(measure: Measure) -> bool:
        name = str(measure)
        return all(
            chance.get(name, 0.0) >= ceiling.get(name, 1.0) * (1 - 1e-12)
            for chance, ceiling in limits
        )

    measures = records[0].scored().measures
    shared = [m for m in measures if all(m in run.scored().measures for run in records)]
    ordered = sorted(shared, key=is_idle)
    return ordered if any(map(is_idle, shared)) and ordered != shared else None


def vary_conventions(
    records: Sequence[RunRecord], qrels: str, comparison: Comparison, queries: str | None = None
) -> Iterator[Sensitivity]:
    """Compare scored run files again under other conventions, measure by measure.

    `records` are of `score_run_files`, and `comparison` is theirs.
    """
    questions, scores = read_questions(queries), records[0].scored()
    judgments = as_judgments(qrels, questions)
    as_in_file = scores.conventions.replace(tiebreak="index", scores="float64")
    files = {record.name: next(filter(None, record.files)) for record in records}
    runs = {name: as_ranking(file, as_in_file, questions) for name, file in files.items()}
    groups = {
        name: dict(zip(scores.query_ids, column.tolist(), strict=True))
        for name, column in scores.groups.items()
    }
    for measure in comparison.measures:
        yield sensitivity(
            runs,
            judgments,
            measure,
            conventions=scores.conventions,
            groups=groups,
            allow_mismatch=True,  # refused, if at all, when the files were scored
            baseline=comparison.baseline,
            **asdict(comparison.settings),
        )


def _mixture_remarks(runs: Iterable[RunRecord]) -> Iterator[str]:
    """Warn of runs that do not belong together, or that belong beside others."""
    datasets = list(dict.fromkeys(run.dataset for run in runs if run.dataset))
    if len(datasets) > 1:
        yield (
            f"the runs name {len(datasets)} datasets ({', '.join(datasets[:5])}): queries with "
            "the same id may differ"
        )
    if len({run.query_set for run in runs if run.query_set}) > 1:
        yield "the runs were made on different query sets: their means are not comparable"
    indexed = [run.name for run in runs if run.config.get("variant_of")]
    if indexed:
        more = f" and {len(indexed) - 5} more" if len(indexed) > 5 else ""
        yield (
            "variants of a model are compared with all others here "
            f"({', '.join(indexed[:5])}{more}), which makes every comparison stricter: compare "
            "each with its model alone"
        )
