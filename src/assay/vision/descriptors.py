"""Describe keypoints by a named descriptor, a file, a network or a function.

Networks that describe patches are `onnx:FILE` by onnxruntime and `torch:FILE` by TorchScript. A
network such as HardNet or SOSNet takes square patches, samples × channels × side × side, and gives
one descriptor for each. A patch is cut around a keypoint, turned by its angle; its side is
`magnification` times the keypoint's scale, that is half of its size (12 covers SIFT's own grid).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from assay import errors
from assay.arrays import Array, Floats32
from assay.core import checks
from assay.core.checks import check_choice, check_cutoff
from assay.core.ids import Ids
from assay.core.on_demand import OnDemand
from assay.core.specs import named_callable
from assay.core.text import did_you_mean
from assay.errors import FormatError, InputError, MismatchError, UsageError, error_text
from assay.io.arrays import load_npy, load_npz
from assay.search.engine.codes import Codes
from assay.vision import opencv_features
from assay.vision.keypoints import FEATURES, Keypoints, fill_path
from assay.vision.opencv_features import (
    DescribedRows,
    Image,
    as_bgr,
    cut_patches,
    grey,
    positive_option,
    steady,
)
from assay.vision.settings import is_file, network_file

if TYPE_CHECKING:
    from assay.models.adapters.onnx import open_session
else:  # another room, which only networks need
    open_session = OnDemand("assay.models.adapters.onnx").open_session

_OTHERS_CODE: Final = Lock()  # which need not bear being called by two threads


Orientation = Literal["keypoint", "upright"]
Pixels = Literal["unit", "byte", "standard"]


@dataclass(frozen=True)
class PatchOptions:
    """What a network is given: patches of `side` pixels in so many `channels` (1 grey, 3 RGB).

    `orientation`: turned by the keypoint's angle, or upright. `pixels`: from 0 to 1 (unit), from 0
    to 255 (byte), or each patch with mean 0 and variance 1 (standard). `batch` patches at a time.
    Without `side` and `channels` the network says them, or they are 32 and 1.
    """

    side: int | None = None
    channels: int | None = None
    magnification: float = 12.0
    orientation: Orientation = "keypoint"
    pixels: Pixels = "unit"
    batch: int = 512

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> PatchOptions:
        """Check a descriptor's options; unknown ones are refused with the nearest."""
        for key in options:
            if key not in cls.__dataclass_fields__:
                hint = did_you_mean(key, cls.__dataclass_fields__)
                names = ", ".join(cls.__dataclass_fields__)
                raise UsageError(f"Unknown option {key!r} of a network.{hint} Known: {names}.")
        patch_options = cls(**options)
        for key in ("side", "channels", "batch"):
            if getattr(patch_options, key) is not None:
                check_cutoff(getattr(patch_options, key), key)
        if patch_options.channels not in (None, 1, 3):
            raise UsageError(f"channels must be 1 or 3, found {patch_options.channels!r}.")
        positive_option({"magnification": patch_options.magnification}, "magnification", 12.0)
        check_choice(patch_options.orientation, get_args(Orientation), "orientation")
        check_choice(patch_options.pixels, get_args(Pixels), "pixels")
        return patch_options

    def of_network(self, network: PatchNetwork) -> PatchOptions:
        """Return options completed by the network; contradictions are refused."""
        sizes: dict[str, int] = {}
        for key, usual in (("side", 32), ("channels", 1)):
            fixed, option = getattr(network, key), getattr(self, key)
            if None not in (fixed, option) and fixed != option:
                raise UsageError(f"{network.name} takes patches of {key} {fixed}, not {option}.")
            sizes[key] = fixed or option or usual
        return replace(self, **sizes)  # type: ignore[arg-type]


@dataclass(frozen=True, eq=False)
class PatchNetwork:
    """A network that was read; `side`, `channels` and `batch` where the file fixes them."""

    name: str
    run: Callable[[Floats32], Any]
    side: int | None = None
    channels: int | None = None
    batch: int | None = None


def load_network(spec: str) -> PatchNetwork:
    """Read the network that a spec names, once as long as its file does not change."""
    kind, _, file = spec.partition(":")
    try:
        stamp = os.stat(file)
    except (OSError, ValueError):
        raise errors.StorageError(f"{spec}: no file {file!r}.") from None
    return _load(kind, file, stamp.st_mtime_ns, stamp.st_size)


@lru_cache(8)
def _load(kind: str, file: str, *stamp: int) -> PatchNetwork:
    if kind == "torch":
        return _load_torch(file)
    session = open_session(file, file, "onnx")
    inputs = session.get_inputs()
    shape = inputs[0].shape if len(inputs) == 1 and inputs[0].type == "tensor(float)" else ()
    if len(shape) != 4:
        tensors = ", ".join(f"{tensor.name}: {tensor.type} {tensor.shape}" for tensor in inputs)
        raise FormatError(
            f"{file} asks for {tensors}. Export one float input of samples × channels × side "
            "× side."
        )
    batch, channels, side, _ = (size if isinstance(size, int) else None for size in shape)
    name = inputs[0].name
    return PatchNetwork(file, lambda x: session.run(None, {name: x})[0], side, channels, batch)


