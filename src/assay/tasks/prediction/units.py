"""In which unit a result file states its values, as far as the file itself shows it.

A value above 1 is no fraction, counts beside a rate fix it, and the accuracies leave the other
measures a range that one ranking can have. What none of these decides has to be declared.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from itertools import accumulate, pairwise

__all__ = [
    "CUTS",
    "MEASURES",
    "RATES",
    "ROUNDED",
    "UNITS",
    "broken_laws",
    "possible_units",
    "scaled",
]

UNITS = ("percent", "fraction")
CUTS = (1, 3, 5, 10)  # the cut-offs of next-location result files
ROUNDED = 1.2e-4  # files hold percentages with two digits, and laws add two of them up
_ROUGHLY = 5e-3  # a unit is off by a factor of 100: rounding to two digits must not decide about it

# A column of a result file, its measure, and the family that shares a unit.
RATES = {
    **{f"acc@{k}": (f"Success@{k}", "acc") for k in CUTS},
    "mrr": ("RR", "mrr"),
    "ndcg": ("nDCG@10", "ndcg"),
    "f1": ("F1(avg=weighted)", "f1"),
}
MEASURES = tuple(name for name, _ in RATES.values())


def scaled(value: float, unit: str, total: float = 0.0) -> float:
    """A value as a fraction; a sum is divided by the number of samples.

    >>> scaled(29.61, "percent"), scaled(1.5, "sum", 2)
    (0.2961, 0.75)
    """
    return value / {"percent": 100.0, "fraction": 1.0, "sum": total}[unit]


def possible_units(
    numbers: Mapping[str, float], counted: Mapping[str, float]
) -> dict[str, list[str]]:
    """For each family of columns the units that it can be in, by what the file shows for certain.

    `numbers` are the rates of one file as they stand there, `counted` fractions from its counts.
    Families that are certain decide about the others, until nothing changes.

    >>> possible_units({"acc@1": 29.61, "f1": 0.212}, {})
    {'acc': ['percent'], 'f1': ['fraction']}
    >>> possible_units({"acc@1": 0.2961, "f1": 0.212}, {})
    {'acc': ['percent', 'fraction'], 'f1': ['percent', 'fraction']}
    """
    families = dict.fromkeys(RATES[key][1] for key in numbers)
    found = {name: _units_in_range(_of_family(numbers, name)) for name in families}
    for _ in families:
        for name, units in found.items():
            known = {other: one[0] for other, one in found.items() if len(one) == 1}
            if len(units) > 1:
                found[name] = _fewest_faults(numbers, name, units, known, counted)
    return found


def _of_family(numbers: Mapping[str, float], family: str) -> dict[str, float]:
    return {key: value for key, value in numbers.items() if RATES[key][1] == family}


def _units_in_range(values: Mapping[str, float]) -> list[str]:
    if not any(values.values()):
        return ["fraction"]  # zero is zero in any unit
    most = max(values.values())
    return [unit for unit in UNITS if scaled(most, unit) <= 1 + 1e-9]


def _fewest_faults(
    numbers: Mapping[str, float],
    family: str,
    units: list[str],
    known: Mapping[str, str],
    counted: Mapping[str, float],
) -> list[str]:
    """The units of a family that contradict counts and the certain families least."""
    certain = {
        RATES[key][0]: scaled(value, known[RATES[key][1]])
        for key, value in numbers.items()
        if RATES[key][1] in known
    }
    if not certain and not counted:
        return units
    own = _of_family(numbers, family)
    faults = {
        unit: _faults({RATES[key][0]: scaled(v, unit) for key, v in own.items()}, certain, counted)
        for unit in units
    }
    return [unit for unit in units if faults[unit] == min(faults.values())]


def _faults(
    values: Mapping[str, float], certain: Mapping[str, float], counted: Mapping[str, float]
) -> int:
    """How many counts the values miss, and how many ranges they and the certain ones leave."""
    apart = sum(
        abs(values[name] - count) > max(ROUNDED, 0.02 * count)
        for name, count in counted.items()
        if name in values
    )
    together = {**counted, **certain, **values}
    known = [k for k in CUTS if f"Success@{k}" in together]
    grown = accumulate((together[f"Success@{k}"] for k in known), max)
    cuts = list(zip(known, grown, strict=True))  # a broken order says nothing about the unit
    return apart + len(list(_out_of_range(together, cuts, _ROUGHLY)))


def broken_laws(values: Mapping[str, float], slack: float = ROUNDED) -> Iterator[str]:
    """What no ranking of one target per sample can do, in words."""
    cuts = [(k, values[f"Success@{k}"]) for k in CUTS if f"Success@{k}" in values]
    unordered = [(a, b) for a, b in pairwise(cuts) if a[1] > b[1] + slack]
    for (low, share), (high, other) in unordered:
        yield f"Success@{low} ({share:.4f}) is above Success@{high} ({other:.4f})"
    if not unordered:
        yield from _out_of_range(values, cuts, slack)


def _out_of_range(
    values: Mapping[str, float], cuts: list[tuple[int, float]], slack: float
) -> Iterator[str]:
    for name, (least, most) in (_ranges(cuts) if cuts else {}).items():
        value = values.get(name, least)
        if not least - slack <= value <= most + slack:
            yield (
                f"{name} is {value:.4f}, and with these accuracies no ranking gives less than "
                f"{least:.4f} or more than {most:.4f}"
            )


def _ranges(cuts: list[tuple[int, float]]) -> dict[str, tuple[float, float]]:
    """From accuracies at cut-offs the least and the most that the other measures can be.

    A sample found between two cut-offs may stand at either end. Weighted F1 lies between
    2a²/(1 + a), where one class is always predicted, and 2a/(1 + a), where no prediction is wrong
    but those of classes that nobody has.
    """
    steps = [(0, 0.0), *cuts]
    found = [(after - before, k, m) for (k, before), (m, after) in pairwise(steps)]
    last, share = cuts[-1]
    beyond = 1 - share
    ranges = {
        "RR": (
            math.fsum(part / m for part, _, m in found),
            math.fsum([*(part / (k + 1) for part, k, _ in found), beyond / (last + 1)]),
        ),
        "nDCG@10": (
            math.fsum(part / math.log2(m + 1) for part, _, m in found),
            math.fsum(
                [
                    *(part / math.log2(k + 2) for part, k, _ in found),
                    beyond / math.log2(last + 2) if last < CUTS[-1] else 0.0,
                ]
            ),
        ),
    }
    if cuts[0][0] == 1:
        a = cuts[0][1]
        ranges["F1(avg=weighted)"] = (2 * a * a / (1 + a), 2 * a / (1 + a))
    return ranges
