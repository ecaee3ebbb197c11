"""TREC files from disk: real ones, compressed ones, and every way a file can be wrong."""

from __future__ import annotations

import errno
import gzip
import os
from collections.abc import Callable
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from assay.errors import FormatError, MissingPackageError, StorageError, ValueRangeError
from assay.io import formats, streams
from assay.io.formats import parse_qrels, parse_run
from assay.io.streams import need_zstd, open_chunks
from assay.native import load
from tests.zst import zst_compress

ROOT = Path(__file__).resolve().parents[2]
DATA = Path(os.environ.get("ASSAY_DATA", ROOT.parent / "shared" / "data"))
RUN = "q1 Q0 a 1 2.0 tag\nq1 Q0 b 2 1.0 tag\n"


@pytest.fixture(autouse=True, params=["native", "numpy"])
def engine(request, monkeypatch) -> str:
    try:
        kernels = load(request.param)
    except ImportError:
        pytest.skip("assay.native._kernels is not built")
    monkeypatch.setattr(formats, "kernels", lambda: kernels)
    return request.param


@pytest.fixture
def data_file(engine, tmp_path) -> Callable[[str], Path]:
    """A file of the test data: the whole of it, or its beginning for the slow twins."""

    def find(name: str) -> Path:
        path = DATA / name
        if not path.exists():
            pytest.skip(f"{path} is absent; set ASSAY_DATA to the folder of test data")
        if engine == "native":
            return path
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            return write(tmp_path / "head", b"".join(islice(file, 4000)))

    return find


def lines_of(path: Path) -> list[list[str]]:
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as text:
        return [line.split() for line in text if line.strip() and not line.startswith("#")]


@pytest.mark.parametrize(
    "name",
    [
        "trec_eval_tests/results.test",
        "trec_eval_tests/results-302.test",
        "trec_eval_tests/results.comment.test",
        "robust03/input.InexpC2.gz",
        "robust03/input.MU03rob01.gz",
        "robust03/input.NLPR03vb10.gz",
        "robust03/input.pircRBa1.gz",
        "robust03/input.rutcor03100.gz",
    ],
)
def test_real_runs(data_file, name):
    path = data_file(name)
    run, lines = parse_run(path), lines_of(path)
    assert run.query_ids.take(run.queries).to_list() == [line[0] for line in lines]
    assert run.doc_ids.take(run.docs).to_list() == [line[2] for line in lines]
    assert run.values.tolist() == [float(line[4]) for line in lines]
    assert run.tag == lines[-1][5]
    assert run.doc_ids.first_duplicate() is None


@pytest.mark.parametrize(
    "name",
    [
        "trec_eval_tests/qrels.test",
        "trec_eval_tests/qrels.123",
        "trec_eval_tests/qrels.comments.123",
        "trec_eval_tests/qrels.test.with-comments",
        "trec_eval_tests/qrels.comment.test",
        "robust03/robust03_qrels.txt.gz",
    ],
)
def test_real_qrels(data_file, name):
    path = data_file(name)
    qrels, lines = parse_qrels(path), lines_of(path)
    assert qrels.query_ids.take(qrels.queries).to_list() == [line[0] for line in lines]
    assert qrels.doc_ids.take(qrels.docs).to_list() == [line[2] for line in lines]
    assert qrels.values.tolist() == [float(line[3]) for line in lines]


def test_a_real_run_with_junk_at_the_end_of_lines(data_file):
    path = data_file("trec_eval_tests/results.trunc")
    run = parse_run(path)
    assert run.overlong == sum(len(line) > 6 for line in lines_of(path)) > 0
    assert run.tag == "STANDARD"


