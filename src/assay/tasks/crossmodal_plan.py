"""What is computed in a direction: cut-offs, measures, search depth, conventions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, Literal, get_args

from assay import checks
from assay.conventions import Conventions, preset
from assay.errors import UsageError

__all__ = ["DEEPEST", "Metric", "Plan", "Zero", "check_k_values"]

Metric = Literal["cosine", "dot", "l2"]
Zero = Literal["error", "drop", "last"]

# MAP@R looks at as many places as a label has items; beyond this it is left out unless asked for.
DEEPEST: Final = 1000


@dataclass(frozen=True)
class Plan:
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

    def __post_init__(self) -> None:
        """Refuse what makes no sense before anything is searched."""
        for name, known in (("metric", get_args(Metric)), ("zero", get_args(Zero))):
            if getattr(self, name) not in known:
                found = getattr(self, name)
                raise UsageError(f"{name} must be one of {', '.join(known)}, found {found!r}.")
        for name in ("depth", "confusion_k", "threads"):
            if getattr(self, name) is not None:
                checks.check_cutoff(getattr(self, name), name)
        preset("document_000").but(ties=self.ties)

    def conventions(self, *, exclude_own: bool) -> Conventions:
        """Rows by index, empty queries left out; the own item never counts where excluded."""
        rules = preset("document_000").but(ties=self.ties)
        return rules.but(self_match="exclude") if exclude_own else rules

    def headline(self, k: int, *, prototypes: bool) -> str:
        """The measure that the document calls Label-Recall@K."""
        return f"P(trunc=true)@{k}" if self.truncate and prototypes else f"P@{k}"

    def measures(self, most_relevant: int, *, prototypes: bool) -> list[str]:
        """Names of the measures for labels of at most `most_relevant` items."""
        names = [self.headline(k, prototypes=prototypes) for k in self.k_values]
        if self.full:
            names += [f"P@{k}" for k in self.k_values]
            names += [f"P(trunc=true)@{k}" for k in self.k_values if prototypes]
            names += [f"{name}@{k}" for name in ("R", "nDCG") for k in self.k_values]
            names += ["MAP@R"] * (most_relevant <= (self.depth or DEEPEST))
        return list(dict.fromkeys(names))

    def depth_for(self, most_relevant: int) -> int:
        """How many places have to be searched for those measures."""
        depth = max(*self.k_values, self.depth or 1, self.confusion_k or 1)
        if self.full and most_relevant <= (self.depth or DEEPEST):
            depth = max(depth, most_relevant)
        return depth

    @property
    def counted_places(self) -> int:
        """How many places retrieval confusion looks at: the smallest cut-off unless named."""
        return self.confusion_k or min(self.k_values)


def check_k_values(k_values: Any) -> tuple[int, ...]:
    """Cut-offs in rising order, each once.

    >>> check_k_values([50, 10, 10])
    (10, 50)
    """
    single = isinstance(k_values, int)
    values: Iterable[Any] = [k_values] if single else checks.listed(k_values, "k_values")
    found = sorted({checks.check_cutoff(k, "Each of k_values") for k in values})
    if not found:
        raise UsageError("k_values is empty. Give at least one cut-off, such as 10.")
    return tuple(found)
