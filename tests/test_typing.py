"""What a type checker says of right and wrong calls, and that it is not told that all is right."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import assay

# A call, and what is wrong with it.
WRONG = {
    "assay.evalute(run, qrels)": 'has no attribute "evalute"',
    "assay.report.mak_report([])": 'has no attribute "mak_report"',
    "assay.evaluate(3, qrels)": 'Argument 1 to "evaluate"',
    "assay.evaluate(run, None)": 'Argument 2 to "evaluate"',
    "assay.evaluate(run, qrels, 7)": 'Argument 3 to "evaluate"',
    "assay.evaluate(run, qrels, ties='expectd')": 'Argument "ties" to "evaluate"',
    "assay.evaluate(run, qrels, tie='expected')": 'Unexpected keyword argument "tie"',
    "assay.evaluate({'q': {'a': 'high'}}, qrels)": 'Argument 1 to "evaluate"',
    "assay.compare(3, 4)": 'Argument 1 to "compare"',
    "assay.fuse(5)": 'Argument 1 to "fuse"',
    "assay.explain(run, qrels, query='q', measure=1)": 'Argument "measure" to "explain"',
}
RIGHT = """
from pathlib import Path

import numpy as np

import assay

run = {"q": {"a": 0.5}}
qrels = {"q": {"a": 1}}
scores: assay.Scores = assay.evaluate(run, qrels, "RR", ties="expected", depth=10)
assay.evaluate("run.txt", Path("qrels.txt"), ["RR", assay.parse("AP")])
assay.evaluate([("q", "a", 0.5)], [("q", "a", 1)])
assay.evaluate({"q": ["a", "b"]}, {"q": {"a"}})
assay.evaluate({"q": {"a": np.float32(1)}}, {1: {2: np.int64(1)}})
assay.evaluate(assay.read_run("r"), assay.read_qrels("q"))
assay.compare({"a": scores, "b": run}, qrels, ["RR"], ties="best", resamples=500).to_frame()
assay.compare(scores, scores, names=["a", "b"], measures="RR").to_latex()
assay.fuse(["a.txt", "b.txt"])
assay.rank(np.ones((2, 3)), np.ones((4, 3)), 2, doc_ids=["a", "b", "c", "d"])
assay.report.make_report({"a": scores})
assay.stats.intervals([[0.5]])
means: dict[str, object] = scores.mean().to_dict()
"""


_SOURCE = Path(assay.__file__).parent


def _doors() -> dict[str, ast.Module]:
    """The modules that any name opens while the program runs."""
    texts = {str(path): path.read_text("utf-8") for path in _SOURCE.rglob("*.py")}
    trees = {name: ast.parse(text) for name, text in texts.items() if "__getattr__" in text}
    return {
        name: tree
        for name, tree in trees.items()
        if any(getattr(one, "name", "") == "__getattr__" for one in _functions(tree))
    }


def _functions(tree: ast.Module) -> Iterator[ast.stmt]:
    """The functions of a module, in its branches, too; not the methods of classes."""
    for statement in tree.body:
        yield from statement.body if isinstance(statement, ast.If) else [statement]


def test_checkers_do_not_see_the_doors_that_any_name_opens():
    doors = _doors()
    assert len(doors) == 6
    for name, tree in doors.items():
        hidden = [
            one
            for branch in tree.body
            if isinstance(branch, ast.If) and ast.unparse(branch.test) == "not TYPE_CHECKING"
            for one in branch.body
        ]
        assert "__getattr__" in [getattr(one, "name", "") for one in hidden], name


def test_every_name_is_imported_for_checkers():
    tree = ast.parse(Path(assay.__file__).read_text("utf-8"))
    (told,) = [
        branch
        for branch in tree.body
        if isinstance(branch, ast.If) and ast.unparse(branch.test) == "TYPE_CHECKING"
    ]
    imported = {
        alias.name for node in told.body if isinstance(node, ast.ImportFrom) for alias in node.names
    }
    assert imported == {*assay.__all__, *assay._PACKAGES}


@pytest.mark.slow
def test_right_calls_pass_and_wrong_ones_are_found(tmp_path):
    api = pytest.importorskip("mypy.api")
    (tmp_path / "right.py").write_text(RIGHT)
    head = "import assay\nrun = {'q': {'a': 0.5}}\nqrels = {'q': {'a': 1}}\n"
    (tmp_path / "wrong.py").write_text(head + "".join(f"{call}\n" for call in WRONG))
    files = [str(tmp_path / name) for name in ("right.py", "wrong.py")]
    cache = str(Path(__file__).parents[1] / ".mypy_cache")
    found, trouble, _ = api.run(["--strict", "--no-pretty", "--cache-dir", cache, *files])
    assert not trouble
    lines = re.findall(r"(right|wrong)\.py:(\d+): error: (.*)", found)
    assert not [line for line in lines if line[0] == "right"]
    for number, (call, words) in enumerate(WRONG.items(), 4):
        said = [text for _, at, text in lines if int(at) == number]
        assert any(words in text for text in said), (call, said)
