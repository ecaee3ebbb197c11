"""A newcomer's day: what one file is said to be enough for, done on a copy of the package."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from assay.io.demo_collection import write_files
from tests.conftest import OTHER, QRELS, RUN
from tests.newcomer import Checkout, load_kernels

FORMAT = """"json": Format("""
UPPER = """"shout": Format("page", "", lambda result: str(result.page()[0].text).upper()),
    "json": Format("""
ROOM = '''"""Count the lists of a run: a room in one file."""

import click

from assay.cli import options, output
from assay.cli.commands import Command
from assay.cli.settings import argument
from assay.io.formats import read_run
from assay.plugins import CommandEntry, Plugin
from assay.runs.record import RunRecord
from assay.scoring.evaluate import evaluate

SCHEMAS = {
    "results": {
        "tally": {
            "version": 1,
            "title": "assay tally",
            "properties": {"lists": {"type": "integer"}},
            "required": ["lists"],
        }
    }
}


@click.command("tally", cls=Command, verified=True)
@argument("run", reads=True)
@options.qrels_option
@options.result_options("text", "json")
@options.save_options("tally")
def command(*, run, qrels, saving, layout, file):
    """Count the lists of a run."""
    output.refuse_input(file, run, qrels)
    ranking = read_run(run)
    saving.save([RunRecord(run, evaluate(ranking, qrels, "RR"), task="tally")], run, qrels)
    count = len(ranking.query_ids)
    output.emit(output.TextResult(f"{count} lists", {"lists": count}), layout, file)


PLUGIN = Plugin(
    "tally",
    commands=(
        CommandEntry("tally", "Tasks", "Count the lists of a run.", "assay.tally.plugin:command"),
    ),
    schemas="assay.tally.plugin:SCHEMAS",
)
'''


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    load_kernels()
    for name, text in {"run.txt": RUN, "other.txt": OTHER, "qrels.txt": QRELS}.items():
        (tmp_path / name).write_text(text)
    return Checkout(tmp_path)


def test_a_format_is_one_edit(checkout: Checkout) -> None:
    checkout.edit("cli/output.py", FORMAT, UPPER)
    words = ("run.txt", "other.txt", "-r", "qrels.txt", "--resamples", "200")
    printed = checkout.assay("compare", *words, "--format", "shout")
    assert printed.strip()
    assert printed == printed.upper()
    helps = checkout.helps("compare", "tasks", "eval", "bench", "codes", "crossmodal", "predict")
    assert ["shout" in help for help in helps] == [True] * 7


def test_a_command_with_save_and_json_is_one_file(checkout: Checkout) -> None:
    pytest.importorskip("sqlalchemy")
    checkout.add("tally/plugin.py", ROOM)
    assert "Count the lists of a run." in checkout.assay("--help")
    words = ("tally", "run.txt", "-r", "qrels.txt", "--json", "-o", "tally.json")
    checkout.assay(*words, "--save", "--store", "s.db")
    assert json.loads((checkout.folder / "tally.json").read_text())["lists"] == 2
    assert "tally" in checkout.assay("runs", "list", "--store", "s.db")
    checkout.assay("verify", "tally.json")
    assert "assay/tally/1" in checkout.assay("schema")


def test_the_default_interval_is_stated_once(checkout: Checkout) -> None:
    words = ("compare", "run.txt", "other.txt", "-r", "qrels.txt", "--resamples", "200", "--json")
    assert json.loads(checkout.assay(*words))["settings"]["interval"] == "auto"
    checkout.edit("stats/choices.py", 'INTERVAL: Final = "auto"', 'INTERVAL: Final = "percentile"')
    assert json.loads(checkout.assay(*words))["settings"]["interval"] == "percentile"
    assert "[default: percentile]" in " ".join(checkout.assay("compare", "--help").split())


HEADING = "letters of its name"
LAST_COLUMN = '    Column("vs {baseline}", '
ADDED_COLUMN = f'    Column("{HEADING}", lambda s: str(len(s.name)), "figure"),\n'
# Saves both runs, and prints the page of the dashboard that compares them.
DASHBOARD = """
sys.path.append(sys.argv[2])
import assay, assay.store
from assay.runs.record import RunRecord
from tests.web.samples import Client
with assay.store.open("runs.db") as store:
    for name in ("dense.run", "lexical.run"):
        store.save(RunRecord(name, assay.evaluate(name, "qrels.txt", "AP")))
print(Client("runs.db")("/compare?run=1&run=2").text)
"""
TWO_RUNS = ("dense.run", "lexical.run", "-r", "qrels.txt", "--resamples", "200")
EMBEDDINGS = ("--embeddings", "docs.npy", "--queries", "queries.npy", "--qrels", "qrels.tsv")
TEXTS = ("--corpus", "docs.jsonl", "--queries", "queries.jsonl", "--qrels", "qrels.tsv")
IDS = ("--doc-ids", "docs.txt", "--query-ids", "queries.txt")
# Where systems are listed: commands, of which `report` writes a page.
PLACES = {
    "compare": ("compare", *TWO_RUNS),
    "tasks": ("tasks", "values.csv", "--resamples", "200"),
    "report": ("report", *TWO_RUNS, "-o", "report.html"),
    "dashboard": (),
    "bench": ("bench", *TEXTS, "--model", "bm25", "--no-cache", "--resamples", "200"),
    "codes": ("codes", *EMBEDDINGS, *IDS, "--bits", "64", "--resamples", "200"),
}


@pytest.fixture(scope="module")
def with_column(tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    """A copy with one more column of the standings, and the files of the demo beside it."""
    load_kernels()
    checkout = Checkout(tmp_path_factory.mktemp("column"))
    checkout.edit("comparison/standings.py", LAST_COLUMN, ADDED_COLUMN + LAST_COLUMN)
    write_files(checkout.folder)
    return checkout


@pytest.mark.parametrize("place", PLACES)
def test_a_column_of_the_standings_is_one_line(with_column: Checkout, place: str) -> None:
    if place == "dashboard":
        shown = with_column.python(DASHBOARD, str(Path(__file__).parents[1]))
    else:
        shown = with_column.assay(*PLACES[place])
    if place == "report":
        shown = (with_column.folder / "report.html").read_text("utf-8")
    assert HEADING in shown
