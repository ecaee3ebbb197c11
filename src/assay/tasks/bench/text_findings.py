"""What is suspicious in the texts and ids of a collection, whatever model is used."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from assay.core.id_hints import describe_near
from assay.core.ids import Ids
from assay.core.text import signed
from assay.inspect.check import Finding
from assay.stats import paired_test

if TYPE_CHECKING:
    from assay.io.collections import Collection
    from assay.tasks.bench.result import BenchResult

__all__ = ["check_texts", "duplicates", "language_of", "near_duplicates"]

_WORD: Final = re.compile(r"\w+")
_SHINGLE: Final = 3  # words in a row
_FEWEST: Final = 8  # shingles; shorter texts are alike by accident
_BANDS, _ROWS = 8, 4
_ALIKE: Final = 0.8
_MOST_DOCS: Final = 50_000
_FACTORS: Final = np.array([0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0xD6E8FEB86659FD93], np.uint64)
_PRIME: Final = np.uint64((1 << 61) - 1)


def duplicates(texts: Sequence[str]) -> list[list[int]]:
    """Groups of texts with the same words in the same order, whatever their case and punctuation.

    >>> duplicates(["A b.", "x", "a  B", ""])
    [[0, 2]]
    """
    groups = defaultdict(list)
    for number, text in enumerate(texts):
        words = " ".join(_WORD.findall(text.casefold()))
        if words:
            groups[words].append(number)
    return [group for group in groups.values() if len(group) > 1]


def near_duplicates(
    texts: Sequence[str], *, known: Sequence[Sequence[int]] = ()
) -> list[tuple[int, int]]:
    """Pairs of texts that share 80 % of their runs of three words, without pairs already known.

    Candidates are found by MinHash (Broder 1997) and then counted; none are looked for among more
    than 50,000 texts.
    """
    if len(texts) > _MOST_DOCS:
        return []
    same = {number: group[0] for group in known for number in group}
    words = _Words()
    shingles = {
        number: found
        for number, text in enumerate(texts)
        if same.get(number, number) == number and len(found := words.shingles(text)) >= _FEWEST
    }
    pairs = {pair for group in _candidates(shingles) for pair in combinations(group[:50], 2)}
    return sorted(pair for pair in pairs if _overlap(*(shingles[i] for i in pair)) >= _ALIKE)


class _Words:
    """Words as numbers, in the order in which they are first seen."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def shingles(self, text: str) -> NDArray[np.uint64]:
        """A number for each run of words, without repeats; another run may have it by accident."""
        numbers = self._numbers
        words = _WORD.findall(text.casefold())
        found = np.array([numbers.setdefault(word, len(numbers)) for word in words], np.uint64)
        if len(found) < _SHINGLE:
            return np.empty(0, np.uint64)
        runs = (found[:-2] * _FACTORS[0] + found[1:-1]) * _FACTORS[1] + found[2:]  # modulo 2^64
        return np.unique((runs * _FACTORS[2]) >> np.uint64(32))


def _candidates(shingles: dict[int, NDArray[np.uint64]]) -> Iterator[list[int]]:
    """Texts whose smallest hashes agree in a band of several."""
    rng = np.random.default_rng(0)
    factors = rng.integers(1, 1 << 31, _BANDS * _ROWS, dtype=np.uint64)
    shifts = rng.integers(0, 1 << 31, _BANDS * _ROWS, dtype=np.uint64)
    buckets: dict[tuple[int, bytes], list[int]] = defaultdict(list)
    for number, found in shingles.items():
        least = ((found[:, None] * factors + shifts) % _PRIME).min(axis=0).reshape(_BANDS, _ROWS)
        for band, row in enumerate(least):
            buckets[band, row.tobytes()].append(number)
    return (group for group in buckets.values() if len(group) > 1)


def _overlap(left: NDArray[np.uint64], right: NDArray[np.uint64]) -> float:
    shared = len(np.intersect1d(left, right, assume_unique=True))
    return shared / (len(left) + len(right) - shared)


