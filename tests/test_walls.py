"""The walls hold: hide any room, and everything else works; what needs it says which is missing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from itertools import product
from pathlib import Path
from typing import Any

import pytest

import assay
from assay.cli.main import main
from tests.conftest import OTHER, QRELS, RUN

ROOT = Path(assay.__file__).parent
ROOMS = sorted(path.parent.name for path in ROOT.glob("*/plugin.py"))

# Runs the commands in a process for each room, which it refuses to import; writes what became of
# each. Processes are forks of one that has loaded other packages, where there are forks.
SCRIPT = """
import contextlib, importlib, importlib.abc, io, json, os, sys

class Wall(importlib.abc.MetaPathFinder):
    def __init__(self, room):
        self.room = room

    def find_spec(self, name, path=None, target=None):
        if name == self.room or name.startswith(self.room + "."):
            raise ModuleNotFoundError(f"No module named {name!r} (hidden by a test)", name=name)

def hide(room, commands):
    sys.meta_path.insert(0, Wall("assay." + room))
    os.chdir(room)
    from assay.cli.main import main

    def call(*words):
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = main(list(words))
        return [code, out.getvalue(), err.getvalue()]

    found = {name: call(*words) for name, words in commands.items()}
    try:
        from tests.web.samples import Client
        answer = Client("s.db")("/")
        found["front page"] = [0 if answer.status == 200 else 1, "", ""]
    except ModuleNotFoundError as error:
        found["front page"] = [4, "", str(error)]
    with open("steps.json", "w") as file:
        json.dump(found, file)

commands, *rooms = sys.argv[1:]
for package in (
    "numpy", "click", "rich.table", "sqlalchemy", "sqlalchemy.dialects.sqlite", "jinja2",
    "anyio", "starlette.applications", "uvicorn", "importlib.metadata", "concurrent.futures",
):
    with contextlib.suppress(ImportError):
        importlib.import_module(package)
assert not [name for name in sys.modules if name.startswith("assay.")]
for room in rooms:
    if len(rooms) == 1 or not os.fork():
        hide(room, json.loads(commands))
        break
    os.wait()
"""
COMMANDS = {
    "help": ["--help"],
    "eval": ["eval", "run.txt", "-r", "qrels.txt", "--json"],
    "compare": ["compare", "run.txt", "other.txt", "-r", "qrels.txt", "--resamples", "200"],
    "save": ["eval", "run.txt", "other.txt", "-r", "qrels.txt", "--save", "--store", "s.db"],
    "runs list": ["runs", "list", "--store", "s.db"],
    "runs show": ["runs", "show", "1", "--store", "s.db"],
    "report": ["report", "run.txt", "other.txt", "-r", "qrels.txt", "-o", "report.md"],
    "verify": ["verify", "scores.json"],
    "fuse": ["fuse", "run.txt", "other.txt", "-o", "fused.run"],
    "schema": ["schema", "eval"],
    "tasks": ["tasks", "values.csv", "--resamples", "200"],
}
# Which room serves a step; the others work without it.
SERVED = {
    "save": {"store"},
    "runs list": {"store"},
    "runs show": {"store"},
    "report": {"report"},
    "fuse": {"search"},
    "verify": {"verify"},
    "tasks": {"tasks"},
    "front page": {"web", "store", "report"},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for each room, in which commands ran without it."""
    folder = tmp_path_factory.mktemp("walls")
    rows = [f"{s},t,q{q},{(q % 4 + (s == 'a')) / 5}" for s in "ab" for q in range(9)]
    values = "\n".join(["system,task,query,value", *rows])
    files = {"run.txt": RUN, "other.txt": OTHER, "qrels.txt": QRELS, "values.csv": values}
    for room, (name, text) in product(ROOMS, files.items()):
        (folder / room).mkdir(exist_ok=True)
        (folder / room / name).write_text(text)
    with pytest.MonkeyPatch.context() as patch:
        for room in ROOMS:
            patch.chdir(folder / room)
            assert main([*COMMANDS["eval"], "-o", "scores.json"]) == 0  # what `verify` verifies
    for rooms in [ROOMS] if hasattr(os, "fork") else [[room] for room in ROOMS]:
        run_hidden(rooms, folder)
    return folder


def run_hidden(rooms: list[str], folder: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, json.dumps(COMMANDS), *rooms],
        cwd=folder,
        check=False,
        capture_output=True,
        text=True,
        env={"PYTHONPATH": str(Path(__file__).parents[1]), "PATH": "/usr/bin:/bin"},
    )
    with open(folder / "err.txt", "a", encoding="utf-8") as file:
        file.write(done.stderr[-2000:])


@pytest.mark.parametrize("room", ROOMS)
def test_everything_works_without_a_room_that_does_not_need_it(room: str, folder: Path) -> None:
    assert (folder / room / "steps.json").exists(), (folder / "err.txt").read_text()
    steps: dict[str, Any] = json.loads((folder / room / "steps.json").read_text())
    assert steps.keys() == {*COMMANDS, "front page"}
    for name, (code, out, err) in steps.items():
        if room not in SERVED.get(name, set()):
            assert code == 0, (name, code, out, err)
        else:
            assert code in (2, 4), (name, code, out, err)
            assert f"assay.{room}" in err, (name, err)
        assert "Traceback" not in err
