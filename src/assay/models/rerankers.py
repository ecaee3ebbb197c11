"""Rerankers: a query and some texts in, one score for each text out (a cross-encoder).

py:MODULE:FUNCTION  your own function of a query and a list of texts
st:MODEL            a CrossEncoder of sentence-transformers, by name or folder
onnx:FOLDER         a cross-encoder exported to ONNX, with its tokenizer.json
rerank:URL          an endpoint: URL/rerank as Text Embeddings Inference has it, or with
                    ?model=NAME as Cohere, Jina and vLLM have it; &key_env=VARIABLE sends a key
maxsim:MODEL        exact MaxSim of the token vectors of a model: maxsim:st:FOLDER (bench only)
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import parse_qsl

import numpy as np

from assay.arrays import Floats, Ints
from assay.core import checks
from assay.core.on_demand import OnDemand
from assay.core.specs import named_callable
from assay.core.text import mask_secrets
from assay.errors import EndpointError, ShapeError, UsageError, ValueRangeError, need
from assay.io.fingerprints import fingerprint_of, version_of
from assay.models.adapters.onnx import ModelFolder, Tokenizer, open_model, run_tokens
from assay.models.adapters.sentence_transformers import load_model
from assay.models.cache import KEY_TYPE, EmbeddingCache, Keys, ModelCache, as_halves, content_keys
from assay.models.encoding import Batch, EncoderRequest, add_tokens, call_model, weights_of
from assay.models.settings import EncoderSettings

if TYPE_CHECKING:
    from assay.models.adapters import openai
else:
    openai = OnDemand("assay.models.adapters.openai")


class Scored(NamedTuple):
    """Hold a score for each text, and the tokens that an endpoint counted, if it says so."""

    scores: Floats
    tokens: int | None = None


@dataclass(frozen=True)
class Reranker:
    """Score texts for a query by a function; `identity` is None where it is unknown.

    Where a text has a price, `warm_up` is off: none is scored before the clock starts. `most` is
    how many texts are scored before they are put into the cache; None for all of a query.
    """

    spec: str
    function: Callable[[str, list[str]], Any]
    identity: Mapping[str, Any] | None = None
    warm_up: bool = True
    most: int | None = None

    @property
    def fingerprint(self) -> str:
        """Return a digest of spec, settings, version and weights, as far as known."""
        return fingerprint_of({"reranker": self.spec, **(self.identity or {})})

    def score(self, query: str, texts: list[str]) -> Scored:
        """Return a finite score for each text, the higher the better."""
        batch = call_model(f"Reranker {self.spec!r}", self.function, query, texts)
        array = checks.plain_array(batch.vectors, f"The result of reranker {self.spec!r}")
        if array.shape not in ((len(texts),), (len(texts), 1)) or array.dtype.kind not in "iuf":
            raise ShapeError(
                f"Reranker {self.spec!r} returned {array.dtype} of shape {array.shape} for "
                f"{len(texts)} texts. Return one number per text."
            )
        scores = array.astype(np.float64).ravel()
        if not np.isfinite(scores).all():
            what = f"NaN or infinite scores for the query {query!r:.60}"
            raise ValueRangeError(f"Reranker {self.spec!r} returned {what}.")
        return Scored(scores, batch.tokens)


class PairScores:
    """Score pairs of a query and a text; with a cache, each pair is computed once for all runs.

    `numbers[row]` are the numbers of the texts that are scored for `queries[row]`. A reranker of
    unknown identity has no cache. `n_computed` pairs took `seconds`.
    """

    def __init__(
        self,
        reranker: Reranker,
        queries: Sequence[str],
        texts: Sequence[str],
        numbers: Sequence[Ints],
        cache: EmbeddingCache | None,
    ) -> None:
        self._reranker, self._queries = reranker, queries
        self._texts, self._numbers = texts, numbers
        self.n_pairs, self.n_computed, self.seconds = sum(map(len, numbers)), 0, 0.0
        self.tokens: int | None = None
        self._cache: ModelCache | None = None
        if cache is not None and reranker.identity is not None:
            self._cache = cache.of_model(reranker.fingerprint, reranker.spec)
        self._keys, places = self._find_keys()
        self._places = np.split(places, np.cumsum([len(row) for row in numbers])[:-1])
        self._known, self._scores = np.zeros(len(self._keys), bool), np.zeros(len(self._keys))
        if self._cache is not None and len(self._keys):
            lookup = self._cache.find(self._keys)
            if lookup.vectors is not None:
                self._known, self._scores = lookup.known, lookup.vectors.view(np.float64).ravel()
        self.n_cached = int(self._known[places].sum())

    def _find_keys(self) -> tuple[Keys, Ints]:
        """Return the keys of all pairs, each once, and which of these each pair has."""
        digests = [_HALVES.pack(*pair) for pair in as_halves(content_keys(self._texts)).tolist()]
        rows = zip(as_halves(content_keys(self._queries)).tolist(), self._numbers, strict=True)
        pairs = (_HALVES.pack(*q) + digests[number] for q, row in rows for number in row.tolist())
        raw = b"".join(blake2b(pair, digest_size=16).digest() for pair in pairs)
        halves = np.frombuffer(raw, np.dtype([("a", "<u8"), ("b", "<u8")]))
        distinct, places = np.unique(halves, return_inverse=True)
        return np.frombuffer(distinct.tobytes(), KEY_TYPE), places.ravel()

    def compute(self) -> Iterator[Floats]:
        """Yield the scores of each query's texts, in order; what is computed goes to the cache."""
        for query, numbers, places in zip(self._queries, self._numbers, self._places, strict=True):
            at = dict(zip(places.tolist(), numbers.tolist(), strict=True))
            missing = np.array([place for place in at if not self._known[place]], np.int64)
            step = self._reranker.most or len(missing) or 1
            for start in range(0, len(missing), step):
                part = missing[start : start + step]
                self._score(query, part, [self._texts[at[place]] for place in part.tolist()])
            yield self._scores[places]

    def _score(self, query: str, places: Ints, texts: list[str]) -> None:
        if self._reranker.warm_up and not self.n_computed:
            self._reranker.score(query, texts[:1])
        started = time.perf_counter()
        scores, tokens = self._reranker.score(query, texts)
        self.seconds += time.perf_counter() - started
        self.tokens = add_tokens(self.tokens, tokens)
        self.n_computed += len(texts)
        self._scores[places], self._known[places] = scores, True
        if self._cache is not None:
            halves = scores.view(np.float32).reshape(-1, 2)  # all bits of a float64
            self._cache.add(self._keys[places], halves, np.zeros(len(places), np.uint8))


