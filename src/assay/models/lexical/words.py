"""The words of a text, whatever its language: settings that all lexical models share.

Scripts that set spaces between words give their words. Chinese, Japanese and Korean give pairs of
neighbouring characters, as Lucene's CJKAnalyzer does; Thai, Lao, Khmer and Burmese, which set no
spaces either, give triples. A run of fewer characters is one word.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain, groupby
from typing import Any, Final

from assay.core.text import did_you_mean
from assay.errors import UsageError, need

Splitter = Callable[[str], list[str]]

# Lucene's short list, https://github.com/apache/lucene (EnglishAnalyzer).
_SHORT_LIST: Final = (
    "a an and are as at be but by for if in into is it no not of on or such that the their then "
    "there these they this to was will with"
)
ENGLISH: Final = tuple(_SHORT_LIST.split())

# Languages by their ISO 639-1 code: the names that bm25s and Snowball have for them.
_LANGUAGES: Final = {
    "da": "danish",
    "de": "german",
    "en": "english",
    "es": "spanish",
    "fr": "french",
    "it": "italian",
    "ko": "korean",
    "nl": "dutch",
    "no": "norwegian",
    "pt": "portuguese",
    "ru": "russian",
    "sv": "swedish",
    "tr": "turkish",
    "zh": "chinese",
}
_TOKENIZERS: Final = ("jieba", "fugashi", "pythainlp")


@dataclass(frozen=True, kw_only=True)
class WordSettings:
    """How a lexical model finds words, in lower case.

    `stopwords` are left out: a language ("en" is Lucene's list of 33 words, others are those of
    bm25s), a list, or None. `stemmer` is a language, too, or an algorithm of Snowball. `pattern`
    (a regular expression) or `tokenizer` ("jieba", "fugashi" or "pythainlp", packages for Chinese,
    Japanese and Thai) stand in for `split_words`.
    """

    stopwords: str | Sequence[str] | None = "en"
    stemmer: str | None = None
    pattern: str | None = None
    tokenizer: str | None = None

    def check_words(self) -> None:
        """Refuse settings before any text is read."""
        _stop_words(self.stopwords)
        if self.pattern is not None:
            _compile(self.pattern)
        if self.tokenizer is not None and self.tokenizer not in _TOKENIZERS:
            raise UsageError(
                f"Unknown tokenizer {self.tokenizer!r:.60}."
                f"{did_you_mean(str(self.tokenizer), _TOKENIZERS)} "
                f"Known: {', '.join(_TOKENIZERS)}."
            )
        if self.pattern is not None and self.tokenizer is not None:
            raise UsageError("Give a pattern or a tokenizer, not both.")

    def splitter(self) -> Splitter:
        """A function from a text to its words."""
        split, left_out = self._split(), frozenset(_stop_words(self.stopwords))
        stem = _stem_words(self.stemmer)
        return lambda text: stem([word for word in split(text) if word not in left_out])

    def _split(self) -> Splitter:
        if self.tokenizer is not None:
            return _words_by(self.tokenizer)
        if self.pattern is None:
            return split_words
        find = _compile(self.pattern).findall
        return lambda text: find(text.lower())

    @property
    def words_identity(self) -> dict[str, Any]:
        """What the words depend on, for a fingerprint."""
        settings = {name: getattr(self, name) for name in ("stemmer", "pattern", "tokenizer")}
        return {**settings, "stopwords": _stop_words(self.stopwords)}


# Words of any script

_WORDS: Final = re.compile(r"\w\w+").findall
# Blocks of Unicode whose scripts set no spaces between words, or set them between phrases.
_PAIRS: Final = (
    "\u1100-\u11ff\u3005-\u3007\u3031-\u3035\u3041-\u318f\u31a0-\u31bf\u31f0-\u31ff"
    "\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff"
    "\U0001b000-\U0001b16f\U00020000-\U0003ffff"
)
_TRIPLES: Final = "\u0e01-\u0eff\u1000-\u109f\u1780-\u17ff\ua9e0-\ua9ff\uaa60-\uaa7f"


def split_words(text: str) -> list[str]:
    """The words of a text in lower case, of two or more letters or digits.

    >>> split_words("The Straße of C4, a हिन्दी word")
    ['the', 'straße', 'of', 'c4', 'हिन्दी', 'word']
    >>> split_words("東京タワーへ行く (Tokyo)")
    ['東京', '京タ', 'タワ', 'ワー', 'ーへ', 'へ行', '行く', 'tokyo']
    """
    if text.isascii():
        return _WORDS(text.lower())
    runs, characters = _patterns()
    words: list[str] = []
    for pairs, triples, word in runs(unicodedata.normalize("NFKC", text).lower()):
        if pairs or triples:
            words += _sequences(characters(pairs or triples), 2 if pairs else 3)
        elif len(word) > 1:
            words.append(word)
    return words


def _sequences(characters: list[str], n: int) -> list[str]:
    """Neighbouring characters, n at a time; what is shorter is whole."""
    last = max(len(characters) - n, 0)
    return ["".join(characters[start : start + n]) for start in range(last + 1)]


@cache
def _patterns() -> tuple[Callable[[str], list[Any]], Callable[[str], list[str]]]:
    r"""What finds runs of one kind of script, and the characters of a run with their marks.

    `\w` of the module re knows no combining marks, which are the vowels of many scripts.
    """
    marks = _marks()
    alone = f"(?![{_PAIRS}{_TRIPLES}])"
    runs = f"([{_PAIRS}][{_PAIRS}{marks}]*)|([{_TRIPLES}]+)|({alone}\\w(?:{alone}[\\w{marks}])*)"
    return re.compile(runs).findall, re.compile(f"(?s:.)[{marks}]*").findall


def _marks() -> str:
    """Combining marks and joiners, as ranges of a character class."""
    places = chain(range(0x20000), range(0xE0000, 0xE1000))  # no other plane has any
    marks = [code for code in places if unicodedata.category(chr(code)) in ("Mn", "Mc")]
    ranges = [
        [code for _, code in group]
        for _, group in groupby(enumerate(marks), lambda at: at[1] - at[0])
    ]
    return "\u200c\u200d" + "".join(f"{chr(mark[0])}-{chr(mark[-1])}" for mark in ranges)


# Stop words, stems and the packages of single languages


def _stop_words(words: Any) -> tuple[str, ...]:
    """The words that a language or a list of words stands for; none for None."""
    if words is None:
        return ()
    if isinstance(words, str):
        return _words_of_language(words)
    listed = isinstance(words, list | tuple | set | frozenset)
    if not listed or not all(isinstance(word, str) for word in words):
        raise UsageError(
            f"stopwords is a language such as 'en', None or a list of words, found {words!r:.60}."
        )
    return tuple(sorted({word.lower() for word in words}))


def _words_of_language(code: str) -> tuple[str, ...]:
    if code == "en":
        return ENGLISH
    if code not in _LANGUAGES:
        raise UsageError(
            f"stopwords is a language, None or a list of words, found {code!r}."
            f"{did_you_mean(code, tuple(_LANGUAGES))} Languages: {', '.join(_LANGUAGES)}."
        )
    lists = need("bm25s.stopwords", f"Stop words of {code!r}", "lexical")
    return tuple(sorted(getattr(lists, f"STOPWORDS_{_LANGUAGES[code].upper()}")))


def _compile(pattern: str) -> re.Pattern[str]:
    try:
        compiled = re.compile(pattern)
    except (re.error, TypeError) as error:
        raise UsageError(f"The pattern {pattern!r} is not a regular expression: {error}.") from None
    if compiled.groups:
        raise UsageError(f"The pattern {pattern!r} may not have groups; write (?:…) for (…).")
    return compiled


def _stem_words(stemmer: str | None) -> Callable[[list[str]], list[str]]:
    if stemmer is None:
        return lambda words: words
    package = need("Stemmer", "The setting stemmer", "stemmer")
    names = package.algorithms()
    name = _LANGUAGES.get(stemmer, stemmer)
    if name not in names:
        raise UsageError(
            f"Unknown stemmer {stemmer!r}.{did_you_mean(stemmer, names)} Known: {', '.join(names)}."
        )
    stem: Callable[[list[str]], list[str]] = package.Stemmer(name).stemWords
    return stem


def _words_by(tokenizer: str) -> Splitter:
    """The words that a package finds; what has neither letter nor digit is none."""
    package = need(tokenizer, f"The tokenizer {tokenizer!r}", tokenizer)
    cut = {"jieba": _jieba, "fugashi": _fugashi}.get(tokenizer, _pythainlp)(package)
    return lambda text: [
        word for word in cut(unicodedata.normalize("NFKC", text).lower()) if re.search(r"\w", word)
    ]


def _jieba(package: Any) -> Callable[[str], list[str]]:
    package.setLogLevel("ERROR")
    cut: Callable[[str], list[str]] = package.lcut
    return cut


def _fugashi(package: Any) -> Callable[[str], list[str]]:
    tagger = package.Tagger("-Owakati")
    return lambda text: tagger.parse(text).split()


def _pythainlp(package: Any) -> Callable[[str], list[str]]:
    cut: Callable[[str], list[str]] = package.word_tokenize
    return cut
