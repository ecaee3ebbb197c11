"""bench: which text model is better on my data?

    collection -> prepare -> each contestant: encode, search, fold -> Ranking -> judge -> Scores

Contestants are models, models searched by an index, and fusions of models. Every one of them is
judged on the same queries, so that they can be compared query by query.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from assay import __version__
from assay.arrays import offsets_of
from assay.cluster import Cluster
from assay.core import checks
from assay.core.conventions import Conventions, as_conventions
from assay.core.hits import judge
from assay.core.judgments import Qrels
from assay.errors import UsageError
from assay.io.chunking import ChunkRule
from assay.io.collections import Collection
from assay.measures import Measure, parse_many
from assay.scoring.chance import ceiling, chance
from assay.scoring.evaluate import score
from assay.tasks.bench.checkpoint import Parts
from assay.tasks.bench.collection import prepare
from assay.tasks.bench.plan import Fusion, Model, as_fusions, as_models, check_names
from assay.tasks.bench.result import BenchResult, Contestant
from assay.tasks.bench.runner import run_all
from assay.tasks.bench.search import Choices, Fold, Metric, Watch

if TYPE_CHECKING:
    from assay.cluster import Cluster
    from assay.models import EmbeddingCache

__all__ = [
    "BenchResult",
    "Contestant",
    "Fusion",
    "Model",
    "run_bench",
]

MEASURES: Final = ("nDCG@10", "R@100", "RR")
_LEAST_DEPTH: Final = 100
_DEPTH_WITHOUT_CUTOFF: Final = 1000


def run_bench(
    collection: Collection,
    models: Iterable[str | Model],
    *,
    fusions: Iterable[str | Fusion] = (),
    indexes: Iterable[str] = (),
    measures: Any = MEASURES,
    chunk: str | ChunkRule | None = None,
    fold: str | Fold = "max",
    metric: Metric = "cosine",
    depth: int | None = None,
    conventions: str | Conventions = "trec_eval",
    cache: EmbeddingCache | None = None,
    parts: str | Path | None = None,
    device: str | None = None,
    threads: int | None = None,
    watch: Watch | None = None,
    cluster: Cluster | None = None,
) -> BenchResult:
    """Run models on a collection and judge what they retrieve.

    `models` are specs such as "bm25", "wordllama" or "NAME=st:MODEL", or `Model`s with settings;
    `fusions` such as "rrf:bm25+wordllama"; with `indexes`, models with vectors are also searched by
    these. `chunk` cuts documents, `fold` brings scores of chunks back to documents: "max" or
    "sum:N". `depth` is how many documents are retrieved: without it 100 or the largest cut-off,
    1000 for a measure without one, and all where ties count other than in order. In the folder
    `parts`, finished contestants of a bench that was interrupted are found again. On a `cluster`
    (`assay.cluster.open_cluster`), workers encode the texts.
    """
    checks.require(collection, Collection, "collection", "what load_collection() returns")
    chosen, fused = as_models(models), as_fusions(fusions)
    check_names(chosen, fused)
    wanted = parse_many(measures)
    rule = ChunkRule.parse(chunk) if isinstance(chunk, str) else chunk
    folding = Fold.parse(fold) if isinstance(fold, str) else fold
    rules = as_conventions(conventions)
    deep = _depth(wanted, rules, depth, len(collection.doc_ids))
    rules = rules.but(depth=deep)
    data = prepare(collection, rules, rule)
    _check_cluster(cluster)
    choices = Choices(deep, folding, metric, rules.tiebreak, threads, device, cache, watch, cluster)
    identity = (
        f"{__version__} {collection.fingerprint} {rule} {folding} {metric} {deep} {rules.tiebreak}"
    )
    kept = Parts(None if parts is None else Path(parts), identity, data)
    truth = _asked(collection)
    found = []
    for name, spec, one in run_all(
        chosen, fused, tuple(dict.fromkeys(indexes)), data=data, choices=choices, parts=kept
    ):
        hits = judge(one.ranking, truth, conventions=rules)
        found.append(Contestant(name, spec, one, hits, score(hits, wanted, conventions=rules)))
    kept.clear()
    n_docs = len(collection.doc_ids)
    first = found[0].hits
    return BenchResult(
        collection,
        tuple(found),
        chance(first, wanted, conventions=rules, n_docs=n_docs),
        ceiling(first, wanted, conventions=rules, n_docs=n_docs),
        chunk=rule,
        fold=folding,
        metric=metric,
        depth=deep,
    )


def _check_cluster(cluster: Any) -> None:
    if cluster is not None:
        checks.require(cluster, Cluster, "cluster", "what open_cluster() gives")


def _depth(
    measures: tuple[Measure, ...], rules: Conventions, asked: int | None, n_docs: int
) -> int:
    """How many documents to retrieve; all of them where a cut could divide ties that count."""
    given = asked or rules.depth
    if given:
        return checks.check_cutoff(given, "depth")
    if rules.ties != "order":
        return n_docs
    if any(measure.cutoff is None for measure in measures):
        return _DEPTH_WITHOUT_CUTOFF
    return max(_LEAST_DEPTH, *(int(measure.cutoff or 0) for measure in measures))


def _asked(collection: Collection) -> Qrels:
    """The judgments of queries that have a text, which may be an empty one."""
    import numpy as np

    qrels = collection.qrels
    rows = np.flatnonzero(qrels.query_ids.match(collection.query_ids) >= 0)
    if len(rows) == len(qrels.query_ids):
        return qrels
    if not len(rows):
        raise UsageError("No judged query has a text.")
    lengths = np.diff(qrels.offsets)[rows]
    at = np.concatenate([np.arange(qrels.offsets[row], qrels.offsets[row + 1]) for row in rows])
    return replace(
        qrels,
        query_ids=qrels.query_ids.take(rows),
        offsets=offsets_of(lengths),
        docs=qrels.docs[at],
        grades=qrels.grades[at],
    )
