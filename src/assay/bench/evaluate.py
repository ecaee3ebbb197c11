"""run_bench: which text model is better on my data?

    collection → prepare → each system: encode, search, aggregate chunks → Ranking → judge → Scores

Systems are models, models searched by an index, fusions of models, and rerankers of these. All are
judged on the same queries, so that they can be compared query by query.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from assay import __version__
from assay.arrays import Ints, offsets_of
from assay.bench.plan import (
    BenchPlan,
    Fusion,
    Model,
    PreparedCollection,
    Rerank,
    indexed_name,
    prepare,
)
from assay.bench.result import BenchResult, System
from assay.bench.search import (
    BenchProgress,
    ChunkAggregation,
    Costs,
    ModelSearch,
    SearchOptions,
    SearchResult,
    Timer,
)
from assay.bench.settings import MEASURES, Metric
from assay.core import checks
from assay.core.conventions import Conventions, Settings, as_conventions, as_settings
from assay.core.hits import Hits, judge
from assay.core.judgments import Qrels
from assay.core.mismatches import check_match
from assay.core.ranking import Ranking
from assay.core.text import mask_secrets
from assay.errors import UsageError
from assay.io.checkpoint import Checkpoint, Part
from assay.io.collections import ANSWER_MEASURES, Collection
from assay.io.fingerprints import digest_of_arrays
from assay.io.texts import ChunkRule
from assay.measures import Measure, parse_many
from assay.models import EncoderSettings
from assay.models.encoding import add_tokens
from assay.models.rerankers import Reranker, Scored, load_reranker
from assay.scoring.chance import ceiling, chance
from assay.scoring.evaluate import score
from assay.search.fusion import fuse, tune_fusion

if TYPE_CHECKING:
    from assay.models import EmbeddingCache


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
    cluster: Any = None,
    allow_mismatch: bool = False,
    groups: Mapping[Any, Any] | None = None,
) -> BenchResult:
    """Run models on a collection and judge what they retrieve.

    Args:
        collection: Documents, queries and judgments, as `load_collection` returns them.
        models: Specs such as "bm25", "wordllama" or "NAME=st:MODEL", or `Model`s with settings.
        fusions: Fusions such as "rrf:bm25+wordllama".
        indexes: Indexes by which models with vectors are searched, too.
        reranks: Rerankers such as "rerank/50:bm25>py:mine:score" of what a system retrieves.
        measures: Measures; the first decides the order.
        chunk: Rule by which documents are cut.
        fold: How chunk scores become a document's score: "max" or "sum:N".
        metric: Similarity of vectors.
        depth: Number of documents to retrieve: by default 100 or the largest cut-off, 1000 for a
            measure without one, and all where ties count other than in order.
        conventions: Conventions, or their name.
        cache: Cache of vectors.
        checkpoint: Folder that keeps finished systems, so that an interrupted bench resumes.
        device: Device of the models.
        threads: Number of threads.
        progress: Called with the name of a system, its phase, done and total.
        cluster: Workers that encode the texts (`assay.cluster.open_cluster`).
        allow_mismatch: Accept judgments whose ids differ from those of the texts (1 and 01).
        groups: {query: group}; weights of fusions are tuned without queries of the same group.

    Returns:
        The systems, scored on the same queries.

    Raises:
        UsageError: A model, fusion, index or setting does not exist or does not apply.
        InputError: There is nothing to search, or ids do not match.

    Example:
        result = run_bench(load_collection("scifact"), ["bm25", "wordllama"])
        print(result)
    """
    checks.require(collection, Collection, "collection", "what load_collection() returns")
    for what, judged, there in (
        ("queries", collection.qrels.query_ids, collection.query_ids),
        ("documents", collection.qrels.doc_ids, collection.doc_ids),
    ):
        check_match(judged, there, f"judged {what}", "the collection", allow=allow_mismatch)
    plan = BenchPlan.of(models, fusions, indexes, reranks)
    parsed = parse_many(measures)
    rule = ChunkRule.parse(chunk) if isinstance(chunk, str) else chunk
    aggregation = ChunkAggregation.parse(fold) if isinstance(fold, str) else fold
    rules = as_conventions(conventions)
    deep = _depth(parsed, rules, depth, len(collection.doc_ids))
    rules = rules.replace(depth=deep)
    for two in plan.reranks:
        check_depth(two, deep)
    data = prepare(collection, rules, rule)
    if cluster is not None and not hasattr(cluster, "journal"):
        raise UsageError(f"cluster is what open_cluster() gives, found {type(cluster).__name__}.")
    options = SearchOptions(
        deep, aggregation, metric, rules.tiebreak, threads, device, cache, progress, cluster
    )
    identity = (
        f"{__version__} {collection.fingerprint} {rule} {aggregation} {metric} {deep} "
        f"{rules.tiebreak}"
    )
    finished = BenchCheckpoint(None if checkpoint is None else Path(checkpoint), identity, data)
    judging = _Judging(collection, _answerable(collection), parsed, rules, groups)
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
        bases=plan.bases,
    )
    if collection.by_answers is None:
        return result
    answered = _Judging.by_answers(collection, collection.by_answers, rules)
    by_answers = replace(result, collection=answered.collection, **answered.judge_all(ran))
    return replace(result, by_answers=by_answers)


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
        """Judge by the answers that texts hold, where documents are judged, too."""
        judged = replace(
            collection, qrels=qrels, by_answers=None, fingerprint="", relevant="answers"
        )
        names = [name for name in ANSWER_MEASURES if int(name.split("@")[1]) <= (rules.depth or 0)]
        return cls(judged, _answerable(judged), parse_many(names), rules)

    def judge_all(self, ran: list[_Searched]) -> dict[str, Any]:
        """Return the judged systems, and the scores of a random and a perfect order."""
        systems = tuple(self._judge(system) for system in ran)
        how: dict[str, Any] = {"conventions": self.rules, "n_docs": len(self.collection.doc_ids)}
        first = systems[0].hits
        return {
            "systems": systems,
            "chance": chance(first, self.measures, **how),
            "ceiling": ceiling(first, self.measures, **how),
        }

    def _judge(self, system: _Searched) -> System:
        fields = system._asdict()
        lower_ranking = fields.pop("lower")
        hits = self._hits(system.result.ranking)
        scores = score(hits, self.measures, conventions=self.rules)
        relevant = None if self.collection.relevant == "judged" else self.collection.relevant
        scores = scores.but_settings(collection=self.collection.fingerprint[:8], relevant=relevant)
        lower = None
        if lower_ranking is not None:  # of some queries
            rows = scores.query_ids.match(lower_ranking.query_ids) >= 0
            small = score(self._hits(lower_ranking), self.measures[:1], conventions=self.rules)
            lower = (small.values[0][rows], scores.values[0][rows])
        return System(**fields, hits=hits, scores=scores, lower_cased=lower)

    def _hits(self, ranking: Ranking) -> Hits:
        return judge(ranking, self.qrels, conventions=self.rules, allow_mismatch=True)  # looked at


def _depth(
    measures: tuple[Measure, ...], rules: Conventions, depth: int | None, n_docs: int
) -> int:
    """Return how many documents to retrieve.

    It is all of them where a cut could split ties that count.
    """
    if depth := depth or rules.depth:
        return checks.check_cutoff(depth, "depth")
    if rules.ties != "order":
        return n_docs
    if any(measure.cutoff is None for measure in measures):
        return _DEPTH_WITHOUT_CUTOFF
    return max(_LEAST_DEPTH, *(int(measure.cutoff or 0) for measure in measures))


def _answerable(collection: Collection) -> Qrels:
    """Return the judgments of queries that have a text, which may be an empty one."""
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
    result: SearchResult
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
    """Yield every system in turn: models, each behind each index, fusions, rerankers."""
    results = {}
    shared: dict[str, ModelSearch] = {}
    for model in plan.models:
        key = f"{model.spec} {as_settings(own=model.settings)}"
        search = ModelSearch(model, data, options, shared.get(key))
        if any(other.codes for other in plan.models):
            shared.setdefault(key, search)
        parts = finished if search.repeatable else finished.without_folder()
        result = parts.load_or_compute(search.fingerprint, search.search)
        if result is None:
            continue
        settings = _settings(model, data, options)
        result = results[model.name] = _with_settings(result, settings)
        options.tell(model.name, "searching", 1, 1)  # also if it was finished before
        lower = None
        if (data_lower := search.small_letters) is not None:
            key = f"{search.fingerprint} small letters"
            lower = parts.load_or_compute(key, search.search_small_letters, data_lower)
        yield _Searched(model.name, model.system, result, lower=lower.ranking if lower else None)
        for index in plan.indexes:
            name = indexed_name(model.name, index)
            indexed = parts.load_or_compute(
                f"{search.fingerprint} {index}", partial(search.search_index, name, index)
            )
            if indexed is not None:
                result = _with_settings(indexed, {**settings, "index": mask_secrets(index)})
                yield _Searched(name, indexed_name(model.spec, index), result, model.name)
    for fusion in plan.fusions:
        members = [results[name] for name in fusion.members]
        fused = results[fusion.name] = _fuse(fusion, members, options, judging)
        yield _Searched(fusion.name, fusion.spec, fused, members=fusion.members)
    for two in plan.reranks:
        reranker = load_reranker(
            two.reranker, settings=EncoderSettings(**two.settings), device=options.device
        )
        first = results[two.first]
        parts = finished if reranker.identity is not None else finished.without_folder()
        key = f"{first.fingerprint} {reranker.fingerprint} {two.spec}"
        both = parts.load_or_compute(key, partial(rerank, two, reranker, first, data, options))
        if both is not None:
            whole = replace(two, depth=check_depth(two, options.depth)).spec
            settings = {**first.ranking.settings, **as_settings(rerank=whole)}
            both = replace(both, ranking=replace(both.ranking, settings=settings))
            yield _Searched(two.name, whole, both, first=two.first)


def _settings(model: Model, data: PreparedCollection, options: SearchOptions) -> dict[str, str]:
    """Return what decides a model's ranking, for the signature."""
    deciding = {k: v for k, v in model.settings.items() if k not in ("key_env", "batch_size")}
    text = as_settings(settings=deciding)
    return as_settings(
        model=mask_secrets(model.spec + (f"({text['settings']})" if deciding else "")),
        codes=model.codes,
        chunk=data.chunk,
        fold=options.aggregation if data.chunked else None,
        n_docs=len(data.doc_ids),
    )


