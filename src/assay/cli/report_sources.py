"""Where the runs of a report come from: files that are scored now, and runs of a store."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Final

import click

from assay.cli.opened_store import opened_store

if TYPE_CHECKING:
    from assay.store import Run, Store

__all__ = ["Sources", "find_sources", "stored_key"]

_KEY: Final = re.compile(r"[0-9]{1,7}|[0-9a-f]{8,32}")  # a number, or letters of a uid
_MARK: Final = "run:"


@dataclass(frozen=True)
class Sources:
    """Files and stored runs, their names, and the place of the baseline among them."""

    items: tuple[str | Run, ...]
    names: tuple[str, ...]
    base: int | None = None

    @property
    def files(self) -> tuple[str, ...]:
        """The files."""
        return tuple(item for item in self.items if isinstance(item, str))

    @property
    def runs(self) -> tuple[Run, ...]:
        """The stored runs."""
        return tuple(item for item in self.items if not isinstance(item, str))


def stored_key(text: str) -> str | None:
    """The number or uid of a stored run; None for a file. What may be both is refused."""
    if text.startswith(_MARK):
        return text.removeprefix(_MARK)
    if not _KEY.fullmatch(text):
        return None
    if os.path.exists(text):
        raise click.UsageError(
            f"{text} may be a stored run or the file of that name. Write {_MARK}{text} for the "
            f"run, ./{text} for the file."
        )
    return text


@contextmanager
def find_sources(
    runs: Sequence[str], baseline: str | None, *, filters: Mapping[str, Any], store: str | None
) -> Iterator[Sources]:
    """The runs that were named or chosen; the store is open inside the block, if one is needed."""
    chosen = {name: value for name, value in filters.items() if value}
    named = [text for text in runs if stored_key(text) is not None]
    if not runs and not chosen and not store:
        raise click.UsageError(
            "Name the runs: files, numbers of stored runs, or a choice such as --dataset NAME."
        )
    if chosen and named:
        option = f"--{next(iter(chosen))}"
        raise click.UsageError(f"{option} chooses stored runs, but {named[0]} names one. Do one.")
    from_store = bool(chosen or named or not runs)
    if not from_store and not _is_key(baseline):
        if store:
            raise click.UsageError("--store is for stored runs, but all of these are files.")
        yield _with_baseline(tuple(runs), baseline, None)
        return
    with opened_store(store) as opened:
        items = [_resolved(text, opened) for text in runs]
        if from_store and not named:
            items += _passing(opened, chosen)
        yield _with_baseline(_without_repeats(items), baseline, opened)


def _is_key(baseline: str | None) -> bool:
    return baseline is not None and stored_key(baseline) is not None


def _resolved(text: str, store: Store | None) -> str | Run:
    key = stored_key(text)
    return text if key is None or store is None else store.run(key)


def _passing(store: Store, filters: Mapping[str, Any]) -> list[Run]:
    found = store.runs(status="finished", **filters)[::-1]
    if not found:
        raise click.UsageError(f"{store.database.location} holds no such finished run.")
    return found


def _without_repeats(items: Sequence[str | Run]) -> tuple[str | Run, ...]:
    """A stored run that is named twice is one run."""
    return tuple({item if isinstance(item, str) else item.uid: item for item in items}.values())


def _with_baseline(
    items: tuple[str | Run, ...], baseline: str | None, store: Store | None
) -> Sources:
    """The baseline may be named without being listed: then it is the first run."""
    names = _names(items)
    if baseline is None:
        return Sources(items, names)
    alike = [i for i, item in enumerate(items) if baseline in (names[i], item)]
    if not alike and (_is_key(baseline) or os.path.exists(baseline)):
        first = _resolved(baseline, store)
        items = _without_repeats([first, *items])
        names, alike = _names(items), [0]
    if not alike:
        near = get_close_matches(baseline, names, n=2) or names[:5]
        raise click.UsageError(
            f"The baseline {baseline!r} is neither a file nor one of the runs. "
            f"Did you mean {' or '.join(near)}?"
        )
    if len(items) < 2:
        raise click.UsageError("There is one run; a --baseline needs another.")
    return Sources(items, names, alike[0])


def _names(items: Sequence[str | Run]) -> tuple[str, ...]:
    """Files by their names, as short as can be; stored runs that share one get their number."""
    from assay.cli.scored import unique_names
    from assay.store.run import names_of

    files = [item for item in items if isinstance(item, str)]
    runs = [item for item in items if not isinstance(item, str)]
    of_files = iter(unique_names(files) if files else ())
    taken = set(unique_names(files)) if files else set()
    of_runs = iter(
        f"{run.name} #{run.id}" if run.name in taken else name
        for run, name in zip(runs, names_of(runs), strict=True)
    )
    return tuple(next(of_files if isinstance(item, str) else of_runs) for item in items)
