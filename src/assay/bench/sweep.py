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
from typing import Any, Final

import numpy as np

from assay.arrays import Floats
from assay.bench.plan import BenchPlan, indexed_name
from assay.bench.result import BenchResult, System
from assay.core import checks
from assay.errors import UsageError
from assay.stats import Interval, compare_jointly, difference_interval, interval, intervals
from assay.stats.choices import LEVEL, RESAMPLES, SEED
from assay.tables.svg import COLOURS, Drawing, Scale, circle, line, svg_text
from assay.tables.table import Page, Table, Words, table_of

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
            raise UsageError(f"A sweep is written {_FORM} with two values or more; found {text!r}.")
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
            raise UsageError(f"The sweep of {self.option} has nothing to vary. Name {needs}.")
        return plan, curves

    def _set(self, spec: str, value: str) -> str:
        """Return the spec of an index with another value of the option."""
        base, _, query = spec.partition("?")
        others = [part for part in query.split("&") if part.partition("=")[0] != self.option]
        return f"{base}?{'&'.join([*filter(None, others), f'{self.option}={value}'])}"


def _check_number(n: int, what: str) -> None:
    if n < _FEWEST:
        raise UsageError(
            "A sweep chooses on one half of the queries and reports on the other: "
            f"{n} {what} are too few, it takes {_FEWEST}."
        )


def _set_depth(value: str) -> dict[str, Any]:
    return {"depth": checks.check_cutoff(int(value) if value.isdigit() else value, "depth")}


def _set_weight(value: str) -> dict[str, Any]:
    weight = float(value)
    if not 0 < weight < 1:
        raise UsageError(f"A swept weight lies between 0 and 1, found {value}.")
    return {"weights": (weight, 1 - weight), "tune": None}


_CHANGES: Final = {"depth": ("reranks", _set_depth), "weight": ("fusions", _set_weight)}


