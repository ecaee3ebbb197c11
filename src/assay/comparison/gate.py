"""The regression gate: conditions under which a new system must not pass.

The plain gate tests each comparison as if it were the only one: it errs at each look with the level
of its test, so that of 200 systems that are not worse than the baseline some will fail. `look_at`
is for a gate that is asked at every commit on the same queries: its level is that of all looks,
past and to come (see `stats.tests`). A file may count them: a look at numbers that were seen before
costs nothing, and a new baseline begins anew.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Protocol

import numpy as np

from assay.arrays import or_none
from assay.comparison.compare import Comparison
from assay.comparison.pairs import FEWEST_FOR_MARGIN, Pair
from assay.comparison.standings import Standing
from assay.comparison.verdict import RESTS, describe_numbers, join_names
from assay.core.text import describe_p, fixed, rounded_up, signed, spoken
from assay.errors import FormatError, UsageError
from assay.io.fingerprints import digest_of_arrays, fingerprint_of
from assay.io.plain_data import parse_json
from assay.io.streams import atomic_write, read_text
from assay.measures import Measure, parse
from assay.stats.samples import too_few
from assay.stats.tests import EProcess, look_share

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
        if self.limit is not None:
            return f"{self.measure} {self.relation} {self.limit:g}"
        shift = f" {self.sign} {self.amount:g}" if self.amount else ""
        return f"{self.measure} {self.relation} baseline{shift}"

    def limit_for(self, baseline: float) -> float:
        """Return the number that a mean is compared with."""
        if self.limit is not None:
            return self.limit
        if self.sign == "*":
            return baseline * self.amount
        return baseline - self.amount if self.sign == "-" else baseline + self.amount

    def fails(self, mean: float, baseline: float) -> bool:
        """Return whether a system with this mean fails; one without a mean always does."""
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
    match = _CONDITION.fullmatch(text.strip())
    if match is None:
        raise UsageError(
            f"Cannot read the condition {text!r}. Write a measure, < or <=, and a number or "
            "baseline with + - or * and a number: 'nDCG@10 < baseline - 0.005'."
        )
    measure = parse(match["measure"])
    if not math.isfinite(float(match["limit"] or match["amount"] or 0)):
        raise UsageError(f"The number in the condition {text!r} is too large.")
    if match["limit"] is not None:
        return Condition(measure, match["relation"], float(match["limit"]))
    sign, amount = match["sign"] or "+", float(match["amount"] or 0)
    return Condition(measure, match["relation"], None, sign, amount)


class Means(Protocol):
    """Systems with their means: a comparison, or a leaderboard."""

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all systems."""

    @property
    def baseline(self) -> str | None:
        """The name of the one that the others are compared with."""

    def standings_on(self, measure: str | Measure) -> tuple[Standing, ...]:
        """Return the systems on one measure."""


def failures(comparison: Means, conditions: Iterable[Condition]) -> Iterator[str]:
    """Say of each system but the baseline which conditions it meets."""
    for condition in conditions:
        if condition.limit is None and comparison.baseline is None:
            raise UsageError(f"'{condition}' refers to a baseline: name it with --baseline.")
        standings = comparison.standings_on(condition.measure)
        means = {standing.name: standing.mean.estimate for standing in standings}
        base = means.get(comparison.baseline or "", math.nan)
        limit = condition.limit_for(base)
        for name in comparison.names:
            mean = means[name]
            if name == comparison.baseline or not condition.fails(mean, base):
                continue
            if math.isnan(mean) or not math.isfinite(limit):
                yield f"{name} has no {condition.measure} to check against '{condition}'"
            else:
                relation = f"{mean:.4f} {condition.relation} {limit:.4f}"
                yield f"{name} has {condition.measure} {relation} ({condition})"


