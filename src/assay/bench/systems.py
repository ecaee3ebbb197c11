"""Search systems that Assay does not run itself: functions, retriever objects, endpoints, runs.

    Query → retrieve(query) → whatever it returns → read_hits → hits of one query

A *retriever* is a callable that takes a `Query` and returns hits in any of the shapes that
`read_hits` reads. Each kind of spec (`run:`, `retrieve:`, `http:`) has a factory in `SYSTEMS`. It
takes what follows the colon and the settings of the system, and returns such a callable. That may
have the attribute `fingerprint`: a text that tells all that its answers depend on. An error with
the attribute `retry_after` (seconds) is retried no sooner.
"""

from __future__ import annotations

import inspect
import math
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Set
from itertools import islice
from numbers import Real
from typing import Any, Final, NamedTuple

import numpy as np

from assay.core.specs import Consent, SpecKind, SpecRegistry, named_callable, own_callable
from assay.errors import IdError, InputError, UsageError, ValueRangeError
from assay.io.fingerprints import fingerprints
from assay.plugins import load_target

SYSTEMS: Final = SpecRegistry(
    "system",
    {
        "run": SpecKind("run:FILE", "assay.bench.answers:read_run"),
        "retrieve": SpecKind("retrieve:MODULE:FUNCTION", "assay.bench.systems:load_function"),
        "http": SpecKind("http:[PRESET:]URL", "assay.bench.endpoints:load_http"),
    },
)


def is_system(spec: Any) -> bool:
    """Tell whether something names or is a system that Assay does not run itself.

    >>> is_system("run:old.run"), is_system("bm25"), is_system(len)
    (True, False, True)
    """
    return spec.partition(":")[0] in SYSTEMS if isinstance(spec, str) else True


def check_system(spec: str, settings: Mapping[str, Any]) -> None:
    """Refuse a spec that names no system."""
    kind, _, argument = spec.partition(":")
    if kind not in SYSTEMS:
        raise SYSTEMS.unknown(spec)
    if not argument:
        raise UsageError(f"The system {spec!r} is incomplete. Write {SYSTEMS[kind].form}.")
    if kind == "http":  # nothing is sent yet
        SYSTEMS[kind].load()(argument, settings)


class Query(NamedTuple):
    """One query: its id, its text, how many documents are wanted, and its other fields."""

    id: str
    text: str
    k: int
    fields: Mapping[str, Any] = {}


Retrieve = Callable[[Query], Any]


class HitList(NamedTuple):
    """Ids in the order in which a system returned them, and their scores, if it has any."""

    ids: list[str]
    scores: list[float] | None


# Reading what a retriever returns

_ID_NAMES: Final = ("id", "_id", "doc_id", "docid", "docno", "node_id", "corpus_id")
_SCORE_NAMES: Final = ("score", "_score")
_MOST_HITS: Final = 1_000_000  # of one query, whatever k is


def read_hits(answer: Any, *, id: str = "") -> HitList:
    """Return ids and scores of what a system returned for one query.

    Args:
        answer: A sequence of ids, of (id, score) pairs, of dictionaries with `id` and perhaps
            `score`, or of the documents of LangChain, LlamaIndex, Haystack and others; {id: score},
            highest first; {"documents": such a sequence}; or a frame with these columns.
        id: Path of the id in a hit, such as "metadata.source"; by default it is found by name.

    Returns:
        The hits, in the order in which they came.

    Raises:
        InputError: The answer is not one of these; the message names the first hit that is wrong.

    Example:
        >>> read_hits([("d1", 0.9), ("d2", 0.4)])
        HitList(ids=['d1', 'd2'], scores=[0.9, 0.4])
    """
    items = _items_of(answer)
    kinds = set(map(type, items))
    if kinds == {str} and not id:
        return HitList(items, None)
    if kinds == {tuple} and not id and {*map(len, items)} == {2} and type(items[0][0]) is str:
        ids, values = [item[0] for item in items], [item[1] for item in items]
    else:
        pairs = [_read_hit(item, rank, id) for rank, item in enumerate(items, 1)]
        ids, values = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    if set(map(type, ids)) - {str}:
        ids = [_as_id(value, rank) for rank, value in enumerate(ids, 1)]
    return HitList(ids, _as_scores(values))


