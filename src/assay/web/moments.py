"""Moments, lengths of time and progress as people read them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

from assay.core.progress import describe_progress
from assay.store import Run
from assay.store.summaries import RunSummary

__all__ = ["describe_status", "exact_moment", "format_moment", "progress_of"]

_SILENT: Final = 600  # seconds without a sign of progress after which a run counts as silent


def exact_moment(text: str | None) -> str:
    """A stored moment to the minute, in UTC.

    >>> exact_moment("2026-11-16T04:36:59.123456Z")
    '2026-11-16 04:36'
    """
    return (text or "")[:16].replace("T", " ")


def format_moment(text: str | None, now: datetime | None = None) -> str:
    """A stored moment as people say it, in UTC.

    >>> day = datetime(2026, 11, 17, 9, tzinfo=UTC)
    >>> [format_moment(f"{one}:59Z", day) for one in ("2026-11-17T04:36", "2026-11-16T04:36")]
    ['today 04:36', 'yesterday 04:36']
    >>> [format_moment(f"{one}:59Z", day) for one in ("2026-03-02T04:36", "2025-03-02T04:36")]
    ['2 Mar 04:36', '2 Mar 2025']
    """
    try:
        moment = datetime.fromisoformat(text or "").replace(tzinfo=UTC)
    except ValueError:
        return exact_moment(text)
    today = now or datetime.now(UTC)
    clock = f"{moment:%H:%M}"
    days = (today.date() - moment.date()).days
    if days in (0, 1):
        return f"{('today', 'yesterday')[days]} {clock}"
    if moment.year == today.year:
        return f"{moment.day} {moment:%b} {clock}"
    return f"{moment.day} {moment:%b} {moment.year}"


def progress_of(run: Run | RunSummary) -> dict[str, Any]:
    """How far a running run is: the share, the count, the rate, the time left and what it does.

    What cannot be known is None; the rate is that of all that was done since the run began.
    """
    took = _seconds_between(run.created, run.updated)
    rate = run.done / took if run.done and took > 0 else None
    live = bool(rate and run.total) and _seconds_since(run.updated) <= _SILENT
    return {
        "done": run.done,
        "total": run.total,
        "percent": 100 * run.done / run.total if run.total else None,
        "rate": rate,
        "seconds_left": (run.total - run.done) / rate if live and rate else None,
        "now": run.message,
    }


def describe_status(run: Run | RunSummary, *, whole: bool = False) -> str:
    """The status of a run: its progress in the words of the terminal, or how long it has none."""
    if run.status != "running":
        return run.status
    silent = _seconds_since(run.updated)
    took = 0.0 if silent > _SILENT else _seconds_between(run.created, run.updated)
    words = describe_progress(run.done, run.total or None, took).split(", ")
    if not whole:  # the share, and the time left
        words = [*words[:1], *(word for word in words[1:] if word.endswith(" left"))]
    if silent > _SILENT:
        words.append(f"silent for {_format_duration(silent)}")
    now = f": {run.message}" if whole and run.message else ""
    return f"running {', '.join(filter(None, words))}".strip() + now


def _seconds_since(moment: str) -> float:
    return _seconds_between(moment, datetime.now(UTC).isoformat())


def _seconds_between(first: str, last: str) -> float:
    try:
        return (datetime.fromisoformat(last) - datetime.fromisoformat(first)).total_seconds()
    except (ValueError, TypeError):
        return 0.0


def _format_duration(seconds: float) -> str:
    """A length of time.

    >>> _format_duration(700), _format_duration(8000), _format_duration(200000)
    ('11 min', '2 h', '2 days')
    """
    if seconds < 3600:
        return f"{seconds // 60:.0f} min"
    return f"{seconds // 3600:.0f} h" if seconds < 172800 else f"{seconds // 86400:.0f} days"
