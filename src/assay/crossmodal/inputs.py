"""Embeddings, labels and prototypes from files, as `label_retrieval` takes them."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from assay.core.checks import check_labels, name_few
from assay.core.mismatches import describe_near
from assay.core.text import did_you_mean
from assay.crossmodal.samples import Prototypes, SampleRows
from assay.errors import FormatError, MismatchError, UsageError, ValueRangeError
from assay.io.arrays import load_keyed, read_ids
from assay.io.plain_data import parse_json
from assay.io.streams import read_text, split_array
from assay.models.adapters.torch_file import from_factory
from assay.models.encoding import Progress
from assay.models.specs import as_encoder


def split_names(entries: tuple[str, ...], option: str) -> dict[str, str]:
    """Split NAME=FILE pairs; a file without a name has the name ''."""
    values: dict[str, str] = {}
    for entry in entries:
        name, equals, value = entry.partition("=")
        if not equals or os.path.exists(entry):
            name, value = "", entry
        if name in values:
            again = f"the name {name!r}" if name else "a value without a name"
            raise UsageError(
                f"{option}: {again} is given twice. Write NAME=VALUE with a name each."
            )
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

    Raises:
        UsageError: A key or ids are of no modality.
    """
    if "" in named:
        raise UsageError(f"--modality: write NAME=FILE, found {named['']!r}.")
    _refuse_strange_keys(keys, named, "--modality-key")
    _refuse_strange_keys(ids or {}, named, "--modality-ids")
    modalities = {
        name: SampleRows(
            *load_keyed(path, keys.get(name), usual=(f"{name}_embeddings", name), whole=False)
        )
        for name, path in named.items()
    }
    for name, path in (ids or {}).items():
        modalities[name] = modalities[name]._replace(ids=read_ids(path, "sample"))
    return modalities


def _refuse_strange_keys(keys: dict[str, str], named: dict[str, str], option: str) -> None:
    strange = [name for name in keys if name not in named]
    if strange:
        raise UsageError(
            f"{option} names {strange[0]!r}, which is not given; given are "
            f"{', '.join(map(repr, named))}."
        )


def read_labels(
    named: dict[str, str], keys: dict[str, str], maps: dict[str, str]
) -> dict[str, SampleRows]:
    """Read labels by level, from arrays, JSON, or maps of the first.

    Args:
        named: Files by level; one file may go without a name.
        keys: Arrays of .npz files by level.
        maps: JSON files {label: coarser label} by the name of a further level.

    Raises:
        UsageError: Names are missing, or given twice.
        MismatchError: A map lacks a label.
    """
    if not named:
        raise UsageError("--labels is missing: give a file with one label per sample.")
    if "" in named and len(named) > 1:
        raise UsageError("Several --labels need a name each: --labels l1=a.npy --labels l2=b.npy.")
    shared = keys.get("") if len(keys) == 1 else None
    if shared is None:
        _refuse_strange_keys(keys, named, "--labels-key")
    levels: dict[str, SampleRows] = {}
    for name, path in named.items():
        more = _level_files(name, path, keys.get(name, shared))
        again = [level for level in more if level in levels]
        if again:
            raise UsageError(f"{path}: there are labels called {again[0]!r} already.")
        levels |= more
    first_name, first = next(iter(levels.items()))
    for name, path in maps.items():
        if not name or name in levels:
            raise UsageError("--label-map: write LEVEL=FILE with the name of a new level.")
        levels[name] = SampleRows(_map_labels(first.values, path, first_name), first.ids)
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
    """Label prototypes at further levels; what is a coarser label stays so."""
    for level, path in maps.items():
        coarser = _read_map(path)
        by_text = {str(label): label for label in coarser.values()}
        names, codes = np.unique(prototypes.labels, return_inverse=True)
        mapped = {str(name): coarser.get(str(name), by_text.get(str(name))) for name in names}
        absent = [name for name, to in mapped.items() if to is None]
        _refuse_unmapped(absent, coarser, path, "prototypes")
        prototypes = prototypes.with_level(
            level, check_labels([mapped[str(name)] for name in names], path)[codes]
        )
    return prototypes


def _level_files(name: str, path: str, key: str | None) -> dict[str, SampleRows]:
    if Path(path).suffix.lower() != ".json":
        rows = SampleRows(*load_keyed(path, key, usual=("labels", f"labels_{name}", name)))
        return {name or "label": rows}
    content = parse_json(read_text(path), path)
    if isinstance(content, list):
        return {name or "label": SampleRows(content)}
    if not isinstance(content, dict) or not content:
        raise FormatError(f"{path} must hold a list of labels, or {{level: labels}}.")
    if not all(isinstance(labels, list | dict) for labels in content.values()):
        content = {name or "label": content}
    return {level: _json_rows(labels, f"{path}, {level!r}") for level, labels in content.items()}


def _json_rows(labels: Any, place: str) -> SampleRows:
    if isinstance(labels, list):
        return SampleRows(labels)
    if not isinstance(labels, dict):
        raise FormatError(f"{place} must hold a list of labels, or {{sample id: label}}.")
    return SampleRows(list(labels.values()), list(labels))


def _read_map(path: str) -> dict[str, Any]:
    coarser = parse_json(read_text(path), path)
    if not isinstance(coarser, dict):
        raise FormatError(f"{path} must hold {{label: coarser label}}.")
    return coarser


def _refuse_unmapped(absent: list[str], coarser: dict[str, Any], path: str, whose: str) -> None:
    if absent:
        near = describe_near(absent, coarser)
        raise MismatchError(
            f"{path} has no entry for the labels {name_few(absent)} of {whose}.{near}"
        )


