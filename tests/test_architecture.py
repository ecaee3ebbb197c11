"""The floor plan holds: imports at the top of files, no cycle, one class to a name."""

from __future__ import annotations

import ast
import importlib
import re
import tomllib
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[1] / "src"
# Packages that take long to import: modules that need them may be imported inside functions.
HEAVY = {
    "alembic",
    "altair",
    "bm25s",
    "cv2",
    "faiss",
    "fsspec",
    "jinja2",
    "onnxruntime",
    "pandas",
    "polars",
    "pyarrow",
    "ray",
    "rich",
    "scipy",
    "sklearn",
    "sqlalchemy",
    "starlette",
    "tokenizers",
    "torch",
    "uvicorn",
    "vl_convert",
    "yaml",
}
START = "assay.__main__"  # it hears signals before it imports
PEERS = ("assay.compat.ranx", "assay.compat.ir_measures")  # whose classes have their names
INDENTED = re.compile(r"^\s+(?:from|import)\b|[:;]\s*(?:from|import)\b", re.M)
SLEEP = re.compile(r"\btime\.sleep\(")


def module_name(path: Path) -> str:
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(path): path for path in (SOURCE / "assay").rglob("*.py")}


@cache
def tree(module: str) -> ast.Module:
    return ast.parse(MODULES[module].read_text("utf-8"))


def targets(node: ast.Import | ast.ImportFrom) -> Iterator[str]:
    """Modules that a statement imports."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
        return
    for alias in node.names:
        full = f"{node.module}.{alias.name}"
        yield full if full in MODULES else str(node.module)


@cache
def imported_at_the_top(module: str) -> frozenset[str]:
    nodes = tree(module).body  # what stands below `if TYPE_CHECKING` is not imported
    imports = [node for node in nodes if isinstance(node, ast.Import | ast.ImportFrom)]
    return frozenset(target for node in imports for target in targets(node))


def imported_in_functions(module: str) -> Iterator[str]:
    if not INDENTED.search(MODULES[module].read_text("utf-8")):
        return
    for outer in statements(tree(module)):
        if isinstance(outer, ast.FunctionDef | ast.AsyncFunctionDef):
            for node in statements(outer):
                if isinstance(node, ast.Import | ast.ImportFrom):
                    yield from targets(node)


def statements(outer: ast.AST) -> Iterator[ast.AST]:
    """All statements within; expressions, which are most of a tree, hold none."""
    for field in ("body", "orelse", "finalbody", "handlers", "cases"):
        for inner in getattr(outer, field, ()):
            yield inner
            yield from statements(inner)


@cache
def loaded_with(module: str) -> frozenset[str]:
    """Everything that comes along when a module is imported, the packages around it included."""
    found: set[str] = set()
    waiting = [module]
    while waiting:
        one = waiting.pop()
        parts = one.split(".")
        for name in (".".join(parts[: i + 1]) for i in range(len(parts))):
            if name not in found:
                found.add(name)
                waiting += imported_at_the_top(name) if name in MODULES else ()
    return frozenset(found)


def is_heavy(module: str) -> bool:
    # The names of the store and the dashboard load their packages when they are first used.
    lazy = module in ("assay.store", "assay.web")
    return lazy or bool({name.split(".")[0] for name in loaded_with(module)} & HEAVY)


def is_command(module: str) -> bool:
    """Whether it declares commands, which load what they compute with when they run."""
    return module.startswith("assay.cli.") or module.endswith("command")


def test_functions_import_only_what_is_heavy() -> None:
    wrong = {
        (module, target)
        for module in MODULES
        if module != START and not is_command(module)
        for target in imported_in_functions(module)
        if target.split(".")[0] == "assay" and not is_heavy(target)
    }
    assert not wrong


def on_demand(module: str) -> set[str]:
    """Modules of ours that stand in a call of `OnDemand`."""
    if "OnDemand(" not in MODULES[module].read_text("utf-8"):
        return set()
    calls = [node for node in ast.walk(tree(module)) if isinstance(node, ast.Call)]
    found = [one for one in calls if isinstance(one.func, ast.Name) and one.func.id == "OnDemand"]
    return {str(ast.literal_eval(one.args[0])) for one in found} & MODULES.keys()


def test_what_is_loaded_on_demand_is_no_way_upwards() -> None:
    pairs = {(module, target) for module in MODULES for target in on_demand(module)}
    assert pairs
    assert not {(module, target) for module, target in pairs if _layer(target) > _layer(module)}


def _layer(module: str) -> int:
    """The place of a module in the contract, from the bottom."""
    contract = tomllib.loads((SOURCE.parent / "pyproject.toml").read_text("utf-8"))
    layers = contract["tool"]["importlinter"]["contracts"][0]["layers"][::-1]
    package = ".".join(module.split(".")[:2])
    return next(place for place, line in enumerate(layers) if package in line.split(" : "))


def test_every_module_loads() -> None:
    """Whatever of the optional packages is there."""
    for module in MODULES.keys() - {START}:
        importlib.import_module(module)


def test_no_two_classes_have_one_name() -> None:
    names = Counter(
        node.name
        for module in MODULES
        if not module.startswith(PEERS)
        for node in tree(module).body
        if isinstance(node, ast.ClassDef)
    )
    assert not [name for name, count in names.items() if count > 1]


def test_modules_import_each_other_in_one_direction() -> None:
    own = {
        module: {one for one in imported_at_the_top(module) | on_demand(module) if one in MODULES}
        - {"assay"}
        for module in MODULES
    }
    while free := {module for module, wanted in own.items() if not wanted & own.keys()}:
        own = {module: wanted for module, wanted in own.items() if module not in free}
    assert not own


def test_no_test_sleeps() -> None:
    """A test waits for what it can see (`tests.waiting.until`): a fixed time fails under load."""
    tests = Path(__file__).parent
    found = [path.name for path in tests.rglob("*.py") if SLEEP.search(path.read_text("utf-8"))]
    assert not found


def test_the_page_is_what_its_script_writes() -> None:
    """Else write it again: python -m docs.architecture --write."""
    from docs.architecture import PAGE, write_tables

    assert PAGE.read_text("utf-8").partition("## Walks")[0] == write_tables()


# Private names that tests may use: those of other packages, of named tuples and of the kernels.
PRIVATE = re.compile(
    r"from assay[\w.]* import [^\n]*\b_[a-z]|\bsetattr\([^,\n]+, \"_[a-z]"
    r"|(?<!self)(?<!cls)(?<!native)(?<!sys)(?<!os)\._(?!replace|asdict|fields|make|repr_)[a-z]\w+"
)
OF_OTHERS = (
    *("registry._registry", "mteb._evaluators", "ray._private", "_ipython", "run._cell"),
    *("importlib._bootstrap", "imports._find_and_load", "session._setupstate"),
)


def test_no_test_uses_a_private_name_of_the_package() -> None:
    files = [
        path for path in Path(__file__).parent.rglob("*.py") if path.name != "test_architecture.py"
    ]
    lines = [
        f"{path.name}: {line.strip()}"
        for path in files
        for line in path.read_text("utf-8").splitlines()
        if PRIVATE.search(line) and not any(name in line for name in OF_OTHERS)
    ]
    assert not lines, "\n".join(lines)
