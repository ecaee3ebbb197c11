"""ranx's names and shapes over Assay: `from assay.compat.ranx import Qrels, Run, evaluate`.

Numbers are ranx's to rounding, where it defines an order: documents with equal scores stay as they
came. Fusions that are trained, Condorcet's, lz4 files, ranxhub and plots are not here; each says so
when used. Source: ranx 0.3.21 (Bassani, ECIR 2022), its module and its tests.
"""

from __future__ import annotations

from typing import Any, NoReturn

from assay.compat.ranx.data_structures import Qrels, Run
from assay.compat.ranx.fusion import fuse, normalize, optimize_fusion
from assay.compat.ranx.metrics import compare, evaluate

__all__ = ["Qrels", "Run", "compare", "evaluate", "fuse", "normalize", "optimize_fusion", "plot"]


def plot(*args: Any, **options: Any) -> NoReturn:
    """Raise UsageError: not provided."""
    raise NotImplementedError(
        "assay.compat.ranx has no plot. Use assay.compare(...).plot(), or iprec@0 … iprec@1 "
        "of assay.evaluate for precision over recall."
    )
