"""One array of a file, by its key."""

from __future__ import annotations

import numpy as np
import pytest

from assay.errors import FormatError, UsageError
from assay.io.arrays import load_keyed


def test_npy_is_the_array(tmp_path):
    np.save(tmp_path / "a.npy", np.arange(6).reshape(2, 3))
    values, ids = load_keyed(tmp_path / "a.npy")
    assert values.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert ids is None
    with pytest.raises(UsageError, match="Omit the key 'x'"):
        load_keyed(tmp_path / "a.npy", "x")


def test_npz_by_key_by_usual_name_and_alone(tmp_path):
    both = tmp_path / "both.npz"
    np.savez(both, a=np.zeros(2), b=np.ones(2), sample_ids=np.array(["x", "y"]))
    values, ids = load_keyed(both, "b")
    assert values.tolist() == [1, 1]
    assert ids.tolist() == ["x", "y"]
    assert load_keyed(both, usual=("c", "a"))[0].tolist() == [0, 0]
    np.savez(tmp_path / "one.npz", anything=np.zeros(3))
    assert len(load_keyed(tmp_path / "one.npz")[0]) == 3
    with pytest.raises(UsageError, match=r"holds 'a', 'b'\. Name one with FILE"):
        load_keyed(both)
    with pytest.raises(UsageError, match=r"no array 'c'\. Name one of 'a', 'b', 'sample_ids'"):
        load_keyed(both, "c")
    assert load_keyed(f"{both}:b")[0].tolist() == load_keyed(f"{both}:b", "b")[0].tolist() == [1, 1]
    with pytest.raises(UsageError, match="name two arrays"):
        load_keyed(f"{both}:b", "a")


def test_pickles_beside_the_array_are_not_touched_and_never_loaded(tmp_path):
    np.savez(tmp_path / "x.npz", a=np.zeros(2), odd=np.array([{}], dtype=object), allow_pickle=True)
    assert len(load_keyed(tmp_path / "x.npz", "a")[0]) == 2
    with pytest.raises(FormatError, match="never loaded"):
        load_keyed(tmp_path / "x.npz", "odd")


def test_other_files(tmp_path):
    (tmp_path / "a.csv").write_text("1,2\n")
    with pytest.raises(FormatError, match=r"\.npy and \.npz"):
        load_keyed(tmp_path / "a.csv")
