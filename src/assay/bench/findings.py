"""Suspicious texts, judgments and results of a bench, as findings."""

from __future__ import annotations

import re
from array import array
from collections import defaultdict
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from itertools import combinations, count
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from assay.arrays import Ints, offsets_of
from assay.core.ids import Ids
from assay.core.judgments import Qrels
from assay.core.mismatches import describe_near
from assay.core.text import describe_p, format_percent, signed
from assay.inspect.check import CheckReport, Finding
from assay.io.checkpoint import Checkpoint
from assay.models.languages import language_of
from assay.scoring.evaluate import score
from assay.stats import paired_test

if TYPE_CHECKING:
    from assay.bench.result import BenchResult, System
    from assay.io.collections import Collection


_EXAMPLES = 5
_WIDE = 0.5
_CUT = 0.1
_UNEQUAL = 0.1
_LOSS = 0.05
_PLACES = 10


def diagnose(result: BenchResult) -> CheckReport:
    """Return what is suspicious in texts, judgments and results, the most severe first."""
    collection, cache = result.collection, result.cache
    facts = find_facts(collection.doc_texts, None if cache is None else cache.folder)
    findings = [
        *_check_left_out(result),
        *_check_ids(collection),
        *_check_copies(collection.doc_ids, facts),
        *_check_language(collection.query_texts, facts.language),
        *_check_case(result),
    ]
    for system in result.systems:
        findings += _check_system(system)
    findings += [*_check_failures(result), *_check_disagreement(result), *_check_unjudged(result)]
    severities = ["error", "warning", "note"]
    findings.sort(key=lambda finding: severities.index(finding.severity))
    return CheckReport(tuple(findings))


def _values(result: BenchResult) -> NDArray[np.float64]:
    """Return the first measure: systems × queries."""
    return np.array([system.scores.values[0] for system in result.systems])


def failures(result: BenchResult) -> list[str]:
    """Return queries on which the first measure is 0 for every system.

    Args:
        result: What `run_bench` returns.

    Returns:
        The ids of the queries.

    Example:
        failures(run_bench(collection, ["bm25"]))
    """
    nothing = (_values(result) == 0).all(axis=0)
    ids = result.systems[0].scores.query_ids
    return [str(ids[int(row)]) for row in np.flatnonzero(nothing)]


def disagreements(result: BenchResult) -> list[tuple[str, float]]:
    """Return queries by how far apart the systems are on the first measure.

    Args:
        result: What `run_bench` returns.

    Returns:
        Ids and distances, widest first; queries without a difference are left out.

    Example:
        disagreements(run_bench(collection, ["bm25", "tfidf"]))[:10]
    """
    values = _values(result)
    spread = np.nan_to_num(values.max(axis=0) - values.min(axis=0))
    ids = result.systems[0].scores.query_ids
    order = np.argsort(-spread, kind="stable")
    return [(str(ids[int(row)]), float(spread[row])) for row in order if spread[row] > 0]


def _check_failures(result: BenchResult) -> Iterator[Finding]:
    failed, several = failures(result), len(result.systems) > 1
    if failed:
        everyone = "all systems fail" if several else "nothing relevant is retrieved"
        message = f"on {count_of(len(failed), 'query')} {everyone}"
        effect = "Inspect one with 'assay explain --query ID': judgment or text may be wrong."
        yield _finding("note", "all-fail", message, effect, failed, result.chance.n_queries)


def _check_disagreement(result: BenchResult) -> Iterator[Finding]:
    wide = [query for query, spread in disagreements(result) if spread >= _WIDE]
    if wide and len(result.systems) > 1:
        measure = result.systems[0].scores.measures[0]
        queries = count_of(len(wide), "query")
        message = f"on {queries} systems are {_WIDE} or more apart on {measure}"
        effect = "They retrieve different documents; fusion may help."
        yield _finding("note", "disagreement", message, effect, wide, result.chance.n_queries)


def _check_system(system: System) -> Iterator[Finding]:
    """Yield what is lost before anything is compared: truncated texts, zero vectors, recall."""
    result, total = system.result, system.result.n_texts
    if result.n_cut and "@" not in system.spec:
        severity = "warning" if result.n_cut >= _CUT * total else "note"
        share = f"{result.n_cut:,} of {total:,} texts ({100 * result.n_cut / total:.1f} %)"
        message = f"{system.name} truncates {share}"
        effect = "Text beyond its maximum length is not searched. Use chunks."
        yield Finding(severity, "truncated", message, effect, result.n_cut, total)
    if result.n_without:
        message = f"{system.name} gives {result.n_without:,} texts no vector or a zero vector"
        effect = "They cannot be retrieved."
        yield Finding("warning", "zero-vectors", message, effect, result.n_without, total)
    for remark in result.remarks:
        yield Finding(
            "note", "as-run", f"{system.name}: {remark}", "The signature records it.", 1, 1
        )
    yield from result.findings
    report = result.index
    if report is not None and report.recall < 1 - _LOSS:
        reached = f"{100 * report.recall:.1f} % of the exact result"
        message = f"{system.name} reaches a recall of {reached}"
        effect = "Its loss against the exact model is due to the index."
        yield Finding("warning", "index-loss", message, effect, 1, 1)


