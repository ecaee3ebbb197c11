"""`py:MODULE:FUNCTION`: your own function from a list of texts to an array of vectors."""

from __future__ import annotations

import os
import sys
from typing import Any

from assay.core.specs import named_callable
from assay.io.fingerprints import fingerprints
from assay.models.encoding import Encoder, EncoderRequest


def load(request: EncoderRequest) -> Encoder:
    """Import the function; the current folder is searched as `python -m` does.

    What a function does cannot be seen from outside, so its vectors are cached only if it has an
    attribute `fingerprint`, a text that you change whenever its vectors change.
    """
    request.settings.refuse("max_length", "py:", "truncate texts in your function")
    function = named_callable(request.argument, "py:MODULE:FUNCTION")
    mark = getattr(function, "fingerprint", None)
    return Encoder(
        request.spec,
        function,
        lambda: {"function": request.argument, "fingerprint": mark, "source": _source(function)},
        repeatable=isinstance(mark, str),
    )


def _source(function: Any) -> str | None:
    """Return the digest of the file that a function is written in, where there is one."""
    file = getattr(sys.modules.get(getattr(function, "__module__", "")), "__file__", None)
    return fingerprints([file])[file]["sha256"] if file and os.path.isfile(file) else None
