"""Samples: embeddings of several modalities and labels of several levels, row by row in step."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from assay.arrays import Array
from assay.core import checks
from assay.core.ids import Ids
from assay.core.settings import Settings, as_settings
from assay.errors import MismatchError, ShapeError, UsageError, ValueRangeError
from assay.io.arrays import NpyRows
from assay.tasks.crossmodal.directions import PROTOTYPE

__all__ = [
    "Prototypes",
    "SampleRows",
    "Samples",
    "align",
    "align_sides",
    "average_by_label",
    "check_dimensions",
    "check_vectors",
    "without_labels",
]


class SampleRows(NamedTuple):
    """An array with one row (or label) per sample, and the ids of its rows where it has any."""

    values: Any
    ids: Any = None


@dataclass(frozen=True, eq=False)
class Samples:
    """Row i of every modality and of every level of labels belongs to sample `ids[i]`."""

    ids: Ids
    modalities: dict[str, Array]
    levels: dict[str, Array]

    def take(self, kept: NDArray[np.bool_]) -> Samples:
        """Only some of the samples; all of them are not copied."""
        if kept.all():
            return self
        return Samples(
            self.ids.take(np.flatnonzero(kept)),
            {name: vectors[kept] for name, vectors in self.modalities.items()},
            {name: labels[kept] for name, labels in self.levels.items()},
        )


@dataclass(frozen=True, eq=False)
class Prototypes:
    """Embedded descriptions of labels, one row each; a label may have several.

    `settings` say how they were made, for the signature; `levels` are their labels at levels where
    these are others, such as coarser ones.
    """

    vectors: Array
    labels: Array
    settings: Settings = field(default_factory=dict)
    levels: dict[str, Array] = field(default_factory=dict)

    @classmethod
    def of(cls, vectors: Any, labels: Any, **settings: Any) -> Prototypes:
        """Check that there is one label for each vector; `settings` say how these were made."""
        rows = _matrix(vectors, "The prototypes")
        names = checks.check_labels(labels, "prototype_labels")
        checks.check_lengths(prototype_embeddings=len(rows), prototype_labels=len(names))
        return cls(rows, names, as_settings(**settings))

    def with_level(self, level: str, labels: Any) -> Prototypes:
        """The same with other labels at one level."""
        names = checks.check_labels(labels, f"The labels of prototypes at {level!r}")
        checks.check_lengths(prototype_embeddings=len(self.labels), prototype_labels=len(names))
        return replace(self, levels={**self.levels, level: names})

    def as_samples(self, levels: Iterable[str]) -> Samples:
        """Samples of a modality of their own, labelled at each of the levels."""
        named = {level: self.levels.get(level, self.labels) for level in levels}
        return Samples(Ids.count(len(self.labels)), {PROTOTYPE: self.vectors}, named)


def average_by_label(samples: Samples, modality: str, level: str, *, unit: bool) -> Samples:
    """One vector for each label: the mean of its rows, which `unit` brings to length 1 before.

    That mean is CLIP's ensemble of prompts (Radford et al. 2021, §3.1.4). The only row of a label
    stays as it is.
    """
    names, codes, counts = np.unique(samples.levels[level], return_inverse=True, return_counts=True)
    vectors = np.asarray(samples.modalities[modality])
    first = vectors[np.unique(codes, return_index=True)[1]]
    if (counts > 1).any():
        rows = vectors.astype(np.float64)
        length = np.linalg.norm(rows, axis=1, keepdims=True) if unit else np.ones((len(rows), 1))
        sums = np.zeros((len(names), rows.shape[1]))
        np.add.at(sums, codes, rows / np.where(length > 0, length, 1))
        first = np.where(counts[:, None] > 1, sums / counts[:, None], first)
    return Samples(Ids.count(len(names)), {modality: first}, {level: names})


def align_sides(
    modalities: Mapping[str, SampleRows], labels: Mapping[str, Mapping[str, SampleRows]]
) -> dict[str, Samples]:
    """Samples of each modality with labels of its own: the modalities need not be in step."""
    for one, other in ((modalities, labels), (labels, modalities)):
        strange = [name for name in other if name not in one]
        if strange:
            has = "no embeddings" if other is labels else "no labels of its own"
            raise UsageError(f"The modality {strange[0]!r} has {has}.")
    sides = {name: align({name: rows}, labels[name]) for name, rows in modalities.items()}
    first, *rest = sides
    for name in rest:
        if list(sides[name].levels) != list(sides[first].levels):
            levels = [", ".join(map(repr, sides[one].levels)) for one in (first, name)]
            raise UsageError(
                f"The labels of {first!r} have the levels {levels[0]}, those of {name!r} "
                f"{levels[1]}. Give both the same levels."
            )
    return sides


def align(modalities: Mapping[str, SampleRows], levels: Mapping[str, SampleRows]) -> Samples:
    """Bring all rows into one order: that of the sample ids where there are any.

    So the result does not depend on the order in which files list their samples. Arrays without
    ids are taken row by row, which needs all ids that there are to stand in one order.

    >>> text, labels = SampleRows([[1.0], [2.0]], ["b", "a"]), SampleRows([5, 6], ["a", "b"])
    >>> both = align({"text": text}, {"l": labels})
    >>> both.modalities["text"].tolist(), both.levels["l"].tolist()
    ([[2.0], [1.0]], [5, 6])
    """
    if not levels:
        raise UsageError("There are no labels. Give one label for each sample.")
    parts = {
        name: _matrix(rows.values, f"The embeddings {name!r}") for name, rows in modalities.items()
    }
    labels = {
        name: checks.check_labels(rows.values, f"The labels {name!r}")
        for name, rows in levels.items()
    }
    lengths = {f"embeddings {name!r}": len(part) for name, part in parts.items()}
    lengths |= {f"labels {name!r}": len(part) for name, part in labels.items()}
    given = _given_ids(modalities, levels, lengths)
    if not given:
        checks.check_lengths(**lengths)
        return Samples(Ids.count(next(iter(lengths.values()))), parts, labels)
    places = _places(given, lengths)
    ids = next(iter(given.values()))
    ids = ids.take(ids.order())
    return Samples(
        ids,
        {name: _reorder(part, places[f"embeddings {name!r}"]) for name, part in parts.items()},
        {name: _reorder(part, places[f"labels {name!r}"]) for name, part in labels.items()},
    )


def _matrix(values: Any, what: str) -> Array:
    """Two dimensions, one row at least; the values themselves are checked where they are used."""
    if isinstance(values, NpyRows):
        _matrix(values.stand_in, what)
        return cast("Array", values)
    array = checks.plain_array(values, what)
    if array.ndim != 2 or 0 in array.shape:
        raise ShapeError(
            f"{what} must be samples × dimensions, each at least 1; found shape {array.shape}."
        )
    return array


def _given_ids(
    modalities: Mapping[str, SampleRows], levels: Mapping[str, SampleRows], lengths: dict[str, int]
) -> dict[str, Ids]:
    found: dict[str, Ids] = {}
    for kind, group in (("embeddings", modalities), ("labels", levels)):
        for name, rows in group.items():
            if rows.ids is None:
                continue
            part = f"{kind} {name!r}"
            ids = Ids.of(rows.ids, what="sample")
            checks.check_unique(ids, "sample")
            checks.check_lengths(**{f"sample_ids of {part}": len(ids), part: lengths[part]})
            found[part] = ids
    return found


def _places(given: dict[str, Ids], lengths: dict[str, int]) -> dict[str, NDArray[np.int64]]:
    """For every part, which of its rows stands first, second, … in the order of ids."""
    first_part, first = next(iter(given.items()))
    wanted = first.take(first.order())
    for part, ids in given.items():
        _refuse_other_ids(first_part, first, part, ids)
    places = {part: wanted.match(ids) for part, ids in given.items()}
    bare = [part for part in lengths if part not in given]
    if bare:
        checks.check_lengths(**lengths)
        if any(ids != first for ids in given.values()):
            raise MismatchError(
                f"The sample_ids stand in different orders, and {bare[0]} has none: it cannot be "
                "told which row of it belongs to which sample. Give it sample_ids, too."
            )
    return places | {part: first.order() for part in bare}


def _refuse_other_ids(left_name: str, left: Ids, right_name: str, right: Ids) -> None:
    lacking = [
        (name, other, ids.take(np.flatnonzero(ids.match(rest) < 0)))
        for name, ids, other, rest in (
            (left_name, left, right_name, right),
            (right_name, right, left_name, left),
        )
    ]
    words = [
        f"{checks.name_few(ids)} of {name} not in {other}"
        for name, other, ids in lacking
        if len(ids)
    ]
    if words:
        raise MismatchError(f"The samples are not the same: {'; '.join(words)}.")


def _reorder(part: Array, places: NDArray[np.int64]) -> Array:
    return part if np.array_equal(places, np.arange(len(part))) else part[places]


def without_labels(labels: Array, dropped: Iterable[str]) -> NDArray[np.bool_]:
    """Which samples stay when some labels are left out."""
    names, codes = np.unique(labels, return_inverse=True)
    left_out = frozenset(dropped)
    return np.array([str(name) not in left_out for name in names], bool)[codes]


_AT_ONCE: Final = 1 << 21  # numbers


def check_vectors(
    vectors: NDArray[Any], ids: Ids, what: str, *, directions_needed: bool, each: str = "sample"
) -> None:
    """Refuse values that are not numbers and, where a direction is needed, rows of zeros."""
    if vectors.dtype.kind not in "iuf" and vectors.dtype.name != "bfloat16":
        raise ValueRangeError(f"{what} must hold real numbers, found dtype {vectors.dtype}.")
    step = max(1, _AT_ONCE // vectors.shape[1])
    for start in range(0, len(vectors), step):
        rows = np.asarray(vectors[start : start + step])
        if vectors.dtype.kind not in "iu":
            _refuse_not_finite(rows.astype(np.float64, copy=False), start, ids, what, each)
        if directions_needed:
            _refuse_zero(rows, start, ids, what, each)


def _refuse_not_finite(
    rows: NDArray[np.float64], start: int, ids: Ids, what: str, each: str
) -> None:
    finite = np.isfinite(rows)
    if not finite.all():
        row, column = (int(i) for i in np.argwhere(~finite)[0])
        raise ValueRangeError(
            f"{what}: {each} {ids[start + row]!r} holds {rows[row, column]} in column {column}. "
            "Remove it, or find out why it was not encoded."
        )


def _refuse_zero(rows: NDArray[Any], start: int, ids: Ids, what: str, each: str) -> None:
    some = rows.any(axis=1)
    if not some.all():
        row = int(np.argmin(some))
        raise ValueRangeError(
            f"{what}: {each} {ids[start + row]!r} is all zeros, which has no cosine "
            f"({int((~some).sum())} such rows here). Remove it, or choose zero='drop' or "
            "zero='last' (--zero)."
        )


def check_dimensions(asked: NDArray[Any], searched: NDArray[Any], direction: str) -> None:
    """Queries and items of a direction must be comparable."""
    if asked.shape[1] != searched.shape[1]:
        raise MismatchError(
            f"{direction}: the queries have {asked.shape[1]} dimensions and the items "
            f"{searched.shape[1]}. They must come from one common space."
        )