def _load_torch(file: str) -> PatchNetwork:
    torch = errors.need("torch", "A descriptor in TorchScript", "torch")
    try:
        module = torch.jit.load(file, map_location="cpu").eval()
    except Exception as error:  # torch may raise anything
        raise FormatError(
            f"{file} cannot be loaded as TorchScript: {error_text(error)}. Save it by "
            "torch.jit.script or torch.jit.trace."
        ) from None

    def run(patches: Floats32) -> Any:
        with _OTHERS_CODE, torch.inference_mode():
            return module(torch.from_numpy(patches)).numpy()

    return PatchNetwork(file, run)


def describe_patches(spec: str, patches: Image, options: Mapping[str, Any]) -> Array:
    """Return a row for each patch of any square size.

    `patches` are samples × rows × columns × (blue, green, red).
    """
    network, how = _open(spec, options)
    with steady() as cv2:
        resized = np.stack([cv2.resize(patch, (how.side, how.side)) for patch in patches])
    return run_network(network, resized, how)


def _open(spec: str, options: Mapping[str, Any]) -> tuple[PatchNetwork, PatchOptions]:
    network = load_network(spec)
    return network, PatchOptions.of(options).of_network(network)


def describe_keypoints(
    spec: str, image: Image, keypoints: Keypoints, options: Mapping[str, Any]
) -> Array:
    """Return a row for each keypoint, from the patch around it."""
    network, how = _open(spec, options)
    upright, side = how.orientation == "upright", how.side or 0
    patches = cut_patches(
        image, keypoints, side=side, magnification=how.magnification, upright=upright
    )
    return run_network(network, patches, how)


def run_network(network: PatchNetwork, patches: Image, how: PatchOptions) -> Array:
    """Return a row for each patch, batch by batch; a batch of fixed size is filled up."""
    batch = network.batch or how.batch
    batches = []
    for start in range(0, len(patches), batch):
        part = _as_input(patches[start : start + batch], how)
        n = len(part)
        if network.batch is not None and n < batch:
            part = np.concatenate([part, np.zeros((batch - n, *part.shape[1:]), np.float32)])
        try:
            rows = np.asarray(network.run(part))
        except Exception as error:  # networks fail in their own ways
            raise InputError(f"{network.name} failed: {error_text(error)}.") from error
        if rows.ndim < 2 or len(rows) != len(part) or rows.dtype.kind != "f":
            raise FormatError(
                f"{network.name} gave {rows.dtype} of the shape {rows.shape} for {len(part)} "
                "patches. Return one row of floats each."
            )
        batches.append(rows[:n].reshape(n, -1))
    return np.concatenate(batches)


def _as_input(patches: Image, how: PatchOptions) -> Floats32:
    """Return samples × channels × side × side, scaled for the network."""
    grey_or_rgb = (
        np.stack([grey(patch) for patch in patches])[:, None]
        if how.channels == 1
        else patches[..., ::-1].transpose(0, 3, 1, 2)
    )
    values = grey_or_rgb.astype(np.float32)
    if how.pixels == "unit":
        values /= 255.0
    elif how.pixels == "standard":
        values -= values.mean(axis=(1, 2, 3), keepdims=True)
        spread = values.std(axis=(1, 2, 3), keepdims=True)
        values /= np.where(spread > 0, spread, 1.0)
    return np.ascontiguousarray(values)


_KEYS: Final = ("vectors", "codes", "ids", *FEATURES)


def from_file(spec: str, keypoints: Keypoints, names: Mapping[str, object]) -> DescribedRows:
    """Read descriptors from .npz or .npy.

    A .npz has `vectors`, or `codes` of packed bits, and `ids`. A .npz may also hold `keypoints` and
    `descriptors`, as learned features are stored; then the keypoints must have been read from it.
    `{scene}` and `{image}` in the path stand for the scene's name and the image's number. With ids
    the rows are found by them, and keypoints without a row fail; without, there must be one row a
    keypoint, in their order.
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
    """Describe keypoints by `module:function`.

    It is called with the image (blue, green, red) and the keypoints. It returns one row a keypoint:
    floats, or uint8 for packed bits, or booleans for bits.
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
    values = arrays["vectors"] if codes is None else codes
    _check_matrix(values, path)
    if codes is None and values.dtype == np.uint8:
        values = values.astype(np.float64)
    if ids is None:
        return values, None
    checks.check_lengths(ids=len(ids), descriptors=len(values))
    named = Ids.of(ids if ids.dtype.kind in "iu" else ids.tolist(), "keypoint")
    return values, named


