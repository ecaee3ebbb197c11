"""Functions that a user names as `module:function`, and whether they are the user's own."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from importlib import import_module
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import find_spec
from typing import Any, cast

from assay.errors import UsageError, error_text


def named_callable(name: str, form: str) -> Callable[..., Any]:
    """Import the function that `module:function` names; `form` is for messages."""
    module, colon, attribute = name.partition(":")
    if not (module and colon and attribute):
        raise UsageError(f"{name!r} names no function. Write {form}.")
    function = getattr(_import(module), attribute, None)
    if not callable(function):
        raise UsageError(f"The module {module!r} has no function {attribute!r}.")
    return cast("Callable[..., Any]", function)


def own_callable(name: str, form: str) -> Callable[..., Any]:
    """Import the function that `module:function` names, if it is the user's own.

    It is written in the current folder or in a folder of PYTHONPATH: not the standard library, and
    not an installed package, whose functions do things that nobody meant for a model.
    """
    module = name.partition(":")[0].partition(".")[0]
    function = named_callable(name, form) if _is_own(module) else None
    written = str(getattr(function, "__module__", "") or "").partition(".")[0]
    if function is None or not _is_own(written):
        raise UsageError(
            f"A file may name a function of your own only, written in a module in the current "
            f"folder or in a folder of PYTHONPATH; {name!r} is none."
        )
    return function


def _is_own(module: str) -> bool:
    """Return whether an import takes this name from the user's folders; imports nothing."""
    folders = [os.getcwd(), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    if not module.isidentifier():
        return False
    there = PathFinder.find_spec(module, folders)
    try:
        taken = find_spec(module) or there
    except ValueError:  # a module that was made by hand has no spec
        return False
    return there is not None and _place(there) == _place(taken)


def _place(spec: ModuleSpec | None) -> list[str]:
    """Return the file of a module or the folders of a package, without links."""
    if spec is None:
        return []
    origin = [spec.origin] if spec.origin else list(spec.submodule_search_locations or ())
    return [os.path.realpath(path) for path in origin]


def _import(module: str) -> Any:
    here = os.getcwd()
    if here not in sys.path and "" not in sys.path:
        sys.path.append(here)
    try:
        return import_module(module)
    except ImportError as error:
        raise UsageError(
            f"The module {module!r} cannot be imported: {error}. Is it installed, or in the "
            "current folder?"
        ) from error
    except Exception as error:  # the module is not ours: importing it can fail in any way
        raise UsageError(
            f"The module {module!r} fails when imported: {error_text(error)}."
        ) from error
