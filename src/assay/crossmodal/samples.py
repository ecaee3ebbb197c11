"""Samples: embeddings of several modalities and labels of several levels, row by row in step.

Queries of one modality search the items of another: a `Direction`, such as `text2sensor`. Samples
and prototypes come from arrays (`align`, `Prototypes.of`) or from files (`read_modalities`,
`read_labels`, `read_prototypes`).
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from assay.arrays import Array
from assay.core import checks
from assay.core.conventions import Settings, as_settings
from assay.core.ids import Ids
from assay.core.mismatches import describe_near
from assay.core.on_demand import OnDemand
from assay.core.text import did_you_mean
from assay.errors import FormatError, MismatchError, ShapeError, UsageError, ValueRangeError
from assay.io.arrays import NpyRows, load_keyed, read_ids
from assay.io.plain_data import parse_json
from assay.io.streams import read_text, split_array

if TYPE_CHECKING:
    from assay.models.adapters.torch_file import from_factory
    from assay.models.encoding import Progress
    from assay.models.specs import as_encoder
else:  # only descriptions of labels need a model
    as_encoder = OnDemand("assay.models.specs").as_encoder
    from_factory = OnDemand("assay.models.adapters.torch_file").from_factory

PROTOTYPE: Final = "prototype"


@dataclass(frozen=True)
class Direction:
    """Queries of one modality (or prototypes) search the items of another, or of their own."""

    source: str
    target: str

    @property
    def name(self) -> str:
        """Name such as `text2sensor`."""
        return f"{self.source}2{self.target}"

    @property
    def title(self) -> str:
        """Title such as `Text -> Sensor`."""
        titles = {PROTOTYPE: "Text Prototype"}
        return " -> ".join(titles.get(end, end[:1].upper() + end[1:]) for end in self.ends)

    @property
    def ends(self) -> tuple[str, str]:
        """Both modalities, that of the queries first."""
        return self.source, self.target

    @property
    def within(self) -> bool:
        """True where a modality searches itself."""
        return self.source == self.target


class SampleRows(NamedTuple):
    """An array with one row (or label) per sample, and the ids of its rows where it has any.

    Args:
        values: Vectors, or labels.
        ids: Sample ids; None takes rows in the order in which they stand.

    >>> SampleRows([[1.0, 0.0], [0.0, 1.0]], ["a", "b"]).ids
    ['a', 'b']
    """

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

    Args:
        vectors: An embedding per description.
        labels: The label of each.
        settings: How they were made, for the signature.
        levels: Their labels at levels where these are others, such as coarser ones.

    >>> Prototypes.of([[1, 0], [0, 1]], ["cat", "dog"]).labels.tolist()
    ['cat', 'dog']
    """

    vectors: Array
    labels: Array
    settings: Settings = field(default_factory=dict)
    levels: dict[str, Array] = field(default_factory=dict)

    @classmethod
    def of(cls, vectors: Any, labels: Any, **settings: Any) -> Prototypes:
        """Make prototypes of vectors and the label of each."""
        rows = _check_matrix(vectors, "The prototypes")
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


def average_by_label(prototypes: Samples, level: str, *, unit: bool) -> Samples:
    """Average the prototypes of each label, with `unit` of length 1.

    That mean is CLIP's ensemble of prompts (Radford et al. 2021, §3.1.4). The only row of a label
    stays as it is.
    """
    labels = prototypes.levels[level]
    names, codes, counts = np.unique(labels, return_inverse=True, return_counts=True)
    vectors = np.asarray(prototypes.modalities[PROTOTYPE])
    first = vectors[np.unique(codes, return_index=True)[1]]
    if (counts > 1).any():
        rows = vectors.astype(np.float64)
        length = np.linalg.norm(rows, axis=1, keepdims=True) if unit else np.ones((len(rows), 1))
        sums = np.zeros((len(names), rows.shape[1]))
        np.add.at(sums, codes, rows / np.where(length > 0, length, 1))
        first = np.where(counts[:, None] > 1, sums / counts[:, None], first)
    return Samples(Ids.count(len(names)), {PROTOTYPE: first}, {level: names})


