"""The sizes of the house: files, lines of code, empty names, and the files that commands walk.

python -m tests.house            prints them beside what is recorded in house.json
python -m tests.house --record   records those that fell; none may rise
"""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "assay"
RECORD = Path(__file__).with_name("house.json")
EMPTY = frozenset(
    {"one", "found", "known", "own", "made", "wanted", "given", "chosen", "asked", "kept"}
)
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
_TEXTS = (ast.Constant, ast.JoinedStr)
ROOMS = sorted(path.parent.name for path in SOURCE.glob("*/plugin.py"))

# Runs a command in this process and prints the files of the package whose functions ran, in the
# order in which they were entered; what a module does while it is imported does not count.
TRACE = """
import importlib._bootstrap as imports, os, sys, threading
home, entered, load = sys.argv[1], {}, imports._find_and_load

def watch(frame, event, argument):
    file = frame.f_code.co_filename
    if file.startswith(home):
        entered.setdefault(file)

def load_unwatched(*arguments):
    watching = sys.gettrace()
    sys.settrace(None)
    try:
        return load(*arguments)
    finally:
        sys.settrace(watching)

from assay.cli.main import main
imports._find_and_load = load_unwatched
sys.settrace(watch)
threading.settrace(watch)
code = main(sys.argv[2:])
sys.settrace(None)
print(*(os.path.relpath(file, home) for file in entered), sep="\\n", file=sys.stderr)
sys.exit(code)
"""
WALKS = {
    "eval": "eval dense.run -r qrels.txt",
    "compare": "compare dense.run lexical.run -r qrels.txt --resamples 200",
    "rank": "rank queries.npy docs.npy -o found.run",
    "bench --save": "bench bench.toml --no-cache --resamples 200 --save",
    "predict": "predict logits.npy --targets labels.npy",
    "descriptors run": "descriptors run experiment.yaml --fresh",
}


def code_lines(text: str, nodes: list[ast.AST]) -> int:
    """Count the lines of code: no blank lines, comments or docstrings."""
    docstrings: set[int] = set()
    rows = text.split("\n")
    lines = {at for at, row in enumerate(rows, 1) if row.strip() and row.lstrip()[0] != "#"}
    for node in nodes:
        if isinstance(node, _DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            first = node.body[0]
            docstrings.update(range(first.lineno, (first.end_lineno or 0) + 1))
        elif isinstance(node, _TEXTS) and node.end_lineno != node.lineno:
            # Every line of a text that goes over several counts, whatever it looks like.
            inside = range(node.lineno, (node.end_lineno or 0) + 1)
            if any('"""' in rows[at - 1] for at in inside):
                lines.update(inside)
    return len(lines - docstrings)


def bindings(nodes: list[ast.AST]) -> Iterator[str]:
    """Yield every name that is bound: variables, parameters, functions, classes, aliases."""
    for node in nodes:
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, _DOCUMENTED[1:]):
            yield node.name
        elif isinstance(node, ast.alias) and node.asname:
            yield node.asname


def part_of(path: Path) -> str:
    """Return the room that a file belongs to, or "line"."""
    folder = path.relative_to(SOURCE).parts[0]
    return folder if folder in ROOMS else "line"


def measure_sizes() -> dict[str, Any]:
    """Measure files, lines of code and empty names, in all and by part."""
    parts: dict[str, dict[str, int]] = {}
    for path in sorted(SOURCE.rglob("*.py")):
        text = path.read_text("utf-8")
        nodes = [*ast.walk(ast.parse(text))]
        sizes = parts.setdefault(part_of(path), {"files": 0, "code": 0, "empty names": 0})
        sizes["files"] += 1
        sizes["code"] += code_lines(text, nodes)
        sizes["empty names"] += sum(name in EMPTY for name in bindings(nodes))
    whole = {key: sum(part[key] for part in parts.values()) for key in ("files", "code")}
    empty = sum(part["empty names"] for part in parts.values())
    return {
        **whole,
        "empty names": empty,
        "files of the line": parts["line"]["files"],
        "code of the line": parts["line"]["code"],
        "parts": dict(sorted(parts.items())),
    }


def trace_walks(names: tuple[str, ...] = tuple(WALKS)) -> dict[str, list[str]]:
    """Run commands on the demo's files; return the files that each enters, in order."""
    from assay.io.demo_collection import write_files

    with tempfile.TemporaryDirectory() as folder:
        write_files(Path(folder))
        return {name: _trace(WALKS[name].split(), folder) for name in names}


def _trace(words: list[str], folder: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", TRACE, str(SOURCE) + os.sep, *words],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    files = [line for line in done.stderr.splitlines() if line.endswith(".py")]
    return [line for line in files if (SOURCE / line).is_file()]


def compare_sizes(measured: dict[str, Any], recorded: dict[str, Any]) -> list[str]:
    """Return a line for each size that has risen above its record."""
    lines = []
    for key, value in recorded.items():
        now = measured.get(key)
        if isinstance(value, dict):
            lines += compare_sizes(now or {}, value)
        elif now is not None and now > value:
            lines.append(f"{key}: {now}, recorded {value}")
    return lines


def main() -> None:
    """Print the sizes, and record those that fell."""
    measured = {**measure_sizes(), "walks": {key: len(w) for key, w in trace_walks().items()}}
    print(json.dumps(measured, indent=1))
    recorded = json.loads(RECORD.read_text("utf-8")) if RECORD.exists() else {}
    risen = compare_sizes(measured, recorded)
    print(*risen, sep="\n")
    if "--record" in sys.argv and not risen:
        RECORD.write_text(json.dumps(measured, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