def _with_settings(result: SearchResult, settings: Settings) -> SearchResult:
    """Add the settings, and the metric where vectors were searched.

    The depth is a convention.
    """
    metric = as_settings(metric=result.ranking.settings.get("metric"))
    return replace(result, ranking=replace(result.ranking, settings={**settings, **metric}))


def _fuse(
    fusion: Fusion, members: list[SearchResult], options: SearchOptions, judging: _Judging
) -> SearchResult:
    """Return rankings made into one; it costs what its members cost, and the fusing."""
    options.tell(fusion.name, "searching", 0, None)
    how: dict[str, Any] = {
        "method": fusion.method,
        "normalize": fusion.normalize,
        "rrf_k": fusion.rrf_k,
        "depth": options.depth,
    }
    rankings, tuning = [member.ranking for member in members], None
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
    every = [member.costs for member in members]
    cached = not all(member.n_encoded for member in every)
    sizes = [member.bytes for member in every if member.bytes is not None]
    costs = Costs(
        encode_seconds=sum(member.encode_seconds for member in every),
        n_encoded=0 if cached else max(member.n_encoded for member in every),
        bytes=sum(sizes) if len(sizes) == len(every) else None,
        search_seconds=sum(member.search_seconds for member in every) + timer.seconds,
    )
    digest = "" if tuning is None else digest_of_arrays(ranking.offsets, ranking.docs)
    fingerprint = f"{fusion.spec} {digest} of {' '.join(member.fingerprint for member in members)}"
    return SearchResult(ranking, costs, fingerprint, members[0].n_texts, tuning=tuning)