def check_repeats(ids: list[str]) -> None:
    """Refuse an answer with one id twice."""
    if len(set(ids)) == len(ids):
        return
    first = next(id for place, id in enumerate(ids) if id in ids[:place])
    ranks = [rank for rank, id in enumerate(ids, 1) if id == first]
    raise IdError(
        f"the document {first!r:.80} appears twice, at ranks {ranks[0]} and {ranks[1]}. "
        "Return each once; map chunk ids with --doc-of"
    )


def _items_of(answer: Any) -> list[Any]:
    if isinstance(answer, list | tuple):
        return list(answer)
    if isinstance(answer, Mapping):
        documents = answer.get("documents")
        if isinstance(documents, list | tuple):
            return list(documents)
        scores = {key: _as_score(value, str(key)) for key, value in answer.items()}
        return sorted(scores.items(), key=lambda item: -item[1])
    if hasattr(answer, "columns") and hasattr(answer, "to_dict"):  # a frame, of rows
        return list(answer.to_dicts() if hasattr(answer, "to_dicts") else answer.to_dict("records"))
    if isinstance(answer, np.ndarray) and answer.ndim == 1:
        items: list[Any] = answer.tolist()
        return items
    if inspect.isawaitable(answer):
        getattr(answer, "close", lambda: None)()
        raise InputError("it returned a coroutine. Pass a synchronous function")
    if isinstance(answer, str | bytes | Set) or not isinstance(answer, Iterable):
        raise InputError(
            f"it returned {type(answer).__name__}. Return a list of ids, of (id, score) pairs "
            "or of dictionaries with 'id' and 'score'; an empty list for no match"
        )
    hits = list(islice(answer, _MOST_HITS + 1))
    if len(hits) > _MOST_HITS:
        raise InputError(f"it returned more than {_MOST_HITS:,} hits. Return the first k")
    return hits


def _read_hit(item: Any, rank: int, path: str) -> tuple[Any, Any]:
    """Return id and score of one hit; the score is None where it has none."""
    if isinstance(item, tuple | list):
        if len(item) != 2:
            raise InputError(f"hit {rank} has {len(item)} values. Return (id, score) pairs")
        inner = item[0]
        plain = isinstance(inner, str | int | np.integer) or inner is None
        return (inner if plain else _read_hit(inner, rank, path)[0]), item[1]
    if isinstance(item, str | int | float | np.generic) or item is None:
        return item, None
    score = _first_of(item, _SCORE_NAMES)
    if path:
        return _follow(item, path, rank), score
    node = _get(item, "node")  # of LlamaIndex: the score stands beside it
    return _first_of(item if node is None else node, _ID_NAMES), score


def _get(item: Any, name: str) -> Any:
    return item.get(name) if isinstance(item, Mapping) else getattr(item, name, None)


def _first_of(item: Any, names: tuple[str, ...]) -> Any:
    return next((value for name in names if (value := _get(item, name)) is not None), None)


def _follow(item: Any, path: str, rank: int) -> Any:
    for name in path.split("."):
        item = _get(item, name)
        if item is None:
            raise IdError(f"hit {rank} has no {path!r}. Name the field of the id")
    return item


def _as_id(value: Any, rank: int) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, int | np.integer) and not isinstance(value, bool | np.bool_):
        return str(value)
    what = "no id" if value is None else f"the id {value!r:.60} of type {type(value).__name__}"
    raise IdError(
        f"hit {rank} has {what}. Index documents with ids, or name the id field (such as "
        "metadata.source)"
    )


