"""FAULTS 38 to 45: files that are damaged, hostile, or not files at all."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import os
import resource
import shutil
import subprocess
import sys
import textwrap
import zipfile

import numpy as np
import pytest

import assay
from assay.core.conventions import preset
from assay.errors import AssayError, FormatError, InputError, StorageError
from assay.io.arrays import load_npz
from assay.io.formats import as_judgments, as_ranking, read_qrels, read_run
from assay.io.writers import write_qrels, write_run
from assay.scoring.score_data import write_scores
from tests.zst import zst_compress

RULES = preset("trec_eval")
RUN = {f"q{i}": {f"d{j}": float(i * j % 7) for j in range(9)} for i in range(5)}


def file(folder, name, content):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def npy_bytes(header, data=b""):
    text = (header + " " * 200)[:117].encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + data


@pytest.mark.parametrize("ending", ["npz", "parquet", "txt.gz", "csv.zst", "json.gz"])
def test_truncated_at_many_cuts(tmp_path, ending):
    path = tmp_path / f"run.{ending}"
    write_run(as_ranking(RUN, RULES), path)
    whole = path.read_bytes()
    cuts = {*range(0, len(whole), max(len(whole) // 150, 1)), *range(len(whole) - 20, len(whole))}
    for cut in sorted(cuts):
        path.write_bytes(whole[:cut])
        with pytest.raises(FormatError, match=r"run\."):
            read_run(path)


def test_truncated_npy(tmp_path):
    path = tmp_path / "s.npy"
    np.save(path, np.arange(60.0).reshape(6, 10))
    whole = path.read_bytes()
    for cut in range(len(whole)):
        path.write_bytes(whole[:cut])
        with pytest.raises(FormatError, match=r"s\.npy"):
            read_run(path)


@pytest.mark.parametrize("ending", ["npz", "parquet", "npy"])
def test_flipped_bytes_never_escape_as_tracebacks(tmp_path, ending):
    path = tmp_path / f"run.{ending}"
    if ending == "npy":
        np.save(path, np.arange(60.0).reshape(6, 10))
    else:
        write_run(as_ranking(RUN, RULES), path)
    whole = path.read_bytes()
    rng = np.random.default_rng(0)
    for _ in range(300):
        damaged = bytearray(whole)
        for place in rng.integers(0, len(whole), 3):
            damaged[place] = rng.integers(0, 256)
        path.write_bytes(damaged)
        with contextlib.suppress(AssayError):
            read_run(path)


@pytest.mark.parametrize(
    "shape",
    ["(1000000000000000,)", "(1000000, 1000000000)", f"({10**30},)", "(-1, 5)", "(True, 2)"],
)
def test_headers_that_claim_too_much_are_refused_before_allocation(tmp_path, shape):
    header = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}"
    content = npy_bytes(header, bytes(160))
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as packed:
        packed.writestr("scores.npy", content)
    limits = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (64 << 30, limits[1]))
    try:
        for name, data in (("s.npy", content), ("s.npz", archive.getvalue())):
            with pytest.raises(FormatError, match="header claims"):
                read_run(file(tmp_path, name, data))
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limits)


@pytest.mark.parametrize(
    "header",
    [
        "__import__('os').mkdir('ran')",
        "{'descr': '<f8'}",
        "(" * 100,
        "{'descr': [('a', '|O')], 'fortran_order': False, 'shape': (1,)}",
        "{'descr': 'no such type', 'fortran_order': False, 'shape': (1,)}",
        "{'descr': '<f8', 'fortran_order': 3, 'shape': (1,)}",
        "{'descr': '<f8', 'fortran_order': False, 'shape': 'x'}",
        "\0\0\0",
    ],
)
def test_headers_that_are_none(tmp_path, header, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FormatError, match=r"s\.npy"):
        read_run(file(tmp_path, "s.npy", npy_bytes(header, bytes(8))))
    assert not (tmp_path / "ran").exists()


def test_bombs_are_refused_over_a_stated_ratio(tmp_path, monkeypatch):
    monkeypatch.setenv("ASSAY_MAX_BYTES", str(1 << 20))
    zeros = np.zeros((1000, 1000))
    np.savez_compressed(tmp_path / "s.npz", scores=zeros)
    lines = b"# comment that goes on and on\n" * 200_000
    file(tmp_path, "run.gz", gzip.compress(lines))
    file(tmp_path, "run.zst", zst_compress(lines))
    file(tmp_path, "run.json.gz", gzip.compress(b" " * 5_000_000))
    file(tmp_path, "run.csv.gz", gzip.compress(b"\n" * 5_000_000))
    for name in ("s.npz", "run.gz", "run.zst", "run.json.gz", "run.csv.gz"):
        with pytest.raises(FormatError, match=r"200 times its size.*decompression bomb"):
            read_run(tmp_path / name)


def test_parquet_bomb(tmp_path, monkeypatch):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    monkeypatch.setenv("ASSAY_MAX_BYTES", str(1 << 20))
    n = 2_000_000
    table = pa.table(
        {"query": pa.repeat("q", n), "doc": pa.repeat("d", n), "score": pa.repeat(1.0, n)}
    )
    pq.write_table(table, tmp_path / "r.parquet")
    with pytest.raises(
        FormatError, match=r"r\.parquet holds .*decompression bomb.*ASSAY_MAX_BYTES"
    ):
        read_run(tmp_path / "r.parquet")


def test_a_member_that_lies_about_its_size(tmp_path):
    """The directory of the archive says 8 bytes of data; megabytes follow."""
    content = npy_bytes(
        "{'descr': '<f8', 'fortran_order': False, 'shape': (1, 1), }", bytes(1 << 22)
    )
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("scores.npy", content)
    honest = len(content).to_bytes(4, "little")
    lie = (len(content) - (1 << 22) + 8).to_bytes(4, "little")
    assert honest in archive.getvalue()
    with pytest.raises(FormatError):
        read_run(file(tmp_path, "s.npz", archive.getvalue().replace(honest, lie)))


@pytest.mark.parametrize(
    "name", ["../../escaped.npy", "/tmp/escaped.npy", "C:\\escaped.npy", "a/b"]
)
def test_member_names_are_never_paths(tmp_path, name):
    content = npy_bytes("{'descr': '<f8', 'fortran_order': False, 'shape': (1, 1), }", bytes(8))
    folder = tmp_path / "a" / "b"
    folder.mkdir(parents=True)
    with zipfile.ZipFile(folder / "s.npz", "w") as packed:
        packed.writestr("scores.npy", content)
        packed.writestr(name, content)
    assert read_run(folder / "s.npz").n_docs == 1
    with pytest.raises(FormatError, match=r"holds .*Known arrays are queries, docs"):
        load_npz(folder / "s.npz", ("queries", "docs"))
    assert [p.name for p in tmp_path.rglob("*") if p.is_file()] == ["s.npz"]
    assert not os.path.exists("/tmp/escaped.npy")


def test_one_name_twice(tmp_path):
    with zipfile.ZipFile(tmp_path / "s.npz", "w") as packed:
        packed.writestr("scores.npy", b"")
        packed.writestr("scores", b"")
    with pytest.raises(FormatError, match="'scores' twice"):
        read_run(tmp_path / "s.npz")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('{"q": {"a": NaN}}', "NaN is not valid JSON"),
        ('{"q": {"a": -Infinity}}', "-Infinity is not valid JSON"),
        ('{"q": {"a": 1, "a": 2}}', "the key 'a' appears twice"),
        ("[" * 10_000 + "]" * 10_000, "nested too deeply"),
        ('{"a":' * 10_000 + "1" + "}" * 10_000, "nested too deeply"),
        ("[" * 1_000_000, "nested too deeply"),
        ('{"q": {"a": 1', "not JSON"),
        ('{"q": {"a": 1}} {}', "not JSON"),
    ],
)
def test_json_that_is_not_data(tmp_path, text, found):
    for name in ("run.json", "run.jsonl"):
        with pytest.raises(FormatError, match=found):
            read_run(file(tmp_path, name, text))
        with pytest.raises(FormatError, match=found):
            read_qrels(file(tmp_path, name, text))


def test_pt_files_are_not_loaded(tmp_path):
    """A .pt file is an archive with a pickle inside; here it is an archive without known arrays."""
    import pickle

    class Payload:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "ran"),)

    with zipfile.ZipFile(tmp_path / "model.pt", "w") as packed:
        packed.writestr("archive/data.pkl", pickle.dumps(Payload()))
    with pytest.raises(FormatError, match="Known arrays are"):
        read_run(tmp_path / "model.pt")
    assert not (tmp_path / "ran").exists()


ENDINGS = ["txt", "csv", "json", "jsonl", "parquet", "npz", "npy"]


@pytest.mark.parametrize("ending", ["", *(f".{e}" for e in ENDINGS)])
def test_what_is_not_a_file(tmp_path, ending):
    os.mkdir(tmp_path / f"folder{ending}")
    os.mkfifo(tmp_path / f"pipe{ending}")
    os.symlink(tmp_path / f"loop{ending}", tmp_path / f"loop{ending}")
    for name, found in (
        ("folder", "is a directory"),
        ("pipe", "is a pipe or device"),
        ("absent", "does not exist"),
        ("loop", "Cannot read"),
        ("nul\0", "Cannot open"),
    ):
        for read in (read_run, read_qrels):
            with pytest.raises(StorageError, match=found):
                read(str(tmp_path / f"{name}{ending}"))


def test_an_unreadable_file(tmp_path):
    file(tmp_path, "good.txt", "q Q0 a 1 1 t\n")
    file(tmp_path, "run.txt", "q Q0 a 1 1 t\n").chmod(0)
    tmp_path.chmod(0o755)
    # The superuser may read everything, so it has to become another one, after all imports.
    code = """
        import os
        from assay.io.formats import read_run
        read_run("good.txt")
        if os.geteuid() == 0:
            os.setuid(65534)
        read_run("run.txt")
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "StorageError: run.txt is not readable. Check its permissions." in done.stderr


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("run.txt", b"q Q0 a 1 1 t\nq Q0 \xff 2 1 t\n"),
        ("run.csv", b"query,doc,score\nq,\xff,1\n"),
        ("run.jsonl", b'["q", "a", 1]\n["q", "\xff", 1]\n'),
        ("run.json", b'{"q":\n{"\xff": 1}}'),
        ("run.csv", "query,doc,score\nq,a,1\n".encode("utf-16")),
    ],
)
def test_text_that_is_not_utf8(tmp_path, name, content):
    with pytest.raises(FormatError, match=r"line [12]: .*UTF-8"):
        read_run(file(tmp_path, name, content))


