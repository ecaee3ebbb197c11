"""Languages: which one texts are written in, its stop words, and what brings words to stems."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Final

from assay.core.text import did_you_mean
from assay.errors import UsageError, need

AUTO: Final = "auto"
# Names of languages by ISO 639-1 code, as Snowball and bm25s write them.
_CODES: Final = (
    "ar=arabic ca=catalan cs=czech da=danish de=german el=greek en=english eo=esperanto es=spanish "
    "et=estonian eu=basque fa=persian fi=finnish fr=french ga=irish hi=hindi hu=hungarian "
    "hy=armenian id=indonesian it=italian ko=korean lt=lithuanian ne=nepali nl=dutch no=norwegian "
    "pl=polish pt=portuguese ro=romanian ru=russian sr=serbian st=sesotho sv=swedish ta=tamil "
    "tr=turkish yi=yiddish zh=chinese"
)
LANGUAGES: Final = dict(pair.split("=") for pair in _CODES.split())
_LISTED: Final = "da de en es fr it ko nl no pt ru sv tr zh"  # by bm25s
STOP_LISTS: Final = tuple(_LISTED.split())
# Lucene's short list, https://github.com/apache/lucene (EnglishAnalyzer).
_SHORT_LIST: Final = (
    "a an and are as at be but by for if in into is it no not of on or such that the their then "
    "there these they this to was will with"
)
ENGLISH: Final = tuple(_SHORT_LIST.split())


def find_code(language: str | None) -> str | None:
    """Return the code of a language that is written as code or name; None for anything else.

    >>> find_code("German"), find_code("de"), find_code("porter"), find_code("")
    ('de', 'de', None, None)
    """
    plain = (language or "").lower()
    codes = [code for code, name in LANGUAGES.items() if plain in (code, name)]
    return codes[0] if codes else None


def find_stop_words(words: Any) -> tuple[str, ...]:
    """Return the words that a language or a list of words stands for; none for None and auto."""
    if words is None or (isinstance(words, str) and words == AUTO):
        return ()
    code = find_code(words) if isinstance(words, str) else None
    if code == "en":
        return ENGLISH
    if code in STOP_LISTS:
        lists = need("bm25s.stopwords", f"Stop words of {words!r}", "lexical")
        return tuple(sorted(getattr(lists, f"STOPWORDS_{LANGUAGES[code].upper()}")))
    listed = isinstance(words, list | tuple | set | frozenset)
    if not listed or not all(isinstance(word, str) for word in words):
        languages = ", ".join(f"{name} ({LANGUAGES[name]})" for name in STOP_LISTS)
        raise UsageError(
            f"Unknown stopwords {words!r:.60}. Pass 'auto', a language, None or a "
            f"list.{did_you_mean(str(words), STOP_LISTS)} Languages: {languages}."
        )
    return tuple(sorted({word.lower() for word in words}))


def find_stemmer(stemmer: Any) -> Callable[[list[str]], list[str]]:
    """Return what brings words to their stems, by a language or an algorithm of Snowball."""
    if stemmer is None:
        return lambda words: words
    package = need("Stemmer", "The setting stemmer", "stemmer")
    names = package.algorithms()
    name = LANGUAGES.get(find_code(stemmer) or "", stemmer) if isinstance(stemmer, str) else ""
    if name not in names:
        codes = [f"{name} ({code})" for code, name in LANGUAGES.items() if name in names]
        others = [name for name in names if name not in LANGUAGES.values()]
        raise UsageError(
            f"Unknown stemmer {stemmer!r:.60}.{did_you_mean(str(stemmer), names)} Known: "
            f"{', '.join(sorted([*codes, *others]))}."
        )
    stem: Callable[[list[str]], list[str]] = package.Stemmer(name).stemWords
    return stem


_SAMPLE: Final = 500
_MOST: Final = 0.8
_LETTERS: Final = re.compile(r"[^\W\d_]+")
# Frequent short words. A word that is frequent in several of these languages stands in each of
# them, or in none.
_FREQUENT: Final = {
    "English": "the of and is with that for from are this which was by what how",
    "German": "der und das ist nicht mit von für auf dem ein eine wie zu werden",
    "French": "les des est une dans que pour avec qui sur du au cette sont et",
    "Spanish": "el los las una que por con para del como se más está son y",
    "Italian": "il che di per una con sono della nel gli è alla dei come non",
    "Portuguese": "os não uma com para dos da em são ao pelo mais como foi às",
    "Dutch": "het een van niet met voor zijn aan ook bij naar wordt dat deze op",
    "Danish": "og er det til ikke som med af på har jeg blev eller hvor også",
    "Norwegian": "og er det til ikke som med av på har jeg ble eller hvor også",
    "Swedish": "och är det till inte som med av på har jag blev eller var också",
    "Turkish": "ve bir bu için ile olarak daha olan gibi kadar çok her değil ya",
    "Finnish": "ja ei että oli hän mutta kun kuin ovat tai joka myös sekä ole",
    "Polish": "nie na się jest że jak dla przez oraz są lub tym jego który",
    "Czech": "se je že jako pro ale které jsou nebo jeho který není aby při",
    "Hungarian": "az és nem hogy egy meg van ez volt csak már vagy mint ki",
    "Romanian": "și în nu este care din pentru mai ale sunt că prin fi sau",
    "Catalan": "els les amb per que una del és als dels més però com aquest",
    "Indonesian": "yang dan dengan untuk dari ini tidak pada dalam itu akan adalah",
    "Russian": "и в не на что с по это как для от он или",
    "Ukrainian": "і в не на що з це як для від до та або",
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
    """Return the language, or the script, that most of the texts are written in; empty if none is.

    >>> language_of(["how is the weather", "what is that for"])
    'English'
    """
    some = texts[:: max(1, len(texts) // _SAMPLE)]  # from all over the collection
    votes = Counter(map(_vote, some))
    del votes[""]
    if not votes:
        return ""
    name, number = votes.most_common(1)[0]
    return name if number >= _MOST * votes.total() else ""


@cache
def _languages_by_word() -> dict[str, list[str]]:
    lists = {name: words.split() for name, words in _FREQUENT.items()}
    every = {word for words in lists.values() for word in words}
    return {word: [name for name in lists if word in lists[name]] for word in every}


def _vote(text: str) -> str:
    text = text[:2000]
    letters = [] if text.isascii() else [c for c in text if c.isalpha()]
    scripts = Counter(unicodedata.name(c, "").partition(" ")[0] for c in letters[::3] or letters)
    script = _SCRIPTS.get(scripts.most_common(1)[0][0], "") if scripts else ""
    if script and script != "Cyrillic script":
        return script
    by_word, words = _languages_by_word(), _LETTERS.findall(text.casefold())
    languages = Counter(name for word in words for name in by_word.get(word, ()))
    (first, number), *rest = languages.most_common(2) or [("", 0)]
    return first if first and (not rest or number > rest[0][1]) else script
