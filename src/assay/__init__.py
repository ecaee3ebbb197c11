"""How good a ranking is, and how sure you can be.

The public names load when first used, so that `import assay` costs little.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from assay.comparison import Comparison, compare
    from assay.conventions import PRESETS, Conventions, preset
    from assay.engine import (
        pack_codes,
        rank,
        rank_codes,
        target_ranks,
        target_ranks_from_scores,
    )
    from assay.errors import AssayError
    from assay.evaluation import evaluate, score
    from assay.explanation import explain
    from assay.fusion import fuse
    from assay.hits import Hits, judge, judge_ranks
    from assay.ids import Ids
    from assay.inspection import check
    from assay.io.sources import read_qrels, read_run
    from assay.io.writers import write_qrels, write_run, write_scores
    from assay.judgments import Judgments
    from assay.measures import Measure, parse, parse_many
    from assay.ranking import Ranking
    from assay.scores import Mean, Scores
    from assay.stream import Stream

__version__ = "0.1.0"

_HOME = {
    "AssayError": "errors",
    "Comparison": "comparison",
    "Conventions": "conventions",
    "Hits": "hits",
    "Ids": "ids",
    "Judgments": "judgments",
    "Mean": "scores",
    "Measure": "measures",
    "PRESETS": "conventions",
    "Ranking": "ranking",
    "Scores": "scores",
    "Stream": "stream",
    "check": "inspection",
    "compare": "comparison",
    "evaluate": "evaluation",
    "explain": "explanation",
    "fuse": "fusion",
    "judge": "hits",
    "judge_ranks": "hits",
    "pack_codes": "engine",
    "parse": "measures",
    "parse_many": "measures",
    "preset": "conventions",
    "rank": "engine",
    "rank_codes": "engine",
    "read_qrels": "io.sources",
    "read_run": "io.sources",
    "score": "evaluation",
    "target_ranks": "engine",
    "target_ranks_from_scores": "engine",
    "write_qrels": "io.writers",
    "write_run": "io.writers",
    "write_scores": "io.writers",
}

__all__ = [
    "PRESETS",
    "AssayError",
    "Comparison",
    "Conventions",
    "Hits",
    "Ids",
    "Judgments",
    "Mean",
    "Measure",
    "Ranking",
    "Scores",
    "Stream",
    "check",
    "compare",
    "evaluate",
    "explain",
    "fuse",
    "judge",
    "judge_ranks",
    "pack_codes",
    "parse",
    "parse_many",
    "preset",
    "rank",
    "rank_codes",
    "read_qrels",
    "read_run",
    "score",
    "target_ranks",
    "target_ranks_from_scores",
    "write_qrels",
    "write_run",
    "write_scores",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'assay' has no attribute {name!r}")
    value = getattr(import_module(f"assay.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
