"""Strict JSON: no NaN, no duplicate keys, no bombs; whatever is wrong is a FormatError."""

from __future__ import annotations

import json
from typing import Any

from assay.errors import FormatError

__all__ = ["parse_json"]


def parse_json(text: str, place: str) -> Any:
    """Parse JSON text; `place` says where it stands, for messages.

    >>> parse_json('{"a": 1}', "here")
    {'a': 1}
    """
    try:
        return _DECODER.decode(text)
    except RecursionError:
        raise FormatError(f"{place}: the JSON is nested too deeply to be data.") from None
    except json.JSONDecodeError as error:
        line = f", line {error.lineno}" if "\n" in text.rstrip("\n") else ""
        raise FormatError(
            f"{place}{line}, column {error.colno}: not JSON: {error.msg}. "
            "Was it written completely?"
        ) from None
    except ValueError as error:
        raise FormatError(f"{place}: {error}") from None


def _refuse_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        key = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise ValueError(f"the key {key!r} stands twice in one JSON object. Keep one of the two.")
    return found


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON, and no score or grade. Remove or replace it.")


_DECODER = json.JSONDecoder(object_pairs_hook=_refuse_duplicates, parse_constant=_refuse_constant)
