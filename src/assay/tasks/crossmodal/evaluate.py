"""Label retrieval across modalities: do the neighbours of an item carry its label?

`label_retrieval` takes embeddings of any modalities, several levels of labels and prototypes.
What is called Label-Recall@K here divides by K: it is precision, P@k.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import product
from typing import Any, cast

import numpy as np

from assay.core import checks
from assay.core.id_hints import check_labels_match
from assay.core.judgments import Qrels
from assay.errors import UsageError
from assay.io.formats import as_judgments
from assay.measures import Measure, parse_many
from assay.runs.record import RunRecord
from assay.scoring.scores import signature_of
from assay.tables.table import Table, columns_of
from assay.tasks.crossmodal.directions import (
    PROTOTYPE,
    Direction,
    Metric,
    RetrievalSettings,
    Zero,
    check_k_values,
    parse_directions,
)
from assay.tasks.crossmodal.results import DirectionResult, LabelResults
from assay.tasks.crossmodal.samples import (
    Prototypes,
    SampleRows,
    Samples,
    align,
    align_sides,
    without_labels,
)
from assay.tasks.crossmodal.search import TaskMaker, check_tasks, search_direction
from assay.tasks.crossmodal.tables import label_table, measure_table, mistake_table

__all__ = ["LabelRetrievalResult", "label_retrieval"]

Progress = Callable[[int, int], None]


class LabelRetrievalResult(Mapping[str, LabelResults]):
    """Results of every level of labels: `found["label"]["text2sensor"][10]` is a number.

    >>> found = label_retrieval({"image": [[1, 0], [1, 1], [0, 1]]}, ["a", "a", "b"], k_values=[1])
    >>> [record.name for record in found.records()]
    ['image2image']
    """

    def __init__(self, levels: Iterable[LabelResults]) -> None:
        self._levels = {one.level: one for one in levels}

    def __getitem__(self, level: str) -> LabelResults:
        """The results of a level of labels."""
        return self._levels[level]

    def __iter__(self) -> Iterator[str]:
        """The names of the levels."""
        return iter(self._levels)

    def __len__(self) -> int:
        """How many levels there are."""
        return len(self._levels)

    def __repr__(self) -> str:
        """Every level and direction."""
        return "\n".join(map(repr, self._levels.values()))

    @property
    def directions(self) -> list[DirectionResult]:
        """The results of all directions, level by level."""
        return [one for level in self.values() for one in level.values()]

    @property
    def signature(self) -> str:
        """The conventions and the settings of all directions, listed where they differ."""
        return signature_of([one.scores for one in self.directions])

    @property
    def remarks(self) -> Iterator[str]:
        """What a reader of the numbers should know, a line each."""
        for level, directions in self.items():
            for name, one in directions.items():
                start = f"{level}, {name}" if len(self) > 1 else name
                yield from (f"{start}: {remark}" for remark in one.remarks())

    def tables(self) -> list[Table]:
        """Measures, labels and most frequent mistakes of every direction, without empty tables."""
        found = self.directions
        tables = [measure_table(found), label_table(found), mistake_table(found)]
        tables = [table for table in tables if table.rows]
        if len(self) > 1:
            return tables
        return [columns_of(table, range(1, len(table.columns))) for table in tables]

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            "levels": {
                level: {name: one.to_dict() for name, one in found.items()}
                for level, found in self.items()
            }
        }

    def records(self) -> list[RunRecord]:
        """A record for each direction and level of labels."""
        return [
            record
            for level, found in self.items()
            for record in found.records(prefix=f"{level}: " if len(self) > 1 else "")
        ]


def label_retrieval(
    modalities: Mapping[str, Any],
    labels: Any = None,
    *,
    modality_labels: Mapping[str, Any] | None = None,
    qrels: Mapping[str, Any] | None = None,
    directions: Iterable[str] | None = None,
    k_values: Iterable[int] = (10, 50, 100),
    measures: str | Measure | Iterable[str | Measure] = (),
    prototypes: Prototypes | None = None,
    drop_labels: Iterable[str] = (),
    exclude_paired: bool = False,
    metric: Metric = "cosine",
    ties: str = "order",
    truncate: bool = False,
    full: bool = False,
    depth: int | None = None,
    confusion_k: int | None = None,
    zero: Zero = "error",
    first_ranks: bool = False,
    threads: int | None = None,
    allow_mismatch: bool = False,
    progress: Progress | None = None,
) -> LabelRetrievalResult:
    """Results by level of labels and direction, from embeddings by the name of their modality.

    `labels` is one label per sample, or {level: labels}. Where the modalities are not in step, as
    test queries and a training gallery, or five captions and an image, `modality_labels` has such
    labels (or ids of pairs) for each. Embeddings and labels may be `SampleRows` with the ids of
    their samples: rows are then matched by id. `qrels` by direction, such as {"text2image": …},
    add the level `qrels`: what they judge relevant, for the queries they judge.

    P@k is computed for `k_values`, which may be empty where `measures` are named. `exclude_paired`
    excludes a query's own sample in another modality; in its own modality it always is. `truncate`
    divides by min(K, items of the label) in prototype directions, `full` adds further measures,
    `depth` is the maximal depth of a list for MAP@R and measures without a cut-off, `first_ranks`
    keeps the rank of the first positive. Prototypes and samples whose labels differ, as `1` and
    `01` do, are refused unless `allow_mismatch`. `progress(done, total)` counts queries.

    >>> vectors = [[1, 0], [0.9, 0.1], [0, 1], [0.1, 0.9]]
    >>> found = label_retrieval({"image": vectors}, ["cat", "cat", "dog", "dog"], k_values=[1])
    >>> found["label"]["image2image"][1]
    1.0
    """
    named = parse_many(measures) if measures else ()
    settings = RetrievalSettings(
        check_k_values(k_values, needed=not named),
        metric,
        ties,
        truncate,
        full,
        depth,
        exclude_paired,
        confusion_k,
        zero,
        threads,
        named,
        first_ranks,
    )
    checks.require(modalities, Mapping, "modalities", "{name: embeddings}")
    wanted = parse_directions(directions, modalities, prototypes=prototypes is not None)
    sides = _make_sides(modalities, labels, modality_labels)
    dropped = [str(label) for label in checks.as_list(drop_labels, "drop_labels")]
    if prototypes is not None:
        checks.require(prototypes, Prototypes, "prototypes", "Prototypes.of(embeddings, labels)")
    maker = TaskMaker(sides, prototypes, dropped)
    tasks = [task for one in wanted for task in maker.make(one, unit=metric == "cosine")]
    for one, judged in _judged_directions(qrels or {}, wanted):
        tasks.append(maker.make_judged(one, judged))
    if prototypes is not None:
        _check_prototypes(maker, wanted, allow_mismatch)
    check_tasks(tasks, settings)
    done = _Steps(progress, sum(len(task.query_ids) for task in tasks))
    found: dict[str, list[DirectionResult]] = {level: [] for level in maker.levels}
    for task in tasks:
        for level, result in search_direction(task, settings, progress=done.next()).items():
            found.setdefault(level, []).append(result)
    return LabelRetrievalResult(LabelResults(level, results) for level, results in found.items())


def _make_sides(
    modalities: Mapping[str, Any], labels: Any, modality_labels: Mapping[str, Any] | None
) -> dict[str, Samples]:
    """The samples of each modality: of all together, or of each with its own labels."""
    rows = _as_rows(modalities)
    if modality_labels is None:
        samples = align(rows, _as_levels(labels))
        return dict.fromkeys(rows, samples)
    if labels is not None:
        raise UsageError("Give labels, which all modalities share, or modality_labels, not both.")
    checks.require(modality_labels, Mapping, "modality_labels", "{modality: labels}")
    return align_sides(rows, {name: _as_levels(own) for name, own in modality_labels.items()})


def _as_levels(labels: Any) -> dict[str, SampleRows]:
    if labels is None:
        return {}
    return _as_rows(labels if isinstance(labels, Mapping) else {"label": labels})


def _judged_directions(
    qrels: Mapping[str, Any], wanted: list[Direction]
) -> Iterator[tuple[Direction, Qrels]]:
    known = {one.name: one for one in wanted}
    for name, judged in qrels.items():
        if name not in known:
            raise UsageError(
                f"qrels are given for {name!r}, which is no direction here: {', '.join(known)}."
            )
        found = as_judgments(judged)
        checks.require(found, Qrels, f"qrels of {name!r}", "judged pairs")
        yield known[name], cast("Qrels", found)


def _check_prototypes(maker: TaskMaker, wanted: list[Direction], allow: bool) -> None:
    """Refuse labels that are written differently; of several levels, prototypes may fit one."""
    searched = dict.fromkeys(end for one in wanted for end in one.ends if end != PROTOTYPE)
    for name, level in product(searched, maker.levels):
        own, other = maker.sides[PROTOTYPE].levels[level], maker.sides[name].levels[level]
        check_labels_match(
            np.unique(own[without_labels(own, maker.dropped)]).tolist(),
            np.unique(other).tolist(),
            "labels of prototypes",
            f"the labels {level!r}",
            allow=allow,
            none=len(maker.levels) == 1,
        )


def _as_rows(parts: Mapping[str, Any]) -> dict[str, SampleRows]:
    return {
        str(name): part if isinstance(part, SampleRows) else SampleRows(part)
        for name, part in parts.items()
    }


class _Steps:
    """Progress of several searches as progress of one."""

    def __init__(self, progress: Progress | None, total: int) -> None:
        self.progress, self.total, self.before, self.last = progress, total, 0, 0

    def next(self) -> Progress | None:
        if self.progress is None:
            return None
        self.before, self.last = self.before + self.last, 0
        return self._report

    def _report(self, done: int, total: int) -> None:
        self.last = total
        if self.progress is not None:
            self.progress(self.before + done, self.total)