def writers():
    many = {f"q{i}": {f"doc-{i}-{j}": float(j) for j in range(5)} for i in range(4000)}
    ranking = as_ranking(many, RULES)
    qrels = as_judgments({q: list(row) for q, row in many.items()})
    scores = assay.evaluate(ranking, qrels, ["RR", "AP"])
    for ending in ("txt", "csv", "json", "jsonl", "parquet", "npz", "txt.gz", "csv.zst"):
        yield f"run.{ending}", lambda path: write_run(ranking, path)
    for ending in ("txt", "parquet"):
        yield f"qrels.{ending}", lambda path: write_qrels(qrels, path)
    for ending in ("csv", "json", "jsonl", "parquet"):
        yield f"scores.{ending}", lambda path: write_scores(scores, path)


@pytest.fixture(params=["file system", "limit"])
def small_disk(tmp_path, request):
    """A file system of 8 KiB, or a process that may not write more."""
    folder = tmp_path / "small"
    folder.mkdir()
    with (mounted if request.param == "file system" else limited)(folder):
        yield folder


@contextlib.contextmanager
def mounted(folder):
    command = ["mount", "-t", "tmpfs", "-o", "size=8k", "tmpfs", str(folder)]
    if (
        not shutil.which("mount")
        or subprocess.run(command, capture_output=True, check=False).returncode
    ):
        pytest.skip("no small file system can be mounted here")
    try:
        yield
    finally:
        subprocess.run(["umount", str(folder)], check=True)


