"""Try commands, Python and public names with the packages at hand; print the outcomes as JSON.

    python -m tests.core_alone FOLDER < request.json

The request holds `commands` and `python`, each as lists of lines or blocks by page. Every page
starts in a copy of the files that `assay demo --files` writes into FOLDER. This module imports the
standard library and Assay only, so that it runs where nothing but the core is installed.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import os
import pkgutil
import shutil
import sys
from collections.abc import Iterator
from importlib import import_module
from inspect import Parameter, ismethod, signature
from pathlib import Path
from typing import Any

import assay
from assay.cli.main import main
from assay.errors import AssayError, MissingPackageError
from tests.docs_pages import Printed

WORKS = "works"


def try_commands(lines: list[str]) -> Iterator[tuple[str, str]]:
    """Run the commands of a page; yield each with its outcome."""
    refused = False
    for line in lines:
        printed = Printed(line, "", "")
        outcome = try_command(printed.words, printed.input)
        # The file that a refused command would have written is missing.
        follows = refused and outcome.startswith(("exit 3: ", "exit 5: "))
        refused |= outcome.startswith("exit 4: ")
        yield line, WORKS if follows else outcome


def try_command(words: list[str], input: str = "") -> str:
    """Run a command; return "works", the message of a missing package, or the failure."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.ExitStack() as stack:
        stack.enter_context(contextlib.redirect_stdout(out))
        stack.enter_context(contextlib.redirect_stderr(err))
        if input:
            sys.stdin = stack.enter_context(open(input, encoding="utf-8"))
        code = main(words)
    if code in (0, 1):
        return WORKS
    return f"exit {code}: {err.getvalue().strip().splitlines()[-1]}"


def try_python(blocks: list[str], page: str) -> Iterator[tuple[str, str]]:
    """Run the statements of a page; those that use what a refused one would have set are left out.

    A page's imports of other packages are not Assay's to guard.
    """
    space: dict[str, object] = {"__name__": "page"}
    lost: set[str] = set()
    for node in (node for block in blocks for node in ast.parse(block, page).body):
        names = {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
        if names & lost:
            lost |= _names_set(node)
            continue
        outcome = call(lambda node=node: _execute(node, page, space))
        if outcome != WORKS:
            lost |= _names_set(node)
        foreign = isinstance(node, ast.Import | ast.ImportFrom) and "assay" not in ast.unparse(node)
        if not foreign:
            yield f"{page}: {ast.unparse(node).splitlines()[0]}", outcome


def _names_set(node: ast.stmt) -> set[str]:
    """Return the names that a statement binds."""
    names = [part for part in ast.walk(node) if isinstance(part, ast.Name)]
    aliases = [part for part in ast.walk(node) if isinstance(part, ast.alias)]
    bound = {name.id for name in names if isinstance(name.ctx, ast.Store)}
    return bound | {alias.asname or alias.name.partition(".")[0] for alias in aliases}


def _execute(node: ast.stmt, page: str, space: dict[str, object]) -> None:
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        exec(compile(ast.Module([node], []), page, "exec"), space)


def call(function: Any) -> str:
    """Call a function; return "works", the message of a missing package, or the failure."""
    try:
        function()
    except MissingPackageError as error:
        return f"exit {error.exit_code}: {error}"
    except AssayError:  # these files or arguments are refused
        return WORKS
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return WORKS


def try_names() -> Iterator[tuple[str, str]]:
    """Load every public name of Assay and of the packages in it."""
    for name in dir(assay):
        yield f"assay.{name}", call(lambda name=name: getattr(assay, name))
    for found in pkgutil.walk_packages(assay.__path__, "assay.", onerror=lambda name: None):
        if found.ispkg:
            try:
                package = import_module(found.name)
            except ImportError:  # `try_modules` says so
                continue
            for name in getattr(package, "__all__", ()):
                outcome = call(lambda package=package, name=name: getattr(package, name))
                yield f"{found.name}.{name}", outcome


def try_modules() -> Iterator[tuple[str, str]]:
    """Import every module."""
    for found in pkgutil.walk_packages(assay.__path__, "assay.", onerror=lambda name: None):
        if not found.name.endswith("__main__"):
            yield found.name, call(lambda name=found.name: import_module(name))


def try_methods() -> Iterator[tuple[str, str]]:
    """Call every method without required arguments of the values of the first steps."""
    scores = assay.evaluate("dense.run", "qrels.txt", ["nDCG@10", "AP"])
    runs = {"dense": "dense.run", "coarse": "coarse.run"}
    comparison = assay.compare(runs, "qrels.txt", ["nDCG@10", "AP"])
    values = [scores, scores.mean(), comparison, assay.check("coarse.run", "qrels.txt")]
    values += [assay.read_run("dense.run"), assay.read_qrels("qrels.txt")]
    values += [
        assay.report.make_report({"dense": scores}),
        assay.preset("trec_eval"),
        assay.parse("AP"),
    ]
    values += [assay.explain("dense.run", "qrels.txt", query="q07", measure="AP")]
    for value in values:
        names = [name for name in dir(value) if not name.startswith("_") or name == "_repr_html_"]
        for method in (getattr(value, name) for name in names):
            if ismethod(method) and _needs_nothing(method):
                yield f"{type(value).__name__}.{method.__name__}()", call(method)


def _needs_nothing(method: Any) -> bool:
    kinds = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
    try:
        parameters = signature(method).parameters.values()
    except ValueError:
        return False
    return all(p.default is not Parameter.empty or p.kind in kinds for p in parameters)


def run(folder: Path, request: dict[str, dict[str, list[str]]]) -> dict[str, str]:
    """Try everything; return the outcome of each step."""
    os.environ["ASSAY_CACHE"] = str(folder / "cache")
    os.chdir(folder)
    first = try_command(["demo", "--files", "files"])
    outcomes = {"assay demo --files files": first, **dict(try_names()), **dict(try_modules())}
    if first != WORKS:
        return outcomes
    for number, (page, lines) in enumerate(request["commands"].items()):
        if not lines:
            continue
        shutil.copytree(folder / "files", folder / f"commands-{number}")
        os.chdir(folder / f"commands-{number}")
        outcomes |= {f"{page}: {line}": outcome for line, outcome in try_commands(lines)}
    for number, (page, blocks) in enumerate(request["python"].items()):
        shutil.copytree(folder / "files", folder / f"python-{number}")
        os.chdir(folder / f"python-{number}")
        outcomes |= try_python(blocks, page)
    os.chdir(folder / "files")
    return {**outcomes, **dict(try_methods())}


if __name__ == "__main__":
    json.dump(run(Path(sys.argv[1]), json.load(sys.stdin)), sys.stdout)
