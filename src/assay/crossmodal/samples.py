"""Samples: embeddings of several modalities and labels of several levels, row by row in step."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from assay.arrays import Array
from assay.core import checks
from assay.core.conventions import Settings, as_settings
from assay.core.ids import Ids
from assay.core.mismatches import describe_near
from assay.crossmodal.directions import PROTOTYPE
from assay.errors import MismatchError, ShapeError, UsageError, ValueRangeError
from assay.io.arrays import NpyRows


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

    def take(self, rows: NDArray[np.bool_]) -> Samples:
        """Return some of the samples; all of them are not copied."""
        if rows.all():
            return self
        return Samples(
            self.ids.take(np.flatnonzero(rows)),
            {name: vectors[rows] for name, vectors in self.modalities.items()},
            {name: labels[rows] for name, labels in self.levels.items()},
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
        """Make prototypes of vectors and the label of each."""
        rows = _matrix(vectors, "The prototypes")
        names = checks.check_labels(labels, "prototype_labels")
        checks.check_lengths(prototype_embeddings=len(rows), prototype_labels=len(names))
        return cls(rows, names, as_settings(**settings))

    def with_level(self, level: str, labels: Any) -> Prototypes:
        """Return the prototypes with other labels at one level."""
        names = checks.check_labels(labels, f"The labels of prototypes at {level!r}")
        checks.check_lengths(prototype_embeddings=len(self.labels), prototype_labels=len(names))
        return replace(self, levels={**self.levels, level: names})

    def as_samples(self, levels: Iterable[str]) -> Samples:
        """Return samples of a modality of their own, labelled at each level."""
        named = {level: self.levels.get(level, self.labels) for level in levels}
        return Samples(Ids.count(len(self.labels)), {PROTOTYPE: self.vectors}, named)


def average_by_label(samples: Samples, modality: str, level: str, *, unit: bool) -> Samples:
    """Average the rows of each label, with `unit` of length 1.

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
    """Align each modality with its labels; modalities need not be in step."""
    for names, other in ((modalities, labels), (labels, modalities)):
        strange = [name for name in other if name not in names]
        if strange:
            has = "no embeddings" if other is labels else "no labels of its own"
            raise UsageError(f"The modality {strange[0]!r} has {has}.")
    sides = {name: align({name: rows}, labels[name]) for name, rows in modalities.items()}
    first, *rest = sides
    for name in rest:
        if list(sides[name].levels) != list(sides[first].levels):
            levels = [", ".join(map(repr, sides[side].levels)) for side in (first, name)]
            raise UsageError(
                f"The labels of {first!r} have the levels {levels[0]}, those of {name!r} "
                f"{levels[1]}. Give both the same levels."
            )
    return sides


def align(modalities: Mapping[str, SampleRows], levels: Mapping[str, SampleRows]) -> Samples:
    """Bring all rows into one order, by sample id where possible.

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
    ids_of = _given_ids(modalities, levels, lengths)
    if not ids_of:
        checks.check_lengths(**lengths)
        return Samples(Ids.count(next(iter(lengths.values()))), parts, labels)
    places = _places(ids_of, lengths)
    ids = next(iter(ids_of.values()))
    ids = ids.take(ids.order())
    return Samples(
        ids,
        {name: _reorder(part, places[f"embeddings {name!r}"]) for name, part in parts.items()},
        {name: _reorder(part, places[f"labels {name!r}"]) for name, part in labels.items()},
    )


def _matrix(values: Any, what: str) -> Array:
    """Check the shape: two dimensions, one row at least."""
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
    ids_of: dict[str, Ids] = {}
    for kind, group in (("embeddings", modalities), ("labels", levels)):
        for name, rows in group.items():
            if rows.ids is None:
                continue
            part = f"{kind} {name!r}"
            ids = Ids.of(rows.ids, what="sample")
            checks.check_unique(ids, "sample")
            checks.check_lengths(**{f"sample_ids of {part}": len(ids), part: lengths[part]})
            ids_of[part] = ids
    return ids_of


def _places(ids_of: dict[str, Ids], lengths: dict[str, int]) -> dict[str, NDArray[np.int64]]:
    """Return the rows of every part in the order of ids."""
    first_part, first = next(iter(ids_of.items()))
    order = first.take(first.order())
    for part, ids in ids_of.items():
        _refuse_other_ids(first_part, first, part, ids)
    places = {part: order.match(ids) for part, ids in ids_of.items()}
    bare = [part for part in lengths if part not in ids_of]
    if bare:
        checks.check_lengths(**lengths)
        if any(ids != first for ids in ids_of.values()):
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
        near = describe_near(lacking[0][2], lacking[1][2])
        raise MismatchError(f"The samples are not the same: {'; '.join(words)}.{near}")


def _reorder(part: Array, places: NDArray[np.int64]) -> Array:
    return part if np.array_equal(places, np.arange(len(part))) else part[places]


def without_labels(labels: Array, dropped: Iterable[str]) -> NDArray[np.bool_]:
    """Return which samples stay when some labels are left out."""
    names, codes = np.unique(labels, return_inverse=True)
    left_out = frozenset(dropped)
    return np.array([str(name) not in left_out for name in names], bool)[codes]


_AT_ONCE: Final = 1 << 21  # numbers


def check_vectors(
    vectors: NDArray[Any], ids: Ids, what: str, *, directions_needed: bool, each: str = "sample"
) -> None:
    """Refuse values that are not numbers and, under cosine, rows of zeros."""
    if vectors.dtype.kind not in "iuf" and vectors.dtype.name != "bfloat16":
        raise ValueRangeError(f"{what} must hold real numbers, found dtype {vectors.dtype}.")
    step = max(1, _AT_ONCE // vectors.shape[1])
    for start in range(0, len(vectors), step):
        rows = np.asarray(vectors[start : start + step])
        if vectors.dtype.kind not in "iu":
            numbers = rows.astype(np.float64, copy=False)
            finite = np.isfinite(numbers)
            if not finite.all():
                row, column = (int(i) for i in np.argwhere(~finite)[0])
                raise ValueRangeError(
                    f"{what}: {each} {ids[start + row]!r} holds {numbers[row, column]} in column "
                    f"{column}. Remove it, or find out why it was not encoded."
                )
        some = rows.any(axis=1) if directions_needed else np.ones(1, bool)
        if not some.all():
            raise ValueRangeError(
                f"{what}: {each} {ids[start + int(np.argmin(some))]!r} is all zeros, which has no "
                f"cosine ({int((~some).sum())} such rows here). Remove it, or choose "
                "zero='drop' or zero='last' (--zero)."
            )


def check_dimensions(queries: NDArray[Any], searched: NDArray[Any], direction: str) -> None:
    """Refuse queries and items of different dimensions."""
    if queries.shape[1] != searched.shape[1]:
        raise MismatchError(
            f"{direction}: the queries have {queries.shape[1]} dimensions and the items "
            f"{searched.shape[1]}. They must come from one common space."
        )
