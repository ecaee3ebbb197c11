"""`assay rank` on shards and `assay encode`: the bytes of one machine, plans, samples, resuming."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest

from assay.cli.main import main
from assay.cluster import settings
from assay.cluster.executors import SerialExecutor
from assay.io.collections import write_collection
from tests.bench.samples import small


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    rng = np.random.default_rng(1)
    np.save(tmp_path / "q.npy", rng.integers(-2, 3, (30, 5)).astype(np.float32) + 0.5)
    docs = rng.integers(-2, 3, (120, 5)).astype(np.float32) + 0.5
    np.save(tmp_path / "d.npy", docs)
    for number in range(12):
        np.save(tmp_path / f"s-{number}.npy", docs[number * 10 : number * 10 + 10])
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def one(folder, assay) -> bytes:
    assert assay("rank", "q.npy", "d.npy", "-k", "7", "-o", "one.txt").code == 0
    return Path("one.txt").read_bytes()


@pytest.mark.parametrize("where", [[], ["--cluster", "serial"], ["--cluster", "threads"]])
def test_shards_write_the_run_of_one_file(where, one, assay):
    done = assay("rank", "q.npy", "s-*.npy", "-k", 7, "-o", "many.txt", "--query-block", 8, *where)
    assert done.code == 0, done.err
    assert Path("many.txt").read_bytes() == one


def test_a_checkpoint_and_timings(one, assay):
    how = ["-k", 7, "--query-block", 8, "--checkpoint", "ck", "--cluster", "threads"]
    first = assay("rank", "q.npy", "s-*.npy", *how, "-o", "a.txt")
    assert "0 of 48 blocks taken from the checkpoint, 48 computed" in first.err
    again = assay("rank", "q.npy", "s-*.npy", *how, "-o", "b.txt", "--timings", "t.json")
    assert "48 of 48 blocks taken from the checkpoint, 0 computed" in again.err
    assert Path("a.txt").read_bytes() == Path("b.txt").read_bytes() == one
    assert json.loads(Path("t.json").read_text())["resumed"] == 48


def test_dry_run_prints_the_plan_and_writes_nothing(folder, assay):
    done = assay("rank", "q.npy", "s-*.npy", "--cluster", "auto", "--workers", 3, "--dry-run")
    assert done.code == 0, done.err
    assert "120 in 12 shards" in done.out
    assert "12 searches on 3 workers" in done.out
    assert "expected time" in done.out
    assert not list(folder.glob("*.txt"))


def test_a_sample_and_the_recall_of_a_run(one, assay):
    lines = one.decode().splitlines(keepends=True)
    Path("approx.txt").write_text("".join(line for row, line in enumerate(lines) if row % 7))
    done = assay("rank", "q.npy", "s-*.npy", "-k", 7, "--sample", 12, "--recall-of", "approx.txt")
    assert done.code == 0, done.err
    assert "from exact neighbours of 12 of 30 queries, seed 0" in done.out
    assert done.out.startswith("R@7 of approx.txt: 0.8")
    done = assay("rank", "q.npy", "s-*.npy", "-k", 7, "--sample", 12, "-o", "some.txt")
    assert done.code == 0, done.err
    some = Path("some.txt").read_text().splitlines(keepends=True)
    assert len(some) == 12 * 7
    assert set(some) <= set(lines)


def test_scores_are_saved_with_the_time_and_bytes_of_every_task(one, assay):
    from assay.store import open as open_store

    qrels = [
        f"{line.split()[0]} 0 {line.split()[2]} 1\n" for line in one.decode().splitlines()[::3]
    ]
    Path("qrels.txt").write_text("".join(qrels))
    how = ["-r", "qrels.txt", "-m", "AP", "--save", "--store", "s.db", "--dataset", "mine"]
    done = assay("rank", "q.npy", "s-*.npy", "-k", 7, "--cluster", "threads", *how)
    assert done.code == 0, done.err
    direct = assay("eval", "one.txt", "-r", "qrels.txt", "-m", "AP", "--json")
    wanted = json.loads(direct.out)["runs"][0]["measures"]["AP"]["mean"]
    with open_store("s.db") as store:
        run = store.run(1)
        assert run.config["cluster"]["totals"]["search"]["tasks"] == 12
        assert {"seconds", "bytes_read", "worker"} <= set(run.config["cluster"]["tasks"][0])
        assert run.values("AP").mean() == pytest.approx(wanted)


def test_encode_then_rank(folder, assay):
    for number in range(3):
        lines = [
            json.dumps({"_id": f"x{number}-{row}", "text": f"aei number {row}"}) + "\n"
            for row in range(4)
        ]
        Path(f"t-{number}.jsonl").write_text("".join(lines))
    spec = "py:tests.cluster.encoders:letters"
    done = assay("encode", "t-*.jsonl", "-e", spec, "-o", "v", "--cluster", "threads")
    assert done.code == 0, done.err
    assert "manifest.json: 12 texts, 3 shards encoded, 0 reused" in done.err
    assert (
        "manifest.json: 12 texts, 0 shards encoded, 3 reused"
        in assay("encode", "t-*.jsonl", "-e", spec, "-o", "v").err
    )
    done = assay(
        "rank",
        "v/part-00001.npy",
        "v/manifest.json",
        "--query-ids",
        "v/part-00001.ids.txt",
        "--exclude-self",
        "-k",
        3,
        "-o",
        "run.txt",
    )
    assert done.code == 0, done.err
    lines = [line.split() for line in Path("run.txt").read_text().splitlines()]
    assert len(lines) == 12
    assert all(line[0] != line[2] for line in lines)


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["q.npy", "none-*.npy", "-o", "r.txt"], 5, "'none-*.npy' matches no shards"),
        (["q.npy", "s-*.npy"], 2, "Missing option '-o'"),
        (["q.npy", "s-*.npy", "--dry-run", "--recall-of", "x"], 2, "exclude each other"),
        (
            ["q.npy", "s-*.npy", "--dry-run", "-r", "x", "--save"],
            2,
            "--dry-run and --save exclude each other",
        ),
        (["q.npy", "s-*.npy", "-o", "r.txt", "--workers", "2"], 2, "requires --cluster"),
        (["q.npy", "s-*.npy", "-o", "r.txt", "--seed", "2"], 2, "requires --sample"),
        (["q.npy", "s-*.npy", "-o", "r.txt", "--save"], 2, "--save and -m require --qrels"),
        (
            ["q.npy", "s-*.npy", "-o", "r.txt", "--doc-ids", "q.npy"],
            2,
            "--doc-ids excludes shards, which bring their ids",
        ),
        (["q.npy", "s-*.npy", "-o", "r.txt", "--in-flight", "2"], 2, "in-flight"),
        (["q.npy", "s-*.npy", "-o", "r.txt", "--cluster", "nowhere"], 5, "No Ray cluster"),
        (["q.npy", "s-*.npy", "-o", "r.txt", "--timings", "r.txt"], 2, "two results"),
    ],
)
def test_refusals_write_nothing(arguments, code, words, folder, assay):
    done = assay("rank", *arguments)
    assert done.code == code
    assert words in done.err
    assert not Path("r.txt").exists()


class TalkingExecutor(SerialExecutor):
    """As Ray does now and then, from Python and from C++: it talks on standard output."""

    def __init__(self, *_, **__):
        super().__init__()
        print("(autoscaler) hello")
        os.write(1, b"core_worker.cc: hello\n")


def test_what_ray_says_is_not_in_the_json(folder, monkeypatch, capfd):
    monkeypatch.setattr(settings, "RayExecutor", TalkingExecutor)
    monkeypatch.syspath_prepend(str(folder))
    (folder / "letters_of_mine.py").write_text("def f(texts): return [[len(t), 1] for t in texts]")
    write_collection(small(), folder / "made")
    words = ["bench", "--corpus", "made", "--model", "py:letters_of_mine:f", "--no-cache"]
    assert main([*words, "--cluster", "auto", "--resamples", "100", "--json"]) == 0
    out, err = capfd.readouterr()
    assert json.loads(out)["command"] == "bench"
    assert "core_worker.cc: hello" in err
    assert "(autoscaler) hello" in err
    with settings.open_cluster("auto"):
        print("mine")
    assert "mine\n" in capfd.readouterr().out, "in Python, stdout stays as it is"
