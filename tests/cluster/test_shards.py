"""Shards of every format, from manifests, patterns, lists and other file systems."""

from __future__ import annotations

import hashlib
import json
import os
from itertools import pairwise

import numpy as np
import pytest

import assay
from assay.cluster import (
    Shard,
    count_label_shards,
    evaluate_shards,
    open_shards,
    rank_code_shards,
    rank_shards,
    sampled_recall,
    target_rank_shards,
)
from assay.core.judgments import Judgments
from assay.errors import AssayError, FormatError, IdError, MismatchError, StorageError, UsageError
from assay.io import fingerprints
from assay.search.engine import rank
from tests.cluster.corpora import CUTS, ranking_bytes, sample, write_npy, write_npz


def paths(source) -> list[str]:
    return [shard.path for shard in open_shards(source)]


def write_manifest(folder, entries) -> str:
    path = folder / "corpus.json"
    path.write_text(json.dumps({"shards": entries}))
    return str(path)


def test_numbers_in_names_count_as_numbers(tmp_path):
    names = ["x-10.npy", "x-9.npy", "x-1.npy", "x-02.npy", "a.npy"]
    for name in names:
        np.save(tmp_path / name, np.ones((1, 1)))
    wanted = ["a.npy", "x-1.npy", "x-02.npy", "x-9.npy", "x-10.npy"]
    for source in (str(tmp_path / "*.npy"), [tmp_path / name for name in names]):
        assert [os.path.basename(path) for path in paths(source)] == wanted


def test_a_manifest_is_relative_to_itself(tmp_path):
    source = write_manifest(tmp_path, [{"path": "b.npz", "key": "v"}, "a.npy", {"path": "/c.npy"}])
    assert open_shards(source) == (
        Shard("/c.npy"),
        Shard(f"{tmp_path}/a.npy"),
        Shard(f"{tmp_path}/b.npz", key="v"),
    )


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ('{"shard": []}', "a manifest is"),
        ("[1]", "a manifest is"),
        ('{"shards": [{"file": "a.npy"}]}', "shard 0: expected an object with a path"),
        ('{"shards": [{"path": "a.npy", "row": 3}]}', "Did you mean rows"),
        ('{"shards": [{"path": "a.npy", "rows": "3"}]}', "rows must be int"),
        ('{"shards": [{"path": "a.npy"}, {"path": "a.npy"}]}', "listed twice"),
        ('{"shards": [{"path": "a.txt"}]}', "is not a shard"),
        ('{"shards": [{"path": ".npy"}]}', "is not a shard"),
        ('{"shards": [{"path": "a.npy.gz"}]}', "is not a shard"),
        ('{"shards": []}', "no shards"),
        ('{"shards": [NaN]}', "NaN is not valid JSON"),
    ],
)
def test_bad_manifests(content, words, tmp_path):
    path = tmp_path / "m.json"
    path.write_text(content)
    with pytest.raises(AssayError, match=words):
        open_shards(path)


@pytest.mark.parametrize("source", [7, None, "nothing-*.npy", b"x"])
def test_a_source_without_shards_is_refused(source):
    with pytest.raises((UsageError, StorageError)):
        open_shards(source)


def write_format(folder, kind: str, rows, ids, number: int) -> dict[str, str]:
    """One shard; what a manifest says of it."""
    name = f"part-{number}.{kind}"
    if kind == "npy":
        np.save(folder / name, rows)
        (folder / f"part-{number}.txt").write_text("".join(f"{one}\n" for one in ids))
        return {"path": name, "ids": f"part-{number}.txt"}
    if kind == "npz":
        np.savez_compressed(folder / name, embeddings=rows, ids=np.array(ids), other=np.ones(3))
        return {"path": name}
    if kind == "safetensors":
        pytest.importorskip("safetensors.numpy").save_file({"embeddings": rows}, folder / name)
        (folder / f"part-{number}.txt").write_text("".join(f"{one}\n" for one in ids))
        return {"path": name, "ids": f"part-{number}.txt"}
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    lists = pyarrow.FixedSizeListArray.from_arrays(rows.ravel(), rows.shape[1])
    if number % 2:
        lists = lists.cast(pyarrow.list_(pyarrow.float32()))
    parquet.write_table(pyarrow.table({"id": ids, "note": ids, "vector": lists}), folder / name)
    return {"path": name}


