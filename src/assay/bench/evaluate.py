"""run_bench: which text model is better on my data?

    collection → prepare → each system: encode, search, aggregate chunks → Ranking → judge → Scores

Systems are models, models searched by an index, systems that are asked or read from a run, fusions,
and rerankers of these. All are judged on the same queries, so that they can be compared query by
query.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from assay import __version__
from assay.arrays import Ints, offsets_of
from assay.bench import plan as plans
from assay.bench import search as searches
from assay.bench.answers import (
    AnswerReader,
    DocOf,
    is_run,
    is_stored_run,
    make_doc_of,
    read_run,
    read_stored_run,
    search_retriever,
    take_scores,
)
from assay.bench.asking import Asking
from assay.bench.chunkings import Chunkings
from assay.bench.filters import (
    Fields,
    apply_filters,
    describe_breaches,
    describe_recall,
    parse_filters,
)
from assay.bench.plan import BenchPlan, Fusion, Model, PreparedCollection, Rerank, Retriever
from assay.bench.reranking import TokenReranker, check_depth, open_tokens, pick_chunks, rerank
from assay.bench.result import BenchResult, System
from assay.bench.search import (
    BenchProgress,
    ChunkAggregation,
    Costs,
    SearchOptions,
    SearchResult,
    add_seconds,
)
from assay.bench.settings import MEASURES, Metric
from assay.bench.spans import SpanScorer, is_span_measure, split_measures
from assay.core import checks
from assay.core.conventions import Conventions, Settings, as_conventions, as_settings
from assay.core.hits import Hits, judge
from assay.core.ids import Ids
from assay.core.judgments import Qrels
from assay.core.mismatches import check_match
from assay.core.ranking import Ranking
from assay.core.text import mask_secrets
from assay.errors import InputError, UsageError
from assay.io.checkpoint import Checkpoint, Part
from assay.io.collections import ANSWER_MEASURES, Collection, load_collection
from assay.io.fingerprints import digest_of_arrays, fingerprint_of
from assay.io.texts import ChunkRule
from assay.measures import Measure, parse_many
from assay.models import EncoderSettings
from assay.models.rerankers import load_reranker
from assay.scoring.chance import ceiling, chance
from assay.scoring.evaluate import score
from assay.scoring.scores import Scores
from assay.search.fusion import fuse, tune_fusion

if TYPE_CHECKING:
    from assay.models import EmbeddingCache


Results = Sequence[SearchResult]
Compute = Callable[[], SearchResult | None]
_LEAST_DEPTH: Final = 100
_DEPTH_WITHOUT_CUTOFF: Final = 1000


def run_bench(
    collection: Collection,
    models: Any = (),
    *,
    systems: Any = (),
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
    spans: Any = None,
    concurrency: int = 1,
    timeout: float | None = None,
    retries: int = 2,
    failed: str = "error",
    doc_of: DocOf = None,
    query_fields: Fields | None = None,
    filters: str | Iterable[str] = (),
    doc_fields: Fields | None = None,
    store: str | None = None,
) -> BenchResult:
    """Run models and other systems on a collection, and score their results.

    Args:
        collection: Documents, queries and judgments, as `load_collection` returns them.
        models: Specs such as "bm25", "wordllama" or "NAME=st:MODEL", or `Model`s with settings;
            and all that `systems` takes.
        systems: Functions from a query's text to ids, (id, score) pairs or dictionaries; retriever
            objects of LangChain, LlamaIndex and Haystack; runs; specs such as "run:FILE" and
            "retrieve:MODULE:FUNCTION"; `Retriever`s with settings; or {name: any of these}.
        fusions: Fusions such as "rrf:bm25+wordllama".
        indexes: Indexes by which models with vectors are searched, too.
        reranks: Rerankers such as "rerank/50:bm25>py:mine:score" of what a system retrieves.
        measures: Measures; the first decides the order.
        chunk: Rule by which documents are cut.
        fold: How chunk scores become a document's score: "max" or "sum:N". It holds for chunks of
            systems that `doc_of` maps to documents, too.
        metric: Similarity of vectors.
        depth: Number of documents to retrieve: by default 100 or the largest cutoff, 1000 for a
            measure without one if no other systems are asked, and all where ties count other than
            in order.
        conventions: Conventions, or their name.
        cache: Cache of vectors.
        checkpoint: Folder that keeps finished systems, so that an interrupted bench resumes.
        device: Device of the models.
        threads: Number of threads.
        progress: Called with the name of a system, its phase, done and total.
        cluster: Workers that encode the texts (`assay.cluster.open_cluster`).
        allow_mismatch: Accept judgments whose ids differ from those of the texts (1 and 01).
        groups: {query: group}; weights of fusions are tuned without queries of the same group.
        spans: Relevant passages: what `read_spans` reads or returns. They add `SpanR@5`, `SpanP@5`,
            `SpanIoU@5` and `SpanPOmega`, unless measures of spans are named.
        concurrency: Number of queries that a system is asked at once.
        timeout: Seconds to wait for an answer of a system.
        retries: How often a query that failed is asked again.
        failed: What becomes of queries that fail for good: "error", or "skip" leaves them out for
            all systems.
        doc_of: From what systems return to what is judged: a regular expression with one group, a
            file, or {id: document}.
        query_fields: {query: {field: value}}, further fields that systems get.
        filters: Columns in which documents and query must agree, such as "tenant", or rules such as
            "date>=since". Models search exactly among the documents that pass.
        doc_fields: {document: {field: value}}, for filters.
        store: Where stored runs are.

    Returns:
        The systems, scored on the same queries.

    Raises:
        UsageError: A model, fusion, index or setting does not exist or does not apply.
        InputError: There is nothing to search, or ids do not match.
        EndpointError: A system did not answer some queries.

    Example:
        result = run_bench(load_collection("scifact"), ["bm25", "wordllama"])
        print(result)
    """
    checks.require(collection, Collection, "collection", "what load_collection() returns")
    for what, side in (("queries", "query_ids"), ("documents", "doc_ids")):
        judged, there = getattr(collection.qrels, side), getattr(collection, side)
        check_match(judged, there, f"judged {what}", "the collection", allow=allow_mismatch)
    plan = BenchPlan.of(models, fusions, indexes, reranks, systems)
    searches.check_kinds(plan)  # before anything is encoded
    asking = Asking(concurrency, timeout, retries, failed)
    for system in plan.systems:
        make_doc_of(system.settings.get("doc_of", doc_of))  # before anything is asked
    every, parsed, scorer = split_measures(measures, collection, spans)
    rule = ChunkRule.parse(chunk) if isinstance(chunk, str) else chunk
    aggregation = ChunkAggregation.parse(fold) if isinstance(fold, str) else fold
    rules = as_conventions(conventions)
    deep = _depth(parsed, rules, depth, len(collection.doc_ids), outside=bool(plan.systems))
    rules = rules.replace(depth=deep)
    chunkings = Chunkings(plan, collection, rules, rule, aggregation)
    for two in plan.reranks:
        check_depth(two, deep, chunked=chunkings.rule_of(two.name) is not None)
    data = chunkings.cut(rule)
    named = ",".join([filters] if isinstance(filters, str) else filters)
    if named:
        sides = data.query_ids, data.doc_ids, query_fields or {}, doc_fields or {}
        chunkings.add_filters(named, apply_filters(parse_filters(named), *sides))
        data = chunkings.cut(rule)
    if cluster is not None and not hasattr(cluster, "journal"):
        raise UsageError(f"cluster is what open_cluster() gives, found {type(cluster).__name__}.")
    machine = (threads, device, cache, progress, cluster)
    n_units = max(
        [two.depth or 0 for two in plan.reranks if two.count == "chunks"]
        + [int(named.cutoff or 0) for named in every if is_span_measure(named)],
        default=0,
    )
    options = SearchOptions(deep, aggregation, metric, rules.tiebreak, *machine, n_units)
    identity = (
        f"{__version__} {collection.fingerprint} {rule} {aggregation} {metric} {deep} "
        f"{rules.tiebreak} {options.unit_depth} {named and data.allowed_digest}".rstrip()
    )
    # The collection's fingerprint has no order, which ties and ready vectors may go by.
    identity += f" {digest_of_arrays(collection.doc_ids.order(), collection.query_ids.order())}"
    finished = BenchCheckpoint(None if checkpoint is None else Path(checkpoint), identity)
    judging = _Judging(chunkings, collection, _answerable(collection), parsed, rules, groups)
    judging = replace(judging, every=every, scorer=scorer)
    left_out: dict[str, str] = {}
    reach = max(deep if measure.cutoff is None else int(measure.cutoff) for measure in parsed)
    shared = {} if doc_of is None else {"doc_of": doc_of}
    shared |= {"filters": named} if named else {}
    outside = _OutsideSystems(asking, shared, query_fields or {}, reach, allow_mismatch, store)
    ran = list(_Run(plan, chunkings, options, finished, judging, left_out, outside).run())
    judging = replace(judging, qrels=_without_queries(judging.qrels, outside.failed))
    if not ran:
        raise InputError(f"No system can run on this collection: {next(iter(left_out.values()))}.")
    finished.clear()
    how: Any = {"chunk": rule, "aggregation": aggregation, "metric": metric, "depth": deep}
    how |= {"cache": cache, "prices": plan.prices, "data": data, "bases": plan.bases}
    result = BenchResult(collection, **judging.judge_all(ran), **how, left_out=left_out)
    if collection.by_answers is None:
        return result
    answered = _Judging.by_answers(chunkings, collection.by_answers, rules)
    by_answers = replace(result, collection=answered.collection, **answered.judge_all(ran))
    return replace(result, by_answers=by_answers)


def score_system(system: Any, collection: Any, measures: Any) -> Scores:
    """Score one system, as `systems` of `run_bench` takes it, on a collection or its folder."""
    if not isinstance(collection, Collection):
        collection = load_collection(collection)
    return run_bench(collection, systems=[system], measures=measures).systems[0].scores


@dataclass(frozen=True)
class _Judging:
    """Judgments and measures of the retrieved documents."""

    chunkings: Chunkings
    collection: Collection
    qrels: Qrels
    measures: tuple[Measure, ...]
    rules: Conventions
    groups: Mapping[Any, Any] | None = None
    every: tuple[Measure, ...] = ()
    scorer: SpanScorer | None = None

    @classmethod
    def by_answers(cls, chunkings: Chunkings, qrels: Qrels, rules: Conventions) -> _Judging:
        """Judge by the answers that texts hold, where documents are judged, too."""
        collection = chunkings.collection
        answers: Any = {"qrels": qrels, "by_answers": None, "relevant": "answers"}
        judged = replace(collection, **answers, fingerprint="")
        names = [name for name in ANSWER_MEASURES if int(name.split("@")[1]) <= (rules.depth or 0)]
        return cls(chunkings, judged, _answerable(judged), parse_many(names), rules)

    def judge_all(self, ran: list[_Searched]) -> dict[str, Any]:
        """Return the judged systems, and what scores a random and a perfect order."""
        systems = tuple(self._judge(system) for system in ran)
        return {"systems": systems, "orders": partial(self._score_orders, systems)}

    def _score_orders(self, systems: Sequence[System]) -> tuple[Scores, Scores]:
        how: dict[str, Any] = {"conventions": self.rules, "n_docs": len(self.collection.doc_ids)}
        hits = next((system.hits for system in systems if system.result.n_texts), None)
        hits = hits or self._hits(_retrieve_nothing(self.collection, systems[0].ranking.query_ids))
        return chance(hits, self.measures, **how), ceiling(hits, self.measures, **how)

    def _judge(self, system: _Searched) -> System:
        fields = system._asdict()
        lower_ranking, stored = fields.pop("lower"), fields.pop("stored")
        hits = self._hits(system.result.ranking)
        scores = score(hits, self.measures, conventions=self.rules)
        scores = scores if stored is None else take_scores(stored, scores, system.name)
        relevant = None if self.collection.relevant == "judged" else self.collection.relevant
        scores = scores.but_settings(collection=self.collection.fingerprint[:8], relevant=relevant)
        lower = None
        if lower_ranking is not None:  # of some queries
            rows = scores.query_ids.match(lower_ranking.query_ids) >= 0
            small = score(self._hits(lower_ranking), self.measures[:1], conventions=self.rules)
            lower = (small.values[0][rows], scores.values[0][rows])
        if self.scorer is not None:
            data = self.chunkings.data_of(system.exact or system.name)
            scores = self.scorer.add(scores, self.every, system.result, data)
        chunking = None
        if system.result.chunks is not None:
            chunking = self.chunkings.summarize(system.exact or system.name)
        more: Any = {"lower_cased": lower, "chunking": chunking}
        return System(**fields, hits=hits, scores=scores, **more)

    def _hits(self, ranking: Ranking) -> Hits:
        return judge(ranking, self.qrels, conventions=self.rules, allow_mismatch=True)  # looked at


def _retrieve_nothing(collection: Collection, query_ids: Ids) -> Ranking:
    """Return a ranking that names the documents of the collection, as systems elsewhere do not."""
    offsets, docs = np.zeros(len(query_ids) + 1, np.int64), np.empty(0, np.int32)
    n_docs = len(collection.doc_ids)
    return Ranking(query_ids, collection.doc_ids, offsets, docs, np.empty(0), n_docs=n_docs)


def _depth(
    measures: Sequence[Measure],
    rules: Conventions,
    depth: int | None,
    n_docs: int,
    *,
    outside: bool = False,
) -> int:
    """Return how many documents to retrieve.

    It is all of them where a cut could split ties that count. Systems that are asked are not asked
    for a thousand unless somebody says so.
    """
    if depth := depth or rules.depth:
        return checks.check_cutoff(depth, "depth")
    if rules.ties != "order":
        return n_docs
    if any(measure.cutoff is None for measure in measures) and not outside:
        return _DEPTH_WITHOUT_CUTOFF
    return max(_LEAST_DEPTH, *(int(measure.cutoff or 0) for measure in measures))


def _answerable(collection: Collection) -> Qrels:
    """Return the judgments of queries that have a text, which may be an empty one."""
    qrels = collection.qrels
    rows = np.flatnonzero(qrels.query_ids.match(collection.query_ids) >= 0)
    if not len(rows):
        raise UsageError("No judged query has a text. Check the ids of queries and judgments.")
    return _take_queries(qrels, rows)


def _without_queries(qrels: Qrels, queries: Iterable[str]) -> Qrels:
    """Return the judgments without queries that a system failed to answer."""
    failed = Ids.of(sorted(queries), "query") if queries else Ids.count(0)
    rows = np.flatnonzero(qrels.query_ids.match(failed) < 0) if len(failed) else None
    if rows is not None and not len(rows):
        raise InputError("Every judged query failed in some system. Check the systems.")
    return qrels if rows is None else _take_queries(qrels, rows)


def _take_queries(qrels: Qrels, rows: Ints) -> Qrels:
    if len(rows) == len(qrels.query_ids):
        return qrels
    at = np.concatenate([np.arange(qrels.offsets[row], qrels.offsets[row + 1]) for row in rows])
    ids, offsets = qrels.query_ids.take(rows), offsets_of(np.diff(qrels.offsets)[rows])
    entries: Any = {"docs": qrels.docs[at], "grades": qrels.grades[at]}
    return replace(qrels, query_ids=ids, offsets=offsets, **entries)


class _Searched(NamedTuple):
    """A system that was run; `exact` is the model of an index, `lower` queries in small letters,
    `first` the first stage of a reranker, `members` those of a fusion, `stored` the scores of a
    run of the store.
    """

    name: str
    spec: str
    result: SearchResult
    exact: str = ""
    lower: Ranking | None = None
    first: str = ""
    members: tuple[str, ...] = ()
    stored: Scores | None = None


@dataclass(frozen=True)
class _OutsideSystems:
    """How systems that Assay does not run itself are asked and read, and the queries that failed.

    `shared` settings hold for all systems that have none of their own; `reach` is the last rank
    that some measure looks at.
    """

    asking: Asking
    shared: Mapping[str, Any]
    fields: Mapping[str, Mapping[str, Any]]
    reach: int
    allow_mismatch: bool
    store: str | None
    failed: set[str] = field(default_factory=set)


@dataclass(frozen=True)
class _Run:
    """Run the systems of a plan; `left_out` says why some cannot run on this collection."""

    plan: BenchPlan
    chunkings: Chunkings
    options: SearchOptions
    finished: BenchCheckpoint
    judging: _Judging
    left_out: dict[str, str]
    outside: _OutsideSystems
    results: dict[str, SearchResult] = field(default_factory=dict)

    def run(self) -> Iterator[_Searched]:
        """Yield every system in turn: models (behind indexes, too), others, fusions, rerankers."""
        shared: dict[str, searches.ModelSearch] = {}
        for model in self.plan.models:
            key = f"{model.spec}@{model.chunk} {as_settings(own=model.settings)}"
            data = self.chunkings.data_of(model.name)
            search = searches.ModelSearch(model, data, self.options, shared.get(key))
            if any(other.codes for other in self.plan.models):
                shared.setdefault(key, search)
            yield from self._run_model(model, search, data)
        for system in self.plan.systems:
            settings = {**self.outside.shared, **system.settings}
            yield self._run_system(replace(system, settings=settings))
        for fusion in self.plan.fusions:
            result = self._try(fusion.name, fusion.members, partial(self._fuse, fusion))
            if result is not None:
                self.results[fusion.name] = result
                yield _Searched(fusion.name, fusion.spec, result, members=fusion.members)
        for two in self.plan.reranks:
            result = self._try(two.name, (two.first,), partial(self._rerank, two))
            if result is not None:
                spec = result.ranking.settings["rerank"]
                yield _Searched(two.name, spec, result, first=two.first)

    def _try(self, name: str, parts: Iterable[str], compute: Compute) -> SearchResult | None:
        """Return what a system retrieves; None, with a reason, if this collection forbids it."""
        missing = [part for part in parts if part in self.left_out]
        if missing:
            self.left_out[name] = f"it needs {missing[0]}"
            return None
        try:
            return compute()
        except InputError as error:
            if type(error) is not InputError:  # what a model made is broken, whatever the texts
                raise
            self.left_out[name] = str(error).removesuffix(".")
            return None

    def _run_model(
        self, model: Model, search: searches.ModelSearch, data: PreparedCollection
    ) -> Iterator[_Searched]:
        """Yield a model, and the same behind each index."""
        parts = self.finished if search.repeatable else self.finished.without_folder()
        load = partial(parts.load_or_compute, search.fingerprint, search.search, data)
        result = self._try(model.name, (), load)
        if result is None:
            return
        width = result.costs.dimension if model.is_lexical else None
        # Prompts, masks, lengths and pooling of such models are too much for a signature.
        encoder = None if search.kind == "dense" else search.encoder_mark
        fitted = as_settings(words=result.words or None, dimension=width, encoder=encoder)
        settings = {**_settings(model, data, self.options), **fitted}
        result = self.results[model.name] = _with_settings(result, settings, model.chunk)
        self.options.tell(model.name, "searching", 1, 1)  # also if it was finished before
        lower = None
        if (data_lower := search.small_letters) is not None:
            key = f"{search.fingerprint} small letters"
            lower = parts.load_or_compute(key, search.search_small_letters, data_lower)
        yield _Searched(model.name, model.system, result, lower=lower.ranking if lower else None)
        with closing(search):
            for index in self.plan.indexes:
                name = plans.indexed_name(model.name, index)
                compute = partial(search.search_index, name, index)
                key = f"{search.fingerprint} {index}"
                indexed = self._try(name, (), partial(parts.load_or_compute, key, compute, data))
                if indexed is not None:
                    how = as_settings(index=mask_secrets(index), filtered=indexed.filtered or None)
                    result = _with_settings(indexed, {**settings, **how}, model.chunk)
                    spec = plans.indexed_name(model.system, index)
                    yield _Searched(name, spec, result, model.name)

    def _run_system(self, system: Retriever) -> _Searched:
        """Return a system that is asked, or a run of a file, of Python or of the store."""
        options, judging, outside = self.options, self.judging, self.outside
        data = self.chunkings.data_of(system.name)
        rules, stored = judging.rules, None
        reader = AnswerReader(system, data, options, outside.reach, outside.allow_mismatch)
        if is_stored_run(system):
            fingerprint = judging.collection.fingerprint
            result, stored = read_stored_run(
                reader, rules, judging.measures, fingerprint, outside.store
            )
        elif is_run(system):
            result = read_run(reader, rules)
        else:
            place = self.finished.answers_of
            result, failed = search_retriever(reader, outside.asking, place, outside.fields)
            outside.failed.update(failed)
        result = self.results[system.name] = self._with_findings(system, result)
        options.tell(system.name, "searching", 1, 1)
        return _Searched(system.name, mask_secrets(system.spec), result, stored=stored)

    def _with_findings(self, system: Retriever, result: SearchResult) -> SearchResult:
        """Add what breaks a filter, and the recall of the exact search of a model."""
        name, ranking, findings = system.name, result.ranking, [*result.findings]
        data = self.chunkings.data_of(name)
        if data.allowed is not None:
            findings += describe_breaches(name, ranking, data.query_ids, data.doc_ids, data.allowed)
            ranking = replace(ranking, settings={**ranking.settings, "filter": data.filters})
        if system.spec.startswith("http:"):  # a request is too long for a signature
            where, _, options_text = system.spec.partition("?")
            keys = system.settings.keys() - {"key_env", "timeout", "exact", "doc_of", "filters"}
            deciding = {"?": options_text, **{key: system.settings[key] for key in keys}}
            mark = as_settings(model=where, request=fingerprint_of(deciding)[:8])
            ranking = replace(ranking, settings={**ranking.settings, **mark})
        if (base := system.settings.get("exact")) is not None:
            if base not in self.results or base not in [model.name for model in self.plan.models]:
                raise UsageError(f"{name!r}: exact = {base!r} is not a model. Add it.")
            exact = self.results[base].ranking
            findings.append(describe_recall(name, ranking, base, exact, self.outside.reach))
        return replace(result, ranking=ranking, findings=tuple(findings))

    def _rerank(self, two: Rerank) -> SearchResult | None:
        options, first = self.options, self.results[two.first]
        data = self.chunkings.data_of(two.name)
        settings = EncoderSettings(**two.settings)
        reranker: Any
        if two.reranker.startswith("maxsim:"):
            reranker = open_tokens(two, settings, options)
        else:
            reranker = load_reranker(two.reranker, settings=settings, device=options.device)
        parts = self.finished if reranker.identity is not None else self.finished.without_folder()
        key = f"{first.fingerprint} {reranker.fingerprint} {two.spec}"
        compute = partial(rerank, two, reranker, first, data, options)
        both = parts.load_or_compute(key, compute, data)
        if both is None:
            return None
        depth = check_depth(two, options.depth, chunked=data.chunked)
        mark = reranker.mark if isinstance(reranker, TokenReranker) else None
        both_stages = as_settings(rerank=replace(two, depth=depth).spec, reranker=mark)
        ranking = replace(both.ranking, settings={**first.ranking.settings, **both_stages})
        return replace(both, ranking=ranking)

    def _fuse(self, fusion: Fusion) -> SearchResult:
        """Return rankings made into one; it costs what its members cost, and the fusing."""
        options, judging = self.options, self.judging
        members = [self.results[name] for name in fusion.members]
        options.tell(fusion.name, "searching", 0, None)
        how: dict[str, Any] = {
            key: getattr(fusion, key) for key in ("method", "normalize", "rrf_k")
        }
        rankings, tuning = [member.ranking for member in members], None
        with searches.Timer() as timer:
            ranking = fuse(rankings, weights=fusion.weights, depth=options.depth, **how)
        if fusion.tune is not None:  # which is no part of a search, and its time does not count
            with searches.of_collection():
                ranking, tuning = tune_fusion(
                    rankings,
                    judging.qrels,
                    judging.measures[0],
                    folds=fusion.tune.number,
                    seed=fusion.tune.seed,
                    conventions=judging.rules,
                    clusters=judging.groups,
                    depth=options.depth,
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
            search_seconds=add_seconds(*(each.search_seconds for each in every), timer.seconds),
        )
        digest = "" if tuning is None else digest_of_arrays(ranking.offsets, ranking.docs)
        marks = " ".join(member.fingerprint for member in members)
        fingerprint = f"{fusion.spec} {digest} of {marks}"
        # Ranked chunks; weights of folds have none, nor have members that cut differently.
        units = [member.units for member in members if member.units is not None]
        every_data, fused = {*map(self.chunkings.data_of, fusion.members)}, None
        if fusion.tune is None and len(units) == len(members) and len(every_data) == 1:
            fused = fuse(units, weights=fusion.weights, depth=options.unit_depth, **how)
        data, n_texts = self.chunkings.data_of(fusion.name), members[0].n_texts
        chunks = _fuse_chunks(ranking, members, data)
        more: Any = {"tuning": tuning, "chunks": chunks, "units": fused}
        return SearchResult(ranking, costs, fingerprint, n_texts, **more)


def _settings(model: Model, data: PreparedCollection, options: SearchOptions) -> dict[str, str]:
    """Return what decides a model's ranking, for the signature."""
    deciding = {k: v for k, v in model.settings.items() if k not in ("key_env", "batch_size")}
    text = as_settings(settings=deciding)
    return as_settings(
        model=mask_secrets(model.spec + (f"({text['settings']})" if deciding else "")),
        codes=model.codes,
        chunk=data.chunk,
        filter=data.filters or None,
        fold=options.aggregation if data.chunked else None,
        n_docs=len(data.doc_ids),
    )


