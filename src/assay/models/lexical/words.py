"""Texts into words: lower case, a pattern, stop words taken out, an optional stemmer."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Final

from assay.errors import UsageError, need

__all__ = ["ENGLISH", "PATTERN", "Splitter", "splitter", "stop_words"]

PATTERN: Final = r"(?u)\b\w\w+\b"  # words of two or more letters or digits

# Lucene's short list, https://github.com/apache/lucene (EnglishAnalyzer).
_SHORT_LIST: Final = (
    "a an and are as at be but by for if in into is it no not of on or such that the their then "
    "there these they this to was will with"
)
ENGLISH: Final = tuple(_SHORT_LIST.split())

Splitter = Callable[[str], list[str]]


def stop_words(given: Any) -> tuple[str, ...]:
    """The words that "en" or a list of words stands for; none for None."""
    if given is None:
        return ()
    if isinstance(given, str):
        if given != "en":
            raise UsageError(f"stopwords is 'en', None or a list of words, found {given!r}.")
        return ENGLISH
    listed = isinstance(given, list | tuple | set | frozenset)
    if not listed or not all(isinstance(word, str) for word in given):
        raise UsageError(f"stopwords is 'en', None or a list of words, found {given!r:.60}.")
    return tuple(sorted({word.lower() for word in given}))


def splitter(pattern: str, stopwords: Sequence[str], stemmer: str | None) -> Splitter:
    """A function from a text to its words."""
    find, left_out, stem = _compiled(pattern).findall, frozenset(stopwords), _stem_words(stemmer)
    return lambda text: stem([word for word in find(text.lower()) if word not in left_out])


def _compiled(pattern: str) -> re.Pattern[str]:
    try:
        found = re.compile(pattern)
    except (re.error, TypeError) as error:
        raise UsageError(f"The pattern {pattern!r} is no regular expression: {error}.") from None
    if found.groups:
        raise UsageError(f"The pattern {pattern!r} may hold no groups; write (?:…) for (…).")
    return found


def _stem_words(stemmer: str | None) -> Callable[[list[str]], list[str]]:
    if stemmer is None:
        return lambda words: words
    package = need("Stemmer", "The setting stemmer", "stemmer")
    known = package.algorithms()
    if stemmer not in known:
        raise UsageError(f"There is no stemmer {stemmer!r}. Known: {', '.join(known)}.")
    stem: Callable[[list[str]], list[str]] = package.Stemmer(stemmer).stemWords
    return stem
