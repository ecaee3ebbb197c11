"""The docstrings of the standard library, as a program that a new Python runs.

Packages that are loaded change the standard library for a whole process: Ray gives `pickle` and
others its own parts. So this file imports nothing else, and prints what it finds as JSON.
"""

from __future__ import annotations

import inspect
import json
import sys
import warnings
from collections.abc import Iterable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from importlib import import_module
from io import StringIO
from pkgutil import iter_modules
from types import ModuleType
from typing import Any, Final

_LEFT_ALONE: Final = {
    *("antigravity", "this"),  # a browser, a poem
    *("idlelib", "tkinter", "turtle", "turtledemo"),  # windows
    *("readline", "rlcompleter"),  # change the terminal
    *("distutils", "ensurepip", "lib2to3", "pip", "venv"),  # replaced, or about installing
    *("encodings", "pydoc_data", "test"),  # tables, and no library
}
FEWEST_WORDS: Final = 3


def _collect() -> list[tuple[str, str, str]]:
    """Yield names, summary lines and bodies of docstrings, each name once."""
    docstrings: dict[str, tuple[str, str, str]] = {}
    modules = list(_modules(sys.stdlib_module_names - _LEFT_ALONE))
    for module in modules:  # after all imports: `curses.has_key` the module hides the function
        for name, value in _public(module):
            parts = _split(value)
            if parts is not None:
                docstrings.setdefault(name, (name, *parts))
    return sorted(docstrings.values())


def _modules(names: Iterable[str]) -> Iterator[ModuleType]:
    """Yield public modules, and those inside public packages."""
    for name in sorted(names):
        module = None if name.rpartition(".")[2].startswith("_") else _import(name)
        if module is None:
            continue
        yield module
        inner = iter_modules(getattr(module, "__path__", ()))
        yield from _modules(f"{name}.{submodule.name}" for submodule in inner)


def _import(name: str) -> ModuleType | None:
    """Return a module, if this platform has it; what it says when imported is not heard."""
    try:
        with redirect_stdout(StringIO()), redirect_stderr(StringIO()):
            return import_module(name)
    except Exception:  # absent here, or broken: not part of the collection
        return None


def _public(module: ModuleType) -> Iterator[tuple[str, Any]]:
    """Functions, classes and their methods that a module shows, under their full names."""
    for name, value in sorted(vars(module).items()):
        if name.startswith("_") or name.endswith("hook"):  # programs put their own hooks there
            continue
        if inspect.isclass(value) and _is_ours(value):
            home = f"{_home(value, module)}.{value.__qualname__}"
            yield home, value
            yield from _methods(value, home)
        elif inspect.isroutine(value) and _is_ours(value):
            yield f"{_home(value, module)}.{name}", value


def _methods(owner: type, home: str) -> Iterator[tuple[str, Any]]:
    for name, value in sorted(vars(owner).items()):
        function = getattr(value, "__func__", value)  # of a classmethod or staticmethod
        if not name.startswith("_") and inspect.isroutine(function) and _is_ours(function):
            yield f"{home}.{name}", function


def _is_ours(value: Any) -> bool:
    """Tell whether the standard library defines it; a method of C names no module."""
    module = getattr(value, "__module__", None)
    return module is None or (
        isinstance(module, str) and module.partition(".")[0] in sys.stdlib_module_names
    )


def _home(value: Any, shown_by: ModuleType) -> str:
    """Return the public module an object is known by: what `_io` defines belongs to `io`."""
    module = str(getattr(value, "__module__", None) or shown_by.__name__)
    if not module.startswith("_"):
        return "os" if module in ("posix", "nt") else module
    public = module.lstrip("_")
    return public if public in sys.stdlib_module_names else shown_by.__name__


def _split(value: Any) -> tuple[str, str] | None:
    """Summary line and body of an object's own docstring, if it has both."""
    text = getattr(value, "__doc__", None)
    if not isinstance(text, str):
        return None
    summary, _, rest = inspect.cleandoc(text).partition("\n")
    blank, _, body = rest.partition("\n")
    if not summary.strip() or blank.strip() or len(body.split()) < FEWEST_WORDS:
        return None
    return summary.strip(), body.strip("\n").rstrip()


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # many modules, and some classes, are deprecated
    docstrings = json.dumps(_collect())
    sys.stdout.write(docstrings)