def worse_than_baseline(comparison: Comparison) -> Iterator[str]:
    """Say which systems are significantly worse than the baseline; probably worse is not enough.

    With a margin: which are not shown to be non-inferior. All systems and measures must pass, so
    that their p-values need no correction: the gate passes wrongly only if all tests err. What
    cannot be tested does not pass. A system with the scores of the baseline passes always; for
    others, a margin that these queries cannot show is refused.
    """
    if comparison.baseline is None:
        raise UsageError("A baseline is required. Name it with --baseline.")
    changed = changed_pairs(comparison)
    if comparison.settings.margin is None:
        yield from filter(None, map(_worse, changed))
        return
    for pair in changed:
        refuse_margin(pair, pair.least_margin)
    yield from filter(None, map(_not_within_margin, changed))


def changed_pairs(comparison: Comparison) -> list[Pair]:
    """Return the pairs whose system does not have the scores of the baseline on every query.

    A system that answers other queries than the baseline has changed, too.
    """
    counts = comparison.query_counts
    return [
        pair for pair in comparison.pairs if not pair.unchanged or counts[pair.a] != counts[pair.b]
    ]


def refuse_margin(pair: Pair, least: float, look: int | None = None) -> None:
    """Refuse a margin below the least one that these queries can show."""
    margin, n, units = pair.settings.margin, pair.n_units, pair.units
    if margin is None or margin >= least or n == 0:
        return
    if math.isfinite(least):
        at = "" if look is None else f" at look {look}"
        raise UsageError(
            f"{n} {units} cannot rule out a loss of {margin:g} on {pair.measure}{at}: even "
            f"without any difference the worst plausible loss is {rounded_up(least)}. Use a margin "
            f"of {rounded_up(least)} or more, more {units}, or no margin."
        )
    if n < FEWEST_FOR_MARGIN:
        raise UsageError(
            f"A margin needs at least {FEWEST_FOR_MARGIN} {units}; {pair.measure} has {n}. Use "
            f"more {units} or no margin."
        )
    raise UsageError(
        f"No margin can be shown at level {pair.settings.level:g} with "
        f"{pair.settings.resamples:,} resamples. Use more resamples."
    )


def describe_pass(comparison: Comparison, baseline: str) -> str:
    """Return what a passing gate has shown, such as `no significant loss against old on AP`."""
    margin = comparison.settings.margin
    on = f"{baseline} on {join_names([str(measure) for measure in comparison.measures])}"
    if not changed_pairs(comparison):
        try:  # say beforehand that the margin will be refused for a system that has changed
            for pair in comparison.pairs:
                refuse_margin(pair, pair.least_margin)
        except UsageError as error:
            later = f"The margin will be refused once scores change: {str(error).rstrip('.')}"
            return f"same scores as {on}. {later}"
        return f"same scores as {on}"
    if margin is not None:
        return f"no loss of {margin:g} or more against {on}"
    unsure = [f"{p.a} on {p.measure}" for p in comparison.pairs if p.outcome == "probably worse"]
    if unsure:
        more = "Use --margin to fail unless a loss is ruled out"
        return (
            f"no certain loss against {on}. Probably worse: {join_names(unsure)} ({RESTS}). {more}"
        )
    return f"no significant loss against {on}"


def _worse(pair: Pair) -> str:
    if pair.untestable:
        return f"{pair.a} cannot be tested on {pair.measure}: {pair.untestable}"
    if pair.outcome != "worse":
        return ""
    return f"{pair.a} is worse than {pair.b} on {pair.measure}: {describe_numbers(pair, pair.a)}"


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
    return not_shown(pair, spoken(f"{signed(pair.difference)}{bound}, {describe_p(test.p)}{why}"))


def not_shown(pair: Pair, numbers: str) -> str:
    """Say that a system is not shown to be within the margin of the baseline."""
    margin = pair.settings.margin
    return f"{pair.a} may lose {margin:g} or more against {pair.b} on {pair.measure}: {numbers}"


_LOOKS_VERSION: Final = 1


