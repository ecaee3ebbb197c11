"""OpenCV, imported when it is needed, and made to give the same bytes each time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from assay.io.packages import need

__all__ = ["opencv", "steady"]


def opencv() -> Any:
    """The module cv2, or the command that installs it."""
    return need("cv2", "reading and describing images", "vision")


@contextmanager
def steady() -> Iterator[Any]:
    """OpenCV on one thread: keypoints and sums in one order, whatever the machine.

    Scenes are the unit to run side by side, in processes. The number of threads is put back.
    """
    cv2 = opencv()
    before = cv2.getNumThreads()
    cv2.setNumThreads(1)
    try:
        yield cv2
    finally:
        cv2.setNumThreads(before)
