"""The compiled kernels, and the choice between them and their numpy twins.

Both give the same bytes and the same errors; only the speed differs. The choice is made when
a kernel is first needed, never while the package is imported. `ASSAY_NATIVE=0` in the
environment forces the twins.
"""

from __future__ import annotations

import os
import signal
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Literal, cast

if TYPE_CHECKING:
    from assay.native.signatures import Kernels

__all__ = ["Engine", "engine_name", "kernels", "load"]

Engine = Literal["native", "numpy"]


@cache
def kernels() -> Kernels:
    """Return the module whose functions do the heavy work on this machine."""
    return load(engine_name())


@cache
def engine_name() -> Engine:
    """Tell which kernels are in use: "native" (compiled) or "numpy" (the twins).

    >>> engine_name() in ("native", "numpy")
    True
    """
    if os.environ.get("ASSAY_NATIVE", "1") == "0":
        return "numpy"
    try:
        load("native")
    except ImportError:
        return "numpy"
    return "native"


@cache
def load(engine: Engine) -> Kernels:
    """Import the kernels of one engine; ImportError if they were not built."""
    if engine == "numpy":
        return cast("Kernels", import_module("assay.native.twins"))
    # The compiled module runs some Python while it starts and drops what is raised there: a signal
    # waits until it has started.
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        return cast("Kernels", import_module("assay.native._kernels"))
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        return cast("Kernels", import_module("assay.native._kernels"))
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
