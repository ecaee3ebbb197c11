"""Settings: what made a number beyond the conventions, such as the metric of a search.

They are texts by name, travel with a ranking to its hits and scores, and stand in the signature
as `key:value` parts after the conventions.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any, Final
from urllib.parse import quote

import numpy as np

from assay.core.ids import Ids

Settings = Mapping[str, str]

_LONGEST: Final = 120
_DIGITS: Final = 8


def as_settings(**values: Any) -> dict[str, str]:
    """Return settings as texts; None and False, which change nothing, are left out.

    >>> as_settings(metric="dot", zero=None, keep_ties=True, weights=(1.0, 0.5))
    {'metric': 'dot', 'keep_ties': 'yes', 'weights': '1,0.5'}
    """
    return {key: _text(value) for key, value in values.items() if not _is_nothing(value)}


def _is_nothing(value: Any) -> bool:
    return value is None or value is False or (isinstance(value, (tuple, list)) and not value)


def _text(value: Any) -> str:
    if value is True:
        return "yes"
    if isinstance(value, (str, int)):  # soon: to ask for a Mapping takes longer
        return str(value)
    if isinstance(value, float):
        return repr(value).removesuffix(".0")
    if isinstance(value, Mapping):
        return ",".join(f"{key}={_text(value[key])}" for key in sorted(value))
    if isinstance(value, tuple | list):
        return ",".join(map(_text, value))
    return str(value)


def setting_parts(settings: Settings) -> list[str]:
    """Each setting as `key:value`, safe to stand between bars; a long value ends in its digest.

    >>> setting_parts({"model": "a|b", "metric": "dot"})
    ['model:a%7Cb', 'metric:dot']
    """
    return [f"{key}:{_escape(value)}" for key, value in settings.items()]


def _escape(value: str) -> str:
    """Without white space, bars, or anything that does not print; `%` begins an escape."""
    safe = "".join(
        character
        if character.isprintable() and character not in "%| "
        else quote(character, "", errors="surrogatepass")
        for character in value[: _LONGEST + 1]
    )
    if len(value) <= _LONGEST:
        return safe
    return f"{safe}…{_digest(value.encode('utf-8', 'surrogatepass'))}"


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:_DIGITS]


def join_settings(systems: Iterable[Settings]) -> dict[str, str]:
    """Return the settings of several systems in one: where they differ, each system's in turn.

    >>> join_settings([{"metric": "dot", "k": "5"}, {"metric": "dot", "k": "9"}])
    {'metric': 'dot', 'k': '5;9'}
    """
    records = list(systems)
    keys = dict.fromkeys(key for record in records for key in record)
    values = {key: [record.get(key, "-") for record in records] for key in keys}
    return {key: ";".join(all_ if len(set(all_)) > 1 else all_[:1]) for key, all_ in values.items()}


def query_digest(ids: Ids) -> str:
    """Return how many queries there are, and a digest of their ids, in any order, text or numbers.

    Rows that are only numbered are resampled in the order of numbers, not of ids, which it says.

    >>> query_digest(Ids.of(["1", "2"])) == query_digest(Ids.of([2, 1]))
    True
    """
    texts = ids if ids.kind == "text" else Ids.of([str(id) for id in ids.to_list()], "query")
    blob, offsets = texts.take(texts.order()).utf8
    digest = _digest(offsets.astype("<i8").tobytes() + blob.tobytes())
    return f"{len(ids)}-{digest}{'-numbered' if ids.numbered else ''}"


def pair_digest(pairs: Any) -> str:
    """How many different pairs of ids or numbers there are, and a digest of them, in any order.

    >>> pair_digest([(0, 7), (0, 5)]) == pair_digest(np.array([[0, 5], [0, 7], [0, 7]]))
    True
    """
    different = np.unique(np.asarray(pairs).reshape(-1, 2), axis=0)
    lines = "\n".join(f"{left}\t{right}" for left, right in different.tolist())
    return f"{len(different)}-{_digest(lines.encode('utf-8', 'surrogatepass'))}"
