"""compare: two or more systems on the same queries; and two systems query by query."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from itertools import chain, combinations
from numbers import Real
from typing import Any, Final, Unpack

import numpy as np

from assay.arrays import Floats
from assay.comparison.alignment import Aligned, align
from assay.comparison.pairs import POWER, ComparisonSettings, Pair, compare_pairs
from assay.comparison.paper import paper_page, paper_table
from assay.comparison.slices import SliceComparison, call_measures, compare_slices
from assay.comparison.standings import (
    Standing,
    SystemBlock,
    data_table,
    describe_intervals,
    pair_cells,
    pair_interval_head,
    rank_systems,
    standings_table,
)
from assay.comparison.verdict import Verdict, comparison_remarks, describe_test, verdict_words
from assay.core.checks import check_cutoff
from assay.core.conventions import Choices, Conventions, check_keywords
from assay.core.ids import Ids
from assay.core.text import signed
from assay.errors import UsageError
from assay.io.formats import QrelsLike, RunLike, as_judgments
from assay.io.lines import build_frame, frame_of
from assay.io.streams import unique_names
from assay.measures import Measure, MeasuresLike, parse
from assay.plugins import find_hook
from assay.scoring.evaluate import evaluate
from assay.scoring.scores import SCHEMA_VERSION, Scores
from assay.stats import INTERVAL_NAMES, intervals
from assay.stats.bounded import unseen_share
from assay.stats.choices import INTERVAL, LEVEL, MOST_PAIRS, RESAMPLES
from assay.stats.samples import effective_number
from assay.tables.table import Cell, Page, Shown, Table, Words, latex_page, table_of

_COUNTS: Final = "wins/ties/losses"
_FEW_PAIRS: Final = 10  # of five systems; they fit on a screen below their means


@dataclass(frozen=True, eq=False, repr=False)
class Comparison(Shown):
    """Systems compared block by block; made by `compare`.

    A block is a measure on all queries; those of `slices` are a measure on some of them, and that
    of `TaskComparison` is the mean over tasks, which take the place of queries. `pairs` are in the
    order in which the systems were given, `standings` best first; `remarks` name what limits the
    numbers; `slices` is None unless they were asked for.
    """

    names: tuple[str, ...]
    measures: tuple[Measure, ...]
    baseline: str | None
    settings: ComparisonSettings
    standings: tuple[Standing, ...]
    pairs: tuple[Pair, ...]
    aligned: Aligned
    slices: SliceComparison | None = None

    @property
    def n_queries(self) -> int:
        """Number of queries that all systems have."""
        return len(self.query_ids)

    @property
    def query_counts(self) -> dict[str, int]:
        """Number of queries that each system has."""
        return dict(zip(self.names, self.aligned.sizes, strict=True))

    @cached_property
    def counts(self) -> dict[str, Any]:
        """Numbers of queries and groups, and the share of all that may be in none of these."""
        counts: dict[str, Any] = {"compared": self.n_queries, "by_system": self.query_counts}
        n = self.n_queries
        if self.aligned.clusters is not None:
            sizes = np.unique(self.aligned.clusters, return_counts=True)[1]
            n = len(sizes)
            counts |= {"groups": n, "effective_groups": effective_number(sizes)}
        unseen = unseen_share(n, 1 - 2 * self.settings.level) if n else None
        return counts | {"unseen_share": unseen}

    @property
    def sample(self) -> str:
        """Number of queries, and of groups of them, in words."""
        queries = f"{self.n_queries:,} {'query' if self.n_queries == 1 else 'queries'}"
        return f"{queries} in {self.counts['groups']:,} groups" if self.settings.by else queries

    @property
    def query_ids(self) -> Ids:
        """The queries that all systems have."""
        return self.aligned.query_ids

    def values_on(self, measure: str | Measure) -> Floats:
        """Return systems × queries on one measure, in the order of `names` and `query_ids`."""
        number = [str(each) for each in self.measures].index(self._name_of(measure))
        values: Floats = self.aligned.values[:, number]
        return values

    @property
    def signature(self) -> str:
        """The conventions that all systems follow, and how they were compared."""
        return self.aligned.signature

    @cached_property
    def blocks(self) -> tuple[SystemBlock, ...]:
        """A block of all queries for each measure."""
        return tuple(
            SystemBlock(
                "",
                str(measure),
                self.n_queries,
                {standing.name: standing.mean.estimate for standing in self.standings_on(measure)},
                self.pairs_on(measure),
                self.baseline,
                standings=self.standings_on(measure),
                bounds=tuple(each for each in self.bounds if each.measure == str(measure)),
            )
            for measure in self.measures
        )

    @cached_property
    def bounds(self) -> tuple[Any, ...]:
        """Bounds over unjudged documents for each pair; under `unjudged: bounds` only."""
        if self.aligned.conventions.unjudged != "bounds":
            return ()
        return tuple(find_hook("bound_differences")(self))

    def blocks_on(self, measure: str | Measure | None) -> list[SystemBlock]:
        """Return the blocks of one measure, or of all."""
        name = None if measure is None else self._name_of(measure)
        return [block for block in self.blocks if name in (None, block.measure)]

    def sentences_on(self, block: SystemBlock) -> Sequence[str]:
        """Return the verdict on a block, a sentence each."""
        return (block.verdict,)

    def verdict_words(self, block: SystemBlock) -> Iterator[Words]:
        """Yield the verdict on a block as paragraphs: the sentence, then numbers, a line each."""
        yield from verdict_words([block.verdict])
        yield from (Words(text, "numbers") for text in self.sentences_on(block)[1:])

    @cached_property
    def verdicts(self) -> dict[str, Verdict]:
        """A sentence for each measure, by its name."""
        return {block.measure: block.verdict for block in self.blocks}

    @property
    def verdict(self) -> str:
        """The verdict on every measure, a line each."""
        return "\n".join(text for block in self.blocks for text in self.sentences_on(block))

    @property
    def family(self) -> str:
        """The pairs of a measure that share one error rate, in words."""
        n = len(self.blocks[0].pairs)
        if n == 1:
            return "one pair"
        if self.baseline is not None:
            return f"{n} systems against {self.baseline}"
        return f"all {n} pairs of {len(self.names)} systems"

    def called(self, names: Mapping[str, str]) -> Comparison:
        """Return a copy with other names of measures, such as those that a field knows them by."""
        by_name = ((str(part), part) for part in self.measures)
        measures = tuple(Measure(names[key]) if key in names else part for key, part in by_name)
        slices = None if self.slices is None else self.slices.called(names, measures)
        standings, pairs = (call_measures(part, names) for part in (self.standings, self.pairs))
        return replace(self, measures=measures, standings=standings, pairs=pairs, slices=slices)

    def pairs_on(self, measure: str | Measure) -> tuple[Pair, ...]:
        """Return the pairs of one measure."""
        name = self._name_of(measure)
        return tuple(pair for pair in self.pairs if pair.measure == name)

    def standings_on(self, measure: str | Measure) -> tuple[Standing, ...]:
        """Return the systems on one measure, best first."""
        name = self._name_of(measure)
        return tuple(standing for standing in self.standings if standing.measure == name)

    def pair(self, a: str, b: str, *, measure: str | Measure | None = None) -> Pair:
        """Return two systems by name, in either order.

        The measure may be left out if there is one.
        """
        for name in (a, b):
            self._number_of(name)
        for pair in self.pairs_on(self._only(measure)):
            if {a, b} == {pair.a, pair.b}:
                return pair
        if a == b:
            raise UsageError(f"A pair needs two systems, found {a!r} twice.")
        raise UsageError(f"{a!r} and {b!r} were not compared. Name the baseline {self.baseline!r}.")

    def differences(
        self, measure: str | Measure | None = None, a: str | None = None, b: str | None = None
    ) -> QueryDifferences:
        """Return the differences a − b query by query.

        By default they are of the first system to the baseline, or of the first two.
        """
        compared = self._only(measure)
        first = self.pairs_on(compared)[0]
        a, b = first.a if a is None else a, first.b if b is None else b
        left, right = (self.values_on(compared)[self._number_of(name)] for name in (a, b))
        return QueryDifferences.of(compared, (a, b), self.query_ids, left, right)

    def main_differences(self) -> Iterator[QueryDifferences]:
        """Yield, for each measure, the differences that matter most.

        These are of every system to the baseline, of the two systems, or of the best two.
        """
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
        """The limits of the numbers, a sentence each."""
        return tuple(comparison_remarks(self))

    @property
    def method(self) -> str:
        """How p-values and intervals were computed, and over which family."""
        settings, pair = self.settings, self.pairs[0]
        drawn = f"{settings.resamples:,} resamples, seed {settings.seed}"
        unit = ""
        if settings.by is not None:
            number = "{groups:,} groups, which count like {effective_groups:.1f} of equal size"
            together = f"queries of one {settings.by} are resampled together"
            unit = f"; {together} ({number.format(**self.counts)})"
        sliced = "" if self.slices is None else f" {self.slices.method}"
        between = "invert the test"
        if not pair.coherent:
            kind = INTERVAL_NAMES[settings.interval]
            between = f"are {kind}, with the correction of p but not from this test"
        elif pair.interval.method in ("max-t", "tukey"):
            between = f"are simultaneous ({100 * (1 - settings.level):g} % jointly)"
        return (
            f"p: {describe_test(settings, pair.n_pairs, family=self.family)}, {drawn}. Intervals "
            f"of differences {between}; intervals of means are individual "
            f"{describe_intervals(self.standings)}{unit}.{sliced}"
        )

    def power_note(self, measure: str | Measure) -> str:
        """Return the minimum detectable difference of these queries as a sentence."""
        every = [pair.minimum_detectable for pair in self.pairs_on(measure)]
        sizes = [size for size in every if size > 0]  # not of identical systems; NaN is no size
        if not sizes:
            return ""
        low, high = f"{min(sizes):.4f}", f"{max(sizes):.4f}"
        least = low if low == high else f"{low} to {high}, depending on the pair"
        what, level = self.pairs[0].units, 100 * self.settings.level
        return (
            f"Minimum detectable difference on {measure} ({100 * POWER:g} % power): {least}. "
            f"Losses on up to {100 * (self.counts['unseen_share'] or 1):.1f} % of all {what}, "
            f"however large, may be absent from this sample ({level:g} % risk)."
        )

    def table(self, measure: str | Measure | None = None) -> Table:
        """Return systems with means, intervals, ranks and groups, of one measure or of all."""
        return standings_table(
            [row for block in self.blocks_on(measure) for row in block.standings]
        )

    def pair_table(self, measure: str | Measure | None = None) -> Table:
        """Return a row for each pair: the better mean first, or each system − the baseline.

        Over tasks, wins, ties and losses count tasks and have no effect size.
        """
        blocks = self.blocks_on(measure)
        first = blocks[0].pairs[0]
        whole = first.items == "queries"
        counts = (_COUNTS, "effect size") if whole else (f"{first.items} won/tied/lost",)
        head = ("pair", "difference", pair_interval_head(first), "p", *counts)
        front = ("measure",) if len(blocks) > 1 else ()
        rows = [
            (*(Cell(block.measure) for _ in front), *pair_cells(pair, name)[: len(head)])
            for block in blocks
            for pair, name in block.ordered_pairs
        ]
        return Table((*front, *head), tuple(rows), n_optional=2 if whole else 1)

    def data_table(self) -> Table:
        """Return everything about each pair, every digit, for CSV; with slices, also in each."""
        return data_table([*self.blocks, *(() if self.slices is None else self.slices.slices)])

    def page(self, extra: Iterable[Words | Table] = ()) -> Page:
        """Return verdict and tables of each block, then `extra`, remarks, method and signature."""
        page: Page = []
        for block in self.blocks:
            page += self.verdict_words(block)
            page.append(self.table(block.measure))
            if len(block.pairs) <= MOST_PAIRS:
                page.append(self.pair_table(block.measure))
            page.append(Words(self.power_note(block.measure), "method"))
            if self.slices is not None:
                page += self.slices.page_on(block.measure)
        page += [Words(remark, "remark") for remark in self.remarks]
        return [*page, *extra, Words(self.method, "method"), Words(self.signature, "signature")]

    def screen(self, extra: Iterable[Words | Table] = ()) -> Page:
        """Return a page for one screen: verdicts, one table of all measures, the pairs if few."""
        page: Page = [words for block in self.blocks for words in self.verdict_words(block)]
        page.append(self.table())
        if len(self.blocks) == 1 and len(self.pairs) <= _FEW_PAIRS:
            page.append(self.pair_table())
        if self.slices is not None:
            for measure in self.measures:
                page += self.slices.page_on(measure)
        page += [Words(remark, "remark") for remark in self.remarks]
        return [*page, *extra, Words(self._footnote), Words(self.signature, "signature")]

    @property
    def _footnote(self) -> str:
        """The test, and what letters mean, in one line."""
        settings = self.settings
        how = (
            f"p: {describe_test(settings, self.pairs[0].n_pairs)}, {settings.resamples:,} resamples"
        )
        lettered = any(standing.letters for standing in self.standings)
        return (
            f"{how}. Systems that share a group do not differ significantly." if lettered else how
        )

    def plot(self, measure: str | Measure | None = None) -> Any:
        """Return a chart of the systems with intervals and group letters; needs the extra `report`.

        The measure may be left out: it is then the first. `differences(…).plot()` shows queries.
        """
        name = str(self.measures[0]) if measure is None else self._name_of(measure)
        against = None if self.baseline is None else self.pairs_on(name)
        return find_hook("plot_standings")(self.standings_on(name), name, against)

    def paper(self, extra: Iterable[Words | Table] = ()) -> Page:
        """Return the table of a paper (systems × measures), then `extra` and comments."""
        slices = () if self.slices is None else map(self.slices.page_on, self.measures)
        return paper_page(paper_table(self), self.page(), [*chain(*slices), *extra])

    def to_latex(self) -> str:
        r"""Return one table of systems × measures for a paper; needs `\usepackage{booktabs}`.

        Superscripts name the systems that each is significantly better than; caption, label and a
        note with test, correction, level and n stand around it.
        """
        return latex_page(self.paper())

    def to_frame(self, backend: str = "pandas") -> Any:
        """Return all about each pair, a row each, as a pandas, polars or pyarrow data frame."""
        return frame_of(self.data_table(), backend)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON; undefined numbers are None."""
        return {
            "schema_version": SCHEMA_VERSION,
            "signature": self.signature,
            **self._results(),
            "remarks": list(self.remarks),
        }

    def _results(self) -> dict[str, Any]:
        """Return what was compared and the outcome, as plain data."""
        return {
            "systems": list(self.names),
            "baseline": self.baseline,
            "family": self.family,
            "settings": {**asdict(self.settings), "power": POWER},
            "queries": self.counts,
            "measures": {block.measure: block.to_dict() for block in self.blocks},
            **({} if self.slices is None else {"slices": self.slices.to_dict()}),
        }

    def _only(self, measure: str | Measure | None) -> str:
        if measure is not None:
            return self._name_of(measure)
        if len(self.measures) > 1:
            raise UsageError(f"Name one of the measures: {', '.join(map(str, self.measures))}.")
        return str(self.measures[0])

    def _name_of(self, measure: str | Measure) -> str:
        if not isinstance(measure, str | Measure):
            raise UsageError(f"A measure is a text such as 'nDCG@10', found {measure!r}.")
        by_name = {str(compared): compared for compared in self.measures}
        parsed = measure if isinstance(measure, Measure) else by_name.get(measure) or parse(measure)
        if parsed not in self.measures:
            have = ", ".join(by_name)
            raise UsageError(f"{parsed} was not compared. Name one of {have}.")
        return str(parsed)

    def _number_of(self, name: str) -> int:
        if not isinstance(name, str) or name not in self.names:
            raise UsageError(f"Unknown system {name!r:.80}. Name one of {', '.join(self.names)}.")
        return self.names.index(name)


