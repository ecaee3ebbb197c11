"""Networks that describe patches: `onnx:FILE` by onnxruntime, `torch:FILE` by TorchScript.

A network such as HardNet or SOSNet takes square patches, samples × channels × side × side, and
gives one descriptor for each. A patch is cut around a keypoint, turned by its angle; its side is
`magnification` times the keypoint's scale, that is half of its size (12 covers SIFT's own grid).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from threading import Lock
from typing import Any, Final, Literal, get_args

import numpy as np

from assay.arrays import Array, Floats, Floats32, Ints
from assay.core.checks import check_choice, check_cutoff
from assay.core.text import did_you_mean
from assay.errors import FormatError, InputError, StorageError, UsageError, error_text, need
from assay.models.adapters.onnx import open_session
from assay.tasks.vision.images import Image, as_bgr, grey, steady
from assay.tasks.vision.keypoints import UPRIGHT, Keypoints
from assay.tasks.vision.opencv_features import positive_option

__all__ = [
    "PatchNetwork",
    "PatchOptions",
    "cut_patches",
    "describe_keypoints",
    "describe_patches",
    "load_network",
    "network_file",
]

_KINDS: Final = ("onnx", "torch")
_CODE_OF_OTHERS: Final = Lock()  # a script need not bear being called by two threads


def network_file(spec: str) -> str | None:
    """The file of `onnx:FILE` or `torch:FILE`; None for any other descriptor.

    >>> network_file("onnx:hardnet.onnx"), network_file("SIFT")
    ('hardnet.onnx', None)
    """
    kind, colon, file = spec.partition(":")
    return file if colon and kind in _KINDS else None


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
        """From the options of a descriptor; an unknown one is answered with the nearest."""
        for key in options:
            if key not in cls.__dataclass_fields__:
                hint = did_you_mean(key, cls.__dataclass_fields__)
                known = ", ".join(cls.__dataclass_fields__)
                raise UsageError(f"Unknown option {key!r} of a network.{hint} Known: {known}.")
        made = cls(**options)
        for key in ("side", "channels", "batch"):
            if getattr(made, key) is not None:
                check_cutoff(getattr(made, key), key)
        if made.channels not in (None, 1, 3):
            raise UsageError(f"channels must be 1 or 3, found {made.channels!r}.")
        positive_option({"magnification": made.magnification}, "magnification", 12.0)
        check_choice(made.orientation, get_args(Orientation), "orientation")
        check_choice(made.pixels, get_args(Pixels), "pixels")
        return made

    def of_network(self, network: PatchNetwork) -> PatchOptions:
        """With what the network says; options that contradict it are refused."""
        found: dict[str, int] = {}
        for key, usual in (("side", 32), ("channels", 1)):
            own, asked = getattr(network, key), getattr(self, key)
            if None not in (own, asked) and own != asked:
                raise UsageError(f"{network.name} takes patches of {key} {own}, not {asked}.")
            found[key] = own or asked or usual
        return replace(self, **found)  # type: ignore[arg-type]


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
        raise StorageError(f"{spec}: there is no file {file!r}.") from None
    return _load(kind, file, stamp.st_mtime_ns, stamp.st_size)


@lru_cache(8)
def _load(kind: str, file: str, *stamp: int) -> PatchNetwork:
    return _load_onnx(file) if kind == "onnx" else _load_torch(file)


def _load_onnx(file: str) -> PatchNetwork:
    session = open_session(file, file, "onnx")
    given = session.get_inputs()
    shape = given[0].shape if len(given) == 1 and given[0].type == "tensor(float)" else ()
    if len(shape) != 4:
        found = ", ".join(f"{one.name}: {one.type} {one.shape}" for one in given)
        raise FormatError(
            f"{file} asks for {found}. A network of patches takes one float tensor of samples × "
            "channels × side × side."
        )
    batch, channels, side, _ = (size if isinstance(size, int) else None for size in shape)
    name = given[0].name
    return PatchNetwork(file, lambda x: session.run(None, {name: x})[0], side, channels, batch)


def _load_torch(file: str) -> PatchNetwork:
    torch = need("torch", "A descriptor in TorchScript", "torch")
    try:
        module = torch.jit.load(file, map_location="cpu").eval()
    except Exception as error:  # torch may raise anything
        raise FormatError(
            f"{file} cannot be loaded as TorchScript: {error_text(error)}. Save it by "
            "torch.jit.script or torch.jit.trace."
        ) from None

    def run(patches: Floats32) -> Any:
        with _CODE_OF_OTHERS, torch.inference_mode():
            return module(torch.from_numpy(patches)).numpy()

    return PatchNetwork(file, run)


def describe_patches(spec: str, patches: Image, options: Mapping[str, Any]) -> Array:
    """A row for each patch of samples × rows × columns × (blue, green, red), of any square size."""
    network = load_network(spec)
    how = PatchOptions.of(options).of_network(network)
    return _describe(network, _resize(patches, how.side or 0), how)


def describe_keypoints(
    spec: str, image: Image, keypoints: Keypoints, options: Mapping[str, Any]
) -> Array:
    """A row for each keypoint, from the patch around it."""
    network = load_network(spec)
    how = PatchOptions.of(options).of_network(network)
    patches = cut_patches(
        image,
        keypoints,
        side=how.side or 0,
        magnification=how.magnification,
        upright=how.orientation == "upright",
    )
    return _describe(network, patches, how)


def cut_patches(
    image: Any,
    keypoints: Keypoints,
    *,
    side: int = 32,
    magnification: float = 12.0,
    upright: bool = False,
) -> Image:
    """Square patches around keypoints, in colour: samples × side × side × (blue, green, red).

    Large ones are cut from a smaller copy of the image, so that nothing finer than a pixel of the
    patch is left in them; beyond the edge the outermost pixel is repeated.
    """
    steps = keypoints.size / 2 * magnification / side  # pixels of the image in one of the patch
    level = np.maximum(np.floor(np.log2(np.maximum(steps, 1e-9))), 0).astype(np.int64)
    angle = np.where((keypoints.angle == UPRIGHT) | upright, 0.0, np.deg2rad(keypoints.angle))
    patches = np.empty((len(keypoints), side, side, 3), np.uint8)
    with steady() as cv2:
        for row, smaller in _by_level(cv2, as_bgr(image), level):
            scale = 0.5 ** level[row]
            to_image = _patch_map(
                keypoints.xy[row] * scale, steps[row] * scale, float(angle[row]), side
            )
            patches[row] = cv2.warpAffine(
                smaller,
                to_image,
                (side, side),
                flags=cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP,
                borderMode=cv2.BORDER_REPLICATE,
            )
    return patches


def _by_level(cv2: Any, image: Image, level: Ints) -> Any:
    """Rows with the copy of the image that they are cut from, from the largest to the smallest."""
    for height in range(int(level.max(initial=0)) + 1):
        for row in np.flatnonzero(level == height):
            yield row, image
        image = cv2.pyrDown(image)


def _patch_map(place: Floats, step: float, angle: float, side: int) -> Floats:
    """From pixels of the patch to pixels of the image; the keypoint lies in the middle."""
    turn = step * np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    middle = np.full(2, (side - 1) / 2)
    return np.hstack([turn, (place - turn @ middle)[:, None]])


def _resize(patches: Image, side: int) -> Image:
    with steady() as cv2:
        found = [cv2.resize(patch, (side, side)) for patch in patches]
    return np.stack(found)


def _describe(network: PatchNetwork, patches: Image, how: PatchOptions) -> Array:
    batch = network.batch or how.batch
    found = [
        _run(network, _as_input(patches[start : start + batch], how), batch)
        for start in range(0, len(patches), batch)
    ]
    return np.concatenate(found)


def _run(network: PatchNetwork, patches: Floats32, batch: int) -> Array:
    """Descriptors of a batch; where the file fixes its size, the last one is filled up."""
    n = len(patches)
    if network.batch is not None and n < batch:
        patches = np.concatenate([patches, np.zeros((batch - n, *patches.shape[1:]), np.float32)])
    try:
        made = np.asarray(network.run(patches))
    except Exception as error:  # networks fail in their own ways
        raise InputError(f"{network.name} failed: {error_text(error)}.") from error
    if made.ndim < 2 or len(made) != len(patches) or made.dtype.kind != "f":
        raise FormatError(
            f"{network.name} gave {made.dtype} of the shape {made.shape} for {len(patches)} "
            "patches; expected one row of floats for each."
        )
    return made[:n].reshape(n, -1)


def _as_input(patches: Image, how: PatchOptions) -> Floats32:
    """Samples × channels × side × side as the network wants its numbers."""
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
