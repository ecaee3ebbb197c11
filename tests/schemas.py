"""Results of commands checked against the schemas that the package ships."""

from __future__ import annotations

import json
from functools import cache
from importlib.util import find_spec
from typing import Any

from assay.cli.schema import result_schema

__all__ = ["check_printed", "flaws"]


@cache
def _validator(name: str) -> Any:
    from jsonschema import Draft202012Validator

    schema = result_schema(name)
    return Draft202012Validator(_inlined(schema, schema["$defs"]))


def _inlined(schema: Any, shared: dict[str, Any], *within: str) -> Any:
    """The same schema without references, which take most of the time, except to what is around."""
    if isinstance(schema, list):
        return [_inlined(one, shared, *within) for one in schema]
    if not isinstance(schema, dict):
        return schema
    name = str(schema.get("$ref", "")).removeprefix("#/$defs/")
    if schema.keys() == {"$ref"} and name not in within:
        return _inlined(shared[name], shared, *within, name)
    return {key: _inlined(one, shared, *within) for key, one in schema.items()}


def flaws(result: dict[str, Any]) -> list[str]:
    """What of a result is not as its schema says."""
    found = _validator(result["schema"]).iter_errors(result)
    return [f"{one.json_path}: {one.message[:300]}" for one in found]


def check_printed(text: str) -> None:
    """Refuse a printed result that is not as its schema says; other texts pass."""
    if '"schema": "assay/' not in text[:200] or find_spec("jsonschema") is None:
        return
    try:
        result = json.loads(text)
    except ValueError:
        return  # something follows it, or it was cut off
    wrong = flaws(result)
    assert not wrong, f"{result['schema']}: {wrong[:5]}"
