"""Embeddings, labels and prototypes from files, as `label_retrieval` takes them."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from assay.core.checks import check_labels, name_few
from assay.errors import FormatError, MismatchError, UsageError
from assay.io.arrays import load_keyed, read_ids
from assay.io.json_text import parse_json
from assay.io.streams import read_text, split_array
from assay.models.adapters.torch_file import from_factory
from assay.tasks.crossmodal.prototypes import (
    encode_text_prototypes,
    load_text_prototypes_from_metadata,
)
from assay.tasks.crossmodal.samples import Prototypes, SampleRows

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "map_prototypes",
    "read_labels",
    "read_modalities",
    "read_modality_labels",
    "read_prototypes",
    "split_names",
]


def split_names(entries: tuple[str, ...], option: str) -> dict[str, str]:
    """NAME=FILE pairs; a name given twice is refused. A file without a name has the name ''."""
    found: dict[str, str] = {}
    for entry in entries:
        name, equals, value = entry.partition("=")
        if not equals or os.path.exists(entry):
            name, value = "", entry
        if name in found:
            again = f"the name {name!r}" if name else "a value without a name"
            raise UsageError(
                f"{option}: {again} is given twice. Write NAME=VALUE with a name each."
            )
        found[name] = value
    return found


def read_modalities(
    named: dict[str, str], keys: dict[str, str], ids: dict[str, str] | None = None
) -> dict[str, SampleRows]:
    """Embeddings by the name of their modality; `ids` are files with an id a line."""
    if "" in named:
        raise UsageError(f"--modality: write NAME=FILE, found {named['']!r}.")
    _refuse_strange_keys(keys, named, "--modality-key")
    _refuse_strange_keys(ids or {}, named, "--modality-ids")
    found = {
        name: SampleRows(
            *load_keyed(path, keys.get(name), usual=(f"{name}_embeddings", name), whole=False)
        )
        for name, path in named.items()
    }
    for name, path in (ids or {}).items():
        found[name] = found[name]._replace(ids=read_ids(path, "sample"))
    return found


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
    """Labels by level: from arrays, from JSON with several levels, and by maps of the first."""
    if not named:
        raise UsageError("--labels is missing: give a file with one label per sample.")
    if "" in named and len(named) > 1:
        raise UsageError("Several --labels need a name each: --labels l1=a.npy --labels l2=b.npy.")
    shared = keys.get("") if len(keys) == 1 else None
    if shared is None:
        _refuse_strange_keys(keys, named, "--labels-key")
    levels: dict[str, SampleRows] = {}
    for name, path in named.items():
        found = _level_files(name, path, keys.get(name, shared))
        again = [level for level in found if level in levels]
        if again:
            raise UsageError(f"{path}: there are labels called {again[0]!r} already.")
        levels |= found
    first_name, first = next(iter(levels.items()))
    for name, path in maps.items():
        if not name or name in levels:
            raise UsageError("--label-map: write LEVEL=FILE with the name of a new level.")
        levels[name] = SampleRows(_map_labels(first.values, path, first_name), first.ids)
    return levels


def read_modality_labels(
    entries: tuple[str, ...], maps: dict[str, str]
) -> dict[str, dict[str, SampleRows]]:
    """Labels of each modality by level, from MODALITY=[LEVEL=]FILE."""
    files: dict[str, list[str]] = {}
    for entry in entries:
        name, equals, rest = entry.partition("=")
        if not equals:
            raise UsageError(f"--modality-labels: write MODALITY=FILE, found {entry!r}.")
        files.setdefault(name, []).append(rest)
    return {
        name: read_labels(split_names(tuple(own), "--modality-labels"), {}, maps)
        for name, own in files.items()
    }


def map_prototypes(prototypes: Prototypes, maps: dict[str, str]) -> Prototypes:
    """Prototypes with the labels of further levels; what is a coarser label already stays so."""
    for level, path in maps.items():
        coarser = _read_map(path)
        known = {str(label): label for label in coarser.values()}
        names, codes = np.unique(prototypes.labels, return_inverse=True)
        mapped = {str(name): coarser.get(str(name), known.get(str(name))) for name in names}
        _refuse_unmapped([name for name, to in mapped.items() if to is None], path, "prototypes")
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


def _refuse_unmapped(absent: list[str], path: str, whose: str) -> None:
    if absent:
        raise MismatchError(f"{path} has no entry for the labels {name_few(absent)} of {whose}.")


def _map_labels(labels: Any, path: str, level: str) -> Any:
    """Coarser labels by a JSON map {label: coarser label}."""
    coarser = _read_map(path)
    names, codes = np.unique(check_labels(labels, f"The labels {level!r}"), return_inverse=True)
    _refuse_unmapped([str(one) for one in names if str(one) not in coarser], path, repr(level))
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
    progress: Callable[[int, int], None] | None,
) -> Prototypes:
    """Prototypes from ready embeddings, or from descriptions and a text model."""
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
