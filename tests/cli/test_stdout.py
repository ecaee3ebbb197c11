"""Standard output is for the result, whatever models print."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.vision.small_scenes import scene_folders

MODULE = """
import os

print("noise at import")

def encode(texts):
    print("noise of an encoder")
    os.system("echo noise of a program")
    return [[len(text), text.count("a"), 1.0] for text in texts]

def rerank(query, docs):
    print("noise of a reranker")
    return [float(len(doc)) for doc in docs]

def search(query, k):
    print("noise of a system")
    return ["d1", "d2"]

def judge(prompt):
    print("noise of a judge")
    return 1

def describe(image, keypoints):
    import numpy as np

    print("noise of a descriptor")
    return np.tile([1.0, 2.0], (len(keypoints), 1))
"""
CONFIG = 'corpus = "docs.jsonl"\nqueries = "queries.jsonl"\nqrels = "qrels.txt"\n'
CONFIG += '[[model]]\nspec = "py:noise:encode"\n'
SCENES = '[dataset]\npath = "scenes"\n[keypoints]\nstrongest = 20\n'
SCENES += '[[descriptors]]\nname = "x"\ntype = "noise:describe"\n'
BENCH = "bench --corpus docs.jsonl --queries queries.jsonl --qrels qrels.txt --no-cache --json"
TEXTS = "--queries queries.jsonl --docs docs.jsonl --json"

COMMANDS = {
    "encoder": f"{BENCH} --model py:noise:encode",
    "reranker": f"{BENCH} --model bm25 --rerank bm25>py:noise:rerank",
    "system": f"{BENCH} --system retrieve:noise:search",
    "config": "bench bench.toml --allow-code --no-cache --json",
    "explain": "explain bench.toml --query q --allow-code --json",
    "descriptors": "descriptors run scenes.toml --allow-code --fresh --json",
    "judge": f"judge pool.tsv --model py:noise:judge --labels out.jsonl {TEXTS}",
    "queries": "queries docs.jsonl --model py:noise:judge -n 1 -o written.jsonl --json",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    files = {
        "noise.py": MODULE,
        "bench.toml": CONFIG,
        "scenes.toml": SCENES,
        "docs.jsonl": '{"_id": "d1", "text": "an assay"}\n{"_id": "d2", "text": "a tie"}\n',
        "queries.jsonl": '{"_id": "q", "text": "assay"}\n',
        "qrels.txt": "q 0 d1 1\n",
        "a.run": "q Q0 d1 1 2 a\nq Q0 d2 2 1 a\n",
        "b.run": "q Q0 d2 1 2 b\nq Q0 d1 2 1 b\n",
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def run(folder: Path, line: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "assay", *line.split()],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder), "ASSAY_CACHE": str(folder / "cache")},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("name", COMMANDS)
def test_json_stays_json_when_a_model_prints(folder: Path, name: str) -> None:
    if name == "judge":
        made = run(folder, "pool a.run b.run -n 2 -o pool.tsv")
        assert made.returncode == 0, made.stderr
    if name == "descriptors":
        scene_folders(folder / "scenes")
    done = run(folder, COMMANDS[name])
    assert done.returncode == 0, done.stderr
    command = json.loads(done.stdout)["command"]
    assert COMMANDS[name].startswith(command)
    assert "noise at import" in done.stderr
    assert done.stderr.count("noise") > 1