def align_sides(
    modalities: Mapping[str, SampleRows], labels: Mapping[str, Mapping[str, SampleRows]]
) -> dict[str, Samples]:
    """Align each modality with its labels; modalities need not be in step."""
    for names, other in ((modalities, labels), (labels, modalities)):
        if strange := [name for name in other if name not in names]:
            has = "no embeddings" if other is labels else "no labels"
            raise UsageError(f"The modality {strange[0]!r} has {has}.")
    sides = {name: align({name: rows}, labels[name]) for name, rows in modalities.items()}
    first, *rest = sides
    for name in rest:
        if list(sides[name].levels) != list(sides[first].levels):
            levels = [", ".join(map(repr, sides[side].levels)) for side in (first, name)]
            raise UsageError(
                f"The labels of {first!r} have the levels {levels[0]}, those of {name!r} "
                f"{levels[1]}. Pass the same levels for both."
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
        raise UsageError("No labels. Pass one per sample, or call paired_retrieval().")
    parts = {f"embeddings {name!r}": rows for name, rows in modalities.items()}
    parts |= {f"labels {name!r}": rows for name, rows in levels.items()}
    vectors, labels = {}, {}
    for name, rows in modalities.items():
        vectors[name] = _check_matrix(rows.values, f"The embeddings {name!r}")
    for name, rows in levels.items():
        labels[name] = checks.check_labels(rows.values, f"The labels {name!r}")
    lengths = dict(zip(parts, map(len, (*vectors.values(), *labels.values())), strict=True))
    ids_of: dict[str, Ids] = {}
    for part, rows in parts.items():
        if rows.ids is not None:
            ids = Ids.of(rows.ids, what="sample")
            checks.check_unique(ids, "sample")
            checks.check_lengths(**{f"sample_ids of {part}": len(ids), part: lengths[part]})
            ids_of[part] = ids
    if not ids_of:
        checks.check_lengths(**lengths)
        return Samples(Ids.count(next(iter(lengths.values()))), vectors, labels)
    places = _find_places(ids_of, lengths)
    first = next(iter(ids_of.values()))
    return Samples(
        first.take(first.order()),
        {name: _reorder(part, places[f"embeddings {name!r}"]) for name, part in vectors.items()},
        {name: _reorder(part, places[f"labels {name!r}"]) for name, part in labels.items()},
    )


def _check_matrix(values: Any, what: str) -> Array:
    """Check the shape: two dimensions, one row at least."""
    if isinstance(values, NpyRows):
        _check_matrix(values.stand_in, what)
        return cast("Array", values)
    array = checks.plain_array(values, what)
    if array.ndim != 2 or 0 in array.shape:
        raise ShapeError(
            f"{what} must be samples × dimensions, found shape {array.shape}. Load files first."
        )
    return array


def _find_places(ids_of: dict[str, Ids], lengths: dict[str, int]) -> dict[str, NDArray[np.int64]]:
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
                f"The sample_ids are in different orders, and {bare[0]} has none. Pass "
                "sample_ids for it."
            )
    return places | {part: first.order() for part in bare}


def _refuse_other_ids(left_name: str, left: Ids, right_name: str, right: Ids) -> None:
    pairs = ((left, right), (right, left))
    only_left, only_right = (ids.take(np.flatnonzero(ids.match(rest) < 0)) for ids, rest in pairs)
    sides = ((only_left, left_name, right_name), (only_right, right_name, left_name))
    words = [f"{checks.name_few(ids)} of {a} not in {b}" for ids, a, b in sides if len(ids)]
    if words:
        near = describe_near(only_left, only_right)
        raise MismatchError(f"The samples differ: {'; '.join(words)}.{near}")


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
                    f"{what}: {each} {ids[start + row]!r} holds {numbers[row, column]} in "
                    f"column {column}. Remove the row, or encode it again."
                )
        some = rows.any(axis=1) if directions_needed else np.ones(1, bool)
        if not some.all():
            raise ValueRangeError(
                f"{what}: {each} {ids[start + int(np.argmin(some))]!r} is all zeros and has "
                f"no cosine ({int((~some).sum())} such rows here). Remove it, or choose "
                "zero='drop' or zero='last' (--zero)."
            )


# From files


def split_names(entries: tuple[str, ...], option: str) -> dict[str, str]:
    """Split NAME=FILE pairs; a file without a name has the name ''."""
    values: dict[str, str] = {}
    for entry in entries:
        name, equals, value = entry.partition("=")
        if not equals or os.path.exists(entry):
            name, value = "", entry
        if name in values:
            again = f"the name {name!r}" if name else "a value without a name"
            raise UsageError(f"{option}: {again} appears twice. Write NAME=VALUE, each NAME once.")
        values[name] = value
    return values


