"""Modules and public names that are imported when they are first used.

For what few commands use and start-up should not pay for: derivations, layouts of pages, archives,
and the rooms of the house, whose doors list their public names without importing them.
"""

from __future__ import annotations

import os
from importlib import import_module
from itertools import pairwise

TYPE_CHECKING = False  # that of `typing`, whose import would be most of the cost of `import assay`
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


class OnDemand:
    """Stands for a module: its attributes are functions that import the module to be called.

    >>> OnDemand("math").sqrt(9.0)
    3.0
    """

    def __init__(self, module: str) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        """Return a function that calls the module's function of this name."""
        module = self._module

        def call(*args: Any, **named: Any) -> Any:
            return getattr(import_module(module), name)(*args, **named)

        call.__name__ = call.__qualname__ = name
        return call


def open_door(package: str, file: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` for a package that imports its public names on demand.

    The names stand once, in the stub `__init__.pyi` beside `file`, a line each, where type checkers
    read them: `from assay.bench.evaluate import run_bench as run_bench`.

    Args:
        package: The package's `__name__`.
        file: The package's `__file__`.

    Returns:
        The two functions; a submodule is an attribute, too, imported when it is first looked up.
    """
    homes: dict[str, str] = {}

    def read_homes() -> dict[str, str]:
        if not homes:
            module = ""
            with open(os.path.splitext(file)[0] + ".pyi", encoding="utf-8") as stub:
                for word, following in pairwise(stub.read().replace(",", " ").split()):
                    if word == "from":
                        module = following
                    elif word == "as":
                        homes[following] = module
        return homes

    def find_attribute(name: str) -> Any:
        if name == "__all__":
            return sorted(key for key, home in read_homes().items() if home != package)
        if not name.startswith("_"):
            if read_homes().get(name, package) != package:
                value = getattr(import_module(homes[name]), name)
                setattr(import_module(package), name, value)
                return value
            path = os.path.join(os.path.dirname(file), name)
            if os.path.exists(f"{path}.py") or os.path.exists(os.path.join(path, "__init__.py")):
                return import_module(f"{package}.{name}")
        names = () if name.startswith("_") else read_homes()
        hint = OnDemand("assay.core.text").did_you_mean(name, names)
        raise AttributeError(f"module {package!r} has no attribute {name!r}.{hint}")

    def list_attributes() -> list[str]:
        attributes = vars(import_module(package))
        return sorted({*read_homes(), *(name for name in attributes if name.startswith("__"))})

    return find_attribute, list_attributes