@dataclass(frozen=True, eq=False)
class SweepCurve:
    """Quality and cost of each value of an option; made by `sweep_curve`.

    `means` are of all queries. `best` and `choice` are places in `values`, by the first half of the
    queries alone; `held_out` is the mean of the choice, and `loss` its difference to the best, on
    the other half, None where the best is chosen.
    """

    option: str
    name: str
    measure: str
    values: tuple[str, ...]
    unit: str
    costs: tuple[float, ...]
    means: tuple[Interval, ...]
    best: int
    choice: int
    held_out: Interval
    loss: Interval | None
    n_choosing: int
    seed: int

    @property
    def front(self) -> set[int]:
        """The places that no other value beats in both quality and cost."""
        points = [(-span.estimate, cost) for span, cost in zip(self.means, self.costs, strict=True)]
        return {
            i
            for i, point in enumerate(points)
            if not any(a <= point[0] and b <= point[1] and (a, b) != point for a, b in points)
        }

    @property
    def verdict(self) -> str:
        """The choice in one sentence, with the numbers of queries that did not choose."""
        best, span = self.values[self.best], self.held_out
        return (
            f"{self.name}: {self.option}={self.values[self.choice]} is the cheapest that is not "
            f"significantly worse than {self.option}={best}; {self.measure} {span.estimate:.4f} "
            f"{span.sentence()} on the {span.n} held-out queries."
        )

    @property
    def method(self) -> str:
        """How the choice was made, for output and signatures."""
        return (
            f"sweep:{self.option}={','.join(self.values)}|rule:cheapest not significantly worse "
            f"(max-t)|chosen on {self.n_choosing} queries, reported on the other {self.held_out.n}|"
            f"seed:{self.seed}"
        )

    def table(self) -> Table:
        """Return a row for each value."""
        marks = ["" for _ in self.values]
        marks[self.choice] = "chosen"
        rows = [
            (value, span.estimate, span.text() or "", cost, "*" * (i in self.front), mark)
            for i, (value, span, cost, mark) in enumerate(
                zip(self.values, self.means, self.costs, marks, strict=True)
            )
        ]
        head = Interval.heading(self.means[0].level)
        return table_of((self.option, self.measure, head, self.unit, "Pareto", "choice"), rows)

    def page(self) -> Page:
        """Return the choice, the curve as a table, and the method."""
        page: Page = [Words(self.verdict), self.table()]
        if self.loss is not None:
            ends = f"{self.loss.estimate:+.4f} {self.loss.sentence()}"
            page.append(Words(f"Held-out difference to the best: {ends}."))
            if self.loss.high < 0:
                advice = f"take {self.option}={self.values[self.best]}, or more queries"
                page.append(Words(f"the choice loses on held-out queries: {advice}", "remark"))
        return [*page, Words(self.method, "method")]

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        rows = zip(self.values, self.means, self.costs, strict=True)
        return {
            "option": self.option,
            "name": self.name,
            "measure": self.measure,
            "points": [
                {
                    "value": float(v),
                    **span.to_dict("mean"),
                    "cost": cost,
                    "pareto": i in self.front,
                }
                for i, (v, span, cost) in enumerate(rows)
            ],
            "unit": self.unit,
            "best": float(self.values[self.best]),
            "choice": float(self.values[self.choice]),
            "held_out": {**self.held_out.to_dict("mean"), "n": self.held_out.n},
            "loss": None if self.loss is None else self.loss.to_dict("difference"),
            "method": self.method,
        }

    def draw(self) -> Drawing:
        """Return the curve: quality with intervals over cost, Pareto points filled."""
        logs = [math.log10(max(cost, 1e-9)) for cost in self.costs]
        around = Scale.around(logs)
        x = Scale(around.low, around.high, start=60, end=440)
        ends = [end for span in self.means for end in (span.low, span.high, span.estimate)]
        around = Scale.around(end for end in ends if not math.isnan(end))
        y = Scale(around.low, around.high, start=250, end=30)
        title = f"{self.name}: {self.measure} over {self.unit}, by {self.option}"
        marks = [svg_text(60, 16, title)]
        marks += [svg_text(8, y.at(tick), f"{tick:g}") for tick in y.ticks()]
        marks += [
            svg_text(x.at(log), 270, f"{cost:.3g}")
            for log, cost in zip(logs, self.costs, strict=True)
        ]
        for i, (log, span) in enumerate(zip(logs, self.means, strict=True)):
            if not math.isnan(span.low):
                style = {"stroke": COLOURS[0]}
                marks.append(line(x.at(log), y.at(span.low), x.at(log), y.at(span.high), **style))
            fill = COLOURS[0] if i in self.front else "#fff"
            radius = 6 if i == self.choice else 4
            label = f"{self.option}={self.values[i]}{' (chosen)' * (i == self.choice)}"
            style = {"fill": fill, "stroke": COLOURS[0]}
            marks.append(circle(x.at(log), y.at(span.estimate), radius, tip=label, **style))
            marks.append(svg_text(x.at(log) + 7, y.at(span.estimate) - 5, self.values[i]))
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
    others = [i for i in range(len(values)) if i != best]
    how: dict[str, Any] = {"resamples": resamples, "seed": seed}
    joint = compare_jointly(
        values[:, chooses], [(i, best) for i in others], clusters=groups[0], level=level, **how
    )
    worse = {i for i, p in zip(others, joint.p, strict=True) if p <= level}
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
    sweep: Sweep | None,
    curves: Mapping[str, tuple[str, ...]],
    *,
    by: str | None = None,
    level: float = LEVEL,
    resamples: int = RESAMPLES,
    seed: int = SEED,
) -> tuple[SweepCurve, ...]:
    """Return the curves of a bench that ran the systems of a sweep.

    Systems that could not run leave their value out; a curve of fewer than two is none.
    """
    systems = {system.name: system for system in result.systems}
    drawn = []
    if sweep is None:
        return ()
    for name, variants in curves.items():
        there = [
            (value, systems[variant])
            for value, variant in zip(sweep.values, variants, strict=True)
            if variant in systems
        ]
        if len(there) < 2:
            continue
        scores = [system.scores for _, system in there]
        quality = np.array([score.values[0] for score in scores])
        clusters = None if by is None else scores[0].groups[by]
        unit, costs = _costs(sweep.option, [system for _, system in there])
        how: dict[str, Any] = {"clusters": clusters, "resamples": resamples, "seed": seed}
        measure = scores[0].measures[0]
        point = choose_point(quality, costs, level=level, bounds=measure.bounds, **how)
        means = intervals(quality, level=1 - level, bounds=[measure.bounds] * len(quality), **how)
        values = tuple(value for value, _ in there)
        labels = (sweep.option, name, str(measure), values, unit, costs, tuple(means))
        drawn.append(SweepCurve(*labels, *point, seed))
    return tuple(drawn)


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
        1000 * system.seconds_per_query if report is None else report.latency_ms["p50"]
        for system, report in zip(systems, reports, strict=True)
    ]
    if option == "weight":
        seconds = [float(np.median(seconds))] * len(seconds)
    return "ms/query", tuple(seconds)


def draw_curves(curves: Sequence[SweepCurve]) -> str:
    """Return the curves as one SVG, below one another."""
    return Drawing.stack([curve.draw() for curve in curves]).to_svg()
