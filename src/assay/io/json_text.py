"""Checking plain data against a JSON schema: the few keywords that our own schemas use."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, Final

from assay.core.text import did_you_mean
from assay.errors import FormatError


def parse_json(text: str, place: str, *, constants: bool = False) -> Any:
    """Parse JSON text; `place` says where it stands, for messages.

    With `constants` NaN and Infinity, which Python's json writes and JSON does not have, are read.

    >>> parse_json('{"a": 1}', "here")
    {'a': 1}
    """
    try:
        return (_LENIENT if constants else _DECODER).decode(text)
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
    entries = dict(pairs)
    if len(entries) < len(pairs):
        seen: set[str] = set()
        key = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise ValueError(f"the key {key!r} appears twice in one JSON object. Keep one of the two.")
    return entries


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON, and no score or grade. Remove or replace it.")


def _finite(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise ValueError(f"the number {text[:40]} is beyond the range of a float.")
    return value


_DECODER = json.JSONDecoder(
    object_pairs_hook=_refuse_duplicates, parse_constant=_refuse_constant, parse_float=_finite
)
_LENIENT = json.JSONDecoder(object_pairs_hook=_refuse_duplicates)


_TYPES: Final[dict[str, tuple[type, ...]]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
}
_WORDS: Final = {"array": "a list", "object": "a table", "integer": "a whole number"}


def check_against(data: Any, schema: Mapping[str, Any], where: str) -> None:
    """Refuse data that does not fit, saying where and what was expected.

    >>> check_against({"k": 3}, {"type": "object", "properties": {"k": {"type": "integer"}}}, "x")
    """
    kind = schema.get("type")
    if kind is not None and not _is(data, kind):
        expected = _WORDS.get(kind, f"a {kind}")
        raise FormatError(f"{where}: expected {expected}, found {data!r:.60}.")
    if "enum" in schema and data not in schema["enum"]:
        raise FormatError(
            f"{where}: {data!r:.60} is none of {', '.join(schema['enum'])}."
            f"{_near(str(data), schema['enum'])}"
        )
    _check_size(data, schema, where)
    if isinstance(data, dict):
        _check_table(data, schema, where)
    if isinstance(data, list) and "items" in schema:
        for number, item in enumerate(data, 1):
            check_against(item, schema["items"], f"{where}, number {number}")


def _is(data: Any, kind: str) -> bool:
    if isinstance(data, bool) and kind != "boolean":
        return False
    return isinstance(data, _TYPES[kind])


def _check_size(data: Any, schema: Mapping[str, Any], where: str) -> None:
    if "minimum" in schema and data < schema["minimum"]:
        raise FormatError(f"{where}: {data} is below {schema['minimum']}.")
    if "exclusiveMinimum" in schema and not data > schema["exclusiveMinimum"]:
        raise FormatError(f"{where}: {data} is not above {schema['exclusiveMinimum']}.")
    for key in ("minLength", "minItems"):
        if key in schema and len(data) < schema[key]:
            few = "empty" if not data else f"{len(data)} long"
            raise FormatError(f"{where}: it is {few}; at least {schema[key]} wanted.")


def _check_table(data: dict[str, Any], schema: Mapping[str, Any], where: str) -> None:
    properties = schema.get("properties", {})
    for key, value in data.items():
        if key in properties:
            check_against(value, properties[key], f"{where}: {key}")
        elif schema.get("additionalProperties", True) is False:
            raise FormatError(
                f"{where}: there is no key {key!r}.{_near(key, properties)} "
                f"Keys: {', '.join(properties)}."
            )
    absent = [key for key in schema.get("required", ()) if key not in data]
    if absent:
        raise FormatError(f"{where}: the key {absent[0]!r} is missing.")


def _near(key: str, keys: Any) -> str:
    return did_you_mean(key, keys)
