"""Text of any kind in a database that refuses some of it.

PostgreSQL takes no NUL and neither database takes half a surrogate pair, but names of files may
hold both. Such characters are stored as ESC and four hexadecimal digits, and so is ESC itself:
equal texts stay equal, so that they are found, and come back as they were.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from sqlalchemy import Text
from sqlalchemy.engine import Dialect
from sqlalchemy.types import TypeDecorator

__all__ = ["AnyText", "escaped", "unescaped"]

_UNSTORABLE = re.compile("[\x00\x1b\ud800-\udfff]")
_ESCAPE = re.compile("\x1b([0-9a-f]{4})")


def escaped(text: str) -> str:
    r"""The text without characters that a database refuses.

    >>> escaped("a\x00b")
    'a\x1b0000b'
    """
    return _UNSTORABLE.sub(lambda found: f"\x1b{ord(found.group()):04x}", text)


def unescaped(text: str) -> str:
    r"""The text as it was.

    >>> unescaped(escaped("a\x00\x1b\ud800"))
    'a\x00\x1b\ud800'
    """
    if "\x1b" not in text:
        return text
    return _ESCAPE.sub(lambda found: chr(int(found.group(1), 16)), text)


class AnyText(TypeDecorator[str]):
    """A column of text in which every Python string can be stored and found."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Dialect) -> Any:
        """On the way in."""
        return escaped(value) if isinstance(value, str) else value

    def result_processor(self, dialect: Dialect, coltype: object) -> Callable[[Any], Any]:
        """On the way out: one call for each cell, because a list of runs has a hundred thousand."""
        return _read


def _read(value: Any) -> Any:
    return value if value is None or "\x1b" not in value else unescaped(value)
