"""Search by words: a lexical model has settings and a fingerprint, and is fitted to a collection.

    bm25        BM25 scores, summed exactly; or by the weights of the package bm25s
    tfidf       TF-IDF vectors of scikit-learn, compared by cosine
    lsa:DIM     the same, brought down to DIM dimensions by a truncated SVD

Words are found in any language. Scripts that set spaces between words give their words. Chinese,
Japanese and Korean give pairs of neighbouring characters, as Lucene's CJKAnalyzer does; Thai, Lao,
Khmer and Burmese, which set no spaces either, give triples. A run of fewer characters is one word.
Packages are imported when they are used.
"""

from __future__ import annotations

import math
import re
import unicodedata
from array import array
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import chain, groupby
from typing import Any, Final, Protocol, Self

import numpy as np

from assay.arrays import Floats, Floats32, Ints, Ints32, offsets_of
from assay.core import checks
from assay.core.text import did_you_mean
from assay.errors import InputError, ShapeError, UsageError, ValueRangeError, need
from assay.io.fingerprints import fingerprint_of, version_of
from assay.models import languages
from assay.models.languages import AUTO, find_code, find_stemmer, find_stop_words, language_of
from assay.search.engine import rank
from assay.search.engine.sparse_vectors import SparseVectors, read_sparse

# Document numbers (queries × k, −1 where no document is left) and their scores (0 there).
Best = tuple[Ints, Floats]
Splitter = Callable[[str], list[str]]

_WARM_UP: Final = ("warm up 1", "warm up 東京 2")  # words of both kinds of scripts
_BM25_METHODS: Final = ("lucene", "robertson", "atire", "bm25l", "bm25+")
_EXTRA: Final = "lexical"
_NO_WORDS: Final = "All documents consist of stop words. Change stopwords."

_TOKENIZERS: Final = ("jieba", "fugashi", "pythainlp")

_ASCII_WORDS: Final = re.compile(r"\w\w+").findall
# Blocks of Unicode whose scripts set no spaces between words, or set them between phrases.
_PAIRS: Final = (
    "\u1100-\u11ff\u3005-\u3007\u3031-\u3035\u3041-\u318f\u31a0-\u31bf\u31f0-\u31ff"
    "\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff"
    "\U0001b000-\U0001b16f\U00020000-\U0003ffff"
)
_TRIPLES: Final = "\u0e01-\u0eff\u1000-\u109f\u1780-\u17ff\ua9e0-\ua9ff\uaa60-\uaa7f"


class LexicalModel(Protocol):
    """Describe settings of a model that is fitted to a collection."""

    @property
    def spec(self) -> str:
        """Return the spec of the model."""

    @property
    def fingerprint(self) -> str:
        """Return a digest of settings and versions."""

    def fit(self, doc_texts: Sequence[str]) -> SparseFitted | DenseFitted:
        """Count the words of the documents.

        What it returns finds the k best documents of each query: score descending, then row
        ascending. A document that shares nothing with the query is not found: its place is −1.
        """

    def for_texts(self, texts: Sequence[str]) -> tuple[LexicalModel, list[str]]:
        """Return a copy whose stop words are decided for these documents, and remarks on that."""


def warm_up(model: LexicalModel) -> None:
    """Fit a copy to two texts and search: packages are imported, tables of characters made."""
    little: Any = model
    if hasattr(model, "dimensions"):
        little = replace(little, dimensions=1)
    with suppress(InputError):  # words by a pattern may be none of these; the texts will tell
        little.fit(_WARM_UP).search(_WARM_UP[:1], 1)


def checked_texts(texts: Any, what: str) -> list[str]:
    """Check texts and return them as a list; empty ones hold no words."""
    checked = checks.as_list(texts, what)
    if not checked:
        raise ShapeError(f"{what}: empty. Pass at least one text.")
    for row, text in enumerate(checked):
        if not isinstance(text, str):
            kind = type(text).__name__
            raise ValueRangeError(f"{what}: row {row} is {kind}, not text: {text!r:.60}.")
    return checked


