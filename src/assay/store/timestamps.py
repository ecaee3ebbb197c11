"""Moments as text that sorts: UTC, to the microsecond."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

from assay.errors import UsageError

__all__ = ["after", "before", "now"]


def now() -> str:
    """This moment."""
    return _text(datetime.now(UTC))


def after(moment: str | date) -> str:
    """The first moment of a day, or the moment itself.

    >>> after("2026-11-16")
    '2026-11-16T00:00:00.000000Z'
    """
    return _text(_parsed(moment)[0])


def before(moment: str | date) -> str:
    """The first moment after a day, or the moment itself.

    >>> before("2026-12-31")
    '2027-01-01T00:00:00.000000Z'
    """
    found, is_day = _parsed(moment)
    return _text(found + timedelta(days=1) if is_day else found)


def _text(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ") if moment.year > 999 else ""


def _parsed(moment: str | date) -> tuple[datetime, bool]:
    """The moment, and whether it stands for a whole day; without a zone it is taken as UTC."""
    if isinstance(moment, date) and not isinstance(moment, datetime):
        moment = moment.isoformat()
    try:
        found = datetime.fromisoformat(moment) if isinstance(moment, str) else moment
        zoned = found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
    except (ValueError, TypeError, AttributeError, OverflowError):
        raise UsageError(f"A date looks like 2026-11-16, found {moment!r}.") from None
    return zoned, isinstance(moment, str) and len(moment) <= len("2026-11-16")
