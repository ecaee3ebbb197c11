"""From the answers of a search system, or a run that it wrote, to a ranking and what it costs.

The scores of a system decide its ranking, under the tie rule of all systems. Where it has none, the
order of its hits does. Scores that rise with the rank are distances, and are turned round; scores
that do neither are refused. Ids of chunks become documents by `doc_of`.
"""

from __future__ import annotations

import os
import re
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, count, repeat
from typing import Any, Final, NamedTuple

import numpy as np

from assay.arrays import Floats, Ints, offsets_of, rows_of
from assay.bench.asking import Asking, NumberedHits, SystemAnswers, ask_all, describe_failure
from assay.bench.plan import PreparedCollection, Retriever
from assay.bench.search import Costs, SearchOptions, SearchResult
from assay.bench.systems import SYSTEMS, HitList, Query, as_retrieve, check_repeats, read_hits
from assay.core import checks
from assay.core.checks import name_few
from assay.core.conventions import Conventions, as_settings
from assay.core.ids import Ids
from assay.core.mismatches import check_match
from assay.core.ranking import Ranking
from assay.core.text import mask_secrets
from assay.errors import (
    EndpointError,
    FormatError,
    InputError,
    MismatchError,
    StorageError,
    UsageError,
)
from assay.inspect.check import Finding
from assay.io.checkpoint import Checkpoint
from assay.io.columns import open_table
from assay.io.fingerprints import fingerprint_of
from assay.io.formats import as_ranking
from assay.io.plain_data import parse_json
from assay.io.streams import ending_of, read_text
from assay.measures import Measure
from assay.plugins import find_hook
from assay.runs.record import only_measures
from assay.scoring.scores import Scores

_DIRECTIONS: Final = ("high", "low", "order")
_NO_ID: Final = re.compile("[\0\ud800-\udfff]")
_ABSENT: Final = b"\xff" * 4  # −1
DocOf = str | os.PathLike[str] | Mapping[str, str] | None


# Chunks and documents


def make_doc_of(rule: DocOf) -> Callable[[str], str] | None:
    """Return the function from what a system returns to what is judged.

    Args:
        rule: A regular expression with one group; the path of a table whose first two columns are
            ids and documents, or of a JSON object; or {id: document}. None changes nothing.

    Returns:
        A function of one id; an id that no rule knows stays as it is.

    Raises:
        UsageError: The expression is wrong, or does not have one group.

    Example:
        >>> make_doc_of("(.+)#[0-9]+")("guide.md#3")
        'guide.md'
    """
    if rule is None:
        return None
    checks.require(rule, (str, os.PathLike, Mapping), "doc_of", "a text, a file or a dictionary")
    if isinstance(rule, Mapping):
        return lambda chunk: str(rule.get(chunk, chunk))
    if isinstance(rule, os.PathLike) or os.path.isfile(rule):
        return make_doc_of(_read_mapping(os.fspath(rule)))
    try:
        pattern = re.compile(rule)
    except re.error as error:
        raise UsageError(
            f"doc_of {rule!r:.80} is not a regular expression: {error}. Write one like '([^#]+)'."
        ) from None
    if pattern.groups != 1:
        raise UsageError(
            f"doc_of {rule!r:.80} has {pattern.groups} groups. Capture the id in one group, "
            "as in '(.+)#[0-9]+', or name an existing file."
        )

    def find(id: str) -> str:
        match = pattern.fullmatch(id)
        return match[1] if match is not None and match[1] else id

    return find


def _read_mapping(path: str) -> dict[str, str]:
    if ending_of(path) == ".json":
        data = parse_json(read_text(path), path)
        if isinstance(data, Mapping) and all(isinstance(doc, str) for doc in data.values()):
            return dict(data)
    table = open_table(path, "a mapping of ids")
    if len(table.names) < 2:
        raise FormatError(f"{path} has one column. Write two: ids and their documents.")
    ids, docs = table.columns(table.names[:2])
    return dict(zip(map(str, ids), map(str, docs), strict=True))


# From answers to a ranking


class _Lines(NamedTuple):
    """One line for each hit: row of the query, number of the id, score."""

    ids: Ids
    rows: Ints
    numbers: Ints
    scores: Floats