def _learned(points: Array, values: Array, keypoints: Keypoints, path: str) -> tuple[Array, Ids]:
    """Return learned descriptors, one a row, with the ids of their keypoints.

    SuperPoint stores one a column.
    """
    _check_matrix(_not_bytes(values, path), path)
    _check_matrix(points, f"{path}, keypoints")
    if len(values) != len(points) and values.shape[1] == len(points):
        values = values.T
    checks.check_lengths(keypoints=len(points), descriptors=len(values))
    ids = Ids.count(len(points))
    at = keypoints.ids.match(ids) if keypoints.ids.kind == "integer" else np.full(1, -1)
    if (at < 0).any() or not np.array_equal(points[at, :2].astype(np.float64), keypoints.xy):
        raise MismatchError(
            f"{path} describes other keypoints. Set keypoints: {{source: file, path: …}}."
        )
    return _pack_bits(values), ids


def _not_bytes(values: Array, path: str) -> Array:
    if values.dtype == np.uint8:
        raise FormatError(
            f"{path} holds uint8: numbers or packed bits. Save 'vectors' or 'codes' in a .npz."
        )
    return values


def _pack_bits(values: Array) -> Array:
    return np.packbits(values, axis=1) if values.dtype == bool else values


def _check_matrix(values: Array, what: str) -> None:
    if values.ndim != 2 or 0 in values.shape or values.dtype.kind not in "biuf":
        raise errors.ShapeError(
            f"{what}: descriptors are rows of numbers, found shape {values.shape} of "
            f"{values.dtype}."
        )


def _check_count(values: Array, keypoints: Keypoints, what: str) -> None:
    if len(values) != len(keypoints):
        raise MismatchError(
            f"{what}: {len(values)} descriptors for {len(keypoints)} keypoints. Give one row a "
            f"keypoint{'' if os.path.sep not in what else ', or save ids with them'}."
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
    "SURF": opencv_features.surf,
}


@dataclass(frozen=True, eq=False)
class Described:
    """Keypoints with descriptors row by row, and ids of failed ones."""

    keypoints: Keypoints
    vectors: NDArray[np.float32] | Codes
    kind: Kind
    failed: Ids

    def __len__(self) -> int:
        return len(self.keypoints)

    def __repr__(self) -> str:
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
    """Describe keypoints by a descriptor of `DESCRIPTORS`, such as SIFT, ORB or SURF.

    A spec may also be an array file (`{scene}` and `{image}` in it are filled from `names`), a
    network of patches (`onnx:FILE`, `torch:FILE`) or `module:function`. `options` go to OpenCV, the
    patches (`PatchOptions`) or the function. A keypoint that cannot be described, or whose
    descriptor is all zeros, has failed; NaN is refused.
    """
    checks.require(spec, str, "A descriptor", "a name such as 'SIFT', a file or 'module:function'")
    if not len(keypoints):
        raise InputError(f"No keypoints for {spec}. Loosen the limits.")
    rows = _rows(as_bgr(image), keypoints, spec, dict(options or {}), names or {})
    kind: Kind = "binary" if rows.values.dtype == np.uint8 else "float"
    if kind == "float":
        rows = _usable(rows, keypoints.ids, spec)
    if not len(rows.places):
        raise InputError(f"{spec} described none of {len(keypoints)} keypoints. Use larger ones.")
    vectors: NDArray[np.float32] | Codes
    if kind == "binary":
        vectors = Codes(rows.values, 8 * rows.values.shape[1])
    else:
        vectors = np.ascontiguousarray(rows.values, np.float32)
        vectors.flags.writeable = False
    lost = np.setdiff1d(np.arange(len(keypoints)), rows.places)
    return Described(keypoints.take(rows.places), vectors, kind, keypoints.ids.take(lost))


def _rows(
    image: Image,
    keypoints: Keypoints,
    spec: str,
    options: dict[str, Any],
    names: Mapping[str, object],
) -> DescribedRows:
    families = {_plain(name): family for name, family in DESCRIPTORS.items()}
    if _plain(spec) in families:
        return families[_plain(spec)](image, keypoints, options)
    if network_file(spec) is not None:
        values = describe_keypoints(spec, image, keypoints, options)
        return DescribedRows(np.arange(len(keypoints)), values)
    if is_file(spec):
        return from_file(spec, keypoints, names)
    if ":" in spec:
        return by_function(spec, image, keypoints, options)
    hint = did_you_mean(spec, DESCRIPTORS)
    raise UsageError(
        f"Unknown descriptor {spec!r}.{hint} Known: {', '.join(DESCRIPTORS)}, .npy and .npz "
        "files, onnx:FILE, torch:FILE and module:function."
    )


def _plain(name: str) -> str:
    return name.lower().replace("-", "").replace("_", "")


def _usable(rows: DescribedRows, ids: Ids, spec: str) -> DescribedRows:
    """Drop descriptors that are all zeros; refuse NaN and Inf."""
    with np.errstate(over="ignore"):
        values = np.asarray(rows.values, np.float32)
    bad = np.flatnonzero(~np.isfinite(values).all(axis=1))
    if len(bad):
        row = int(bad[0])
        raise errors.ValueRangeError(
            f"{spec} gives NaN, Inf or a number beyond float32 for keypoint "
            f"{ids[int(rows.places[row])]!r} (row {row}); {len(bad)} such rows. Remove these "
            "keypoints."
        )
    nonzero = values.any(axis=1)
    return DescribedRows(rows.places[nonzero], values[nonzero])
