"""`py:MODULE:FUNCTION`: your own function from a list of texts to an array of vectors."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from importlib import import_module
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import find_spec
from typing import Any

from assay.errors import UsageError, error_text
from assay.io.fingerprints import fingerprints
from assay.models.encoder import Encoder, EncoderRequest

__all__ = ["load", "named_callable", "own_callable"]


def load(request: EncoderRequest) -> Encoder:
    """Import the function; the current folder is searched as `python -m` does.

    What a function does cannot be seen from outside, so its vectors are cached only if it has an
    attribute `fingerprint`, a text that you change whenever its vectors change.
    """
    request.settings.refuse("max_length", "py:", "cut the texts in your function")
    function = named_callable(request.argument, "py:MODULE:FUNCTION")
    given = getattr(function, "fingerprint", None)
    return Encoder(
        request.spec,
        function,
        lambda: {"function": request.argument, "fingerprint": given, "source": _source(function)},
        repeatable=isinstance(given, str),
    )


def _source(function: Any) -> str | None:
    """The digest of the file that a function is written in, where there is one."""
    file = getattr(sys.modules.get(getattr(function, "__module__", "")), "__file__", None)
    return fingerprints([file])[file]["sha256"] if file and os.path.isfile(file) else None


def named_callable(name: str, form: str) -> Callable[..., Any]:
    """What `module:function` names; `form` says in messages how it should be written."""
    module, colon, attribute = name.partition(":")
    if not (module and colon and attribute):
        raise UsageError(f"{name!r} names no function. Write {form}.")
    found = getattr(_import(module), attribute, None)
    if not callable(found):
        raise UsageError(f"The module {module!r} has no function {attribute!r}.")
    function: Callable[..., Any] = found
    return function


def own_callable(name: str, form: str) -> Callable[..., Any]:
    """What `module:function` names, if it is written in a module of the user's own.

    That is one in the current folder or in a folder of PYTHONPATH: not the standard library, and
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
    """Whether this name is found there, and an import takes it from there; nothing is imported."""
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
    """The file of a module or the folders of a package, without links."""
    if spec is None:
        return []
    origin = [spec.origin] if spec.origin else list(spec.submodule_search_locations or ())
    return [os.path.realpath(one) for one in origin]


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