def _check_left_out(result: BenchResult) -> Iterator[Finding]:
    """Yield systems that could not run on this collection, and files that are not in it."""
    if result.left_out:
        reasons = [f"{name} ({reason})" for name, reason in result.left_out.items()]
        message = f"{count_of(len(reasons), 'system')} left out"
        effect = "They cannot run on this collection; the rest is compared."
        total = len(reasons) + len(result.systems)
        yield _finding("error", "left-out", message, effect, reasons, total)
    if result.folder is not None and (files := result.folder.left_out):
        effect = "They were not read. Add text files with --extension .EXT."
        total = len(files) + len(result.folder.files)
        severity = "warning" if len(files) >= _CUT * total else "note"
        message = result.folder.describe_left_out()
        yield _finding(severity, "files", message, effect, files, total)


def _check_unjudged(result: BenchResult) -> Iterator[Finding]:
    """Yield the share of unjudged documents at the top."""
    qrels = result.collection.qrels
    if isinstance(qrels, Qrels) and qrels.exhaustive:
        return
    shares = {}
    for system in result.systems:
        values = score(system.hits, f"Judged@{_PLACES}").values[0]
        shares_of_queries = values[np.isfinite(values)]  # a query without results has no such share
        if len(shares_of_queries):
            shares[system.name] = 1 - float(shares_of_queries.mean())
    if not shares:
        return
    low, high = min(shares, key=shares.__getitem__), max(shares, key=shares.__getitem__)
    if shares[high] <= 0:
        return
    unequal, span = shares[high] - shares[low] >= _UNEQUAL, format_percent(shares[high])
    if (least := format_percent(shares[low])) != span:
        span = f"{least} ({low}) to {span} ({high})"
    effect = f"This may underrate {high}: unjudged documents may be relevant." * unequal
    message = f"{span} of the top {_PLACES} documents are unjudged (counted as not relevant)"
    yield Finding("warning" if unequal else "note", "unjudged", message, effect, 0, 0)


_LEVEL: Final = 0.05


def _finding(
    severity: str, code: str, message: str, effect: str, ids: Sequence[object] | Ids, total: int
) -> Finding:
    examples = tuple(str(ids[i]) for i in range(min(len(ids), _EXAMPLES)))
    return Finding(severity, code, message, effect, len(ids), total, examples)


def count_of(number: int, noun: str) -> str:
    """Return a number with its noun, in the plural where it is not 1."""
    plural = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    return f"{number:,} {noun if number == 1 else plural}"


def _check_ids(collection: Collection) -> Iterator[Finding]:
    """Yield findings about ids and texts that are missing, empty or not judged."""
    qrels, docs, n_queries = collection.qrels, collection.doc_ids, len(collection.query_ids)
    if len(absent := collection.absent_docs):
        message = f"{count_of(len(absent), 'judged document')} not in the collection"
        effect = "Relevant ones still count, and cannot be retrieved."
        effect += describe_near(absent, docs)
        yield _finding("error", "absent-docs", message, effect, absent, len(qrels.doc_ids))
    if len(absent := collection.absent_queries):
        message = f"{count_of(len(absent), 'judged query')} without a text"
        effect = f"They are excluded.{describe_near(absent, collection.unjudged_queries)}"
        yield _finding("warning", "absent-queries", message, effect, absent, len(qrels.query_ids))
    if len(empty := collection.empty_docs):
        relevant = qrels.doc_ids.take(np.unique(qrels.docs[qrels.grades > 0]))
        number = int((relevant.match(empty) >= 0).sum())
        message = f"{count_of(len(empty), 'document')} without text"
        effect = f"They cannot be retrieved; {number} of them relevant to a query."
        yield _finding("warning", "empty-docs", message, effect, empty, len(docs))
    empty = collection.empty_queries
    if len(empty := empty.take(np.flatnonzero(empty.match(qrels.query_ids) >= 0))):
        message = f"{count_of(len(empty), 'judged query')} with empty text"
        effect = "They retrieve nothing and score 0."
        yield _finding("error", "empty-queries", message, effect, empty, n_queries)
    if len(unjudged := collection.unjudged_queries):
        message = f"{count_of(len(unjudged), 'query')} without judgments"
        yield _finding(
            "note", "unjudged-queries", message, "They are not searched.", unjudged, n_queries
        )