def write(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def test_plain_gz_and_zst_are_known_by_their_bytes(tmp_path):
    raw = RUN.encode()
    half = len(raw) // 2
    for content in (
        raw,
        gzip.compress(raw),
        gzip.compress(raw[:half]) + gzip.compress(raw[half:]) + b"\0" * 9,
        zst_compress(raw),
        zst_compress(raw[:half]) + zst_compress(raw[half:]),
    ):
        run = parse_run(write(tmp_path / "run.txt", content))
        assert run.doc_ids.to_list() == ["a", "b"]
        assert (run.tag, run.rank_disagreements, run.rank_unreadable) == ("tag", 0, 0)


def test_arrays_are_read_only(tmp_path):
    for column in parse_run(write(tmp_path / "r", RUN))[2:5]:
        with pytest.raises(ValueError, match="read-only"):
            column[0] = 1


@pytest.mark.parametrize(
    ("line", "error", "message"),
    [
        (
            "q Q0 d 1 2.5",
            FormatError,
            r"run.txt, line 3: expected 6 columns \(query, Q0, doc, rank, score, tag\), "
            "found 5: 'q Q0 d 1 2.5'",
        ),
        ("q Q0 d 1 x t", FormatError, "line 3: the score 'x' is not a number"),
        ("q Q0 d 1 nan t", ValueRangeError, "line 3: the score 'nan' is not finite"),
        ("q Q0 d 1 1e999 t", ValueRangeError, "line 3: the score '1e999' is too large"),
        (b"q Q0 d\xe9 1 1 t", FormatError, "line 3: the text is not UTF-8: 'q Q0 d\ufffd 1"),
        ("q Q0 d 1 1 t\0", FormatError, r"line 3: the line holds a NUL byte: 'q Q0 d 1 1 t\\x00'"),
        ("q Q0\v d 1 1 t", FormatError, r"line 3: .*vertical tab.*: 'q Q0\\x0b d"),
        ("x" * 2_000_000, FormatError, "line 3: the line is longer than 1 MiB: 'x{59}…'"),
    ],
)
def test_faults_become_errors(tmp_path, line, error, message):
    raw = line.encode() if isinstance(line, str) else line
    path = write(tmp_path / "run.txt", RUN.encode() + raw + b"\n")
    with pytest.raises(error, match=message):
        parse_run(path)


def test_qrels_messages_speak_of_grades(tmp_path):
    with pytest.raises(FormatError, match="line 1: the grade 'x' is not a number"):
        parse_qrels(write(tmp_path / "qrels", "q 0 d x\n"))


@pytest.mark.parametrize("content", ["# only\n#comments\n", "\n\n", "\ufeff", " "])
def test_no_lines(tmp_path, content):
    with pytest.raises(FormatError, match="holds no run lines"):
        parse_run(write(tmp_path / "run", content))


@pytest.mark.parametrize("content", [b"", gzip.compress(b"", mtime=0)], ids=["bare", "gzip"])
def test_empty(tmp_path, content):
    with pytest.raises(FormatError, match="is empty"):
        parse_run(write(tmp_path / "run", content))


def test_file_system_faults(tmp_path):
    for path, message in (
        (tmp_path / "none", "does not exist"),
        (tmp_path, "is a directory"),
        (f"{tmp_path}/a\0b", "Cannot read"),
        (write(tmp_path / "file", "x") / "below", "Cannot read"),
    ):
        with pytest.raises(StorageError, match=message):
            parse_run(path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes on this system")
def test_a_pipe_does_not_block(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(StorageError, match="is a pipe or device"):
        parse_run(tmp_path / "pipe")


def test_an_unreadable_file(tmp_path, monkeypatch):
    write(tmp_path / "run", RUN)

    def refuse(*_):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(streams.os, "open", refuse)  # the superuser may read everything
    with pytest.raises(StorageError, match="is not readable"):
        parse_run(tmp_path / "run")


def test_every_truncation_is_noticed(tmp_path):
    raw = "".join(f"q Q0 d{i} {i} {-i} t\n" for i in range(50)).encode()
    for suffix, content in ((".gz", gzip.compress(raw)), (".zst", zst_compress(raw))):
        for cut in range(1, len(content)):
            with pytest.raises(FormatError, match=r"truncated|does not begin|damaged"):
                parse_run(write(tmp_path / f"run{suffix}", content[:cut]))


def test_damage_is_noticed(tmp_path):
    content = bytearray(gzip.compress(RUN.encode() * 9))
    content[-6] ^= 1  # in the checksum
    with pytest.raises(FormatError, match=r"damaged gzip.*Fetch it again"):
        parse_run(write(tmp_path / "run.gz", bytes(content)))
    with pytest.raises(FormatError, match="damaged gzip"):
        parse_run(write(tmp_path / "run.gz", gzip.compress(RUN.encode()) + b"garbage"))
    with pytest.raises(FormatError, match=r"named \.gz but does not begin"):
        parse_run(write(tmp_path / "run.gz", RUN))


def test_bombs_are_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("ASSAY_MAX_BYTES", str(1 << 20))
    line = b"# " + b"x" * 998 + b"\n"
    for content in (gzip.compress(line * 5000), zst_compress(line * 5000)):
        with pytest.raises(FormatError, match=r"expands to takes more than 1048576.*bomb"):
            parse_run(write(tmp_path / "run", content))
    # Large, or well compressed, but not both.
    assert (
        len(parse_run(write(tmp_path / "run", gzip.compress(RUN.encode() + line * 300))).values)
        == 2
    )
    noise = np.random.default_rng(0).integers(97, 122, 3 << 20, dtype=np.uint8).tobytes()
    path = write(tmp_path / "noise.gz", gzip.compress(noise))
    assert b"".join(open_chunks(path, 1000)) == noise


def test_zst_without_the_package(tmp_path, monkeypatch):
    path = write(tmp_path / "run.zst", zst_compress(RUN.encode()))

    def no_package(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr(streams, "import_module", no_package)
    with pytest.raises(MissingPackageError, match=r"zst files needs .*\[zst\]"):
        parse_run(path)


def test_chunks_have_the_size_given(tmp_path):
    path = write(tmp_path / "x", b"x" * 2500)
    assert [len(chunk) for chunk in open_chunks(path, 1000)] == [1000, 1000, 500]


def _zstd_with(options, dictionary=None):
    zstd = need_zstd("the tests")
    chosen = {getattr(zstd.CompressionParameter, key): value for key, value in options.items()}
    whole = zstd.ZstdCompressor(options=chosen, zstd_dict=dictionary)
    return whole.compress(b"q 0 d 1\n" * 20) + whole.flush()


def test_a_sound_zstd_file_that_is_not_read_is_not_called_damaged(tmp_path):
    path = tmp_path / "a.qrels.zst"
    path.write_bytes(_zstd_with({"window_log": 27}))
    assert b"".join(open_chunks(path)) == b"q 0 d 1\n" * 20
    path.write_bytes(_zstd_with({"window_log": 28}))
    with pytest.raises(FormatError, match=r"window is larger than 128 MiB.*Compress it again"):
        list(open_chunks(path))
    words = [bytes([n, n + 1]) * 40 for n in range(200)]
    dictionary = need_zstd("the tests").train_dict(words, 1000)
    path.write_bytes(_zstd_with({}, dictionary))
    with pytest.raises(FormatError, match=r"made with a dictionary.*Compress it again"):
        list(open_chunks(path))