@pytest.mark.parametrize("kind", ["npy", "npz", "parquet", "safetensors"])
def test_every_format(kind, tmp_path):
    s = sample()
    entries = [
        write_format(tmp_path, kind, s.docs[a:b], s.doc_ids[a:b], number)
        for number, (a, b) in enumerate(pairwise(CUTS))
    ]
    how = {"query_ids": s.query_ids, "exclude": "self"}
    want = ranking_bytes(rank(s.queries, s.docs, 9, doc_ids=s.doc_ids, **how))
    manifest = write_manifest(tmp_path, entries[::-1])
    assert ranking_bytes(rank_shards(s.queries, manifest, 9, **how)) == want


def test_formats_may_be_mixed(tmp_path):
    s = sample()
    kinds = ["parquet", "npz", "safetensors", "npy"] * 2
    entries = [
        write_format(tmp_path, kind, s.docs[a:b], s.doc_ids[a:b], number)
        for number, ((a, b), kind) in enumerate(zip(pairwise(CUTS), kinds, strict=False))
    ]
    want = rank(s.queries, s.docs, 9, doc_ids=s.doc_ids, query_ids=s.query_ids)
    got = rank_shards(s.queries, write_manifest(tmp_path, entries), 9, query_ids=s.query_ids)
    assert ranking_bytes(got) == ranking_bytes(want)


def test_integer_ids(tmp_path):
    s = sample()
    numbers = np.arange(1000, 1000 + len(s.docs))[::-1].copy()
    for place, (a, b) in enumerate(pairwise(CUTS)):
        np.savez(tmp_path / f"{place}.npz", vectors=s.docs[a:b], ids=numbers[a:b])
    got = rank_shards(s.queries, str(tmp_path / "*.npz"), 9, query_ids=np.arange(37))
    want = rank(s.queries, s.docs, 9, doc_ids=numbers, query_ids=np.arange(37))
    assert ranking_bytes(got) == ranking_bytes(want)


def test_other_file_systems(tmp_path):
    """Anything that fsspec reaches; here its file system in memory."""
    fsspec = pytest.importorskip("fsspec")
    s = sample()
    write_npz(tmp_path, s.docs, s.doc_ids)
    memory = fsspec.filesystem("memory")
    memory.put(str(tmp_path), "/corpus-of-test", recursive=True)
    want = rank(s.queries, s.docs, 9, doc_ids=s.doc_ids, query_ids=s.query_ids)
    try:
        for source in ("memory://corpus-of-test/*.npz", paths("memory://corpus-of-test/*.npz")):
            got = rank_shards(s.queries, source, 9, query_ids=s.query_ids)
            assert ranking_bytes(got) == ranking_bytes(want)
        with pytest.raises(StorageError, match=r"memory://corpus-of-test/none\.npy does not exist"):
            rank_shards(s.queries, "memory://corpus-of-test/none.npy", 9)
    finally:
        memory.rm("/corpus-of-test", recursive=True)


def test_a_file_system_that_nobody_installed():
    with pytest.raises(StorageError, match="cannot be read"):
        rank_shards(np.ones((1, 2)), "nosuchsystem://a/b.npy", 1)


def test_shards_of_one_corpus_fit_together(tmp_path):
    s = sample()
    shards = write_npy(tmp_path, s.docs)
    np.save(tmp_path / "part-3.npy", np.ones((4, COLUMNS_TOO_FEW := 5)))
    with pytest.raises(MismatchError, match=rf"part-3\.npy has {COLUMNS_TOO_FEW} columns"):
        rank_shards(s.queries, shards, 3)
    np.savez(tmp_path / "part-3.npz", vectors=s.docs[:2], ids=np.array(["a", "b"]))
    (tmp_path / "part-3.npy").unlink()
    with pytest.raises(MismatchError, match=r"part-3\.npz has text ids, and .* has no ids"):
        rank_shards(s.queries, str(tmp_path / "part-*.np?"), 3)