def _with_settings(result: SearchResult, settings: Settings, chunk: plans.Rule) -> SearchResult:
    """Add the settings, the metric where vectors were searched, and the system's own chunking.

    The depth is a convention.
    """
    metric = as_settings(metric=result.ranking.settings.get("metric"))
    ranking = replace(result.ranking, settings={**settings, **metric})
    cut = "" if chunk is None else f" {chunk}"
    return replace(result, ranking=ranking, fingerprint=f"{result.fingerprint}{cut}")


def _fuse_chunks(ranking: Ranking, members: Results, data: PreparedCollection) -> Ints | None:
    """Return the chunk of each document that matched in the member that ranks it highest."""
    chunks = [member.chunks for member in members if member.chunks is not None]
    if len(chunks) < len(members):
        return None
    rankings = [member.ranking for member in members]
    starts = [np.repeat(ranked.offsets[:-1], ranked.lengths) for ranked in rankings]
    ranks = np.concatenate([np.arange(len(start)) - start for start in starts])
    entries = np.concatenate([searches.number_entries(ranked, data) for ranked in rankings])
    order = np.argsort(ranks, kind="stable")
    source = entries[order], np.concatenate(chunks)[order]
    return pick_chunks(searches.number_entries(ranking, data), source)


_LAYOUT: Final = "bench-5"
_ROWS: Final = ("offsets", "docs", "scores")
_COUNTS: Final = ("n_texts", "n_cut", "n_without", "words", "remarks")


