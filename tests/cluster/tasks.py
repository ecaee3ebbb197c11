"""Functions that workers run in tests."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import numpy as np

from assay.errors import MissingPackageError, ShapeError


def squared(number: int) -> int:
    return number * number


def total(*parts: np.ndarray) -> float:
    return float(sum(part.sum() for part in parts))


def ones(count: int) -> np.ndarray:
    return np.ones(count)


def refuse(name: str) -> None:
    raise ShapeError(f"{name} has no shape.")


def lack() -> None:
    raise MissingPackageError("nothing", "this test", "none")


def crash() -> None:
    raise RuntimeError("odd")


def die_once(marker: str) -> str:
    """Kill the worker the first time."""
    path = Path(marker)
    if not path.exists():
        path.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return "alive"
