"""The costs that pages show: their names, and how people read them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from assay.core.text import format_bytes, format_rate, format_time
from assay.store.overviews import RunCosts

__all__ = ["COSTS", "Cost", "describe_costs"]


@dataclass(frozen=True)
class Cost:
    """A column of tables and an axis of pictures; on an axis, less is better."""

    head: str
    form: Callable[[Any], str]
    axis: str
    of: Callable[[RunCosts], float | None]
    write: Callable[[float], str]


def _encode_seconds(costs: RunCosts) -> float | None:
    return 1 / costs.texts_per_second if costs.texts_per_second else None


def _bytes(number: float) -> str:
    return format_bytes(int(number)) or ""


COSTS: Final = {
    "seconds_per_query": Cost(
        "search/query",
        format_time,
        "search time of a query",
        lambda costs: costs.seconds_per_query,
        format_time,
    ),
    "texts_per_second": Cost(
        "texts/s",
        lambda rate: format_rate(rate) or "",
        "time to encode a text",
        _encode_seconds,
        format_time,
    ),
    "bytes": Cost("memory", _bytes, "memory", lambda costs: costs.bytes, _bytes),
}


def describe_costs(costs: RunCosts) -> list[tuple[str, str]]:
    """The known costs of a run, by name."""
    known = [(one, getattr(costs, key)) for key, one in COSTS.items()]
    return [(one.head, one.form(value)) for one, value in known if value is not None]
