"""Do the tests notice a wrong line? `python -m tests.mutation --sample 400` changes some.

Each mutant is one small change by cosmic-ray (a comparison, an operator, a number, a condition) in
core, measures, stats or comparison. It runs the tests that execute the changed line, recorded
commands among them, shortest first, and has survived if all of them pass. The first run measures
which tests execute which lines (`build/mutation`); it needs `pip install -e ".[mutation]"`.
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
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from itertools import islice
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
DURATIONS = WORK / "durations.json"
PACKAGES = ("core", "measures", "stats", "comparison")
TESTS = [
    *(f"tests/{name}" for name in (*PACKAGES, "scoring", "inspect", "peers")),
    "tests/properties/test_laws.py",
    "tests/golden/test_commands.py",
    "tests/io/test_plain_data.py",
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
    """Annotations, imports for type checkers only, flags of data classes, and strict zips.

    What is zipped has one length wherever the program is right, so that `strict` changes nothing.
    """
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
        if isinstance(node, ast.keyword) and ast.unparse(node) == "strict=True":
            found.append(node)
    return [((n.lineno, n.col_offset), (n.end_lineno, n.end_col_offset)) for n in found]


def measure_tests(tests: list[str]) -> None:
    """Which of these tests execute which line, and how long each takes."""
    WORK.mkdir(parents=True, exist_ok=True)
    (WORK / "coveragerc").write_text(
        f"[run]\nsource = {','.join(str(ROOT / 'src/assay' / name) for name in PACKAGES)}\n"
        f"data_file = {WORK / 'coverage'}\n"
    )
    measured = ["-m", "coverage", "run", "--append", f"--rcfile={WORK / 'coveragerc'}"]
    command = [sys.executable, *measured, "-m", "tests.mutation", "--durations", *tests]
    subprocess.run(command, cwd=ROOT, check=True)


class Durations:
    """A pytest plug-in that notes how long each test took, and tells coverage which one runs.

    What a fixture executes may serve all tests of its file, so the file is its context.
    """

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        _switch_context(_file_of(item.nodeid))
        start = time.perf_counter()
        result = yield
        self.seconds[item.nodeid] = time.perf_counter() - start
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[None]:
        _switch_context(item.nodeid)
        result = yield
        _switch_context(_file_of(item.nodeid))
        return result


def _switch_context(name: str) -> None:
    running = coverage.Coverage.current()
    if running is not None:
        running.switch_context(name)


def _file_of(test: str) -> str:
    return test.partition("::")[0]


def _note_durations(tests: list[str]) -> None:
    plugin = Durations()
    code = pytest.main([*PYTEST[:1], *PYTEST[2:], *tests], plugins=[plugin])
    if code:
        sys.exit(f"The tests fail without any mutant: {code}.")
    measured = {_file_of(name) for name in plugin.seconds}
    before = json.loads(DURATIONS.read_text()) if DURATIONS.exists() else {}
    kept = {name: one for name, one in before.items() if _file_of(name) not in measured}
    DURATIONS.write_text(json.dumps({**kept, **plugin.seconds}))


class TestChoice:
    """The tests that execute a line, shortest first, up to `LONGEST` seconds."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = json.loads(DURATIONS.read_text())
        self.data = coverage.CoverageData(str(WORK / "coverage"))
        self.data.read()
        self._lines: dict[str, dict[int, list[str]]] = {}
        self._tests: dict[str, list[str]] = {}
        for name in self.seconds:
            self._tests.setdefault(name, []).append(name)
            self._tests.setdefault(_file_of(name), []).append(name)

    def of(self, mutant: Mutant) -> list[str]:
        path = str(ROOT / mutant.path)
        if path not in self._lines:
            self._lines[path] = self.data.contexts_by_lineno(path)
        tests: set[str] = set()
        if _in_a_function(Path(path), mutant.line):
            tests = self._in(self._lines[path].get(mutant.line, []))
        near = ""
        if not tests:  # executed at import, by whichever test comes first
            near = f"tests/{mutant.path.split('/')[2]}/"
            tests = self._in(context for row in self._lines[path].values() for context in row)
            tests |= {name for name in self.seconds if name.startswith(near)}
        chosen, total = [], 0.0
        order = sorted(tests, key=lambda name: (self.seconds[name], name))
        for name in sorted(order, key=lambda name: not name.startswith(near)):
            total += self.seconds[name]
            if total > LONGEST and chosen:
                break
            chosen.append(name)
        return chosen

    def _in(self, contexts: Iterable[str]) -> set[str]:
        return {name for context in contexts for name in self._tests.get(context, [])}


def _in_a_function(path: Path, line: int) -> bool:
    functions = (n for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.FunctionDef))
    return any(node.body[0].lineno <= line <= (node.end_lineno or 0) for node in functions)


def changed_text(mutant: Mutant) -> str | None:
    """The changed file, None where it is the same program."""
    text = (ROOT / mutant.path).read_text()
    changed = mutate_code(text, get_operator(f"core/{mutant.operator}")(), mutant.occurrence)
    return None if changed is None or _tree(changed) == _tree(text) else changed


def _tree(text: str) -> str:
    return ast.dump(ast.parse(text))


def survives(mutant: Mutant, tests: list[str], limit: float) -> bool:
    """Whether all tests pass on the changed file, which is put back afterwards."""
    path = ROOT / mutant.path
    text = path.read_text()
    try:
        path.write_text(changed_text(mutant) or text)
        code = _code(tests, limit)
    finally:
        path.write_text(text)
    if code not in (0, 1) and _code(["--collect-only", *tests], limit):
        sys.exit("Some tests are gone: remove build/mutation and measure again.")
    return code == 0


def _code(tests: list[str], limit: float) -> int | None:
    """How pytest ends: 0 if all tests pass, 1 if one fails, less than 0 after the time limit."""
    child = get_context("fork").Process(target=_run_quietly, args=(tests,))
    child.start()
    child.join(limit)
    if child.is_alive() and child.pid is not None:
        os.killpg(child.pid, signal.SIGKILL)
        child.join()
    return child.exitcode


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
    parser.add_argument(
        "--measure", nargs="+", metavar="FILE", help="tests that are new or changed"
    )
    parser.add_argument("--durations", nargs="*", help=argparse.SUPPRESS)
    options = parser.parse_args()
    os.chdir(ROOT)
    if options.durations:
        return _note_durations(options.durations)
    if options.measure or not DURATIONS.exists():
        measure_tests(options.measure if DURATIONS.exists() else TESTS)
    choice = TestChoice()
    mutants = [m for m in find_mutants() if options.only in m.path]
    drawn = _draw(mutants, options.sample, options.seed)
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


def _draw(mutants: list[Mutant], size: int, seed: int) -> list[Mutant]:
    shuffled = random.Random(seed).sample(mutants, len(mutants))
    return list(islice(filter(changed_text, shuffled), size))


if __name__ == "__main__":
    main()
