"""From keypoints to descriptors, by the name of a descriptor, a file or a function."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from assay import checks
from assay.engine.codes import Codes
from assay.errors import InputError, UsageError, ValueRangeError
from assay.ids import Ids
from assay.vision import describe_binary, describe_sift
from assay.vision.computing import Rows
from assay.vision.describe_given import by_function, from_file, is_file
from assay.vision.images import Image, as_bgr
from assay.vision.keypoints import Keypoints

__all__ = ["DESCRIPTORS", "Described", "describe"]

Kind = Literal["float", "binary"]
Describe = Callable[[Image, Keypoints, Mapping[str, Any]], Rows]

DESCRIPTORS: Final[dict[str, Describe]] = {
    "SIFT": describe_sift.sift,
    "RootSIFT": describe_sift.root_sift,
    "RGBSIFT": describe_sift.rgb_sift,
    "DSP-SIFT": describe_sift.dsp_sift,
    "DSP-RGBSIFT": describe_sift.dsp_rgb_sift,
    "ORB": describe_binary.orb,
    "BRISK": describe_binary.brisk,
    "AKAZE": describe_binary.akaze,
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

    A spec may also be an array file (`{scene}` and `{image}` in it are filled from `names`), or
    `module:function`. `options` go to OpenCV or to the function. A keypoint that cannot be
    described, or whose descriptor is all zeros, has failed; NaN is refused.
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
        keypoints.take(rows.places), _packed(rows.values), kind, keypoints.ids.take(lost)
    )


def _rows(
    image: Image,
    keypoints: Keypoints,
    spec: str,
    options: dict[str, Any],
    names: Mapping[str, object],
) -> Rows:
    known = {_plain(name): family for name, family in DESCRIPTORS.items()}
    if _plain(spec) in known:
        return known[_plain(spec)](image, keypoints, options)
    if is_file(spec):
        return from_file(spec, keypoints, names)
    if ":" in spec:
        return by_function(spec, image, keypoints, options)
    near = get_close_matches(spec, DESCRIPTORS, n=1)
    hint = f" Did you mean {near[0]}?" if near else ""
    raise UsageError(
        f"Unknown descriptor {spec!r}.{hint} There are {', '.join(DESCRIPTORS)}; .npy and .npz "
        "files; and functions, written module:function."
    )


def _plain(name: str) -> str:
    return name.lower().replace("-", "").replace("_", "")


def _usable(rows: Rows, ids: Ids, spec: str) -> Rows:
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
    return Rows(rows.places[nonzero], values[nonzero])


def _packed(values: NDArray[Any]) -> NDArray[np.float32] | Codes:
    if values.dtype == np.uint8:
        return Codes(values, 8 * values.shape[1])
    vectors = np.ascontiguousarray(values, np.float32)
    vectors.flags.writeable = False
    return vectors
