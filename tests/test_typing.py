"""What a type checker says of right and wrong calls, and that it is not told that all is right."""

from __future__ import annotations

import re
from importlib import import_module
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


STUBS = sorted((Path(assay.__file__).parent).rglob("__init__.pyi"))


def test_every_room_and_the_package_have_a_stub():
    packages = {path.parent.name for path in STUBS}
    rooms = {path.parent.name for path in Path(assay.__file__).parent.glob("*/plugin.py")}
    assert rooms - packages <= {"compat", "search", "store", "verify"}
    assert "assay" in packages


@pytest.mark.parametrize("stub", STUBS, ids=lambda path: path.parent.name)
def test_every_name_of_a_stub_is_there(stub):
    parts = stub.parent.relative_to(Path(assay.__file__).parents[1]).parts
    module = import_module(".".join(parts))
    names = re.findall(r"import (?:\(\s*)?\w+ as (\w+)", stub.read_text("utf-8"))
    assert names
    assert {name for name in names if not hasattr(module, name)} == set()
    assert set(names) <= set(dir(module))


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
