"""npy: vectors that are there already, by order or by id."""

from __future__ import annotations

import numpy as np
import pytest

from assay.errors import IdError, MismatchError, StorageError, UsageError, ValueRangeError
from assay.models import EncoderSettings, encoder, text_model


@pytest.fixture
def arrays(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    docs, queries = rng.normal(size=(5, 4)), rng.normal(size=(3, 4)).astype(np.float16)
    np.save("docs.npy", docs)
    np.save("queries.npy", queries)
    np.savez("both.npz", docs=docs, queries=queries)
    ids = {"doc_ids": np.array(list("abcde")), "query_ids": np.array(["x", "y", "z"])}
    np.savez("named.npz", docs=docs, queries=queries, **ids)
    return docs.astype(np.float32), queries.astype(np.float32)


@pytest.mark.parametrize("spec", ["npy:docs.npy,queries.npy", "npy:both.npz", "npy:named.npz"])
def test_rows_by_order(arrays, spec):
    model = text_model(spec)
    made = model.encode_docs([f"d{i}" for i in range(5)])
    assert np.array_equal(made.vectors, arrays[0])
    assert made.vectors.dtype == np.float32
    assert (made.n_computed, made.truncated) == (0, None)
    assert np.array_equal(model.encode_queries(["q"] * 3).vectors, arrays[1])


def test_rows_are_chosen_by_id(arrays):
    model = text_model("npy:named.npz")
    made = model.encode_docs(["t"] * 3, ids=["e", "a", "c"])
    assert np.array_equal(made.vectors, arrays[0][[4, 0, 2]])
    assert np.array_equal(model.encode_queries(["t"], ids=["y"]).vectors, arrays[1][[1]])
    with pytest.raises(IdError, match=r"named.npz holds no vector of doc 'q'"):
        model.encode_docs(["t"] * 2, ids=["a", "q"])
    with pytest.raises(MismatchError, match="texts has 2, ids has 1"):
        model.encode_docs(["t"] * 2, ids=["a"])


def test_settings_that_still_make_sense(arrays):
    model = text_model("npy:both.npz", settings=EncoderSettings(dimensions=2))
    expected = arrays[0][:, :2] / np.linalg.norm(arrays[0][:, :2], axis=1, keepdims=True)
    assert np.allclose(model.encode_docs(["t"] * 5).vectors, expected)
    for settings in ({"doc_prefix": "x"}, {"max_length": 3}, {"query_prefix": "x"}):
        with pytest.raises(UsageError, match="its vectors are precomputed"):
            text_model("npy:both.npz", settings=EncoderSettings(**settings))


def test_the_files_are_the_fingerprint(arrays):
    first = text_model("npy:both.npz").fingerprint
    assert text_model("npy:both.npz").fingerprint == first
    np.savez("both.npz", docs=arrays[0] + 1, queries=arrays[1])
    assert text_model("npy:both.npz").fingerprint != first


def test_what_does_not_fit(arrays):
    with pytest.raises(MismatchError, match="holds 5 doc vectors for 4 texts"):
        text_model("npy:both.npz").encode_docs(["t"] * 4)
    bad = arrays[0].copy()
    bad[2, 1] = np.nan
    np.save("bad.npy", bad)
    with pytest.raises(ValueRangeError, match="row 2, column 1"):
        text_model("npy:bad.npy,queries.npy").encode_docs(["t"] * 5)
    with pytest.raises(StorageError, match="does not exist"):
        text_model("npy:none.npy").encode_docs(["t"])


@pytest.mark.parametrize("spec", ["npy:", "npy:a,", "npy:a,b,c", "npy"])
def test_specs_that_name_nothing(spec):
    with pytest.raises(UsageError, match="names no vectors"):
        text_model(spec)


def test_no_text_can_be_encoded_by_files():
    with pytest.raises(UsageError, match=r"'npy:both\.npz' encodes one collection only"):
        encoder("npy:both.npz")