@dataclass(frozen=True)
class AnswerReader:
    """Makes a ranking of the answers of one system, and notes what is odd about them.

    `reach` is the last rank that some measure looks at.
    """

    system: Retriever
    data: PreparedCollection
    options: SearchOptions
    reach: int
    allow_mismatch: bool = False

    def __post_init__(self) -> None:
        """Make the numbers of documents before threads look them up."""
        _ = self.data.doc_numbers

    def read(self, answer: Any) -> NumberedHits:
        """Return the hits of one query, checked; the thread that asked lets go of the rest."""
        hits = read_hits(answer, id=self.system.settings.get("id", ""))
        if self.system.settings.get("doc_of") is None:
            check_repeats(hits.ids)
        numbered = self.number(hits)
        for id in numbered.others:
            if id.split() != [id] or _NO_ID.search(id):
                flaw = "it is empty, or holds white space, NUL or a lone surrogate"
                raise InputError(f"{id!r:.60} cannot be an id: {flaw}. Return ids")
        return numbered

    def number(self, hits: HitList) -> NumberedHits:
        """Return hits with the number of each document in the collection."""
        ids, scores = hits
        there = self.data.doc_numbers
        numbers = b"".join([*map(there.get, ids, repeat(_ABSENT))])
        unknown_ids = [id for id in ids if id not in there] if _ABSENT in numbers else []
        return NumberedHits(
            numbers, None if scores is None else array("d", scores).tobytes(), unknown_ids
        )

    def rank(self, hits: Mapping[int, NumberedHits]) -> tuple[Ranking, list[Finding]]:
        """Return the ranking of the documents of the collection and others, and findings."""
        name, there, settings = self.system.name, self.data.doc_ids, self.system.settings
        findings, (lines, direction) = [*self._count(hits)], self._lines(hits)
        if direction == "low" and "scores" not in settings:
            message = f"scores of {name} rise with rank: read as distances"
            effect = 'Signs were inverted. Confirm with scores = "low".'
            findings.append(Finding("note", "distances", message, effect, 1, 1))
        lines = self._fold(lines, direction)
        extra = lines.ids.take(np.arange(len(there), len(lines.ids)))
        if unknown := [str(id)[:80] for id in extra]:
            how: Any = {"allow": self.allow_mismatch, "prefixes": False}
            returned = lines.ids.take(np.unique(lines.numbers))
            check_match(returned, there, f"ids that {name} returned", "the collection", **how)
            message = f"{name} returned {len(unknown):,} ids outside the collection"
            effect = "They occupy ranks and count as not relevant. Map chunk ids with --doc-of."
            counts = len(unknown), len(returned), tuple(unknown[:3])
            findings.append(Finding("warning", "unknown-ids", message, effect, *counts))
        columns: Any = {"queries": lines.rows.astype(np.int32), "scores": lines.scores}
        columns |= {"docs": lines.numbers.astype(np.int32), "tiebreak": self.options.tiebreak}
        ranking = Ranking.from_lines(self.data.query_ids, lines.ids, **columns)
        rule = settings.get("doc_of")
        if isinstance(rule, Mapping) or (rule is not None and os.path.isfile(rule)):
            mapping = rule if isinstance(rule, Mapping) else _read_mapping(os.fspath(rule))
            rule = f"{len(mapping)} ids-{fingerprint_of({**mapping})[:8]}"
        how = {key: settings.get(key) for key in ("id", "scores")}
        how["fingerprint"] = self.system.fingerprint
        how |= {"doc_of": rule, "fold": rule and self.options.aggregation, "n_docs": len(there)}
        signed = as_settings(model=mask_secrets(self.system.spec), **how)
        n_docs = 0 if unknown else len(there)
        ranking = replace(ranking.first(self.options.depth), n_docs=n_docs, settings=signed)
        return ranking, findings

    def _count(self, hits: Mapping[int, NumberedHits]) -> Iterator[Finding]:
        """Yield findings about the number of hits."""
        name, k, total = self.system.name, self.options.depth, len(hits)
        lengths = np.array([len(hit.numbers) for hit in hits.values()], np.int64) // 4
        most, enough = int(lengths.max(initial=0)), min(self.reach, len(self.data.doc_ids))
        if most < enough:
            message = f"{name} returned at most {most:,} documents for any query, of {k:,}"
            effect = (
                f"Measures beyond rank {most} see no more. Raise the system's k (top_k, "
                "search_kwargs), or lower the cutoff."
            )
            yield Finding("warning", "few-results", message, effect, total, total)
        if empty := [str(self.data.query_ids[row]) for row, hit in hits.items() if not hit.numbers]:
            message = f"{name} returned nothing for {len(empty):,} queries"
            counts = len(empty), total, tuple(empty[:3])
            yield Finding("note", "no-results", message, "They score 0.", *counts)
        if most > k:
            message = f"{name} returned up to {most:,} documents, more than the {k:,} that count"
            long = int((lengths > k).sum())
            yield Finding("note", "many-results", message, "The rest is cut off.", long, total)

    def _lines(self, hits: Mapping[int, NumberedHits]) -> tuple[_Lines, str]:
        """Return all hits as lines, and which scores are good: high, low or by order."""
        name, ids = self.system.name, self.data.query_ids
        direction = self.system.settings.get("scores")
        rows = sorted(row for row, hit in hits.items() if hit.numbers)
        numbers, values, others = (
            zip(*map(hits.__getitem__, rows), strict=True) if rows else [()] * 3
        )
        lengths = np.array([*map(len, numbers)], np.int64) // 4
        offsets = offsets_of(lengths)
        flat = np.frombuffer(b"".join(numbers), np.int32).astype(np.int64)
        names = self._number_others(flat, [*chain.from_iterable(others)])
        bare = values.count(None)
        if bare == len(rows) or direction == "order":
            direction = "order"
            scores = np.repeat(offsets[:-1], lengths) - np.arange(len(flat), dtype=np.float64)
        elif bare:
            other = next(row for row in rows if hits[row].scores is not None)
            raise InputError(
                f"{name} returns scores for some queries (such as {ids[other]!r}) but not for "
                f"others ({ids[rows[values.index(None)]]!r}). Return scores for all, or set "
                'scores = "order".'
            )
        else:
            scores = np.frombuffer(b"".join(values), np.float64)
            direction = direction or self._direction(scores, offsets, rows)
            scores = -scores if direction == "low" else scores
        return _Lines(names, np.repeat(rows, lengths).astype(np.int64), flat, scores), direction

    def _number_others(self, numbers: Ints, others: list[str]) -> Ids:
        """Return the documents of the collection and other ids; number these in place."""
        there = self.data.doc_ids
        if others:
            further = dict(zip(dict.fromkeys(others), count(len(there)), strict=False))
            numbers[numbers < 0] = [*map(further.__getitem__, others)]
            there = Ids.concat([there.as_text(), Ids.of(list(further), "doc")])
        return there

    def _direction(self, scores: Floats, offsets: Ints, rows: Sequence[int]) -> str:
        """Return whether scores fall or rise with the rank, the same way for all queries."""
        before = np.concatenate([scores[:1], scores[:-1]])
        before[offsets[:-1]] = scores[offsets[:-1]]  # nothing is before the first hit of a query
        owners, rising, falling = rows_of(offsets), scores > before, scores < before
        if not rising.any():
            return "high"
        if not falling.any():
            return "low"
        up, down = (
            np.bincount(owners[each], minlength=len(rows)) > 0 for each in (rising, falling)
        )
        mixed = np.flatnonzero(up & down)
        row = rows[int(mixed[0] if len(mixed) else np.flatnonzero(up)[0])]
        raise InputError(
            f"The scores of {self.system.name} are not ordered: for query "
            f"{self.data.query_ids[row]!r} rise with the rank, others fall. Return hits "
            'sorted by score, or set scores to "high" or "low" (sort by score), or '
            '"order" (ignore scores).'
        )

    def _fold(self, lines: _Lines, direction: str) -> _Lines:
        """Return lines of documents where ids are those of chunks."""
        doc_of = make_doc_of(self.system.settings.get("doc_of"))
        aggregation = self.options.aggregation
        if doc_of is None:
            return lines
        if aggregation.best > 1 and direction == "order":
            raise UsageError(
                f"{self.system.name} has no scores to add for fold {aggregation}. Use max "
                "(rank of the first chunk)."
            )
        used, places = np.unique(lines.numbers, return_inverse=True)
        docs = self.number(HitList([doc_of(str(lines.ids[id])) for id in used], None))
        numbers = np.frombuffer(docs.numbers, np.int32).astype(np.int64)
        ids = self._number_others(numbers, docs.others)
        owner = numbers[places]
        order = np.lexsort((-lines.scores, owner, lines.rows))  # the best chunk of each is first
        key = (lines.rows * max(len(ids), 1) + owner)[order]
        heads = np.flatnonzero(np.diff(key, prepend=-1))
        place = np.arange(len(key)) - np.repeat(heads, np.diff([*heads, len(key)]))
        counted = np.where(place < aggregation.best, lines.scores[order], 0.0)
        scores = np.add.reduceat(counted, heads) if len(heads) else counted
        return _Lines(ids, lines.rows[order][heads], owner[order][heads], scores)


