"""The one place that talks to vl-convert: the script that draws charts, and charts as files."""

from __future__ import annotations

import json
from functools import cache
from typing import Any, Final

from assay.errors import UsageError
from assay.io.packages import need

__all__ = ["FORMATS", "drawing_script", "rendered"]

FORMATS: Final = ("svg", "png", "pdf")
_PIXELS: Final = 2.0  # for each unit, so that a PNG is sharp on paper and on fine screens


def _converter() -> Any:
    return need("vl_convert", "Reports with charts", "report")


@cache
def drawing_script() -> str:
    """Vega, Vega-Lite and vega-embed as one script."""
    text: str = _converter().javascript_bundle("window.vegaEmbed = vegaEmbed;")
    return text


def rendered(spec: dict[str, Any], format: str) -> bytes:
    """A chart as SVG, PNG or PDF."""
    if format not in FORMATS:
        raise UsageError(f"A figure is written as {', '.join(FORMATS)}; found {format!r}.")
    draw = getattr(_converter(), f"vegalite_to_{format}")
    options = {"scale": _PIXELS} if format == "png" else {}
    found: str | bytes = draw(json.dumps(spec), **options)
    return found.encode() if isinstance(found, str) else found
