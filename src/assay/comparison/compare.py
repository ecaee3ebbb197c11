"""compare: two or more systems on the same queries, with tests, intervals and verdicts."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from itertools import combinations
from numbers import Real
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from assay.arrays import Floats, or_none
from assay.comparison.alignment import Aligned, align
from assay.comparison.differences import QueryDifferences
from assay.comparison.pairs import POWER, ComparisonSettings, Pair, compare_pairs, shown_better
from assay.comparison.remarks import comparison_remarks
from assay.comparison.slices import SliceComparison, call_measures, compare_slices
from assay.comparison.tables import (
    comparison_page,
    data_table,
    method_note,
    pair_data,
    pair_table,
    system_table,
)
from assay.comparison.verdict import verdict_against, verdict_of_all
from assay.core.conventions import Choices, Conventions, check_keywords
from assay.core.ids import Ids
from assay.display import plot_standings
from assay.errors import UsageError
from assay.io.formats import QrelsLike, RunLike, as_judgments
from assay.io.frames import frame_of
from assay.measures import Measure, MeasuresLike, parse
from assay.scoring.evaluate import evaluate
from assay.scoring.scores import SCHEMA_VERSION, Scores
from assay.stats import Interval, RankInterval, compact_letters, intervals, rank_intervals
from assay.stats.ranks import ranks_of
from assay.tables.page import Page, html_page, latex_page, text_page

if TYPE_CHECKING:
    from assay.tables.table import Table

__all__ = ["Comparison", "Standing", "compare"]


@dataclass(frozen=True)
class Standing:
    """One system on one measure: its mean and rank with intervals, and its group letters.

    Systems that share a letter are not separable; comparisons with a baseline, which do not test
    all pairs, have no letters.
    """

    name: str
    measure: str
    mean: Interval
    rank: RankInterval
    letters: str


@dataclass(frozen=True, eq=False)
class Comparison:
    """Systems compared on one measure or several; made by `compare`.

    `pairs` are in the order in which the systems were given, `standings` best first; `remarks` name
    what limits the numbers; `slices` is None unless they were asked for.
    """

    names: tuple[str, ...]
    measures: tuple[Measure, ...]
    baseline: str | None
    settings: ComparisonSettings
    standings: tuple[Standing, ...]
    pairs: tuple[Pair, ...]
    _aligned: Aligned
    slices: SliceComparison | None = None

    @property
    def n_queries(self) -> int:
        """Number of queries that all systems have."""
        return len(self._aligned.query_ids)

    @property
    def query_ids(self) -> Ids:
        """The queries that all systems have."""
        return self._aligned.query_ids

    def values_on(self, measure: str | Measure) -> Floats:
        """Systems × queries on one measure, in the order of `names` and `query_ids`."""
        number = [str(each) for each in self.measures].index(self._name_of(measure))
        values: Floats = self._aligned.values[:, number]
        return values

    @property
    def signature(self) -> str:
        """The conventions that all systems follow."""
        return self._aligned.signature

    @property
    def verdict(self) -> str:
        """A sentence for each measure, a line each."""
        return "\n".join(self.verdicts.values())

    @cached_property
    def verdicts(self) -> dict[str, str]:
        """A sentence for each measure, by its name."""
        return {str(measure): self._verdict(str(measure)) for measure in self.measures}

    def _verdict(self, measure: str) -> str:
        pairs = self.pairs_on(measure)
        if self.baseline is not None:
            return verdict_against(self.baseline, measure, pairs)
        return verdict_of_all(measure, [one.name for one in self.standings_on(measure)], pairs)

    def called(self, names: Mapping[str, str]) -> Comparison:
        """The same with other names of measures, such as those that a field knows them by."""
        own = ((str(one), one) for one in self.measures)
        measures = tuple(Measure(names[key]) if key in names else one for key, one in own)
        slices = None if self.slices is None else self.slices.called(names, measures)
        standings, pairs = (call_measures(one, names) for one in (self.standings, self.pairs))
        return replace(self, measures=measures, standings=standings, pairs=pairs, slices=slices)

    def pairs_on(self, measure: str | Measure) -> tuple[Pair, ...]:
        """The pairs of one measure."""
        name = self._name_of(measure)
        return tuple(pair for pair in self.pairs if pair.measure == name)

    def standings_on(self, measure: str | Measure) -> tuple[Standing, ...]:
        """The systems on one measure, best first."""
        name = self._name_of(measure)
        return tuple(one for one in self.standings if one.measure == name)

    def pair(self, a: str, b: str, *, measure: str | Measure | None = None) -> Pair:
        """Two systems by name, in either order; the measure may be left out if there is one."""
        for pair in self.pairs_on(self._only(measure)):
            if {a, b} == {pair.a, pair.b}:
                return pair
        for name in (a, b):
            self._number_of(name)
        if a == b:
            raise UsageError(f"A pair is of two systems; found {a!r} twice.")
        raise UsageError(f"{a!r} and {b!r} were not compared: the baseline is {self.baseline!r}.")

    def differences(
        self, measure: str | Measure | None = None, a: str | None = None, b: str | None = None
    ) -> QueryDifferences:
        """Differences a − b query by query; by default of the first system to the baseline, or of
        the first two.
        """
        chosen = self._only(measure)
        first = self.pairs_on(chosen)[0]
        a, b = a or first.a, b or first.b
        left, right = (self.values_on(chosen)[self._number_of(name)] for name in (a, b))
        return QueryDifferences.of(chosen, (a, b), self._aligned.query_ids, left, right)

    def main_differences(self) -> Iterator[QueryDifferences]:
        """For each measure: every system − the baseline, the two systems, or the best two."""
        for measure in self.measures:
            if self.baseline is not None:
                for pair in self.pairs_on(measure):
                    yield self.differences(measure, pair.a, pair.b)
            elif len(self.names) == 2:
                yield self.differences(measure)
            else:
                first, second, *_ = self.standings_on(measure)
                yield self.differences(measure, first.name, second.name)

    @cached_property
    def remarks(self) -> tuple[str, ...]:
        """What limits the numbers, a sentence each."""
        return tuple(comparison_remarks(self))

    @property
    def alignment_remarks(self) -> tuple[str, ...]:
        """What was left out before anything was compared, a sentence each."""
        return self._aligned.remarks

    @property
    def group_sizes(self) -> Floats | None:
        """How many queries each group has; None where queries are not grouped."""
        clusters = self._aligned.clusters
        if clusters is None:
            return None
        return np.unique(clusters, return_counts=True)[1].astype(np.float64)

    @property
    def family(self) -> str:
        """The pairs of a measure that share one error rate, in words."""
        n = len(self.pairs_on(self.measures[0]))
        if n == 1:
            return "one pair"
        if self.baseline is not None:
            return f"{n} systems against {self.baseline}"
        return f"all {n} pairs of {len(self.names)} systems"

    @property
    def method(self) -> str:
        """How p-values and intervals were computed, in a line or two."""
        return method_note(self)

    def table(self, measure: str | Measure | None = None) -> Table:
        """Systems with means, intervals, ranks and group letters; of one measure or of all."""
        return system_table(self, None if measure is None else self._name_of(measure))

    def pair_table(self, measure: str | Measure | None = None) -> Table:
        """Pairs with differences, intervals and p; of one measure or of all."""
        return pair_table(self, None if measure is None else self._name_of(measure))

    def page(self) -> Page:
        """Verdicts, tables and the method as words and tables."""
        return comparison_page(self)

    def plot(self, measure: str | Measure | None = None) -> Any:
        """A chart of the systems with intervals and group letters; needs the extra `report`.

        The measure may be left out: it is then the first. `differences(…).plot()` shows queries.
        """
        name = str(self.measures[0]) if measure is None else self._name_of(measure)
        against = None if self.baseline is None else self.pairs_on(name)
        return plot_standings(self.standings_on(name), name, against)

    def to_frame(self, backend: str = "pandas") -> Any:
        """All about each pair, a row each, as a pandas, polars or pyarrow data frame."""
        return frame_of(data_table(self), backend)

    def to_latex(self) -> str:
        """Verdicts, tables and the method, for a paper."""
        return latex_page(self.page())

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON; undefined numbers are None."""
        return {
            "schema_version": SCHEMA_VERSION,
            "signature": self.signature,
            "systems": list(self.names),
            "baseline": self.baseline,
            "family": self.family,
            "settings": {**asdict(self.settings), "power": POWER},
            "queries": {
                "compared": self.n_queries,
                "by_system": dict(zip(self.names, self._aligned.sizes, strict=True)),
            },
            "measures": {name: self._measure_data(name) for name in map(str, self.measures)},
            **({} if self.slices is None else {"slices": self.slices.to_dict()}),
            "remarks": list(self.remarks),
        }

    def _measure_data(self, measure: str) -> dict[str, Any]:
        return {
            "verdict": self.verdicts[measure],
            "systems": [_standing_data(one) for one in self.standings_on(measure)],
            "pairs": [pair_data(pair) for pair in self.pairs_on(measure)],
        }

    def __repr__(self) -> str:
        """Verdicts, tables and the method, as plain text."""
        return text_page(self.page())

    def _repr_html_(self) -> str:
        return html_page(self.page())

    def _only(self, measure: str | Measure | None) -> str:
        if measure is not None:
            return self._name_of(measure)
        if len(self.measures) > 1:
            raise UsageError(f"Name one of the measures: {', '.join(map(str, self.measures))}.")
        return str(self.measures[0])

    def _name_of(self, measure: str | Measure) -> str:
        if not isinstance(measure, str | Measure):
            raise UsageError(f"A measure is a text such as 'nDCG@10'; found {measure!r}.")
        known = {str(one): one for one in self.measures}
        wanted = measure if isinstance(measure, Measure) else known.get(measure) or parse(measure)
        if wanted not in self.measures:
            have = ", ".join(known)
            raise UsageError(f"{wanted} was not compared; these were: {have}.")
        return str(wanted)

    def _number_of(self, name: str) -> int:
        if name not in self.names:
            raise UsageError(f"System {name!r} not found; there are: {', '.join(self.names)}.")
        return self.names.index(name)


