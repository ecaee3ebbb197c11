"""Images as OpenCV has them: rows × columns × (blue, green, red), eight bits each."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assay.core import checks
from assay.errors import FormatError, ShapeError, ValueRangeError, need
from assay.io.formats import check_path
from assay.io.streams import open_chunks

__all__ = ["Image", "as_bgr", "grey", "opencv", "read_image", "steady"]


def opencv() -> Any:
    """The module cv2, or the command that installs it."""
    return need("cv2", "reading and describing images", "vision")


@contextmanager
def steady() -> Iterator[Any]:
    """OpenCV on one thread, and silent: keypoints and sums in one order, errors only as errors.

    These settings are the whole process's: the first of several threads makes them, and the last
    to leave puts back what was set before. Scenes are the unit to run side by side.
    """
    cv2 = opencv()
    with _SETTINGS.lock:
        if not _SETTINGS.users:
            _SETTINGS.make(cv2)
        _SETTINGS.users += 1
    try:
        yield cv2
    finally:
        with _SETTINGS.lock:
            _SETTINGS.users -= 1
            if not _SETTINGS.users:
                _SETTINGS.put_back(cv2)


class _OpenCVSettings:
    """What OpenCV was set to, and how many blocks need it otherwise."""

    def __init__(self) -> None:
        self.lock, self.users = Lock(), 0
        self.threads = self.level = 0

    def make(self, cv2: Any) -> None:
        log = cv2.utils.logging
        self.threads, self.level = cv2.getNumThreads(), log.getLogLevel()
        cv2.setNumThreads(1)
        log.setLogLevel(log.LOG_LEVEL_SILENT)

    def put_back(self, cv2: Any) -> None:
        cv2.setNumThreads(self.threads)
        cv2.utils.logging.setLogLevel(self.level)


_SETTINGS = _OpenCVSettings()


Image = NDArray[np.uint8]

# How a file begins, where its last part begins, and how that ends; more may follow.
_ENDS = ((b"\x89PNG", b"IEND", b"\xaeB`\x82"), (b"\xff\xd8\xff", b"\xff\xda", b"\xff\xd9"))


def read_image(source: str | os.PathLike[str] | NDArray[Any]) -> Image:
    """An image file, or an array, in colour with eight bits a channel.

    Grey becomes three equal channels, sixteen bits are scaled to eight, transparency is dropped.
    Pixels stay where the file has them: a homography knows nothing of a camera's rotation tag.
    """
    if isinstance(source, np.ndarray):
        return as_bgr(source)
    name = os.fspath(check_path(source))
    data = b"".join(open_chunks(name))
    _refuse_truncated(data, name)
    return as_bgr(_decode(data, name), what=name)


def _refuse_truncated(data: bytes, name: str) -> None:
    """OpenCV fills what is missing with grey, without an error."""
    for start, last, end in _ENDS:
        at = data.rfind(last)
        if data.startswith(start) and (at < 0 or data.find(end, at) < 0):
            raise FormatError(f"{name} is truncated: its end is missing. Fetch it again.")


def _decode(data: bytes, name: str) -> NDArray[Any]:
    with steady() as cv2:
        flags = cv2.IMREAD_COLOR | cv2.IMREAD_ANYDEPTH | cv2.IMREAD_IGNORE_ORIENTATION
        try:
            image: NDArray[Any] | None = cv2.imdecode(np.frombuffer(data, np.uint8), flags)
        except cv2.error as error:
            raise FormatError(f"{name} cannot be read as an image: {error.err}.") from None
    if image is None:
        raise FormatError(
            f"{name} cannot be read as an image: {len(data)} bytes that OpenCV does not "
            "understand. Is it damaged, or of another format?"
        )
    return image


def as_bgr(image: Any, *, what: str = "The image") -> Image:
    """An array as colour with eight bits a channel; the channels of colour are blue, green, red."""
    array = checks.plain_array(image, what)
    if array.ndim not in (2, 3) or 0 in array.shape or array.shape[2:] not in ((), (1,), (3,)):
        raise ShapeError(
            f"{what} must have the shape rows × columns or rows × columns × 3 (blue, green, red); "
            f"found {array.shape}."
        )
    eight = _eight_bits(array, what)
    if eight.ndim == 2:
        eight = eight[:, :, None]
    return np.ascontiguousarray(np.broadcast_to(eight, (*eight.shape[:2], 3)))


def _eight_bits(array: NDArray[Any], what: str) -> Image:
    if array.dtype == np.uint8:
        return array
    if array.dtype.newbyteorder("=") == np.uint16:  # 65535 = 257 · 255; halves go up
        return ((array.astype(np.uint32) + 128) // 257).astype(np.uint8)
    raise ValueRangeError(
        f"{what} holds {array.dtype}; images are uint8 or uint16. Scale it, so that the range of "
        "its values is known."
    )


def grey(image: Image) -> Image:
    """The brightness of a colour image, as OpenCV computes it."""
    cv2 = opencv()
    result: Image = cv2.cvtColor(image, cv2.COLOR_BGR2GRAY)
    return result