def read_modalities(
    named: dict[str, str], keys: dict[str, str], ids: dict[str, str] | None = None
) -> dict[str, SampleRows]:
    """Read embeddings by the name of their modality.

    Args:
        named: Files by modality.
        keys: Arrays of .npz files by modality.
        ids: Files with an id per line, by modality.

    Returns:
        Vectors by modality, with the ids of their rows where there are any.

    Raises:
        UsageError: A key or ids are of no modality.

    Example:
        modalities = read_modalities({"image": "images.npy", "text": "both.npz"}, {"text": "t"})
    """
    if "" in named:
        raise UsageError(f"--modality: write NAME=FILE, found {named['']!r}.")
    _refuse_strange_keys(keys, named, "--modality-key")
    _refuse_strange_keys(ids or {}, named, "--modality-ids")
    modalities = {}
    for name, path in named.items():
        usual = (f"{name}_embeddings", name)
        modalities[name] = SampleRows(*load_keyed(path, keys.get(name), usual=usual, whole=False))
    for name, path in (ids or {}).items():
        modalities[name] = modalities[name]._replace(ids=read_ids(path, "sample"))
    return modalities


def _refuse_strange_keys(keys: dict[str, str], named: dict[str, str], option: str) -> None:
    if strange := [name for name in keys if name not in named]:
        there = ", ".join(map(repr, named))
        raise UsageError(f"{option} names {strange[0]!r}, an unknown name. Known: {there}.")


def read_labels(
    named: dict[str, str], keys: dict[str, str], maps: dict[str, str]
) -> dict[str, SampleRows]:
    """Read labels by level, from arrays, JSON, or maps of the first.

    Args:
        named: Files by level; one file may go without a name.
        keys: Arrays of .npz files by level.
        maps: JSON files {label: coarser label} by the name of a further level.

    Returns:
        Labels by level, with the ids of their samples where there are any.

    Raises:
        UsageError: Names are missing, or given twice.
        MismatchError: A map lacks a label.

    Example:
        levels = read_labels({"fine": "labels.npy"}, {}, {"coarse": "coarser.json"})
    """
    if not named:
        raise UsageError("--labels is missing. Pass a file with one label per sample.")
    if "" in named and len(named) > 1:
        raise UsageError("Several --labels need names. Write --labels l1=a.npy --labels l2=b.npy.")
    shared = keys.get("") if len(keys) == 1 else None
    if shared is None:
        _refuse_strange_keys(keys, named, "--labels-key")
    levels: dict[str, SampleRows] = {}
    for name, path in named.items():
        more = _read_levels(name, path, keys.get(name, shared))
        if again := [level for level in more if level in levels]:
            raise UsageError(f"{path}: labels named {again[0]!r} exist already. Rename one.")
        levels |= more
    first_name, first = next(iter(levels.items()))
    for name, path in maps.items():
        if not name or name in levels:
            raise UsageError("--label-map: write LEVEL=FILE with the name of a new level.")
        labels = checks.check_labels(first.values, f"The labels {first_name!r}")
        levels[name] = SampleRows(_coarsen(labels, path, repr(first_name)), first.ids)
    return levels


def read_modality_labels(
    entries: tuple[str, ...], maps: dict[str, str]
) -> dict[str, dict[str, SampleRows]]:
    """Read labels of each modality by level, from MODALITY=[LEVEL=]FILE."""
    files: dict[str, list[str]] = {}
    for entry in entries:
        name, equals, rest = entry.partition("=")
        if not equals:
            raise UsageError(f"--modality-labels: write MODALITY=FILE, found {entry!r}.")
        files.setdefault(name, []).append(rest)
    return {
        name: read_labels(split_names(tuple(parts), "--modality-labels"), {}, maps)
        for name, parts in files.items()
    }


def map_prototypes(prototypes: Prototypes, maps: dict[str, str]) -> Prototypes:
    """Label prototypes at further levels; coarser labels stay."""
    for level, path in maps.items():
        labels = _coarsen(prototypes.labels, path, "prototypes", keep_coarser=True)
        prototypes = prototypes.with_level(level, labels)
    return prototypes


def _read_levels(name: str, path: str, key: str | None) -> dict[str, SampleRows]:
    """Read the labels of a file: of one level, or those of several from JSON."""
    level = name or "label"
    if Path(path).suffix.lower() != ".json":
        return {level: SampleRows(*load_keyed(path, key, usual=("labels", f"labels_{name}", name)))}
    content = parse_json(read_text(path), path)
    if isinstance(content, list):
        content = {level: content}
    if not isinstance(content, dict) or not content:
        raise FormatError(f"{path} holds no labels. Write a list, or {{level: list}}.")
    if not all(isinstance(labels, list | dict) for labels in content.values()):
        content = {level: content}  # {sample id: label}
    by_id = {name: part for name, part in content.items() if isinstance(part, dict)}
    levels = {level: SampleRows(labels) for level, labels in content.items()}
    return levels | {level: SampleRows(list(x.values()), list(x)) for level, x in by_id.items()}


