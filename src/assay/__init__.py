"""How good a ranking is, and how sure you can be.

The public names and the packages beside them (`assay.report`, `assay.stats`, …) load when first
used, so that `import assay` costs little.
"""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False  # that of `typing`, whose import would be most of the cost
if TYPE_CHECKING:
    from assay import cluster as cluster
    from assay import compat as compat
    from assay import errors as errors
    from assay import io as io
    from assay import measures as measures
    from assay import models as models
    from assay import report as report
    from assay import runs as runs
    from assay import search as search
    from assay import stats as stats
    from assay import store as store
    from assay import tasks as tasks
    from assay.comparison.compare import Comparison, compare
    from assay.comparison.tasks import TaskComparison
    from assay.core.conventions import PRESETS, Conventions, preset
    from assay.core.hits import Hits, judge, judge_ranks
    from assay.core.ids import Ids
    from assay.core.judgments import Judgments
    from assay.core.ranking import Ranking
    from assay.errors import AssayError
    from assay.inspect.check import check
    from assay.inspect.explain import explain
    from assay.io.formats import QrelsLike, RunLike, read_qrels, read_run
    from assay.io.writers import write_qrels, write_run
    from assay.measures import Measure, MeasureLike, MeasuresLike, parse, parse_many
    from assay.runs.many_tasks import compare_tasks
    from assay.scoring.evaluate import evaluate, score
    from assay.scoring.score_files import write_scores
    from assay.scoring.scores import Mean, Scores
    from assay.scoring.stream import Stream
    from assay.search.engine import (
        Prepared,
        pack_codes,
        prepare,
        rank,
        rank_codes,
        target_ranks,
        target_ranks_from_scores,
    )
    from assay.search.fusion import fuse

__version__ = "0.2.0"

_HOME = {
    "AssayError": "errors",
    "Comparison": "comparison.compare",
    "Conventions": "core.conventions",
    "Hits": "core.hits",
    "Ids": "core.ids",
    "Judgments": "core.judgments",
    "Mean": "scoring.scores",
    "Measure": "measures",
    "MeasureLike": "measures",
    "MeasuresLike": "measures",
    "PRESETS": "core.conventions",
    "Prepared": "search.engine",
    "QrelsLike": "io.formats",
    "Ranking": "core.ranking",
    "RunLike": "io.formats",
    "Scores": "scoring.scores",
    "Stream": "scoring.stream",
    "TaskComparison": "comparison.tasks",
    "check": "inspect.check",
    "compare": "comparison.compare",
    "compare_tasks": "runs.many_tasks",
    "evaluate": "scoring.evaluate",
    "explain": "inspect.explain",
    "fuse": "search.fusion",
    "judge": "core.hits",
    "judge_ranks": "core.hits",
    "pack_codes": "search.engine",
    "parse": "measures",
    "parse_many": "measures",
    "prepare": "search.engine",
    "preset": "core.conventions",
    "rank": "search.engine",
    "rank_codes": "search.engine",
    "read_qrels": "io.formats",
    "read_run": "io.formats",
    "score": "scoring.evaluate",
    "target_ranks": "search.engine",
    "target_ranks_from_scores": "search.engine",
    "write_qrels": "io.writers",
    "write_run": "io.writers",
    "write_scores": "scoring.score_files",
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
    "MeasureLike",
    "MeasuresLike",
    "Prepared",
    "QrelsLike",
    "Ranking",
    "RunLike",
    "Scores",
    "Stream",
    "TaskComparison",
    "check",
    "compare",
    "compare_tasks",
    "evaluate",
    "explain",
    "fuse",
    "judge",
    "judge_ranks",
    "pack_codes",
    "parse",
    "parse_many",
    "prepare",
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


# Packages that are reached without an import of their own.
_PACKAGES = (
    "cluster",
    "compat",
    "errors",
    "io",
    "measures",
    "models",
    "report",
    "runs",
    "search",
    "stats",
    "store",
    "tasks",
)

if not TYPE_CHECKING:  # else a checker would take any name for one that is there

    def __getattr__(name):
        if name in _PACKAGES:
            return import_module(f"assay.{name}")
        if name not in _HOME:
            raise AttributeError(f"module 'assay' has no attribute {name!r}")
        value = getattr(import_module(f"assay.{_HOME[name]}"), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_PACKAGES})