Systems = Mapping[str, "Scores | RunLike"]
Paths = Sequence["str | os.PathLike[str]"]


def compare(
    systems: Systems | Scores | Paths,
    second: QrelsLike | Scores | None = None,
    *more: MeasuresLike | Scores,
    names: Iterable[str] | None = None,
    qrels: QrelsLike | None = None,
    measures: MeasuresLike | None = None,
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
    conventions: str | Conventions | None = None,
    groups: Mapping[str, Any] | None = None,
    allow_mismatch: bool = False,
    **choices: Unpack[Choices],
) -> Comparison:
    """Compare two or more systems on the same queries.

    With runs by name: `compare({"bm25": run, "dense": run}, qrels, measures)`; with run files:
    `compare(["bm25.run", "dense.run"], "qrels.txt")`.

    Args:
        systems: `Scores` or a list of them; runs by name, each as `evaluate` takes it; or paths.
        second: The next `Scores`; with runs by name, the judgments.
        *more: Further `Scores`; with runs by name, the measures.
        names: Names of the systems, where they are `Scores`.
        qrels: Judgments of runs by name.
        measures: Measures to compare; by default all that the scores have.
        baseline: The system to compare all others with; by default all pairs are compared.
        test: randomisation, t, wilcoxon, sign or bootstrap.
        correction: For several pairs of a measure: max-t (all pairs in one family; the default of
            randomisation), holm (the default of other tests), bonferroni, bh, tukey or none.
        level: Significance level.
        interval: auto (of differences: the one that belongs to the test), score, bca,
            percentile, studentised or t.
        resamples: Number of resamples.
        seed: Seed of the draws.
        margin: Adds tests of non-inferiority and equivalence.
        by: A group column whose queries are not independent; whole groups are resampled and
            tested.
        slices: A group column that cuts the queries into kinds; the systems are also compared in
            each (`Comparison.slices`).
        conventions: As of `evaluate`, with runs.
        groups: As of `evaluate`, with runs.
        allow_mismatch: As of `evaluate`, with runs.
        **choices: Single choices of the conventions, with runs.

    Returns:
        The comparison: verdicts, standings, pairs and tables.

    Raises:
        UsageError: Arguments contradict each other.
        MismatchError: The systems do not belong together.

    Example:
        >>> qrels = {f"q{i}": {"a": 1} for i in range(8)}
        >>> new, old = ({q: {"a": 2, "b": b} for q in qrels} for b in (1, 3))
        >>> compare({"new": new, "old": old}, qrels, "RR").verdict.partition(":")[0]
        'new is probably better than old on RR'
    """
    check_keywords(compare, choices)
    family = "" if correction is None else correction
    settings = ComparisonSettings(test, family, level, interval, resamples, seed, margin, by)
    scoring = {"conventions": conventions, "groups": groups, "allow_mismatch": allow_mismatch}
    options = {k: v for k, v in (scoring | choices).items() if v is not None and v is not False}
    if qrels is not None and all(map(_is_path, (systems, second, *more))):
        systems, second, more = [systems, second, *more], None, ()  # type: ignore[list-item]
    if isinstance(systems, list | tuple) and systems and all(map(_is_path, systems)):
        paths = list(map(os.fspath, systems))
        systems, names = dict(zip(names or unique_names(paths), paths, strict=True)), None
    rest = more if second is None else (second, *more)
    every: Any = systems if isinstance(systems, list | tuple) and not rest else (systems, *rest)
    scored = tuple(every)
    if isinstance(systems, Mapping):
        first = next(iter(systems.values()), None)
        if isinstance(first, Mapping) and isinstance(next(iter(first.values()), None), Real):
            raise UsageError(
                "This is one run, {query: {doc: score}}. Pass two or more by name: "
                "{'bm25': run, 'dense': run}."
            )
        twice = (second is not None and qrels is not None) or (more and measures is not None)
        if names is not None or twice or len(more) > 1:
            raise UsageError(
                "Systems by name take judgments and measures, once each. Write "
                "compare({'bm25': run, 'dense': run}, qrels, measures)."
            )
        judgments: Any = qrels if second is None else second
        measures = more[0] if more else measures  # type: ignore[assignment]
        names, scored = list(systems), _score_named(systems, judgments, measures, options)
    elif options or qrels is not None:
        odd = next(iter(options), "qrels")
        raise UsageError(f"{odd} applies to runs by name; Scores have theirs. Omit it.")
    elif any(map(_is_path, scored)):
        raise UsageError("Run files need judgments: compare(['a.run', 'b.run'], 'qrels.txt').")
    if len(scored) < 2:
        raise UsageError(f"compare needs two or more systems, found {len(scored)}. Add one.")
    aligned = align(
        scored,
        names=names,
        measures=measures,
        by=by,
        slices=slices,
        settings={"baseline": baseline, "slices": slices, **asdict(settings)},
    )
    index_pairs = _pairs_to_test(aligned.names, baseline)
    standings: list[Standing] = []
    pairs: list[Pair] = []
    for number, measure in enumerate(aligned.measures):
        values = aligned.values[:, number]
        tested = compare_pairs(
            str(measure),
            aligned.names,
            values,
            index_pairs,
            settings=settings,
            clusters=aligned.clusters,
            bounds=measure.bounds,
        )
        means = intervals(
            values,
            method=settings.interval,
            level=1 - settings.level,
            **settings.draws,
            clusters=aligned.clusters,
            bounds=[measure.bounds] * len(values),
        )
        pairs += tested
        standings += rank_systems(
            aligned.names,
            str(measure),
            values,
            means,
            tested,
            settings,
            baseline=baseline,
            clusters=aligned.clusters,
        )
    cut = (
        None if slices is None else compare_slices(aligned, slices, index_pairs, settings, baseline)
    )
    compared = (tuple(standings), tuple(pairs), aligned, cut)
    return Comparison(aligned.names, aligned.measures, baseline, settings, *compared)


