"""Do the tests notice a wrong line? `python -m tests.mutation --sample 400` changes some.

Each mutant is one small change by cosmic-ray (a comparison, an operator, a number, a condition) in
core, measures, stats or comparison. It runs the tests that execute the changed line, shortest
first, and has survived if all of them pass. The first run measures which tests execute which lines
(`build/mutation`); it needs `pip install -e ".[mutation]"`.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path

import coverage
import hypothesis  # noqa: F401  loaded once here, not in every child
import numpy  # noqa: F401
import pytest
import scipy.stats  # noqa: F401
import statsmodels.api  # noqa: F401
from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator

ROOT = Path(__file__).parents[2]
WORK = ROOT / "build" / "mutation"
PACKAGES = ("core", "measures", "stats", "comparison")
TESTS = [
    *(f"tests/{name}" for name in (*PACKAGES, "scoring", "inspect", "peers")),
    "tests/properties/test_laws.py",
    *(
        f"tests/faults/test_{name}.py"
        for name in ("ids_and_labels", "judgments_and_runs", "statistics")
    ),
    *(f"src/assay/{name}" for name in PACKAGES),
]
PYTEST = ["-q", "-x", "-p", "no:cacheprovider", "-p", "no:xdist", "--no-header", "-W", "ignore"]
LONGEST = 60.0  # seconds of tests for one mutant, measured without other work

OPERATORS = """
ReplaceComparisonOperator_Lt_LtE ReplaceComparisonOperator_LtE_Lt ReplaceComparisonOperator_Gt_GtE
ReplaceComparisonOperator_GtE_Gt ReplaceComparisonOperator_Eq_NotEq
ReplaceComparisonOperator_NotEq_Eq ReplaceComparisonOperator_Lt_Gt
ReplaceComparisonOperator_Is_IsNot ReplaceComparisonOperator_IsNot_Is
ReplaceBinaryOperator_Add_Sub ReplaceBinaryOperator_Sub_Add ReplaceBinaryOperator_Mul_Div
ReplaceBinaryOperator_Div_Mul ReplaceBinaryOperator_FloorDiv_Div ReplaceBinaryOperator_Mod_Mul
ReplaceBinaryOperator_Pow_Mul ReplaceBinaryOperator_BitAnd_BitOr
ReplaceBinaryOperator_BitOr_BitAnd ReplaceBinaryOperator_LShift_RShift
ReplaceBinaryOperator_RShift_LShift
ReplaceUnaryOperator_USub_UAdd ReplaceUnaryOperator_Delete_USub ReplaceUnaryOperator_Delete_Invert
ReplaceUnaryOperator_Delete_Not
AddNot ReplaceTrueWithFalse ReplaceFalseWithTrue ReplaceAndWithOr ReplaceOrWithAnd
ReplaceBreakWithContinue ReplaceContinueWithBreak NumberReplacer ZeroIterationForLoop
"""


@dataclass(frozen=True)
class Mutant:
    """One change: the operator's n-th place in a file."""

    path: str
    line: int
    operator: str
    occurrence: int


def find_mutants() -> list[Mutant]:
    """All changes in the four packages, but for annotations, where a change is none."""
    return [
        mutant
        for package in PACKAGES
        for path in sorted((ROOT / "src/assay" / package).glob("*.py"))
        for mutant in _mutants_of(path)
    ]


def _mutants_of(path: Path) -> Iterator[Mutant]:
    text = path.read_text()
    quiet = _spans_that_do_nothing(ast.parse(text))
    nodes = list(ast_nodes(get_ast(text)))
    for name in OPERATORS.split():
        operator = get_operator(f"core/{name}")()
        places = [place for node in nodes for place in operator.mutation_positions(node)]
        for occurrence, (start, _) in enumerate(places):
            if not any(low <= start < high for low, high in quiet):
                yield Mutant(str(path.relative_to(ROOT)), start[0], name, occurrence)


Span = tuple[tuple[int, int], tuple[int, int]]


def _spans_that_do_nothing(tree: ast.AST) -> list[Span]:
    """Annotations, imports for type checkers only, and flags of data classes."""
    found: list[ast.AST] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.arg | ast.AnnAssign) and node.annotation:
            found.append(node.annotation)
        if isinstance(node, ast.FunctionDef) and node.returns:
            found.append(node.returns)
        if isinstance(node, ast.ClassDef):
            found += node.decorator_list
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            found.append(node)
    return [((n.lineno, n.col_offset), (n.end_lineno, n.end_col_offset)) for n in found]