# Systems


def search_retriever(
    reader: AnswerReader,
    asking: Asking,
    checkpoint: Callable[[str], Checkpoint],
    fields: Mapping[str, Mapping[str, Any]],
) -> tuple[SearchResult, list[str]]:
    """Ask a system all queries, and return its ranking and costs, and the queries that failed.

    Args:
        reader: The system, the queries, and how answers are read.
        asking: Concurrency, time-out, retries, and what failures mean.
        checkpoint: Returns where the answers of a fingerprint are kept.
        fields: Further fields of queries, by their ids.

    Raises:
        EndpointError: Queries failed, and no failure is accepted.
        InputError: The answers cannot be ranked.
    """
    system, data, options = reader.system, reader.data, reader.options
    if system.target is None:
        kind, _, argument = system.spec.partition(":")
        retrieve = SYSTEMS[kind].load()(argument, system.settings)
    else:
        retrieve = as_retrieve(system.target)
    if direction := getattr(retrieve, "scores", ""):  # an address may say it, too
        system = replace(system, settings={**system.settings, "scores": direction})
        reader = replace(reader, system=system)
    mark = system.fingerprint or getattr(retrieve, "fingerprint", None)
    fingerprint = f"{system.spec} {as_settings(own=system.settings)} {options.depth} {mark}"
    # Answers stay the same if they are read in another way.
    deciding = {k: v for k, v in system.settings.items() if k not in ("scores", "doc_of")}
    key = f"{system.spec} {as_settings(own=deciding)} {mark}"
    ids, n_queries = list(map(str, data.query_ids)), len(data.query_ids)

    def answer(row: int) -> Any:
        query = Query(ids[row], data.query_texts[row], options.depth, fields.get(ids[row], {}))
        return retrieve(query)

    place = checkpoint(key) if mark is not None else Checkpoint(None)
    tell = partial(options.tell, system.name, "asking")
    answers = ask_all(n_queries, answer, reader.read, asking, checkpoint=place, tell=tell)
    failed = [ids[row] for row in sorted(answers.failures)]
    if failed and (asking.failed == "error" or not answers.hits):
        advice = f"{len(answers.hits):,} finished queries are stored: run again to query the rest"
        if mark is None:
            advice = "Set a fingerprint to store finished queries"
        elif place.folder is None:
            advice = "Omit --no-cache to store finished queries"
        raise EndpointError(_describe_failures(reader, answers, advice))
    ranking, findings = reader.rank(answers.hits)
    findings = [*_describe_answers(system, answers, n_queries, failed), *findings]
    costs = Costs(search_seconds=sum(answers.seconds.values()), serving=answers.costs(asking))
    result = SearchResult(ranking, costs, fingerprint, 0, findings=tuple(findings))
    return result, failed


