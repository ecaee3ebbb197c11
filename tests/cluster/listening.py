"""Which addresses the processes of a tree listen on, read from /proc."""

from __future__ import annotations

import os
import socket
from pathlib import Path


def listening(root: int) -> list[str]:
    """Addresses on which a process and its descendants accept connections."""
    sockets = {inode for pid in family(root) for inode in _sockets(pid)}
    return [
        address
        for table in ("tcp", "tcp6")
        for address, inode in _listeners(Path("/proc/net") / table)
        if inode in sockets
    ]


def family(root: int) -> list[int]:
    """A process and its descendants."""
    parents = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(entry.parent.name)] = int(entry.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
    found = [root]
    for pid in found:
        found.extend(child for child, parent in parents.items() if parent == pid)
    return found


def _sockets(pid: int) -> list[str]:
    found = []
    for link in Path(f"/proc/{pid}/fd").glob("*"):
        try:
            found.append(os.readlink(link))
        except OSError:
            continue
    return [name[8:-1] for name in found if name.startswith("socket:[")]


def _listeners(table: Path) -> list[tuple[str, str]]:
    rows = [line.split() for line in table.read_text().splitlines()[1:]]
    return [(_address(row[1].partition(":")[0]), row[9]) for row in rows if row[3] == "0A"]


def _address(text: str) -> str:
    """Four bytes at a time stand in the order of the machine."""
    words = bytes.fromhex(text)
    packed = b"".join(words[i : i + 4][::-1] for i in range(0, len(words), 4))
    return socket.inet_ntop(socket.AF_INET if len(packed) == 4 else socket.AF_INET6, packed)
