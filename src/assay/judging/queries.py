"""Queries for an evaluation: sampled from a log, taken from documents, or written by a model.

Each query keeps where it came from: the line of the log, or the document and the passage that it
was made from. What is wrong with generated queries is counted, not repaired.
"""

from __future__ import annotations

import json
import math
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final

import numpy as np

from assay.arrays import log
from assay.core.checks import check_cutoff
from assay.core.text import parse_whole
from assay.core.work import tell
from assay.errors import FormatError, UsageError
from assay.io.columns import open_table
from assay.io.streams import FilePath, atomic_write
from assay.judging.labels import Label, LabelLog, now
from assay.judging.machine import Job, Model, ask_all, describe_tokens, fill_prompt, open_model
from assay.judging.plugin import QUERY_KINDS as KINDS
from assay.judging.plugin import read_asset
from assay.judging.session import query_words
from assay.stats.samples import check_seed

PROMPT: Final = read_asset("queries.txt")
_COUNTS: Final = ("count", "frequency", "freq", "n", "clicks", "hits")
_LONGEST: Final = 300  # characters of a query
_QUERY: Final = 20  # tokens of a query, about
_COPIED: Final = 0.8  # share of a query's words that stand in its passage
_MANY: Final = 5  # documents that hold every word of a query
_HEADING: Final = re.compile(r"^#{1,6}\s+(.+?)\s*#*\s*$", re.MULTILINE)
_SENTENCE: Final = re.compile(r"(?<=[.!?])\s+")
_NUMBERED: Final = re.compile(r"^\s*(?:[-*•]|\(?\d+[.):])\s*")
_IN_VIEW: Final = re.compile(
    r"\b(?:this|the (?:above|following|given|provided)) "
    r"(?:section|passage|document|paragraph|article|text|chapter|page|excerpt|study|table|figure)\b"
    r"|\b(?:mentioned|described|shown|listed) (?:above|below|here)\b|\baccording to the (?:text|"
    r"passage|document|author)\b|\bthe authors?\b",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class SourcedQuery:
    """A query, and where it came from.

    Args:
        text: The query.
        source: log, title, heading, sentence, or the model that wrote it.
        doc: The document that it was made from; empty for queries of a log.
        passage: The part of the document that it was made from.
        count: How often it was typed, with its near-duplicates.
        stratum: Its stratum in the log.
    """

    text: str
    source: str
    doc: str = ""
    passage: str = ""
    count: int = 1
    stratum: str = ""


@dataclass(frozen=True)
class QuerySet:
    """Queries, with counts of their flaws.

    Args:
        queries: The queries.
        findings: Counts by name.
        tokens: Tokens sent and received.
    """

    queries: tuple[SourcedQuery, ...]
    findings: Mapping[str, int] = field(default_factory=dict)
    tokens: tuple[int, int] = (0, 0)

    def __str__(self) -> str:
        """Return the counts as lines for people."""
        lines = [f"{len(self.queries):,} queries"]
        lines += [f"{count:,} {name}" for name, count in self.findings.items() if count]
        if any(self.tokens):
            lines.append(describe_tokens(*self.tokens))
        return "\n".join(lines)

    __repr__ = __str__

    def to_dict(self) -> dict[str, Any]:
        """Return the counts as plain data."""
        sent, received = self.tokens
        counts = {"queries": len(self.queries), "findings": dict(self.findings)}
        return {**counts, "tokens_in": sent, "tokens_out": received}

    def write(self, path: FilePath, qrels: FilePath | None = None) -> None:
        """Write queries as JSON lines, and the documents they were made from as qrels."""
        ids = [f"g{number:05}" for number in range(1, len(self.queries) + 1)]
        rows = list(zip(ids, self.queries, strict=True))
        with atomic_write(path) as file:
            for id, query in rows:
                record = {key: value for key, value in asdict(query).items() if value != ""}
                file.write(f"{json.dumps({'_id': id, **record}, ensure_ascii=False)}\n".encode())
        if qrels is not None:
            with atomic_write(qrels) as file:
                file.write("".join(f"{id} 0 {q.doc} 1\n" for id, q in rows if q.doc).encode())


def clean_query(text: str) -> str:
    """Return a query with one space between words, in composed characters.

    >>> clean_query("  red\\tfox  ")
    'red fox'
    """
    return " ".join(unicodedata.normalize("NFC", text).split())


def _near_key(text: str) -> tuple[str, ...]:
    """Return what near-duplicates share: their words, without case, order, marks and plural s."""
    words = re.findall(r"\w+", text.casefold())
    plain = {word[:-1] if len(word) > 3 and word[-1:] == "s" else word for word in words}
    return tuple(sorted(plain)) or (text,)


def merge_near(queries: Iterable[SourcedQuery]) -> tuple[list[SourcedQuery], int]:
    """Merge near-duplicates of a stratum; the most frequent form stays.

    Args:
        queries: Queries in any order.

    Returns:
        Distinct queries, in the order of their first form, and how many were merged into others.

    Example:
        >>> both = [SourcedQuery("red foxes", "log"), SourcedQuery("Foxes, red", "log", count=3)]
        >>> [(query.text, query.count) for query in merge_near(both)[0]]
        [('Foxes, red', 4)]
    """
    groups: dict[tuple[Any, ...], list[SourcedQuery]] = defaultdict(list)
    for query in queries:
        groups[query.stratum, query.doc, _near_key(query.text)].append(query)
    merged = []
    for group in groups.values():
        best = max(group, key=lambda query: query.count)
        merged.append(replace(best, count=sum(query.count for query in group)))
    return merged, sum(len(group) - 1 for group in groups.values())


def queries_from_log(
    path: FilePath,
    n: int,
    *,
    column: str | None = None,
    strata: str | None = None,
    uniform: bool = False,
    seed: int = 0,
) -> QuerySet:
    """Sample queries from a log: cleaned, near-duplicates merged.

    Args:
        path: CSV, TSV, JSON or JSON lines with a column of queries, and of counts if there is one.
        n: How many to sample; with `strata` from each.
        column: The column of the queries. [by its name]
        strata: A column; as many queries are sampled from each of its values.
        uniform: Sample every distinct query alike, not by how often it was typed.
        seed: Seed of the sample.

    Returns:
        The queries.

    Raises:
        FormatError: There is no column of queries, or a count is no number.

    Example:
        queries = queries_from_log("log.csv", 200, seed=1)
    """
    check_cutoff(n, "n")
    table = open_table(path, "a log of queries")
    text = table.choose(column) if column else table.require({"query text": "queries"}, "")[0]
    counted = next((name for name in table.names if name.lower() in _COUNTS), None)
    names = [text, *filter(None, (counted, strata and table.choose(strata)))]
    cells = table.columns(list(dict.fromkeys(names)), gaps=names)
    by_name = dict(zip(dict.fromkeys(names), cells, strict=True))
    rows, dropped = [], 0
    for at, raw in enumerate(by_name[text]):
        query = clean_query(str(raw or ""))
        if not re.search(r"\w", query) or len(query) > _LONGEST:
            dropped += 1
            continue
        count = parse_whole(str(by_name[counted][at])) if counted else 1
        if not count or count < 1:
            place, typed = table.where(at), by_name[counted or ""][at]
            raise FormatError(f"{place}: count {typed!r} is not a whole number. Use 1, 2, …")
        stratum = str(by_name[names[-1]][at]) if strata else ""
        rows.append(SourcedQuery(query, "log", count=count, stratum=stratum))
    merged, n_merged = merge_near(rows)
    rng = np.random.default_rng(check_seed(seed))
    sampled = []
    for stratum in dict.fromkeys(query.stratum for query in merged):
        group = [query for query in merged if query.stratum == stratum]
        sampled += _sample(group, n, rng, uniform=uniform)
    findings = {"lines dropped (empty or too long)": dropped, "near-duplicates merged": n_merged}
    return QuerySet(tuple(sampled), findings)


def _sample(
    queries: Sequence[SourcedQuery], n: int, rng: np.random.Generator, *, uniform: bool
) -> list[SourcedQuery]:
    """Sample without replacement, by count: Efraimidis & Spirakis 2006; in the order of the log."""
    weights = np.array([1.0 if uniform else query.count for query in queries])
    keys = log(rng.random(len(queries))) / weights
    return [queries[at] for at in sorted(np.argsort(-keys, kind="stable")[:n].tolist())]


def queries_from_docs(
    docs: Mapping[str, str],
    n: int,
    *,
    kinds: Sequence[str] = KINDS,
    per_doc: int = 1,
    titles: Mapping[str, str] | None = None,
    seed: int = 0,
) -> QuerySet:
    """Take queries from documents: titles, headings, and sentences that name one document.

    Args:
        docs: Texts by id.
        n: How many queries.
        kinds: title, heading, sentence.
        per_doc: At most this many from one document.
        titles: Titles by id. [the first heading, or a first line of 120 characters at most]
        seed: Seed of the sample of documents.

    Returns:
        The queries, each with its document and passage.

    Raises:
        UsageError: A kind is not known, or no document has any.

    Example:
        >>> docs = {"a": "# Wings\\n\\nThey lift an aircraft by moving air downwards."}
        >>> [query.text for query in queries_from_docs(docs, 5, kinds=["title"]).queries]
        ['Wings']
    """
    check_cutoff(n, "n")
    wrong = [kind for kind in kinds if kind not in KINDS]
    if wrong or not kinds:
        raise UsageError(f"Kinds are {', '.join(KINDS)}, not {wrong or 'none'}.")
    frequency = Counter(word for text in docs.values() for word in query_words(text))
    rng = np.random.default_rng(check_seed(seed))
    names = list(docs)
    queries: list[SourcedQuery] = []
    for at in rng.permutation(len(names)).tolist():
        doc, stated = names[at], (titles or {}).get(names[at], "")
        parts = merge_near(_parts_of(doc, docs[doc], stated, kinds, frequency))[0]
        queries += parts[:per_doc]
        if len(queries) >= n:
            break
    if not queries:
        raise UsageError(f"No document has a {' or '.join(kinds)}. Choose other kinds.")
    return QuerySet(tuple(queries[:n]), find_flaws(queries[:n], docs))


def _parts_of(
    doc: str, text: str, stated: str, kinds: Sequence[str], frequency: Mapping[str, int]
) -> Iterator[SourcedQuery]:
    headings = [clean_query(match) for match in _HEADING.findall(text)]
    first = clean_query(next((line for line in text.splitlines() if line.strip()), ""))
    title = headings[0] if headings else first if len(first) <= 120 else ""
    title = clean_query(stated)[:_LONGEST] or title
    if "title" in kinds and title:
        yield SourcedQuery(title, "title", doc, title)
    if "heading" in kinds:
        yield from (SourcedQuery(words, "heading", doc, words) for words in headings[1:])
    if "sentence" in kinds:
        body = _HEADING.sub(" ", text)
        sentences = [clean_query(part) for part in _SENTENCE.split(body)]
        fit = [part for part in sentences if 6 <= len(part.split()) <= 25 and len(part) <= _LONGEST]
        if fit:
            best = max(fit, key=lambda part: _rarity(part, frequency))
            yield SourcedQuery(best, "sentence", doc, best)


def _rarity(sentence: str, frequency: Mapping[str, int]) -> float:
    words = query_words(sentence)
    return -math.fsum(math.log(frequency[w]) for w in words) / len(words) if words else -math.inf


def queries_from_model(
    docs: Mapping[str, str],
    n: int,
    *,
    model: str,
    ask: Model | None = None,
    prompt: str = PROMPT,
    per_doc: int = 2,
    cache: FilePath | None = None,
    concurrency: int = 4,
    seed: int = 0,
    before: Callable[[int, int], None] | None = None,
) -> QuerySet:
    """Let a model write queries that documents answer.

    Args:
        docs: Texts by id; give chunks for long documents.
        n: How many queries.
        model: The model, as `open_model` takes it.
        ask: The model itself: prompt → text and tokens. [that of the name]
        prompt: With the places {document} and {n}.
        per_doc: Queries from one document.
        cache: File of the answers, by prompt, text and model; a run that broke off goes on.
        concurrency: Requests at a time.
        seed: Seed of the sample of documents.
        before: Gets about how many tokens will be sent and received.

    Returns:
        The queries, each with its document and passage.

    Raises:
        UsageError: The prompt lacks a place.
        EndpointError: The endpoint failed for good; finished answers are in the cache.

    Example:
        queries = queries_from_model(docs, 100, model="openai:gpt-oss-20b", cache="answers.jsonl")
    """
    check_cutoff(n, "n")
    if "{document}" not in prompt:
        raise UsageError("The prompt lacks {document}. Add it.")
    ask = ask or open_model(model)
    names = list(docs)
    order = np.random.default_rng(check_seed(seed)).permutation(len(names)).tolist()
    sampled = [names[at] for at in order[: math.ceil(n / max(per_doc, 1))]]
    log = None if cache is None else LabelLog(cache)
    answers = {act.key: act.note for act in log.acts()[0]} if log else {}
    jobs = [
        Job.of(doc, fill_prompt(prompt, document=docs[doc], n=str(per_doc)), model)
        for doc in sampled
    ]
    waiting, tokens = [job for job in jobs if job.key not in answers], (0, 0)
    size = _QUERY * per_doc
    for job, text, used in ask_all(ask, waiting, str, concurrency, before, size):
        answers[job.key], tokens = text, (tokens[0] + used[0], tokens[1] + used[1])
        if log:
            about: dict[str, Any] = {"kind": "machine", "state": "written", "key": job.key}
            log.append(Label(job.key, job.about, None, model, note=text, time=now(), **about))
        tell("writing queries", len(answers), len(jobs))
    queries, empty = [], 0
    for job in jobs:
        lines = [_NUMBERED.sub("", line) for line in answers[job.key].splitlines()]
        lines = [clean_query(line).strip('"') for line in lines]
        lines = [line for line in lines if re.search(r"\w", line) and len(line) <= _LONGEST]
        empty += not lines
        passage = docs[job.about][:2000]
        queries += [SourcedQuery(line, model, job.about, passage) for line in lines[:per_doc]]
    findings = {**find_flaws(queries[:n], docs), "answers without a query": empty}
    return QuerySet(tuple(queries[:n]), findings, tokens)


def find_flaws(queries: Sequence[SourcedQuery], docs: Mapping[str, str]) -> dict[str, int]:
    """Count common flaws of generated queries.

    Args:
        queries: The queries.
        docs: All documents, to see which queries many of them answer.

    Returns:
        Counts by name.

    Example:
        >>> query = SourcedQuery("What does this section say?", "m", "a", "Wings lift.")
        >>> find_flaws([query], {"a": "Wings lift."})["that refer to an unseen passage"]
        1
    """
    holding: dict[str, set[str]] = defaultdict(set)
    asked_words = {word for query in queries for word in query_words(query.text)}
    for id, text in docs.items():
        for word in asked_words & query_words(text):
            holding[word].add(id)
    copies = in_view = many = 0
    for query in queries:
        words = query_words(query.text)
        inside = words & query_words(query.passage)
        copies += bool(words) and len(inside) >= _COPIED * len(words)
        in_view += bool(_IN_VIEW.search(query.text))
        answered = set.intersection(*(holding[word] for word in words)) if words else set()
        many += len(answered) >= _MANY
    again = Counter(_near_key(query.text) for query in queries)
    return {
        f"copied from their passage ({100 * _COPIED:.0f} % of the words or more)": copies,
        "that refer to an unseen passage": in_view,
        f"whose words occur in {_MANY} documents or more": many,
        "that repeat another query": sum(count - 1 for count in again.values()),
    }
