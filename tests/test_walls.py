"""The walls hold: hide any room, and everything else works; what needs it says which is missing."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import assay
from assay.cli.main import main
from tests.conftest import OTHER, QRELS, RUN

ROOT = Path(assay.__file__).parent
ROOMS = sorted(path.parent.name for path in ROOT.glob("*/plugin.py"))

# Runs each command in a process that refuses to import one room; prints what became of each.
SCRIPT = """
import contextlib, importlib.abc, io, json, sys

class Wall(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name == ROOM or name.startswith(ROOM + "."):
            raise ModuleNotFoundError(f"No module named {name!r} (hidden by a test)", name=name)

ROOM = "assay." + sys.argv[1]
sys.meta_path.insert(0, Wall())
from assay.cli.main import main

def call(*words):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(list(words))
    return [code, out.getvalue(), err.getvalue()]

found = {name: call(*words) for name, words in json.loads(sys.argv[2]).items()}
try:
    from tests.web.samples import Client
    answer = Client("s.db")("/")
    found["front page"] = [0 if answer.status == 200 else 1, "", ""]
except ModuleNotFoundError as error:
    found["front page"] = [4, "", str(error)]
print(json.dumps(found))
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


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    rows = [f"{s},t,q{q},{(q % 4 + (s == 'a')) / 5}" for s in "ab" for q in range(9)]
    values = "\n".join(["system,task,query,value", *rows])
    files = {"run.txt": RUN, "other.txt": OTHER, "qrels.txt": QRELS, "values.csv": values}
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    assert main([*COMMANDS["eval"], "-o", "scores.json"]) == 0  # what `verify` verifies
    return tmp_path


def run_hidden(room: str, folder: Path) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, room, json.dumps(COMMANDS)],
        cwd=folder,
        check=False,
        capture_output=True,
        text=True,
        env={"PYTHONPATH": str(Path(__file__).parents[1]), "PATH": "/usr/bin:/bin"},
    )
    assert not done.returncode, done.stderr[-2000:]
    steps: dict[str, Any] = json.loads(done.stdout)
    return steps


@pytest.mark.parametrize("room", ROOMS)
def test_everything_works_without_a_room_that_does_not_need_it(room: str, files: Path) -> None:
    for name, (code, out, err) in run_hidden(room, files).items():
        if room not in SERVED.get(name, set()):
            assert code == 0, (name, code, out, err)
        else:
            assert code in (2, 4), (name, code, out, err)
            assert f"assay.{room}" in err, (name, err)
        assert "Traceback" not in err