Systems = Mapping[str, "Scores | RunLike"]


def compare(
    systems: Systems | Scores,
    second: QrelsLike | Scores | None = None,
    *more: MeasuresLike | Scores,
    names: Iterable[str] | None = None,
    qrels: QrelsLike | None = None,
    measures: MeasuresLike | None = None,
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
    conventions: str | Conventions | None = None,
    groups: Mapping[str, Any] | None = None,
    allow_mismatch: bool = False,
    **choices: Unpack[Choices],
) -> Comparison:
    """Compare two or more systems on the same queries: all pairs, or with a `baseline`.

    They are `Scores`, with `names`, or runs by name, each as `evaluate` takes it or scored already:
    `compare({"bm25": run, "dense": run}, qrels, measures)`. The keywords of `evaluate`, such as
    `conventions`, `groups` and `ties`, go with runs.

    `test` is randomisation, t, wilcoxon, sign or bootstrap; `correction` for several pairs of a
    measure is max-t (all pairs in one family; the default of randomisation), holm (the default of
    other tests), bonferroni, bh, tukey or none. `interval` is auto (of differences: the one that
    belongs to the test), bca, percentile, studentised or t with 1 − `level`. A `margin` adds
    non-inferiority and equivalence. `by` names a group column whose queries are not independent of
    each other: whole groups are resampled and tested. `slices` names one that cuts the queries
    into kinds: the systems are also compared in each (`Comparison.slices`).

    >>> qrels = {f"q{i}": {"a": 1} for i in range(8)}
    >>> new, old = ({q: {"a": 2, "b": b} for q in qrels} for b in (1, 3))
    >>> compare({"new": new, "old": old}, qrels, "RR").verdict
    'new is better than old on RR: +0.5000 [0.3153, 0.6847], p = 0.0078 (randomisation)'
    """
    check_keywords(compare, choices)
    settings = ComparisonSettings(
        test, correction or "", level, interval, resamples, seed, margin, by
    )
    scoring = {"conventions": conventions, "groups": groups, "allow_mismatch": allow_mismatch}
    asked = {key: value for key, value in (scoring | choices).items() if value}
    scored: tuple[Any, ...] = (systems, second, *more)
    if isinstance(systems, Mapping):
        named = _NamedSystems.of(systems, second, more, names=names, qrels=qrels, measures=measures)
        names, scored, measures = list(systems), named.score(**asked), named.measures
    elif asked or qrels is not None:
        odd = next(iter(asked), "qrels")
        raise UsageError(f"{odd} goes with runs by name, {{'bm25': run, …}}; Scores have theirs.")
    if len(scored) < 2:
        raise UsageError(f"compare takes two or more systems; found {len(scored)}.")
    aligned = align(
        scored,
        names=names,
        measures=measures,
        by=by,
        slices=slices,
        settings={"baseline": baseline, "slices": slices, **asdict(settings)},
    )
    wanted = _pairs_to_test(aligned.names, baseline)
    standings: list[Standing] = []
    pairs: list[Pair] = []
    for number, measure in enumerate(aligned.measures):
        values = aligned.values[:, number]
        found = compare_pairs(
            str(measure),
            aligned.names,
            values,
            wanted,
            settings=settings,
            clusters=aligned.clusters,
            bounds=measure.bounds,
        )
        pairs += found
        lettered = found if baseline is None else None
        standings += _standings(aligned, measure, values, settings, lettered)
    return Comparison(
        aligned.names,
        aligned.measures,
        baseline,
        settings,
        tuple(standings),
        tuple(pairs),
        aligned,
        None if slices is None else compare_slices(aligned, slices, wanted, settings, baseline),
    )


