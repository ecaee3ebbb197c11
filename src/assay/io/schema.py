"""Checking plain data against a JSON schema: the few keywords that our own schemas use."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any, Final

from assay.errors import FormatError

__all__ = ["check_against"]

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
        raise FormatError(f"{where}: {data!r:.60} is none of {', '.join(schema['enum'])}."
                          f"{_near(str(data), schema['enum'])}")  # fmt: skip
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
    known = schema.get("properties", {})
    for key, value in data.items():
        if key in known:
            check_against(value, known[key], f"{where}: {key}")
        elif schema.get("additionalProperties", True) is False:
            raise FormatError(
                f"{where}: there is no key {key!r}.{_near(key, known)} Keys: {', '.join(known)}."
            )
    absent = [key for key in schema.get("required", ()) if key not in data]
    if absent:
        raise FormatError(f"{where}: the key {absent[0]!r} is missing.")


def _near(found: str, known: Any) -> str:
    near = get_close_matches(found, list(known), n=1)
    return f" Did you mean {near[0]!r}?" if near else ""
