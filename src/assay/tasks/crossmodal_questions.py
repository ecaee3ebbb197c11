"""Questions: a direction with its vectors and labels, ready to be searched."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from assay.errors import UsageError
from assay.ids import Ids
from assay.judgments import Judgments, Labels
from assay.tasks.crossmodal_directions import PROTOTYPE, Direction
from assay.tasks.crossmodal_plan import Plan
from assay.tasks.crossmodal_samples import Prototypes, Samples, without_labels
from assay.tasks.crossmodal_vectors import check_dimensions, check_vectors

__all__ = ["Question", "check_questions", "questions_of"]


@dataclass(frozen=True, eq=False)
class Question:
    """A direction with its vectors and, for every level, the labels of queries and items."""

    direction: Direction
    queries: Any
    docs: Any
    levels: dict[str, Labels]

    @property
    def query_ids(self) -> Ids:
        """Ids of the queries, in rising order."""
        return next(iter(self.levels.values())).query_ids

    @property
    def doc_ids(self) -> Ids:
        """Ids of the items that are searched."""
        return next(iter(self.levels.values())).doc_ids

    def excludes_own(self, plan: Plan) -> bool:
        """Whether an item with the query's own id is left out: in self directions, always."""
        paired = plan.exclude_paired and self.direction.source != PROTOTYPE
        return self.direction.within or paired

    def most_relevant(self) -> int:
        """The largest number of relevant items that a query of any level has."""
        return max(int(labels.n_relevant.max(initial=0)) for labels in self.levels.values())


def questions_of(
    samples: Samples, directions: list[Direction], prototypes: Prototypes | None, dropped: list[str]
) -> list[Question]:
    """One search for each direction and each set of samples that some levels share."""
    return [
        _question(direction, kept, levels, prototypes)
        for kept, levels in _shared(samples, dropped)
        for direction in directions
    ]


def check_questions(questions: list[Question], plan: Plan) -> None:
    """Look at every array once, before the first search."""
    directions_needed = plan.metric == "cosine" and plan.zero == "error"
    seen: set[int] = set()
    for one in questions:
        check_dimensions(one.queries, one.docs, one.direction.name)
        if one.excludes_own(plan) and len(one.doc_ids) < 2:
            raise UsageError(
                f"{one.direction.name}: there is one sample, and it cannot find itself. "
                "Give at least two."
            )
        each = "prototype" if one.direction.source == PROTOTYPE else "sample"
        for vectors, ids, name, kind in (
            (one.queries, one.query_ids, one.direction.source, each),
            (one.docs, one.doc_ids, one.direction.target, "sample"),
        ):
            if id(vectors) not in seen:
                what = f"The embeddings {name!r}"
                check_vectors(vectors, ids, what, directions_needed=directions_needed, each=kind)
                seen.add(id(vectors))


def _shared(samples: Samples, dropped: list[str]) -> list[tuple[Samples, list[str]]]:
    """Levels that leave out the same samples are searched together."""
    groups: dict[bytes, list[str]] = {}
    for level, labels in samples.levels.items():
        kept = without_labels(labels, dropped)
        if not kept.any():
            raise UsageError(f"No sample of the labels {level!r} is left: all have dropped labels.")
        groups.setdefault(kept.tobytes(), []).append(level)
    return [
        (samples.take(without_labels(samples.levels[levels[0]], dropped)), levels)
        for levels in groups.values()
    ]


def _question(
    direction: Direction, samples: Samples, levels: list[str], prototypes: Prototypes | None
) -> Question:
    if prototypes is None or direction.source != PROTOTYPE:
        vectors, ids, own = samples.modalities[direction.source], samples.ids, None
    else:
        vectors, ids, own = prototypes.vectors, Ids.count(len(prototypes.labels)), prototypes.labels
    judged = {
        level: Judgments.from_labels(
            samples.levels[level] if own is None else own,
            samples.levels[level],
            query_ids=ids,
            doc_ids=samples.ids,
        )
        for level in levels
    }
    return Question(direction, vectors, samples.modalities[direction.target], judged)
