"""Per-query values packed small enough to travel inside a page.

Fractions are kept to four decimals, as the tables show them: two bytes each, low bytes before high
ones (they compress better apart). Other numbers are 32-bit floats.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from assay.report.html_parts import packed
from assay.report.tables import printable

if TYPE_CHECKING:
    from assay.report.contents import Report

__all__ = ["MOST_VALUES", "packed_values"]

MOST_VALUES: Final = 400_000  # beyond, a page would grow by more than a megabyte
_STEPS: Final = 10_000
_UNDEFINED: Final = 65_535


def packed_values(report: Report) -> dict[str, Any]:
    """Queries, and for each measure that fits the values of every run, for the page's script."""
    values = report.aligned.values
    n_runs, n_measures, n_queries = values.shape
    kept = min(n_measures, MOST_VALUES // max(n_runs * n_queries, 1))
    return {
        "queries": [printable(query) for query in report.aligned.query_ids] if kept else [],
        "measures": [_packed(values[:, number]) for number in range(kept)],
    }


def _packed(values: NDArray[np.float64]) -> dict[str, str]:
    known = values[~np.isnan(values)]
    if known.size and (known.min() < 0 or known.max() * _STEPS >= _UNDEFINED):
        return {"kind": "floats", "data": packed(values.astype("<f4").tobytes())}
    steps = np.where(np.isnan(values), _UNDEFINED, np.round(values * _STEPS))
    pairs = steps.astype("<u2").ravel().view(np.uint8)
    return {"kind": "steps", "data": packed(pairs[0::2].tobytes() + pairs[1::2].tobytes())}
