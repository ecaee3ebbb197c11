"""Faults of vectors, codes and files, as `assay codes` meets them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

FEW = ("--method", "sign", "--k", "2", "--resamples", "200")


@pytest.fixture
def docs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> np.ndarray:
    monkeypatch.chdir(tmp_path)
    made = np.random.default_rng(1).normal(size=(9, 4))
    np.save("docs.npy", made)
    return made


def refused(assay, *arguments: str) -> str:
    answer = assay("codes", "--embeddings", "docs.npy", *arguments, *FEW)
    assert answer.code == 3
    assert answer.out == ""
    assert "Traceback" not in answer.err
    return answer.err


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_fault_1_nan_and_infinity(assay, docs, value):
    docs[4, 2] = value
    np.save("docs.npy", docs)
    assert "row 4" in refused(assay)


def test_fault_2_zero_vector(assay, docs):
    docs[3] = 0
    np.save("docs.npy", docs)
    assert "row 3" in refused(assay)
    for policy in ("drop", "last"):
        done = assay("codes", "--embeddings", "docs.npy", "--zero", policy, *FEW)
        assert done.code == 0, done.err


@pytest.mark.parametrize("scale", [1e-30, 1e30])
def test_fault_3_norms(assay, docs, scale):
    plain = assay("codes", "--embeddings", "docs.npy", *FEW, "--format", "csv").out
    np.save("docs.npy", docs * scale)
    assert assay("codes", "--embeddings", "docs.npy", *FEW, "--format", "csv").out == plain


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int8"])
def test_fault_4_types_are_recorded(assay, docs, dtype):
    np.save("docs.npy", (10 * docs).astype(dtype))
    done = assay("codes", "--embeddings", "docs.npy", *FEW)
    assert done.code == 0
    assert f"float vectors ({dtype})" in done.out


@pytest.mark.parametrize("shape", [(4,), (2, 2, 2), (0, 4), (4, 0)])
def test_fault_5_shapes(assay, docs, shape):
    np.save("docs.npy", np.zeros(shape))
    assert str(shape) in refused(assay)


def test_fault_6_dimensions(assay, docs):
    np.save("queries.npy", docs[:, :3])
    err = refused(assay, "--queries", "queries.npy")
    assert "4" in err
    assert "3" in err


def test_fault_8_a_code_that_is_no_bit(assay, docs):
    bits = (docs > 0).astype(int)
    bits[5, 1] = 7
    np.save("codes.npy", bits)
    err = refused(assay, "--codes", "mine=codes.npy")
    assert "codes.npy" in err
    assert "7" in err
    assert "row 5, column 1" in err


def test_fault_9_pad_bits_are_never_counted(assay, docs):
    np.save("codes.npy", np.packbits(docs > 0, axis=1))
    given = (
        "codes",
        "--embeddings",
        "docs.npy",
        "--codes",
        "mine=codes.npy",
        "--packed",
        "4",
        "--k",
        "2",
        "--format",
        "csv",
    )
    sound = assay(*given)
    assert sound.code == 0
    assert ",4,1," in sound.out
    np.save("codes.npy", np.packbits(docs > 0, axis=1) | 3)
    assert assay(*given).code == 3


def test_fault_10_pickles_are_not_loaded(assay, docs):
    np.save("docs.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    assert "pickled" in refused(assay)


def test_fault_11_duplicate_ids(assay, docs):
    Path("ids.txt").write_text("a\nb\nc\nd\ne\nf\ng\nh\na\n")
    assert "'a'" in refused(assay, "--doc-ids", "ids.txt")


@pytest.mark.parametrize("text", ["a\n\nb\n", "a b\n", "a\tb\n"])
def test_fault_13_empty_ids_and_white_space(assay, docs, text):
    Path("ids.txt").write_text(text)
    refused(assay, "--doc-ids", "ids.txt")


def test_fault_17_lengths_differ(assay, docs):
    Path("ids.txt").write_text("a\nb\n")
    err = refused(assay, "--doc-ids", "ids.txt")
    assert "2" in err
    assert "9" in err


def test_fault_38_truncated_files(assay, docs):
    whole = Path("docs.npy").read_bytes()
    for cut in (1, 20, 100, len(whole) - 3):
        Path("docs.npy").write_bytes(whole[:cut])
        refused(assay)


def test_fault_44_missing_files(assay, docs):
    for option in ("--queries", "--doc-ids", "--qrels"):
        answer = assay("codes", "--embeddings", "docs.npy", option, "absent.npy", *FEW)
        assert answer.code == 5, answer.err
        assert "absent.npy does not exist" in answer.err


def test_fault_65_terminal_escapes_in_names(assay, docs):
    np.save("codes.npy", (docs > 0).astype(int))
    done = assay(
        "codes", "--embeddings", "docs.npy", "--codes", "\x1b[31mred=codes.npy", "--k", "2"
    )
    assert done.code == 0
    assert "\x1b" not in done.out
