"""One model on one collection: fitted or encoded, then searched by words, exact or by an index."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from assay.arrays import Ints, offsets_of, rows_of
from assay.bench.plan import BenchPlan, InFile, Model, PreparedCollection, Rerank, make_codes
from assay.bench.settings import Metric
from assay.core import checks
from assay.core.ids import Ids
from assay.core.ranking import Ranking
from assay.core.text import mask_secrets, parse_whole
from assay.errors import InputError, UsageError
from assay.models import EncoderSettings, TextModel, lexical_model, ragged, text_model, token_codes
from assay.models.encoding import add_tokens
from assay.models.lexical import warm_up
from assay.models.ragged import take_rows
from assay.models.specs import vector_kind
from assay.plugins import find_hook
from assay.search.engine import Codes, prepare, rank, rank_codes
from assay.search.indexes import build_index, measure_index

if TYPE_CHECKING:
    from assay.inspect.check import Finding
    from assay.models import EmbeddingCache, Encoded
    from assay.search.fusion import Tuning
    from assay.search.indexes import Index, IndexReport


# Called with the name of a system, what it is doing, how much of that is done, and how much there
# is to do.
BenchProgress = Callable[[str, str, int, int | None], None]
# Ranks the first k units for a block of queries.
SearchUnits = Callable[[slice, int], Ranking]
# Ranks the first k among some units (None stands for all) for some queries.
SearchSome = Callable[[Ints, int, Ints | None], Ranking]

_MOST_SCORES: Final = 20_000_000  # of chunks at once, where all of them are needed
_MOST_CAPITALS: Final = 0.8  # of the queries, to be called in capitals
_TRIED: Final = 200  # queries in small letters, at most


@dataclass(frozen=True)
class ChunkAggregation:
    """The score of a document: the sum over its `best` chunks; 1 is the maximum.

    >>> ChunkAggregation.parse("max"), str(ChunkAggregation.parse("sum:3"))
    (ChunkAggregation(best=1), 'sum:3')
    """

    best: int = 1

    @classmethod
    def parse(cls, text: str) -> ChunkAggregation:
        """Parse `max` or `sum:N`."""
        if text == "max":
            return cls(1)
        kind, _, number = text.partition(":")
        if kind != "sum" or (parse_whole(number) or 0) < 1:
            rules = "'max' or 'sum:N', such as sum:3"
            raise UsageError(f"Unknown chunk aggregation {text!r}. Use {rules}.")
        return cls(int(number))

    def __str__(self) -> str:
        return "max" if self.best == 1 else f"sum:{self.best}"


@dataclass(frozen=True)
class Costs:
    """Seconds and bytes; None where they do not apply.

    `n_encoded` texts took `encode_seconds`; those that came from the cache count in neither.
    `search_seconds` is for all queries: the sum of the latencies of a system that is asked, None of
    a run; `serving` has latency, throughput and errors of the former. `tokens` are those that an
    endpoint counted for what was computed now. `bytes_per_vector` is said of codes, and
    `bytes_per_document` of token and sparse vectors. A reranker scores `pairs` of a query and a
    text, of which `pairs_computed` were not in the cache.
    """

    encode_seconds: float = 0.0
    n_encoded: int = 0
    dimension: int | None = None
    bytes: int | None = None
    build_seconds: float | None = None
    search_seconds: float | None = 0.0
    tokens: int | None = None
    bytes_per_vector: int | None = None
    bytes_per_document: float | None = None
    pairs: int | None = None
    pairs_computed: int | None = None
    serving: Mapping[str, Any] | None = None

    @property
    def texts_per_second(self) -> float | None:
        """How fast texts were encoded, or documents fitted; None where all came from the cache."""
        if not self.n_encoded or not self.encode_seconds:
            return None
        return self.n_encoded / self.encode_seconds

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        data = {**asdict(self), "texts_per_second": self.texts_per_second}
        seldom: tuple[str, ...] = ("tokens", "bytes_per_vector", "bytes_per_document")
        seldom = (*seldom, "pairs", "pairs_computed", "serving")
        return {key: value for key, value in data.items() if value is not None or key not in seldom}


def add_seconds(*parts: float | None) -> float | None:
    """Return the sum of times; None where one is not known, as that of a run.

    >>> add_seconds(1.0, 2.0), add_seconds(1.0, None)
    (3.0, None)
    """
    return None if None in parts else sum(part or 0.0 for part in parts)


@contextmanager
def of_collection() -> Iterator[None]:
    """Make an error of what cannot be built from these documents one of the collection."""
    try:
        yield
    except UsageError as error:
        raise InputError(str(error)) from error


class Timer:
    """Seconds between the beginning and the end of a `with` block."""

    seconds = 0.0

    def __enter__(self) -> Timer:
        self._began = time.perf_counter()
        return self

    def __exit__(self, *_: object) -> None:
        self.seconds = time.perf_counter() - self._began


@dataclass(frozen=True, eq=False)
class SearchOptions:
    """Settings that all systems share: depth, metric, place, and who is told.

    `unit_depth` is how many chunks of each query a reranker or a measure of passages may need.
    """

    depth: int
    aggregation: ChunkAggregation
    metric: Metric | Literal["maxsim"]
    tiebreak: str
    threads: int | None = None
    device: str | None = None
    cache: EmbeddingCache | None = None
    progress: BenchProgress | None = None
    cluster: Any = None
    unit_depth: int = 0

    def tell(self, system: str, phase: str, done: int, total: int | None) -> None:
        """Report progress, where somebody listens."""
        if self.progress is not None:
            self.progress(system, phase, done, total)

    def listener(self, system: str, phase: str) -> Callable[[int, int], None] | None:
        """Return a function that reports the progress of one phase."""
        return None if self.progress is None else partial(self.progress, system, phase)


@dataclass(frozen=True, eq=False)
class SearchResult:
    """What one system retrieved and what it cost.

    `n_cut` of `n_texts` texts were truncated by the model; None where it cannot tell. `n_without`
    texts have no vector, or one of zeros: they cannot be retrieved. Of documents that are cut,
    `chunks` has the chunk that matched each ranked one best: its number in the document, begin and
    end. `units` are ranked chunks, where a reranker or a measure of passages needs them. `words`
    is what a lexical model takes for words, `filtered` whether an index filters by its engine or
    after its search. A system that Assay does not run itself has no texts
    (`n_texts` is 0), and `findings` about its answers.
    """

    ranking: Ranking
    costs: Costs
    fingerprint: str
    n_texts: int
    n_cut: int | None = None
    n_without: int = 0
    index: IndexReport | None = None
    tuning: Tuning | None = None
    chunks: Ints | None = None
    units: Ranking | None = None
    words: str = ""
    filtered: str = ""
    remarks: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()


class RankedDocs(NamedTuple):
    """Documents of a search, their best chunks, and ranked chunks, as in `SearchResult`."""

    ranking: Ranking
    chunks: Ints | None = None
    units: Ranking | None = None
    seconds: float = 0.0


@dataclass(frozen=True, eq=False)
class EncodedTexts:
    """Vectors of units and queries, with their costs."""

    docs: Any
    queries: Any
    costs: Costs
    fingerprint: str
    n_cut: int | None

    @cached_property
    def usable(self) -> NDArray[np.int64]:
        """The units with a vector that is not zero, a token or a weight."""
        return np.flatnonzero(ragged.have_numbers(self.docs))

    @cached_property
    def asking(self) -> NDArray[np.int64]:
        """The queries with a vector that is not zero, a token or a weight."""
        return np.flatnonzero(ragged.have_numbers(self.queries))

    @cached_property
    def corpus(self) -> Any:
        """The vectors that can be found."""
        return (
            self.docs if len(self.usable) == len(self.docs) else take_rows(self.docs, self.usable)
        )

    def as_result(self, ranked: RankedDocs, how: str = "", **costs: Any) -> SearchResult:
        """Return the result for these vectors; `how` names an inexact search."""
        costs_of_search = replace(self.costs, search_seconds=ranked.seconds, **costs)
        counts = len(self.docs), self.n_cut, len(self.docs) - len(self.usable)
        parts: Any = {"chunks": ranked.chunks, "units": ranked.units}
        made_by = f"{self.fingerprint} {how}".rstrip()
        return SearchResult(ranked.ranking, costs_of_search, made_by, *counts, **parts)


class ModelSearch:
    """One model on one collection; vectors are made when they are first needed."""

    def __init__(
        self,
        model: Model,
        data: PreparedCollection,
        options: SearchOptions,
        same: ModelSearch | None = None,
    ) -> None:
        options = replace(options, metric=model.metric or options.metric)
        self.model, self._data, self._options = model, data, options
        self._same = same  # a search of the same vectors, which are made once
        self._index: Index | None = None  # the last one, for others that only search differently
        self._exact: Ranking | None = None
        self._maker: Any
        self._remarks: list[str] = []
        if same is not None:
            self._maker, self._remarks = same._maker, same._remarks
        elif model.is_lexical:
            lexical = lexical_model(model.spec, **model.settings)
            self._maker, self._remarks = lexical.for_texts(data.unit_texts)
        else:
            self._maker = _text_model(model, options)
        if self.kind != "dense":
            check_ragged(self.kind, model)
            usual = "maxsim" if self.kind == "tokens" else self._maker.metric or "dot"
            self._options = replace(options, metric=cast("Any", model.metric or usual))

    @property
    def kind(self) -> ragged.VectorKind:
        """Return the kind of vectors: one for a text, its tokens, or sparse weights."""
        kind: ragged.VectorKind = getattr(self._maker, "kind", "dense")
        return kind

    @property
    def fingerprint(self) -> str:
        """Return the identity of the search before it runs: model, metric, code and chunking."""
        parts = self.model.metric, self.model.codes, self.model.chunk
        further = "".join(f" {part}" for part in parts if part)
        return f"{self._maker.fingerprint}{further}"

    @property
    def encoder_mark(self) -> str:
        """Eight characters for all that vectors depend on: weights, prompts, masks, lengths."""
        return str(self._maker.fingerprint)[:8]

    @property
    def repeatable(self) -> bool:
        """Whether the fingerprint tells all that the result depends on."""
        return bool(getattr(self._maker, "repeatable", True))

    @cached_property
    def _fitted(self) -> tuple[Any, Costs]:
        """The lexical model, fitted to the units, and what that cost."""
        self._options.tell(self.model.name, "fitting", 0, None)
        warm_up(self._maker)
        with Timer() as timer:
            fitted = self._maker.fit(list(self._data.unit_texts))
        vectors = getattr(fitted, "doc_vectors", None)
        if vectors is not None:
            width, size = vectors.shape[1], vectors.nbytes
        else:
            width, size = None, sum(array.nbytes for array in fitted.docs.arrays()[:3])
        return fitted, Costs(timer.seconds, self._data.n_units, width, size)

    @cached_property
    def _vectors(self) -> EncodedTexts | None:
        """The vectors; None for a model that has none."""
        if self._same is not None:
            return self._same._vectors
        if not self.model.is_lexical:
            return self._encode()
        fitted, costs = self._fitted
        if not hasattr(fitted, "doc_vectors"):
            return None
        queries = fitted.query_vectors(list(self._data.query_texts))
        return EncodedTexts(fitted.doc_vectors, queries, costs, self._maker.fingerprint, None)

    def _encode(self) -> EncodedTexts:
        """Return vectors of units and queries by a text model, through the cache."""
        name, maker, data, options = self.model.name, self._maker, self._data, self._options
        if maker.spec.startswith("npy:"):
            options.tell(name, "reading", 0, None)
            docs = read_rows(maker.encode_docs, data.docs_in_file)
            queries = read_rows(maker.encode_queries, data.queries_in_file)
        else:
            docs = maker.encode_docs(data.unit_texts, options.listener(name, "documents"))
            queries = maker.encode_queries(data.query_texts, options.listener(name, "queries"))
        if self.kind == "sparse":
            both = ragged.number_terms(docs.vectors, queries.vectors, name)
            docs, queries = replace(docs, vectors=both[0]), replace(queries, vectors=both[1])
        n_dimensions = docs.vectors.shape[1]
        if n_dimensions != (width := queries.vectors.shape[1]):
            sizes = f"{n_dimensions} dimensions for documents and {width} for queries"
            raise UsageError(f"{name!r} makes {sizes}.")
        sums = docs.seconds + queries.seconds, docs.n_computed + queries.n_computed
        tokens = add_tokens(docs.tokens, queries.tokens)
        costs = Costs(*sums, n_dimensions, ragged.count_bytes(docs.vectors), tokens=tokens)
        if self.kind != "dense":
            mean = cast("int", costs.bytes) / len(docs.vectors)
            costs = replace(costs, bytes_per_document=mean)
        n_cut = None if docs.truncated is None else int(docs.truncated.sum())
        return EncodedTexts(docs.vectors, queries.vectors, costs, maker.fingerprint, n_cut)

    def search(self) -> SearchResult:
        """Search the vectors or their codes exactly, or by words."""
        if self._vectors is None:
            result = self._search_words()
        elif self.model.codes is not None and self.kind == "tokens":
            result = self._search_token_codes(self._vectors, self.model.codes)
        elif self.model.codes is not None:
            result = self._search_codes(self._vectors, self.model.codes)
        else:
            result = self._search_vectors(self._vectors, self._data)
        if not self.model.is_lexical:
            return result
        remarks = (*self._remarks, *(self._same or self)._fitted[0].remarks)
        return replace(result, words=self._maker.words, remarks=remarks)

    @cached_property
    def small_letters(self) -> PreparedCollection | None:
        """Some of the queries in small letters, where they are in capitals: what do those cost?

        None where there is nothing to learn: queries in mixed case, a lexical model, which takes
        no notice of case, vectors from a file, or from an endpoint, which may have a price.
        """
        searched = self.model.codes is not None or self.model.is_lexical
        if searched or self._maker.spec.startswith(("npy:", "openai:")):
            return None
        data = self._data
        cased = [text for text in data.query_texts if text.upper() != text.lower()]
        if not cased or sum(text == text.upper() for text in cased) < _MOST_CAPITALS * len(cased):
            return None
        rows = np.arange(0, len(data.query_texts), max(1, len(data.query_texts) // _TRIED))[:_TRIED]
        texts = tuple(data.query_texts[row].lower() for row in rows)
        allowed = None if data.allowed is None else data.allowed.take(rows)
        queries: Any = {"query_ids": data.query_ids.take(rows), "query_texts": texts}
        return replace(data, **queries, allowed=allowed)

    def search_small_letters(self) -> SearchResult | None:
        """Return the results of lower-cased queries."""
        data, encoded = self.small_letters, self._vectors
        if data is None or encoded is None:
            return None
        queries = self._maker.encode_queries(data.query_texts).vectors
        return self._search_vectors(replace(encoded, queries=queries), data)

    def _search_words(self) -> SearchResult:
        """Search by words; a document that shares none with the query is not retrieved."""
        (fitted, costs), data = self._fitted, self._data

        def search(rows: Ints, k: int, among: Ints | None) -> Ranking:
            # Weights of words stay those of all documents, as in engines that filter.
            part = fitted if among is None else fitted.among(among)
            docs, scores = part.search([data.query_texts[row] for row in rows], k + 1)
            docs = docs if among is None else np.where(docs < 0, -1, among[docs])
            ids = data.query_ids.take(rows)
            ranking = Ranking.from_arrays(docs, scores, query_ids=ids, n_docs=data.n_units)
            return ranking.first(k)  # the one more tells whether the cut splits a tie

        ranking, chunks, units, seconds = self._rank(search, np.arange(len(data.query_ids)))
        timed, made_by = replace(costs, search_seconds=seconds), self._maker.fingerprint
        return SearchResult(ranking, timed, made_by, data.n_units, chunks=chunks, units=units)

    def _search_vectors(self, encoded: EncodedTexts, data: PreparedCollection) -> SearchResult:
        """Search exactly; a vector of zeros neither retrieves nor is retrieved."""
        usable, corpus, threads = encoded.usable, encoded.corpus, self._options.threads
        if not len(usable):
            raise _no_vectors(self.model.name, "documents")
        # Chunks are searched again where a document has many; whole documents are searched once.
        docs = prepare(corpus, threads=threads) if data.chunked else corpus
        how: Any = {"metric": self._options.metric, "zero": "drop", "threads": threads}
        if self.kind == "sparse":
            how["zero"] = "error"

        asking = np.ones(len(data.query_ids), bool)
        if self.kind != "dense":  # the engine takes no query without a token or, by cosine, weight
            asking[:] = False
            asking[_asking(self.model.name, encoded)] = True

        def search(rows: Ints, k: int, among: Ints | None) -> Ranking:
            at, some = _places_of(among, usable), rows[asking[rows]]
            left = take_rows(encoded.queries, some if len(some) else np.flatnonzero(asking)[:1])
            ranking = rank(left, docs if among is None else take_rows(corpus, at), k, **how)
            if self.kind == "sparse":
                ranking = _without_zeros(ranking)
            if len(some) < len(rows):
                ranking = _spread_rows(ranking, asking[rows])
            return _renumber(ranking, usable[at], data.query_ids.take(rows))

        queries = np.arange(len(data.query_ids))
        return encoded.as_result(self._rank(search, queries, data=data, usable=usable))

    def _search_codes(self, encoded: EncodedTexts, codes: str) -> SearchResult:
        """Search the codes of the vectors exactly; bits by Hamming distance."""
        name, options = self.model.name, self._options
        check_ragged(self.kind, self.model)
        usable, asking = encoded.usable, _asking(name, encoded)
        options.tell(name, "building", 0, None)
        with Timer() as timer, of_collection():
            code = make_codes(codes, encoded.corpus, options.metric)
            docs = code.encode(encoded.corpus)
        encoder, queries = code.first, code.encode_queries(encoded.queries[asking])
        metric = encoder.metric or options.metric

        def search(rows: Ints, k: int, among: Ints | None) -> Ranking:
            at = _places_of(among, usable)
            if isinstance(docs, Codes) and isinstance(queries, Codes):
                some = Codes(queries.packed[rows], queries.bits)
                candidates = docs if among is None else Codes(docs.packed[at], docs.bits)
                ranking = rank_codes(some, candidates, k, threads=options.threads)
            else:
                left, right = cast("tuple[Any, Any]", (queries, docs))
                how: Any = {"metric": metric, "zero": "drop", "threads": options.threads}
                ranking = rank(left[rows], right[at], k, **how)
            return _renumber(ranking, usable[at], self._data.query_ids.take(asking[rows]))

        ranked, width = self._rank(search, asking, usable=usable), encoder.bytes_per_vector
        size = len(usable) * width + encoder.codebook_bytes
        costs: Any = {"build_seconds": timer.seconds, "bytes": size, "bytes_per_vector": width}
        return encoded.as_result(ranked, codes, **costs)

    def _search_token_codes(self, encoded: EncodedTexts, code: str) -> SearchResult:
        """Search what codes of tokens stand for, by exact MaxSim."""
        self._options.tell(self.model.name, "building", 0, None)
        with Timer() as timer, of_collection():
            docs, size = token_codes.encode_tokens(code, encoded.docs)
        queries = token_codes.encode_queries(code, encoded.queries)
        result = self._search_vectors(replace(encoded, docs=docs, queries=queries), self._data)
        costs: Any = {"build_seconds": timer.seconds, "bytes": size}
        costs = replace(result.costs, **costs, bytes_per_document=size / len(docs))
        return replace(result, costs=costs, fingerprint=f"{result.fingerprint} {code}")

    def search_index(self, name: str, spec: str) -> SearchResult | None:
        """Search the vectors by another engine's index, and measure its recall of the exact result.

        None for a model without vectors.
        """
        encoded, options = self._vectors, self._options
        if encoded is None or self.model.codes is not None:
            return None
        check_ragged(self.kind, self.model, (spec,))
        usable, asking, data = encoded.usable, _asking(name, encoded), self._data
        queries, k = encoded.queries[asking], min(options.depth, len(usable))
        how: Any = {"metric": options.metric, "threads": options.threads}
        if self._index is None or not self._index.tune(spec):
            self.close()
            options.tell(name, "building", 0, None)
            with of_collection():
                self._index = build_index(spec, encoded.corpus, **how)
        index, allowed = self._index, None

        def search(rows: Ints, k: int, among: Ints | None) -> Ranking:
            some = None if among is None else _places_of(among, usable)
            ranking = index.rank(queries[rows], min(k, len(usable)), among=some)
            return _renumber(ranking, usable, data.query_ids.take(asking[rows]))

        ranked = self._rank(search, asking, name, usable=usable)
        if data.allowed is not None:
            passing = [np.flatnonzero(mask[data.unit_doc[usable]]) for mask in data.allowed.masks]
            allowed = [passing[group] for group in data.allowed.groups[asking]]
        elif self._exact is None:  # made once for all indexes
            self._exact = rank(queries, encoded.corpus, k, **how)
        report = measure_index(index, queries, k, exact=self._exact, among=allowed)
        size = report.memory_bytes or report.disk_bytes or encoded.costs.bytes
        costs: Any = {"build_seconds": report.build_seconds, "bytes": size}
        result = encoded.as_result(ranked, report.spec, **costs)
        return replace(result, index=report, filtered=index.filtered)

    def close(self) -> None:
        """Close the index, if one is open."""
        if self._index is not None:
            self._index.close()
        self._index = None

    def _rank(
        self,
        search_some: SearchSome,
        queries: Ints,
        name: str | None = None,
        data: PreparedCollection | None = None,
        usable: Ints | None = None,
    ) -> RankedDocs:
        """Return the ranked documents of these queries, and the seconds after a first query."""
        name, data, n_queries = name or self.model.name, data or self._data, len(queries)
        search = partial(search_allowed, search_some, queries, data, usable)
        self._options.tell(name, "searching", 0, None)
        search(slice(0, 1), 1)
        with Timer() as timer:
            ranked = rank_documents(search, n_queries, data, self._options)
        self._options.tell(name, "searching", n_queries, n_queries)
        return ranked._replace(seconds=timer.seconds)


def _text_model(model: Model, options: SearchOptions) -> TextModel:
    """Return the model, which encodes on the cluster where there is one."""
    settings, elsewhere = EncoderSettings(**model.settings), None
    if options.cluster is not None:
        encode = find_hook("encode_batches")
        elsewhere = encode(options.cluster, model.spec, settings, options.device)
    where: Any = {"cache": options.cache, "device": options.device, "elsewhere": elsewhere}
    return text_model(model.spec, settings=settings, warm_up=True, ragged=True, **where)


def check_kinds(plan: BenchPlan) -> None:
    """Reject settings that contradict a model's vectors, as far as files tell."""
    for model in plan.models:
        if (kind := vector_kind(model.spec)) is not None:
            check_ragged(kind, model, plan.indexes)
    for two in plan.reranks:
        if two.reranker.startswith("maxsim:"):
            check_tokens(two, vector_kind(two.reranker.removeprefix("maxsim:")))


