"""Two results, a stored one and a recomputed one: which of their values differ."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from assay.core.conventions import Conventions
from assay.errors import ConventionError, FormatError

__all__ = ["Difference", "compare_results", "compare_signatures", "leaves"]

# What a clock says is another every time. It stands in these tables only: elsewhere a key may be
# the id of a query or the name of a run, whose values count whatever it is called.
_PASSING: Final = re.compile(r"\w+_seconds|\w+_per_second|latency_ms|timings")
_TIMED: Final = ("codes", "costs", "index", "results")
# What describes the file and not its numbers; a signature is compared part by part.
_ASIDE: Final = ("schema_version", "schema", "made_by", "signature")
_DEEPEST: Final = 60
_ABSENT: Final = "absent"

Leaf = str | float | int | bool | None
Place = tuple[str | int, ...]  # the keys and rows that lead to a value


@dataclass(frozen=True)
class Difference:
    """A value that is not what it was; `change` is by how much, where both are numbers."""

    value: str
    stored: Leaf
    found: Leaf

    @property
    def change(self) -> float | None:
        """Found less stored."""
        if not (_is_number(self.stored) and _is_number(self.found)):
            return None
        try:
            return float(self.found) - float(self.stored)  # type: ignore[arg-type]
        except OverflowError:
            return None

    @property
    def in_words(self) -> bool:
        """Whether both are texts."""
        return isinstance(self.stored, str) and isinstance(self.found, str)

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        pair = {"stored": self.stored, "recomputed": self.found}
        return {"value": self.value, **pair, "difference": self.change}


def _is_number(value: Leaf) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def compare_results(stored: Any, found: Any, place: str) -> tuple[int, list[Difference]]:
    """How many values were compared, and those that differ; `place` names the stored ones.

    >>> compare_results({"AP": [0.5, 1]}, {"AP": [0.25, 1.0]}, "a.json")
    (2, [Difference(value='AP[0]', stored=0.5, found=0.25)])
    """
    before, now = dict(leaves(stored, place)), dict(leaves(found, "the recomputed result"))
    places = list(dict.fromkeys([*before, *now]))
    pairs = ((one, before.get(one, _NOTHING), now.get(one, _NOTHING)) for one in places)
    other = [pair for pair in pairs if not _same(pair[1], pair[2])]
    return len(places), [Difference(_name(one), _word(a), _word(b)) for one, a, b in other]


class _Sign(Enum):
    """What stands for a value that is none; no text of a result equals it."""

    ABSENT = _ABSENT
    NO_KEYS = "empty"
    NO_ROWS = "empty list"


_NOTHING: Final = _Sign.ABSENT


def _word(value: Leaf | _Sign) -> Leaf:
    return value.value if isinstance(value, _Sign) else value


def _name(place: Place) -> str:
    """The place as it is written: `runs[0].measures.AP`."""
    words = (f"[{part}]" if isinstance(part, int) else f".{part}" for part in place)
    return "".join(words).removeprefix(".")


def _same(left: Leaf | _Sign, right: Leaf | _Sign) -> bool:
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    return left == right and (left != 0 or str(left)[0] == str(right)[0])  # 0.0 is not -0.0


def leaves(data: Any, place: str) -> Iterator[tuple[Place, Leaf | _Sign]]:
    """Every value with its path, but for what passes and what describes the file itself."""
    rest: list[tuple[Place, Any]] = [((), data)]
    while rest:
        path, value = rest.pop()
        if len(path) > _DEEPEST:
            raise FormatError(f"{place}: {_name(path):.60}… is nested too deeply to be a result.")
        if isinstance(value, Mapping):
            inside = [((*path, key), one) for key, one in value.items() if _counts(path, key)]
        elif isinstance(value, list):
            inside = [((*path, row), one) for row, one in enumerate(value)]
        else:
            yield path, value
            continue
        if not inside:
            yield path, _Sign.NO_ROWS if isinstance(value, list) else _Sign.NO_KEYS
        rest.extend(reversed(inside))


def _counts(path: Place, key: str) -> bool:
    if not path:
        return key not in _ASIDE
    table = next((part for part in reversed(path) if isinstance(part, str)), "")
    return not (table in _TIMED and _PASSING.fullmatch(key))


def compare_signatures(stored: Any, found: Any) -> list[str]:
    """What of a signature cannot be read, or is not what the numbers were made by.

    The version and the kernels may be others: the numbers say whether that matters.
    """
    if not isinstance(stored, str) or not isinstance(found, str):
        return [] if stored == found else [f"the signature is {stored!r:.60}, not {found!r:.60}"]
    before, now = (_parts(signature) for signature in (stored, found))
    lines = [
        f"{key} is {before.get(key, _ABSENT)} in the signature, the numbers have "
        f"{now.get(key, _ABSENT)}"
        for key in dict.fromkeys([*before, *now])
        if before.get(key) != now.get(key) and key not in ("version", "engine", "search")
    ]
    return lines + (_unreadable(stored) if lines else [])


def _parts(signature: str) -> dict[str, str]:
    return {key: value for key, _, value in (p.partition(":") for p in signature.split("|"))}


def _unreadable(signature: str) -> list[str]:
    try:
        Conventions.parse(signature)
    except ConventionError as error:
        return [f"the signature cannot be read: {error!s:.200}"]
    return []