def _as_scores(values: list[Any]) -> list[float] | None:
    kinds = set(map(type, values))
    if kinds == {float} and all(map(math.isfinite, values)):
        return values
    if kinds <= {type(None)}:
        return None
    return [_as_score(value, f"hit {rank}") for rank, value in enumerate(values, 1)]


def _as_score(value: Any, where: str) -> float:
    if type(value) is not float:
        if not isinstance(value, Real | np.number) or isinstance(value, bool):
            raise ValueRangeError(f"the score of {where} is {value!r:.60}, not a number")
        try:
            value = float(value)
        except OverflowError:
            value = math.inf
    if not math.isfinite(value):
        raise ValueRangeError(f"the score of {where} is {value}. Return finite scores, or ids only")
    return float(value)


# Asking objects of other packages

_K_NAMES: Final = ("k", "top_k", "limit")


def as_retrieve(target: Any) -> Retrieve:
    """Return a callable that asks a function or a retriever object of another package.

    Objects are told by their methods: `invoke` (LangChain), `retrieve` (LlamaIndex), `run(query=)`
    (Haystack). The number of documents is passed on where the function has a parameter `k`,
    `top_k` or `limit`, and the query's other fields where it has a parameter `fields`.

    Raises:
        UsageError: It is nothing of the kind.

    Example:
        >>> as_retrieve(lambda text, k: [f"{text}-{n}" for n in range(k)])(Query("1", "a", 2))
        ['a-0', 'a-1']
    """
    for name in ("invoke", "retrieve", "get_relevant_documents"):
        method = getattr(target, name, None)
        if callable(method) and not inspect.isclass(target):
            # LangChain drops parameters that it does not know in silence.
            return _call_with(method, "", () if name != "retrieve" else _K_NAMES)
    run = getattr(target, "run", None)
    if callable(run) and "query" in _parameters(run):
        return _call_with(run, "query", _K_NAMES)
    if not callable(target) or inspect.isclass(target):
        raise UsageError(
            f"{type(target).__name__} is not a retriever. Pass a function, or an object with "
            "invoke, retrieve or run(query=...)."
        )
    return _call_with(target, "", _K_NAMES)


def _parameters(function: Any) -> Mapping[str, inspect.Parameter]:
    try:
        return inspect.signature(function).parameters
    except (TypeError, ValueError):  # of a function that is not written in Python
        return {}


def _call_with(function: Callable[..., Any], query: str, k_names: tuple[str, ...]) -> Retrieve:
    parameters = _parameters(function)
    k = next((name for name in k_names if name in parameters), None)
    fields = "fields" in parameters

    def retrieve(item: Query) -> Any:
        options: dict[str, Any] = {query: item.text} if query else {}
        if k:
            options[k] = item.k
        if fields:
            options["fields"] = item.fields
        return function(**options) if query else function(item.text, **options)

    return retrieve if (k or fields or query) else lambda item: function(item.text)


def load_function(argument: str, settings: Mapping[str, Any]) -> Retrieve:
    """Import the function or object that `retrieve:MODULE:FUNCTION` names."""
    function = named_callable(argument, SYSTEMS["retrieve"].form)
    retrieve = as_retrieve(function)
    # What else its answers depend on cannot be seen: an index, a module that it imports.
    file = getattr(sys.modules.get(getattr(function, "__module__", "")), "__file__", None)
    digest = fingerprints([file])[file]["sha256"] if file and os.path.isfile(file) else None
    vars(retrieve)["fingerprint"] = getattr(function, "fingerprint", None) or digest
    return retrieve


def allow_system(spec: str, settings: Mapping[str, Any], consent: Consent, place: str) -> None:
    """Refuse a system that a file names, without the consent that it needs."""
    kind, _, argument = spec.partition(":")
    if kind == "retrieve":
        consent.check_code(f"the system {spec!r}", place)
        own_callable(argument, SYSTEMS["retrieve"].form)
    elif kind == "http":
        load_target("assay.bench.endpoints:allow_http")(argument, settings, consent, place)