def _describe_failures(reader: AnswerReader, answers: SystemAnswers, advice: str) -> str:
    row, error = min(answers.failures.items())
    number, done, total = len(answers.failures), len(answers.hits), len(reader.data.query_ids)
    words = f"{number:,} of {total:,} queries failed" if number > 1 else "A query failed"
    rest = total - number - done
    stopped = f"; {rest:,} were skipped" if rest else ""
    then = f". {advice}, or score the rest with --failed skip" if done else ""
    return (
        f"{reader.system.name}: {words}{stopped}. First: query {reader.data.query_ids[row]!r} "
        f"({reader.data.query_texts[row]!r:.60}): {describe_failure(error)}{then}."
    )


def _describe_answers(
    system: Retriever, answers: SystemAnswers, total: int, failed: Sequence[str]
) -> Iterator[Finding]:
    """Yield findings about failures, retries and answers of an interrupted bench."""
    name = system.name
    if failed:
        _, error = min(answers.failures.items())
        message = f"{name} failed on {len(failed):,} of {total:,} queries"
        why = f" First: {describe_failure(error)}."
        effect = f"They are excluded for all systems.{why}"
        counts = len(failed), total, tuple(failed[:5])
        yield Finding("error", "failed-queries", message, effect, *counts)
    if answers.retries:
        events = f"{answers.errors:,} errors and {answers.timeouts:,} time-outs"
        message = f"{name} had {events}; {answers.retries:,} queries were retried"
        effect = "Latencies cover successful answers only."
        yield Finding("warning", "retries", message, effect, answers.retries, total)
    if answers.resumed:
        message = f"{answers.resumed:,} answers of {name} come from an interrupted bench"
        effect = "They were not retried. Run with --no-cache to retry all."
        yield Finding("note", "resumed", message, effect, answers.resumed, total)


