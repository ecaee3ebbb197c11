"""Runs and names by what an address says; what is not there is said to be not there."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.exceptions import HTTPException

from assay.errors import UsageError
from assay.store import Run, Store
from assay.store.aggregates import canonical
from assay.web.asked import Asked

__all__ = ["asked_dataset", "chosen_measure", "find_run", "find_runs"]


def find_run(store: Store, key: str) -> Run:
    """One run by its number or uid."""
    try:
        return store.run(key)
    except UsageError as error:
        raise HTTPException(404, str(error)) from None


def find_runs(store: Store, asked: Asked) -> list[Run]:
    """The runs that the address names, each once, in its order."""
    found = [find_run(store, key) for key in asked.many("run") if key]
    return list({run.id: run for run in found}.values())


def chosen_measure(asked: Asked, measures: Sequence[str]) -> str:
    """The measure that is asked for; where it is not there the first, and empty where none is.

    A form that changes the dataset still names the measure of the last one.
    """
    named = asked.named("measure", measures)
    wanted = None if named is None else canonical(named)
    return wanted if wanted is not None and wanted in measures else next(iter(measures), "")


def asked_dataset(asked: Asked, names: Sequence[str]) -> str:
    """The dataset that is asked for, were it the one without a name; else the first."""
    if not asked.has("dataset"):
        return next(iter(names), "")
    named = asked.named("dataset", names) or ""
    if named not in names:
        raise HTTPException(404, f"There is no finished run of the dataset {named!r}.")
    return named
