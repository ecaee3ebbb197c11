"""What the texts of a collection are: copies of each other, and in which language.

It does not depend on any model, so it is computed once and kept beside the embedding cache.
"""

from __future__ import annotations

import re
import unicodedata
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from itertools import combinations, count
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from assay.arrays import Ints, offsets_of
from assay.io.checkpoint import Checkpoint

__all__ = ["Copies", "TextFacts", "find_copies", "find_facts", "language_of"]


class TextFacts(NamedTuple):
    """Groups of equal documents, pairs that are nearly equal, and the language of most of them."""

    same: list[list[int]]
    near: list[list[int]]
    language: str


_LAYOUT: Final = "findings-1"  # changed whenever what is found changes


def find_facts(texts: Sequence[str], folder: Path | None = None) -> TextFacts:
    """The facts about documents; those that were found before are taken from the folder."""
    if folder is None:
        return TextFacts(*find_copies(texts), language_of(texts))
    digest = blake2b(digest_size=16)
    for text in texts:
        raw = text.encode("utf-8", "surrogatepass")
        digest.update(len(raw).to_bytes(8, "little") + raw)
    kept = Checkpoint(folder / _LAYOUT, digest.hexdigest(), optional=True)
    name = f"{digest.hexdigest()}.facts"
    part = kept.load(name)
    if part is not None:
        return TextFacts(*part.notes)
    found = find_facts(texts)
    kept.save(name, {}, found)
    return found


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
    """Texts with the same words in the same order, whatever their case and punctuation, and others.

    The others are pairs that share 80 % of their runs of three words. Candidates are found by
    MinHash (Broder 1997) and then counted; none are looked for among more than 50,000 texts.

    >>> find_copies(["A b.", "x", "a  B", ""]).same
    [[0, 2]]
    """
    words, offsets = _number_words(texts)
    groups: dict[bytes, list[int]] = defaultdict(list)
    for number in np.flatnonzero(np.diff(offsets)).tolist():
        own = words[offsets[number] : offsets[number + 1]]
        groups[blake2b(own.tobytes(), digest_size=16).digest()].append(number)
    same = [group for group in groups.values() if len(group) > 1]
    if len(texts) > _MOST_DOCS:
        return Copies(same, [])
    firsts = np.ones(len(texts), bool)
    firsts[[number for group in same for number in group[1:]]] = False
    return Copies(same, _find_near(_find_runs(words, offsets), firsts))


def _number_words(texts: Sequence[str]) -> tuple[NDArray[np.uint32], Ints]:
    """The words of all texts as numbers, in the order in which they are first seen."""
    numbers: dict[str, int] = defaultdict(count().__next__)
    flat, offsets = array("I"), [0]
    for text in texts:
        flat.extend(map(numbers.__getitem__, _WORD.findall(text.casefold())))
        offsets.append(len(flat))
    return np.array(flat, np.uint32), np.array(offsets)


def _find_runs(words: NDArray[np.uint32], offsets: Ints) -> NDArray[np.uint64]:
    """Text and number of each run of words, without repeats, as the halves of a sorted number.

    Another run may have the same number by accident.
    """
    found = words.astype(np.uint64)
    runs = (found[:-2] * _FACTORS[0] + found[1:-1]) * _FACTORS[1] + found[2:]  # modulo 2^64
    owners = np.repeat(np.arange(len(offsets) - 1, dtype=np.uint64), np.diff(offsets))
    whole = owners[:-2] == owners[2:]
    owned = np.sort((owners[:-2] << _HALF | (runs * _FACTORS[2]) >> _HALF)[whole])
    new: NDArray[np.bool_] = np.diff(owned, prepend=~owned[:1]) != 0
    return owned[new]


