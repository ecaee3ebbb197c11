"""Timestamps as text that sorts: UTC, to the microsecond."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

from assay.errors import UsageError

__all__ = ["end_of", "now", "start_of"]


def now() -> str:
    """The current time."""
    return _text(datetime.now(UTC))


def start_of(time: str | date) -> str:
    """The beginning of a day; a time of day is taken as it is.

    >>> start_of("2026-11-16")
    '2026-11-16T00:00:00.000000Z'
    """
    return _text(_parse(time)[0])


def end_of(time: str | date) -> str:
    """The end of a day, which is the beginning of the next; a time of day is taken as it is.

    >>> end_of("2026-12-31")
    '2027-01-01T00:00:00.000000Z'
    """
    found, is_day = _parse(time)
    return _text(found + timedelta(days=1) if is_day else found)


def _text(time: datetime) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S.%fZ") if time.year > 999 else ""


def _parse(time: str | date) -> tuple[datetime, bool]:
    """The time, and whether it is a whole day; without a time zone it is taken as UTC."""
    if isinstance(time, date) and not isinstance(time, datetime):
        time = time.isoformat()
    try:
        found = datetime.fromisoformat(time) if isinstance(time, str) else time
        zoned = found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
    except (ValueError, TypeError, AttributeError, OverflowError):
        raise UsageError(f"A date looks like 2026-11-16, found {time!r}.") from None
    return zoned, isinstance(time, str) and len(time) <= len("2026-11-16")