@contextlib.contextmanager
def limited(folder):
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8 << 10, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def test_disk_full_while_writing(small_disk):
    for name, write in writers():
        path = small_disk / name
        path.write_text("old")
        with pytest.raises(StorageError, match=r"Cannot write.*unchanged"):
            write(path)
        assert path.read_text() == "old"
        assert os.listdir(small_disk) == [name]
        path.unlink()


def test_a_killed_writer_leaves_the_old_file(tmp_path):
    path = file(tmp_path, "out.txt", "old")
    code = f"""
        import os, signal
        from assay.io.streams import atomic_write
        with atomic_write({str(path)!r}) as file:
            file.write(b"new" * 1000)
            file.flush()
            os.kill(os.getpid(), signal.SIGKILL)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=False)
    assert done.returncode == -9
    assert path.read_text() == "old"


def test_checks_hold_under_python_O(tmp_path):
    bad = json.dumps({"q": {"a b": 1}})
    file(tmp_path, "run.json", bad)
    code = (
        f"import assay; assay.evaluate({str(tmp_path / 'run.json')!r}, {{'q': {{'a': 1}}}}, 'RR')"
    )
    done = subprocess.run(
        [sys.executable, "-O", "-c", code], capture_output=True, text=True, check=False
    )
    assert "IdError" in done.stderr
    assert issubclass(assay.errors.IdError, InputError)
