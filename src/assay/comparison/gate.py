"""The regression gate: conditions under which a new system must not pass.

Each comparison is tested as if it were the only one; `comparison.looks` is for a gate that is asked
again and again on the same queries.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, Protocol

from assay.comparison.compare import Comparison, Standing
from assay.comparison.pairs import Pair
from assay.comparison.verdict import describe_difference, describe_p
from assay.core.text import fixed, signed
from assay.errors import UsageError
from assay.measures import Measure, parse

__all__ = ["Condition", "Means", "failures", "not_shown", "parse_condition", "worse_than_baseline"]

_NUMBER: Final = r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
_CONDITION: Final = re.compile(
    rf"(?P<measure>[^<>]+?)\s*(?P<relation><=|<)\s*"
    rf"(?:(?P<limit>{_NUMBER})|baseline(?:\s*(?P<sign>[-+*])\s*(?P<amount>{_NUMBER}))?)"
)
# A mean that lies on the limit but for the rounding of the limit itself is on it.
_ROUNDING: Final = 1e-12


@dataclass(frozen=True)
class Condition:
    """`measure < limit` or `measure < baseline - amount`; a system that meets it fails."""

    measure: Measure
    relation: str
    limit: float | None = None
    sign: str = "+"
    amount: float = 0.0

    def __str__(self) -> str:
        """The condition as text."""
        if self.limit is not None:
            return f"{self.measure} {self.relation} {self.limit:g}"
        shift = f" {self.sign} {self.amount:g}" if self.amount else ""
        return f"{self.measure} {self.relation} baseline{shift}"

    def limit_for(self, baseline: float) -> float:
        """The number that a mean is compared with."""
        if self.limit is not None:
            return self.limit
        if self.sign == "*":
            return baseline * self.amount
        return baseline - self.amount if self.sign == "-" else baseline + self.amount

    def fails(self, mean: float, baseline: float) -> bool:
        """Whether a system with this mean fails; one without a mean always does."""
        limit = self.limit_for(baseline)
        if math.isnan(mean) or not math.isfinite(limit):
            return True
        slack = _ROUNDING * max(1.0, abs(limit))
        return mean < limit - slack if self.relation == "<" else mean <= limit + slack


def parse_condition(text: str) -> Condition:
    """Parse a condition such as `nDCG@10 < baseline - 0.005`; nothing in it is evaluated as code.

    >>> parse_condition("ndcg_cut_10 < baseline * 0.98").measure
    nDCG@10
    """
    found = _CONDITION.fullmatch(text.strip())
    if found is None:
        raise UsageError(
            f"Cannot read the condition {text!r}. Write a measure, < or <=, and a number or "
            "baseline with + - or * and a number: 'nDCG@10 < baseline - 0.005'."
        )
    measure = parse(found["measure"])
    if not math.isfinite(float(found["limit"] or found["amount"] or 0)):
        raise UsageError(f"The number in the condition {text!r} is too large.")
    if found["limit"] is not None:
        return Condition(measure, found["relation"], float(found["limit"]))
    sign, amount = found["sign"] or "+", float(found["amount"] or 0)
    return Condition(measure, found["relation"], None, sign, amount)


class Means(Protocol):
    """Systems with their means: a comparison, or a leaderboard."""

    @property
    def names(self) -> tuple[str, ...]:
        """Of all systems."""

    @property
    def baseline(self) -> str | None:
        """The name of the one that the others are compared with."""

    def standings_on(self, measure: str | Measure) -> tuple[Standing, ...]:
        """The systems on one measure."""


def failures(comparison: Means, conditions: Iterable[Condition]) -> Iterator[str]:
    """Say of each system but the baseline which conditions it meets."""
    for condition in conditions:
        if condition.limit is None and comparison.baseline is None:
            raise UsageError(f"'{condition}' refers to a baseline: name it with --baseline.")
        means = {one.name: one.mean.estimate for one in comparison.standings_on(condition.measure)}
        base = means.get(comparison.baseline or "", math.nan)
        for name in comparison.names:
            if name != comparison.baseline and condition.fails(means[name], base):
                yield _why(name, means[name], condition, base)


def _why(name: str, mean: float, condition: Condition, baseline: float) -> str:
    if math.isnan(mean) or not math.isfinite(condition.limit_for(baseline)):
        return f"{name} has no {condition.measure} to check against '{condition}'"
    limit = condition.limit_for(baseline)
    return (
        f"{name} has {condition.measure} {mean:.4f} {condition.relation} {limit:.4f} ({condition})"
    )


def worse_than_baseline(comparison: Comparison) -> Iterator[str]:
    """Say which systems are significantly worse than the baseline.

    With a margin: which are not shown to be non-inferior. All systems and measures must pass, so
    that their p-values need no correction: the gate passes wrongly only if all tests err. What
    cannot be tested does not pass.
    """
    if comparison.baseline is None:
        raise UsageError("A baseline is needed: name it with --baseline.")
    for pair in comparison.pairs:
        why = _not_within_margin(pair) if comparison.settings.margin is not None else _worse(pair)
        if why:
            yield why


def _worse(pair: Pair) -> str:
    if pair.untestable:
        return f"{pair.a} cannot be tested on {pair.measure}: {pair.untestable}"
    if pair.outcome != "worse":
        return ""
    return f"{pair.a} is worse than {pair.b} on {pair.measure}: {describe_difference(pair, pair.a)}"


def _not_within_margin(pair: Pair) -> str:
    test = pair.non_inferiority(pair.a)
    if test is None or test.p <= pair.settings.level:
        return ""
    if math.isnan(test.p):
        return f"{pair.a} cannot be tested on {pair.measure}: {test.note}"
    least = pair.least_difference(pair.a)
    sure = f"{100 * (1 - pair.settings.level):g} %, one-sided"
    bound = "" if math.isnan(least) else f", at least {fixed(least, sign=True)} ({sure})"
    why = f"; {test.note}" if test.note else ""
    return not_shown(pair, f"{signed(pair.difference)}{bound}, {describe_p(test.p)}{why}")


def not_shown(pair: Pair, numbers: str) -> str:
    """That a system is not shown to be within the margin of the baseline, with these numbers."""
    margin = pair.settings.margin
    return f"{pair.a} is not shown to be within {margin:g} of {pair.b} on {pair.measure}: {numbers}"
