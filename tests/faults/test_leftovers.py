"""What a killed process leaves behind is removed by the next one; what a living one uses stays."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from assay.io import streams
from assay.io.streams import ScratchFolder, atomic_write, remove_leftovers

pytestmark = pytest.mark.skipif(os.name != "posix", reason="locks of files")

BUSY = """
import sys
from assay.io.streams import ScratchFolder, atomic_write
with atomic_write(sys.argv[1] + "/out.json") as file, ScratchFolder("ray", sys.argv[1]) as folder:
    open(folder + "/inside", "w").close()
    file.write(b"half")
    print("busy", flush=True)
    sys.stdin.read()
"""
LIKE_OURS = ("assay-demo", "assay-index-my_stuff", "assay-ray-12345678", ".assay-cache", "x.part")


@pytest.fixture(autouse=True)
def unseen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "tidied_folders", set())


@pytest.fixture
def busy(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process in the middle of writing a file, with a folder for a while."""
    command = [sys.executable, "-c", BUSY, str(tmp_path)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"busy\n"
        yield process
        process.kill()


def age(folder: Path) -> set[str]:
    """Let what is there be an hour old."""
    for path in folder.iterdir():
        os.utime(path, (time.time() - 3600,) * 2)
    return {path.name for path in folder.iterdir()}


def test_the_next_run_removes_what_a_killed_one_left(tmp_path, busy, monkeypatch):
    for name in LIKE_OURS:
        (tmp_path / name).mkdir()
    there = age(tmp_path)
    assert len(there) == len(LIKE_OURS) + 2
    with atomic_write(tmp_path / "new.json") as file:
        file.write(b"{}")
    assert {path.name for path in tmp_path.iterdir()} == {*there, "new.json"}, "it is in use"
    busy.send_signal(signal.SIGKILL)
    busy.wait()
    assert age(tmp_path) == {*there, "new.json"}
    with atomic_write(tmp_path / "new.json") as file:
        file.write(b"{}")
    assert len(list(tmp_path.iterdir())) == len(there) + 1, "a folder is looked through once"
    monkeypatch.setattr(streams, "tidied_folders", set())
    with ScratchFolder("shard", str(tmp_path)) as scratch:
        assert {path.name for path in tmp_path.iterdir()} == {
            *LIKE_OURS,
            "new.json",
            Path(scratch).name,
        }
    assert {path.name for path in tmp_path.iterdir()} == {*LIKE_OURS, "new.json"}


def test_links_pipes_and_what_was_made_this_moment_stay(tmp_path, monkeypatch):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "data").touch()
    (tmp_path / "assay-ray-abcdefgh.tmp").symlink_to(tmp_path / "mine")
    (tmp_path / f".assay-{'0' * 16}.part").symlink_to(tmp_path / "mine" / "data")
    (tmp_path / f".assay-{'1' * 16}.part").touch()
    remove_leftovers(str(tmp_path))
    assert len(list(tmp_path.iterdir())) == 4
    age(tmp_path)
    os.mkfifo(tmp_path / f".assay-{'2' * 16}.part")
    os.utime(tmp_path / f".assay-{'2' * 16}.part", (0, 0))
    monkeypatch.setattr(streams, "tidied_folders", set())
    remove_leftovers(str(tmp_path))  # and does not wait for somebody to write into the pipe
    assert (tmp_path / "mine" / "data").exists()
    assert not (tmp_path / f".assay-{'1' * 16}.part").exists()


def test_a_file_system_without_locks_is_written(tmp_path, monkeypatch):
    def no_locks(*_):
        raise OSError(37, "No locks available")

    monkeypatch.setattr("fcntl.flock", no_locks)
    (tmp_path / f".assay-{'1' * 16}.part").touch()
    age(tmp_path)
    with atomic_write(tmp_path / "new.json") as file:
        file.write(b"{}")
    with ScratchFolder("shard", str(tmp_path)) as scratch:
        assert os.path.isdir(scratch)
    assert len(list(tmp_path.iterdir())) == 2, "nobody knows whose it is"