def _coarsen(labels: Any, path: str, whose: str, *, keep_coarser: bool = False) -> Any:
    """Map labels to coarser ones by JSON {label: coarser label}."""
    coarser = parse_json(read_text(path), path)
    if not isinstance(coarser, dict):
        raise FormatError(f"{path} must hold {{label: coarser label}}.")
    unchanged = {str(label): label for label in coarser.values()} if keep_coarser else {}
    mapping = {**unchanged, **coarser}
    names, codes = np.unique(labels, return_inverse=True)
    if absent := [str(name) for name in names if str(name) not in mapping]:
        near = describe_near(absent, coarser)
        raise MismatchError(f"{path} lacks the labels {checks.name_few(absent)} of {whose}.{near}")
    return checks.check_labels([mapping[str(name)] for name in names], path)[codes]


def read_prototypes(
    *,
    embeddings: str | None,
    key: str | None,
    labels: str | None,
    metadata: str | None,
    dataset: str | None,
    style: str,
    encoder: str | None,
    checkpoint: str | None,
    factory: str | None,
    device: str | None,
    normalize: bool,
    progress: Progress | None,
) -> Prototypes:
    """Read prototypes: ready embeddings, or descriptions that a model encodes.

    Args:
        embeddings: File of ready embeddings.
        key: Array name in the file (.npz).
        labels: File of their labels, unless the .npz holds them.
        metadata: JSON with descriptions of the labels.
        dataset: Dataset in the metadata.
        style: Caption style in the metadata.
        encoder: Spec of a text model.
        checkpoint: File of a trained text tower.
        factory: MODULE:FACTORY that makes a text encoder of the checkpoint.
        device: Device of the text model.
        normalize: Bring vectors to length 1.
        progress: Called with the number of texts done, and of all.

    Returns:
        Vectors and labels of the descriptions.

    Raises:
        UsageError: Sources are missing, or contradict each other.

    Example:
        absent = dict.fromkeys(("key", "labels", "metadata", "dataset", "encoder", "checkpoint"))
        absent |= dict.fromkeys(("factory", "device", "progress"))
        read_prototypes(embeddings="prompts.npz", style="plain", normalize=True, **absent)
    """
    if embeddings is not None:
        if metadata or encoder or checkpoint:
            raise UsageError("--prototype-embeddings excludes --metadata, --encoder, --checkpoint.")
        return _load_prototypes(embeddings, key, labels)
    if metadata is None or dataset is None:
        raise UsageError(
            "Prototypes need --metadata and --dataset-name (descriptions of the labels), or "
            "--prototype-embeddings."
        )
    texts = load_text_prototypes_from_metadata(metadata, dataset, style=style)
    model = _make_text_model(encoder, checkpoint, factory, device)
    how: Any = {"device": device, "normalize": normalize, "progress": progress}
    vectors, names = encode_text_prototypes(texts, model, **how)
    wording = hashlib.sha256(json.dumps(texts, sort_keys=True).encode()).hexdigest()[:8]
    made_by = encoder or f"{factory or 'checkpoint'}:{Path(checkpoint or '').name}"
    return Prototypes.of(vectors, names, encoder=made_by, captions=f"{dataset}/{style}-{wording}")


def _load_prototypes(path: str, key: str | None, labels: str | None) -> Prototypes:
    vectors, _ = load_keyed(path, key, usual=("prototype_embeddings", "embeddings", "prototypes"))
    if labels is None and Path(path).suffix.lower() == ".npy":
        raise UsageError(f"{path} has no prototype labels. Pass --prototype-labels.")
    if labels is None or Path(labels).suffix.lower() != ".json":
        file = labels or split_array(path)[0]
        names, _ = load_keyed(file, None, usual=("prototype_labels", "labels"))
        return Prototypes.of(vectors, names)
    content = parse_json(read_text(labels), labels)
    if not isinstance(content, list):
        raise FormatError(f"{labels} is not a list. Write one label per prototype.")
    return Prototypes.of(vectors, content)


def _make_text_model(
    encoder: str | None, checkpoint: str | None, factory: str | None, device: str | None
) -> Any:
    if (encoder is None) == (checkpoint is None):
        raise UsageError("--encoder and --checkpoint exclude each other.")
    if checkpoint is None and factory is not None:
        raise UsageError("--text-encoder-factory requires --checkpoint.")
    if checkpoint is not None and factory is not None:
        return from_factory(checkpoint, factory, device=device)
    return encoder if checkpoint is None else f"checkpoint:{checkpoint}"


# Metadata is JSON: {dataset: {"label_to_text_STYLE": {label: text or [texts]}}}.
DEFAULT_STYLE: Final = "sourish"
_FIELD: Final = "label_to_text_"

