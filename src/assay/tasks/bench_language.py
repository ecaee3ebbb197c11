"""In which language and case texts are written, roughly: enough to see that two do not match."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from typing import Final

__all__ = ["case_of", "language_of"]

_SAMPLE: Final = 500
_MOST: Final = 0.8
_WORD: Final = re.compile(r"[^\W\d_]+")
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
    "CJK": "Chinese or Japanese", "HIRAGANA": "Japanese", "KATAKANA": "Japanese",
    "HANGUL": "Korean", "CYRILLIC": "Cyrillic script", "ARABIC": "Arabic script",
    "GREEK": "Greek", "HEBREW": "Hebrew", "DEVANAGARI": "Devanagari script", "THAI": "Thai",
}  # fmt: skip


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
    words = _WORD.findall(text[:2000].casefold())
    found = Counter(name for word in words for name in _LANGUAGE_OF.get(word, ()))
    (first, number), *others = found.most_common(2) or [("", 0)]
    return first if not others or number > others[0][1] else ""


def case_of(texts: Sequence[str]) -> str:
    """Whether most of the texts are all in small letters, or all in capitals, or mixed.

    >>> case_of(["ALL OF IT", "MORE"]), case_of(["all of it"]), case_of(["Both of it"])
    ('capitals', 'small letters', 'mixed case')
    """
    votes = Counter(_case(text) for text in _sample(texts) if any(map(str.isalpha, text)))
    if not votes:
        return ""
    name, number = votes.most_common(1)[0]
    return name if number >= _MOST * votes.total() else ""


def _case(text: str) -> str:
    if text.upper() == text.lower():
        return ""  # a script without case
    if text == text.lower():
        return "small letters"
    return "capitals" if text == text.upper() else "mixed case"


def _sample(texts: Sequence[str]) -> Sequence[str]:
    """Some texts from all over the collection."""
    return texts[:: max(1, len(texts) // _SAMPLE)]