def _check_case(result: BenchResult) -> Iterator[Finding]:
    """Yield what capitals cost a model, measured: some queries were tried in small letters, too."""
    for system in result.systems:
        if system.lower_cased is None:
            continue
        small, as_written = system.lower_cased
        test = paired_test(small, as_written)
        if test.p <= _LEVEL and test.statistic > 0:
            gain = f"{signed(test.statistic)} {system.scores.measures[0]} ({describe_p(test.p)})"
            queries = count_of(len(small), "query")
            message = f"{system.name} loses by capitals: {queries} in lower case reach {gain}"
            effect = "The model is case-sensitive. Lower-case the queries."
            total = len(system.scores.query_ids)
            yield Finding("warning", "capitals", message, effect, len(small), total)


def _check_copies(ids: Ids, facts: TextFacts) -> Iterator[Finding]:
    same, near, _ = facts
    advice = "unjudged copies count as not relevant"
    effect = f"They occupy several ranks; {advice}."
    if same:
        documents = count_of(sum(map(len, same)), "document")
        message = f"{documents} in {count_of(len(same), 'group')} with identical words"
        counts = len(same), len(ids), _groups(ids, same)
        yield Finding("warning", "duplicate-docs", message, effect, *counts)
    if near:
        documents = count_of(len({doc for pair in near for doc in pair}), "document")
        message = f"{documents} that nearly repeat another"
        counts = len(near), len(ids), _groups(ids, near)
        yield Finding("note", "near-duplicate-docs", message, effect, *counts)


def _groups(ids: Ids, groups: Sequence[Sequence[int]]) -> tuple[str, ...]:
    return tuple(" = ".join(str(ids[doc]) for doc in group[:3]) for group in groups[:3])


def _check_language(texts: Sequence[str], docs: str) -> Iterator[Finding]:
    queries = language_of(texts) if docs else ""
    if queries and queries != docs:
        message = f"queries are mostly written in {queries}, documents in {docs}"
        effect = "Lexical search and monolingual models retrieve less."
        yield Finding("warning", "language-mismatch", message, effect, len(texts), len(texts))


class TextFacts(NamedTuple):
    """Groups of equal documents, pairs that are nearly equal, and the language of most of them."""

    same: list[list[int]]
    near: list[list[int]]
    language: str


_LAYOUT: Final = "findings-2"  # changed whenever what is found changes


def find_facts(texts: Sequence[str], folder: Path | None = None) -> TextFacts:
    """Return the facts about documents; those that were found before are taken from the folder."""
    if folder is None:
        return TextFacts(*find_copies(texts), language_of(texts))
    digest = blake2b(digest_size=16)
    for text in texts:
        raw = text.encode("utf-8", "surrogatepass")
        digest.update(len(raw).to_bytes(8, "little") + raw)
    checkpoint = Checkpoint(folder / _LAYOUT, digest.hexdigest(), optional=True)
    name = f"{digest.hexdigest()}.facts"
    part = checkpoint.load(name)
    if part is not None:
        return TextFacts(*part.notes)
    facts = find_facts(texts)
    checkpoint.save(name, {}, facts)
    return facts


_WORD: Final = re.compile(r"\w+")
_FEWEST: Final = 8  # shingles; shorter texts are alike by accident
_BANDS, _ROWS = 8, 4
_ALIKE: Final = 0.8
_MOST_DOCS: Final = 50_000
_FACTORS: Final = np.array([0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0xD6E8FEB86659FD93], np.uint64)
_PRIME: Final = np.uint64((1 << 61) - 1)
_HALF: Final = np.uint64(32)
_TEXTS_AT_ONCE: Final = 128  # whose runs the processor's own memory holds


class Copies(NamedTuple):
    """Groups of documents with the same words, and pairs of others that share most of them."""

    same: list[list[int]]
    near: list[list[int]]


def find_copies(texts: Sequence[str]) -> Copies:
    """Find texts with the same words in the same order, and near copies.

    Case and punctuation do not count.

    The others are pairs that share 80 % of their runs of three words. Candidates are found by
    MinHash (Broder 1997) and then counted; none are looked for among more than 50,000 texts.

    >>> find_copies(["A b.", "x", "a  B", ""]).same
    [[0, 2]]
    """
    words, offsets = _number_words(texts)
    groups: dict[bytes, list[int]] = defaultdict(list)
    for number in np.flatnonzero(np.diff(offsets)).tolist():
        text_words = words[offsets[number] : offsets[number + 1]]
        groups[blake2b(text_words.tobytes(), digest_size=16).digest()].append(number)
    same = [group for group in groups.values() if len(group) > 1]
    if len(texts) > _MOST_DOCS:
        return Copies(same, [])
    firsts = np.ones(len(texts), bool)
    firsts[[number for group in same for number in group[1:]]] = False
    return Copies(same, _find_near(_find_runs(words, offsets), firsts))


