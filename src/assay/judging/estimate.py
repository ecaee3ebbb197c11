"""Estimates of measures and their differences from labels that were drawn with known chances.

With weight w, label y, machine label f and inclusion probability π of each pair, a query's value is

    Σ λ w f  +  Σ over labelled pairs of  w (y − λ f) / π

which is unbiased for Σ w y whatever the machine says (Horvitz & Thompson 1952; Angelopoulos, Duchi
& Zrnic 2023 for λ). The spread of these values over queries gives the interval: queries are the
unit, and the draw of labels is part of the spread.

An interval that stays valid whenever one stops labelling is wider: an asymptotic confidence
sequence (Waudby-Smith, Arbour, Sinha, Kennedy & Ramdas 2024, Annals of Statistics).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from itertools import combinations
from typing import Any, Final, NamedTuple

import numpy as np

from assay.arrays import Flags, Floats, Ints, or_none
from assay.comparison.verdict import Verdict, verdict_words
from assay.core.ids import Ids
from assay.core.ranking import Ranking
from assay.core.text import fixed, format_percent, spoken
from assay.errors import MismatchError, UsageError
from assay.io.formats import RunLike, as_ranking
from assay.judging.holes import PairBounds, bound_systems
from assay.judging.labels import LabelSet
from assay.judging.plugin import PLUGIN
from assay.judging.pool import (
    RULES,
    Coefficients,
    LabelPool,
    LinearMeasure,
    is_plain,
    parse_linear,
    set_threshold,
    weigh_systems,
)
from assay.measures import Measure, parse
from assay.runs.record import RunRecord
from assay.runs.results import Aggregate
from assay.stats import Interval
from assay.stats.bounded import t_quantile
from assay.stats.samples import FEWEST, check_margin, check_significance_level
from assay.tables.table import Cell, Page, Shown, Table, Words, columns_of, table_of

Number = tuple[Interval, str, str, str]
_FEWEST_LABELS: Final = 30  # a confidence sequence holds for many
_NO_WEIGHT: Final = 1e-12
_student = lru_cache(maxsize=1024)(t_quantile)


class DrawnLabels(NamedTuple):
    """Pairs of a comparison with their labels, in arrays.

    Args:
        rows: Number of the query of each pair.
        n_rows: Number of queries.
        weights: Weight of each pair in the number to estimate.
        chances: How likely a pair is labelled.
        labelled: Which are.
        gains: Their gains; 0 elsewhere.
        machine: Gains by machine labels; 0 where there is none.
    """

    rows: Ints
    n_rows: int
    weights: Floats
    chances: Floats
    labelled: Flags
    gains: Floats
    machine: Floats

    def _drawn(self) -> tuple[Floats, ...]:
        columns = (self.weights, self.chances, self.gains, self.machine)
        return tuple(column[self.labelled] for column in columns)

    def tuning(self) -> float:
        """Return λ, which makes the spread of the draw smallest, from 0 to 1."""
        w, p, y, f = self._drawn()
        spread = w * w * (1 - p) / (p * p)
        below = float(spread @ (f * f))
        return min(max(float(spread @ (y * f)) / below, 0.0), 1.0) if below > 0 else 0.0

    def values(self, tuning: float) -> Floats:
        """Return an unbiased value for each query."""
        w, p, y, f = self._drawn()
        terms = tuning * self.weights * self.machine
        terms[self.labelled] += w * (y - tuning * f) / p
        return np.bincount(self.rows, terms, minlength=self.n_rows).astype(np.float64)

    def label_variance(self, tuning: float) -> float:
        """Return how much the draw of labels adds to the variance of the mean."""
        w, p, y, f = self._drawn()
        return float(np.sum((w * (y - tuning * f) / p) ** 2 * (1 - p))) / self.n_rows**2

    def freedom(self) -> int:
        """Return how many queries a drawn gain was seen in, less one."""
        seen = np.unique(self.rows[self.labelled & (self.gains != 0) & (self.weights != 0)])
        return len(seen) - 1

    def estimate(self, level: float = 0.05) -> tuple[Interval, float]:
        """Return the mean over queries with its interval, and λ.

        Student's t has as many degrees of freedom as queries in which a gain was drawn: with few
        labels most values are 0, and say little about the spread.
        """
        tuning = self.tuning()
        values, freedom, note = self.values(tuning), self.freedom(), ""
        if not len(self.rows):  # the same documents at the same ranks: no label changes that
            half, note = 0.0, "identical"
        elif freedom + 1 < FEWEST:
            half, note = math.nan, f"drawn gains in {freedom + 1} queries; at least {FEWEST} needed"
        else:
            error = float(values.std(ddof=1)) / math.sqrt(self.n_rows)
            half = _student(1 - level / 2, freedom) * error
        return self._around(float(values.mean()), half, level, note), tuning

    def _around(self, mean: float, half: float, level: float, note: str = "") -> Interval:
        ends = (mean - half, mean + half)
        return Interval(mean, *ends, 1 - level, "t", self.n_rows, note=note)

    def sequence(self, level: float = 0.05) -> Interval | None:
        """Return the interval that is valid whenever one stops; None before it can be."""
        n_labels = int(self.labelled.sum())
        if n_labels < _FEWEST_LABELS or self.freedom() + 1 < FEWEST:
            return None
        values = self.values(self.tuning())
        variance = float(values.var(ddof=1)) / self.n_rows
        # The scale at which the sequence is tightest must not depend on labels: what the draw would
        # add if three in ten pairs had the gain 1.
        planned = 0.3 * float(np.sum(self.weights**2 / self.chances)) / self.n_rows**2
        half = sequence_half_width(variance, planned, level)
        return self._around(float(values.mean()), half, level)

    def labels_needed(self, half_width: float, level: float = 0.05) -> float:
        """Return about how many more labels give an interval of ± this; infinity if none do.

        From the design: chances grow together until they are 1, and what labels then add to the
        spread falls as the design says; what queries add stays. That part is seen only through
        the labels, so it is drawn towards twice what gains that fall on pairs at random would
        give, which is what queries of TREC Robust add (1.4 to 2.9 times).
        """
        if math.isnan(half_width) or not len(self.rows):
            return math.nan
        tuning, freedom = self.tuning(), max(self.freedom(), 1)
        total = float(self.values(tuning).var(ddof=1)) / self.n_rows
        now, p, squares = self.label_variance(tuning), self.chances, self.weights**2
        _, drawn, gains, _ = self._drawn()
        gain = float(np.average(gains, weights=1 / drawn))
        spread = float(np.average((gains - gain) ** 2, weights=1 / drawn))
        random = spread * float(squares.sum()) / self.n_rows**2
        noise = 2 * total**2 / freedom  # variance of `total`, as of a normal sample's
        trust = random**2 / (random**2 + noise) if random > 0 else 0.0
        queries = max((2 * random) * (1 - trust) + (total - now) * trust, random / 2)
        design = max(float(np.sum(squares * (1 - p) / p)), 1e-300)

        def width(factor: float) -> float:
            grown = np.minimum(1.0, factor * p)
            labels = now * float(np.sum(squares * (1 - grown) / grown)) / design
            seen = min(self.n_rows - 1, int(freedom * grown.sum() / p.sum()))
            return _student(1 - level / 2, seen) * math.sqrt(queries + labels)

        low, high = 1.0, 1.0 / float(p.min())
        if width(high) > half_width:
            return math.inf
        if width(low) <= half_width:
            return 0.0
        for _ in range(40):
            middle = (low + high) / 2
            low, high = (low, middle) if width(middle) <= half_width else (middle, high)
        return math.ceil(float(np.minimum(1.0, high * p).sum() - p.sum()))


def sequence_half_width(variance: float, planned: float, level: float) -> float:
    """Return the half width of an asymptotic confidence sequence.

    Args:
        variance: Variance of the estimate now.
        planned: Variance at which the sequence is to be tightest.
        level: Chance that it ever leaves out the truth.

    Returns:
        The half width.

    Example:
        >>> round(sequence_half_width(1 / 50, 1 / 50, 0.05), 5)
        0.42923
        >>> round(sequence_half_width(1 / 200, 1 / 200, 0.05), 5)
        0.21462
    """
    if variance <= 0:
        return 0.0
    x = (-_lower_lambert(-(level**2) / math.e) - 1) * planned / variance
    return math.sqrt(variance * 2 * (x + 1) / x * math.log(math.sqrt(x + 1) / level))


def _lower_lambert(y: float) -> float:
    """Return the root w ≤ −1 of w·exp(w) = y, by Newton's method on w + ln(−w) = ln(−y)."""
    goal = math.log(-y)
    w = goal - math.log(-goal) if goal < -1 else -1.0
    for _ in range(50):
        w -= (w + math.log(-w) - goal) / (1 + 1 / w) if w != -1 else 0.0
    return w


