"""Costs as people read them: rates, bytes and short times."""

from __future__ import annotations

__all__ = ["format_bytes", "format_rate", "format_time"]


def format_rate(rate: float | None) -> str | None:
    """Texts in a second, for people.

    >>> format_rate(12345.6), format_rate(3.21)
    ('12,346', '3.2')
    """
    if rate is None:
        return None
    return f"{rate:,.0f}" if rate >= 100 else f"{rate:.1f}"


def format_bytes(number: float | None) -> str | None:
    """Bytes, for people.

    >>> format_bytes(5_310_000), format_bytes(900)
    ('5.3 MB', '0.9 kB')
    """
    if number is None:
        return None
    for unit, size in (("GB", 1e9), ("MB", 1e6)):
        if number >= size:
            return f"{number / size:,.1f} {unit}"
    return f"{number / 1e3:,.1f} kB"


def format_time(seconds: float) -> str:
    """A short time, for people.

    >>> format_time(0.00123), format_time(2.5), format_time(0.000004)
    ('1.2 ms', '2.5 s', '4 µs')
    """
    if seconds >= 1:
        return f"{seconds:.1f} s"
    return f"{1e3 * seconds:.1f} ms" if seconds >= 1e-4 else f"{1e6 * seconds:.0f} µs"