def _find_near(runs: NDArray[np.uint64], firsts: NDArray[np.bool_]) -> list[list[int]]:
    """Pairs of texts that share most of their runs, among the first of each kind."""
    counts = np.bincount((runs >> _HALF).astype(np.int64), minlength=len(firsts))
    numbers = np.flatnonzero(firsts & (counts >= _FEWEST))
    shingles = dict(zip(numbers.tolist(), _split_runs(runs, counts, numbers), strict=True))
    pairs = {pair for group in _candidates(shingles) for pair in combinations(group[:50], 2)}
    alike = (pair for pair in pairs if _overlap(*(shingles[i] for i in pair)) >= _ALIKE)
    return [list(pair) for pair in sorted(alike)]


def _split_runs(
    runs: NDArray[np.uint64], counts: Ints, numbers: Ints
) -> Iterator[NDArray[np.uint64]]:
    plain = runs & np.uint64(0xFFFFFFFF)
    offsets = offsets_of(counts)
    return (plain[offsets[number] : offsets[number + 1]] for number in numbers)


def _candidates(shingles: dict[int, NDArray[np.uint64]]) -> Iterator[list[int]]:
    """Texts whose smallest hashes agree in a band of several."""
    if not shingles:
        return
    numbers, parts = np.array(list(shingles)), list(shingles.values())
    blocks = range(0, len(parts), _TEXTS_AT_ONCE)
    least = np.hstack([_least_hashes(parts[at : at + _TEXTS_AT_ONCE]) for at in blocks])
    for band in range(0, len(least), _ROWS):
        yield from _equal_rows(numbers, least[band : band + _ROWS])


def _least_hashes(parts: list[NDArray[np.uint64]]) -> NDArray[np.uint64]:
    """The smallest value of each hash function over the runs of each text: functions × texts."""
    rng = np.random.default_rng(0)
    factors = rng.integers(1, 1 << 31, _BANDS * _ROWS, dtype=np.uint64)
    shifts = rng.integers(0, 1 << 31, _BANDS * _ROWS, dtype=np.uint64)
    found, starts = np.concatenate(parts), offsets_of(list(map(len, parts)))[:-1]
    hashes = zip(factors, shifts, strict=True)
    return np.array([np.minimum.reduceat(_modulo(found * a + b), starts) for a, b in hashes])


def _modulo(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Modulo 2^61 − 1, without a division."""
    folded = (values & _PRIME) + (values >> np.uint64(61))
    return np.where(folded >= _PRIME, folded - _PRIME, folded)


def _equal_rows(numbers: Ints, columns: NDArray[np.uint64]) -> Iterator[list[int]]:
    """Groups of numbers whose entries agree in all columns; other entries may by accident."""
    mixed = np.zeros(len(numbers), np.uint64)
    for column in columns:
        mixed = (mixed ^ column) * _FACTORS[0]
        mixed ^= mixed >> np.uint64(29)
    order = np.argsort(mixed, kind="stable")
    ends = np.flatnonzero(np.diff(mixed[order], append=~mixed[order[-1:]])) + 1
    for start, end in zip([0, *ends[:-1]], ends, strict=True):
        if end - start > 1:
            yield numbers[order[start:end]].tolist()


def _overlap(left: NDArray[np.uint64], right: NDArray[np.uint64]) -> float:
    shared = len(np.intersect1d(left, right, assume_unique=True))
    return shared / (len(left) + len(right) - shared)


_SAMPLE: Final = 500
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
    text = text[:2000]
    letters = [] if text.isascii() else [c for c in text if c.isalpha()]
    scripts = Counter(unicodedata.name(c, "").partition(" ")[0] for c in letters[::3] or letters)
    script = scripts.most_common(1)[0][0] if scripts else ""
    if script in _SCRIPTS:
        return _SCRIPTS[script]
    words = _LETTERS.findall(text.casefold())
    found = Counter(name for word in words for name in _LANGUAGE_OF.get(word, ()))
    (first, number), *others = found.most_common(2) or [("", 0)]
    return first if not others or number > others[0][1] else ""


def _sample(texts: Sequence[str]) -> Sequence[str]:
    """Some texts from all over the collection."""
    return texts[:: max(1, len(texts) // _SAMPLE)]
