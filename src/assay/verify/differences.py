"""Two results, a stored one and a recomputed one: which of their values differ."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final

from assay import __version__
from assay.core.conventions import Conventions
from assay.errors import ConventionError, FormatError

# What a clock says is another every time. It stands in these tables only: elsewhere a key may be
# the id of a query or the name of a run, whose values count whatever it is called.
_PASSING: Final = re.compile(r"\w+_seconds|\w+_per_second|latency_ms|timings")
_TIMED: Final = ("codes", "costs", "index", "results")
# How a result is repeated, which is not part of it; its signature is compared part by part.
_ASIDE: Final = ("made_by", "signature")
# Prose, which another version may word differently: a text, or a list of texts, of these keys.
_PROSE: Final = (
    *("advice", "contradictions", "effect", "message", "note", "notes"),
    *("reasons", "remarks", "verdict", "verdicts"),
)
_PROSE_TABLES: Final = ("refused", "verdicts")  # a text for each measure or rule
# Tables whose keys are names of users or of settings, which may be called like prose.
_NAMED_BY_USERS: Final = ("config", "details", "per_query", "settings", "shown", "units", "wide")
_KERNELS: Final = ("native", "numpy")
_CERTIFIED: Final = re.compile(rf"\b({'|'.join(_KERNELS)})-certified\b")
_DEEPEST: Final = 60
_ABSENT: Final = "absent"

Leaf = str | float | int | bool | None
Place = tuple[str | int, ...]  # the keys and rows that lead to a value


@dataclass(frozen=True)
class Difference:
    """A changed value; `change` is the difference of two numbers."""

    value: str
    stored: Leaf
    recomputed: Leaf
    in_prose: bool = field(default=False, repr=False)

    @property
    def change(self) -> float | None:
        """Found less stored."""
        if not (_is_number(self.stored) and _is_number(self.recomputed)):
            return None
        try:
            return float(self.recomputed) - float(self.stored)  # type: ignore[arg-type]
        except OverflowError:
            return None

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        pair = {"stored": self.stored, "recomputed": self.recomputed}
        return {"value": self.value, **pair, "difference": self.change}


def _is_number(value: Leaf) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def compare_results(
    stored: Any, recomputed: Any, place: str, version: str = __version__
) -> tuple[int, list[Difference]]:
    """Return how many values were compared, and those that differ; `place` names the stored ones.

    `version` is that of Assay that the stored result says it was made by.

    >>> compare_results({"AP": [0.5, 1]}, {"AP": [0.25, 1.0]}, "a.json")
    (2, [Difference(value='AP[0]', stored=0.5, recomputed=0.25)])
    """
    before, now = dict(leaves(stored, place)), dict(leaves(recomputed, "the recomputed result"))
    places = list(dict.fromkeys([*before, *now]))
    pairs = ((leaf, before.get(leaf, _NOTHING), now.get(leaf, _NOTHING)) for leaf in places)
    here = (version, __version__)
    differences = [
        Difference(_name(leaf), _word(a), _word(b), _is_prose(leaf, a, b, stored, recomputed))
        for leaf, a, b in pairs
        if not _same(_without_versions(leaf, a, here[:1]), _without_versions(leaf, b, here))
    ]
    return len(places), differences


def _without_versions(place: Place, leaf: Leaf | _Sign, versions: Sequence[str]) -> Leaf | _Sign:
    """Return a value without these versions of Assay, and without the name of its kernels."""
    if isinstance(leaf, str) and place[-1:] == ("signature",):
        return "|".join(_part_without_versions(part, versions) for part in leaf.split("|"))
    if isinstance(leaf, str) and place[-2:] == ("index", "version"):
        return "assay" if leaf in [f"assay {version}" for version in versions] else leaf
    return leaf


def _part_without_versions(part: str, versions: Sequence[str]) -> str:
    key, _, value = part.partition(":")
    if (key == "version" and value in versions) or (key == "engine" and value in _KERNELS):
        return f"{key}:"
    return _CERTIFIED.sub("certified", part) if key == "search" else part


def _is_prose(place: Place, a: Leaf | _Sign, b: Leaf | _Sign, stored: Any, now: Any) -> bool:
    """Return whether sentences alone differ: two texts, or lists of more and fewer texts."""
    if any(part in _NAMED_BY_USERS for part in place[:-1]):
        return False
    listed = isinstance(place[-1], int)
    key, table = (place[-2], "") if listed else (place[-1], place[-2] if len(place) > 1 else "")
    if key not in _PROSE and table not in _PROSE_TABLES:
        return False
    if isinstance(a, str) and isinstance(b, str):
        return True
    lists = [stored, now]
    try:
        for part in place[:-1] if listed else place:
            lists = [data[part] for data in lists]
    except (LookupError, TypeError):  # there is no such place in one of the two
        return False
    return all(
        isinstance(texts, list) and all(isinstance(text, str) for text in texts) for texts in lists
    )


class _Sign(Enum):
    """Marker of an absent value, unequal to every text."""

    ABSENT = _ABSENT
    CLOCK = "measured time"
    NO_KEYS = "empty"
    NO_ROWS = "empty list"


_NOTHING: Final = _Sign.ABSENT


def _word(value: Leaf | _Sign) -> Leaf:
    return value.value if isinstance(value, _Sign) else value


def _name(place: Place) -> str:
    """Return a path in dotted form, such as `runs[0].measures.AP`."""
    words = (f"[{part}]" if isinstance(part, int) else f".{part}" for part in place)
    return "".join(words).removeprefix(".")


def _same(left: Leaf | _Sign, right: Leaf | _Sign) -> bool:
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    return left == right and (left != 0 or str(left)[0] == str(right)[0])  # 0.0 is not -0.0


def leaves(data: Any, place: str) -> Iterator[tuple[Place, Leaf | _Sign]]:
    """Return every value with its path, but for how the result is repeated.

    Of a clock only that it is.
    """
    rest: list[tuple[Place, Any]] = [((), data)]
    while rest:
        path, value = rest.pop()
        if len(path) > _DEEPEST:
            raise FormatError(f"{place}: {_name(path):.60}… is nested too deeply. Write it again.")
        if isinstance(value, Mapping):
            inside = [
                ((*path, key), entry) for key, entry in value.items() if path or key not in _ASIDE
            ]
        elif isinstance(value, list):
            inside = [((*path, row), entry) for row, entry in enumerate(value)]
        else:
            timed = (value is None or _is_number(value)) and _is_timed(path)
            yield path, _Sign.CLOCK if timed else value
            continue
        if not inside:
            yield path, _Sign.NO_ROWS if isinstance(value, list) else _Sign.NO_KEYS
        rest.extend(reversed(inside))


def _is_timed(path: Place) -> bool:
    """Return whether a clock measured the value."""
    table = ""
    for part in path:
        if isinstance(part, str):
            if table in _TIMED and _PASSING.fullmatch(part):
                return True
            table = part
    return False


def compare_signatures(stored: Any, recomputed: Any, version: str | None = None) -> list[str]:
    """Return what of a signature cannot be read, or is not what the numbers were made by.

    The version has to be the one that the result says it was made by (any, without `version`).
    The kernels may be others: the numbers say whether that matters.
    """
    if not isinstance(stored, str) or not isinstance(recomputed, str):
        unlike = f"the signature is {stored!r:.60}, not {recomputed!r:.60}"
        return [] if stored == recomputed else [unlike]
    texts = stored.split("|"), recomputed.split("|")
    versions = ((version,), (version, __version__)) if version else ((), ())
    before, now = (
        _parts(_part_without_versions(part, names) for part in text)
        for text, names in zip(texts, versions, strict=True)
    )
    recorded, current = (_parts(text) for text in texts)
    lines = [
        f"{key} is {recorded.get(key, _ABSENT)} in the signature but {current.get(key, _ABSENT)}"
        for key in dict.fromkeys([*before, *now])
        if before.get(key) != now.get(key) and (key != "version" or version is not None)
    ]
    if not lines and [*map(_part_key, texts[0])] != [*map(_part_key, texts[1])]:
        lines = ["the signature reorders or repeats its parts"]
    return lines + (_unreadable(stored) if lines else [])


def _part_key(part: str) -> str:
    return part.partition(":")[0]


def _parts(texts: Iterable[str]) -> dict[str, str]:
    """Return the values of a signature by their keys, those of a repeated key together."""
    parts: dict[str, str] = {}
    for key, _, value in (text.partition(":") for text in texts):
        parts[key] = f"{parts[key]}, {value}" if key in parts else value
    return parts


def _unreadable(signature: str) -> list[str]:
    try:
        Conventions.parse(signature)
    except ConventionError as error:
        return [f"the signature cannot be read: {error!s:.200}"]
    return []