class LabelReport(Shown):
    """A report from labels: a page, and records of its numbers."""

    remarks: tuple[str, ...]

    def page(self: Any) -> Page:
        """Return verdict, tables, remarks and the method."""
        page: Page = [*verdict_words([self.verdict()]), *self.tables()]
        page += [Words(remark, "remark") for remark in self.remarks]
        return [*page, Words(self.method, "method"), Words(self.signature, "signature")]

    def record(self: Any, name: str, numbers: Iterable[Number], verdicts: list[str]) -> RunRecord:
        """Return a record of some numbers, each an interval, measure, kind of average, subset."""
        aggregates = [
            Aggregate.of_interval(measure, each, average=kind, subset=of)
            for each, measure, kind, of in numbers
        ]
        details = {**self.to_dict(), "verdict": verdicts[0], "verdicts": verdicts}
        return RunRecord(name, task=PLUGIN.name, aggregates=aggregates, details=details)


@dataclass(frozen=True)
class LabelEstimate:
    """A mean, or a difference of two systems, from drawn labels.

    Args:
        measure: The measure.
        a: The system.
        b: The system it is compared with; empty for a mean.
        interval: Estimate and interval.
        tuning: λ, how much the machine's labels count.
        sequence: The interval that is valid whenever one stops; None while there are few labels.
        within: The half width to reach.
        more: About how many more labels reach it; infinity where labels cannot.
    """

    measure: str
    a: str
    b: str
    interval: Interval
    tuning: float
    sequence: Interval | None
    within: float
    more: float

    @property
    def outcome(self) -> str:
        """a, b, or not separable; undecided without an interval, empty for a mean."""
        if not self.b or math.isnan(self.interval.low):
            return self.b and "undecided"
        low, high = self.interval.low, self.interval.high
        if self.interval.note == "identical":
            return "identical"
        return self.a if low > 0 else self.b if high < 0 else "not separable"

    def verdict(self) -> Verdict:
        """Return the estimate in a sentence, and how many more labels narrow it."""
        sure, tied = self.interval, self.outcome == "not separable"
        if math.isnan(sure.low):
            return Verdict(f"{self.measure}: too few labels for an interval ({sure.note})")
        if self.outcome == "identical":
            return Verdict(f"{self.a} and {self.b} are identical on {self.measure}")
        behind = self.b if self.outcome == self.a else self.a
        sure = -sure if self.b and behind == self.a and not tied else sure
        spell = partial(fixed, sign=bool(self.b))
        words, name = f"{self.outcome} leads {behind} on {self.measure}", "Lead"
        if not self.b:
            words, name = f"{self.a} has {self.measure} {spell(sure.estimate)}", ""
        elif tied:
            pair, name = f"{self.a} and {self.b}", "Difference"
            words = f"No significant difference between {pair} on {self.measure}"
        goal = f"± {self.within:.2g}"
        plan = f"; about {self.more:,.0f} more labels for {goal}" if self.more > 0 else ""
        if math.isinf(self.more):
            plan = f"; for {goal} add queries, not labels"
        numbers = (
            f"{name} {spell(sure.estimate)} ({sure.words(spell)})" if name else sure.words(spell)
        )
        return Verdict(words, spoken(numbers + plan))

    def number(self) -> Number:
        """Return the estimate as a number of a record."""
        average = "difference from drawn labels" if self.b else "mean from drawn labels"
        return self.interval, self.measure, average, f"{self.a} − {self.b}" if self.b else ""

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        names = {"a": self.a, "b": self.b} if self.b else {"a": self.a}
        return {
            **{"measure": self.measure, **names, **self.interval.to_dict()},
            **({"outcome": self.outcome} if self.b else {}),
            "machine_weight": self.tuning,
            "anytime": None if self.sequence is None else self.sequence.to_dict(),
            "half_width": or_none(self.within),
            "more_labels": self.more if math.isfinite(self.more) else None,
            "note": self.interval.note,
        }