DEPTH = 100


def rerank(
    plan: Rerank,
    reranker: Reranker,
    first: SearchResult,
    data: PreparedCollection,
    options: SearchOptions,
) -> SearchResult:
    """Order the first documents by the reranker; the others follow as they were.

    A document that is cut into chunks has the score of its best one. It costs what the first stage
    costs, and the time of the reranker after a first text.
    """
    depth = check_depth(plan, options.depth)
    bounds = np.searchsorted(data.unit_doc, np.arange(len(data.doc_ids) + 1))
    if reranker.warm_up:
        reranker.score(data.query_texts[0], [data.unit_texts[0]])
    docs, scores, tokens = [], [], None
    total = len(data.query_texts)
    with Timer() as timer:
        for row, candidates in enumerate(_ranked_docs(first.ranking, data)):
            query = data.query_texts[row]
            head, n_tokens = _score_docs(reranker, query, candidates[:depth], data, bounds)
            tokens = add_tokens(tokens, n_tokens)
            docs.append(candidates)
            # The others follow with scores below all of these, descending.
            low = float(head.min()) if len(head) else 0.0
            steps = np.arange(1, len(candidates) - len(head) + 1, dtype=np.float64)
            scores.append(np.concatenate([head, low - max(1.0, abs(low)) * 1e-6 * steps]))
            options.tell(plan.name, "reranking", row + 1, total)
    ranking = Ranking(
        data.query_ids,
        data.doc_ids,
        offsets_of(np.array([len(row_docs) for row_docs in docs])),
        np.concatenate(docs).astype(np.int32),
        np.concatenate(scores),
        in_order=False,
        n_docs=len(data.doc_ids),
        has_ids=True,
        search=first.ranking.search,
        settings=first.ranking.settings,
    )
    options.tell(plan.name, "searching", 1, 1)
    return replace(
        first,
        ranking=replace(ranking.first(options.depth), tiebreak=options.tiebreak),
        costs=replace(
            first.costs, search_seconds=first.costs.search_seconds + timer.seconds, tokens=tokens
        ),
        n_cut=None,  # what the first stage does to texts is said of it
        n_without=0,
        tuning=None,
        fingerprint=f"{first.fingerprint} {reranker.fingerprint} {depth}",
    )