def test_queries_and_shards_fit_together(tmp_path):
    s = sample()
    with pytest.raises(MismatchError, match="queries have 4 columns, docs 13"):
        rank_shards(np.ones((2, 4)), write_npy(tmp_path, s.docs), 3)


def test_a_row_that_is_no_vector_is_named_with_its_shard(tmp_path):
    s = sample()
    docs = s.docs.copy()
    docs[95, 3] = np.nan
    with pytest.raises(AssayError, match=r"Shard .*part-4\.npy: docs holds nan at row 5, column 3"):
        rank_shards(s.queries, write_npy(tmp_path, docs), 3)
    with pytest.raises(AssayError, match="queries row 1 is all zeros"):
        rank_shards(np.array([[1.0], [0.0]]), write_npy(tmp_path, docs[:, :1] + 1), 3)


def test_ids_that_stand_twice(tmp_path):
    s = sample()
    ids = list(s.doc_ids)
    ids[100] = ids[99]
    with pytest.raises(IdError, match=r"Shard .*part-4\.npz.*appears twice"):
        rank_shards(s.queries, write_npz(tmp_path / "a", s.docs, ids), 3)
    ids = list(s.doc_ids)
    ids[200] = ids[3]
    shards = write_npz(tmp_path / "b", s.docs, ids)
    with pytest.raises(IdError, match=r"is in shard .*part-1\.npz and in .*part-6\.npz"):
        rank_shards(s.queries[:1], shards, 3, query_ids=[ids[3]], exclude="self")
    with pytest.raises(IdError, match="appears twice"):
        rank_shards(s.queries, shards, 240)


@pytest.mark.parametrize("rows", [3, 10**12])
def test_a_manifest_that_is_wrong_about_rows(rows, tmp_path):
    np.save(tmp_path / "a.npy", np.ones((4, 2)))
    source = write_manifest(tmp_path, [{"path": "a.npy", "rows": rows}])
    with pytest.raises(FormatError, match=rf"a\.npy: it has 4 rows, the manifest says {rows}"):
        rank_shards(np.ones((1, 2)), source, 1)


def test_a_file_of_ids_of_another_length(tmp_path):
    np.save(tmp_path / "a.npy", np.ones((4, 2)))
    (tmp_path / "a.txt").write_text("x\ny\n")
    source = write_manifest(tmp_path, [{"path": "a.npy", "ids": "a.txt"}])
    with pytest.raises(FormatError, match="4 rows and 2 ids"):
        rank_shards(np.ones((1, 2)), source, 1)


def test_damaged_parquet(tmp_path):
    pytest.importorskip("pyarrow")
    (tmp_path / "a.parquet").write_bytes(b"PAR1 nothing PAR1")
    with pytest.raises(FormatError, match=r"Shard .*a\.parquet.* is not a valid parquet file"):
        rank_shards(np.ones((1, 2)), str(tmp_path / "a.parquet"), 1)


def test_pickled_arrays_are_never_loaded(tmp_path):
    np.save(tmp_path / "a.npy", np.array([{1: 2}], dtype=object), allow_pickle=True)
    with pytest.raises(FormatError, match=r"Shard .*a\.npy.*pickled"):
        rank_shards(np.ones((1, 2)), str(tmp_path / "a.npy"), 1)


def _recorded(folder):
    """A manifest as encoding writes it, with the digest of every shard."""
    docs = np.random.default_rng(6).normal(size=(60, 8)).astype("f4")
    entries = []
    for part in range(3):
        path = folder / f"part-{part}.npy"
        np.save(path, docs[20 * part : 20 * part + 20])
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        entries.append({"path": path.name, "sha256": digest.upper() if part else digest})
    return write_manifest(folder, entries), docs