@dataclass(frozen=True, repr=False)
class LabelEstimates(LabelReport):
    """All estimates from one pool and its labels.

    Args:
        estimates: The estimates.
        bounds: Ends of the measures that are not linear in the labels.
        counts: Number of pairs, drawn, labelled, and machine labels.
        models: Labellers of the machine labels.
        pool: Digest of the pool.
        level: Significance level; intervals of differences hold jointly.
        remarks: What a reader should know.
    """

    estimates: tuple[LabelEstimate, ...]
    bounds: tuple[PairBounds, ...]
    counts: Mapping[str, int]
    models: tuple[str, ...]
    pool: str
    level: float
    remarks: tuple[str, ...] = field(default=())

    @property
    def signature(self) -> str:
        """Labels, pool and level that made the numbers."""
        c = self.counts
        machine = f"{c['machine']} by {'+'.join(self.models)}" if c["machine"] else "none"
        return (
            f"labels:human:{c['labelled']} of {c['pairs']} pairs|machine:{machine}|"
            f"pool:{self.pool[:16]}|empty:zero|level:{self.level:g}"
        )

    @property
    def method(self) -> str:
        """Method of the intervals."""
        machine = "; machine labels narrow intervals without adding bias" if self.models else ""
        joint = " jointly" * (sum(bool(each.b) for each in self.estimates) > 1)
        return (
            f"Each drawn label counts 1/probability{machine}. Intervals: Student's t over queries, "
            f"{100 * (1 - self.level):g} %{joint}."
        )

    @property
    def results(self) -> tuple[Any, ...]:
        """Estimates, then bounds."""
        return (*self.estimates, *self.bounds)

    def verdict(self) -> Verdict:
        """Return the first result, and the share of labelled pairs."""
        c, first = self.counts, self.results[0].verdict()
        share = format_percent(c["labelled"] / c["pairs"])
        labelled = f"{c['labelled']:,} of {c['pairs']:,} pairs labelled ({share})"
        first = first if isinstance(first, Verdict) else Verdict(first)
        return Verdict(first.headline, "; ".join(filter(None, (first.numbers, labelled))))

    def records(self) -> list[RunRecord]:
        """Return a record of the means of each system, or one of all differences."""
        systems = list(dict.fromkeys(name for e in self.results for name in (e.a, e.b) if name))
        groups = {name: {name} for name in systems}
        if self.results[0].b:
            name = " vs ".join(systems) if len(systems) < 4 else f"{len(systems)} systems"
            groups = {name: set(systems)}
        records = []
        for name, group in groups.items():
            estimates = tuple(each for each in self.estimates if each.a in group)
            bounds = tuple(each for each in self.bounds if each.a in group)
            part = replace(self, estimates=estimates, bounds=bounds)
            verdicts = [part.verdict(), *(each.verdict() for each in part.results[1:])]
            records.append(part.record(name, [each.number() for each in part.results], verdicts))
        return records

    def tables(self) -> list[Table]:
        """Return a row for each estimate, and for each of the bounds."""
        compared = bool(self.results[0].b)
        kind, front = ("difference", ("a", "b")) if compared else ("fraction", ("system", "b"))
        rows, bounds = [], []
        for each in self.estimates:
            sure = each.interval
            anytime = None if each.sequence is None else each.sequence.text(sign=compared)
            more = "never" if math.isinf(each.more) else f"{each.more:,.0f}".replace("nan", "–")
            numbers = (Cell(sure.estimate, kind), sure.cell(sign=compared))
            said = each.outcome.replace("not separable", "not significant")
            plan = (Cell(anytime, "figure"), Cell(more, "figure"))
            rows.append((each.measure, each.a, each.b, *numbers, *plan, said))
        for ends in self.bounds:
            span = (Cell(ends.worst, kind), Cell(ends.best, kind), ends.n_unjudged)
            kind_of = "exact" if ends.exact else "outer"
            bounds.append((ends.measure, ends.a, ends.b, *span, kind_of))
        goals = {each.within for each in self.estimates if each.within > 0}
        goal = f"labels for ± {goals.pop():.2g}" if len(goals) == 1 else "labels to halve it"
        names = ("difference" if compared else "mean", Interval.heading(1 - self.level))
        headings = (*names, "if stopped at will", goal, "result")
        tables = [
            table_of(("measure", *front, *headings), rows),
            table_of(("measure", *front, "worst", "best", "unlabelled", "bounds"), bounds),
        ]
        hidden = () if compared else ("b", "result")
        return [
            columns_of(table, [i for i, c in enumerate(table.columns) if c not in hidden])
            for table in tables
            if table.rows
        ]

    def table(self) -> Table:
        """Return the first table, for formats that hold one."""
        return self.tables()[0]

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        bounds = {"bounds": [each.to_dict() for each in self.bounds]} if self.bounds else {}
        return {
            "signature": self.signature,
            "pool": self.pool,
            "labels": dict(self.counts),
            "models": list(self.models),
            "level": self.level,
            "estimates": [each.to_dict() for each in self.estimates],
            **bounds,
            "remarks": list(self.remarks),
        }