@dataclass(frozen=True)
class _NamedSystems:
    """Systems by name, the judgments for those that are runs, and the measures, if any is named."""

    systems: Systems
    qrels: QrelsLike | None
    measures: MeasuresLike | None

    @classmethod
    def of(
        cls,
        systems: Systems,
        second: Any,
        more: tuple[Any, ...],
        *,
        names: Iterable[str] | None,
        qrels: QrelsLike | None,
        measures: MeasuresLike | None,
    ) -> _NamedSystems:
        """What the arguments of `compare` say, each of them once."""
        first = next(iter(systems.values()), None)
        if isinstance(first, Mapping) and isinstance(next(iter(first.values()), None), Real):
            raise UsageError(
                "compare takes Scores, or runs by name, {'bm25': run, 'dense': run}; this is one "
                "run, {query: {doc: score}}."
            )
        twice = (second is not None and qrels is not None) or (more and measures is not None)
        if names is not None or twice or len(more) > 1:
            raise UsageError(
                "Systems by name take judgments and measures, each once: "
                "compare({'bm25': run, 'dense': run}, qrels, measures)."
            )
        given = second if second is not None else qrels
        return cls(systems, given, more[0] if more else measures)

    def score(self, **asked: Any) -> tuple[Scores, ...]:
        """The scores of each system; runs are evaluated."""
        run = next(
            (name for name, one in self.systems.items() if not isinstance(one, Scores)), None
        )
        if run is None and self.systems and (asked or self.qrels is not None):
            raise UsageError("All systems are scored, so there is nothing to judge or to choose.")
        if run is not None and self.qrels is None:
            raise UsageError(f"{run!r} is a run: give the judgments, too.")
        truth: QrelsLike = {} if self.qrels is None or run is None else as_judgments(self.qrels)
        wanted = self.measures if self.measures is not None else self._shared_measures()
        return tuple(
            one if isinstance(one, Scores) else evaluate(one, truth, wanted, **asked)
            for one in self.systems.values()
        )

    def _shared_measures(self) -> MeasuresLike:
        """Those of a system that is scored already, else what `assay compare` takes."""
        scored = (one.measures for one in self.systems.values() if isinstance(one, Scores))
        return next(scored, ("nDCG@10",))