def _map_labels(labels: Any, path: str, level: str) -> Any:
    """Map labels to coarser ones by JSON {label: coarser label}."""
    coarser = _read_map(path)
    names, codes = np.unique(check_labels(labels, f"The labels {level!r}"), return_inverse=True)
    absent = [str(name) for name in names if str(name) not in coarser]
    _refuse_unmapped(absent, coarser, path, repr(level))
    return check_labels([coarser[str(name)] for name in names], path)[codes]


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
        key: Their array, where the file is a .npz.
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

    Raises:
        UsageError: Sources are missing, or contradict each other.
    """
    if embeddings is not None:
        if metadata or encoder or checkpoint:
            raise UsageError(
                "--prototype-embeddings are ready: leave --metadata, --encoder, --checkpoint out."
            )
        return _load_prototypes(embeddings, key, labels)
    if metadata is None or dataset is None:
        raise UsageError(
            "Prototypes need --metadata and --dataset-name (descriptions of the labels), or "
            "--prototype-embeddings."
        )
    texts = load_text_prototypes_from_metadata(metadata, dataset, style=style)
    model = _text_model(encoder, checkpoint, factory, device)
    vectors, names = encode_text_prototypes(
        texts, model, device=device, normalize=normalize, progress=progress
    )
    wording = hashlib.sha256(json.dumps(texts, sort_keys=True).encode()).hexdigest()[:8]
    made_by = encoder or f"{factory or 'checkpoint'}:{Path(checkpoint or '').name}"
    return Prototypes.of(vectors, names, encoder=made_by, captions=f"{dataset}/{style}-{wording}")


def _load_prototypes(path: str, key: str | None, labels: str | None) -> Prototypes:
    vectors, _ = load_keyed(path, key, usual=("prototype_embeddings", "embeddings", "prototypes"))
    usual = ("prototype_labels", "labels")
    if labels is None and Path(path).suffix.lower() == ".npy":
        raise UsageError(f"{path} has no labels of its prototypes: give --prototype-labels.")
    if labels is not None and Path(labels).suffix.lower() == ".json":
        return Prototypes.of(vectors, _json_list(labels))
    names, _ = load_keyed(labels or split_array(path)[0], None, usual=usual)
    return Prototypes.of(vectors, names)


def _json_list(path: str) -> list[Any]:
    content = parse_json(read_text(path), path)
    if not isinstance(content, list):
        raise FormatError(f"{path} must hold a list of labels, one for each prototype.")
    return content


def _text_model(
    encoder: str | None, checkpoint: str | None, factory: str | None, device: str | None
) -> Any:
    if (encoder is None) == (checkpoint is None):
        raise UsageError("Descriptions are encoded by --encoder or by --checkpoint: give one.")
    if factory is not None and checkpoint is None:
        raise UsageError("--text-encoder-factory makes a text encoder of a --checkpoint: give it.")
    if factory is not None and checkpoint is not None:
        return from_factory(checkpoint, factory, device=device)
    return encoder if encoder is not None else f"checkpoint:{checkpoint}"


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
    """
    name = os.fspath(metadata_path)
    metadata = parse_json(read_text(metadata_path), name)
    if not isinstance(metadata, dict):
        raise FormatError(f"{name} must hold a JSON object with an entry for each dataset.")
    dataset = _entry(metadata, dataset_name, f"{name}: there is no dataset")
    if not isinstance(dataset, dict):
        raise FormatError(f"{name}: the entry of dataset {dataset_name!r} is not a JSON object.")
    styles = {key.removeprefix(_FIELD): key for key in dataset if key.startswith(_FIELD)}
    field = _entry(styles, style, f"{name}: dataset {dataset_name!r} has no caption style")
    return _check_texts(dataset[field], f"{name}, dataset {dataset_name!r}, {field}")


def _entry(entries: dict[str, Any], key: str, complaint: str) -> Any:
    if key in entries:
        return entries[key]
    hint = did_you_mean(str(key), entries)
    names = ", ".join(sorted(entries)[:20]) or "none"
    raise UsageError(f"{complaint} {key!r}.{hint} Known: {names}.")


def _check_texts(label_to_text: Any, place: str) -> dict[str, str | list[str]]:
    if not isinstance(label_to_text, dict) or not label_to_text:
        raise FormatError(f"{place} must hold {{label: text}} with at least one label.")
    for label, texts in label_to_text.items():
        _texts_of(label, texts, f"{place}: ")
    return label_to_text


def _texts_of(label: Any, texts: Any, place: str = "") -> list[str]:
    """Check the descriptions of one label: none may be empty."""
    many = [texts] if isinstance(texts, str) else texts
    sound = isinstance(many, list | tuple) and many
    if not sound or not all(isinstance(text, str) and text.strip() for text in many):
        raise ValueRangeError(
            f"{place}the label {label!r} is described by {texts!r:.80}. Give a text, or a list of "
            "texts, that is not empty."
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

    Raises:
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
    pairs = [
        (label, text) for label, texts in label_to_text.items() for text in _texts_of(label, texts)
    ]
    model = as_encoder(text_encoder, device=device)
    vectors = model.encode([text for _, text in pairs], progress=progress)
    if normalize:
        vectors = _unit_rows(vectors, [label for label, _ in pairs])
    return vectors, np.array([label for label, _ in pairs])


def _unit_rows(vectors: NDArray[np.float32], labels: list[Any]) -> NDArray[np.float32]:
    lengths = np.linalg.norm(vectors.astype(np.float64), axis=1, keepdims=True)
    if not lengths.all():
        label = labels[int(np.argmin(lengths))]
        raise ValueRangeError(
            f"The description of {label!r} became a zero vector, which has no direction: the "
            "encoder knows none of its words. Describe the label in other words."
        )
    unit: NDArray[np.float32] = (vectors / lengths).astype(np.float32)
    return unit
