"""Run tasks on the nodes of a Ray cluster (https://docs.ray.io), which retries lost ones.

Values stay in Ray's object store; a node that is lost takes some along, and Ray computes them
again from their tasks. A task that raises is not retried: it would raise again.
"""

from __future__ import annotations

import atexit
import os
import re
import secrets
import signal
import socket
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from importlib import import_module
from ipaddress import ip_address
from itertools import count
from typing import Any, Final

from assay.cluster.executors import Executor, Handle, Receipt, Ticket, call
from assay.core import checks
from assay.errors import ClusterError, need
from assay.io.streams import ScratchFolder

_OLDEST: Final = (2, 52)  # of Ray: the first that asks for a token
LONGEST_FOLDER: Final = 18  # characters; Ray adds up to 89 for its sockets, whose paths end at 107
_TOKEN: Final = "RAY_AUTH_TOKEN"
_LOOPBACK: Final = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"  # "0": a cluster of one machine
_RETRIES: Final = 8  # of a task whose worker or node was lost
_PATIENCE: Final = 10.0  # seconds
_QUIET: Final = {
    "RAY_USAGE_STATS_ENABLED": "0",  # nothing is reported to anybody
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
}


class RayExecutor(Executor):
    """Run tasks on a Ray cluster.

    A cluster that is started here listens on loopback only, asks for a token that stands in no
    file, and has its session below a folder that other users cannot enter: whoever reaches the
    ports of a Ray cluster can run code on it. The folder is removed with the cluster.

    Args:
        address: "auto" (the cluster of RAY_ADDRESS or one that you started here, or else one that
            is started for this purpose), "local" (always start one) or the address of a cluster.
        workers: Number of CPUs: the size of a cluster that is started, by default all there are.

    Raises:
        AssayError: Ray is not installed, or no cluster answers.

    Example:
        with RayExecutor("local", workers=2) as executor:
            rank_shards(queries, "docs-*.npy", 10, cluster=Cluster(executor))
    """

    def __init__(self, address: str = "auto", *, workers: int | None = None) -> None:
        n_workers = None if workers is None else checks.check_cutoff(workers, "workers")
        for name, value in _QUIET.items():
            os.environ.setdefault(name, value)
        self._ray = need("ray", "running on a cluster", "cluster")
        self._started = not self._ray.is_initialized()
        self._private_ray: PrivateRay | None = None
        if self._started:
            with _keeping_signals():
                self._private_ray = _connect(self._ray, address, n_workers)
        self._numbers = count()
        self._running: dict[int, Ticket] = {}
        try:
            here = int(self._ray.cluster_resources().get("CPU", 1))
        except BaseException:
            self.close()
            raise
        self.workers = max(1, min(here, n_workers or here))
        options = {"num_returns": 2, "num_cpus": 1, "max_retries": _RETRIES}
        self._call = self._ray.remote(**options)(call)

    def put(self, value: Any) -> Handle:
        """Copy the value into the object store, once for all tasks."""
        return self._ray.put(value)

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Ticket:
        """Hand the task to Ray."""
        ticket = Ticket(next(self._numbers), *self._call.remote(function, *arguments))
        self._running[ticket.number] = ticket
        return ticket

    def wait(self, tickets: Sequence[Ticket]) -> list[tuple[Ticket, Receipt]]:
        """Return tasks that have ended; those of lost workers run again before they do."""
        by_receipt = {ticket.receipt: ticket for ticket in tickets}
        ready, _ = self._ray.wait(list(by_receipt), num_returns=1)
        ended = [by_receipt[receipt] for receipt in ready]
        for ticket in ended:
            self._running.pop(ticket.number, None)
        return [(ticket, self.fetch(ticket.receipt)) for ticket in ended]

    def fetch(self, handle: Handle) -> Any:
        """Bring a value here."""
        try:
            return self._ray.get(handle)
        except self._ray.exceptions.RayTaskError as error:
            raise ClusterError(
                f"A worker failed: {_first_line(error.cause)} Install the same version of "
                "Assay, with its packages, on all nodes."
            ) from error
        except self._ray.exceptions.RayError as error:
            raise ClusterError(
                f"A task was lost with its worker more than {_RETRIES} times, or the cluster "
                f"stopped: {_first_line(error)} Check the workers' memory and Ray's logs."
            ) from error

    def close(self) -> None:
        """Cancel what runs; leave the cluster, and end it if it was started for this purpose."""
        for ticket in self._running.values():
            self._ray.cancel(ticket.receipt, force=False)
        self._running.clear()
        if self._started:
            self._started = False
            self._ray.shutdown() if self._private_ray is None else self._private_ray.close()


def _first_line(error: BaseException) -> str:
    words = (str(error).strip().splitlines() or [""])[0]
    return f"{type(error).__name__}: {words:.200}."


