"""Faults that the embedding cache meets, by their numbers."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from assay.models import EmbeddingCache
from tests.models.cached_runs import RUN, encoded, kept, started
from tests.waiting import PATIENCE, until


def test_every_flipped_byte_is_noticed(place):
    truth = encoded(40).vectors
    (segment,) = (place / "cache").rglob("*.segment")
    whole = segment.read_bytes()
    heard = []
    for at in range(0, len(whole), 3):
        for other in (place / "cache").rglob("*.segment"):
            other.unlink()
        segment.write_bytes(whole[:at] + bytes([whole[at] ^ 16]) + whole[at + 1 :])
        made = encoded(40, tell=heard.append)
        assert made.vectors.tobytes() == truth.tobytes()
        assert made.n_computed == 40
        assert encoded(40, tell=pytest.fail).n_computed == 0  # mended: the newer block counts
    assert all("is damaged; recomputing" in words for words in heard)
    assert heard


def test_every_cut_is_survived(place):
    truth = encoded(30).vectors
    more = encoded(60).vectors
    old, new = sorted((place / "cache").rglob("*.segment"))
    whole = new.read_bytes()
    for at in range(0, len(whole), 7):
        for other in (place / "cache").rglob("*.segment"):
            if other != old:
                other.unlink()
        new.write_bytes(whole[:at])
        made = encoded(60)
        assert made.n_computed == 30
        assert made.vectors.tobytes() == more.tobytes()
    assert more[:30].tobytes() == truth.tobytes()


def test_a_sound_block_before_a_damaged_one_is_used(tmp_path):
    one = EmbeddingCache(tmp_path, tell=lambda words: None).of_model("m")
    first, second = kept(10, 1), kept(10, 2)
    one.add(*first)
    one.add(*second)
    (segment,) = tmp_path.rglob("*.segment")
    raw = bytearray(segment.read_bytes())
    raw[-1] ^= 1
    segment.write_bytes(raw)
    assert one.find(first[0]).known.all()
    assert not one.find(second[0]).known.any()


def test_a_killed_run_is_resumed(place):
    total = 1024 * 12
    process = started(total, HANG_AT="3")
    calls = place / "calls"
    until(lambda: calls.exists() and calls.read_text().count("\n") == 3)
    process.kill()
    process.communicate()
    made = encoded(total)
    assert 0 < made.n_computed <= total - 2 * 1024
    assert made.vectors.tobytes() == encoded(total, cache=False).vectors.tobytes()
    assert encoded(total).n_computed == 0


def test_a_full_disk_is_told_and_survived(place):
    resource = pytest.importorskip("resource")
    truth = encoded(3000, cache=False).vectors.tobytes()
    process = subprocess.run(
        [sys.executable, "-c", RUN, "3000"],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, 40_000)),
        capture_output=True,
        timeout=PATIENCE,
        check=False,
    )
    assert process.returncode == 0, process.stderr.decode()
    assert process.stdout == truth
    words = process.stderr.decode()
    assert words.count("cannot be written (File too large). Continuing without it") == 1
    made = encoded(3000)
    assert made.n_computed == 3000 - 1024  # what fitted is sound
    assert made.vectors.tobytes() == truth


def test_a_folder_that_cannot_be_is_told_and_survived(place):
    (place / "cache").write_text("a file")
    heard = []
    made = encoded(2000, tell=heard.append)
    assert made.n_computed == 2000
    assert len(heard) == 1
    assert "Continuing without it; set ASSAY_CACHE" in heard[0]


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_may_only_be_read(place):
    encoded(10)
    heard = []
    folders = [place / "cache", *(p for p in (place / "cache").rglob("*") if p.is_dir())]
    for folder in folders:
        folder.chmod(0o500)
    try:
        assert encoded(20, tell=heard.append).n_computed == 10
    finally:
        for folder in folders:
            folder.chmod(0o700)
    assert "cannot be written" in heard[0]
