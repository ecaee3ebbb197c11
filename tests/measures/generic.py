"""What the tests need of any registered measure: settings to try, and values over tied orders.

Measures with a plain definition in `oracle` are compared with it. Any other measure, such as one
that was registered a moment ago, gets its settings from the registry, and its values over all
orders of tied documents from its own value of each order.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

from assay import evaluate, preset
from assay.measures import REGISTRY, Definition, Measure
from assay.measures.registry import Param, load_measures
from tests.measures import oracle
from tests.measures.oracle import ORACLES, PARAMETERS, Grade, Listing

__all__ = ["OF_HITS", "as_run", "every_setting", "midrank_up", "settings_of", "value_in_order"]

load_measures()
# All but those of a room, which are of something else than ranks, and tested there.
OF_HITS = [
    name
    for name, definition in REGISTRY.items()
    if not definition.built_in or definition.function.__module__.startswith("assay.measures.")
]

_CUTOFFS: dict[str, tuple[Any, ...]] = {
    "none": (None,),
    "R": (None,),
    "optional": (None, 1, 3, 50),
    "required": (1, 3, 50),
    "level": (0, 0.35, 0.5, 1),
}


def settings_of(name: str) -> tuple[str, ...]:
    """Settings of one measure: written down for the oracle's, otherwise made from the registry."""
    if name in PARAMETERS:
        return PARAMETERS[name]
    definition = REGISTRY[name]
    cutoffs = _CUTOFFS[definition.cutoff]
    plain = [definition.build({}, cutoff) for cutoff in cutoffs]
    varied = [
        definition.build({key: value}, cutoffs[len(cutoffs) // 2])
        for key, param in definition.params.items()
        for value in _values_of(key, param)
    ]
    return tuple(dict.fromkeys(map(str, [*plain, *varied])))


def _values_of(key: str, param: Param) -> tuple[Any, ...]:
    """Some values that a parameter takes; `rel` stays above 0, which labels can answer."""
    if key == "rel":
        return (2,)
    if param.kind == "flag":
        return (False, True)
    if param.kind == "choice":
        return param.choices
    if param.kind == "levels":
        return ((0.25, 0.5, 0.75),)
    if param.kind == "gains":
        return (((1, 3.0), (2, 0.5)),)
    usual = (param.low, 0.5, 2, param.high)
    return tuple(v for v in usual if param.low <= v <= param.high and math.isfinite(v))


def every_setting() -> list[str]:
    """The settings of all measures of hits."""
    return [text for name in OF_HITS for text in settings_of(name)]


def as_run(data: Sequence[Listing]) -> tuple[dict, dict]:
    """Runs whose id order (z first) keeps each group in the order in which it is written."""
    run: dict[str, dict[str, float]] = {}
    qrels: dict[str, dict[str, float]] = {}
    for q, listing in enumerate(data):
        name = f"q{q:06d}"
        run[name], qrels[name] = {}, {}
        seen = list(listing.pool)
        for number, (g, grade) in enumerate(
            (g, grade) for g, group in enumerate(listing.groups) for grade in group
        ):
            doc = f"d{999 - number}"
            run[name][doc] = -0.1 * g
            if grade is not None:
                qrels[name][doc] = grade
                seen.remove(grade)
        qrels[name].update({f"unseen{i}": grade for i, grade in enumerate(seen)})
    return {q: run[q] for q in run if run[q]}, qrels


@lru_cache(1024)
def values_over_orders(measure: Measure, listing: Listing) -> list[float]:
    """The value under every order of the tied documents; each counts equally."""
    if measure.name in ORACLES:
        return oracle.values_over_orders(measure, listing)
    orders = itertools.product(*(set(itertools.permutations(group)) for group in listing.groups))
    return _values_as_listed(measure, (_flat(order, listing.pool) for order in orders))


def _flat(groups: Iterable[tuple[Grade, ...]], pool: tuple[float, ...]) -> Listing:
    """The same documents without ties, in the order in which they are written."""
    return Listing(tuple((grade,) for group in groups for grade in group), pool)


def _values_as_listed(measure: Measure, listings: Iterable[Listing]) -> list[float]:
    """The measure's own value of each list, none of which has ties."""
    run, qrels = as_run(tuple(listings))
    run["z"], qrels["z"] = {"d": 0.0}, {"d": 1}  # a run must hold a judged query; this is the last
    scores = evaluate(run, qrels, measure, conventions=preset("trec_eval"))
    return [float(value) for value in scores.values[0, :-1]]


def value_in_order(measure: Measure, listing: Listing) -> float:
    """The value of the list exactly as it stands."""
    if measure.name in ORACLES:
        return oracle.value_in_order(measure, listing)
    return _values_as_listed(measure, [_flat(listing.groups, listing.pool)])[0]


def midrank_up(measure: Measure, listing: Listing) -> float | None:
    """The value with tied documents at their expected ranks, rounded up.

    None for a graded measure without a plain definition: it needs documents of mean gain.
    """
    if measure.name in ORACLES:
        return oracle.midrank_up(measure, listing)
    if measure.definition.gain != "relevant":
        return None
    rel = max(dict(measure.params).get("rel", 1), 0)
    placed = [_place_group(group, rel) for group in listing.groups]
    value = _values_as_listed(measure, [_flat(placed, listing.pool)])[0]
    possible = values_over_orders(measure, listing)
    return value if math.isnan(value) else min(max(value, min(possible)), max(possible))


def _place_group(group: tuple[Grade, ...], rel: float) -> tuple[Grade, ...]:
    """The j-th of the m relevant documents of a group of n at place ⌈j(n+1)/(m+1)⌉."""
    good = [grade for grade in group if grade is not None and grade >= rel]
    rest = [grade for grade in group if grade is None or grade < rel]
    places = {math.ceil(j * (len(group) + 1) / (len(good) + 1)) for j in range(1, len(good) + 1)}
    return tuple(
        good.pop() if place in places else rest.pop() for place in range(1, len(group) + 1)
    )


def is_varied(definition: Definition, texts: Iterable[Measure]) -> bool:
    """Whether every parameter of a measure is given in at least one of its settings."""
    return {key for measure in texts for key, _ in measure.params} == set(definition.params)
