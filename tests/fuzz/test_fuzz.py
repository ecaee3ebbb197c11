"""A bounded run of the harness; `python -m tests.fuzz --minutes 60` is the long one."""

from __future__ import annotations

import pytest

from tests.fuzz.harness import fuzz, try_file
from tests.fuzz.seeds import SEEDS, write_partners
from tests.fuzz.targets import TARGETS, InternalError, command, try_target


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 20))]
)
def test_no_mutated_file_breaks_a_reader(tmp_path, seed):
    pytest.importorskip("pyarrow")
    calls, found = fuzz(tmp_path, seed=seed, files=28 * len(SEEDS))
    assert calls == 28 * len(SEEDS)
    assert not found, "\n".join(map(str, found))


@pytest.mark.parametrize("name", SEEDS)
def test_every_seed_is_sound_and_has_readers(tmp_path, name):
    """A seed that is refused unchanged would try nothing behind the first check."""
    pytest.importorskip("pyarrow")
    write_partners(tmp_path)
    (tmp_path / name).write_bytes(SEEDS[name]())
    TARGETS[name][0](tmp_path / name)


def test_the_harness_tells_what_broke(tmp_path):
    def broken(path):
        raise KeyError(path.name)

    (found,) = try_file("run.trec", b"x", tmp_path, (broken,))
    assert found.data == b"x"
    assert "run.trec through broken: KeyError" in str(found)


def test_an_exit_code_of_an_internal_error_is_a_failure(tmp_path, monkeypatch):
    monkeypatch.setattr("tests.fuzz.targets.main", lambda words: 70)
    with pytest.raises(InternalError, match="exit 70"):
        try_target(command("eval", "{}"), tmp_path)