_SAMPLE: Final = 500
_LEVEL: Final = 0.05
_MOST: Final = 0.8
_LETTERS: Final = re.compile(r"[^\W\d_]+")
# Frequent short words, each in one of these languages only.
_FREQUENT: Final = {
    "English": "the of and is with that for from are this which was by what how",
    "German": "der und das ist nicht mit von für auf dem ein eine wie zu werden",
    "French": "les des est une dans que pour avec qui sur du au cette sont et",
    "Spanish": "el los las una que por con para del como se más está son y",
    "Italian": "il che di per una con sono della nel gli è alla dei come non",
    "Portuguese": "os não uma com para dos da em são ao pelo mais como foi às",
    "Dutch": "het een van niet met voor zijn aan ook bij naar wordt dat deze op",
}
_LANGUAGE_OF: Final = {
    word: [name for name, words in _FREQUENT.items() if word in words.split()]
    for words in _FREQUENT.values()
    for word in words.split()
}
_SCRIPTS: Final = {
    "CJK": "Chinese or Japanese",
    "HIRAGANA": "Japanese",
    "KATAKANA": "Japanese",
    "HANGUL": "Korean",
    "CYRILLIC": "Cyrillic script",
    "ARABIC": "Arabic script",
    "GREEK": "Greek",
    "HEBREW": "Hebrew",
    "DEVANAGARI": "Devanagari script",
    "THAI": "Thai",
}


def language_of(texts: Sequence[str]) -> str:
    """The language, or the script, that most of the texts are written in; empty if none is.

    >>> language_of(["how is the weather", "what is that for"])
    'English'
    """
    votes = Counter(_vote(text) for text in _sample(texts))
    del votes[""]
    if not votes:
        return ""
    name, number = votes.most_common(1)[0]
    return name if number >= _MOST * votes.total() else ""


def _vote(text: str) -> str:
    letters = [c for c in text[:2000] if c.isalpha()]
    scripts = Counter(unicodedata.name(c, "").partition(" ")[0] for c in letters[::3] or letters)
    script = scripts.most_common(1)[0][0] if scripts else ""
    if script in _SCRIPTS:
        return _SCRIPTS[script]
    words = _LETTERS.findall(text[:2000].casefold())
    found = Counter(name for word in words for name in _LANGUAGE_OF.get(word, ()))
    (first, number), *others = found.most_common(2) or [("", 0)]
    return first if not others or number > others[0][1] else ""


