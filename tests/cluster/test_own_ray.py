"""A Ray cluster that is started on the way: nobody else can reach it, and nothing stays behind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from ipaddress import ip_address
from pathlib import Path
from types import SimpleNamespace

import pytest

from assay.cluster import ray as ray_executor
from assay.errors import ClusterError
from tests.cluster.conftest import SETTINGS

ROOT = Path(__file__).resolve().parents[2]
QUIET = {name: value for name, value in SETTINGS.items() if "CLUSTER" not in name}


def start(tmp_path):
    """Run own_cluster.py with a home and a place for temporary files that are empty."""
    pytest.importorskip("ray")
    home, place = tmp_path / "home", Path(f"/tmp/own-{os.getpid()}")
    for folder in (home, place):
        folder.mkdir()
    variables = {"HOME": str(home), "TMPDIR": str(place), "RAY_TMPDIR": str(place), **QUIET}
    outer = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    try:
        made = subprocess.run(
            [sys.executable, "-m", "tests.cluster.own_cluster"],
            cwd=ROOT,
            env={**outer, **variables},
            capture_output=True,
            text=True,
            check=False,
        )
        return made, sorted(place.rglob("*")), sorted(home.rglob("*"))
    finally:
        for folder in (home, place):
            subprocess.run(["rm", "-rf", str(folder)], check=True)


def test_it_listens_on_loopback_with_a_token_and_leaves_nothing(tmp_path):
    made, place, home = start(tmp_path)
    assert made.returncode == 0, made.stderr
    seen = json.loads(made.stdout)
    assert len(seen["addresses"]) >= 3  # head, node and worker
    local = [ip_address(one.removeprefix("::ffff:")) for one in seen["addresses"]]
    assert all(one.is_loopback for one in local), seen["addresses"]
    assert (seen["mode"], seen["token"]) == ("token", 64)
    assert [name[:10] for name in seen["folders"]] == ["assay-ray-"]
    assert seen["open"] == seen["left"] == seen["environment"] == place == home == []


def test_an_older_ray_is_refused():
    with pytest.raises(ClusterError, match=r"Ray 2\.51\.1 has no token authentication"):
        ray_executor.PrivateRay(SimpleNamespace(__version__="2.51.1"))


def test_a_cluster_that_others_can_reach_is_ended(tmp_path, monkeypatch):
    ended = []
    ray = SimpleNamespace(
        __version__="9.0",
        init=lambda **_: None,
        shutdown=lambda: ended.append(True),
        util=SimpleNamespace(get_node_ip_address=lambda: "192.0.2.2"),
        _private=SimpleNamespace(ray_constants=SimpleNamespace(ENABLE_RAY_CLUSTER=True)),
    )
    monkeypatch.setattr(ray_executor, "reload_settings", lambda: None)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(ray_executor, "LONGEST_FOLDER", 1000)
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    with pytest.raises(ClusterError, match=r"listens on 192\.0\.2\.2"):
        ray_executor.PrivateRay(ray)
    assert ended == [True]
    assert not list(tmp_path.iterdir())
    assert (os.environ["RAY_AUTH_MODE"], os.environ.get("RAY_AUTH_TOKEN")) == ("disabled", None)
    assert ray._private.ray_constants.ENABLE_RAY_CLUSTER is True


def test_the_sockets_of_the_longest_folder_have_short_enough_paths(tmp_path, monkeypatch):
    """Of a process with the longest number; Linux takes 107 characters."""
    place = "/tmp/" + "x" * (ray_executor.LONGEST_FOLDER - 5)
    monkeypatch.setattr(
        tempfile, "mkdtemp", lambda prefix, suffix, **_: f"{place}/{prefix}12345678{suffix}"
    )
    monkeypatch.setattr(tempfile, "gettempdir", lambda: place)
    folder = ray_executor.make_private_folder().name
    session = "session_2026-11-18_06-34-43_589955_4194304"
    assert folder.startswith(place)
    assert len(f"{folder}/r/{session}/sockets/plasma_store") <= 107


def test_a_note_of_somebody_else_is_not_believed(tmp_path, monkeypatch):
    note = tmp_path / "ray" / "ray_current_cluster"
    note.parent.mkdir()
    note.write_text("192.0.2.66:6379")
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setattr(ray_executor, "knock", lambda address: None)
    assert ray_executor.find_cluster() == "192.0.2.66:6379"
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    assert ray_executor.find_cluster() is None
    monkeypatch.undo()
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))
    monkeypatch.setattr(ray_executor, "knock", lambda address: None)
    note.rename(tmp_path / "other")
    note.symlink_to(tmp_path / "other")
    assert ray_executor.find_cluster() is None
    monkeypatch.setenv("RAY_ADDRESS", "ray-head:6379")
    assert ray_executor.find_cluster() == "ray-head:6379"
