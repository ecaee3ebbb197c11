"""What once ended in a raw exception or an internal error, kept: each has its message now."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import numpy as np
import pytest

from assay.bench.config import read_config
from assay.cli.main import main
from assay.cluster.jobs import ShardCheckpoint
from assay.core.ids import Ids
from assay.errors import AssayError
from assay.io.collections import load_collection
from assay.io.columns import read_groups
from assay.io.formats import read_qrels, read_run
from assay.io.texts import ChunkRule
from assay.measures import parse_many
from assay.search.safetensors import load_safetensors
from assay.tasks.tables import read_mteb, read_task_lines
from assay.vision.ground_truth import read_homography
from assay.vision.keypoints import read_keypoints
from assay.vision.patches import read_patch_scenes
from assay.vision.scenes import find_scenes
from assay.vision.settings import read_experiment
from tests.fuzz.seeds import delimited, parquet

LONG = "9" * 5000
HUGE = ("1e999", "1" + "0" * 400, "-1" + "0" * 400)


def npy_file(shape: str, descr: str = "<f8", body: bytes = b"") -> bytes:
    header = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}".encode()
    size = 64 * ((len(header) + 11 + 63) // 64) - 10
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", size) + header.ljust(size - 1) + b"\n" + body


def tensor(**entry) -> bytes:
    entry = {"dtype": "F32", "shape": [1], "data_offsets": [0, 4], **entry}
    header = json.dumps({"docs": entry}).replace('"RAW', "").replace('WAR"', "").encode()
    return struct.pack("<Q", len(header)) + header + bytes(4)


def yaml(line: str) -> bytes:
    return f"dataset: {{path: demo}}\ndescriptors: [sift]\n{line}\n".encode()


def groups(path):
    return read_groups(f"{path}:{LONG}", Ids.of(["q1"], "query"))


TOML = b"descriptors = ['sift']\n[dataset]\npath = 'demo'\n[evaluation]\ntau = 1e400\n"
CASES = {
    "npy 10^30": ("s.npy", npy_file("(0, 10000000000000000000000000000000)"), read_run, "shape"),
    "npy 2^62": ("s.npy", npy_file("(0, 4611686018427387904)"), read_run, "shape"),
    "npy 65 dimensions": ("s.npy", npy_file("(" + "0," * 65 + ")"), read_run, "shape"),
    "npy no characters": ("s.npy", npy_file("(1000000000,)", "<U0"), read_run, "Save numbers or"),
    "npy no character": ("s.npy", npy_file("(1,)", "<U1", b"\xff" * 4), read_run, "a character"),
    "parquet not UTF-8": ("r.parquet", parquet().replace(b"q1", b"\xff1"), read_run, "UTF8"),
    "yaml date": ("e.yaml", yaml("evaluation: {tau: 2020-13-45}"), read_experiment, "line 3"),
    "yaml list as key": ("e.yaml", yaml("? [a, b]\n: c"), read_experiment, "line 3: a key is"),
    "yaml digits": ("e.yaml", yaml(f"evaluation: {{tau: {LONG}}}"), read_experiment, "line 3"),
    "yaml hexadecimal": ("e.yaml", yaml(f"seed: 0x{'f' * 5000}"), read_experiment, "20000 bits"),
    "yaml infinity": ("e.yaml", yaml("evaluation: {tau: 1.0e+400}"), read_experiment, "tau"),
    "yaml NUL": ("e.yaml", yaml('name: "a\\0b"'), read_experiment, "NUL"),
    "toml infinity": ("e.toml", TOML, read_experiment, "tau"),
    "toml digits": ("b.toml", f"depth = {LONG}".encode(), read_config, "not TOML"),
    "toml deep": ("b.toml", b"a=" + b"[" * 20_000, read_config, "too deeply"),
    "toml deep keys": ("b.toml", b"a." * 5_000 + b"a = 1", read_config, "too deeply"),
    "toml NUL": ("b.toml", b'corpus = "a\\u0000b"', read_config, "NUL"),
    "csv stray CR": ("w.csv", b"id,x,y,size\n0,1\r,2,3\n", read_keypoints, "line"),
    "homography 1_0": ("H.txt", b"1_0 0 0\n0 1 0\n0 0 1\n", read_homography, "'1_0'"),
    "octave": ("k.csv", b"id,x,y,size,octave\n0,1,2,3," + b"9" * 20, read_keypoints, "octave"),
    "tensor 1e999": ("a.safetensors", tensor(shape=["RAW1e999WAR"]), load_safetensors, "1e999"),
    "tensor 70": ("a.safetensors", tensor(shape=[1] * 70), load_safetensors, "describe a tensor"),
    "tensor float": ("a.safetensors", tensor(shape=[1.5]), load_safetensors, "describe a tensor"),
    "tensor text": ("a.safetensors", tensor(shape="1"), load_safetensors, "describe a tensor"),
    "group column": ("g.csv", b"q1,a\n", groups, "no column"),
    "long first line": ("r.csv", b"x" * (2 << 20), read_run, "line 1: the line is longer"),
    "json digits": ("r.json", f'{{"q": {{"d": {LONG}}}}}'.encode(), read_run, "r.json"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_it_is_named(tmp_path, case):
    name, data, read, words = CASES[case]
    (tmp_path / name).write_bytes(data)
    with pytest.raises(AssayError, match=words) as found:
        read(tmp_path / name)
    assert found.value.exit_code in (2, 3)
    assert name in str(found.value)


def mteb(path: Path) -> None:
    read_mteb([path.parent])


IMPORTS = {
    "run csv": ("r.csv", delimited(",").decode().replace("0.25", "{}", 1), read_run),
    "qrels csv": ("q.csv", delimited(",", "grade").decode().replace("0.25", "{}", 1), read_qrels),
    "run json": ("r.json", '{{"q": {{"d": {}}}}}', read_run),
    "run jsonl": ("r.jsonl", '{{"query": "q", "doc": "d", "score": {}}}', read_run),
    "qrels trec": ("q.trec", "q 0 d {}\n", read_qrels),
    "tasks": ("t.csv", "system,task,value\na,t,{}\nb,t,0.5\n", read_task_lines),
    "task records": ("t.json", '[{{"system": "a", "task": "t", "value": {}}}]', read_task_lines),
    "mteb": (
        "m.json",
        '{{"task_name": "T", "scores": {{"test": [{{"hf_subset": "e", "main_score": {}}}]}}}}',
        mteb,
    ),
}


@pytest.mark.parametrize("number", HUGE)
@pytest.mark.parametrize("kind", IMPORTS)
def test_numbers_beyond_every_range_are_named(tmp_path, kind, number):
    name, text, read = IMPORTS[kind]
    (tmp_path / name).write_text(text.format(number))
    with pytest.raises(AssayError, match=name.replace(".", r"\.")) as found:
        read(tmp_path / name)
    assert found.value.exit_code == 3


@pytest.mark.parametrize("number", [*HUGE, "1" + "0" * 30])
def test_numbers_beyond_every_range_in_results(tmp_path, capsys, number):
    (tmp_path / "m.json").write_text(f'{{"acc@1": 25.0, "mrr": {number}, "total": {number}}}')
    assert main(["predict", "--results", str(tmp_path / "m.json")]) == 3
    assert "m.json" in "".join(capsys.readouterr())


@pytest.mark.parametrize("text", [f"R@{LONG}", "nDCG@1e999", f"P(rel={LONG})@5", f"P_{LONG}"])
def test_numbers_in_the_names_of_measures(text):
    with pytest.raises(AssayError) as found:
        parse_many(text)
    assert found.value.exit_code == 2


@pytest.mark.parametrize(
    "read",
    [read_run, read_homography, find_scenes, read_patch_scenes, load_safetensors, load_collection],
)
def test_a_path_with_nul(read):
    with pytest.raises(AssayError, match=r"a\\x00b|a\0b"):
        read("a\0b")


def test_a_checkpoint_at_a_path_with_nul():
    with pytest.raises(AssayError, match="Cannot write"):
        ShardCheckpoint("a\0b", {"shards": []})


@pytest.mark.parametrize("lines", [b"0 0\nx y\n", b"\xff\n", b"9" * 5000 + b" 1\n", b"1 2 3\n0 1"])
def test_damaged_notes_of_what_was_started(tmp_path, lines):
    ShardCheckpoint(tmp_path / "c", {"shards": []})
    (tmp_path / "c" / "started").write_bytes(lines)
    assert ShardCheckpoint(tmp_path / "c", {"shards": []}).started <= {(0, 0)}


@pytest.mark.parametrize("job", [b"", b"[]", b"{", b'{"shards": [3]}', b'{"shards": 9}', b"\xff"])
def test_a_damaged_job(tmp_path, job):
    wanted = {"shards": [{"path": "a.npy", "rows": 1, "sha256": "0" * 64}]}
    ShardCheckpoint(tmp_path / "c", wanted)
    (tmp_path / "c" / "job.json").write_bytes(job)
    with pytest.raises(AssayError):
        ShardCheckpoint(tmp_path / "c", wanted)


def test_numbers_in_a_rule_for_chunks():
    with pytest.raises(AssayError, match="UNIT:SIZE"):
        ChunkRule.parse(f"sentences:{LONG}")


def test_a_collection_larger_than_all_numbers(tmp_path):
    np.savez(tmp_path / "r.npz", docs=np.array([[0, 1]]), n_docs=np.uint64(2**64 - 1))
    with pytest.raises(AssayError, match="n_docs"):
        read_run(tmp_path / "r.npz")