def check_number(value: Any, name: str, *, least: float, most: float) -> float:
    """Check a setting that is a number in a range."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
        span = f"from {least:g} to {most:g}"
        raise ValueRangeError(f"{name} must be a number {span}, found {value!r}.")
    return float(value)


@dataclass(frozen=True, eq=False)
class SparseFitted:
    """Search by weights of words (documents × words); `query_rows` makes rows of queries."""

    docs: SparseVectors
    query_rows: Callable[[list[str]], SparseVectors]
    remarks: tuple[str, ...] = ()

    @property
    def n_docs(self) -> int:
        """Return the number of documents."""
        return len(self.docs)

    def among(self, rows: Ints) -> SparseFitted:
        """Return a search among some documents; their weights stay."""
        return replace(self, docs=self.docs.take(rows))

    def search(self, query_texts: Sequence[str], k: int) -> Best:
        """Find the k best documents of each query among those that share a word with it."""
        texts = checked_texts(query_texts, "The queries")
        ranking = rank(self.query_rows(texts), self.docs, checks.check_cutoff(k), metric="dot")
        ranking = ranking.select(ranking.scores != 0)  # no weight is negative: zeros end a row
        docs, scores = np.full((len(texts), k), -1, np.int64), np.zeros((len(texts), k))
        filled = np.arange(k) < ranking.lengths[:, None]
        docs[filled], scores[filled] = ranking.docs, ranking.scores
        return docs, scores


@dataclass(frozen=True, kw_only=True)
class WordSettings:
    """Set how a lexical model finds words, in lower case.

    `stopwords` are left out: those of a language ("en" is Lucene's list of 33 words, others are
    those of bm25s), a list, or None. "auto" stands for the language of the stemmer, else for that
    of the documents, and leaves nothing out where that is not clear. `stemmer` is a language, or an
    algorithm of Snowball. `pattern` (a regular expression) or `tokenizer` ("jieba", "fugashi" or
    "pythainlp", packages for Chinese, Japanese and Thai) stand in for `split_words`.
    """

    stopwords: str | Sequence[str] | None = AUTO
    stemmer: str | None = None
    pattern: str | None = None
    tokenizer: str | None = None

    def check_words(self) -> None:
        """Refuse settings before any text is read."""
        find_stop_words(self.stopwords)
        find_stemmer(self.stemmer)
        if self.pattern is not None:
            _compile(self.pattern)
        if self.tokenizer is not None and self.tokenizer not in _TOKENIZERS:
            hint = did_you_mean(str(self.tokenizer), _TOKENIZERS)
            words = f"Unknown tokenizer {self.tokenizer!r:.60}.{hint}"
            raise UsageError(f"{words} Known: {', '.join(_TOKENIZERS)}.")
        if self.pattern is not None and self.tokenizer is not None:
            raise UsageError("pattern and tokenizer exclude each other. Pass one.")

    def for_texts(self, texts: Sequence[str]) -> tuple[Self, list[str]]:
        """Return a copy whose stop words are decided for these documents, and remarks on that."""
        if self.stopwords != AUTO:
            return self, []
        language = find_code(self.stemmer) or find_code(language_of(texts))
        # Korean and Chinese give pairs of characters, and stop words are words.
        listed = language in languages.STOP_LISTS and language not in ("ko", "zh")
        code = language if listed else None
        name = languages.LANGUAGES.get(language or "", "").title()
        remark = f"{name} stop words are removed" if code else "no stop words are removed"
        remark += f", because the {'stemmer is' if self.stemmer else 'documents are'} {name}"
        return replace(self, stopwords=code), [remark] if language not in (None, "en") else []

    @property
    def words(self) -> str:
        """Return how words are found, for a signature."""
        stop, listed = self.stopwords, isinstance(self.stopwords, str) or self.stopwords is None
        stop = (stop or "none") if listed else fingerprint_of({"words": find_stop_words(stop)})[:8]
        split = self.tokenizer or self.pattern or "unicode"
        return f"stopwords={stop},stemmer={self.stemmer or 'none'},tokenizer={split}"

    def splitter(self) -> Splitter:
        """Return a function from a text to its words."""
        split: Splitter = split_words
        if self.tokenizer is not None:
            split = _words_by(self.tokenizer)
        elif self.pattern is not None:
            split = partial(_find_words, _compile(self.pattern))
        left_out = frozenset(find_stop_words(self.stopwords))
        stem = find_stemmer(self.stemmer)
        return lambda text: stem([word for word in split(text) if word not in left_out])

    @property
    def words_identity(self) -> dict[str, Any]:
        """Return what the words depend on, for a fingerprint."""
        settings = {name: getattr(self, name) for name in ("stemmer", "pattern", "tokenizer")}
        stop = AUTO if self.stopwords == AUTO else find_stop_words(self.stopwords)
        return {**settings, "stopwords": stop}


# Words of any script


def split_words(text: str) -> list[str]:
    """Split a text into words in lower case, of two or more letters or digits.

    >>> split_words("The Straße of C4, a हिन्दी word")
    ['the', 'straße', 'of', 'c4', 'हिन्दी', 'word']
    >>> split_words("東京タワーへ行く (Tokyo)")
    ['東京', '京タ', 'タワ', 'ワー', 'ーへ', 'へ行', '行く', 'tokyo']
    """
    if text.isascii():
        return _ASCII_WORDS(text.lower())
    runs, characters = _patterns()
    words: list[str] = []
    for pairs, triples, word in runs(unicodedata.normalize("NFKC", text).lower()):
        if pairs or triples:  # neighbouring characters, n at a time; what is shorter is whole
            run, n = characters(pairs or triples), 2 if pairs else 3
            last = max(len(run) - n, 0)
            words += ["".join(run[start : start + n]) for start in range(last + 1)]
        elif len(word) > 1:
            words.append(word)
    return words


@cache
def _patterns() -> tuple[Callable[[str], list[Any]], Callable[[str], list[str]]]:
    r"""Compile what finds runs of one kind of script, and a run's characters with marks.

    `\w` of the module re knows no combining marks, which are the vowels of many scripts.
    """
    marks = combining_marks()
    alone = f"(?![{_PAIRS}{_TRIPLES}])"
    runs = f"([{_PAIRS}][{_PAIRS}{marks}]*)|([{_TRIPLES}]+)|({alone}\\w(?:{alone}[\\w{marks}])*)"
    return re.compile(runs).findall, re.compile(f"(?s:.)[{marks}]*").findall


def combining_marks() -> str:
    """Return combining marks and joiners, as ranges of a character class."""
    places = chain(range(0x20000), range(0xE0000, 0xE1000))  # no other plane has any
    marks = [code for code in places if unicodedata.category(chr(code)) in ("Mn", "Mc")]
    runs = groupby(enumerate(marks), lambda at: at[1] - at[0])
    ranges = [[code for _, code in run] for _, run in runs]
    return "\u200c\u200d" + "".join(f"{chr(mark[0])}-{chr(mark[-1])}" for mark in ranges)


# Patterns, and the packages of single languages


def _compile(pattern: str) -> re.Pattern[str]:
    try:
        compiled = re.compile(pattern)
    except (re.error, TypeError) as error:
        raise UsageError(f"The pattern {pattern!r} is not a regular expression: {error}.") from None
    if compiled.groups:
        raise UsageError(f"The pattern {pattern!r} must not have groups; write (?:…) for (…).")
    return compiled


def _find_words(pattern: re.Pattern[str], text: str) -> list[str]:
    return pattern.findall(text.lower())


def _words_by(tokenizer: str) -> Splitter:
    """Return a splitter by a package; what has neither letter nor digit is no word."""
    package = need(tokenizer, f"The tokenizer {tokenizer!r}", tokenizer)
    if tokenizer == "jieba":
        package.setLogLevel("ERROR")
        cut = package.lcut
    else:
        cut = package.Tagger("-Owakati").parse if tokenizer == "fugashi" else package.word_tokenize

    def split(text: str) -> list[str]:
        plain = unicodedata.normalize("NFKC", text).lower()
        words = cut(plain).split() if tokenizer == "fugashi" else cut(plain)
        return [word for word in words if re.search(r"\w", word)]

    return split


@dataclass(frozen=True)
class Bm25(WordSettings):
    """Set BM25; k1 and b are by default those of Anserini and of BEIR's published baseline.

    The methods are those of Kamphuis et al., "Which BM25 do you mean?" (ECIR 2020), in float64.
    `delta` is used by bm25l and bm25+ only, of which only what exceeds a document without the word
    counts. Repeated query words count as often as they occur. With `engine` "bm25s" that package
    weighs the words; its weights are the same.
    """

    spec = "bm25"

    k1: float = 0.9
    b: float = 0.4
    method: str = "lucene"
    delta: float = 0.5
    engine: str = "exact"

    def __post_init__(self) -> None:
        """Check the settings before any text is read."""
        check_number(self.k1, "k1", least=0, most=1000)
        check_number(self.b, "b", least=0, most=1)
        check_number(self.delta, "delta", least=0, most=1000)
        if self.method not in _BM25_METHODS:
            raise UsageError(f"method is one of {', '.join(_BM25_METHODS)}, found {self.method!r}.")
        checks.check_choice(self.engine, ("exact", "bm25s"), "engine")
        self.check_words()

    @property
    def fingerprint(self) -> str:
        """Return a digest of the settings, and of the version of bm25s where it is used."""
        numbers = {name: float(getattr(self, name)) for name in ("k1", "b", "delta")}
        settings = {"method": self.method, **numbers, **self.words_identity}
        if self.engine == "bm25s":
            settings["bm25s"] = version_of("bm25s")
        return fingerprint_of({"model": "bm25", **settings})

    def fit(self, doc_texts: Sequence[str]) -> SparseFitted:
        """Weigh the words of these documents."""
        texts = checked_texts(doc_texts, "The documents")
        split = self.for_texts(texts)[0].splitter()
        numbers, words, lengths = _number_words(split, texts)
        if not numbers:
            raise InputError(_NO_WORDS)
        make = self._weigh if self.engine == "exact" else self._weigh_by_package
        docs = make(words, lengths, len(numbers))
        return SparseFitted(docs, partial(_query_rows, numbers, split))

    def _weigh(self, words: Ints32, lengths: Ints, n_words: int) -> SparseVectors:
        """Return the weight of every word in every document; `words` of one follow on another."""
        n_docs = len(lengths)
        cells = np.sort(np.repeat(np.arange(n_docs) * n_words, lengths) + words)
        first = np.flatnonzero(np.diff(cells, prepend=-1))
        counts = np.diff(first, append=len(cells)).astype(np.float64)
        doc, word = np.divmod(cells[first], n_words)
        offsets, word = offsets_of(np.bincount(doc, minlength=n_docs)), word.astype(np.int32)
        scale = 1 - self.b + self.b * lengths / lengths.mean()  # 1 for the mean length
        weights = self._saturate(counts, scale[doc])
        del cells, first, counts, doc  # each as large as the weights
        idf = self._idf(np.bincount(word, minlength=n_words), n_docs)
        weights *= idf[word]
        if self.method in ("bm25l", "bm25+"):
            absent = self.delta  # what documents without the word have, too
            if self.method == "bm25l" and self.delta:
                absent = (self.k1 + 1) * self.delta / (self.k1 + self.delta)
            weights -= idf[word] * absent
        return SparseVectors(offsets, word, weights, n_words)

    def _saturate(self, counts: Floats, scale: Floats) -> Floats:
        """Return what so many occurrences count in documents of so many mean lengths."""
        if self.method == "bm25l":
            counts = counts / scale
            return (self.k1 + 1) * (counts + self.delta) / (self.k1 + counts + self.delta)
        if self.method in ("lucene", "robertson"):
            return counts / (self.k1 * scale + counts)
        more = self.delta if self.method == "bm25+" else 0.0
        return (self.k1 + 1) * counts / (self.k1 * scale + counts) + more

    def _idf(self, frequencies: Ints, n_docs: int) -> Floats:
        """Return how much a word counts that occurs in so many documents."""
        formulas: dict[str, Callable[[int], float]] = {
            "lucene": lambda df: 1 + (n_docs - df + 0.5) / (df + 0.5),
            "robertson": lambda df: max(1.0, (n_docs - df + 0.5) / (df + 0.5)),
            "atire": lambda df: n_docs / df,
            "bm25l": lambda df: (n_docs + 1) / (df + 0.5),
            "bm25+": lambda df: (n_docs + 1) / df,
        }
        formula = formulas[self.method]
        distinct, place = np.unique(frequencies, return_inverse=True)
        return np.array([math.log(formula(df)) for df in distinct.tolist()])[place]

    def _weigh_by_package(self, words: Ints32, lengths: Ints, n_words: int) -> SparseVectors:
        package = need("bm25s", "The model 'bm25' with engine=bm25s", _EXTRA)
        names = ("k1", "b", "delta", "method")
        model = package.BM25(**{name: getattr(self, name) for name in names}, dtype="float64")
        rows = [row.tolist() for row in np.split(words, np.cumsum(lengths)[:-1])]
        index = model.build_index_from_ids(list(range(n_words)), rows, show_progress=False)
        word = np.repeat(np.arange(n_words, dtype=np.int32), np.diff(index["indptr"]))
        order = np.lexsort((word, index["indices"]))
        offsets = offsets_of(np.bincount(index["indices"], minlength=len(lengths)))
        return SparseVectors(offsets, word[order], index["data"][order], n_words)


def _number_words(split: Splitter, texts: list[str]) -> tuple[dict[str, int], Ints32, Ints]:
    """Assign numbers to words in alphabetical order; return them, and how many each text has."""
    seen: dict[str, int] = {}
    words, lengths = array("i"), []
    for text in texts:
        before = len(words)
        words.extend([seen.setdefault(word, len(seen)) for word in split(text)])
        lengths.append(len(words) - before)
    names = sorted(seen)
    number = np.empty(len(seen), np.int32)
    number[[seen[word] for word in names]] = np.arange(len(seen))
    numbers = {word: i for i, word in enumerate(names)}
    return numbers, number[np.frombuffer(words, np.int32)], np.array(lengths)


def _query_rows(numbers: dict[str, int], split: Splitter, texts: list[str]) -> SparseVectors:
    """Count words in queries: queries × words."""
    counts = [Counter(numbers[word] for word in split(text) if word in numbers) for text in texts]
    words = np.array([word for row in counts for word in row], np.int32)
    times = np.array([row[word] for row in counts for word in row], np.float64)
    return SparseVectors(offsets_of([*map(len, counts)]), words, times, len(numbers))


class _Weighted(WordSettings):
    """Share what TF-IDF and LSA have in common: the weights of scikit-learn."""

    spec: Any
    sublinear: Any

    def __post_init__(self) -> None:
        """Check the settings before any text is read."""
        checks.require(self.sublinear, bool, "sublinear", "True or False")
        self.check_words()

    @property
    def fingerprint(self) -> str:
        """Return a digest of the settings and the version of scikit-learn."""
        settings = {"model": self.spec.partition(":")[0], **self.__dict__, **self.words_identity}
        return fingerprint_of({**settings, "scikit-learn": version_of("scikit-learn")})

    def _fit_vectorizer(self, doc_texts: Sequence[str]) -> tuple[Any, Any]:
        """Return a vectorizer fitted to documents, and their rows, each of length 1 or zero."""
        package = need("sklearn.feature_extraction.text", f"The model {self.spec!r}", "lexical")
        texts = checked_texts(doc_texts, "The documents")
        split = self.for_texts(texts)[0].splitter()
        vectorizer = package.TfidfVectorizer(analyzer=split, sublinear_tf=self.sublinear)
        try:
            rows = vectorizer.fit_transform(texts)
        except ValueError as error:
            if "empty vocabulary" not in str(error):
                raise
            raise InputError(_NO_WORDS) from None
        return vectorizer, rows


@dataclass(frozen=True)
class TfIdf(_Weighted):
    """Set TF-IDF; with `sublinear` a word that occurs n times counts 1 + ln n."""

    spec = "tfidf"

    sublinear: bool = True

    def fit(self, doc_texts: Sequence[str]) -> SparseFitted:
        """Weigh the words of these documents."""
        vectorizer, rows = self._fit_vectorizer(doc_texts)
        return SparseFitted(
            read_sparse(rows), lambda texts: read_sparse(vectorizer.transform(texts))
        )


@dataclass(frozen=True)
class Lsa(_Weighted):
    """Set latent semantic analysis: TF-IDF vectors brought down by a truncated SVD.

    Deerwester et al., "Indexing by latent semantic analysis" (1990); scikit-learn computes it. The
    SVD is randomised under a fixed seed; its last digits depend on the machine's BLAS.
    """

    dimensions: int = 200
    sublinear: bool = True
    seed: int = 0

    def __post_init__(self) -> None:
        """Check the settings before any text is read."""
        checks.check_cutoff(self.dimensions, "The dimensions of lsa")
        check_number(self.seed, "seed", least=0, most=2**32 - 1)
        checks.require(self.seed, int, "seed", "a whole number")
        super().__post_init__()

    @property
    def spec(self) -> str:
        """Return the spec of the model."""
        return f"lsa:{self.dimensions}"

    def fit(self, doc_texts: Sequence[str]) -> DenseFitted:
        """Bring these documents into a smaller space, for queries too."""
        vectorizer, rows = self._fit_vectorizer(doc_texts)
        package = need("sklearn.decomposition", f"The model {self.spec!r}", "lexical")
        docs, words = rows.shape
        width = min(self.dimensions, docs, words)
        space = package.TruncatedSVD(width, random_state=self.seed)
        remark = f"{docs:,} documents with {words:,} different words span {width} dimensions"
        remarks = (f"{remark}, not {self.dimensions}",) if width < self.dimensions else ()
        return DenseFitted(_float32(space.fit_transform(rows)), vectorizer, space, remarks)


@dataclass(frozen=True, eq=False)
class DenseFitted:
    """Search by vectors of the documents in the reduced space."""

    doc_vectors: Floats32
    vectorizer: Any
    space: Any
    remarks: tuple[str, ...] = ()

    @property
    def n_docs(self) -> int:
        """Return the number of documents."""
        return len(self.doc_vectors)

    def query_vectors(self, query_texts: Sequence[str]) -> Floats32:
        """Bring queries into the space of documents; without known words a row is zero."""
        texts = checked_texts(query_texts, "The queries")
        return _float32(self.space.transform(self.vectorizer.transform(texts)))

    def search(self, query_texts: Sequence[str], k: int) -> Best:
        """Find the exact k best documents by cosine; rows of zeros retrieve nothing."""
        vectors, k = self.query_vectors(query_texts), checks.check_cutoff(k)
        docs = np.full((len(vectors), k), -1, np.int64)
        scores = np.zeros((len(vectors), k))
        nonzero = np.flatnonzero(vectors.any(axis=1))
        if not len(nonzero) or not self.doc_vectors.any():
            return docs, scores
        ranking = rank(vectors[nonzero], self.doc_vectors, k, zero="drop")
        for row, query in enumerate(nonzero):
            part = slice(ranking.offsets[row], ranking.offsets[row + 1])
            docs[query, : part.stop - part.start] = ranking.docs[part]
            scores[query, : part.stop - part.start] = ranking.scores[part]
        return docs, scores


def _float32(rows: Any) -> Floats32:
    return np.ascontiguousarray(rows, np.float32)
