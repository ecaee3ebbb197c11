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
    """OpenCV on one thread, and silent: keypoints and sums in one order, errors only as errors.

    Scenes are the unit to run side by side, in processes. What was set before is put back.
    """
    cv2 = opencv()
    log = cv2.utils.logging
    threads, level = cv2.getNumThreads(), log.getLogLevel()
    cv2.setNumThreads(1)
    log.setLogLevel(log.LOG_LEVEL_SILENT)
    try:
        yield cv2
    finally:
        cv2.setNumThreads(threads)
        log.setLogLevel(level)