def check_tokens(plan: Rerank, kind: ragged.VectorKind | None) -> None:
    """Refuse MaxSim of a model that makes no token vectors; None is not known yet."""
    if kind not in (None, "tokens"):
        spec = plan.reranker.removeprefix("maxsim:")
        raise UsageError(
            f"{plan.name!r} reranks by MaxSim, and {spec!r} makes {ragged.NAMES[kind]} of a text. "
            "Name a model of token vectors."
        )


def check_ragged(kind: ragged.VectorKind, model: Model, indexes: Iterable[str] = ()) -> None:
    """Reject metric, code and indexes that do not fit a model's vectors."""
    named, metric, code = f"{model.name!r} makes {ragged.NAMES[kind]}", model.metric, model.codes
    if kind == "dense":
        if code is not None and token_codes.is_pooled(code):
            raise UsageError(f"{named} per text; {code!r} pools token vectors. Omit it.")
        return
    if kind == "tokens":
        if metric is not None:
            raise UsageError(f"{named}, compared by MaxSim. Omit its metric {metric!r}.")
        if code is not None:
            token_codes.parse_code(code)
    elif metric == "l2":
        raise UsageError(f"{named}, compared by 'dot' or 'cosine'. Replace 'l2'.")
    elif code is not None:
        raise UsageError(f"{named}, which have no codes. Omit codes={code}.")
    for index in indexes:
        raise UsageError(
            f"{named}, which the index {mask_secrets(index)!r} cannot hold. Run them without "
            "--index."
        )