def _is_path(value: object) -> bool:
    return isinstance(value, str | os.PathLike)


def _score_named(
    systems: Systems,
    qrels: QrelsLike | None,
    measures: MeasuresLike | None,
    options: Mapping[str, Any],
) -> tuple[Scores, ...]:
    """Return the scores of each system; runs are evaluated."""
    scored = [system for system in systems.values() if isinstance(system, Scores)]
    run = next((name for name, each in systems.items() if not isinstance(each, Scores)), None)
    if run is None and systems and (options or qrels is not None):
        raise UsageError("All systems are Scores already. Omit judgments and conventions.")
    if run is not None and qrels is None:
        raise UsageError(f"{run!r} is a run. Pass the judgments too.")
    truth: QrelsLike = {} if qrels is None or run is None else as_judgments(qrels)
    if measures is None:  # those of a system that is scored already, else what the command takes
        measures = scored[0].measures if scored else ("nDCG@10",)
    return tuple(
        system if isinstance(system, Scores) else evaluate(system, truth, measures, **options)
        for system in systems.values()
    )


def _pairs_to_test(names: tuple[str, ...], baseline: str | None) -> list[tuple[int, int]]:
    if baseline is None:
        return list(combinations(range(len(names)), 2))
    if not isinstance(baseline, str) or baseline not in names:
        raise UsageError(f"Unknown baseline {baseline!r:.80}. Name one of {', '.join(names)}.")
    other = names.index(baseline)
    return [(number, other) for number in range(len(names)) if number != other]