@pytest.mark.parametrize("way", range(6))
def test_a_recorded_checksum_is_verified_by_every_search(tmp_path, way):
    source, docs = _recorded(tmp_path)
    found = rank_shards(docs[:4], source, 5)
    assert ranking_bytes(found) == ranking_bytes(rank(docs[:4], docs, 5))
    path = tmp_path / "part-1.npy"
    before = os.stat(path)
    rows = docs[20:40][::-1].copy()
    np.save(path, rows)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert os.path.getsize(path) == before.st_size
    labels = np.arange(60) % 3
    judged = Judgments.from_labels(labels[:4], labels)
    ways = (
        lambda: rank_shards(docs[:4], source, 5),
        lambda: target_rank_shards(docs[:4], source, [1, 2, 3, 4]),
        lambda: evaluate_shards(docs[:4], source, judged, "P@5", k=5),
        lambda: count_label_shards(docs[:4], source, 5, query_labels=labels[:4], doc_labels=labels),
        lambda: rank_code_shards(docs[:4] > 0, source, 5),
        lambda: sampled_recall(found, docs[:4], source, k=5, sample=4),
    )
    with pytest.raises(StorageError, match=r"part-1\.npy has the SHA-256 .* manifest says"):
        ways[way]()


def test_a_checksum_is_computed_once_while_the_file_stays(tmp_path, monkeypatch):
    source, docs = _recorded(tmp_path)
    monkeypatch.setattr(fingerprints, "SETTLED", -60.0)  # the files are as if they were old
    hashed, real = [], fingerprints.fingerprint_file
    monkeypatch.setattr(
        fingerprints,
        "fingerprint_file",
        lambda file: hashed.append(os.path.basename(file)) or real(file),
    )
    for _ in range(3):
        rank_shards(docs[:4], source, 5)
    assert sorted(hashed) == ["part-0.npy", "part-1.npy", "part-2.npy"]
    path = tmp_path / "part-2.npy"
    os.utime(path, ns=(10**18, 10**18))
    rank_shards(docs[:4], source, 5)
    assert hashed[3:] == ["part-2.npy"]


def test_a_file_that_just_changed_is_hashed_each_time(tmp_path):
    source, docs = _recorded(tmp_path)
    rank_shards(docs[:4], source, 5)
    path = tmp_path / "part-0.npy"
    np.save(path, docs[:20] + 1)
    with pytest.raises(StorageError, match="part-0"):
        rank_shards(docs[:4], source, 5)


def test_labels_of_more_documents_than_the_corpus_has(tmp_path):
    rng = np.random.default_rng(0)
    docs, queries = rng.normal(size=(20, 4)), rng.normal(size=(5, 4))
    names = np.array([f"d{n}" for n in range(30)])
    query_ids = [f"q{n}" for n in range(5)]
    for part in (0, 1):
        rows = slice(10 * part, 10 * part + 10)
        np.savez(tmp_path / f"{part}.npz", vectors=docs[rows].astype(np.float32), ids=names[rows])
    labels = (rng.random(30) < 0.15).astype(int)
    judgments = assay.Judgments.from_labels(
        np.zeros(5, int), labels, query_ids=query_ids, doc_ids=names
    )
    ids = {"query_ids": query_ids, "doc_ids": names[:20]}
    ranking = assay.rank(queries.astype(np.float32), docs.astype(np.float32), k=7, **ids)
    expected = assay.evaluate(ranking, judgments, ["bpref", "AP", "R@5"])
    paths = [tmp_path / "0.npz", tmp_path / "1.npz"]
    scores = evaluate_shards(
        queries.astype(np.float32),
        list(map(str, paths)),
        judgments,
        ["bpref", "AP", "R@5"],
        k=7,
        query_ids=query_ids,
    )
    assert scores.values.tolist() == expected.values.tolist()