Texts = str | Sequence[str]


def load_text_prototypes_from_metadata(
    metadata_path: str | os.PathLike[str], dataset_name: str, style: str = DEFAULT_STYLE
) -> dict[str, str | list[str]]:
    """Read the descriptions of a dataset's labels in one style.

    Args:
        metadata_path: JSON file {dataset: {"label_to_text_STYLE": {label: text or [texts]}}}.
        dataset_name: Dataset in the file.
        style: Caption style.

    Returns:
        A text, or several, by label.

    Raises:
        UsageError: There is no such dataset or style.
        FormatError: The file has another form.

    Example:
        texts = load_text_prototypes_from_metadata("metadata.json", "pamap2", style="plain")
    """
    name = os.fspath(metadata_path)
    metadata = parse_json(read_text(metadata_path), name)
    if not isinstance(metadata, dict):
        raise FormatError(f"{name} must hold a JSON object with one entry per dataset.")
    dataset = _find_entry(metadata, dataset_name, f"{name}: unknown dataset")
    if not isinstance(dataset, dict):
        raise FormatError(f"{name}: dataset {dataset_name!r} is not a JSON object. Write {{…}}.")
    styles = {key.removeprefix(_FIELD): key for key in dataset if key.startswith(_FIELD)}
    field = _find_entry(styles, style, f"{name}, dataset {dataset_name!r}: unknown caption style")
    texts, place = dataset[field], f"{name}, dataset {dataset_name!r}, {field}"
    if not isinstance(texts, dict) or not texts:
        raise FormatError(f"{place} must hold {{label: text}} with at least one label.")
    for label, descriptions in texts.items():
        _check_texts(label, descriptions, f"{place}: ")
    return texts


def _find_entry(entries: dict[str, Any], key: str, complaint: str) -> Any:
    if key in entries:
        return entries[key]
    hint = did_you_mean(str(key), entries)
    names = ", ".join(sorted(entries)[:20]) or "none"
    raise UsageError(f"{complaint} {key!r}.{hint} Known: {names}.")


def _check_texts(label: Any, texts: Any, place: str = "") -> list[str]:
    """Check the descriptions of one label: none may be empty."""
    many = [texts] if isinstance(texts, str) else texts
    sound = isinstance(many, list | tuple) and many
    if not sound or not all(isinstance(text, str) and text.strip() for text in many):
        raise ValueRangeError(
            f"{place}the label {label!r} is described by {texts!r:.80}. Pass a non-empty text "
            "or list of texts."
        )
    return list(many)


def encode_text_prototypes(
    label_to_text: Mapping[Any, Texts],
    text_encoder: Any,
    device: str | None = None,
    normalize: bool = True,
    *,
    progress: Progress | None = None,
) -> tuple[NDArray[np.float32], NDArray[Any]]:
    """Encode descriptions; return their vectors and the label of each.

    Args:
        label_to_text: A text, or several, by label.
        text_encoder: A spec such as "wordllama", an object with `encode(texts)` or
            `encode_texts_clip(texts, device)`, or a function.
        device: Device of the text model.
        normalize: Bring rows to length 1.
        progress: Called with the number of texts done, and of all.

    Returns:
        A vector per description, and the label of each.

    Raises:
        UsageError: There is no label.
        ValueRangeError: A description is empty, or becomes a vector of zeros.

    >>> vectors, labels = encode_text_prototypes(
    ...     {"cook": ["frying", "baking a cake"], "rest": "sleep"},
    ...     lambda texts: [[len(text), 0] for text in texts],
    ... )
    >>> labels.tolist(), vectors.tolist()
    (['cook', 'cook', 'rest'], [[1.0, 0.0], [1.0, 0.0], [1.0, 0.0]])
    """
    if not isinstance(label_to_text, Mapping) or not label_to_text:
        raise UsageError("label_to_text must be {label: text} with at least one label.")
    described = {label: _check_texts(label, texts) for label, texts in label_to_text.items()}
    model = as_encoder(text_encoder, device=device)
    vectors = model.encode(
        [text for texts in described.values() for text in texts], progress=progress
    )
    labels = [label for label, texts in described.items() for _ in texts]
    if normalize:
        lengths = np.linalg.norm(vectors.astype(np.float64), axis=1, keepdims=True)
        if not lengths.all():
            raise ValueRangeError(
                f"The description of {labels[int(np.argmin(lengths))]!r} became a zero "
                "vector: the encoder knows none of its words. Rephrase it."
            )
        vectors = (vectors / lengths).astype(np.float32)
    return vectors, np.array(labels)