def estimate_from_labels(
    runs: Mapping[str, RunLike],
    pool: LabelPool,
    labels: LabelSet,
    *,
    machine: LabelSet | None = None,
    measures: Sequence[str] = (),
    means: bool = False,
    baseline: str | None = None,
    rel: float | None = None,
    level: float = 0.05,
    within: float | None = None,
) -> LabelEstimates:
    """Estimate differences of systems, or their means, from the labels of a pool.

    Args:
        runs: Runs by the names of the systems.
        pool: The pool that was labelled.
        labels: Human labels.
        machine: Machine labels, which narrow the intervals.
        measures: Measures; those that are not linear in the labels have bounds. [that of the pool]
        means: Estimate each system's mean instead of differences.
        baseline: Compare with this system only.
        rel: The smallest relevant grade. [1]
        level: Significance level; for several pairs it is divided by their number.
        within: Half width of an interval to plan labels for. [half of what it is now]

    Returns:
        The estimates.

    Raises:
        MismatchError: A run, or the labels, do not belong to the pool.
        MeasureError: There is no such measure.

    Example:
        >>> from assay.judging import Label, LabelSet, make_pool
        >>> runs = {name: {f"q{i}": [name, "x"] for i in range(4)} for name in "ab"}
        >>> pool = make_pool(runs, 100, measure="P@1")
        >>> grades = {"a": 1, "b": 0}
        >>> labels = LabelSet(tuple(Label(q, d, grades[d]) for q, d in pool.names))
        >>> estimate_from_labels(runs, pool, labels).estimates[0].interval.estimate
        1.0
    """
    level = check_significance_level(level)
    if within is not None:
        check_margin(within, "within")
    if not means and len(runs) < 2:
        raise UsageError("Only one run. A comparison needs two.")
    names = list(runs)
    if baseline is not None and baseline not in runs:
        raise UsageError(f"The baseline {baseline!r} is not a run. Add it.")
    rankings = {name: as_ranking(run, RULES) for name, run in runs.items()}
    human, models = labels.check(pool).of_kind("human"), labels.of_kind("machine")
    robots = LabelSet(())
    if machine is not None:
        robots, models = machine.check(pool, "The machine labels").of_kind("machine"), robots
        if not len(robots):
            raise MismatchError("The machine labels are all human. Pass labels of a model.")
    if not len(human) and len(models):
        raise MismatchError(f"All {len(models):,} labels are machine labels. Pass them as such.")
    pairs = [(a, a) for a in names] if means else list(combinations(names, 2))
    if baseline is not None and not means:
        pairs = [(name, baseline) for name in names if name != baseline]
    share = level if means else level / len(pairs)
    bounds: list[PairBounds] = []
    estimates, drawn = [], _DrawnPairs(pool, human, robots)
    for text in measures or [pool.settings["measure"]]:
        measure = set_threshold(parse(text), rel)
        if measure.name == "nDCG" or not is_plain(measure):
            bounds += drawn.bound(rankings, measure, pairs)
            continue
        linear = parse_linear(measure)
        weighed = weigh_systems(list(rankings.values()), linear, pool.settings["depth"])
        for a, b in pairs:
            columns = [names.index(name) for name in (a, b)]
            weights = weighed.weights[:, columns[0]] - (not means) * weighed.weights[:, columns[1]]
            sample = drawn.sample(weighed, weights, linear, a if means else f"{a} and {b}")
            interval, tuning = sample.estimate(share)
            goal = within or interval.half_width / 2
            more = sample.labels_needed(math.nan if math.isnan(interval.low) else goal, share)
            about = (interval, tuning, sample.sequence(share), goal, more)
            estimates.append(LabelEstimate(str(linear), a, "" if means else b, *about))
    aside = f"{len(models):,} machine labels among the human labels were ignored"
    remarks = [*drawn.remarks(), *labels.remarks(), *([aside] if len(models) else [])]
    counts = {"pairs": len(pool), "drawn": pool.n_drawn, "labelled": drawn.n_labelled}
    counts["machine"] = len(robots.by_pair())
    judges = tuple(sorted({label.by for label in robots.labels}))
    numbers = (tuple(estimates), tuple(bounds))
    return LabelEstimates(*numbers, counts, judges, pool.digest, level, tuple(remarks))


