"""Write docs/architecture.md from the import graph, the plugins and traced walks.

python -m docs.architecture          prints the page
python -m docs.architecture --write  writes it; tests/test_architecture_page.py compares
"""

from __future__ import annotations

import ast
import sys
import tomllib
from pathlib import Path

from assay.plugins import HOOKS, builtin_plugins
from tests.house import ROOMS, SOURCE, WALKS, trace_walks

PAGE = Path(__file__).with_name("architecture.md")
HEAD = """\
# Architecture

For whoever changes Assay: the line, the rooms, and which files a command enters. This page is
written by `python -m docs.architecture --write`; a test compares it.

**The line** is what `assay eval` and `assay compare` need. **A room** is one folder with everything
about one capability: values, functions, settings, tables, commands, schema, demo files, the names of
a source document. Its door is `__init__.pyi` (public names, imported on demand) and `plugin.py`
(what it offers to the rest: commands, hooks, schemas, demo files). Another package offers the same
value by the entry point `assay.plugins`. No file of the line imports a room; hide any room, and
everything else works (`tests/test_walls.py`).

    sources → rank → Ranking → judge → Hits → score → Scores → mean / compare → RunRecord → store, report

A measure sees ranks and gains, never a document id, a score or a label. Files and databases are
touched only at the two ends.
"""
ONE_OF_EACH = """\
## One of each

| idea | where |
|---|---|
| the tie rule | `core/ranking.py` |
| the join of rankings with judgments | `judge` in `core/hits.py`; `core/object_join.py` for plain dictionaries, sooner |
| ids that do not match | `check_match` in `core/mismatches.py` |
| a setting: option, section, file it reads or writes, consent, completion | `option` in `cli/settings.py`, where the option is declared |
| a result to keep or show | `RunRecord` in `runs/record.py` |
| printing a result | `emit` in `cli/output.py` |
| names such as `faiss:HNSW32?efSearch=64` | `core/specs.py` |
| what rooms and packages add | `plugins.py` |
| resumable work | `io/checkpoint.py` |
| files that change while they are read | `io/mapped.py` |

## A newcomer's day

| to do | files |
|---|---|
| add a measure | one decorated function in `measures/`, or in a package (entry point `assay.measures`) |
| add an index or an encoder | one file in `search/indexes/` or `models/adapters/` and its spec, or an entry point |
| add a subcommand of the line | one file in `cli/` whose first line is "`assay NAME` (Group): …" |
| add a room | a folder with `plugin.py`, or a package with the entry point `assay.plugins` |
"""


def layers() -> list[str]:
    """Return the packages of the line, from the bottom."""
    contracts = tomllib.loads((SOURCE.parents[1] / "pyproject.toml").read_text("utf-8"))
    first = contracts["tool"]["importlinter"]["contracts"][0]["layers"]
    return [layer.removeprefix("assay.") for layer in first[:0:-1]]


def summary_of(name: str) -> str:
    """Return the first line of the docstring of a package or module."""
    folder = SOURCE / name
    path = folder / "__init__.py" if folder.is_dir() else folder.with_suffix(".py")
    docstring = ast.get_docstring(ast.parse(path.read_text("utf-8"))) or ""
    return docstring.splitlines()[0] if docstring else ""


def rooms_used_by(room: str) -> list[str]:
    """Return the other rooms that the files of a room import."""
    used = set()
    for path in (SOURCE / room).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module:
                parts = node.module.split(".")
                used |= {parts[1]} if parts[0] == "assay" and len(parts) > 1 else set()
    return sorted(used & {*ROOMS} - {room})


def write_page() -> str:
    """Return the page."""
    walks = []
    for name, files in trace_walks().items():
        walks += [f"**`assay {WALKS[name]}`**, {len(files)} files:", "", *_fold(files), ""]
    head = "Files whose functions run, in the order in which they are entered."
    return write_tables() + "\n".join(["## Walks", "", head, "", *walks]).rstrip() + "\n"


def write_tables() -> str:
    """Return the page up to the walks."""
    plugins = {plugin.name: plugin for plugin in builtin_plugins()[0]}
    line = [f"| `{name}` | {summary_of(name)} |" for name in layers()]
    rooms = []
    for room in ROOMS:
        commands = ", ".join(f"`{command.name}`" for command in plugins[room].commands) or "–"
        uses = ", ".join(rooms_used_by(room)) or "–"
        rooms.append(f"| `{room}` | {summary_of(room)} | {commands} | {uses} |")
    hooks = []
    for name, words in HOOKS.items():
        served = ", ".join(room for room, plugin in plugins.items() if name in plugin.hooks)
        hooks.append(f"| `{name}` | {words} | {served or 'other packages'} |")
    return "\n".join(
        [
            HEAD,
            "## The line",
            "",
            "Each package imports only from those above it (`scripts/check`).",
            "",
            "| package | what it holds |",
            "|---|---|",
            *line,
            "",
            "## The rooms",
            "",
            "| room | what it is for | commands | uses |",
            "|---|---|---|---|",
            *rooms,
            "",
            "`rank` is in `cluster`, because it runs every search through its executors.",
            "`tasks` and `verify` are rooms, because `eval` and `compare` work without them. Similarity of",
            "two rankings is in `codes`, its only user.",
            "",
            "## Hooks",
            "",
            "What rooms and other packages can add to the line (`assay.plugins.HOOKS`).",
            "",
            "| hook | what it does | served by |",
            "|---|---|---|",
            *hooks,
            "",
            ONE_OF_EACH,
            "",
        ]
    )


def _fold(files: list[str], width: int = 96) -> list[str]:
    """Fold the names of files into lines."""
    lines, line = [], "    "
    for file in files:
        name = file.removesuffix(".py")
        if len(line) + len(name) > width:
            lines.append(line.rstrip())
            line = "    "
        line += f"{name} → "
    return [*lines, line.removesuffix(" → ")]


if __name__ == "__main__":
    text = write_page()
    if "--write" in sys.argv:
        PAGE.write_text(text, "utf-8")
    else:
        print(text)
