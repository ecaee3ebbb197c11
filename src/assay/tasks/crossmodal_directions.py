"""Directions such as `text2sensor`: which modality asks, and which is searched."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final

from assay.checks import listed
from assay.errors import UsageError

__all__ = [
    "PROTOTYPE",
    "Direction",
    "check_modality_name",
    "default_directions",
    "parse_directions",
]

PROTOTYPE: Final = "prototype"


@dataclass(frozen=True)
class Direction:
    """Queries of one modality (or prototypes) search the items of another, or of their own."""

    source: str
    target: str

    @property
    def name(self) -> str:
        """As in `text2sensor`."""
        return f"{self.source}2{self.target}"

    @property
    def title(self) -> str:
        """As in `Text -> Sensor`."""
        return f"{_title(self.source)} -> {_title(self.target)}"

    @property
    def within(self) -> bool:
        """Whether a modality searches itself."""
        return self.source == self.target


def _title(name: str) -> str:
    return "Text Prototype" if name == PROTOTYPE else name[:1].upper() + name[1:]


def check_modality_name(name: str) -> str:
    """Refuse names that no direction could be written with."""
    if not name or name == PROTOTYPE or any(sign in name for sign in "= \t\n,"):
        raise UsageError(
            f"A modality cannot be called {name!r}: give a name without '=', ',' and white space, "
            f"other than {PROTOTYPE!r}."
        )
    return name


def default_directions(modalities: Iterable[str], *, prototypes: bool) -> list[Direction]:
    """From prototypes to each modality; without them from each to each other; alone, to itself.

    >>> [found.name for found in default_directions(["sensor", "text"], prototypes=False)]
    ['text2sensor', 'sensor2text']
    """
    names = list(modalities)
    if prototypes:
        return [Direction(PROTOTYPE, name) for name in names]
    if len(names) == 1:
        return [Direction(names[0], names[0])]
    return [Direction(a, b) for b in names for a in names if a != b]


def parse_directions(
    directions: Iterable[str] | None, modalities: Iterable[str], *, prototypes: bool
) -> list[Direction]:
    """The directions that the names mean, each once, or the default ones.

    A name is cut at that `2` which has a known modality on both sides.
    """
    targets = [check_modality_name(name) for name in modalities]
    if not targets:
        raise UsageError("There is nothing to search: give the embeddings of a modality.")
    if directions is None:
        return default_directions(targets, prototypes=prototypes)
    sources = [*targets, PROTOTYPE]
    found = [_parsed(name, sources, targets) for name in listed(directions, "directions")]
    if not found:
        raise UsageError("directions is empty. Name at least one, such as 'text2sensor'.")
    for direction in found:
        if direction.source == PROTOTYPE and not prototypes:
            raise UsageError(
                f"The direction {direction.name!r} needs prototypes: descriptions of the labels "
                "and an encoder, or their embeddings."
            )
    return list(dict.fromkeys(found))


def _parsed(name: object, sources: list[str], targets: list[str]) -> Direction:
    cuts = [Direction(a, b) for a in sources for b in targets if f"{a}2{b}" == name]
    if len(cuts) == 1:
        return cuts[0]
    if cuts:
        ways = " or ".join(f"{cut.source} → {cut.target}" for cut in cuts)
        raise UsageError(f"The direction {name!r} can be read as {ways}. Rename a modality.")
    known = [f"{a}2{b}" for b in targets for a in sources]
    near = get_close_matches(str(name), known, n=2)
    hint = f" Did you mean {' or '.join(near)}?" if near else ""
    raise UsageError(
        f"Unknown direction {name!r}.{hint} With the modalities given, these are known: "
        f"{', '.join(known)}."
    )
