"""`assay rank`: vectors in, a run out."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from assay import read_run, read_sparse
from assay.cli.main import assay
from assay.core.mismatches import CUT_BY_ROW
from assay.search.engine import rank
from assay.store import open as open_store


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    rng = np.random.default_rng(1)
    np.save(tmp_path / "q.npy", rng.integers(-2, 3, (6, 5)).astype(np.float32) + 0.5)
    np.save(tmp_path / "d.npy", rng.integers(-2, 3, (40, 5)).astype(np.float32) + 0.5)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def call(*arguments: str):
    return CliRunner().invoke(assay, ["rank", *arguments])


def test_run_holds_what_the_library_finds(folder):
    done = call("q.npy", "d.npy", "-k", "7", "--metric", "dot", "-o", "run.npz")
    assert done.exit_code == 0, done.output
    want = rank(np.load("q.npy"), np.load("d.npy"), 7, metric="dot")
    run = read_run("run.npz")
    assert run.scores.tolist() == want.scores.tolist()
    for query in range(6):  # a run read from a file orders ties by id
        assert sorted(run.row(query)) == sorted(want.row(query))


def test_token_vectors_are_ranked_by_maxsim(folder):
    rng = np.random.default_rng(2)
    values = rng.integers(-2, 3, (30, 5)).astype(np.float32)
    lengths = np.array([3, 0, 7, 5, 5, 1, 9])
    ids = np.array([f"d{row}" for row in range(7)])
    np.savez("d.npz", embeddings=values, doclens=lengths, ids=ids)
    np.savez("q.npz", embeddings=values[:6], lengths=[2, 4], ids=["d0", "b"])
    want = rank("q.npz", "d.npz", 3, metric="maxsim", exclude="self")
    options = ["-k", "3", "--metric", "maxsim", "--exclude-self", "-o"]
    for number, more in enumerate(([], ["--prepare", "d.prep"], ["--prepare", "d.prep"])):
        done = call("q.npz", "d.npz", *options, f"{number}.npz", *more)
        assert done.exit_code == 0, done.output
        assert "texts without tokens: 0 queries (no results), 1 docs (never" in done.output
        run = read_run(f"{number}.npz")
        assert run.scores.tolist() == want.scores.tolist()
        assert all(sorted(run.row(name)) == sorted(want.row(name)) for name in ("d0", "b"))
    done = call("q.npz", "d.npz", *options, "shards.npz", "--cluster", "serial")
    assert done.exit_code == 0, done.output
    assert read_run("shards.npz").scores.tolist() == want.scores.tolist()
    np.savez("bad.npz", embeddings=values, offsets=[0, 40])
    done = call("q.npz", "bad.npz", *options, "run.npz")
    assert done.exit_code != 0
    assert "offsets must lie from 0 to 30; row 1 is 40" in str(done.exception)


def test_ids_and_self_exclusion(folder):
    np.savez("d.npz", vectors=np.load("d.npy"), ids=np.array([f"d{i}" for i in range(40)]))
    done = call("d.npz", "d.npz", "--exclude-self", "-o", "run.txt")
    assert done.exit_code == 0, done.output
    lines = [line.split() for line in Path("run.txt").read_text().splitlines()]
    assert len(lines) == 40 * 39
    assert all(line[0] != line[2] for line in lines)


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["q.npy", "absent.npy", "-o", "run.txt"], 5),
        (["q.npy", "d.npy", "-k", "0", "-o", "run.txt"], 2),
        (["q.npy", "d.npy", "-o", "d.npy"], 2),
        (["q.npy", "d.npy", "--metric", "cosinus", "-o", "run.txt"], 2),
    ],
)
def test_refusals_write_nothing(folder, arguments, code):
    from assay.cli.main import main

    before = Path("d.npy").read_bytes()
    assert main(["rank", *arguments]) == code
    assert not Path("run.txt").exists()
    assert Path("d.npy").read_bytes() == before


def test_a_prepared_corpus_is_kept_and_changes_no_byte(folder):
    assert call("q.npy", "d.npy", "-o", "plain.txt").exit_code == 0
    for name in ("first.txt", "second.txt"):
        done = call("q.npy", "d.npy", "--prepare", "d.prepared", "-o", name)
        assert done.exit_code == 0, done.output
        assert Path(name).read_bytes() == Path("plain.txt").read_bytes()
    np.save("d.npy", np.load("d.npy")[::-1])
    assert call("q.npy", "d.npy", "-o", "plain.txt").exit_code == 0
    assert call("q.npy", "d.npy", "--prepare", "d.prepared", "-o", "third.txt").exit_code == 0
    assert Path("third.txt").read_bytes() == Path("plain.txt").read_bytes()


@pytest.mark.parametrize("file", ["d.npy", "q.npy", "run.txt"])
def test_a_prepared_corpus_needs_a_file_of_its_own(folder, file):
    before = {path: path.read_bytes() for path in folder.iterdir()}
    done = call("q.npy", "d.npy", "--prepare", file, "-o", "run.txt")
    assert done.exit_code != 0
    assert {path: path.read_bytes() for path in folder.iterdir()} == before


def test_shards_are_not_prepared(folder):
    done = call("q.npy", "d*.npy", "--prepare", "d.prepared", "-o", "run.txt")
    assert done.exit_code == 2
    assert "Pass one file of documents" in done.output


def test_ties_that_are_cut_by_row_are_said_once_where_documents_have_ids(folder):
    np.save("same.npy", np.ones((4, 5), np.float32))
    Path("d.ids").write_text("a\nb\nc\nd\n")
    Path("q.ids").write_text("".join(f"q{i}\n" for i in range(6)))
    Path("qrels").write_text("".join(f"q{i} 0 a 1\n" for i in range(6)))
    named = ["q.npy", "same.npy", "--query-ids", "q.ids", "--doc-ids", "d.ids"]
    for more in (["-o", "run.txt"], ["-r", "qrels"], ["-o", "run.txt", "-r", "qrels"]):
        done = call(*named, "-k", "2", "--full", *more)
        assert done.output.count(CUT_BY_ROW) == 1
    assert CUT_BY_ROW not in call(*named, "-k", "2", "--keep-ties", "-o", "run.txt").output
    Path("qrels").write_text("".join(f"{i} 0 0 1\n" for i in range(6)))
    numbered = call("q.npy", "same.npy", "-k", "2", "-o", "run.txt", "-r", "qrels")
    assert numbered.exit_code == 0
    assert CUT_BY_ROW not in numbered.output


@pytest.fixture
def sparse_files(folder):
    rng = np.random.default_rng(4)
    rows = [
        {f"t{t}": float(w) for t, w in zip(rng.permutation(9)[:4], rng.random(4), strict=True)}
        for _ in range(30)
    ]
    for name, some in (("q", rows[:5]), ("d", rows)):
        lines = [json.dumps({"id": f"d{i}", "vector": row}) for i, row in enumerate(some)]
        Path(f"{name}.jsonl").write_text("\n".join(lines), "utf-8")
    return rows


def test_sparse_vectors_by_id(sparse_files):
    done = call("q.jsonl", "d.jsonl", "-k", "4", "--metric", "dot", "--exclude-self", "-o", "r.npz")
    assert done.exit_code == 0, done.output
    pairs = [(row, row) for row in range(5)]
    want = rank(sparse_files[:5], sparse_files, 4, metric="dot", exclude=pairs)
    run = read_run("r.npz")
    assert run.scores.tolist() == want.scores.tolist()
    for query in range(5):
        named = [(f"d{doc}", score) for doc, score in want.row(query)]
        assert run.row(f"d{query}") == named


def test_sparse_matrices_and_their_shards(sparse_files):
    rows = read_sparse(sparse_files)
    arrays = {"indptr": rows.offsets, "indices": rows.columns, "data": rows.weights}
    np.savez("d.npz", format="csr", shape=rows.shape, ids=[f"d{i}" for i in range(30)], **arrays)
    np.savez("plain.npz", format="csr", shape=rows.shape, **arrays)
    Path("ids.txt").write_text("\n".join(f"d{i}" for i in range(30)), "utf-8")
    one = call("d.npz", "d.npz", "-k", "99", "-o", "one.txt")
    assert one.exit_code == 0, one.output
    assert "-k 99 exceeds the 30 documents: all are listed" in one.output
    ids = ("--query-ids", "ids.txt", "--doc-ids", "ids.txt")
    assert call("plain.npz", "plain.npz", "-k", "99", *ids, "-o", "two.txt").exit_code == 0
    three = call("d.npz", "d.npz", "-k", "99", "--cluster", "serial", "-o", "three.txt")
    assert three.exit_code == 0, three.output
    texts = {Path(f"{name}.txt").read_text() for name in ("one", "two", "three")}
    assert len(texts) == 1


def test_a_stored_run_of_sparse_vectors_names_its_files(sparse_files):
    Path("qrels.txt").write_text("".join(f"d{i} 0 d{i + 1} 1\n" for i in range(5)), "utf-8")
    arguments = ("q.jsonl", "d.jsonl", "--metric", "dot", "-r", "qrels.txt")
    done = call(*arguments, "--signature", "--save", "--store", "runs.db", "-o", "run.txt")
    assert done.exit_code == 0, done.output
    assert "sparse-dot" in done.output
    with open_store("runs.db") as store:
        data = store.runs()[0].data
    for name in ("q.jsonl", "d.jsonl"):
        digest = hashlib.sha256(Path(name).read_bytes()).hexdigest()
        assert data[name]["sha256"] == digest


@pytest.mark.parametrize(
    ("text", "arguments", "code", "message"),
    [
        ('{"a": NaN}', [], 3, "line 1"),
        ('{"a": 1}\n{"a": "x"}', [], 3, "line 2"),
        ('{"a": 1', [], 3, "line 1"),
        ("", [], 3, "empty"),
        ("{}", [], 3, "Pass weights"),
        ('{"zz": 1}', [], 3, "share no term"),
        ('{"t1": 1}', ["--metric", "l2"], 2, "'dot' or 'cosine'"),
        ('{"t1": 1}', ["--zero", "drop"], 2, "zero='error'"),
        ('{"t1": 1}', ["--prepare", "lists"], 2, "Sparse vectors cannot be prepared in a file"),
        ('{"t1": 1}', ["--doc-ids", "q.npy"], 3, "q.npy"),
    ],
)
def test_sparse_files_that_do_not_fit(sparse_files, capsys, text, arguments, code, message):
    from assay.cli.main import main

    Path("docs.jsonl").write_text(text, "utf-8")
    assert main(["rank", "q.jsonl", "docs.jsonl", *arguments, "-o", "run.txt"]) == code
    assert message in capsys.readouterr().err
    assert not Path("run.txt").exists()
