"""The runs of a report with their scores: files are scored now, stored runs bring theirs along."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import click
from click.core import ParameterSource

from assay.cli import options
from assay.cli.options import open_store
from assay.core.conventions import Conventions
from assay.core.text import did_you_mean
from assay.errors import MeasureError
from assay.measures import Measure, parse_many
from assay.runs.record import RunRecord, only_measures, shared_measures
from assay.runs.run_files import score_run_files, unique_names
from assay.store.run import names_of

if TYPE_CHECKING:
    from assay.store import Run, Store

__all__ = ["Sources", "find_sources", "report_runs", "stored_key"]

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
    with open_store(store) as opened:
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
        raise click.UsageError(
            f"The baseline {baseline!r} is neither a file nor one of the runs."
            + did_you_mean(baseline, names, most=2, fallback=5)
        )
    if len(items) < 2:
        raise click.UsageError("There is one run; a --baseline needs another.")
    return Sources(items, names, alike[0])


def _names(items: Sequence[str | Run]) -> tuple[str, ...]:
    """Files by their names, as short as can be; stored runs that share one get their number."""
    files = [item for item in items if isinstance(item, str)]
    runs = [item for item in items if not isinstance(item, str)]
    of_files = iter(unique_names(files) if files else ())
    taken = set(unique_names(files)) if files else set()
    of_runs = iter(
        f"{run.name} #{run.id}" if run.name in taken else name
        for run, name in zip(runs, names_of(runs), strict=True)
    )
    return tuple(next(of_files if isinstance(item, str) else of_runs) for item in items)


def report_runs(
    sources: Sources,
    qrels: str | None,
    *,
    measures: tuple[str, ...],
    rel: float | None,
    conventions: str,
    changes: Mapping[str, Any],
    n_docs: int | None,
) -> list[RunRecord]:
    """All runs in their order; files are scored as the stored runs were, unless options differ."""
    _refuse_idle(
        sources,
        {
            "--qrels": qrels,
            "--n-docs": n_docs,
            "--ties": changes["ties"],
            "--depth": changes["depth"],
            "--conventions": _typed("conventions"),
        },
        None if measures else rel,
    )
    stored = _stored(sources, changes)
    first = next(iter(stored.values()), None)
    if first is None or _typed("conventions"):
        rules = options.make_conventions(conventions, **changes)
    else:
        rules = first.scored().conventions.but(**changes)
    wanted = _measures(measures, rel, list(stored.values()))
    scored = _scored(sources, qrels, wanted, rules, n_docs)
    return [
        scored[name] if name in scored else _only(stored[name], wanted) for name in sources.names
    ]


def _typed(option: str) -> bool:
    source = click.get_current_context().get_parameter_source(option)
    return source is ParameterSource.COMMANDLINE


def _refuse_idle(sources: Sources, given: Mapping[str, Any], idle_rel: float | None) -> None:
    """Stored runs keep what they were scored with, and files need judgments."""
    if sources.files:
        if given["--qrels"] is None:
            raise click.UsageError(
                f"{sources.files[0]} is a file, and files need judgments: --qrels QRELS."
            )
        return
    idle = [name for name, value in {**given, "--rel": idle_rel}.items() if value]
    if idle:
        raise click.UsageError(
            f"{idle[0]} is for files; stored runs keep what they were scored with. Leave it out."
        )


def _stored(sources: Sources, changes: Mapping[str, Any]) -> dict[str, RunRecord]:
    """Stored runs by name; how means treat empty and missing queries may still be chosen."""
    of_means = {key: changes[key] for key in ("empty", "missing")}
    found = {}
    for item, name in zip(sources.items, sources.names, strict=True):
        if not isinstance(item, str):
            run = item.record().but(name=name)
            rules = run.scored().conventions.but(**of_means)
            found[name] = run.but(scores=replace(run.scored(), conventions=rules))
    return found


def _measures(
    names: tuple[str, ...], rel: float | None, stored: list[RunRecord]
) -> tuple[Measure, ...]:
    """Those asked for; else those that all stored runs have; else nDCG@10."""
    if stored and not names:
        return shared_measures([run.scored() for run in stored])
    return options.apply_threshold(parse_many(names or ("nDCG@10",)), rel)


def _only(run: RunRecord, measures: tuple[Measure, ...]) -> RunRecord:
    try:
        return run.but(scores=only_measures(run.scored(), measures))
    except MeasureError as error:
        raise MeasureError(f"{run.provenance['stored run']} {run.name!r}: {error}") from None


def _scored(
    sources: Sources,
    qrels: str | None,
    measures: tuple[Measure, ...],
    rules: Conventions,
    n_docs: int | None,
) -> dict[str, RunRecord]:
    """Files by name, scored, with where their relevant documents landed."""
    if qrels is None:
        return {}
    named = zip(sources.items, sources.names, strict=True)
    files = {name: item for item, name in named if isinstance(item, str)}
    records = score_run_files(
        list(files.values()),
        qrels,
        measures,
        names=list(files),
        conventions=rules,
        n_docs=n_docs,
        keep_hits=True,
        checksums=True,
    )
    return {one.name: one for one in records}