def _spread_rows(ranking: Ranking, present: NDArray[np.bool_]) -> Ranking:
    """Return a ranking with an empty row for each query that is not present."""
    if not present.any():  # what was ranked only stands in
        ranking = ranking.select(np.zeros(len(ranking.given_docs), bool))
    lengths, splits = np.zeros(len(present), np.int64), np.zeros(len(present), bool)
    lengths[present] = ranking.lengths[: present.sum()]
    if ranking.tie_split is not None:
        splits[present] = ranking.tie_split[: present.sum()]
    more: Any = {"query_ids": Ids.count(len(present)), "tie_split": splits}
    return replace(ranking, offsets=offsets_of(lengths), **more)


def _without_zeros(ranking: Ranking) -> Ranking:
    """Return a ranking without documents that share no weight with the query."""
    shorter = ranking.select(ranking.given_scores != 0)
    if shorter.tie_split is None:
        return shorter
    return replace(shorter, tie_split=shorter.tie_split & (shorter.lengths == ranking.lengths))


def read_rows(encode: Callable[..., Encoded], file: InFile) -> Encoded:
    """Read ready vectors of all texts in a collection's file; return those that take part."""
    encoded = encode(file.texts, ids=file.ids)
    vectors = take_rows(encoded.vectors, file.rows)
    return replace(encoded, vectors=vectors, empty=encoded.empty[file.rows])


