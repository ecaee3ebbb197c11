"""A gate that is asked at every commit on the same queries: all its answers together are right.

The plain gate errs at each look with the level of its test, so that of 200 systems that are not
worse than the baseline some will fail. Here the level is that of all looks, past and to come (see
`stats.looks`). A file may count them: a look at numbers that were seen before costs nothing, and a
new baseline begins anew.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np

from assay.arrays import or_none
from assay.comparison.compare import Comparison
from assay.comparison.gate import not_shown
from assay.comparison.pairs import Pair
from assay.comparison.verdict import describe_p
from assay.core.text import fixed, signed
from assay.errors import FormatError, UsageError
from assay.io.atomic import atomic_write
from assay.io.fingerprints import digest_of_arrays, fingerprint_of
from assay.io.json_text import parse_json
from assay.io.streams import read_text
from assay.measures import Measure
from assay.stats.looks import Bets, look_share
from assay.stats.samples import too_few

__all__ = ["Look", "PairLook", "count_look", "look_at"]

_VERSION: Final = 1


@dataclass(frozen=True)
class Look:
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
        """What is known of each system at this look."""
        return [pair.sentence for pair in self.pairs]

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            "number": self.number,
            "seen_before": self.seen_before,
            "pairs": [pair.to_dict() for pair in self.pairs],
        }


def look_at(comparison: Comparison, number: int, *, seen_before: bool = False) -> Look:
    """Ask the gate for the `number`-th time on the same queries and baseline.

    Without a margin, the chance that any system that is not worse than the baseline ever fails is
    at most the level of the comparison; with one, the chance that any system that is worse by the
    margin or more ever passes. The systems must not be made from the queries.
    """
    if comparison.baseline is None:
        raise UsageError("A baseline is needed: name it with --baseline.")
    # With a margin each system must pass on each measure, so that only one of its tests may err.
    several = len(comparison.pairs) if comparison.settings.margin is None else 1
    share = look_share(number) / several
    widths = {str(measure): _width_of(measure) for measure in comparison.measures}
    pairs = tuple(
        PairLook(pair, _bets_of(pair, widths[pair.measure]), number, share)
        for pair in comparison.pairs
    )
    return Look(number, seen_before, pairs)


def _bets_of(pair: Pair, width: float) -> Bets:
    """On the system being worse; with a margin, which it has to disprove, on the other."""
    return pair.bets(pair.a if pair.settings.margin is None else pair.b, width)


def _width_of(measure: Measure) -> float:
    if measure.bounds is None:
        raise UsageError(
            f"{measure} has no largest value, which a gate over many looks needs to know. Take a "
            "measure between 0 and 1, or ask without --look and --look-file."
        )
    low, high = measure.bounds
    return high - low


@dataclass(frozen=True, eq=False)
class PairLook:
    """One system and the baseline at one look. `share` is the part of the level it may spend."""

    pair: Pair
    bets: Bets
    number: int
    share: float

    @property
    def _at(self) -> float:
        return self.pair.settings.margin or 0.0

    @cached_property
    def p(self) -> float:
        """Of worse (without a margin) or of not worse by the margin, corrected for all looks."""
        return min(1.0, self.bets.p(self._at) / self.share)

    @property
    def shown(self) -> bool:
        """Whether the system is shown to be worse; with a margin, to be within it."""
        return self.p <= self.pair.settings.level

    @cached_property
    def bound(self) -> float:
        """What the difference is at most (without a margin), or at least, at all looks together.

        It is below 0 (above −margin) exactly if `shown`.
        """
        highest = self.bets.highest(self.pair.settings.level * self.share, self._at)
        if self.shown:
            highest = min(highest, self._at - 1e-12 * self.bets.width)
        else:
            highest = max(highest, self._at)
        return highest if self.pair.settings.margin is None else -highest

    @property
    def untestable(self) -> str:
        """Why nothing can be shown at this look; empty if something can."""
        units, level = self.pair.units, self.pair.settings.level
        few = too_few(self.bets.n_units, units)
        if few or self.bets.smallest_p(self._at) <= level * self.share:
            return few or ""
        return (
            f"{self.bets.n_units} {units} can show nothing at look {self.number} and "
            f"{100 * level:g} % over all looks"
        )

    @property
    def reason(self) -> str:
        """Why the gate fails; empty if it does not."""
        pair = self.pair
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
        return f"Look {self.number}: {self.reason if self.untestable else what}"

    @property
    def _numbers(self) -> str:
        sure = f"{100 * (1 - self.pair.settings.level):g} %"
        which = "at most" if self.pair.settings.margin is None else "at least"
        bound = f"{which} {fixed(self.bound, sign=True)} ({sure} over all looks)"
        return f"{signed(self.pair.difference)}, {bound}, {describe_p(self.p)}"

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON; undefined numbers are None."""
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
    """The number of this look in a file of looks, and whether the same numbers were seen before.

    The file is made if there is none, and written if the look is new. It counts the looks at each
    baseline, on its queries and measures, apart.
    """
    gates = _read_gates(path)
    gate, look = _identify(comparison)
    looks = gates.setdefault(gate, [])
    if look in looks:
        return looks.index(look) + 1, True
    looks.append(look)
    data = {"looks_version": _VERSION, "gates": gates}
    with atomic_write(path) as file:
        file.write(f"{json.dumps(data, indent=1)}\n".encode())
    return len(looks), False


def _identify(comparison: Comparison) -> tuple[str, str]:
    """Digests of the baseline on its queries and measures, and of the systems to be tested."""
    number = comparison.names.index(comparison.baseline or "")
    values = np.stack([comparison.values_on(measure) for measure in comparison.measures])
    others = np.delete(values, number, axis=1)
    gate = {
        "measures": [str(measure) for measure in comparison.measures],
        "queries": [str(query) for query in comparison.query_ids],
        "baseline": digest_of_arrays(values[:, number]),
    }
    return fingerprint_of(gate), digest_of_arrays(others)[:32]


def _read_gates(path: str) -> dict[str, list[str]]:
    if not os.path.lexists(path):
        return {}
    data = parse_json(read_text(path), path)
    if isinstance(data, dict) and data.get("looks_version", _VERSION) != _VERSION:
        raise FormatError(
            f"{path} is a file of looks of version {data['looks_version']!r}; this program reads "
            f"{_VERSION}. Use a newer one, or another file."
        )
    gates = data.get("gates") if isinstance(data, dict) else None
    if not isinstance(gates, dict) or not all(
        isinstance(looks, list) and all(isinstance(look, str) for look in looks)
        for looks in gates.values()
    ):
        raise FormatError(
            f"{path} is not a file of looks: it has no table 'gates' of lists of looks. Name one "
            "that this gate wrote, or that does not exist yet."
        )
    return gates
