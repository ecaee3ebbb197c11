"""Interrupted benches: finished systems are found again, damaged ones are not trusted."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from assay.bench import run_bench
from assay.io.collections import Collection, write_collection
from tests.bench import samples as bench_samples
from tests.bench.samples import small

ROOT = Path(__file__).resolve().parents[2]
MODELS = [f"{name}=py:tests.bench.test_checkpoint:{name}" for name in ("steady", "frail")]
COMMAND = ["bench", "--corpus", "made", *(word for model in MODELS for word in ("--model", model))]
COMMAND += ["--cache", "cache", "--json", "--save", "--fusion", "rrf:steady+frail"]


def steady(texts: list[str]) -> np.ndarray:
    """A model that notes that it was called."""
    with open(os.environ["BENCH_CALLS"], "a", encoding="utf-8") as file:
        file.write(f"{len(texts)}\n")
    return bench_samples.letters(texts)


def frail(texts: list[str]) -> np.ndarray:
    """A model that kills its process, as a crash would, while a certain file is there."""
    if os.path.exists(os.environ["BENCH_CALLS"] + ".kill"):
        os.kill(os.getpid(), signal.SIGKILL)
    return bench_samples.shouting(texts)


steady.fingerprint = frail.fingerprint = "1"  # what they do is known: it may be kept


def calls() -> int:
    path = Path(os.environ["BENCH_CALLS"])
    return len(path.read_text().splitlines()) if path.exists() else 0


@pytest.fixture(autouse=True)
def noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "calls"
    monkeypatch.setenv("BENCH_CALLS", str(path))
    return path


def bench(folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "assay", *COMMAND],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )


def numbers(text: str) -> object:
    """What is printed, without what the clock decides."""
    data = json.loads(text)
    for one in data["systems"]:
        del one["costs"]
    return data


def test_a_killed_bench_resumes(tmp_path: Path, noted: Path, assay, monkeypatch) -> None:
    write_collection(small(), tmp_path / "made")
    fatal = Path(f"{noted}.kill")
    fatal.touch()
    assert bench(tmp_path).returncode == -signal.SIGKILL
    before = calls()
    assert before > 0
    assert list((tmp_path / "cache").rglob("*.part"))
    fatal.unlink()
    done = bench(tmp_path)
    assert done.returncode == 0, done.stderr
    assert calls() == before, "the finished system was not computed again"
    assert not list((tmp_path / "cache").rglob("*.part"))
    listed = assay("runs", "list", "--json", "--store", tmp_path / "assay.db")
    states = [run["status"] for run in json.loads(listed.out)["runs"]]
    assert sorted(states) == ["finished"] * 3 + ["running"]
    monkeypatch.chdir(tmp_path)
    assert numbers(assay(*COMMAND).out) == numbers(done.stdout)


def interrupted(
    tmp_path: Path, noted: Path, data: Collection | None = None, **how: object
) -> list[Path]:
    """Run the first system only, as an interruption would; the files that stay."""

    def stop(system: str, phase: str, done: int, total: int | None) -> None:
        if system == "frail":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_bench(data or small(), MODELS, checkpoint=tmp_path, progress=stop, **how)
    return sorted(tmp_path.rglob("*.part"))


def test_what_capitals_cost_is_kept_with_the_rest(tmp_path: Path, noted: Path) -> None:
    plain = small()
    loud = replace(plain, query_texts=[text.upper() for text in plain.query_texts])
    interrupted(tmp_path, noted, loud)
    once = calls()
    resumed = run_bench(loud, MODELS, checkpoint=tmp_path).diagnosis.to_dict()
    assert calls() == once
    assert any("steady loses by capitals" in one["message"] for one in resumed["findings"])
    assert resumed == run_bench(loud, MODELS).diagnosis.to_dict()


def test_a_damaged_part_is_computed_again(tmp_path: Path, noted: Path) -> None:
    (path,) = interrupted(tmp_path, noted)
    once = calls()
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    result = run_bench(small(), MODELS, checkpoint=tmp_path)
    assert calls() > once
    fresh = run_bench(small(), MODELS)
    for one, other in zip(result.systems, fresh.systems, strict=True):
        assert np.array_equal(one.ranking.docs, other.ranking.docs)


def test_a_truncated_part_is_computed_again(tmp_path: Path, noted: Path) -> None:
    (path,) = interrupted(tmp_path, noted)
    once = calls()
    path.write_bytes(path.read_bytes()[:100])
    run_bench(small(), MODELS, checkpoint=tmp_path)
    assert calls() > once


@pytest.mark.parametrize(
    "change",
    [
        {"depth": 7},
        {"chunk": "tokens:4"},
        {"metric": "dot"},
        {"conventions": "sentence_transformers"},
    ],
    ids=["depth", "chunk", "metric", "tie rule"],
)
def test_another_bench_does_not_take_the_part(
    tmp_path: Path, noted: Path, change: dict[str, object]
) -> None:
    interrupted(tmp_path, noted)
    once = calls()
    run_bench(small(), MODELS, checkpoint=tmp_path, **change)
    assert calls() > once


def test_loaded_parts_equal_computed_ones(tmp_path: Path, noted: Path) -> None:
    interrupted(tmp_path, noted)
    once = calls()
    resumed = run_bench(small(), MODELS, checkpoint=tmp_path)
    assert calls() == once
    fresh = run_bench(small(), MODELS)
    for one, other in zip(resumed.systems, fresh.systems, strict=True):
        assert one.scores.values.tobytes() == other.scores.values.tobytes()
        assert one.ranking.scores.tobytes() == other.ranking.scores.tobytes()
        assert one.scores.signature == other.scores.signature


def reordered(data: Collection) -> Collection:
    """The same documents and queries, the last one first; the fingerprint is the same."""
    docs, queries = (np.arange(len(ids))[::-1] for ids in (data.doc_ids, data.query_ids))
    return replace(
        data,
        doc_ids=data.doc_ids.take(docs),
        doc_texts=list(data.doc_texts)[::-1],
        query_ids=data.query_ids.take(queries),
        query_texts=list(data.query_texts)[::-1],
        fingerprint="",
    )


def test_parts_of_another_order_are_not_taken(tmp_path: Path, noted: Path) -> None:
    """Where ties go by line, parts hold documents by their line, which another order changes."""
    how = {"conventions": "tiebreak:index"}
    interrupted(tmp_path, noted, **how)
    other = reordered(small())
    assert other.fingerprint == small().fingerprint
    resumed = run_bench(other, MODELS, checkpoint=tmp_path, **how)
    fresh = run_bench(other, MODELS, **how)
    for one, another in zip(resumed.systems, fresh.systems, strict=True):
        assert one.scores.values.tobytes() == another.scores.values.tobytes()


def test_a_folder_that_cannot_be_written_only_costs_the_resumption(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    assert len(run_bench(small(), MODELS, checkpoint=blocked).systems) == 2
