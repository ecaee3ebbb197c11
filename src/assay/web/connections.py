"""Connections of the dashboard that nobody can hold for ever, or all of.

A client that sends half a request, or does not read its answer, is dropped after a while; where too
many are connected, the one that has kept the server waiting longest makes room for a new one.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

__all__ = ["BoundedProtocol"]

_MOST: Final = 200  # connections at a time
_PATIENCE: Final = 10.0  # seconds for a whole request, and for an answer to leave
_SLOWEST: Final = 10_000  # bytes a second, beyond that: an answer may be large
_TICK: Final = 1.0


class BoundedProtocol(H11Protocol):
    """One connection, with a limit to how long the server waits for its client."""

    most = _MOST
    patience = _PATIENCE
    tick = _TICK

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to watch; one too many makes the slowest client go."""
        super().connection_made(transport)
        self._last_request: Any = None
        self._owed_since: float | None = self.loop.time()
        self._watch = self.loop.call_later(self.tick, self._check)
        held = [one for one in self.connections if not one.transport.is_closing()]
        if len(held) > self.most:
            waiting = [one for one in held if one is not self and _owes(one)]
            min(waiting, key=_since, default=self).transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop watching."""
        self._watch.cancel()
        super().connection_lost(exc)

    def _check(self) -> None:
        """Drop a client that keeps the server waiting, also with a byte now and then.

        With every request the time begins anew.
        """
        now = self.loop.time()
        if not _owes(self):
            self._owed_since = None
        elif self._owed_since is None or self.cycle is not self._last_request:
            self._owed_since = now
        elif now - self._owed_since > self.patience + self._unsent() / _SLOWEST:
            self.transport.abort()
            return
        self._last_request = self.cycle
        self._watch = self.loop.call_later(self.tick, self._check)

    def _unsent(self) -> int:
        return self.transport.get_write_buffer_size()


def _owes(one: Any) -> bool:
    """Whether it is the client's turn: to send a whole request, or to take the answer."""
    return one.conn.their_state in (h11.IDLE, h11.SEND_BODY) or one._unsent() > 0


def _since(one: Any) -> float:
    found = one._owed_since
    return float("inf") if found is None else float(found)
