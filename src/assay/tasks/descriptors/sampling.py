"""Names of scenes and keypoints inside ids and keys: a folder may be called anything."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from typing import Final
from urllib.parse import quote

import numpy as np
from numpy.typing import NDArray

from assay.native.random_words import words
from assay.stats.samples import check_seed

__all__ = ["as_id", "as_ids", "as_key", "choose_names", "choose_rows", "draw"]

_NOT_IN_ID: Final = re.compile(r"[%\s\0]")
_NOT_IN_KEY: Final = re.compile(r"[%\s\0=;]")


def as_id(name: str) -> str:
    """The name without white space, which ids cannot hold; different names stay different.

    >>> as_id("my scene"), as_id("v_wall")
    ('my%20scene', 'v_wall')
    """
    return _NOT_IN_ID.sub(_escape, name)


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
    return _NOT_IN_KEY.sub(_escape, name)


def _escape(found: re.Match[str]) -> str:
    return quote(found.group(), safe="")


def draw(seed: int, name: str, count: int) -> NDArray[np.uint64]:
    """`count` random words for this seed and name.

    >>> draw(0, "a", 2).tolist() == draw(0, "a", 3).tolist()[:2]
    True
    """
    digest = hashlib.sha256(f"{check_seed(seed)}\0{name}".encode()).digest()
    return np.asarray(words(int.from_bytes(digest[:8], "big"), 0, count), np.uint64)


def choose_rows(seed: int, name: str, n: int, k: int) -> NDArray[np.int64]:
    """k of n rows without repeats, rising; all of them if there are no more."""
    return np.sort(np.argsort(draw(seed, name, n), kind="stable")[:k]).astype(np.int64)


def choose_names(seed: int, name: str, names: Sequence[str], k: int) -> list[str]:
    """k of the names; which ones depends on the set of names, not on their order."""
    known = sorted(names)
    return [known[row] for row in choose_rows(seed, name, len(known), k)]
