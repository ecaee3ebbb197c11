"""Half a character (a lone surrogate) in whatever text comes in: a named error, never exit 70."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from assay.errors import FormatError, UsageError
from assay.io.formats import read_run
from assay.io.plain_data import parse_toml, parse_yaml
from assay.io.writers import write_run

HALF = "\ud800"
RUN = {"q1": {"a": 2.0, "b": 1.0}, "q2": {"a": 1.0}}
QRELS = {"q1": {"a": 1}, "q2": {"a": 1}}
ROWS = [
    {"system": system, "task": task, "value": value}
    for task in ("t1", "t2")
    for system, value in (("s1", 0.5), ("s2", 0.25))
]
BOTH = "--modality a=d.npy --modality b=d.npy"
# A file of each kind that holds text in JSON or YAML, and the commands that read it.
INPUTS: dict[str, tuple[Any, tuple[str, ...]]] = {
    "r.json": (
        RUN,
        (
            "eval r.json -r qrels.json --allow-mismatch --save --store s.db",
            "check r.json qrels.json",
            "convert r.json o.txt",
            "fuse r.json run.json -o f.run",
            "compare r.json run.json -r qrels.json --allow-mismatch --resamples 100 -o o.md",
        ),
    ),
    "q.json": (QRELS, ("eval run.json -r q.json --allow-mismatch -o o.csv",)),
    "t.json": (ROWS, ("tasks t.json --resamples 20 --save --store s.db -o o.json",)),
    "m.json": (
        {"shards": [{"path": "d.npy", "ids": "d.txt"}]},
        ("rank d.npy m.json -k 1 -o o.run", "rank d.npy m.json --dry-run"),
    ),
    "map.json": (
        {"a": "x", "b": "y"},
        (f"crossmodal {BOTH} --labels l.json --label-map c=map.json",),
    ),
    "e.yaml": (
        {"name": "n", "dataset": {"path": "none"}, "descriptors": [{"name": "x", "type": "SIFT"}]},
        ("descriptors run e.yaml --save --store s.db", "descriptors match e.yaml"),
    ),
}


def spoiled(data: Any) -> Iterator[Any]:
    """The data with half a character in one of its texts or keys, for each of them."""
    parts = data.items() if isinstance(data, dict) else enumerate(data)
    for key, value in parts:
        if isinstance(key, str):
            yield {k + HALF if k == key else k: v for k, v in data.items()}
        texts = [value + HALF] if isinstance(value, str) else []
        for other in texts or (spoiled(value) if isinstance(value, dict | list) else ()):
            again = dict(data) if isinstance(data, dict) else list(data)
            again[key] = other
            yield again


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name, data in (("run", RUN), ("qrels", QRELS), ("l", ["a", "b", "a"])):
        (tmp_path / f"{name}.json").write_text(json.dumps(data))
    np.save("d.npy", np.eye(3, dtype=np.float32))
    (tmp_path / "d.txt").write_text("a\nb\nc\n")
    return tmp_path


@pytest.mark.parametrize("name", INPUTS)
def test_half_a_character_in_a_file(folder, assay, name):
    data, commands = INPUTS[name]
    for bad in spoiled(data):
        (folder / name).write_text(json.dumps(bad))
        for command in commands:
            answer = assay(*command.split())
            assert answer.code < 6, (bad, command, answer.err)
            assert "--resamples" not in answer.err


def test_half_a_character_in_a_config_is_named():
    with pytest.raises(FormatError, match="NUL or half a character"):
        parse_yaml('name: "\\ud800"', "e.yaml")
    with pytest.raises(FormatError, match=r"bench\.toml"):
        parse_toml('name = "\\ud800"', "bench.toml")


@pytest.mark.skipif(os.name != "posix", reason="names of files are bytes")
def test_names_of_files_that_are_not_utf8(folder, assay):
    name = os.fsdecode(b"\xff\xfe.run")
    (folder / name).write_text("q1 Q0 a 1 2 t\nq2 Q0 a 1 1 t\n")
    for command in (
        ["eval", name, "-r", "qrels.json", "--save", "--store", "s.db", "-o", "o.json"],
        ["report", name, "-r", "qrels.json", "--resamples", "100", "-o", "o.html"],
        ["rank", "d.npy", "d.npy", "-k", "1", "-o", name],
    ):
        assert assay(*command).code == 0
    answer = assay("rank", "d.npy", "d.npy", "-k", "1", "-o", "o.run", "--tag", name)
    assert answer.code == 2
    assert "must be one word" in answer.err
    with pytest.raises(UsageError, match="one word"):
        write_run(read_run("run.json"), "o.txt", tag=HALF)
