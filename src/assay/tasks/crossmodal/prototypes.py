"""Prototypes: descriptions of labels from a metadata file, made into vectors by a text encoder.

A metadata file is JSON: {dataset: {"label_to_text_STYLE": {label: text or [texts]}}}.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from assay.core.text import did_you_mean
from assay.errors import FormatError, UsageError, ValueRangeError
from assay.io.json_text import parse_json
from assay.io.streams import read_text
from assay.models.encoder import Progress
from assay.models.specs import as_encoder

__all__ = ["DEFAULT_STYLE", "encode_text_prototypes", "load_text_prototypes_from_metadata"]

DEFAULT_STYLE: Final = "sourish"
_FIELD: Final = "label_to_text_"

Texts = str | Sequence[str]


def load_text_prototypes_from_metadata(
    metadata_path: str | os.PathLike[str], dataset_name: str, style: str = DEFAULT_STYLE
) -> dict[str, str | list[str]]:
    """Descriptions by label of one dataset in one style; a label may have several."""
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


def _entry(found: dict[str, Any], key: str, complaint: str) -> Any:
    if key in found:
        return found[key]
    hint = did_you_mean(str(key), found)
    known = ", ".join(sorted(found)[:20]) or "none"
    raise UsageError(f"{complaint} {key!r}.{hint} Known: {known}.")


def _check_texts(label_to_text: Any, place: str) -> dict[str, str | list[str]]:
    if not isinstance(label_to_text, dict) or not label_to_text:
        raise FormatError(f"{place} must hold {{label: text}} with at least one label.")
    for label, texts in label_to_text.items():
        _texts_of(label, texts, f"{place}: ")
    return label_to_text


def _texts_of(label: Any, texts: Any, place: str = "") -> list[str]:
    """The descriptions of one label: at least one, none of them empty."""
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
    """Vectors of all descriptions, and for each the label it describes.

    `text_encoder` is a spec such as "wordllama", an object with `encode(texts)` or
    `encode_texts_clip(texts, device)`, or a function. With `normalize` rows have length 1.

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
