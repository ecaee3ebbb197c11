"""Names of scenes and keypoints inside ids and keys: a folder may be called anything."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final
from urllib.parse import quote

__all__ = ["as_id", "as_ids", "as_key"]

_NOT_IN_ID: Final = re.compile(r"[%\s\0]")
_NOT_IN_KEY: Final = re.compile(r"[%\s\0=;]")


def as_id(name: str) -> str:
    """The name without white space, which ids cannot hold; different names stay different.

    >>> as_id("my scene"), as_id("v_wall")
    ('my%20scene', 'v_wall')
    """
    return _NOT_IN_ID.sub(_written_out, name)


def as_ids(start: str, names: Sequence[str]) -> list[str]:
    """Ids of many names that share a start.

    >>> as_ids("v_wall/", ["1", "2 b"])
    ['v_wall/1', 'v_wall/2%20b']
    """
    head = as_id(start)
    if _NOT_IN_ID.search("".join(names)) is None:
        return [head + name for name in names]
    return [head + as_id(name) for name in names]


def as_key(name: str) -> str:
    """The name without what would end a key of `key=value;`.

    >>> as_key("a=b")
    'a%3Db'
    """
    return _NOT_IN_KEY.sub(_written_out, name)


def _written_out(found: re.Match[str]) -> str:
    return quote(found.group(), safe="")
