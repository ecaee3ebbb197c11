"""Search APIs over HTTP as systems: `http:PRESET:URL` or `http:URL` with your own request.

    Query → fill the template → request → pick hits, ids and scores → [(id, score), …]

A template is JSON. A text that is only a placeholder, such as "{{query}}", "{{k}}" or "{{tenant}}"
(a column of the queries), becomes that value. Within a longer text a placeholder becomes text;
"{{tenant:json}}" is quoted, for languages that quote as JSON does. Requests go through the client
of embedding endpoints: keys are read from the environment, and sent to the named host only.

Shapes of requests and answers are those of each engine's reference: the search API of Elasticsearch
and OpenSearch, Solr's JSON Request API, Vespa's Query API, Typesense's multi_search, Meilisearch's
search, Qdrant's points/query, and the GraphQL Get of Weaviate.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from importlib.resources import files
from math import inf
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qsl

from assay.bench.filters import Filter, parse_filters
from assay.bench.systems import Query
from assay.core import checks
from assay.core.specs import Consent
from assay.core.text import did_you_mean, mask_secrets, parse_number
from assay.errors import EndpointError, IdError, InputError, UsageError, ValueRangeError
from assay.io.fingerprints import fingerprint_of
from assay.io.plain_data import parse_json, parse_toml
from assay.models.adapters.openai import Endpoint, RequestError, pick

_FORM: Final = "http:PRESET:URL?field=NAME, or http:URL?body=JSON&hits=PATH&id=PATH"
_SPEC: Final = re.compile(r"(?:([a-z]+):)?(https?://[^?]+)(?:\?(.*))?", re.S)
_HEADER: Final = re.compile(r"[\w-]+: [ -~]*", re.A)
_SLOT: Final = re.compile(r"\{\{([\w.-]+)(?::(\w+))?\}\}")
_LARGEST: Final = 1 << 25  # bytes of an answer
_TEXTS: Final = (
    *("url", "preset", "method", "hits", "id", "score", "field", "collection"),
    *("key_env", "key_header", "scores", "filters"),
)
_WHOLE: Final = 1 << 53  # beyond which float64 does not hold every whole number


# Templates


def _in_backticks(value: Any) -> str:
    if "`" in str(value):
        raise InputError(f"Typesense cannot quote the backtick in {value!r:.60}")
    return f"`{value}`"


def _as_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


_QUOTES: Final[Mapping[str, Callable[[Any], str]]] = {
    "": lambda value: value if isinstance(value, str) else _as_json(value),
    "json": _as_json,
    "backticks": _in_backticks,
}


def fill(template: Any, values: Mapping[str, Any]) -> Any:
    """Return a template with its placeholders filled; a value never becomes part of the template.

    >>> fill({"q": "{{query}}", "size": "{{k}}"}, {"query": 'say "hi"', "k": 5})
    {'q': 'say "hi"', 'size': 5}
    >>> fill('tenant = {{tenant:json}}', {"tenant": 'a" OR "b'})
    'tenant = "a\\\\" OR \\\\"b"'
    """
    if isinstance(template, Mapping):
        return {key: fill(item, values) for key, item in template.items()}
    if isinstance(template, list):
        return [fill(item, values) for item in template]
    if not isinstance(template, str):
        return template

    def value_of(slot: re.Match[str]) -> Any:
        value = values.get(slot[1])
        if value is None or value == "":
            raise InputError(f"it lacks {slot[1]!r}, which the request needs. Add the column")
        return value

    slot = _SLOT.fullmatch(template)
    if slot is not None and slot[2] is None:
        return value_of(slot)
    return _SLOT.sub(lambda slot: _QUOTES[slot[2] or ""](value_of(slot)), template)


def _leaves(template: Any, name: str = "") -> Iterator[tuple[str, str]]:
    """Yield the texts of a template, each with the name that it stands under."""
    if isinstance(template, Mapping):
        for key, item in template.items():
            yield from _leaves(item, str(key))
    elif isinstance(template, list):
        for item in template:
            yield from _leaves(item, name)
    elif isinstance(template, str):
        yield name, template


# Presets


class Preset(NamedTuple):
    """Request and answer format of one engine; presets.toml explains the parts."""

    path: str
    body: str
    clauses: Mapping[str, str]
    hits: str
    id: str
    score: str
    field: str = "text"
    key_header: str = ""
    most: int | None = None
    failures: tuple[str, ...] = ()
    joined: tuple[str, str] | None = None


_FILE: Final = files("assay.bench") / "presets.toml"
PRESETS: Final = {
    name: Preset(**table)
    for name, table in parse_toml(_FILE.read_text("utf-8"), "presets.toml").items()
}


def _put(template: str, **tokens: Any) -> str:
    """Return JSON with its tokens replaced; each stays within its text."""
    for name, value in tokens.items():
        template = template.replace(f"<{name}>", _as_json(str(value))[1:-1])
    return template


# Systems


@dataclass(frozen=True)
class HttpSearch:
    """A search API: how it is asked, and where its answer has ids and scores.

    Args:
        url: Its address; with a preset, that of the index or collection.
        preset: An engine whose requests and answers are known, or "".
        method: GET sends the names of the template as a query string.
        headers: Further headers; they hold no key.
        body: Template of the request. With a preset, its names replace those of the preset.
        hits: Path of the list of hits.
        id: Path of the id in a hit.
        score: Path of the score in a hit; "" where the order is all there is.
        field: The field that a preset searches.
        collection: Name of the collection, for Typesense and Weaviate.
        most: Number of hits that the engine returns at most.
        timeout: Seconds for a whole answer.
        key_env: Environment variable with the key; "" sends none.
        key_header: Header of the key, and what stands before the key.
        scores: Whether "high" or "low" scores are best, or only the "order" counts; by default the
            answers decide, as for every system.
        filters: Rules that the request has to pass on, such as "tenant,date>=since".

    Raises:
        UsageError: A setting is unknown, missing or wrong, or holds what looks like a key.

    Example:
        >>> HttpSearch("http://127.0.0.1:9200/docs", preset="elasticsearch").hits
        'hits.hits'
    """

    url: str
    preset: str = ""
    method: str = "POST"
    headers: Any = None
    body: Any = None
    hits: str = ""
    id: str = ""
    score: str = ""
    field: str = ""
    collection: str = ""
    most: int | None = None
    timeout: float = 30.0
    key_env: str = ""
    key_header: str = ""
    scores: str = ""
    filters: str = ""

    def __post_init__(self) -> None:
        """Complete settings from the preset, and check them before any request."""
        for name in _TEXTS:
            checks.require(getattr(self, name), str, name, "text")
        if self.preset not in ("", *PRESETS):
            hint = did_you_mean(self.preset, PRESETS)
            raise UsageError(f"No preset {self.preset!r:.40}.{hint} Presets: {', '.join(PRESETS)}.")
        changes: dict[str, Any] = {"method": self.method.upper()}
        for name in ("headers", "body"):
            value = getattr(self, name)
            value = parse_json(value, name) if isinstance(value, str) else value or {}
            checks.require(value, Mapping, name, "an object")
            changes[name] = value
        for name in ("most", "timeout"):
            typed = getattr(self, name)
            value = changes[name] = _as_number(typed)
            if (value or 0) <= 0 and typed is not None:
                raise UsageError(f"{name} is {typed!r:.40}. Use a number above 0.")
        preset = PRESETS.get(self.preset)
        if preset is not None:
            names = ("hits", "id", "score", "field", "key_header", "most")
            changes |= {name: getattr(preset, name) for name in names if not getattr(self, name)}
        for name, value in changes.items():
            object.__setattr__(self, name, value)
        if preset is not None:
            object.__setattr__(self, "hits", _put(self.hits, collection=self.collection))
            object.__setattr__(self, "body", {**self._fill_preset(preset), **self.body})
        object.__setattr__(self, "key_header", self.key_header or "Authorization: Bearer ")
        self._check()

    @property
    def rules(self) -> tuple[Filter, ...]:
        """The filters, taken apart."""
        return parse_filters(self.filters)

    def _fill_preset(self, preset: Preset) -> dict[str, Any]:
        if "<collection>" in preset.body and not re.fullmatch(r"[\w.-]+", self.collection):
            raise UsageError(f"{self.preset} needs a collection. Add collection=NAME.")
        texts = [_put(preset.clauses[r.operator], doc=r.doc, slot=r.query) for r in self.rules]
        clauses = [json.loads(text) for text in texts]
        leaf = self.id.rpartition(".")[2]
        tokens = {"field": self.field, "id": self.id, "leaf": leaf, "collection": self.collection}
        tokens |= {"timeout": f"{self.timeout:g}", "property": leaf if leaf == self.id else ""}
        body = _put(preset.body, **tokens)
        if preset.joined is None:
            body = body.replace('"<filters>"', json.dumps(clauses))
        else:
            separator, frame = preset.joined
            body = _put(body, filters=frame.format(separator.join(clauses)) if clauses else "")
        template: dict[str, Any] = json.loads(body)
        return template

    def _check(self) -> None:
        place = f"The endpoint http:{self.preset or self.url.partition('://')[0]}"
        if not (self.body and self.hits and self.id):
            raise UsageError(f"{place} needs a body (a JSON object), hits and id. Write {_FORM}.")
        for line in (self.key_header, *(f"{name}: {text}" for name, text in self.headers.items())):
            if not _HEADER.fullmatch(line):
                raise UsageError(f"{place}: headers hold a value that is not text. Use text.")
        if self.method not in ("POST", "GET", "PUT"):
            raise UsageError(f"{place}: method is POST, GET or PUT, not {self.method!r:.20}.")
        if self.scores not in ("", "high", "low", "order"):
            raise UsageError(f"{place}: scores is high, low or order, not {self.scores!r:.20}.")
        for name, text in (*_leaves(self.body), *_leaves(self.headers)):
            if not _SLOT.search(text) and _looks_secret(name, text):
                advice = "Set it in the environment, and name the variable with key_env"
                raise UsageError(f"{place}: {name!r:.40} looks like a key. {advice}.")
        slots = {slot for _, text in _leaves(self.body) for slot in _SLOT.findall(text)}
        quotes = {quote for _, quote in slots} - set(_QUOTES)
        if quotes:
            raise UsageError(f"{place}: unknown quoting {min(quotes)!r}. Write {{{{query:json}}}}.")
        names = {name for name, _ in slots}
        if {"query", "k"} & {rule.query for rule in self.rules}:
            raise UsageError(f"{place}: no filter column may be 'query' or 'k'. Rename it.")
        missing = [] if {"query", "vector"} & names else ["query"]
        missing += [] if "k" in names or self.most else ["k"]
        missing += [rule.query for rule in self.rules if rule.query not in names]
        if missing:
            slot = f"{{{{{missing[0]}}}}}"
            raise UsageError(f"{place}: the body lacks {slot}. Add it.")
        if self.key_env and not os.environ.get(self.key_env, "").strip():
            raise UsageError(f"{place}: {self.key_env} is not set. Export it with your key.")
        self.endpoint()

    def endpoint(self) -> Endpoint:
        """Return the client, which checks the address."""
        path = PRESETS[self.preset].path if self.preset else ""
        how: Any = {"key_header": self.key_header, "headers": self.headers, "tries": 1}
        plain = Endpoint(self.url, self.key_env)  # before anything is added to it
        base = plain.base_url.rstrip("/").removesuffix(path.rstrip("/"))
        return Endpoint(
            f"{base}{path}" if path else self.url,
            self.key_env,
            self.timeout,
            largest=_LARGEST,
            **how,
        )

    @property
    def fingerprint(self) -> str:
        """Return a digest of what the answers depend on, but for the index behind the address."""
        return fingerprint_of({"endpoint": {**asdict(self), "key_env": "", "timeout": 0}})

    def __call__(self, query: Query) -> list[Any]:
        """Ask one query; return (id, score) pairs, or ids where there are no scores.

        Raises:
            InputError: The request or the answer is wrong, whenever it is sent.
            EndpointError: The endpoint failed, and may not when it is asked again.
            TimeoutError: There was no whole answer in time.
        """
        k = query.k if self.most is None else min(query.k, int(self.most))
        content = fill(self.body, {**query.fields, "query": query.text, "k": k})
        if self.method == "GET":
            content = {name: _QUOTES[""](value) for name, value in content.items()}
        try:
            answer = self._client.post("", content, self.method)
        except RequestError as error:
            if error.late:
                raise TimeoutError(str(error)) from None
            if not error.again:
                raise InputError(str(error)) from None
            raise
        return self._read(answer)[:k]

    def _read(self, answer: Any) -> list[Any]:
        failures = PRESETS[self.preset].failures if self.preset else ()
        for path in failures:
            if part := pick(answer, path):
                words = mask_secrets(str(part), os.environ.get(self.key_env, "").strip())
                raise EndpointError(f"the answer is incomplete ({path}: {words:.200})")
        hits, parent = pick(answer, self.hits), pick(answer, self.hits.rpartition(".")[0] or "?")
        if hits is None and self.preset == "vespa" and isinstance(parent, dict):
            return []  # it leaves the list out where it is empty
        if not isinstance(hits, list):
            raise InputError(f"the answer has no list at {self.hits!r}. Check hits")
        ids = [pick(hit, self.id) for hit in hits]
        for rank, id in enumerate(ids, 1):
            if id is None or id == "":
                raise IdError(f"hit {rank} has no id at {self.id!r}. Check id")
        if not self.score or self.scores == "order":
            return ids
        scores = [_as_number(pick(hit, self.score)) for hit in hits]
        if None in scores:
            rank, value = scores.index(None) + 1, pick(hits[scores.index(None)], self.score)
            flaw = f"hit {rank} has the score {value!r:.40}, not a number"
            raise ValueRangeError(f"{flaw}. Check the path score")
        if any(abs(score) > _WHOLE for score in scores):
            places = {score: place for place, score in enumerate(sorted(set(scores)))}
            scores = [places[score] for score in scores]
        return [*zip(ids, scores, strict=True)]

    @cached_property
    def _client(self) -> Endpoint:
        return self.endpoint()


def _as_number(value: Any) -> Any:
    """Return a finite number, or a text of one, as Weaviate has its scores; None for others."""
    number = parse_number(value) if isinstance(value, str) else value
    if isinstance(number, bool) or not isinstance(number, int | float):
        return None
    return number if abs(number) < inf else None  # which NaN is not


def _looks_secret(name: str, text: str) -> bool:
    line = f"{name}: {text}"
    return name.lower() == "cookie" or mask_secrets(line) != line


def _split_spec(argument: str, settings: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the address and the settings of `[PRESET:]URL[?name=value&…]`."""
    match = _SPEC.fullmatch(argument)
    pairs = parse_qsl(match[3] or "", keep_blank_values=True) if match else []
    if match is None or len(dict(pairs)) < len(pairs):
        raise UsageError(f"Cannot read the endpoint. Write {_FORM}, each setting once.")
    return match[2], {"preset": match[1] or "", **dict(pairs), **settings}


def load_http(argument: str, settings: Mapping[str, Any]) -> HttpSearch:
    """Return the endpoint that `http:[PRESET:]URL[?name=value&…]` names; settings count before.

    Raises:
        UsageError: A setting is unknown, missing or wrong, or holds what looks like a key.

    Example:
        >>> load_http("solr:http://127.0.0.1:8983/solr/docs?field=body", {}).field
        'body'
    """
    url, values = _split_spec(argument, settings)
    values = {name: value for name, value in values.items() if name not in ("doc_of", "exact")}
    names = [setting.name for setting in fields(HttpSearch) if setting.name != "url"]
    for name in values:
        if name not in names:
            hint, listed = did_you_mean(name, names), ", ".join(names)
            raise UsageError(f"Unknown endpoint setting {name!r:.40}.{hint} Known: {listed}.")
    return HttpSearch(url, **values)


def allow_http(argument: str, settings: Mapping[str, Any], consent: Consent, place: str) -> None:
    """Refuse an endpoint that a file names, without the consent for its host and its key."""
    url, values = _split_spec(argument, settings)
    consent.check_endpoint(url, f"{place}: an http: system", values.get("key_env", ""))
