"""A Ray cluster that is started for one process: on loopback, behind a token, in a private folder.

Whoever reaches the ports of a Ray cluster can run code on it. So this one listens on loopback
only, asks for a token that stands in no file, and has its session below a folder that other users
cannot enter (Ray itself makes its folders writable for everybody). The folder is removed with it.
"""

from __future__ import annotations

import atexit
import os
import re
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from importlib import import_module
from ipaddress import ip_address
from typing import Any, Final

from assay.errors import ClusterError

_OLDEST: Final = (2, 52)  # of Ray: the first that asks for a token
_LONGEST_FOLDER: Final = 40  # characters; the paths of Ray's sockets below it end at 107
_TOKEN: Final = "RAY_AUTH_TOKEN"
_LOOPBACK: Final = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"  # "0": a cluster of one machine


class OwnRay:
    """Such a cluster, from its start until `close`; the variables that Ray reads are put back."""

    def __init__(self, ray: Any, **options: Any) -> None:
        _refuse_old(ray.__version__)
        self._ray = ray
        self._before: dict[str, str | None] = {}
        self.folder = _make_folder()
        atexit.register(self.close)
        try:
            self._set(RAY_AUTH_MODE="token", RAY_AUTH_TOKEN_PATH=None)
            self._set(**{_TOKEN: _token(), _LOOPBACK: "0"})
            _read_variables_again()
            with _one_machine(ray):
                ray.init(address="local", _temp_dir=os.path.join(self.folder, "r"), **options)
            _refuse_open(ray.util.get_node_ip_address())
        except BaseException:
            self.close()
            raise

    def _set(self, **variables: str | None) -> None:
        for name, value in variables.items():
            self._before.setdefault(name, os.environ.get(name))
            _set_variable(name, value)

    def close(self) -> None:
        """End the cluster, put the variables back, and remove its folder."""
        atexit.unregister(self.close)
        try:
            self._ray.shutdown()
        finally:
            for name, value in self._before.items():
                _set_variable(name, value)
            _read_variables_again()
            shutil.rmtree(self.folder, ignore_errors=True)


def _refuse_old(version: str) -> None:
    numbers = tuple(map(int, re.findall(r"\d+", version)[:2]))
    if numbers < _OLDEST:
        oldest = ".".join(map(str, _OLDEST))
        raise ClusterError(
            f"Ray {version} cannot ask for a token, so that no cluster is started with it. "
            f"Install ray>={oldest}, or use 'threads'."
        )


def _refuse_open(address: str) -> None:
    """Whatever a future Ray makes of the settings, nobody else may reach the cluster."""
    if not ip_address(address.strip("[]")).is_loopback:
        raise ClusterError(f"Ray listens on {address}, not on loopback only. It was ended.")


def _make_folder() -> str:
    """A folder that only this user can enter."""
    place = tempfile.gettempdir()
    if len(place) > _LONGEST_FOLDER and os.path.isdir("/tmp"):
        place = "/tmp"
    return tempfile.mkdtemp(prefix="assay-ray-", dir=place)


@cache
def _token() -> str:
    """One token for all clusters of this process: Ray keeps the first that it reads."""
    return secrets.token_hex(32)


def _set_variable(name: str, value: str | None) -> None:
    if value is None:
        os.environ.pop(name, None)
    else:
        os.environ[name] = value


def _read_variables_again() -> None:
    """Ray remembers mode and token of a cluster that this process used before."""
    with suppress(ImportError, AttributeError):
        inner = import_module("ray._raylet")
        inner.Config.initialize("")
        inner.AuthenticationTokenLoader.instance().reset_cache()


@contextmanager
def _one_machine(ray: Any) -> Iterator[None]:
    """The variable of the same meaning is read only once, when Ray is imported."""
    constants = ray._private.ray_constants
    before = constants.ENABLE_RAY_CLUSTER
    constants.ENABLE_RAY_CLUSTER = False
    try:
        yield
    finally:
        constants.ENABLE_RAY_CLUSTER = before
