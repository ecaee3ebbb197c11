"""Another package can do all that a room can: a task with everything, in one module."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from importlib import invalidate_caches
from pathlib import Path
from typing import Any

import pytest

from assay import plugins
from assay.cli import schema
from tests.plugins import install

pytest.importorskip("sqlalchemy")

MODULE = '''
"""How long are the lists of a run?"""

import click
import numpy as np

from assay.cli import options, output
from assay.cli.commands import Command
from assay.cli.settings import argument
from assay.io.formats import read_run
from assay.measures.registry import measure
from assay.plugins import CommandEntry, Plugin
from assay.runs.record import RunRecord
from assay.scoring.evaluate import evaluate
from assay.tables.table import Cell, Table

SCHEMAS = {
    "results": {
        "lengths": {
            "version": 1,
            "title": "assay lengths",
            "properties": {"shortest": {"type": "integer"}, "longest": {"type": "integer"}},
            "required": ["shortest", "longest"],
        }
    }
}


@click.command("lengths", cls=Command, verified=True)
@argument("run", reads=True)
@options.qrels_option
@options.result_options("text", "csv", "json")
@options.save_options("lengths")
def command(*, run, qrels, saving, layout, file):
    """How long are the lists of a run?"""
    output.refuse_input(file, run, qrels)
    ranking = read_run(run)
    lengths = np.diff(ranking.offsets)
    data = {"shortest": int(lengths.min()), "longest": int(lengths.max())}
    table = Table(("shortest", "longest"), (tuple(Cell(str(value)) for value in data.values()),))
    saving.save([RunRecord(run, evaluate(ranking, qrels, "P@2"), task="lengths")], run, qrels)
    output.emit(output.TableResult(table, data), layout, file)


def sections(records):
    return [("Lengths of lists", f"{len(list(records))} runs were <looked> at")]


def views(run):
    return [("Lengths of lists", f"run {run.name} & its lists")] if run.task == "lengths" else []


PLUGIN = Plugin(
    "lengths",
    commands=(
        CommandEntry("lengths", "Tasks", "How long are the lists of a run?", "foreign:command"),
    ),
    hooks={"report_sections": "foreign:sections", "dashboard_views": "foreign:views"},
    schemas="foreign:SCHEMAS",
)
'''


@pytest.fixture
def foreign(
    folder: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """The package, installed for a while."""
    place = tmp_path_factory.mktemp("site")
    entries = {plugins.PLUGINS: {"lengths": "foreign:PLUGIN"}}
    install(place, package="assay-lengths", entries=entries, modules={"foreign": MODULE})
    monkeypatch.syspath_prepend(place)
    invalidate_caches()
    schema.read_schemas.cache_clear()
    yield
    sys.modules.pop("foreign", None)
    schema.read_schemas.cache_clear()


@pytest.mark.usefixtures("foreign")
def test_its_command_is_listed_and_has_help(assay: Any) -> None:
    assert "How long are the lists of a run?" in assay("--help").out
    assert "--save" in assay("lengths", "--help").out


@pytest.mark.usefixtures("foreign")
def test_its_json_has_a_schema_and_is_verified(assay: Any, folder: Path) -> None:
    answer = assay("lengths", "run.txt", "-r", "qrels.txt", "--json", "-o", "lengths.json")
    assert answer.code == 0, answer.err
    result = json.loads((folder / "lengths.json").read_text())
    assert (result["schema"], result["shortest"]) == ("assay/lengths/1", 2)
    assert "assay/lengths/1" in assay("schema").out
    printed = json.loads(assay("schema", "lengths").out)
    jsonschema = pytest.importorskip("jsonschema")
    jsonschema.validate(result, printed)
    assert assay("verify", "lengths.json").code == 0
    (folder / "lengths.json").write_text(json.dumps({**result, "longest": 9}))
    assert assay("verify", "lengths.json").code == 1


@pytest.mark.usefixtures("foreign")
def test_it_saves_runs_and_shows_them_in_reports_and_the_dashboard(assay: Any) -> None:
    pytest.importorskip("starlette")
    from tests.web.samples import Client

    store = ("--store", "s.db")
    answer = assay("lengths", "run.txt", "-r", "qrels.txt", "--save", *store)
    assert answer.code == 0, answer.err
    assert "lengths" in assay("runs", "list", *store).out
    assert assay("runs", "rerun", "1", *store).code == 0
    assert assay("report", "1", *store, "-o", "report.html").code == 0
    report = Path("report.html").read_text("utf-8")
    assert "Lengths of lists" in report
    assert "1 runs were &lt;looked&gt; at" in report
    page = Client("s.db")("/run/1").text
    assert "run.txt &amp; its lists" in page
