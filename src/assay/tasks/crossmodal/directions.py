"""Directions such as `text2sensor`: the modality of the queries and the one that is searched."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, Literal, get_args

from assay.core import checks
from assay.core.checks import as_list
from assay.core.conventions import Conventions, preset
from assay.core.text import did_you_mean
from assay.errors import UsageError
from assay.measures import Measure

__all__ = [
    "DEEPEST",
    "PROTOTYPE",
    "Direction",
    "Metric",
    "RetrievalSettings",
    "Zero",
    "check_k_values",
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
    def ends(self) -> tuple[str, str]:
        """Both modalities, that of the queries first."""
        return self.source, self.target

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
        raise UsageError("No embeddings are given: there is nothing to search.")
    if directions is None:
        return default_directions(targets, prototypes=prototypes)
    ways = [Direction(a, b) for b in targets for a in [*targets, PROTOTYPE]]
    ways += [Direction(a, PROTOTYPE) for a in targets if prototypes]
    found = [_parse_direction(name, ways) for name in as_list(directions, "directions")]
    if not found:
        raise UsageError("directions is empty. Name at least one, such as 'text2sensor'.")
    for direction in found:
        if direction.source == PROTOTYPE and not prototypes:
            raise UsageError(
                f"The direction {direction.name!r} needs prototypes: descriptions of the labels "
                "and an encoder, or their embeddings."
            )
    return list(dict.fromkeys(found))


def _parse_direction(name: object, ways: list[Direction]) -> Direction:
    cuts = [way for way in ways if way.name == name]
    if len(cuts) == 1:
        return cuts[0]
    if cuts:
        both = " or ".join(f"{cut.source} → {cut.target}" for cut in cuts)
        raise UsageError(f"The direction {name!r} can be read as {both}. Rename a modality.")
    known = [way.name for way in ways]
    hint = did_you_mean(str(name), known, most=2)
    raise UsageError(
        f"Unknown direction {name!r}.{hint} With the modalities given, these are known: "
        f"{', '.join(known)}."
    )


Metric = Literal["cosine", "dot", "l2"]
Zero = Literal["error", "drop", "last"]

# MAP@R looks at as many places as a label has items; beyond this it is left out unless asked for.
DEEPEST: Final = 1000


@dataclass(frozen=True)
class RetrievalSettings:
    """The choices of one evaluation; see `label_retrieval` for what each means."""

    k_values: tuple[int, ...] = (10, 50, 100)
    metric: Metric = "cosine"
    ties: str = "order"
    truncate: bool = False
    full: bool = False
    depth: int | None = None
    exclude_paired: bool = False
    confusion_k: int | None = None
    zero: Zero = "error"
    threads: int | None = None
    named: tuple[Measure, ...] = ()
    first_ranks: bool = False

    def __post_init__(self) -> None:
        """Refuse what makes no sense before anything is searched."""
        for name, known in (("metric", get_args(Metric)), ("zero", get_args(Zero))):
            if getattr(self, name) not in known:
                found = getattr(self, name)
                raise UsageError(f"{name} must be one of {', '.join(known)}, found {found!r}.")
        for name in ("depth", "confusion_k", "threads"):
            if getattr(self, name) is not None:
                checks.check_cutoff(getattr(self, name), name)
        preset("label_retrieval").but(ties=self.ties)

    def conventions(self, *, exclude_own: bool) -> Conventions:
        """Rows by index, empty queries left out; the own item never counts where excluded."""
        rules = preset("label_retrieval").but(ties=self.ties)
        if self.depth and any(_looks_everywhere(one) for one in self.named):
            rules = rules.but(depth=self.depth)
        return rules.but(self_match="exclude") if exclude_own else rules

    def headline(self, k: int, *, prototypes: bool) -> str:
        """The measure that the document calls Label-Recall@K."""
        return f"P(trunc=true)@{k}" if self.truncate and prototypes else f"P@{k}"

    def headlines(self, *, prototypes: bool) -> dict[int, str]:
        """That measure by cut-off."""
        return {k: self.headline(k, prototypes=prototypes) for k in self.k_values}

    def measures(self, most_relevant: int, *, prototypes: bool) -> list[str]:
        """Names of the measures for labels of at most `most_relevant` items."""
        names = list(self.headlines(prototypes=prototypes).values())
        if self.full:
            names += [f"P@{k}" for k in self.k_values]
            names += [f"P(trunc=true)@{k}" for k in self.k_values if prototypes]
            names += [f"{name}@{k}" for name in ("R", "nDCG") for k in self.k_values]
            names += ["MAP@R"] * (most_relevant <= (self.depth or DEEPEST))
        return list(dict.fromkeys([*names, *map(str, self.named)]))

    def depth_for(self, most_relevant: int, n_docs: int) -> int:
        """How many places have to be searched for those measures."""
        if self.first_ranks:
            return n_docs
        depths = [1, *self.k_values, self.depth or 1, self.counted_places]
        if self.full and most_relevant <= (self.depth or DEEPEST):
            depths.append(most_relevant)
        depths += [self._places_for(one, most_relevant, n_docs) for one in self.named]
        return max(depths)

    def _places_for(self, measure: Measure, most_relevant: int, n_docs: int) -> int:
        if _looks_everywhere(measure):
            return self.depth or n_docs
        return measure.cutoff if isinstance(measure.cutoff, int) else most_relevant

    @property
    def counted_places(self) -> int:
        """How many places retrieval confusion looks at: the smallest cut-off unless named."""
        cuts = [one.cutoff for one in self.named if isinstance(one.cutoff, int)]
        return self.confusion_k or min([*self.k_values, *cuts], default=10)


def _looks_everywhere(measure: Measure) -> bool:
    """Whether places beyond any cut-off may count."""
    return measure.cutoff is None or measure.definition.cutoff == "level"


def check_k_values(k_values: Any, *, needed: bool = True) -> tuple[int, ...]:
    """Cut-offs in rising order, each once; at least one where they are `needed`.

    >>> check_k_values([50, 10, 10])
    (10, 50)
    """
    single = isinstance(k_values, int)
    values: Iterable[Any] = [k_values] if single else checks.as_list(k_values, "k_values")
    found = sorted({checks.check_cutoff(k, "Each of k_values") for k in values})
    if not found and needed:
        raise UsageError("k_values is empty. Give at least one cut-off, such as 10.")
    return tuple(found)