@dataclass(frozen=True)
class QueryDifference:
    """One query: what both systems score on it, and a − b."""

    query: str | int
    value_a: float
    value_b: float
    difference: float


@dataclass(frozen=True, eq=False, repr=False)
class QueryDifferences(Shown):
    """All queries on which two systems are defined, the largest win of a first.

    Equal differences are in order of the query ids.
    """

    measure: str
    a: str
    b: str
    rows: tuple[QueryDifference, ...]

    @classmethod
    def of(
        cls, measure: str, names: tuple[str, str], query_ids: Ids, left: Floats, right: Floats
    ) -> QueryDifferences:
        """Sort the queries by difference; those undefined on one side are left out."""
        rows = [
            QueryDifference(query, a, b, a - b)
            for query, a, b in zip(query_ids, left.tolist(), right.tolist(), strict=True)
            if not math.isnan(a - b)
        ]
        rows.sort(key=lambda row: -row.difference)
        return cls(measure, *names, tuple(rows))

    def wins(self, n: int = 10) -> tuple[QueryDifference, ...]:
        """Return the n queries on which a gains most.

        Never one on which it gains nothing.
        """
        return tuple(row for row in self.rows[: check_cutoff(n, "n")] if row.difference > 0)

    def losses(self, n: int = 10) -> tuple[QueryDifference, ...]:
        """Return the n queries on which a loses most, the worst first."""
        worst = self.rows[::-1][: check_cutoff(n, "n")]
        return tuple(row for row in worst if row.difference < 0)

    def table(self, n: int = 10) -> Table:
        """Return the largest wins and the largest losses of a."""
        kinds = [("win", self.wins(n)), ("loss", self.losses(n)[::-1])]
        rows = []
        for kind, queries in kinds:
            for row in queries:
                difference = Cell(signed(row.difference), "figure")
                rows.append((kind, Cell(row.query), row.value_a, row.value_b, difference))
        return table_of(("", "query", self.a, self.b, "difference"), rows)

    def plot(self) -> Any:
        """Return a chart of all queries, the largest win of a first.

        Needs the extra `report`.
        """
        return find_hook("plot_differences")(self)

    def to_frame(self, backend: str = "pandas") -> Any:
        """Return a row per query, as a pandas, polars or pyarrow data frame."""
        names = ("query", "value_a", "value_b", "difference")
        return build_frame(
            {name: [getattr(row, name) for row in self.rows] for name in names}, backend
        )

    def to_dict(self, n: int | None = None) -> dict[str, Any]:
        """Return plain data for JSON: all queries, or the n largest wins and losses."""
        rows = self.rows if n is None else (*self.wins(n), *self.losses(n)[::-1])
        return {
            "measure": self.measure,
            "a": self.a,
            "b": self.b,
            "queries": [
                {"query": r.query, "a": r.value_a, "b": r.value_b, "difference": r.difference}
                for r in rows
            ],
        }

    def page(self) -> Page:
        """Return the table under its title."""
        return [Words(f"{self.a} − {self.b} on {self.measure}", "verdict"), self.table()]