_HALVES: Final = struct.Struct("<QQ")


def check_reranker(spec: str) -> None:
    """Refuse a spec that names no reranker; nothing is loaded."""
    kind, _, argument = spec.partition(":")
    if kind not in (*_KINDS, "maxsim") or not argument:
        raise UsageError(
            f"{mask_secrets(spec)!r} is not a reranker. Write py:MODULE:FUNCTION, st:MODEL, "
            "onnx:FOLDER, rerank:URL or maxsim:MODEL."
        )
    if kind == "rerank":
        parse_endpoint(spec)


def load_reranker(
    spec: str, *, settings: EncoderSettings | None = None, device: str | None = None
) -> Reranker:
    """Load the reranker that a spec names."""
    check_reranker(spec)
    kind, _, argument = spec.partition(":")
    return _KINDS[kind](EncoderRequest(spec, argument, device, settings or EncoderSettings()))


def _own_function(request: EncoderRequest) -> Reranker:
    request.settings.refuse_hub("py")
    request.settings.refuse("max_length", "py:", "truncate texts in your function")
    function = named_callable(request.argument, "py:MODULE:FUNCTION")
    mark = getattr(function, "fingerprint", None)
    return Reranker(request.spec, function, {"function": mark} if isinstance(mark, str) else None)


def _onnx(request: EncoderRequest) -> Reranker:
    request.settings.refuse_hub("onnx")
    folder = ModelFolder(Path(request.argument))
    model = open_model(folder, None)
    length = request.settings.max_length or folder.max_length
    files = folder.file("tokenizer.json")
    tokenizer = Tokenizer(files, length, purpose="The reranker 'onnx'", extra="onnx")

    def score(query: str, texts: list[str]) -> Any:
        return run_tokens(model, tokenizer([(query, text) for text in texts]))

    made_by = {"onnxruntime": version_of("onnxruntime"), "max_length": length}
    return Reranker(request.spec, score, {**made_by, **weights_of(request.argument)})


