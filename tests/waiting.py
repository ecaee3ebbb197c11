"""Waiting for something that can be seen. No test sleeps and hopes that it was long enough."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

PATIENCE = 600.0  # seconds; only something that never happens takes that long


def until(happened: Callable[[], object]) -> None:
    """Return as soon as it has happened; fail if it never does."""
    deadline = time.monotonic() + PATIENCE
    pause = threading.Event()
    while not happened():
        assert time.monotonic() < deadline, f"it did not happen within {PATIENCE:.0f} s"
        pause.wait(0.01)
