"""Timestamps as text that sorts: UTC, to the microsecond."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

from assay.errors import UsageError

__all__ = ["start_of", "end_of", "now"]


def now() -> str:
    """The current time."""
    return _text(datetime.now(UTC))


def start_of(moment: str | date) -> str:
    """The beginning of a day; a time of day is taken as it is.

    >>> start_of("2026-11-16")
    '2026-11-16T00:00:00.000000Z'
    """
    return _text(_parse(moment)[0])


def end_of(moment: str | date) -> str:
    """The end of a day, which is the beginning of the next; a time of day is taken as it is.

    >>> end_of("2026-12-31")
    '2027-01-01T00:00:00.000000Z'
    """
    found, is_day = _parse(moment)
    return _text(found + timedelta(days=1) if is_day else found)


def _text(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ") if moment.year > 999 else ""


def _parse(moment: str | date) -> tuple[datetime, bool]:
    """The time, and whether it is a whole day; without a time zone it is taken as UTC."""
    if isinstance(moment, date) and not isinstance(moment, datetime):
        moment = moment.isoformat()
    try:
        found = datetime.fromisoformat(moment) if isinstance(moment, str) else moment
        zoned = found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
    except (ValueError, TypeError, AttributeError, OverflowError):
        raise UsageError(f"A date looks like 2026-11-16, found {moment!r}.") from None
    return zoned, isinstance(moment, str) and len(moment) <= len("2026-11-16")