def _asking(name: str, encoded: EncodedTexts) -> NDArray[np.int64]:
    """Return the queries that have a vector; refuse if none has."""
    if not len(encoded.asking):
        raise _no_vectors(name, "queries")
    return encoded.asking


def _no_vectors(name: str, what: str) -> InputError:
    return InputError(f"{name!r} gives all {what} a zero vector: nothing can be retrieved.")


def _renumber(ranking: Ranking, units: NDArray[np.int64], query_ids: Ids) -> Ranking:
    """Return a ranking with units numbered among all, and named queries."""
    docs = units[ranking.docs].astype(np.int32)
    return replace(ranking, query_ids=query_ids, given_docs=docs, given_scores=ranking.scores)


def _places_of(among: Ints | None, usable: Ints) -> Any:
    """Return where some units stand among the usable ones; all of them for None."""
    return slice(None) if among is None else np.searchsorted(usable, among)


def search_allowed(
    search: SearchSome,
    queries: Ints,
    data: PreparedCollection,
    usable: Ints | None,
    rows: slice,
    k: int,
) -> Ranking:
    """Rank the first k units that each query may get; queries with equal filters go together."""
    members = np.arange(len(queries))[rows]
    if data.allowed is None:
        return search(members, k, None)
    groups = data.allowed.groups[queries[members]]
    parts: list[Ranking | None] = [None] * len(members)
    for group in np.unique(groups):
        places = np.flatnonzero(groups == group)
        units = np.flatnonzero(data.allowed.masks[group][data.unit_doc])
        units = units if usable is None else np.intersect1d(units, usable)
        if len(units):
            ranking = search(members[places], min(k, len(units)), units)
        else:
            ranking = search(members[places], 1, None)
            ranking = ranking.select(np.zeros(len(ranking.docs), bool))
        for row, place in enumerate(places):
            parts[place] = ranking.rows(np.array([row]))
    return _concatenate([part for part in parts if part is not None])


