"""Assay with its core dependencies alone: every step works or names the extra that it needs."""

from __future__ import annotations

import ast
import doctest
import json
import os
import re
import subprocess
import sys
import tomllib
import venv
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import cache
from importlib.metadata import (
    Distribution,
    PackageNotFoundError,
    distribution,
    packages_distributions,
)
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import assay
from assay import native
from tests.core_alone import WORKS
from tests.docs_pages import PAGES, ROOT, Printed, blocks, commands
from tests.test_architecture import MODULES, imported_at_the_top, loaded_with, tree
from tests.test_docs import EXAMPLES, LONG, LONG_EXAMPLES

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
# Parts whose modules import an optional package: they are reached through `need` only.
ROOMS = ("assay.store.", "assay.web.", "assay.judging.page", "assay.integrations.pytest_plugin")
# What opens a room: it calls `need` before it imports.
OPENERS = {"need", "need_packages", "_need_package", "open_store"}
BEHIND = {"assay.web.server.run_server"}  # called by `serve`, after `need_packages`
FIRST = {"README.md", "index.md"}
SHORT = {"assay demo"}  # without its packages, which it names at once


def requirements(requirement: Requirement) -> Iterator[Requirement]:
    """Yield a requirement's distributions and, transitively, what these require here."""
    yield requirement
    extras = requirement.extras or {""}
    if canonicalize_name(requirement.name) == canonicalize_name(PROJECT["name"]):
        optional = PROJECT["optional-dependencies"]
        required = [text for extra in requirement.extras for text in optional[extra]]
    else:
        required = []
        with suppress(PackageNotFoundError):  # of an extra that is not installed here
            required += distribution(requirement.name).requires or ()
    for text in required:
        needed = Requirement(text)
        marker = needed.marker
        if marker is None or any(marker.evaluate({"extra": extra}) for extra in extras):
            yield from requirements(needed)


@cache
def distributions(text: str) -> frozenset[str]:
    """Return the names of the distributions that a requirement brings."""
    return frozenset(canonicalize_name(one.name) for one in requirements(Requirement(text)))


def distributions_of(texts: Iterable[str]) -> list[Distribution]:
    """Return the distributions that pip would install, without Assay itself."""
    names = {name for text in texts for name in distributions(text)} - {PROJECT["name"]}
    return [distribution(name) for name in sorted(names)]


def top_entries(package: Distribution) -> set[str]:
    """Return the files and folders of a distribution beside other packages."""
    parts = {file.parts[0] for file in package.files or ()}
    return {part for part in parts if part not in ("..", "__pycache__")}


@cache
def core_modules() -> frozenset[str]:
    """Return the names that the core may import without a guard."""
    packages = distributions_of(PROJECT["dependencies"])
    entries = {entry for package in packages for entry in top_entries(package)}
    names = {entry.removesuffix(".py") for entry in entries}
    return frozenset({"assay", *sys.stdlib_module_names, *names})


def link_packages(folder: Path, texts: Iterable[str]) -> Path:
    """Fill a folder with Assay and what these requirements bring, and nothing else."""
    (folder / "assay" / "native").mkdir(parents=True)
    source = Path(assay.__file__).parent
    places = {f"assay/{path.name}": path for path in source.iterdir() if path.name != "native"}
    places |= {f"assay/native/{path.name}": path for path in (source / "native").iterdir()}
    if native.engine_name() == "native":  # an editable install has them elsewhere
        compiled = Path(str(native.kernels().__file__))
        places[f"assay/native/{compiled.name}"] = compiled
    for package in distributions_of(texts):
        places |= {entry: Path(package.locate_file(entry)) for entry in top_entries(package)}
    try:
        for entry, place in places.items():
            (folder / entry).symlink_to(place, target_is_directory=place.is_dir())
    except OSError as error:
        pytest.skip(f"no symbolic links here: {error}")
    return folder


def python_blocks(page: Path) -> list[str]:
    parser = doctest.DocTestParser()
    typed = [block.text.replace("…", "...") for block in blocks(page, "pycon")]
    examples = ["".join(one.source for one in parser.get_examples(text)) for text in typed]
    return [*(block.text for block in blocks(page, "python")), *examples]


