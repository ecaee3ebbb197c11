"""From keypoints to descriptors, by the name of a descriptor, a file or a function."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from assay.arrays import Array
from assay.core import checks
from assay.core.ids import Ids
from assay.core.text import did_you_mean
from assay.errors import (
    FormatError,
    InputError,
    MismatchError,
    ShapeError,
    UsageError,
    ValueRangeError,
    error_text,
)
from assay.io.arrays import load_npy, load_npz
from assay.models.adapters.python_function import named_callable
from assay.search.engine.codes import Codes
from assay.tasks.vision import opencv_features
from assay.tasks.vision.images import Image, as_bgr
from assay.tasks.vision.keypoint_sources import FEATURES, fill_path
from assay.tasks.vision.keypoints import Keypoints
from assay.tasks.vision.opencv_features import DescribedRows
from assay.tasks.vision.patch_networks import describe_keypoints, network_file

__all__ = ["DESCRIPTORS", "Described", "by_function", "describe", "from_file", "is_file"]


_KEYS: Final = ("vectors", "codes", "ids", *FEATURES)
_OTHERS_CODE: Final = Lock()  # a function of others need not bear being called by two threads


def is_file(spec: str) -> bool:
    """Whether a spec names an array file."""
    return Path(spec).suffix.lower() in (".npy", ".npz")


def from_file(spec: str, keypoints: Keypoints, names: Mapping[str, object]) -> DescribedRows:
    """Descriptors from .npz (`vectors`, or `codes` of packed bits, and `ids`) or .npy.

    A .npz may also hold `keypoints` and `descriptors`, as learned features are stored; then the
    keypoints must have been read from it. `{scene}` and `{image}` in the path stand for the scene's
    name and the image's number. With ids the rows are found by them, and keypoints without a row
    fail; without, there must be one row a keypoint, in their order.
    """
    path = fill_path(spec, names)
    values, ids = _arrays(path, keypoints)
    _check_matrix(values, path)
    if ids is None:
        _check_count(values, keypoints, path)
        return DescribedRows(np.arange(len(keypoints)), _pack_bits(values))
    at = keypoints.ids.match(ids)
    places = np.flatnonzero(at >= 0)
    return DescribedRows(places, values[at[places]])


def by_function(
    spec: str, image: Image, keypoints: Keypoints, options: Mapping[str, Any]
) -> DescribedRows:
    """Descriptors from `module:function`, called with the image (blue, green, red) and keypoints.

    It returns one row a keypoint: floats, or uint8 for packed bits, or booleans for bits.
    """
    function = named_callable(spec, "module:function")
    try:
        with _OTHERS_CODE:
            values = np.asarray(function(image.copy(), keypoints, **options))
    except Exception as error:  # the function is not ours: it can fail in any way
        raise InputError(f"The descriptor {spec!r} failed: {error_text(error)}.") from error
    _check_matrix(values, f"The descriptor {spec!r}")
    _check_count(values, keypoints, f"The descriptor {spec!r}")
    return DescribedRows(np.arange(len(keypoints)), _pack_bits(values))


def _arrays(path: str, keypoints: Keypoints) -> tuple[Array, Ids | None]:
    if path.lower().endswith(".npy"):
        return _not_bytes(load_npy(path), path), None
    arrays = load_npz(path, _KEYS)
    if {"keypoints", "descriptors"} <= arrays.keys() and not arrays.keys() & {"vectors", "codes"}:
        return _learned(arrays["keypoints"], arrays["descriptors"], keypoints, path)
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


def _learned(points: Array, values: Array, keypoints: Keypoints, path: str) -> tuple[Array, Ids]:
    """Descriptors beside their keypoints, one a row, or (as SuperPoint has them) one a column."""
    _check_matrix(_not_bytes(values, path), path)
    _check_matrix(points, f"{path}, keypoints")
    if len(values) != len(points) and values.shape[1] == len(points):
        values = values.T
    checks.check_lengths(keypoints=len(points), descriptors=len(values))
    ids = Ids.count(len(points))
    at = keypoints.ids.match(ids) if keypoints.ids.kind == "integer" else np.full(1, -1)
    if (at < 0).any() or not np.array_equal(points[at, :2].astype(np.float64), keypoints.xy):
        raise MismatchError(
            f"{path} describes keypoints of its own, and these are others. Read them from there: "
            "keypoints: {source: file, path: …}."
        )
    return _pack_bits(values), ids


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


def _pack_bits(values: Array) -> Array:
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


Kind = Literal["float", "binary"]
Describe = Callable[[Image, Keypoints, Mapping[str, Any]], DescribedRows]

DESCRIPTORS: Final[dict[str, Describe]] = {
    "SIFT": opencv_features.sift,
    "RootSIFT": opencv_features.root_sift,
    "RGBSIFT": opencv_features.rgb_sift,
    "DSP-SIFT": opencv_features.dsp_sift,
    "DSP-RGBSIFT": opencv_features.dsp_rgb_sift,
    "ORB": opencv_features.orb,
    "BRISK": opencv_features.brisk,
    "AKAZE": opencv_features.akaze,
}


@dataclass(frozen=True, eq=False)
class Described:
    """Keypoints with their descriptors, row by row, and the ids of those that have none."""

    keypoints: Keypoints
    vectors: NDArray[np.float32] | Codes
    kind: Kind
    failed: Ids

    def __len__(self) -> int:
        """Number of descriptors."""
        return len(self.keypoints)

    def __repr__(self) -> str:
        """Counts in one line."""
        failed = f", {len(self.failed)} failed" if len(self.failed) else ""
        return f"Described({len(self)} {self.kind}{failed})"


def describe(
    image: Any,
    keypoints: Keypoints,
    spec: str,
    *,
    options: Mapping[str, Any] | None = None,
    names: Mapping[str, object] | None = None,
) -> Described:
    """Describe keypoints by SIFT, RootSIFT, RGBSIFT, DSP-SIFT, DSP-RGBSIFT, ORB, BRISK or AKAZE.

    A spec may also be an array file (`{scene}` and `{image}` in it are filled from `names`), a
    network of patches (`onnx:FILE`, `torch:FILE`) or `module:function`. `options` go to OpenCV, the
    patches (`PatchOptions`) or the function. A keypoint that cannot be described, or whose
    descriptor is all zeros, has failed; NaN is refused.
    """
    checks.require(spec, str, "A descriptor", "a name such as 'SIFT', a file or 'module:function'")
    if not len(keypoints):
        raise InputError(f"There are no keypoints for {spec} to describe.")
    rows = _rows(as_bgr(image), keypoints, spec, dict(options or {}), names or {})
    kind: Kind = "binary" if rows.values.dtype == np.uint8 else "float"
    if kind == "float":
        rows = _usable(rows, keypoints.ids, spec)
    if not len(rows.places):
        raise InputError(f"{spec} described none of the {len(keypoints)} keypoints.")
    lost = np.setdiff1d(np.arange(len(keypoints)), rows.places)
    return Described(
        keypoints.take(rows.places), _pack(rows.values), kind, keypoints.ids.take(lost)
    )


def _rows(
    image: Image,
    keypoints: Keypoints,
    spec: str,
    options: dict[str, Any],
    names: Mapping[str, object],
) -> DescribedRows:
    known = {_plain(name): family for name, family in DESCRIPTORS.items()}
    if _plain(spec) in known:
        return known[_plain(spec)](image, keypoints, options)
    if network_file(spec) is not None:
        values = describe_keypoints(spec, image, keypoints, options)
        return DescribedRows(np.arange(len(keypoints)), values)
    if is_file(spec):
        return from_file(spec, keypoints, names)
    if ":" in spec:
        return by_function(spec, image, keypoints, options)
    hint = did_you_mean(spec, DESCRIPTORS)
    raise UsageError(
        f"Unknown descriptor {spec!r}.{hint} There are {', '.join(DESCRIPTORS)}; .npy and .npz "
        "files; networks, written onnx:FILE or torch:FILE; and functions, written module:function."
    )


def _plain(name: str) -> str:
    return name.lower().replace("-", "").replace("_", "")


def _usable(rows: DescribedRows, ids: Ids, spec: str) -> DescribedRows:
    """Without the descriptors that are all zeros; NaN and Inf are refused with the keypoint."""
    with np.errstate(over="ignore"):
        values = np.asarray(rows.values, np.float32)
    bad = np.flatnonzero(~np.isfinite(values).all(axis=1))
    if len(bad):
        row = int(bad[0])
        raise ValueRangeError(
            f"{spec} gives NaN, Inf or a number beyond float32 for keypoint "
            f"{ids[int(rows.places[row])]!r} (row {row}); {len(bad)} such rows in all. Leave such "
            "keypoints out."
        )
    nonzero = values.any(axis=1)
    return DescribedRows(rows.places[nonzero], values[nonzero])


def _pack(values: NDArray[Any]) -> NDArray[np.float32] | Codes:
    if values.dtype == np.uint8:
        return Codes(values, 8 * values.shape[1])
    vectors = np.ascontiguousarray(values, np.float32)
    vectors.flags.writeable = False
    return vectors
