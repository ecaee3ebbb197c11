"""`py:MODULE:FUNCTION`: your own function from a list of texts to an array of vectors."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

from assay.errors import UsageError, error_text
from assay.io.fingerprints import fingerprints
from assay.models.encoder import Encoder, EncoderRequest

__all__ = ["load", "named_callable"]


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
