"""`assay schema` (Tools): Print the JSON schema of a result or of a config file."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from typing import Any, Final

import click

from assay.cli import options, output
from assay.cli.commands import Command
from assay.cli.settings import argument
from assay.core.text import did_you_mean
from assay.errors import UsageError
from assay.plugins import all_plugins, load_target

_DRAFT: Final = "https://json-schema.org/draft/2020-12/schema"


@click.command("schema", cls=Command)
@argument("what", metavar="[NAME]", required=False)
@options.output_option
def command(*, what: str | None, file: str | None) -> None:
    """Print the JSON schema of a result or of a config file.

    NAME is the `schema` of a result (assay/eval/1) or its command (eval); `bench` is the schema of
    bench.toml. Without NAME, lists all names.

    \b
    Examples:
      assay schema eval
      assay schema assay/bench/1 -o bench-result.schema.json
      assay schema bench -o bench.schema.json
    """
    if what is None:
        output.write("\n".join((*_configs(), *schema_names())), file)
        return
    configs = _configs()
    schema = load_target(configs[what]) if what in configs else result_schema(what)
    output.write(json.dumps(schema, indent=2, ensure_ascii=False), file)


def schema_names() -> list[str]:
    """Return the names of the layouts of all results."""
    return [_name(key) for key in read_schemas()["results"]]


def result_schema(name: str) -> dict[str, Any]:
    """Return the schema that a result names, with the parts it shares with others."""
    names = {_name(key): key for key in read_schemas()["results"]}
    names |= {key: key for key in read_schemas()["results"]}
    if name not in names:
        hint = did_you_mean(name, names, most=2)
        raise UsageError(f"Unknown schema {name!r}.{hint} Names: {', '.join(schema_names())}.")
    schema = read_schemas()["results"][names[name]]
    about = {
        "schema_version": {"const": output.SCHEMA_VERSION},
        "schema": {"const": _name(names[name])},
        "command": {"const": names[name].replace("-", " ")},
    }
    whole = {
        "$schema": _DRAFT,
        "$id": f"urn:{_name(names[name]).replace('/', ':')}",
        "title": schema["title"],
        "type": "object",
        "properties": {**about, **schema["properties"], "made_by": {"$ref": "#/$defs/made_by"}},
        "required": [*about, *schema["required"]],
        "additionalProperties": False,
    }
    shared = read_schemas()["$defs"]
    return {**whole, "$defs": {key: shared[key] for key in sorted(_used(whole))}}


def _name(key: str) -> str:
    return f"assay/{key}/{read_schemas()['results'][key]['version']}"


def _used(schema: Any) -> set[str]:
    """Return the shared parts that a schema names, and those that these name."""
    shared, names = read_schemas()["$defs"], set(_references(schema))
    rest = list(names)
    while rest:
        new = set(_references(shared[rest.pop()])) - names
        names |= new
        rest += new
    return names


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
def read_schemas() -> dict[str, Any]:
    """Return the schemas of the line and of all plugins, merged."""
    merged: dict[str, Any] = {"$defs": {}, "results": {}}
    places = ["assay.cli:schemas.json", *(plugin.schemas for plugin in all_plugins())]
    for place in filter(None, places):
        package, _, name = place.partition(":")
        is_file = name.endswith(".json")
        text = (files(package) / name).read_text("utf-8") if is_file else ""
        schemas = json.loads(text) if is_file else load_target(place)
        for key, part in merged.items():
            part.update(schemas.get(key, {}))
    merged["results"] = dict(sorted(merged["results"].items()))
    return merged


def _configs() -> dict[str, str]:
    """Return the import paths of the schemas of config files, by name."""
    return {name: path for plugin in all_plugins() for name, path in plugin.configs.items()}