def measure_tests() -> None:
    """Which tests execute which line, and how long each takes."""
    WORK.mkdir(parents=True, exist_ok=True)
    (WORK / "coveragerc").write_text(
        f"[run]\nsource = {','.join(str(ROOT / 'src/assay' / name) for name in PACKAGES)}\n"
        f"data_file = {WORK / 'coverage'}\ndynamic_context = test_function\n"
    )
    command = ["-m", "coverage", "run", f"--rcfile={WORK / 'coveragerc'}", "-m", "tests.mutation"]
    subprocess.run([sys.executable, *command, "--durations"], cwd=ROOT, check=True)


class Durations:
    """A pytest plug-in that notes how long each test took, and names doctests to coverage."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        running = coverage.Coverage.current()
        if running is not None and item.nodeid.startswith("src/"):
            running.switch_context(item.nodeid)
        start = time.perf_counter()
        result = yield
        self.seconds[item.nodeid] = time.perf_counter() - start
        return result


def _note_durations() -> None:
    plugin = Durations()
    code = pytest.main([*PYTEST[:1], *PYTEST[2:], *TESTS], plugins=[plugin])
    (WORK / "durations.json").write_text(json.dumps(plugin.seconds))
    if code:
        sys.exit(f"The tests fail without any mutant: {code}.")


class TestChoice:
    """The tests that execute a line, shortest first, up to `LONGEST` seconds."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = json.loads((WORK / "durations.json").read_text())
        self.data = coverage.CoverageData(str(WORK / "coverage"))
        self.data.read()
        self._lines: dict[str, dict[int, list[str]]] = {}
        self._tests: dict[str, list[str]] = {}
        for name in self.seconds:
            self._tests.setdefault(_context_of(name), []).append(name)

    def of(self, mutant: Mutant) -> list[str]:
        path = str(ROOT / mutant.path)
        if path not in self._lines:
            self._lines[path] = self.data.contexts_by_lineno(path)
        contexts = self._lines[path].get(mutant.line, [])
        tests = {name for context in contexts for name in self._tests.get(context, [])}
        if not tests:  # executed at import: the tests of its package
            folder = f"tests/{mutant.path.split('/')[2]}/"
            tests = {name for name in self.seconds if name.startswith(folder)}
        chosen, total = [], 0.0
        for name in sorted(tests, key=lambda name: (self.seconds[name], name)):
            total += self.seconds[name]
            if total > LONGEST and chosen:
                break
            chosen.append(name)
        return chosen


def _context_of(test: str) -> str:
    """How coverage calls a test: its function, without parameters."""
    path, *names = test.partition("[")[0].split("::")
    if path.startswith("src/"):
        return test
    return ".".join([path.removesuffix(".py").replace("/", "."), *names])


def survives(mutant: Mutant, tests: list[str], limit: float) -> bool:
    """Whether all tests pass on the changed file, which is put back afterwards."""
    path = ROOT / mutant.path
    text = path.read_text()
    changed = mutate_code(text, get_operator(f"core/{mutant.operator}")(), mutant.occurrence)
    if changed is None or changed == text:
        return False
    try:
        path.write_text(changed)
        return _pass(tests, limit)
    finally:
        path.write_text(text)


def _pass(tests: list[str], limit: float) -> bool:
    child = get_context("fork").Process(target=_run_quietly, args=(tests,))
    child.start()
    child.join(limit)
    if child.is_alive() and child.pid is not None:
        os.killpg(child.pid, signal.SIGKILL)
        child.join()
    return child.exitcode == 0


def _run_quietly(tests: list[str]) -> None:
    os.setsid()
    quiet = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(quiet, stream)
    sys.dont_write_bytecode = True
    os._exit(int(pytest.main([*PYTEST, *tests])))


def main() -> None:
    """Draw mutants, try them, and write the survivors down."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sample", type=int, default=400)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="only files whose path contains this")
    parser.add_argument("--again", help="a file of survivors to try again")
    parser.add_argument("--durations", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    os.chdir(ROOT)
    if options.durations:
        return _note_durations()
    if not (WORK / "durations.json").exists():
        measure_tests()
    choice = TestChoice()
    mutants = [m for m in find_mutants() if options.only in m.path]
    drawn = random.Random(options.seed).sample(mutants, min(options.sample, len(mutants)))
    if options.again:
        drawn = [Mutant(**row) for row in json.loads(Path(options.again).read_text())]
    survivors = []
    for done, mutant in enumerate(drawn, 1):
        tests = choice.of(mutant)
        limit = 60 + 10 * sum(choice.seconds[name] for name in tests)
        if not tests or survives(mutant, tests, limit):
            survivors.append(mutant)
            print(f"{mutant} survived {len(tests)} tests", flush=True)
        if done % 20 == 0 or done == len(drawn):
            killed = done - len(survivors)
            print(f"{done} of {len(mutants)} mutants: {killed / done:.1%} killed", flush=True)
            (WORK / "survivors.json").write_text(json.dumps([asdict(m) for m in survivors]))
    return None


if __name__ == "__main__":
    main()