class BenchCheckpoint:
    """The finished systems of one bench; without a folder nothing is stored."""

    def __init__(self, folder: Path | None, identity: str) -> None:
        job = _digest(identity)
        place = None if folder is None else folder / _LAYOUT / job
        self._parts = Checkpoint(place, job, optional=True)

    def without_folder(self) -> BenchCheckpoint:
        """Return a checkpoint that stores nothing, for what could not be recognised again."""
        return BenchCheckpoint(None, "")

    def load_or_compute(
        self, key: str, compute: Compute, data: PreparedCollection
    ) -> SearchResult | None:
        """Return the part of this key if it is there and sound; else it is computed and stored.

        `data` is what is searched.
        """
        name = f"{_digest(key)}.part"
        part = self._parts.load(name)
        if part is not None:
            return _from_part(part, data)
        result = compute()
        if result is not None and result.index is None:  # a report on an index is made anew
            ranking, units = result.ranking, result.units
            arrays: Any = {name: getattr(ranking, name) for name in _ROWS}
            more = {"tie_split": ranking.tie_split, "chunks": result.chunks}
            more |= {f"unit_{name}": getattr(units, name) for name in _ROWS if units is not None}
            arrays |= {name: array for name, array in more.items() if array is not None}
            notes = {
                "costs": asdict(result.costs),
                "fingerprint": result.fingerprint,
                "counts": {name: getattr(result, name) for name in _COUNTS},
                "ranking": [ranking.tiebreak, ranking.search, dict(ranking.settings)],
            }
            self._parts.save(name, arrays, notes)
        return result

    def answers_of(self, key: str) -> Checkpoint:
        """Return where the answers of a system are kept until the bench is complete."""
        home = self._parts.folder
        return Checkpoint(None if home is None else home / _digest(key), key, optional=True)

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
    costs, counts = Costs(**notes["costs"]), notes["counts"]
    units = None
    if "unit_docs" in arrays:
        units = searches.rank_units(data, *(arrays[f"unit_{name}"] for name in _ROWS))
    parts: Any = {"chunks": arrays.get("chunks"), "units": units}
    return SearchResult(ranking, costs, notes["fingerprint"], **counts, **parts)