@dataclass(frozen=True)
class SequentialTest:
    """The answer of the gate at one look; `seen_before` says that it is the answer of another."""

    number: int
    seen_before: bool
    pairs: tuple[PairLook, ...]

    @property
    def reasons(self) -> list[str]:
        """Why the gate fails; nothing if it does not."""
        return [pair.reason for pair in self.pairs if pair.reason]

    @property
    def sentences(self) -> list[str]:
        """The state of each system at this look, a sentence each."""
        return [pair.sentence for pair in self.pairs]

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        return {
            "number": self.number,
            "seen_before": self.seen_before,
            "pairs": [pair.to_dict() for pair in self.pairs],
        }


def look_at(comparison: Comparison, number: int, *, seen_before: bool = False) -> SequentialTest:
    """Run the gate for the `number`-th time on these queries and baseline.

    Without a margin, the chance that any system that is not worse than the baseline ever fails is
    at most the level of the comparison; with one, the chance that any system that is worse by the
    margin or more ever passes. The systems must not be made from the queries.
    """
    if comparison.baseline is None:
        raise UsageError("A baseline is required. Name it with --baseline.")
    # With a margin each system must pass on each measure, so that only one of its tests may err.
    several = len(comparison.pairs) if comparison.settings.margin is None else 1
    share = look_share(number) / several
    widths = {str(measure): width_of(measure) for measure in comparison.measures}
    changed, margin = changed_pairs(comparison), comparison.settings.margin
    pairs = tuple(
        PairLook(
            pair,
            # On the system being worse; with a margin, which it has to disprove, on the other.
            pair.bets(pair.a if margin is None else pair.b, widths[pair.measure]),
            number,
            share,
            pair not in changed,
        )
        for pair in comparison.pairs
    )
    for look in pairs:
        if not look.unchanged:
            refuse_margin(look.pair, look.least_margin, number)
    return SequentialTest(number, seen_before, pairs)


def width_of(measure: Measure) -> float:
    """Return the range of a measure; an error where it has none."""
    if measure.bounds is None:
        raise UsageError(
            f"{measure} has no upper bound, which repeated looks need. Choose a measure between 0 "
            "and 1, or omit --look and --look-file."
        )
    low, high = measure.bounds
    return high - low