def first_steps(*, slow: bool) -> str:
    """Return the request to `tests.core_alone`: what the pages and the help pages print."""
    left_out = set() if slow else (LONG | LONG_EXAMPLES) - SHORT

    def lines(steps: list[Printed]) -> list[str]:
        return [one.line for one in steps if not one.needs and one.line not in left_out]

    # By default the first pages alone: help has an example of every command.
    pages = {page.name: lines(commands(page)) for page in PAGES if slow or page.name in FIRST}
    helps = {f"assay {name} --help": lines(found) for name, found in EXAMPLES.items()}
    opened = {"the pages of help": [*helps], "the dashboard": ["assay serve"]}
    python = {page.name: found for page in PAGES if (found := python_blocks(page))}
    return json.dumps({"commands": {**pages, **helps, **opened}, "python": python})


def outcomes_of(python: list[str], path: list[Path], folder: Path, *, slow: bool) -> dict[str, str]:
    done = subprocess.run(
        [*python, "-m", "tests.core_alone", str(folder)],
        cwd=ROOT,
        env={
            **{name: value for name, value in os.environ.items() if name != "ASSAY_STORE"},
            "PYTHONPATH": os.pathsep.join(map(str, [*path, ROOT])),
        },
        input=first_steps(slow=slow),
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, str] = json.loads(done.stdout)
    return found


MISSING = re.compile(
    r"exit 4: .* needs the package '(?P<package>[\w.]+)', which is not installed\. "
    r"Install it with: pip install (?:-e )?\"[^\"\[]*\[(?P<extra>[\w-]+)\]\".*"
)


def failures(outcomes: dict[str, str]) -> dict[str, str]:
    """Return the steps that neither work nor name an extra that holds the missing package."""
    owners = packages_distributions()
    wrong = {}
    for step, outcome in outcomes.items():
        missing = MISSING.fullmatch(outcome)
        if outcome == WORKS or (step.startswith(ROOMS) and "No module named" in outcome):
            continue
        if missing is None:
            wrong[step] = outcome
            continue
        owner = owners.get(missing["package"].partition(".")[0], ())
        if not owner:  # not installed here either, so that nothing says whose it is
            continue
        brought = distributions(f"assay-eval[{missing['extra']}]")
        if not brought & {canonicalize_name(name) for name in owner}:
            wrong[step] = f"the extra does not bring the package: {outcome}"
    return wrong


def check_outcomes(outcomes: dict[str, str]) -> None:
    assert failures(outcomes) == {}
    for step in ("assay demo --files files", "assay.evaluate", "Scores.to_dict()"):
        assert outcomes[step] == WORKS
    needed = {"Scores.plot()": "report", "the dashboard: assay serve": "serve"}
    needed |= {"index.md: assay demo": "demo", "assay runs list --help: assay runs list": "store"}
    assert {step: MISSING.fullmatch(outcomes[step])["extra"] for step in needed} == needed  # type: ignore[index]
    assert sum(outcome == WORKS for outcome in outcomes.values()) > 1200


def try_steps(texts: Iterable[str], folder: Path, *, slow: bool) -> dict[str, str]:
    packages = link_packages(folder / "packages", texts)
    work = folder / "work"
    work.mkdir()
    # Without `site`, no other package is found.
    return outcomes_of([sys.executable, "-S"], [packages], work, slow=slow)


