"""Sweeps: one numeric option over several values, a curve of quality and cost, and a choice.

The choice is the cheapest value that is not significantly worse than the best one. Whoever looks at
all values and then reports the one that looked best reports too much, so queries are cut in two
halves at random (whole groups stay together): the first half chooses, the second reports. The
interval of the choice is of queries that had no say in it; a simulation in the tests checks that it
covers. Splitting the data for this end: Cox 1975, Biometrika 62, 441–444.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, product
from typing import Any, Final, NamedTuple

import numpy as np

from assay.arrays import Floats
from assay.bench.plan import BenchPlan, indexed_name
from assay.bench.result import BenchResult, System
from assay.core import checks
from assay.core.text import spoken
from assay.errors import UsageError
from assay.stats import Interval, compare_jointly, difference_interval, interval, intervals
from assay.stats.choices import LEVEL, RESAMPLES, SEED
from assay.tables.svg import BLUE, Drawing, Scale, circle, line, svg_text
from assay.tables.table import Page, Shown, Table, Words, table_of

_FORM: Final = "NAME=VALUE,VALUE,…, such as efSearch=16,32,64"
_FEWEST: Final = 12  # queries; half of them can still be tested


@dataclass(frozen=True)
class Sweep:
    """An option and the values it takes, as typed.

    >>> Sweep.parse("efSearch=16,32").values
    ('16', '32')
    """

    option: str
    values: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> Sweep:
        """Parse NAME=VALUE,VALUE."""
        option, _, listed = str(text).partition("=")
        values = tuple(dict.fromkeys(value.strip() for value in listed.split(",")))
        number = re.compile(r"\d+(\.\d+)?")
        if not option.strip() or not all(map(number.fullmatch, values)) or len(values) < 2:
            raise UsageError(f"Cannot read the sweep {text!r}. Write {_FORM}, two values or more.")
        return cls(option.strip(), values)

    def check(self, n_queries: int) -> None:
        """Refuse too few queries before anything runs."""
        _check_number(n_queries, "queries")

    def expand(self, plan: BenchPlan) -> tuple[BenchPlan, dict[str, tuple[str, ...]]]:
        """Return the plan with a system for each value, and their names by curve.

        `depth` is that of rerankers and `weight` that of the first of two members of a fusion; any
        other name is an option of the indexes.
        """
        curves: dict[str, tuple[str, ...]] = {}
        if self.option in _CHANGES:
            kind, change = _CHANGES[self.option]
            systems: list[Any] = []
            for system in getattr(plan, kind):
                names = tuple(f"{system.name} {self.option}={value}" for value in self.values)
                for name, value in zip(names, self.values, strict=True):
                    systems.append(replace(system, name=name, **change(value)))
                curves[system.name] = names
            plan = replace(plan, **{kind: tuple(systems)})
        else:
            specs = {spec: [self._set(spec, v) for v in self.values] for spec in plan.indexes}
            for model, spec in product(plan.models, specs):
                names = tuple(indexed_name(model.name, variant) for variant in specs[spec])
                curves[indexed_name(model.name, spec)] = names
            plan = replace(plan, indexes=tuple(chain.from_iterable(specs.values())))
        if not curves:
            needs = {"depth": "a reranker", "weight": "a fusion"}.get(self.option, "an index")
            raise UsageError(f"The sweep of {self.option} needs {needs}. Add one with --model.")
        return plan, curves

    def _set(self, spec: str, value: str) -> str:
        """Return the spec of an index with another value of the option."""
        base, _, query = spec.partition("?")
        parts = [part for part in query.split("&") if part.partition("=")[0] != self.option]
        return f"{base}?{'&'.join([*filter(None, parts), f'{self.option}={value}'])}"


def _check_number(n: int, what: str) -> None:
    if n < _FEWEST:
        raise UsageError(f"{n} {what} are too few to choose and report on halves. Use {_FEWEST}.")


def _set_depth(value: str) -> dict[str, Any]:
    return {"depth": checks.check_cutoff(int(value) if value.isdigit() else value, "depth")}


def _set_weight(value: str) -> dict[str, Any]:
    weight = float(value)
    if not 0 < weight < 1:
        raise UsageError(f"The weight {value} is not between 0 and 1. Write 0.5, say.")
    return {"weights": (weight, 1 - weight), "tune": None}


_CHANGES: Final = {"depth": ("reranks", _set_depth), "weight": ("fusions", _set_weight)}


class SweepPoint(NamedTuple):
    """One value of an option: its mean over all queries, what a query costs, and whether no other
    value is both better and cheaper.
    """

    value: str
    mean: Interval
    cost: float
    pareto: bool


@dataclass(frozen=True, eq=False, repr=False)
class SweepCurve(Shown):
    """Quality and cost of each value of an option; made by `sweep_curves`.

    `best` and `choice` are points by the first half of the queries alone; `held_out` is the mean of
    the choice, and `loss` its difference to the best, on the other half, None where the best is
    chosen.
    """

    option: str
    name: str
    measure: str
    unit: str
    points: tuple[SweepPoint, ...]
    best: int
    choice: int
    held_out: Interval
    loss: Interval | None
    n_choosing: int
    seed: int

    def setting(self, place: int) -> str:
        """Return the option with the value of a point."""
        return f"{self.option}={self.points[place].value}"

    @property
    def verdict(self) -> str:
        """The choice in one sentence, with the numbers of queries that did not choose."""
        span, why = self.held_out, "nothing cheaper is as good"
        if self.choice != self.best:
            why = f"the cheapest that is not significantly worse than {self.setting(self.best)}"
        return (
            f"{self.name}: {self.setting(self.choice)} ({why}, on {self.n_choosing} queries); "
            f"{self.measure} {span.estimate:.4f} {span.sentence()} on the {span.n} held-out "
            "queries."
        )

    @property
    def method(self) -> str:
        """Method of the choice, for output and signatures."""
        values = ",".join(point.value for point in self.points)
        return (
            f"sweep:{self.option}={values}|rule:cheapest not significantly worse (max-t)|chosen on "
            f"{self.n_choosing} queries, reported on the other {self.held_out.n}|seed:{self.seed}"
        )

    def table(self) -> Table:
        """Return a row for each value."""
        rows = []
        for at, (value, mean, cost, best) in enumerate(self.points):
            marks = ("*" * best, "chosen" * (at == self.choice))
            rows.append((value, mean.estimate, mean.text() or "", cost, *marks))
        head = Interval.heading(self.held_out.level)
        return table_of((self.option, self.measure, head, self.unit, "Pareto", "choice"), rows)

    def page(self) -> Page:
        """Return the choice, the curve as a table, and the method."""
        page: Page = [Words(self.verdict), self.table()]
        if self.loss is not None:
            ends = spoken(f"{self.loss.estimate:+.4f} {self.loss.sentence()}")
            page.append(Words(f"Held-out difference to the best: {ends}."))
            if self.loss.high < 0:
                advice = f"Use {self.setting(self.best)}, or more queries."
                worse = f"The chosen value is significantly worse on held-out queries. {advice}"
                page.append(Words(worse, "remark"))
        return [*page, Words(self.method, "method")]

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        named = {key: getattr(self, key) for key in ("option", "name", "measure", "unit", "method")}
        points = [
            {"value": float(value), **mean.to_dict("mean"), "cost": cost, "pareto": pareto}
            for value, mean, cost, pareto in self.points
        ]
        best, choice = (points[place]["value"] for place in (self.best, self.choice))
        held_out = {**self.held_out.to_dict("mean"), "n": self.held_out.n}
        loss = None if self.loss is None else self.loss.to_dict("difference")
        numbers = {"best": best, "choice": choice, "held_out": held_out, "loss": loss}
        return {**named, "points": points, **numbers}

    def draw(self) -> Drawing:
        """Return quality with intervals over cost (over the value, where all cost the same)."""
        by_cost = len({point.cost for point in self.points}) > 1
        places = [max(p.cost if by_cost else float(p.value), 1e-9) for p in self.points]
        ends = [end for point in self.points for end in (point.mean.low, point.mean.high)]
        wide = Scale.around(map(math.log10, places))
        high = Scale.around([*ends, *(point.mean.estimate for point in self.points)])
        x, y = replace(wide, start=60, end=440), replace(high, start=250, end=30)
        over = self.unit if by_cost else self.option
        marks = [svg_text(60, 16, f"{self.name}: {self.measure} over {over}, by {self.option}")]
        marks += [svg_text(8, y.at(tick), f"{tick:g}") for tick in y.ticks()]
        for i, (point, place) in enumerate(zip(self.points, places, strict=True)):
            at, mean = x.at(math.log10(place)), y.at(point.mean.estimate)
            if not math.isnan(point.mean.low):
                bar = (at, y.at(point.mean.low), at, y.at(point.mean.high))
                marks.append(line(*bar, stroke=BLUE))
            style = {"fill": BLUE if point.pareto else "#fff", "stroke": BLUE}
            label = self.setting(i) + " (chosen)" * (i == self.choice)
            marks.append(circle(at, mean, 6 if i == self.choice else 4, tip=label, **style))
            marks += [svg_text(at + 7, mean - 5, point.value), svg_text(at, 270, f"{place:.3g}")]
        return Drawing(480, 280, "\n".join(marks))


def choose_point(
    quality: Floats,
    costs: Sequence[float],
    *,
    clusters: Any = None,
    bounds: tuple[float, float] | None = (0.0, 1.0),
    level: float = LEVEL,
    resamples: int = RESAMPLES,
    seed: int = SEED,
) -> tuple[int, int, Interval, Interval | None, int]:
    """Choose the cheapest row that is not significantly worse than the best, and report honestly.

    Args:
        quality: Settings × queries.
        costs: The cost of each setting.
        clusters: A label for each query; whole groups stay in one half.
        bounds: The least and the largest value of the measure.
        level: Significance level of all settings together.
        resamples: Number of resamples.
        seed: Seed of the halves and of the draws.

    Returns:
        The best and the chosen row on the first half; the interval of the chosen mean, and that of
        its difference to the best (None where the two are one), on the other half; the number of
        queries that chose.

    Raises:
        UsageError: There are too few queries to cut in two.

    Example:
        >>> quality = np.array([[0.1] * 20 + [0.2] * 20, [0.8, 0.9] * 20, [0.9, 0.8] * 20])
        >>> choose_point(quality, [1, 2, 3])[:2] in ((1, 1), (2, 1))
        True
    """
    defined = ~np.isnan(quality).any(axis=0)
    values = quality[:, defined]
    labels = np.arange(values.shape[1]) if clusters is None else np.asarray(clusters)[defined]
    units, unit = np.unique(labels, return_inverse=True)
    _check_number(len(units), "queries" if clusters is None else "groups")
    first = np.random.default_rng(seed).permutation(len(units))[: len(units) // 2]
    chooses = np.isin(unit, first)
    groups = [None if clusters is None else unit[half] for half in (chooses, ~chooses)]
    means = values[:, chooses].mean(axis=1)
    best = int(np.argmax(means))
    rivals = [i for i in range(len(values)) if i != best]
    how: dict[str, Any] = {"resamples": resamples, "seed": seed}
    joint = compare_jointly(
        values[:, chooses], [(i, best) for i in rivals], clusters=groups[0], level=level, **how
    )
    worse = {i for i, p in zip(rivals, joint.p, strict=True) if p <= level}
    candidates = [i for i in range(len(values)) if i not in worse]
    choice = min(candidates, key=lambda i: (costs[i], -means[i]))
    held = values[:, ~chooses]
    how |= {"level": 1 - level, "clusters": groups[1], "bounds": bounds}
    return (
        best,
        choice,
        interval(held[choice], **how),
        None if choice == best else difference_interval(held[choice], held[best], **how),
        int(chooses.sum()),
    )


def sweep_curves(
    result: BenchResult,
    sweep: Sweep,
    curves: Mapping[str, tuple[str, ...]],
    *,
    by: str | None = None,
    level: float = LEVEL,
    resamples: int = RESAMPLES,
    seed: int = SEED,
) -> tuple[SweepCurve, ...]:
    """Return the curves of a bench that ran the systems of a sweep.

    Systems that could not run leave their value out; a curve of fewer than two is none.

    Args:
        result: The result of the plan that `sweep.expand` returned.
        sweep: The option and its values.
        curves: Names of the systems by curve, as `sweep.expand` returned them.
        by: A group column whose queries are not independent.
        level: Significance level.
        resamples: Number of resamples.
        seed: Seed of the halves and of the draws.

    Returns:
        A curve for each system whose option was varied.

    Raises:
        UsageError: There are too few queries to cut in two.

    Example:
        sweep = Sweep.parse("depth=10,50,100")
        plan, curves = sweep.expand(plan)
        print(sweep_curves(result, sweep, curves)[0].verdict)
    """
    systems = {system.name: system for system in result.systems}
    drawn = []
    for name, variants in curves.items():
        named = zip(sweep.values, variants, strict=True)
        there = [(value, systems[variant]) for value, variant in named if variant in systems]
        if len(there) < 2:
            continue
        scores, measure = [system.scores for _, system in there], there[0][1].scores.measures[0]
        quality = np.array([score.values[0] for score in scores])
        unit, costs = _costs(sweep.option, [system for _, system in there])
        how: dict[str, Any] = {"resamples": resamples, "seed": seed}
        how["clusters"] = None if by is None else scores[0].groups[by]
        choice = choose_point(quality, costs, level=level, bounds=measure.bounds, **how)
        means = intervals(quality, level=1 - level, bounds=[measure.bounds] * len(there), **how)
        plain = [(-span.estimate, cost) for span, cost in zip(means, costs, strict=True)]
        points = tuple(
            SweepPoint(value, span, cost, not any(_beats(other, point) for other in plain))
            for (value, _), span, cost, point in zip(there, means, costs, plain, strict=True)
        )
        drawn.append(SweepCurve(sweep.option, name, str(measure), unit, points, *choice, seed))
    return tuple(drawn)


def _beats(point: tuple[float, float], other: tuple[float, float]) -> bool:
    """Tell whether a point of loss and cost is as good as another in both, and better in one."""
    return point[0] <= other[0] and point[1] <= other[1] and point != other


def _costs(option: str, systems: Sequence[System]) -> tuple[str, tuple[float, ...]]:
    """Return the unit and the cost of a query: pairs of rerankers, else milliseconds.

    Pairs may come from a cache in no time. A weight changes no cost, and noise must not choose it.
    """
    pairs = [system.result.costs.pairs for system in systems]
    if option == "depth":
        queries = len(systems[0].ranking)
        return "pairs/query", tuple((count or 0) / queries for count in pairs)
    reports = [system.result.index for system in systems]
    seconds = [
        1000 * (system.seconds_per_query or 0.0) if report is None else report.latency_ms["p50"]
        for system, report in zip(systems, reports, strict=True)
    ]
    if option == "weight":
        seconds = [float(np.median(seconds))] * len(seconds)
    return "ms/query", tuple(seconds)


def draw_curves(curves: Sequence[SweepCurve]) -> str:
    """Draw curves below one another.

    Args:
        curves: What `sweep_curves` returned.

    Returns:
        A document of SVG.

    Example:
        Path("curve.svg").write_text(draw_curves(curves))
    """
    return Drawing.stack([curve.draw() for curve in curves]).to_svg()
