"""run_bench: which text model is better on my data?

    collection → prepare → each system: encode, search, aggregate chunks → Ranking → judge → Scores

Systems are models, models searched by an index, fusions of models, and rerankers of these. All are
judged on the same queries, so that they can be compared query by query.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from assay import __version__
from assay.arrays import offsets_of
from assay.cluster import Cluster
from assay.core import checks
from assay.core.conventions import Conventions, as_conventions
from assay.core.hits import Hits, judge
from assay.core.id_hints import check_match
from assay.core.judgments import Qrels
from assay.core.ranking import Ranking
from assay.core.settings import Settings, as_settings
from assay.core.text import mask_secrets
from assay.errors import UsageError
from assay.io.answers import ANSWER_MEASURES
from assay.io.chunking import ChunkRule
from assay.io.collections import Collection
from assay.io.fingerprints import digest_of_arrays
from assay.measures import Measure, parse_many
from assay.models import EncoderSettings
from assay.models.rerankers import load_reranker
from assay.scoring.chance import ceiling, chance
from assay.scoring.evaluate import score
from assay.search.fusion import fuse
from assay.search.fusion_tuning import tune_fusion
from assay.tasks.bench.checkpoint import BenchCheckpoint
from assay.tasks.bench.chunk_aggregation import ChunkAggregation
from assay.tasks.bench.collection import PreparedCollection, prepare
from assay.tasks.bench.plan import BenchPlan, Fusion, Metric, Model, Rerank, indexed_name
from assay.tasks.bench.rerank import check_depth, rerank
from assay.tasks.bench.result import BenchResult, System
from assay.tasks.bench.search import (
    BenchProgress,
    Costs,
    ModelSearch,
    SearchOptions,
    SearchResult,
    Timer,
)

if TYPE_CHECKING:
    from assay.models import EmbeddingCache

__all__ = ["MEASURES", "run_bench"]

MEASURES: Final = ("nDCG@10", "R@100", "RR")
_LEAST_DEPTH: Final = 100
_DEPTH_WITHOUT_CUTOFF: Final = 1000


def run_bench(
    collection: Collection,
    models: Iterable[str | Model],
    *,
    fusions: Iterable[str | Fusion] = (),
    indexes: Iterable[str] = (),
    reranks: Iterable[str | Rerank] = (),
    measures: Any = MEASURES,
    chunk: str | ChunkRule | None = None,
    fold: str | ChunkAggregation = "max",
    metric: Metric = "cosine",
    depth: int | None = None,
    conventions: str | Conventions = "trec_eval",
    cache: EmbeddingCache | None = None,
    checkpoint: str | Path | None = None,
    device: str | None = None,
    threads: int | None = None,
    progress: BenchProgress | None = None,
    cluster: Cluster | None = None,
    allow_mismatch: bool = False,
    groups: Mapping[Any, Any] | None = None,
) -> BenchResult:
    """Run models on a collection and judge what they retrieve.

    `models` are specs such as "bm25", "wordllama" or "NAME=st:MODEL", or `Model`s with settings;
    `fusions` such as "rrf:bm25+wordllama"; with `indexes`, models with vectors are also searched by
    these; `reranks` such as "rerank/50:bm25>py:mine:score" reorder what one of them retrieves.
    `chunk` cuts documents, `fold` aggregates chunk scores to document scores: "max" or
    "sum:N". `depth` is the number of documents to retrieve: by default 100 or the largest cut-off,
    1000 for a measure without one, and all where ties count other than in order. The folder
    `checkpoint` keeps finished systems, so that an interrupted bench resumes. On a `cluster`
    (`assay.cluster.open_cluster`), workers encode the texts. Judgments whose ids differ from those
    of the texts, as `1` and `01` do, are refused unless `allow_mismatch`. Weights of fusions are
    tuned without queries of the same group, {query: group}, if `groups` are given. `progress` is
    called with the name of a system, its phase, done and total.
    """
    checks.require(collection, Collection, "collection", "what load_collection() returns")
    _check_ids(collection, allow_mismatch)
    plan = BenchPlan.of(models, fusions, indexes, reranks)
    wanted = parse_many(measures)
    rule = ChunkRule.parse(chunk) if isinstance(chunk, str) else chunk
    aggregation = ChunkAggregation.parse(fold) if isinstance(fold, str) else fold
    rules = as_conventions(conventions)
    deep = _depth(wanted, rules, depth, len(collection.doc_ids))
    rules = rules.but(depth=deep)
    for two in plan.reranks:
        check_depth(two, deep)
    data = prepare(collection, rules, rule)
    _check_cluster(cluster)
    options = SearchOptions(
        deep, aggregation, metric, rules.tiebreak, threads, device, cache, progress, cluster
    )
    identity = (
        f"{__version__} {collection.fingerprint} {rule} {aggregation} {metric} {deep} "
        f"{rules.tiebreak}"
    )
    finished = BenchCheckpoint(None if checkpoint is None else Path(checkpoint), identity, data)
    judging = _Judging(collection, _answerable(collection), wanted, rules, groups)
    ran = list(_run_systems(plan, data, options, finished, judging))
    finished.clear()
    result = BenchResult(
        collection,
        **judging.judge_all(ran),
        chunk=rule,
        aggregation=aggregation,
        metric=metric,
        depth=deep,
        cache=cache,
        prices=plan.prices,
    )
    if collection.by_answers is None:
        return result
    answered = _Judging.by_answers(collection, collection.by_answers, rules)
    others = replace(result, collection=answered.collection, **answered.judge_all(ran))
    return replace(result, by_answers=others)


@dataclass(frozen=True)
class _Judging:
    """What retrieved documents are judged by, and how that is measured."""

    collection: Collection
    qrels: Qrels
    measures: tuple[Measure, ...]
    rules: Conventions
    groups: Mapping[Any, Any] | None = None

    @classmethod
    def by_answers(cls, collection: Collection, qrels: Qrels, rules: Conventions) -> _Judging:
        """By the answers that texts hold, where documents are judged, too."""
        judged = replace(
            collection, qrels=qrels, by_answers=None, fingerprint="", relevant="answers"
        )
        known = [name for name in ANSWER_MEASURES if int(name.split("@")[1]) <= (rules.depth or 0)]
        return cls(judged, _answerable(judged), parse_many(known), rules)

    def judge_all(self, ran: list[_Searched]) -> dict[str, Any]:
        """The systems with their scores, and what a random and a perfect order would score."""
        systems = tuple(self._judge(one) for one in ran)
        how: dict[str, Any] = {
            "conventions": self.rules,
            "n_docs": len(self.collection.doc_ids),
        }
        first = systems[0].hits
        return {
            "systems": systems,
            "chance": chance(first, self.measures, **how),
            "ceiling": ceiling(first, self.measures, **how),
        }

    def _judge(self, found: _Searched) -> System:
        hits = self._hits(found.one.ranking)
        scores = score(hits, self.measures, conventions=self.rules)
        relevant = None if self.collection.relevant == "judged" else self.collection.relevant
        scores = scores.but_settings(collection=self.collection.fingerprint[:8], relevant=relevant)
        lower = None
        if found.lower is not None:
            asked = scores.query_ids.match(found.lower.query_ids) >= 0
            small = score(self._hits(found.lower), self.measures[:1], conventions=self.rules)
            lower = (small.values[0][asked], scores.values[0][asked])
        return System(
            found.name,
            found.spec,
            found.one,
            hits,
            scores,
            found.exact,
            lower,
            found.first,
            found.members,
        )

    def _hits(self, ranking: Ranking) -> Hits:
        return judge(ranking, self.qrels, conventions=self.rules, allow_mismatch=True)  # looked at


def _check_ids(collection: Collection, allow: bool) -> None:
    qrels = collection.qrels
    for what, judged, there in (
        ("queries", qrels.query_ids, collection.query_ids),
        ("documents", qrels.doc_ids, collection.doc_ids),
    ):
        check_match(judged, there, f"judged {what}", "the collection", allow=allow)


def _check_cluster(cluster: Any) -> None:
    if cluster is not None:
        checks.require(cluster, Cluster, "cluster", "what open_cluster() gives")


def _depth(
    measures: tuple[Measure, ...], rules: Conventions, wanted: int | None, n_docs: int
) -> int:
    """How many documents to retrieve; all of them where a cut could split ties that count."""
    given = wanted or rules.depth
    if given:
        return checks.check_cutoff(given, "depth")
    if rules.ties != "order":
        return n_docs
    if any(measure.cutoff is None for measure in measures):
        return _DEPTH_WITHOUT_CUTOFF
    return max(_LEAST_DEPTH, *(int(measure.cutoff or 0) for measure in measures))


def _answerable(collection: Collection) -> Qrels:
    """The judgments of queries that have a text, which may be an empty one."""
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


class _Searched(NamedTuple):
    """A system that was run; `exact` is the model of an index, `lower` queries in small letters,
    `first` the first stage of a reranker, `members` those of a fusion.
    """

    name: str
    spec: str
    one: SearchResult
    exact: str = ""
    lower: Ranking | None = None
    first: str = ""
    members: tuple[str, ...] = ()


def _run_systems(
    plan: BenchPlan,
    data: PreparedCollection,
    options: SearchOptions,
    finished: BenchCheckpoint,
    judging: _Judging,
) -> Iterator[_Searched]:
    """Every system in turn: models, each behind each index, fusions, rerankers."""
    results = {}
    shared: dict[str, ModelSearch] = {}
    for model in plan.models:
        key = f"{model.spec} {as_settings(own=model.settings)}"
        search = ModelSearch(model, data, options, shared.get(key))
        if any(one.codes for one in plan.models):
            shared.setdefault(key, search)
        kept = finished if search.repeatable else finished.without_folder()
        found = kept.load_or_compute(search.fingerprint, search.search)
        if found is None:
            continue
        made = _settings(model, data, options)
        found = results[model.name] = _with_settings(found, made)
        options.tell(model.name, "searching", 1, 1)  # also if it was finished before
        lower = None
        if (data_lower := search.small_letters) is not None:
            key = f"{search.fingerprint} small letters"
            lower = kept.load_or_compute(key, search.search_small_letters, data_lower)
        yield _Searched(model.name, model.system, found, lower=lower.ranking if lower else None)
        for index in plan.indexes:
            name = indexed_name(model.name, index)
            indexed = kept.load_or_compute(
                f"{search.fingerprint} {index}", partial(search.search_index, name, index)
            )
            if indexed is not None:
                found = _with_settings(indexed, {**made, "index": mask_secrets(index)})
                yield _Searched(name, indexed_name(model.spec, index), found, model.name)
    for fusion in plan.fusions:
        members = [results[name] for name in fusion.members]
        made_one = results[fusion.name] = _fuse(fusion, members, options, judging)
        yield _Searched(fusion.name, fusion.spec, made_one, members=fusion.members)
    for two in plan.reranks:
        reranker = load_reranker(
            two.reranker, settings=EncoderSettings(**two.settings), device=options.device
        )
        first = results[two.first]
        kept = finished if reranker.identity is not None else finished.without_folder()
        key = f"{first.fingerprint} {reranker.fingerprint} {two.spec}"
        both = kept.load_or_compute(key, partial(rerank, two, reranker, first, data, options))
        if both is not None:
            whole = replace(two, depth=check_depth(two, options.depth)).spec
            made = {**first.ranking.settings, **as_settings(rerank=whole)}
            both = replace(both, ranking=replace(both.ranking, settings=made))
            yield _Searched(two.name, whole, both, first=two.first)


def _settings(model: Model, data: PreparedCollection, options: SearchOptions) -> dict[str, str]:
    """What decides a model's ranking, for the signature."""
    deciding = {k: v for k, v in model.settings.items() if k not in ("key_env", "batch_size")}
    own = as_settings(own=deciding)
    return as_settings(
        model=mask_secrets(model.spec + (f"({own['own']})" if deciding else "")),
        codes=model.codes,
        chunk=data.chunk,
        fold=options.aggregation if data.chunked else None,
        n_docs=len(data.doc_ids),
    )