def rank_documents(
    search: SearchUnits, n_queries: int, data: PreparedCollection, options: SearchOptions
) -> RankedDocs:
    """Return the ranking of documents for all queries, from searches of the units."""
    step = n_queries  # all at once, unless every chunk of every document is needed
    if data.chunked and options.aggregation.best > 1:
        step = max(1, _MOST_SCORES // data.n_units)
    starts = range(0, n_queries, step)
    blocks = [slice(start, min(start + step, n_queries)) for start in starts]
    parts = [_rank_block(search, rows, data, options) for rows in blocks]
    ranking = _concatenate([part.ranking for part in parts])
    if not data.chunked:
        return RankedDocs(ranking)
    best = np.concatenate([part.chunks for part in parts if part.chunks is not None])
    units = [part.units for part in parts if part.units is not None]
    return RankedDocs(ranking, data.places[best], _concatenate(units) if units else None)


def _rank_block(
    search: SearchUnits, rows: slice, data: PreparedCollection, options: SearchOptions
) -> RankedDocs:
    if not data.chunked:
        units = search(rows, min(options.depth, data.n_units))
        docs = data.unit_doc[units.docs].astype(np.int32)
        ranking = replace(
            units,
            doc_ids=data.doc_ids,
            given_docs=docs,
            given_scores=units.scores,
            in_order=True,
            n_docs=len(data.doc_ids),
            tiebreak=options.tiebreak,
            has_ids=True,
        )
        return RankedDocs(ranking)
    k = data.n_units
    if options.aggregation.best == 1:
        k = min(max(4 * options.depth, options.unit_depth), data.n_units)
    while True:
        units = search(rows, k)
        how: Any = {"aggregation": options.aggregation, "depth": options.depth}
        named = replace(units, has_ids=True)
        ranked = aggregate_chunks(named, data.unit_doc, doc_ids=data.doc_ids, **how)
        full = (ranked.ranking.lengths >= options.depth) | (units.lengths < k)
        if k >= data.n_units or full.all():
            ranking = replace(ranked.ranking, tiebreak=options.tiebreak)
            first = units.first(options.unit_depth) if options.unit_depth else None
            return RankedDocs(ranking, ranked.chunks, first)
        k = min(4 * k, data.n_units)  # some query has too few documents yet


def _concatenate(parts: list[Ranking]) -> Ranking:
    """Return rankings of different queries as one."""
    if len(parts) == 1:
        return parts[0]
    splits = [(part.tie_split, np.zeros(len(part), bool)) for part in parts]
    return replace(
        parts[0],
        query_ids=Ids.concat([part.query_ids for part in parts]),
        offsets=offsets_of(np.concatenate([part.lengths for part in parts])),
        given_docs=np.concatenate([part.docs for part in parts]),
        given_scores=np.concatenate([part.scores for part in parts]),
        in_order=True,
        tie_split=np.concatenate([none if split is None else split for split, none in splits]),
    )


def aggregate_chunks(
    chunks: Ranking, doc_of_chunk: Any, *, doc_ids: Ids, aggregation: ChunkAggregation, depth: int
) -> RankedDocs:
    """Return the ranked documents and their best chunks; chunk i is of document `doc_of_chunk[i]`.

    A document's score is over the chunks that were retrieved; the others add nothing.

    >>> chunks = Ranking.from_scores([[0.2, 0.9, 0.8]])
    >>> how = {"doc_ids": Ids.count(2), "aggregation": ChunkAggregation(2), "depth": 2}
    >>> docs = aggregate_chunks(chunks, [0, 0, 1], **how)
    >>> docs.ranking.row(0), docs.chunks.tolist()
    ([(0, 1.1), (1, 0.8)], [1, 2])
    """
    owner = checks.check_numbers(doc_of_chunk, len(doc_ids), "doc_of_chunk")
    rows, docs = rows_of(chunks.offsets), owner[chunks.docs]
    key = rows * len(doc_ids) + docs
    by_key = np.argsort(key, kind="stable")  # chunks of one document stay best first
    new = np.diff(key[by_key], prepend=-1) != 0
    firsts = np.flatnonzero(new)  # where the chunks of each document begin
    place = np.arange(len(key)) - np.repeat(firsts, np.diff([*firsts, len(key)]))
    counted = by_key[place < aggregation.best]
    group = np.searchsorted(firsts, np.flatnonzero(place < aggregation.best), side="right") - 1
    scores = np.zeros(len(firsts))
    np.add.at(scores, group, chunks.scores[counted])  # one by one, in the order of ranks
    heads = by_key[firsts]
    offsets = np.searchsorted(rows[heads], np.arange(chunks.n_queries + 1)).astype(np.int64)
    whole = Ranking(
        chunks.query_ids,
        doc_ids,
        offsets,
        docs[heads].astype(np.int32),
        scores,
        in_order=False,
        n_docs=len(doc_ids),
        **{name: getattr(chunks, name) for name in ("has_ids", "search", "settings")},
    )
    ranking = replace(whole.first(depth), name=chunks.name)
    entries = rows_of(ranking.offsets) * len(doc_ids) + ranking.docs
    best = chunks.docs[heads[np.searchsorted(key[heads], entries)]]
    return RankedDocs(ranking, best.astype(np.int64))


def rank_units(data: PreparedCollection, offsets: Ints, units: Ints, scores: Any) -> Ranking:
    """Return a ranking of chunks by their numbers; each row is put in order."""
    ids, numbers = Ids.count(data.n_units), units.astype(np.int32)
    of_units: Any = {"in_order": False, "n_docs": data.n_units}
    return Ranking(data.query_ids, ids, offsets, numbers, scores, **of_units)


def number_entries(ranking: Ranking, data: PreparedCollection) -> Ints:
    """Return a number for each ranked document that is the same in all rankings of a query."""
    queries = ranking.query_ids.match(data.query_ids)[rows_of(ranking.offsets)]
    docs = ranking.doc_ids.match(data.doc_ids)[ranking.docs]
    numbers: Ints = queries * len(data.doc_ids) + docs
    return numbers