@pytest.mark.parametrize("slow", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_every_step_works_or_names_its_extra(tmp_path: Path, slow: bool) -> None:
    check_outcomes(try_steps(PROJECT["dependencies"], tmp_path, slow=slow))


@pytest.mark.slow
def test_all_holds_what_the_pages_use(tmp_path: Path) -> None:
    """With the extra `all` a step lacks only what its page says how to install."""
    texts = [*PROJECT["dependencies"], f"{PROJECT['name']}[all]"]
    outcomes = try_steps(texts, tmp_path, slow=True)
    assert outcomes.pop("the dashboard: assay serve").startswith("exit 5: assay: There is no store")
    assert failures(outcomes) == {}
    lacking = {step: found for step, text in outcomes.items() if (found := MISSING.fullmatch(text))}
    pages = {page.name: page.read_text("utf-8") for page in PAGES}
    unsaid = {
        step: found["extra"]
        for step, found in lacking.items()
        if not any(
            f"{name}[{found['extra']}]" in pages.get(step.partition(": ")[0], "")
            for name in ("assay-eval", '".')
        )
    }
    assert unsaid == {}


@pytest.mark.slow
def test_every_step_works_or_names_its_extra_with_the_wheel(tmp_path: Path) -> None:
    pip = [sys.executable, "-m", "pip"]
    subprocess.run([*pip, "wheel", "-q", "--no-deps", "-w", tmp_path, ROOT], check=True)
    venv.create(tmp_path / "alone", with_pip=True)
    (python,) = [*tmp_path.glob("alone/bin/python"), *tmp_path.glob("alone/Scripts/python.exe")]
    (wheel,) = tmp_path.glob("*.whl")
    names = {Path(name).name for name in zipfile.ZipFile(wheel).namelist() if "/licenses/" in name}
    assert names == {"LICENSE", "nanobind.txt", "robin-map.txt"}
    subprocess.run([python, "-m", "pip", "install", "-q", wheel], check=True)
    folder = tmp_path / "work"
    folder.mkdir()
    check_outcomes(outcomes_of([str(python)], [], folder, slow=True))


@cache
def optional_in(module: str) -> frozenset[str]:
    """Return the optional packages that come along when a module is imported."""
    return frozenset(name.partition(".")[0] for name in loaded_with(module)) - core_modules()


def test_modules_of_the_core_import_no_optional_package() -> None:
    wrong = {module: found for module in MODULES if (found := optional_in(module))}
    assert {module: found for module, found in wrong.items() if not module.startswith(ROOMS)} == {}
    assert {"assay.store.schema", "assay.web.app"} <= wrong.keys()


def called_name(node: ast.AST) -> str:
    function = getattr(node, "func", None)
    return str(getattr(function, "id", getattr(function, "attr", "")))


def is_guarded(node: ast.AST) -> bool:
    """Tell whether a block goes on where an import inside it fails."""
    if isinstance(node, ast.With):
        calls = [item.context_expr for item in node.items]
        return any(called_name(call) == "suppress" for call in calls)
    return isinstance(node, ast.Try) and any(
        "ImportError" in ast.unparse(handler.type) for handler in node.handlers if handler.type
    )


def unguarded_imports(function: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield the imports of optional packages in a function before anything calls `need`."""
    guards = [outer for outer in ast.walk(function) if is_guarded(outer)]
    inside = {inner for outer in guards for inner in ast.walk(outer)}
    calls = [node for node in ast.walk(function) if isinstance(node, ast.Call)]
    opened = min((node.lineno for node in calls if called_name(node) in OPENERS), default=10**9)
    for node in ast.walk(function):
        if node in inside or getattr(node, "lineno", 0) > opened:
            continue
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            full = [f"{node.module}.{alias.name}" for alias in node.names]
            names = [name if name in MODULES else str(node.module) for name in full]
        elif isinstance(node, ast.Call) and called_name(node) == "import_module":
            names = [one.value for one in node.args[:1] if isinstance(one, ast.Constant)]
        for name in names:
            packages = optional_in(name) if name in MODULES else {name.partition(".")[0]}
            if packages - core_modules():
                yield node.lineno, name


def test_functions_import_optional_packages_behind_need() -> None:
    wrong = {}
    for module in MODULES:
        if optional_in(module):
            continue  # it is behind `need` itself, with its package
        for node in ast.walk(tree(module)):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            if f"{module}.{node.name}" not in BEHIND:
                wrong |= {f"{module}:{line}": name for line, name in unguarded_imports(node)}
    assert wrong == {}


def test_an_unguarded_import_is_noticed() -> None:
    free = ast.parse("def draw():\n    import altair\n    from assay.store import schema")
    assert [name for _, name in unguarded_imports(free)] == ["altair", "assay.store.schema"]
    for guarded in (
        "def draw():\n    need('altair', 'A chart', 'report')\n    import altair",
        "def draw():\n    with suppress(ImportError):\n        import altair",
        "def draw():\n    try:\n        import altair\n    except ImportError:\n        pass",
    ):
        assert not [*unguarded_imports(ast.parse(guarded))]
    assert "numpy" in imported_at_the_top("assay.arrays")
    assert {"numpy", "click", "rich", "pygments"} <= core_modules()
    assert not core_modules() & {"markupsafe", "sqlalchemy", "yaml", "pytest"}
