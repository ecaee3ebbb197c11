"""The files that the commands of the documentation use: small, the same each time, and plain."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from assay.io.demo_collection import write_files
from assay.search import demo_texts

NAMED = {
    "bench.toml",
    "coarse.run",
    "dense.run",
    "doc-codes.npy",
    "docs.jsonl",
    "docs.npy",
    "eval.json",
    "experiment.yaml",
    "kinds.tsv",
    "labels.npy",
    "lexical.run",
    "logits.npy",
    "predictions.tsv",
    "qrels.tsv",
    "qrels.txt",
    "queries.jsonl",
    "queries.npy",
    "shards.json",
    "values.csv",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The files; docstrings are read once for all tests."""
    collection = demo_texts.stdlib_collection()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(demo_texts, "stdlib_collection", lambda: collection)
        made = tmp_path_factory.mktemp("files") / "made"
        write_files(made)
        yield made


def digests(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_they_are_the_same_each_time_and_small(folder: Path, tmp_path: Path) -> None:
    write_files(tmp_path / "again")
    assert digests(folder) == digests(tmp_path / "again")
    assert set(digests(folder)) >= NAMED
    assert sum(path.stat().st_size for path in folder.rglob("*")) < 4_000_000


def test_rows_belong_together(folder: Path) -> None:
    docs, queries = np.load(folder / "docs.npy"), np.load(folder / "queries.npy")
    assert docs.shape[1] == queries.shape[1]
    for name, vectors in (("docs", docs), ("queries", queries)):
        ids = (folder / f"{name}.txt").read_text("utf-8").split()
        assert len(ids) == len(vectors)
        assert len((folder / f"{name}.jsonl").read_text("utf-8").splitlines()) == len(vectors)
    shards = [np.load(folder / f"docs-{number}.npy") for number in (0, 1)]
    assert np.concatenate(shards).tobytes() == docs.tobytes()
    assert len(np.load(folder / "logits.npy")) == len(np.load(folder / "labels.npy"))


def test_pictures_are_pictures(folder: Path) -> None:
    cv2 = pytest.importorskip("cv2")
    seen = [cv2.imread(str(folder / "scenes" / "v_wall" / f"{k}.png"), 0) for k in (1, 2)]
    assert (seen[0][:, 9:] == seen[1][:, :-9]).all()  # what H_1_2 says


def test_images_need_no_package(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for package in ("cv2", "skimage", "sklearn", "yaml", "pandas"):
        monkeypatch.setitem(sys.modules, package, None)
    before = digests(folder)
    write_files(folder)  # into a folder that has them
    assert digests(folder) == before
