"""One run of a report: its name, its scores, and what else is known about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from assay.hits import Hits
    from assay.scores import Scores

__all__ = ["ReportRun"]


@dataclass(frozen=True, eq=False)
class ReportRun:
    """A run to report on.

    `chance` holds what a random order scores, where the size of the collection is known, or its
    means by measure; with `hits` the report also shows where relevant documents landed and
    measures against k; `details` are shown as they are: file, checksum, model, settings. Runs of
    different datasets are warned of. `clusters` names a group column whose queries are not
    independent of each other: a report draws and tests its groups unless told otherwise. Runs whose
    `question` differs are warned of, too: their queries are called the same but ask other things.
    """

    name: str
    scores: Scores
    chance: Scores | Mapping[str, float] | None = None
    hits: Hits | None = None
    details: Mapping[str, str] = field(default_factory=dict)
    dataset: str = ""
    clusters: str = ""
    question: str = ""
