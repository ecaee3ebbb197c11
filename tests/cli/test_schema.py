"""Schemas of results: one for each command with --json, and a new version for each change."""

from __future__ import annotations

import copy
import hashlib
import json
import re
from pathlib import Path
from typing import Any

import click
import pytest

from assay.cli.schema import read_schemas, result_schema, schema_names
from tests.cli.every_command import COMMANDS
from tests.schemas import check_printed, flaws

jsonschema = pytest.importorskip("jsonschema")

# What was released under each name: a changed schema needs another number, in schemas.json
# and in `_LAYOUTS` of cli/output.py, and a line here. Lines stay, so that no number is used twice.
RELEASED = json.loads(Path(__file__).with_name("schema_digests.json").read_text("utf-8"))
# Commands that print under the name of another.
SHARED = dict.fromkeys((f"descriptors {one}" for one in ("run", "match", "demo")), "descriptors")


def with_json() -> list[str]:
    return [
        name
        for name, command in COMMANDS.items()
        if any(isinstance(one, click.Option) and "--json" in one.opts for one in command.params)
    ]


def digest(name: str) -> str:
    text = json.dumps(result_schema(name), sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


def test_every_command_with_json_has_a_schema() -> None:
    needed = {SHARED.get(name, name).replace(" ", "-") for name in with_json()}
    needed |= {"eval-labels", "compare-labels"}  # what these print with --pool
    assert needed == {name.split("/")[1] for name in schema_names()}


@pytest.mark.parametrize("name", schema_names())
def test_schemas_are_sound(name: str) -> None:
    schema = result_schema(name)
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["$schema"].endswith("2020-12/schema")
    assert schema["properties"]["schema"] == {"const": name}
    assert result_schema(name.split("/")[1]) == schema


@pytest.mark.parametrize("name", schema_names())
def test_a_changed_schema_has_another_version(name: str) -> None:
    assert RELEASED.get(name) == digest(name), (
        f"{name} is not what it was. A result that was written before may not fit any more: give "
        "the schema the next version, and add the name with its digest to schema_digests.json."
    )


def test_no_result_fits_by_accident(assay: Any, folder: Path) -> None:
    printed = assay("eval", "run.txt", "-r", "qrels.txt", "-q", "--json").out
    result = json.loads(printed)
    assert not flaws(result)
    run = result["runs"][0]
    changes = [
        lambda one: one.update(more=1),
        lambda one: one.pop("signature"),
        lambda one: one.update(schema="assay/compare/1"),
        lambda one: one["runs"][0].update(more=1),
        lambda one: one["runs"][0].pop("measures"),
        lambda one: one["runs"][0]["measures"]["AP"].update(mean="0.5"),
        lambda one: one["runs"][0]["per_query"]["q1"].update(AP="0.5"),
        lambda one: one["made_by"]["inputs"].update(x="0"),
    ]
    assert "AP" in run["measures"]
    for change in changes:
        other = copy.deepcopy(result)
        change(other)
        assert flaws(other)


def test_what_a_test_prints_is_checked() -> None:
    with pytest.raises(AssertionError, match="'command' is a required property"):
        check_printed('{"schema_version": 1, "schema": "assay/check/1"}')
    check_printed("no result")


def test_the_command_prints_names_and_schemas(assay: Any) -> None:
    names = assay("schema").out.split()
    assert names[0] == "bench"
    assert names[1:] == schema_names()
    assert json.loads(assay("schema", "eval").out) == result_schema("assay/eval/1")
    assert "corpus" in json.loads(assay("schema", "bench").out)["properties"]
    unknown = assay("schema", "evla")
    assert unknown.code == 2
    assert "Did you mean eval?" in unknown.err


def test_shared_parts_are_all_used() -> None:
    shared = read_schemas()["$defs"]
    assert {key for name in schema_names() for key in result_schema(name)["$defs"]} == set(shared)


def test_the_page_lists_every_layout() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "json.md").read_text("utf-8")
    layouts = [name for name in schema_names() if name.startswith("assay/")]
    assert re.findall(r"^\| `(assay/[^`]+)` \|", page, re.M) == layouts
