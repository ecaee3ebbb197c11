"""Functions of a module that is imported when one of them is first called.

For what few commands use and start-up should not pay for: derivations, layouts of pages, archives.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

__all__ = ["OnDemand"]


class OnDemand:
    """Stands for a module: its attributes are functions that import the module to be called.

    >>> OnDemand("math").sqrt(9.0)
    3.0
    """

    def __init__(self, module: str) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        """The function of this name."""
        module = self._module

        def call(*args: Any, **named: Any) -> Any:
            return getattr(import_module(module), name)(*args, **named)

        call.__name__ = call.__qualname__ = name
        return call