def check_depth(plan: Rerank, depth: int) -> int:
    """Return how many documents are put in order; no more than are retrieved."""
    if plan.depth is not None and plan.depth > depth:
        raise UsageError(
            f"{plan.name!r} reranks {plan.depth} documents, but {depth} are retrieved: add "
            f"--depth {plan.depth}."
        )
    return plan.depth or min(DEPTH, depth)


def _ranked_docs(ranking: Ranking, data: PreparedCollection) -> list[Ints]:
    """Return the ranked documents of each query, by their numbers in the collection."""
    number = ranking.doc_ids.match(data.doc_ids)
    rows = data.query_ids.match(ranking.query_ids)
    starts, ends = ranking.offsets[:-1], ranking.offsets[1:]
    nothing = np.empty(0, np.int64)
    return [nothing if row < 0 else number[ranking.docs[starts[row] : ends[row]]] for row in rows]


def _score_docs(
    reranker: Reranker, query: str, docs: Ints, data: PreparedCollection, bounds: Ints
) -> Scored:
    """Return the best score of each document's texts: itself, or its chunks."""
    if not len(docs):
        return Scored(np.empty(0))
    parts = [range(bounds[doc], bounds[doc + 1]) for doc in docs]
    scored = reranker.score(query, [data.unit_texts[unit] for part in parts for unit in part])
    starts = offsets_of(np.array([len(part) for part in parts]))[:-1]
    return scored._replace(scores=np.maximum.reduceat(scored.scores, starts))


_LAYOUT: Final = "bench-2"


class BenchCheckpoint:
    """The finished systems of one bench; without a folder nothing is stored."""

    def __init__(self, folder: Path | None, identity: str, data: PreparedCollection) -> None:
        job = _digest(identity)
        place = None if folder is None else folder / _LAYOUT / job
        self._parts = Checkpoint(place, job, optional=True)
        self._data = data

    def without_folder(self) -> BenchCheckpoint:
        """Return a checkpoint that stores nothing, for what could not be recognised again."""
        return BenchCheckpoint(None, "", self._data)

    def load_or_compute(
        self,
        key: str,
        compute: Callable[[], SearchResult | None],
        data: PreparedCollection | None = None,
    ) -> SearchResult | None:
        """Return the part of this key if it is there and sound; else it is computed and stored.

        `data` is what was searched, where that is not the whole collection.
        """
        name = f"{_digest(key)}.part"
        part = self._parts.load(name)
        if part is not None:
            return _from_part(part, data or self._data)
        result = compute()
        if result is not None and result.index is None:  # a report on an index is made anew
            ranking = result.ranking
            arrays: dict[str, Any] = {
                "offsets": ranking.offsets,
                "docs": ranking.docs,
                "scores": ranking.scores,
            }
            if ranking.tie_split is not None:
                arrays["tie_split"] = ranking.tie_split
            notes = {
                "costs": asdict(result.costs),
                "fingerprint": result.fingerprint,
                "counts": [result.n_texts, result.n_cut, result.n_without],
                "ranking": [ranking.tiebreak, ranking.search, dict(ranking.settings)],
            }
            self._parts.save(name, arrays, notes)
        return result

    def clear(self) -> None:
        """Delete all parts: the bench is complete."""
        self._parts.clear()


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _from_part(part: Part, data: PreparedCollection) -> SearchResult:
    notes, arrays = part.notes, part.arrays
    tiebreak, search, settings = notes["ranking"]
    ranking = Ranking(
        data.query_ids,
        data.doc_ids,
        arrays["offsets"],
        arrays["docs"],
        arrays["scores"],
        n_docs=len(data.doc_ids),
        tiebreak=tiebreak,
        search=search,
        settings=settings,
        tie_split=arrays.get("tie_split"),
    )
    return SearchResult(ranking, Costs(**notes["costs"]), notes["fingerprint"], *notes["counts"])