def _pairs_to_test(names: tuple[str, ...], baseline: str | None) -> list[tuple[int, int]]:
    if baseline is None:
        return list(combinations(range(len(names)), 2))
    if baseline not in names:
        raise UsageError(f"The baseline {baseline!r} is not among the systems: {', '.join(names)}.")
    other = names.index(baseline)
    return [(number, other) for number in range(len(names)) if number != other]


def _standings(
    aligned: Aligned,
    measure: Measure,
    values: Floats,
    settings: ComparisonSettings,
    pairs: list[Pair] | None,
) -> list[Standing]:
    means = intervals(
        values,
        method=settings.interval,
        level=1 - settings.level,
        resamples=settings.resamples,
        seed=settings.seed,
        clusters=aligned.clusters,
        bounds=[measure.bounds] * len(values),
    )
    order = sorted(range(len(values)), key=lambda i: _best_first(means[i].estimate))
    names = [aligned.names[i] for i in order]
    ranks = _ranks(aligned, values, settings, pairs)
    letters = _letters(names, pairs) if pairs is not None else [""] * len(names)
    return [
        Standing(name, str(measure), means[i], ranks[i], own)
        for name, i, own in zip(names, order, letters, strict=True)
    ]


def _best_first(mean: float) -> float:
    return math.inf if math.isnan(mean) else -mean


def _ranks(
    aligned: Aligned, values: Floats, settings: ComparisonSettings, pairs: list[Pair] | None
) -> list[RankInterval]:
    """Ranks as the pairs say; where only pairs with a baseline were tested, of all pairs."""
    level, drawn = 1 - settings.level, (settings.resamples, settings.seed)
    if pairs is None:
        return rank_intervals(
            values, clusters=aligned.clusters, level=level, resamples=drawn[0], seed=drawn[1]
        )
    better = shown_better(aligned.names, pairs)
    n = int((~np.isnan(values).any(axis=0)).sum())
    note = pairs[0].untestable if all(pair.outcome == "undecided" for pair in pairs) else ""
    unknown = (math.nan,) * 3
    return ranks_of(
        values, better, RankInterval(*unknown, level, n, values.shape[1] - n, *drawn, note)
    )


def _letters(names: list[str], pairs: list[Pair]) -> list[str]:
    better = shown_better(names, pairs)
    if all(pair.outcome == "undecided" for pair in pairs):
        return [""] * len(names)
    return compact_letters(better | better.T)


def _standing_data(one: Standing) -> dict[str, Any]:
    return {
        "name": one.name,
        "mean": or_none(one.mean.estimate),
        "low": or_none(one.mean.low),
        "high": or_none(one.mean.high),
        "n": one.mean.n,
        "rank": or_none(one.rank.rank),
        "rank_low": or_none(one.rank.low),
        "rank_high": or_none(one.rank.high),
        "letters": one.letters,
        "note": one.mean.note,
    }
