"""Text and numbers: safe to print, rounded, in order, masked, nearest; and read from text."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

# C0 and C1 controls, line separators, the marks that reverse the direction of text, and halves of
# a character, which no file can hold.
_CONTROLS: Final = re.compile(
    "[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
# A spreadsheet takes a cell that begins like this for a formula.
_FORMULA: Final = re.compile(r"'*[=+\-@\t\r]")


def printable(text: object) -> str:
    r"""Return the text with control characters written out.

    >>> print(printable("\x1b[31mred"))
    \x1b[31mred
    """
    return _CONTROLS.sub(lambda match: repr(match.group())[1:-1], str(text))


def signed(value: float) -> str:
    """Return four decimals and a sign; no sign where nothing is left of the number.

    >>> signed(0.0312), signed(-0.00001)
    ('+0.0312', '0.0000')
    """
    text = f"{value:+.4f}"
    return text if text.strip("+-0.") else text[1:]


def fixed(value: float, *, sign: bool = False) -> str:
    """Format an interval bound; never "-0.0000".

    >>> fixed(0.0312), fixed(-0.0312, sign=True), fixed(0.00002), fixed(-0.0)
    ('0.0312', '-0.0312', '2.0e-05', '0.0000')
    """
    text = f"{value:+.4f}" if sign else f"{value:.4f}"
    if text.strip("+-0."):
        return text
    return f"{value:+.1e}" if sign and value else f"{value:.1e}" if value else "0.0000"


def describe_p(p: float) -> str:
    """Format p: `p = 0.0123`, `p < 0.0001`, or `no p`."""
    if math.isnan(p):
        return "no p"
    return "p < 0.0001" if p < 0.0001 else f"p = {p:.4f}"


def spoken(text: str) -> str:
    """Write the minus signs of numbers as sentences do; tables keep the ASCII one.

    >>> spoken("-0.02, [-0.0300, +0.0100], p = 1.0e-05, run-2")
    '−0.02, [−0.0300, +0.0100], p = 1.0e-05, run-2'
    """
    return re.sub(r"(?<![\w.)-])-(?=\d)", "−", text)


def bracket(low: float | None, high: float | None, *, sign: bool = False) -> str | None:
    """Return the ends of an interval as `[0.1234, 0.5678]`; None where there are none.

    >>> bracket(0.25, 0.75), bracket(None, None)
    ('[0.2500, 0.7500]', None)
    """
    if low is None or high is None or math.isnan(low):
        return None
    return f"[{fixed(low, sign=sign)}, {fixed(high, sign=sign)}]"


def interval_heading(level: float) -> str:
    """Return the heading of a column of intervals of this confidence level.

    >>> interval_heading(0.95)
    '95 % CI'
    """
    return f"{100 * level:g} % CI"


def rounded_up(value: float) -> str:
    """Return at least three digits, never less than the number.

    >>> rounded_up(0.058155), rounded_up(0.05), rounded_up(12345.6)
    ('0.0582', '0.05', '12346')
    """
    if not value > 0 or not math.isfinite(value):
        return f"{value:g}"
    digits = max(2 - math.floor(math.log10(value)), 0)
    text = f"{value:.{digits}f}"
    if float(text) < value:
        text = f"{float(text) + 10.0**-digits:.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def format_percent(share: float) -> str:
    """Return whole percent: 0 % of nothing only, 100 % of all only.

    >>> format_percent(0.176), format_percent(0.0003), format_percent(0.9999), format_percent(0.0)
    ('18 %', '<1 %', '>99 %', '0 %')
    """
    return "<1 %" if 0 < share < 0.01 else ">99 %" if 0.99 < share < 1 else f"{100 * share:.0f} %"


def format_share(number: int, total: int, what: str) -> str:
    """Return how many of something, in percent where that says it.

    >>> format_share(9, 50, "queries"), format_share(3, 10_000, "queries")
    ('18 % of queries', '3 of 10,000 queries')
    """
    percent = format_percent(number / total)
    return f"{percent} of {what}" if percent[0].isdigit() else f"{number:,} of {total:,} {what}"


def format_rate(rate: float | None) -> str | None:
    """Return texts in a second, for people.

    >>> format_rate(12345.6), format_rate(3.21)
    ('12,346', '3.2')
    """
    if rate is None:
        return None
    return f"{rate:,.0f}" if rate >= 100 else f"{rate:.1f}"


def format_bytes(number: int | None) -> str | None:
    """Return bytes, for people.

    >>> format_bytes(5_310_000), format_bytes(900)
    ('5.3 MB', '0.9 kB')
    """
    if number is None:
        return None
    for unit, size in (("GB", 1e9), ("MB", 1e6)):
        if number >= size:
            return f"{number / size:,.1f} {unit}"
    return f"{number / 1e3:,.1f} kB"


def format_time(seconds: float) -> str:
    """Return a short time, for people.

    >>> format_time(0.00123), format_time(2.5), format_time(0.000004)
    ('1.2 ms', '2.5 s', '4 µs')
    """
    if seconds >= 1:
        return f"{seconds:.1f} s"
    return f"{1e3 * seconds:.1f} ms" if seconds >= 1e-4 else f"{1e6 * seconds:.0f} µs"


# The query of an address, which signs it; but not that of a spec (rerank:URL?model=NAME) or of a
# database, nor the sign of a pattern (s3://bucket/part-?.npy).
_QUERY: Final = r"""((?<![\w+.-])(?<![^:]:)(?:https?://[^\s"'<>?]*\?
    |(?!postgres)[a-z][a-z0-9+.-]*://[^\s"'<>?]*\?(?=[^\s"'<>]*=)))[^\s"'<>]+"""
# A password in an address, or the user where it has no password; what follows the name of a secret,
# in a query, a header or JSON; and what looks like a key, wherever it stands.
_SECRET: Final = r"""(?P<user>(?<=://)[^:/?\#@]*:).*(?=@)
    |(?:(?<=http://)|(?<=https://))[^\s:/?\#@]+(?=@)
    |(?P<name>\b(?:proxy-)?authorization|\b(?:[\w-]*[-_])?(?:api[\s_-]*key|pass(?:word|wd)|secret|token))
     (?P<sign>["']?\s*[:=]\s*["']?)(?:(?:bearer|basic|token)\s+)?[^\s"'&,;)}\]]+
    |(?P<bearer>\bbearer\s+)[^\s"'&,;)}\]]+
    |\bsk-[a-z0-9_-]{12,}"""
_SHORT: Final = 8  # characters of a key that are looked for as they are


def mask_secrets(text: str, key: str = "") -> str:
    """Return the text without passwords and keys, in whatever case and spacing; `key` is one more.

    >>> mask_secrets("pgvector:postgresql://me:secret@host/db")
    'pgvector:postgresql://me:***@host/db'
    >>> mask_secrets("AUTHORIZATION:  bearer   abc; X-Api-Key=def")
    'AUTHORIZATION:  ***; X-Api-Key=***'
    >>> mask_secrets("https://host/a.npy?X-Amz-Signature=0a1b")
    'https://host/a.npy?***'
    """
    if key:
        spaced = r"\s*".join(map(re.escape, key)) if len(key) >= _SHORT else re.escape(key)
        text = re.sub(spaced, "***", text, flags=re.IGNORECASE)
    flags = re.IGNORECASE | re.DOTALL | re.VERBOSE
    text = re.sub(_QUERY, r"\1***", text, flags=flags)
    masked = r"\g<user>\g<name>\g<sign>\g<bearer>***"
    return re.sub(_SECRET, masked, text, flags=flags)  # compiled when it is first needed


def guard_formula(text: str) -> str:
    """Put an apostrophe before a text that a spreadsheet would take for a formula.

    >>> guard_formula("=1+1"), guard_formula("'=1"), guard_formula("'tis")
    ("'=1+1", "''=1", "'tis")
    """
    return f"'{text}" if _FORMULA.match(text) else text


def unguard_formula(text: str) -> str:
    """Return the text as it was before `guard_formula`."""
    return text[1:] if text.startswith("'") and _FORMULA.match(text) else text


def natural_order(name: str) -> tuple[list[tuple[int, str]], str]:
    """Return a key to sort by: numbers in a name compare as numbers, however long.

    >>> sorted(["part-10", "part-9"], key=natural_order)
    ['part-9', 'part-10']
    """
    parts = re.split(r"([0-9]+)", name)
    parts[1::2] = [part.lstrip("0") for part in parts[1::2]]
    return [(len(part) if at % 2 else -1, part) for at, part in enumerate(parts)], name


def did_you_mean(
    name: object,
    names: Iterable[str],
    *,
    most: int = 1,
    cutoff: float = 0.6,
    fallback: int = 0,
    forms: Mapping[str, str] | None = None,
) -> str:
    """Return a sentence with the nearest known names; empty if none is near.

    `forms` says how a name is written, where that is not the name itself; `fallback` is how many of
    the known names are shown where none is near.

    >>> did_you_mean("metrc", ["metric", "depth"])
    ' Did you mean metric?'
    """
    names = list(names)
    from difflib import get_close_matches  # only for messages

    near = get_close_matches(str(name), names, n=most, cutoff=cutoff) or names[:fallback]
    suggestions = dict.fromkeys(
        forms.get(spelling, spelling) if forms else spelling for spelling in near
    )
    return f" Did you mean {' or '.join(suggestions)}?" if suggestions else ""


class Remark(str):
    """A sentence for readers; `short` says it in a few words where one line is for all remarks.

    `many` says it of several, `{}` being their number; `n` is how many this remark counts for,
    0 for information, which is no warning and has no place in that line.

    >>> Remark("3 queries judged but not in the run: a, b, c", "3 judged queries missing").short
    '3 judged queries missing'
    """

    short: str
    many: str
    n: int

    def __new__(cls, text: str, short: str = "", many: str = "", n: int = 1) -> Remark:
        """Take the sentence, its few words, and those for several."""
        remark = super().__new__(cls, text)
        remark.short, remark.many, remark.n = short, many, n
        return remark

    def about(self, name: str) -> Remark:
        """Return the remark on one system."""
        return Remark(f"{name}: {self}", self.short, self.many, self.n)


def remark_about(name: str, remark: str) -> Remark:
    """Return a remark on one system, its few words without the name."""
    whole = remark if isinstance(remark, Remark) else Remark(remark, short_remark(remark))
    return whole.about(name)


def shorten_remarks(remarks: Iterable[str]) -> list[str]:
    """Return remarks in a few words each, those of one kind as one.

    >>> shorten_remarks([Remark(f"{x}: tied", "tied", "tied scores in {} runs") for x in "ab"])
    ['tied scores in 2 runs']
    """
    kinds: dict[str, list[str]] = {}
    for remark in remarks:
        kinds.setdefault(getattr(remark, "many", "") or short_remark(remark), []).append(remark)
    words = []
    for kind, members in kinds.items():
        number = sum(getattr(remark, "n", 1) for remark in members)
        # Other words than `many` may hold names of the user, and so braces.
        if number > 1 and getattr(members[0], "many", ""):
            words.append(kind.format(number))
        else:
            short = short_remark(members[0])
            words.append(f"{short} ({len(members)}×)" if len(members) > 1 else short)
    return words


_CLAUSE: Final = re.compile(r"^(.{12,60}?)(: |; | \(|, |\. |\.?$)")


def short_remark(remark: str) -> str:
    """Return a remark in a few words: its own short form, or its first clause.

    >>> short_remark("20 documents in 10 groups of equal words: a = b. They take places.")
    '20 documents in 10 groups of equal words'
    """
    short = getattr(remark, "short", "")
    if short:
        return str(short)
    clause = _CLAUSE.match(remark)
    return clause[1] if clause else remark[:58].rsplit(" ", 1)[0] + " …"


# Numbers that others wrote: as decimal text, or as what a parser made of it


LARGEST_WHOLE: Final = 10**15  # float64 holds every whole number up to here
_WHOLE: Final = re.compile(r"[+-]?0*([0-9]{1,16})")
_NUMBER: Final = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


def parse_whole(text: str) -> int | None:
    """Return a whole number of at most 10^15 on either side of 0; None for anything else.

    Python's own int() also takes '1_000' and digits of other scripts, and fails on 5,000 of them.

    >>> parse_whole("-12"), parse_whole("1_0"), parse_whole("9" * 5000)
    (-12, None, None)
    """
    match = _WHOLE.fullmatch(text)
    if match is None or int(match[1]) > LARGEST_WHOLE:
        return None
    return -int(match[1]) if text.startswith("-") else int(match[1])


def parse_number(text: str) -> float | None:
    """Return a decimal number that a float can hold; None for anything else.

    >>> parse_number("-0.5e3"), parse_number("1_0"), parse_number("1e999"), parse_number("nan")
    (-500.0, None, None, None)
    """
    return finite_or_none(float(text)) if is_decimal(text) else None


def is_decimal(text: str) -> bool:
    """Tell whether the text is written as a decimal number, of whatever size."""
    return _NUMBER.fullmatch(text) is not None


def finite_or_none(value: Any) -> float | None:
    """Return a Python number as a float; None if it is not a finite number.

    >>> finite_or_none(3), finite_or_none(10**400), finite_or_none(True), finite_or_none("3")
    (3.0, None, None, None)
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None