# Runs


def is_run(system: Retriever) -> bool:
    """Tell whether a system is a run that was written before."""
    if system.target is None:
        return system.spec.startswith("run:")
    return isinstance(system.target, Ranking | Mapping | os.PathLike)


def is_stored_run(system: Retriever) -> bool:
    """Tell whether a run is looked for in the store, because there is no such file."""
    return system.spec.startswith("run:") and not os.path.exists(system.spec[4:])


def read_run(reader: AnswerReader, rules: Conventions) -> SearchResult:
    """Return a run of a file or of Python as what a system retrieved; it has no costs."""
    system, data = reader.system, reader.data
    source = system.spec.partition(":")[2] if system.target is None else system.target
    run = as_ranking(source, rules)
    about, where = "queries", f"the run {system.name}"
    check_match(data.query_ids, run.query_ids, about, where, allow=reader.allow_mismatch)
    places = data.query_ids.match(run.query_ids)
    hits = {}
    for row in np.flatnonzero(places >= 0).tolist():
        inside = slice(run.offsets[places[row]], run.offsets[places[row] + 1])
        ids = run.doc_ids.take(run.docs[inside].astype(np.int64)).as_text()
        hits[row] = reader.number(HitList(list(map(str, ids)), run.scores[inside].tolist()))
    settings = {"scores": "high", **system.settings}
    by_score = replace(reader, system=replace(system, settings=settings))
    ranking, findings = by_score.rank(hits)
    if absent := [str(data.query_ids[int(row)]) for row in np.flatnonzero(places < 0)]:
        message = f"{system.name} has no results for {len(absent):,} queries"
        counts = len(absent), len(data.query_ids), tuple(absent[:3])
        effect = "They score 0."
        findings.append(Finding("warning", "missing-queries", message, effect, *counts))
    costs = Costs(search_seconds=None)
    return SearchResult(ranking, costs, f"{system.spec} {run}", 0, findings=tuple(findings))


class StoredRun(NamedTuple):
    """The first documents of a stored run, and its scores."""

    result: SearchResult
    scores: Scores


def read_stored_run(
    reader: AnswerReader,
    rules: Conventions,
    measures: Sequence[Measure],
    collection: str,
    place: str | None,
) -> StoredRun:
    """Return a run of the store with its scores of the same queries, measures and conventions.

    `collection` is the fingerprint of the collection, `place` where the store is.
    """
    system, data = reader.system, reader.data
    key = system.spec.partition(":")[2]
    try:
        with find_hook("open_store")(place, create=False) as store:
            named = store.runs(name=key, status="finished", limit=1)
            run = named[0] if named else store.run(int(key) if key.isdecimal() else key)
            scores, results = only_measures(run.scores(), measures), run.all_results()
    except (StorageError, UsageError) as error:
        raise type(error)(f"No file or stored run {key!r}. {error}") from error
    what = f"The stored run {run.id} ({run.name!r})"
    if scores.conventions != rules:
        raise MismatchError(f"{what} has other conventions: {scores.conventions}. Use the same.")
    there = scores.settings.get("collection")
    if there is not None and there != collection[:8]:
        raise MismatchError(f"{what} is of collection {there}, not {collection[:8]}. Match them.")
    hits = {
        row: reader.number(HitList([doc.doc for doc in results[query].results], None))
        for row, query in enumerate(map(str, data.query_ids))
        if query in results
    }
    ranking, _ = replace(reader, allow_mismatch=True).rank(hits)
    costs = run.config.get("costs", {})
    spent = Costs(search_seconds=costs.get("search_seconds"), serving=costs.get("serving"))
    return StoredRun(SearchResult(ranking, spent, f"{system.spec} {run.uid}", 0), scores)


def take_scores(stored: Scores, scores: Scores, name: str) -> Scores:
    """Return stored scores of the queries of others, in their order; refuse other queries."""
    rows = scores.query_ids.match(stored.query_ids)
    if (rows < 0).any():
        absent = scores.query_ids.take(np.flatnonzero(rows < 0))
        raise MismatchError(
            f"The stored run {name!r} lacks {len(absent):,} queries: {name_few(absent, 3)}. "
            "Repeat it on all queries."
        )
    marks: Any = {"values": stored.values[:, rows], "tied": stored.tied[:, rows]}
    return replace(scores, **marks, missing=stored.missing[rows], remarks=())