@contextmanager
def _keeping_signals() -> Iterator[None]:
    """Keep the handler of SIGTERM: Ray would end the process by its own exit code."""
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if before is not None and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, before)


def _connect(ray: Any, address: str, workers: int | None) -> PrivateRay | None:
    """Join a cluster, or start one on this machine, which is then returned."""
    common = {"log_to_driver": False, "logging_level": "ERROR"}
    place = find_cluster() if address == "auto" else address
    try:
        if place in (None, "local"):
            return PrivateRay(
                ray,
                num_cpus=workers,
                include_dashboard=False,
                object_store_memory=_store_bytes(),
                **common,
            )
        knock(str(place))
        ray.init(address=place, **common)
        return None
    except (RuntimeError, ValueError, OverflowError, OSError) as error:
        raise ClusterError(
            f"No Ray cluster answers at {address!r} ({_first_line(error)}) Start one with 'ray "
            "start --head', or use 'auto' or 'threads'."
        ) from error


def knock(address: str) -> None:
    """Fail soon where no server listens; Ray itself would try for minutes."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if not colon or not port.isdigit():
        raise ValueError("write HOST:PORT or ray://HOST:PORT")
    socket.create_connection((host.strip("[]"), int(port)), timeout=_PATIENCE).close()


def find_cluster() -> str | None:
    """Find the address of a cluster that this user started or named; None for none.

    The file in which Ray notes it lies where every user can write: one of somebody else is not
    believed, since tasks and their code go to the address in it.
    """
    named = os.environ.get("RAY_ADDRESS")
    if named:
        return named
    with suppress(OSError, ValueError, AttributeError):  # Windows has neither flag nor uid
        note = os.path.join(os.environ.get("RAY_TMPDIR", "/tmp"), "ray", "ray_current_cluster")
        descriptor = os.open(note, os.O_RDONLY | os.O_NOFOLLOW)
        with open(descriptor, encoding="utf-8") as file:
            if os.fstat(descriptor).st_uid != os.getuid():
                return None
            address = file.read(300).strip()
        knock(address)
        return address
    return None


def _store_bytes() -> int:
    """Return the room for blocks in flight: a quarter of the memory, at most 2 GB."""
    try:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 1 << 30
    return min(2 << 30, memory // 4)


class PrivateRay:
    """Start a private cluster, until `close`; the variables that Ray reads are put back."""

    def __init__(self, ray: Any, **options: Any) -> None:
        if tuple(map(int, re.findall(r"\d+", ray.__version__)[:2])) < _OLDEST:
            raise ClusterError(
                f"Ray {ray.__version__} has no token authentication. Install "
                f"ray>={'.'.join(map(str, _OLDEST))}, or use 'threads'."
            )
        self._ray = ray
        self._before: dict[str, str | None] = {}
        self._scratch = make_private_folder()
        self.folder = self._scratch.name
        atexit.register(self.close)
        try:
            self._set(RAY_AUTH_MODE="token", RAY_AUTH_TOKEN_PATH=None)
            self._set(**{_TOKEN: _token(), _LOOPBACK: "0"})
            reload_settings()
            with _one_machine(ray):
                ray.init(address="local", _temp_dir=os.path.join(self.folder, "r"), **options)
            address = ray.util.get_node_ip_address()
            # Whatever a future Ray makes of the settings, nobody else may reach the cluster.
            if not ip_address(address.strip("[]")).is_loopback:
                raise ClusterError(
                    f"Ray listens on {address} beyond loopback and was stopped. Check its settings."
                )
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
            reload_settings()
            self._scratch.cleanup()


def make_private_folder() -> ScratchFolder:
    """Make a folder that only this user can enter."""
    too_long = len(tempfile.gettempdir()) > LONGEST_FOLDER and os.path.isdir("/tmp")
    return ScratchFolder("ray", "/tmp" if too_long else None)


@cache
def _token() -> str:
    """Return one token for all clusters of this process: Ray keeps the first it reads."""
    return secrets.token_hex(32)


def _set_variable(name: str, value: str | None) -> None:
    if value is None:
        os.environ.pop(name, None)
    else:
        os.environ[name] = value


def reload_settings() -> None:
    """Let Ray read its variables again: it remembers those of a cluster used before."""
    with suppress(ImportError, AttributeError):
        inner = import_module("ray._raylet")
        inner.Config.initialize("")
        inner.AuthenticationTokenLoader.instance().reset_cache()


@contextmanager
def _one_machine(ray: Any) -> Iterator[None]:
    """Keep Ray on one machine: it reads the variable for that only when imported."""
    constants = ray._private.ray_constants
    before = constants.ENABLE_RAY_CLUSTER
    constants.ENABLE_RAY_CLUSTER = False
    try:
        yield
    finally:
        constants.ENABLE_RAY_CLUSTER = before
