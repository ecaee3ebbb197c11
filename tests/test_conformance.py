"""Assay agrees with every conformance vector, and the vectors are what their generator writes."""

from __future__ import annotations

import importlib.util
import json
import math
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "conformance" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


run, generator = load("run"), load("make_vectors")
VECTORS = run.read_vectors()


@pytest.fixture(scope="module")
def answers() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = run.ask("assay", VECTORS)
    return found


def test_assay_agrees_everywhere(answers: list[dict[str, Any]]) -> None:
    outcomes = [run.judge(*pair) for pair in zip(VECTORS, answers, strict=True)]
    assert not [one for one in outcomes if one.state in (run.OTHER, run.UNSUPPORTED)]
    exact = [one for one in outcomes if one.state == run.SAME]
    assert len(exact) >= 0.83 * len(outcomes)


def test_assay_is_at_most_one_unit_of_the_last_place_away(answers: list[dict[str, Any]]) -> None:
    for vector, answer in zip(VECTORS, answers, strict=True):
        expected = vector["expected"]
        if "refused" in expected:
            continue
        values = {**answer["per_query"], "the mean": answer["mean"]}
        for query, value in {**expected["per_query"], "the mean": expected["mean"]}.items():
            if value is not None:
                right = float.fromhex(value["hex"])
                assert abs(values[query] - right) <= math.ulp(right), (vector["id"], query)


def test_the_vectors_are_what_the_generator_writes() -> None:
    for file, found in generator.vectors().items():
        stored = (ROOT / "conformance" / "vectors" / f"{file}.json").read_text("utf-8")
        assert generator.text_of(found) == stored


def test_vectors_are_many_and_distinct() -> None:
    assert len({one["id"] for one in VECTORS}) == len(VECTORS) > 400
    for one in VECTORS:
        values = one["expected"].get("per_query", {}).values()
        assert all(float(v["decimal"]) == float.fromhex(v["hex"]) for v in values if v)


def test_a_wrong_value_is_noticed() -> None:
    vector = next(one for one in VECTORS if one["id"] == "binary/plain/AP")
    right = float.fromhex(vector["expected"]["mean"]["hex"])

    def state(value: Any, **more: Any) -> str:
        answer = {"per_query": {"q": value}, "mean": value, **more}
        return str(run.judge(vector, answer).state)

    assert state(right) == run.SAME
    assert state(right + 2 * math.ulp(right)) == run.NEAR
    assert state(right + 1e-9) == state(None) == state(math.nan) == run.OTHER
    assert state(round(right, 4), digits=4) == run.NEAR
    assert state(round(right, 4) + 1e-4, digits=4) == run.OTHER
    assert run.judge(vector, {"refused": "no"}).state == run.OTHER
    assert run.judge(vector, {"unsupported": "no"}).state == run.UNSUPPORTED


def test_a_value_where_there_is_none_is_noticed() -> None:
    vector = next(one for one in VECTORS if one["id"] == "input/document twice/AP")
    assert run.judge(vector, {"per_query": {}, "mean": 0.5}).state == run.OTHER
    assert run.judge(vector, {"refused": "twice"}).state == run.SAME


def test_a_command_is_an_adapter(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = tmp_path / "adapter.script"
    script.write_text(
        "import json, sys\n"
        "cases = json.load(sys.stdin)['cases']\n"
        "answers = [{'per_query': {'q': 1.0}, 'mean': 1.0} for _ in cases]\n"
        "answers[0] = {'unsupported': 'for once'}\n"
        "json.dump({'answers': answers}, sys.stdout)\n"
    )
    code = run.main(["--adapter", f"{sys.executable} {script}", "--only", "binary/all relevant"])
    assert code == 0
    assert "7 =" in capsys.readouterr().out


def test_a_python_file_is_an_adapter(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "half.py"
    file.write_text("def evaluate(case):\n    return {'per_query': {'q': 0.5}, 'mean': 0.5}\n")
    assert run.main(["--adapter", str(file), "--only", "binary/plain", "--markdown"]) == 1
    assert "`binary/plain/P@1`: mean: expected 1.0, found 0.5" in capsys.readouterr().out


def test_the_page_has_the_counts_of_today(answers: list[dict[str, Any]]) -> None:
    page = (ROOT / "docs" / "conformance.md").read_text("utf-8")
    outcomes = [run.judge(*pair) for pair in zip(VECTORS, answers, strict=True)]
    row = next(line for line in page.splitlines() if line.startswith("| all |"))
    assert row.split(" | ")[1:3] == [str(len(VECTORS)), run._cell(outcomes)]


@pytest.mark.parametrize(
    "name", ["pytrec_eval", "ir_measures", pytest.param("sklearn", marks=pytest.mark.slow)]
)
def test_peers_answer(name: str) -> None:
    pytest.importorskip(name)
    few = [one for one in VECTORS if one["id"].startswith(("ties/all retrieved", "binary/last"))]
    states = [one.state for one in run.run(name, few)]
    assert run.OTHER not in states
    assert run.SAME in states


def test_json_is_plain() -> None:
    for file in (ROOT / "conformance" / "vectors").glob("*.json"):
        assert json.loads(file.read_text("utf-8"))["format"] == generator.FORMAT


@pytest.mark.parametrize(
    "answer",
    [
        None,
        [],
        "0.5",
        {"mean": "0.5"},
        {"mean": True},
        {"mean": 10**400},
        {"mean": [0.5]},
        {"mean": 0.5, "per_query": None},
        {"mean": 0.5, "per_query": [1]},
        {"mean": 0.5, "digits": 0},
        {"mean": 0.5, "digits": -3},
        {"mean": 0.5, "digits": "4"},
        {"mean": float("nan")},
        {"mean": float("inf")},
        {},
    ],
)
def test_what_is_no_answer_agrees_nowhere(answer: Any) -> None:
    vector = next(one for one in VECTORS if one["expected"].get("mean"))
    assert run.judge(vector, answer).state == run.OTHER


@pytest.mark.parametrize(
    "adapter",
    [
        "",
        "no-such-program",
        "no_such.py",
        "'",
        "echo hi",
        "echo {}",
        "echo []",
        "false",
        "broken.py",
    ],
)
def test_an_adapter_that_cannot_be_asked_is_named(
    adapter: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("broken.py").write_text("evaluate = (")
    with pytest.raises(SystemExit) as stop:
        run.main(["--adapter", adapter, "--only", "binary/plain/P@1"])
    assert stop.value.code == 2
    assert "Traceback" not in capsys.readouterr().err