@dataclass(frozen=True, eq=False)
class PairLook:
    """One system and the baseline at one look. `share` is the part of the level it may spend.

    A system that is `unchanged` has the scores of the baseline, and passes.
    """

    pair: Pair
    bets: EProcess
    number: int
    share: float
    unchanged: bool = False

    @property
    def _at(self) -> float:
        return self.pair.settings.margin or 0.0

    @cached_property
    def p(self) -> float:
        """p of being worse, or with a margin of not losing it, corrected for all looks."""
        return min(1.0, self.bets.p(self._at) / self.share)

    @property
    def shown(self) -> bool:
        """Whether the system is shown to be worse; with a margin, to be within it."""
        return self.p <= self.pair.settings.level

    @cached_property
    def bound(self) -> float:
        """Upper bound of the difference, or with a margin the lower one, over all looks.

        It is below 0 (above −margin) exactly if `shown`.
        """
        highest = self.bets.highest(self.pair.settings.level * self.share, self._at)
        if self.shown:
            highest = min(highest, self._at - 1e-12 * self.bets.width)
        else:
            highest = max(highest, self._at)
        return highest if self.pair.settings.margin is None else -highest

    @property
    def least_margin(self) -> float:
        """The smallest margin that these queries can show at this look if none differs."""
        equal = EProcess(np.zeros_like(self.bets.sums), self.bets.sizes, self.bets.width)
        return equal.highest(self.pair.settings.level * self.share)

    @property
    def untestable(self) -> str:
        """Why nothing can be shown at this look; empty if something can."""
        units, level = self.pair.units, self.pair.settings.level
        few = too_few(self.bets.n_units, units)
        if few or self.bets.smallest_p(self._at) <= level * self.share:
            return few or ""
        return (
            f"{self.bets.n_units} {units} are too few for look {self.number} ({100 * level:g} % "
            "in all)"
        )

    @property
    def reason(self) -> str:
        """Why the gate fails; empty if it does not."""
        pair = self.pair
        if self.unchanged:
            return ""
        if self.untestable:
            return f"{pair.a} cannot be tested on {pair.measure}: {self.untestable}"
        if pair.settings.margin is not None:
            return "" if self.shown else not_shown(pair, self._numbers)
        worse = f"{pair.a} is worse than {pair.b} on {pair.measure}: {self._numbers}"
        return worse if self.shown else ""

    @property
    def sentence(self) -> str:
        """The look and its numbers."""
        pair = self.pair
        what = f"{pair.a} − {pair.b} on {pair.measure}: {self._numbers}"
        if self.unchanged:
            what = f"{pair.a} and {pair.b} have equal scores on {pair.measure}"
        return f"Look {self.number}: {(self.untestable and self.reason) or what}"

    @property
    def _numbers(self) -> str:
        sure = f"{100 * (1 - self.pair.settings.level):g} %"
        which = "at most" if self.pair.settings.margin is None else "at least"
        bound = f"{which} {fixed(self.bound, sign=True)} ({sure} over all looks)"
        return spoken(f"{signed(self.pair.difference)}, {bound}, {describe_p(self.p)}")

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON; undefined numbers are None."""
        return {
            "measure": self.pair.measure,
            "a": self.pair.a,
            "b": self.pair.b,
            "difference": or_none(self.pair.difference),
            "bound": or_none(self.bound),
            "p": self.p,
            "failed": bool(self.reason),
        }


def count_look(comparison: Comparison, path: str) -> tuple[int, bool]:
    """Return the number of this look in a file, and whether it was counted before.

    The file is made if there is none, and written if the look is new. It counts the looks at each
    baseline, on its queries and measures, apart.
    """
    gates = read_gates(path)
    gate, look = _identify(comparison)
    looks = gates.setdefault(gate, [])
    if look in looks:
        return looks.index(look) + 1, True
    looks.append(look)
    data = {"looks_version": _LOOKS_VERSION, "gates": gates}
    with atomic_write(path) as file:
        file.write(f"{json.dumps(data, indent=1)}\n".encode())
    return len(looks), False


def _identify(comparison: Comparison) -> tuple[str, str]:
    """Return digests of the baseline on its queries and measures, and of the tested systems."""
    number = comparison.names.index(comparison.baseline or "")
    values = np.stack([comparison.values_on(measure) for measure in comparison.measures])
    candidates = np.delete(values, number, axis=1)
    gate = {
        "measures": [str(measure) for measure in comparison.measures],
        "queries": [str(query) for query in comparison.query_ids],
        "baseline": digest_of_arrays(values[:, number]),
    }
    return fingerprint_of(gate), digest_of_arrays(candidates)[:32]


def read_gates(path: str) -> dict[str, list[str]]:
    """Read how often each gate was asked, and with which runs."""
    if not os.path.lexists(path):
        return {}
    data = parse_json(read_text(path), path)
    if isinstance(data, dict) and data.get("looks_version", _LOOKS_VERSION) != _LOOKS_VERSION:
        raise FormatError(
            f"{path} has the version {data['looks_version']!r} of looks; this program reads "
            f"{_LOOKS_VERSION}. Update Assay, or name another file."
        )
    gates = data.get("gates") if isinstance(data, dict) else None
    if not isinstance(gates, dict) or not all(
        isinstance(looks, list) and all(isinstance(look, str) for look in looks)
        for looks in gates.values()
    ):
        raise FormatError(
            f"{path} is not a file of looks: it has no table 'gates'. Name one that this gate "
            "wrote, or a new one."
        )
    return gates