@dataclass(frozen=True)
class RerankEndpoint:
    """Describe an endpoint that scores texts: `URL[?model=NAME][&key_env=VARIABLE]`.

    >>> parse_endpoint("rerank:https://api.jina.ai/v1?model=jina-reranker-v2").model
    'jina-reranker-v2'
    """

    url: str
    model: str = ""
    key_env: str = ""

    def open(self) -> openai.Endpoint:
        """Check the address; a key is read when a request is made."""
        return openai.Endpoint(self.url, self.key_env)

    @property
    def most(self) -> int:
        """Return how many texts one request may carry, unless the user says it."""
        return 100 if self.model else 32

    def request(self, query: str, texts: list[str]) -> dict[str, Any]:
        """Write a request; without a model in the words of Text Embeddings Inference."""
        if self.model:
            return {"model": self.model, "query": query, "documents": texts}
        return {"query": query, "texts": texts, "truncate": True}

    def read(self, answer: Any, count: int) -> list[Any]:
        """Read the scores, in the order of the texts."""
        place, items = f"{self.url}/rerank", answer
        if isinstance(answer, dict):
            items = answer.get("results", answer.get("data"))
        if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
            raise EndpointError(f"{place}: the answer lacks 'results'. Check the endpoint.")
        items = openai.in_order(items, count, "scores", place)
        scores = [item.get("relevance_score", item.get("score")) for item in items]
        if not all(type(item) in (int, float) for item in scores):
            raise EndpointError(f"{place}: a result lacks relevance_score. Check the endpoint.")
        return scores


def parse_endpoint(spec: str) -> RerankEndpoint:
    """Read the spec of an endpoint; its address is checked."""
    url, _, options = spec.removeprefix("rerank:").partition("?")
    pairs = parse_qsl(options, keep_blank_values=True)
    if {key for key, _ in pairs} - {"model", "key_env"} or len(dict(pairs)) < len(pairs):
        raise UsageError(
            "Cannot read the reranker. Write rerank:URL, rerank:URL?model=NAME or "
            "rerank:URL?model=NAME&key_env=VARIABLE."
        )
    endpoint = RerankEndpoint(url.rstrip("/").removesuffix("/rerank"), **dict(pairs))
    endpoint.open()
    return endpoint


def _endpoint(request: EncoderRequest) -> Reranker:
    request.settings.refuse_hub("rerank")
    request.settings.refuse("max_length", "rerank:", "the endpoint counts tokens itself")
    where = parse_endpoint(request.spec)
    endpoint, most = where.open(), request.settings.batch_size or where.most

    def score(query: str, texts: list[str]) -> Batch:
        scores: list[Any] = []
        tokens = None
        for start in range(0, len(texts), most):
            part = texts[start : start + most]
            answer = endpoint.post("/rerank", where.request(query, part))
            scores += where.read(answer, len(part))
            tokens = add_tokens(tokens, openai.count_tokens(answer))
        return Batch(scores, tokens=tokens)

    identity = {"endpoint": where.url, "model": where.model}
    return Reranker(request.spec, score, identity, warm_up=False, most=most)


def _cross_encoder(request: EncoderRequest) -> Reranker:
    package = need("sentence_transformers", "The reranker 'st:'", "sentence-transformers")
    argument, settings = request.argument, request.settings
    model = load_model(package.CrossEncoder, request, max_length=settings.max_length)

    def predict(query: str, texts: list[str]) -> Any:
        pairs = [(query, text) for text in texts]
        return model.predict(pairs, batch_size=settings.batch_size or 32, show_progress_bar=False)

    return Reranker(request.spec, predict, _identity(model, argument, settings))


def _identity(model: Any, argument: str, settings: EncoderSettings) -> dict[str, Any] | None:
    """Return version, settings and weights: a folder's files, or the commit of the hub."""
    commit = getattr(getattr(model, "config", None), "_commit_hash", None)
    if Path(argument).exists():
        weights: Mapping[str, Any] = weights_of(argument)
    elif isinstance(commit, str) and commit:
        weights = {"revision": commit}
    else:
        return None
    version = version_of("sentence-transformers")
    return {"sentence-transformers": version, **settings.identity, **weights}


_KINDS = {"py": _own_function, "st": _cross_encoder, "onnx": _onnx, "rerank": _endpoint}
