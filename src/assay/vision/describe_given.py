"""Descriptors that come from elsewhere: an array file, or a Python function of yours."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from assay import checks
from assay.encoders.base import told
from assay.encoders.python_function import named_callable
from assay.errors import FormatError, InputError, MismatchError, ShapeError
from assay.ids import Ids
from assay.io.arrays import load_npy, load_npz
from assay.vision.computing import Rows
from assay.vision.filled_paths import filled_path
from assay.vision.images import Image
from assay.vision.keypoints import Keypoints

__all__ = ["by_function", "from_file", "is_file"]

Array = NDArray[Any]

_KEYS: Final = ("vectors", "codes", "ids")


def is_file(spec: str) -> bool:
    """Whether a spec names an array file."""
    return Path(spec).suffix.lower() in (".npy", ".npz")


def from_file(spec: str, keypoints: Keypoints, names: Mapping[str, object]) -> Rows:
    """Descriptors from .npz (`vectors`, or `codes` of packed bits, and `ids`) or .npy.

    `{scene}` and `{image}` in the path stand for the scene's name and the image's number. With ids
    the rows are found by them, and keypoints without a row fail; without, there must be one row a
    keypoint, in their order.
    """
    path = filled_path(spec, names)
    values, ids = _arrays(path)
    _check_matrix(values, path)
    if ids is None:
        _check_count(values, keypoints, path)
        return Rows(np.arange(len(keypoints)), _bits_packed(values))
    at = keypoints.ids.match(ids)
    places = np.flatnonzero(at >= 0)
    return Rows(places, values[at[places]])


def by_function(spec: str, image: Image, keypoints: Keypoints, options: Mapping[str, Any]) -> Rows:
    """Descriptors from `module:function`, called with the image (blue, green, red) and keypoints.

    It returns one row a keypoint: floats, or uint8 for packed bits, or booleans for bits.
    """
    function = named_callable(spec, "module:function")
    try:
        values = np.asarray(function(image.copy(), keypoints, **options))
    except Exception as error:  # the function is not ours: it can fail in any way
        raise InputError(f"The descriptor {spec!r} failed: {told(error)}.") from error
    _check_matrix(values, f"The descriptor {spec!r}")
    _check_count(values, keypoints, f"The descriptor {spec!r}")
    return Rows(np.arange(len(keypoints)), _bits_packed(values))


def _arrays(path: str) -> tuple[Array, Ids | None]:
    if path.lower().endswith(".npy"):
        return _not_bytes(load_npy(path), path), None
    arrays = load_npz(path, _KEYS)
    if ("vectors" in arrays) == ("codes" in arrays):
        raise FormatError(f"{path} must hold either 'vectors' or 'codes', found {list(arrays)}.")
    codes, ids = arrays.get("codes"), arrays.get("ids")
    if codes is not None and codes.dtype != np.uint8:
        raise FormatError(f"{path}: codes are packed bits of uint8, found {codes.dtype}.")
    values = _as_floats(arrays["vectors"], path) if codes is None else codes
    if ids is None:
        return values, None
    checks.check_lengths(ids=len(ids), descriptors=len(values))
    named = Ids.of(ids if ids.dtype.kind in "iu" else ids.tolist(), "keypoint")
    return values, named


def _as_floats(vectors: Array, path: str) -> Array:
    _check_matrix(vectors, path)
    return vectors.astype(np.float64) if vectors.dtype == np.uint8 else vectors


def _not_bytes(values: Array, path: str) -> Array:
    if values.dtype == np.uint8:
        raise FormatError(
            f"{path} holds uint8, which could be numbers or packed bits. Save a .npz with the "
            f"array 'vectors' or 'codes'."
        )
    return values


def _bits_packed(values: Array) -> Array:
    return np.packbits(values, axis=1) if values.dtype == bool else values


def _check_matrix(values: Array, what: str) -> None:
    if values.ndim != 2 or 0 in values.shape or values.dtype.kind not in "biuf":
        raise ShapeError(
            f"{what}: descriptors are rows of numbers, found shape {values.shape} of "
            f"{values.dtype}."
        )


def _check_count(values: Array, keypoints: Keypoints, what: str) -> None:
    if len(values) != len(keypoints):
        raise MismatchError(
            f"{what}: {len(values)} descriptors for {len(keypoints)} keypoints. Give one row a "
            f"keypoint{'' if os.path.sep not in what else ', or save ids beside them'}."
        )