def _number_words(texts: Sequence[str]) -> tuple[NDArray[np.uint32], Ints]:
    """Return the words of all texts as numbers, in the order in which they are first seen."""
    numbers: dict[str, int] = defaultdict(count().__next__)
    flat, offsets = array("I"), [0]
    for text in texts:
        flat.extend(map(numbers.__getitem__, _WORD.findall(text.casefold())))
        offsets.append(len(flat))
    return np.array(flat, np.uint32), np.array(offsets)


def _find_runs(words: NDArray[np.uint32], offsets: Ints) -> NDArray[np.uint64]:
    """Return text and number of each run of words, as halves of a number.

    They are sorted and without repeats.

    Another run may have the same number by accident.
    """
    numbers = words.astype(np.uint64)
    runs = (numbers[:-2] * _FACTORS[0] + numbers[1:-1]) * _FACTORS[1] + numbers[2:]  # modulo 2^64
    owners = np.repeat(np.arange(len(offsets) - 1, dtype=np.uint64), np.diff(offsets))
    whole = owners[:-2] == owners[2:]
    owned = np.sort((owners[:-2] << _HALF | (runs * _FACTORS[2]) >> _HALF)[whole])
    new: NDArray[np.bool_] = np.diff(owned, prepend=~owned[:1]) != 0
    return owned[new]


def _find_near(runs: NDArray[np.uint64], firsts: NDArray[np.bool_]) -> list[list[int]]:
    """Return pairs of texts that share most of their runs, among the first of each kind."""
    counts = np.bincount((runs >> _HALF).astype(np.int64), minlength=len(firsts))
    numbers = np.flatnonzero(firsts & (counts >= _FEWEST))
    plain, offsets = runs & np.uint64(0xFFFFFFFF), offsets_of(counts)
    shingles = {number: plain[offsets[number] : offsets[number + 1]] for number in numbers.tolist()}
    pairs = {pair for group in _candidates(shingles) for pair in combinations(group[:50], 2)}
    alike = []
    for left, right in sorted(pairs):
        shared = len(np.intersect1d(shingles[left], shingles[right], assume_unique=True))
        if shared / (len(shingles[left]) + len(shingles[right]) - shared) >= _ALIKE:
            alike.append([left, right])
    return alike


def _candidates(shingles: dict[int, NDArray[np.uint64]]) -> Iterator[list[int]]:
    """Yield texts whose smallest hashes agree in a band of several."""
    if not shingles:
        return
    numbers, parts = np.array(list(shingles)), list(shingles.values())
    blocks = range(0, len(parts), _TEXTS_AT_ONCE)
    least = np.hstack([_least_hashes(parts[at : at + _TEXTS_AT_ONCE]) for at in blocks])
    for band in range(0, len(least), _ROWS):
        yield from _equal_rows(numbers, least[band : band + _ROWS])


def _least_hashes(parts: list[NDArray[np.uint64]]) -> NDArray[np.uint64]:
    """Return the smallest value of each hash function: functions × texts."""
    rng = np.random.default_rng(0)
    factors = rng.integers(1, 1 << 31, _BANDS * _ROWS, dtype=np.uint64)
    shifts = rng.integers(0, 1 << 31, _BANDS * _ROWS, dtype=np.uint64)
    runs, starts = np.concatenate(parts), offsets_of(list(map(len, parts)))[:-1]
    hashes = zip(factors, shifts, strict=True)
    return np.array([np.minimum.reduceat(_modulo(runs * a + b), starts) for a, b in hashes])


def _modulo(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return values modulo 2^61 − 1, without a division."""
    folded = (values & _PRIME) + (values >> np.uint64(61))
    return np.where(folded >= _PRIME, folded - _PRIME, folded)


def _equal_rows(numbers: Ints, columns: NDArray[np.uint64]) -> Iterator[list[int]]:
    """Yield groups of numbers whose entries agree in all columns; other entries may by accident."""
    mixed = np.zeros(len(numbers), np.uint64)
    for column in columns:
        mixed = (mixed ^ column) * _FACTORS[0]
        mixed ^= mixed >> np.uint64(29)
    order = np.argsort(mixed, kind="stable")
    ends = np.flatnonzero(np.diff(mixed[order], append=~mixed[order[-1:]])) + 1
    for start, end in zip([0, *ends[:-1]], ends, strict=True):
        if end - start > 1:
            yield numbers[order[start:end]].tolist()
