"""Numbers that others wrote: as decimal text, or as what a parser made of it."""

from __future__ import annotations

import math
import re
from typing import Any, Final

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
    """A Python number as a float; None where it is none, or not finite, or beyond a float's range.

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