def _with_settings(found: SearchResult, settings: Settings) -> SearchResult:
    """With its settings, and the metric where vectors were searched; the depth is a convention."""
    metric = as_settings(metric=found.ranking.settings.get("metric"))
    return replace(found, ranking=replace(found.ranking, settings={**settings, **metric}))


def _fuse(
    fusion: Fusion, members: list[SearchResult], options: SearchOptions, judging: _Judging
) -> SearchResult:
    """Rankings made into one; it costs what its members cost, and the fusing."""
    options.tell(fusion.name, "searching", 0, None)
    how: dict[str, Any] = {
        "method": fusion.method,
        "normalize": fusion.normalize,
        "rrf_k": fusion.rrf_k,
        "depth": options.depth,
    }
    rankings, tuning = [one.ranking for one in members], None
    with Timer() as timer:
        ranking = fuse(rankings, weights=fusion.weights, **how)
    if fusion.tune is not None:  # which is no part of a search, and its time does not count
        ranking, tuning = tune_fusion(
            rankings,
            judging.qrels,
            judging.measures[0],
            folds=fusion.tune.number,
            seed=fusion.tune.seed,
            conventions=judging.rules,
            clusters=judging.groups,
            **how,
        )
    options.tell(fusion.name, "searching", 1, 1)
    every = [one.costs for one in members]
    cached = not all(one.n_encoded for one in every)
    known = [one.bytes for one in every if one.bytes is not None]
    costs = Costs(
        encode_seconds=sum(one.encode_seconds for one in every),
        n_encoded=0 if cached else max(one.n_encoded for one in every),
        bytes=sum(known) if len(known) == len(every) else None,
        search_seconds=sum(one.search_seconds for one in every) + timer.seconds,
    )
    made = "" if tuning is None else digest_of_arrays(ranking.offsets, ranking.docs)
    fingerprint = f"{fusion.spec} {made} of {' '.join(one.fingerprint for one in members)}"
    return SearchResult(ranking, costs, fingerprint, members[0].n_texts, tuning=tuning)