def _sample(texts: Sequence[str]) -> Sequence[str]:
    """Some texts from all over the collection."""
    return texts[:: max(1, len(texts) // _SAMPLE)]


_EXAMPLES = 5


def check_texts(result: BenchResult) -> Iterator[Finding]:
    """Findings about the texts of queries and documents, and about the judgments."""
    collection = result.collection
    yield from _check_absent(collection)
    yield from _check_empty(collection)
    yield from _check_queries(collection)
    yield from _check_copies(collection)
    yield from _check_language(collection)
    yield from _check_case(result)


def _finding(
    severity: str, code: str, message: str, effect: str, ids: Sequence[object] | Ids, total: int
) -> Finding:
    shown = tuple(str(ids[i]) for i in range(min(len(ids), _EXAMPLES)))
    return Finding(severity, code, message, effect, len(ids), total, shown)


def _count(number: int, noun: str) -> str:
    plural = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    return f"{number:,} {noun if number == 1 else plural}"


def _check_absent(collection: Collection) -> Iterator[Finding]:
    absent, judged = collection.absent_docs, collection.qrels.doc_ids
    if len(absent):
        yield _finding(
            "error",
            "absent-docs",
            f"{_count(len(absent), 'judged document')} not in the collection",
            f"Those that are relevant count as relevant, and cannot be retrieved."
            f"{describe_near(absent, collection.doc_ids)}",
            absent,
            len(judged),
        )
    queries = collection.absent_queries
    if len(queries):
        yield _finding(
            "warning",
            "absent-queries",
            f"{_count(len(queries), 'judged query')} without a text",
            f"They are left out.{describe_near(queries, collection.unjudged_queries)}",
            queries,
            len(collection.qrels.query_ids),
        )


def _check_empty(collection: Collection) -> Iterator[Finding]:
    empty = collection.empty_docs
    if len(empty):
        relevant = _relevant_among(collection, empty)
        yield _finding(
            "warning",
            "empty-docs",
            f"{_count(len(empty), 'document')} without any text",
            f"They cannot be retrieved; {relevant} of them relevant to a query.",
            empty,
            len(collection.doc_ids),
        )
    empty_queries = collection.empty_queries
    judged = empty_queries.take(
        np.flatnonzero(empty_queries.match(collection.qrels.query_ids) >= 0)
    )
    if len(judged):
        yield _finding(
            "error",
            "empty-queries",
            f"{_count(len(judged), 'judged query')} with an empty text",
            "They retrieve nothing and score 0.",
            judged,
            len(collection.query_ids),
        )


def _check_case(result: BenchResult) -> Iterator[Finding]:
    """What capitals cost a model, measured: some queries were tried in small letters, too."""
    for system in result.systems:
        if system.lower_cased is None:
            continue
        small, given = system.lower_cased
        test = paired_test(small, given)
        if test.p <= _LEVEL and test.statistic > 0:
            measure = system.scores.measures[0]
            yield Finding(
                "warning",
                "capitals",
                f"{system.name} loses by capitals: in small letters {_count(len(small), 'query')} "
                f"reach {signed(test.statistic)} {measure} (p = {test.p:.4f})",
                "The model tells letters by their case. Write the queries in small letters.",
                len(small),
                len(system.scores.query_ids),
                (),
            )


def _relevant_among(collection: Collection, docs: Ids) -> int:
    qrels = collection.qrels
    relevant = np.unique(qrels.docs[qrels.grades > 0])
    return int((qrels.doc_ids.take(relevant).match(docs) >= 0).sum())


def _check_queries(collection: Collection) -> Iterator[Finding]:
    unjudged = collection.unjudged_queries
    if len(unjudged):
        yield _finding(
            "note",
            "unjudged-queries",
            f"{_count(len(unjudged), 'query')} without judgments",
            "They are not run.",
            unjudged,
            len(collection.query_ids),
        )


def _check_copies(collection: Collection) -> Iterator[Finding]:
    texts, ids = collection.doc_texts, collection.doc_ids
    total = len(ids)
    same = duplicates(texts)
    effect = (
        "They take each other's places; where only one is judged, the others count as not relevant."
    )
    if same:
        yield Finding(
            "warning",
            "duplicate-docs",
            f"{_count(sum(map(len, same)), 'document')} in {_count(len(same), 'group')} of equal "
            "words",
            effect,
            len(same),
            total,
            _groups(ids, same),
        )
    near = near_duplicates(texts, known=same)
    if near:
        number = len({doc for pair in near for doc in pair})
        yield Finding(
            "note",
            "near-duplicate-docs",
            f"{_count(number, 'document')} that share most of their words with another",
            effect,
            len(near),
            total,
            _groups(ids, near),
        )


def _groups(ids: Ids, groups: Sequence[Sequence[int]]) -> tuple[str, ...]:
    return tuple(" = ".join(str(ids[doc]) for doc in group[:3]) for group in groups[:3])


def _check_language(collection: Collection) -> Iterator[Finding]:
    queries, docs = language_of(collection.query_texts), language_of(collection.doc_texts)
    if queries and docs and queries != docs:
        yield Finding(
            "warning",
            "language-mismatch",
            f"queries are mostly written in {queries}, documents in {docs}",
            "A model that was not trained for that, and any lexical search, retrieves less.",
            len(collection.query_texts),
            len(collection.query_texts),
        )
