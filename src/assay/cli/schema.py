"""`assay schema`: Print the JSON schema of a result or of a config file."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final

import click

from assay.cli import options, output
from assay.cli.commands import Command
from assay.core.text import did_you_mean
from assay.errors import UsageError
from assay.tasks.bench.config import SCHEMA

__all__ = ["command", "result_schema", "schema_names"]

_DRAFT: Final = "https://json-schema.org/draft/2020-12/schema"


@click.command("schema", cls=Command)
@click.argument("what", metavar="[NAME]", required=False)
@options.output_option
def command(*, what: str | None, file: str | None) -> None:
    """Print the JSON schema of a result or of a config file.

    NAME is what a result calls its own `schema`, as assay/eval/1, or its command, as eval; and
    `bench` is the schema of a bench.toml. Without a name all names are listed.

    \b
    Examples:
      assay schema eval
      assay schema assay/bench/1 -o bench-result.schema.json
      assay schema bench -o bench.schema.json
    """
    if what is None:
        output.put("\n".join(("bench", *schema_names())), file)
        return
    schema = SCHEMA if what == "bench" else result_schema(what)
    output.put(json.dumps(schema, indent=2, ensure_ascii=False), file)


def schema_names() -> list[str]:
    """The names of the layouts of all results."""
    return [_name(key) for key in _read()["results"]]


def result_schema(name: str) -> dict[str, Any]:
    """The schema of a result that names it, whole: with the parts that it shares with others."""
    known = {_name(key): key for key in _read()["results"]}
    known |= {key: key for key in _read()["results"]}
    if name not in known:
        hint = did_you_mean(name, known, most=2)
        raise UsageError(f"There is no schema {name!r}.{hint} Names: {', '.join(schema_names())}.")
    own = _read()["results"][known[name]]
    about = {
        "schema_version": {"const": output.SCHEMA_VERSION},
        "schema": {"const": _name(known[name])},
        "command": {"const": known[name].replace("-", " ")},
    }
    whole = {
        "$schema": _DRAFT,
        "$id": f"urn:{_name(known[name]).replace('/', ':')}",
        "title": own["title"],
        "type": "object",
        "properties": {**about, **own["properties"], "made_by": {"$ref": "#/$defs/made_by"}},
        "required": [*about, *own["required"]],
        "additionalProperties": False,
    }
    shared = _read()["$defs"]
    return {**whole, "$defs": {key: shared[key] for key in sorted(_used(whole))}}


def _name(key: str) -> str:
    return f"assay/{key}/{_read()['results'][key]['version']}"


def _used(schema: Any) -> set[str]:
    """The shared parts that a schema names, and those that these name."""
    shared, found = _read()["$defs"], set(_references(schema))
    rest = list(found)
    while rest:
        new = set(_references(shared[rest.pop()])) - found
        found |= new
        rest += new
    return found


def _references(schema: Any) -> Iterator[str]:
    if isinstance(schema, dict):
        if "$ref" in schema:
            yield schema["$ref"].removeprefix("#/$defs/")
        for part in schema.values():
            yield from _references(part)
    elif isinstance(schema, list):
        for part in schema:
            yield from _references(part)


@cache
def _read() -> dict[str, Any]:
    file = Path(__file__).with_name("result_schemas.json")
    found: dict[str, Any] = json.loads(file.read_text("utf-8"))
    return found