class _DrawnPairs:
    """Pairs of a pool with their labels and probabilities."""

    def __init__(self, pool: LabelPool, human: LabelSet, machine: LabelSet) -> None:
        self.pool = pool
        self._human, self._machine = (
            {pool.places[pair]: acts for pair, acts in labels.by_pair().items()}
            for labels in (human, machine)
        )
        places = np.array(sorted(self._human), np.int64)
        self._at = places[pool.stages[places] > 0]
        self.n_labelled, strange = len(self._at), len(places) - len(self._at)
        if not self.n_labelled:
            raise MismatchError("No drawn pair is labelled. Label some first.")
        twice = sum(len(acts) > 1 for acts in self._human.values())
        # Labels are made in random order within a stage, so those that are missing are a sample.
        n_stages = pool.probabilities.shape[1]
        n_drawn = np.bincount(pool.stages, minlength=n_stages + 1)[1:]
        done = np.bincount(pool.stages[self._at], minlength=n_stages + 1)[1:]
        shares = np.divide(done, n_drawn, out=np.zeros(n_stages), where=n_drawn > 0)
        steps = np.diff(pool.probabilities, axis=1, prepend=0.0)
        # A stage that drew nothing, by chance, was still a chance to be drawn.
        self._chances = steps @ np.where(n_drawn > 0, shares, 1.0)
        missing = int(n_drawn.sum() - done.sum())
        self._notes = {
            f"{missing:,} of {pool.n_drawn:,} drawn pairs have no label; the labelled ones "
            "count as a random sample": missing,
            f"{strange:,} labels of pairs outside the draw were ignored": strange,
            f"{twice:,} pairs have several human labels; their gains were averaged": twice,
        }
        keys = pool.queries * len(pool.doc_ids) + pool.docs
        self._order = np.argsort(keys)
        self._keys = keys[self._order]

    def sample(
        self, weighed: Coefficients, weights: Floats, measure: LinearMeasure, what: str
    ) -> DrawnLabels:
        """Return the labels of the pairs that have a weight."""
        pool = self.pool
        heavy = np.abs(weights) > _NO_WEIGHT
        queries = self.match_queries(weighed.query_ids, what)
        docs = weighed.doc_ids.match(pool.doc_ids)
        rows, named = queries[weighed.queries[heavy]], docs[weighed.docs[heavy]]
        keys = rows * len(pool.doc_ids) + named
        at = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
        absent = (named < 0) | (self._keys[at] != keys)
        places = self._order[at]
        waiting = ~absent & (self._chances[places] <= 0)
        if waiting.any():
            raise MismatchError(
                f"{int(waiting.sum()):,} documents that decide {measure} of {what} belong to "
                "a stage without labels. Label some of it first."
            )
        if absent.any():
            aim = " The pool aims at differences, not means." * (
                pool.settings["aim"] == "differences"
            )
            raise MismatchError(
                f"{int(absent.sum()):,} of {len(absent):,} documents that decide {measure} of "
                f"{what} are not in this pool.{aim} Add the runs with 'assay pool --extend', "
                "or draw a pool with 'assay pool --aim means'."
            )
        every = np.zeros((2, len(pool)))
        for row, labels in enumerate((self._human, self._machine)):
            for place, acts in labels.items():
                every[row, place] = measure.gains([label.grade for label in acts]).mean()
        labelled = np.zeros(len(pool), bool)
        labelled[self._at] = True
        here = labelled[places]
        gains, guesses = np.where(here, every[0, places], 0.0), every[1, places]
        front = (rows, len(pool.query_ids), weights[heavy], self._chances[places])
        return DrawnLabels(*front, here, gains, guesses)

    def match_queries(self, query_ids: Ids, what: str) -> Ints:
        """Return the numbers of queries in the pool.

        Raises:
            MismatchError: Some are not there.
        """
        numbers = query_ids.as_text().match(self.pool.query_ids)
        if n := int((numbers < 0).sum()):
            raise MismatchError(f"{n} queries of {what} are not pooled. Run 'assay pool --extend'.")
        return numbers

    def bound(
        self, rankings: Mapping[str, Ranking], measure: Measure, pairs: Iterable[tuple[str, str]]
    ) -> Iterator[PairBounds]:
        """Yield the ends of a measure over all grades of the pairs without a label."""
        qrels: dict[str, dict[str, float]] = {str(query): {} for query in self.pool.query_ids}
        n_split = 0
        for place, acts in self._human.items():
            grades = {float(label.grade or 0) for label in acts}
            query, doc = self.pool.names[place]
            qrels[query][doc] = grades.pop() if len(grades) == 1 else -1.0
            n_split += bool(grades)
        why = "its denominator depends on missing labels"
        self._notes[f"{measure} has bounds only: {why}"] = 1
        self._notes[f"{n_split:,} pairs with disagreeing labels count as unlabelled"] = n_split
        for name, ranking in rankings.items():
            self.match_queries(ranking.query_ids, name)
        return bound_systems(rankings, qrels, measure, self.pool.scale, pairs)

    def remarks(self) -> list[str]:
        """Return remarks on the labels."""
        return [words for words, n in self._notes.items() if n]
