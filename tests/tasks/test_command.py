"""`assay tasks`: tables, stored runs, folders of mteb, and what is refused."""

from __future__ import annotations

import csv
import io
import json

import numpy as np
import pytest

from assay import store
from assay.cli.main import main
from assay.runs.record import RunRecord
from tests.comparison.made_scores import scores_of
from tests.tasks.test_mteb import entry, put

FEW = ["--resamples", "300"]


@pytest.fixture
def table(tmp_path):
    rng = np.random.default_rng(0)
    lines = ["system,task,query,value"]
    for task in ("NQ", "FiQA", "SciFact"):
        easy = rng.random(20)
        for system, lead in (("new", 0.3), ("old", 0.0), ("same", 0.0)):
            noise = 0.1 * rng.random(20)
            lines += [
                f"{system},{task},q{i},{value:.4f}" for i, value in enumerate(easy + lead + noise)
            ]
    path = tmp_path / "values.csv"
    path.write_text("\n".join(lines))
    return str(path)


def test_text(table, capsys) -> None:
    assert main(["tasks", table, *FEW, "--full"]) == 0
    shown = capsys.readouterr().out
    assert "new is better than both others on the mean over 3 tasks" in shown
    numbers, neighbours = shown.splitlines()[1:3]
    assert numbers.startswith("Closest competitor: same, lead +")
    assert neighbours == "1 of 2 neighbouring pairs of the ranking does not differ significantly"
    assert "Borda rank" in shown
    assert "within tasks: results hold for these tasks" in shown


def test_json_and_csv(table, capsys) -> None:
    assert main(["tasks", table, "--json", *FEW]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["command"] == "tasks"
    assert data["units"] == "queries"
    assert [one["queries"] for one in data["tasks"]] == [20, 20, 20]
    assert len(data["pairs"]) == 3
    assert data["standings"][0]["name"] == "new"
    assert set(data["standings"][0]["tasks"]) == {"NQ", "FiQA", "SciFact"}
    assert main(["tasks", table, "--format", "csv", *FEW]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [float(row["p"]) for row in rows] == [one["p"] for one in data["pairs"]]
    for layout in ("markdown", "latex", "tsv"):
        assert main(["tasks", table, "--format", layout, *FEW]) == 0


def test_few_tasks_decide_nothing(table, capsys) -> None:
    assert main(["tasks", table, "--units", "tasks", *FEW]) == 0
    assert "Too few tasks (3) to compare " in capsys.readouterr().out


def test_folders_of_mteb(tmp_path, capsys) -> None:
    for number in range(7):
        for model, score in (("org/a", 0.5), ("org/b", 0.3)):
            put(tmp_path, model, f"T{number}", entry(score + 0.01 * number**2 * score))
    assert main(["tasks", str(tmp_path), "--only", "T1", "--only", "T2", *FEW]) == 0
    assert "Too few tasks (2) to compare" in capsys.readouterr().out
    assert main(["tasks", str(tmp_path), "--json", *FEW]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["means_only"] is True
    assert data["pairs"][0]["winner"] == "org/a"
    assert main(["tasks", str(tmp_path), "--units", "queries"]) == 2
    assert "Only task means are known" in capsys.readouterr().err


def test_stored_runs(tmp_path, capsys) -> None:
    rng = np.random.default_rng(2)
    place = str(tmp_path / "runs.db")
    with store.open(place) as opened:
        for name, lead in (("new", 0.3), ("old", 0.0)):
            for dataset in ("NQ", "FiQA"):
                values = np.clip(0.5 * rng.random(30) + lead, 0, 1)
                tags = ["final"] if dataset == "NQ" else ["final", "small"]
                record = RunRecord(name, scores_of(values), dataset=dataset, tags=tags)
                opened.save(record)
    assert main(["tasks", "--store", place, *FEW]) == 0
    assert "new is better than old on the mean of RR over 2 tasks" in capsys.readouterr().out
    assert main(["tasks", "--store", place, "--tag", "small", "--json", *FEW]) == 0
    assert [one["name"] for one in json.loads(capsys.readouterr().out)["tasks"]] == ["FiQA"]
    assert main(["tasks", "--store", place, "--tag", "absent"]) == 2
    assert "no matching finished run" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["{table}", "--store", "x.db"], 2, "--store requires stored runs, but files are named"),
        (["{table}", "--tag", "x"], 2, "--tag requires stored runs, but files are named"),
        (["{table}", "--only", "SciFac"], 2, "Did you mean SciFact?"),
        (["{table}", "--units", "systems"], 2, "'systems' is not one of"),
        (["{table}.absent.csv"], 5, "absent"),
        (["{table}", "-o", "{table}"], 2, "is one of the inputs"),
    ],
)
def test_usage(arguments, code, words, table, capsys) -> None:
    assert main(["tasks", *(one.format(table=table) for one in arguments)]) == code
    said = capsys.readouterr().err
    assert words in said
    assert "Traceback" not in said


def test_missing(tmp_path, table, capsys) -> None:
    path = tmp_path / "fewer.csv"
    with open(table) as lines:
        path.write_text("".join(line for line in lines if not line.startswith("same,NQ")))
    assert main(["tasks", str(path)]) == 3
    assert "'same' lacks 'NQ'" in capsys.readouterr().err
    assert main(["tasks", str(path), "--missing", "drop-task", *FEW]) == 0
    assert "over 2 tasks" in capsys.readouterr().out


def test_nothing_is_named(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ASSAY_STORE", raising=False)
    assert main(["tasks"]) == 2
    assert "Name a table or a folder of mteb results" in capsys.readouterr().err
