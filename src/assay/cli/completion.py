"""`assay completion`: Print the script that completes commands, files and names in a shell."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final

import click
from click.shell_completion import CompletionItem, get_completion_class

from assay.cli import output
from assay.cli.commands import Command
from assay.core.conventions import PRESETS
from assay.measures import GROUPS, REGISTRY
from assay.models.specs import ENCODERS, LEXICAL

if TYPE_CHECKING:
    from assay.store.summaries import RunSummary

__all__ = ["command", "complete_values"]

_VARIABLE: Final = "_ASSAY_COMPLETE"
_FOLDERS: Final = {"folder", "work", "figures", "checkpoint", "results"}


@click.command("completion", cls=Command)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(*, shell: str) -> None:
    """Print the script that completes commands, files and names in a shell.

    It completes commands and options, files where files go, and measures, presets, models and
    the runs of the store where these go.

    \b
    Examples:
      assay completion bash >> ~/.bashrc
      assay completion zsh >> ~/.zshrc
      assay completion fish > ~/.config/fish/completions/assay.fish
    """
    made = get_completion_class(shell)
    assert made is not None
    root = click.get_current_context().find_root()
    output.put(made(root.command, {}, "assay", _VARIABLE).source(), None)


def complete_values(command: click.Command, *, stored: bool = False) -> None:
    """Have every parameter of a command offer what may stand there.

    A text parameter takes a file unless something better is known; click alone would offer
    nothing there, and the shell then no files either. Runs are files, or those of the store.
    """
    for one in command.params:
        run = stored and isinstance(one, click.Argument) and one.name in ("run", "runs")
        known = _run_numbers if run else _OFFERS.get(one.name or "")
        if known is not None and not isinstance(one.type, click.Choice):
            setattr(one, "shell_complete", partial(_offer, known))  # noqa: B010
        elif _takes_path(one):
            kind = "dir" if one.name in _FOLDERS else "file"
            setattr(one, "shell_complete", partial(_offer_paths, kind))  # noqa: B010
    if isinstance(command, click.Group):
        for each in command.commands.values():
            complete_values(each, stored=command.name == "runs")


def _takes_path(one: click.Parameter) -> bool:
    flag = isinstance(one, click.Option) and (one.is_flag or one.count)
    return not flag and isinstance(
        one.type, click.types.StringParamType | click.types.FuncParamType
    )


def _offer(
    known: Callable[[click.Context], Iterable[str]], context: click.Context, incomplete: str
) -> list[CompletionItem]:
    """Known names, each with what follows a tab as its description; files where none fits."""
    rows = [name.partition("\t") for name in dict.fromkeys(known(context))]
    fitting = [row for row in rows if row[0].lower().startswith(incomplete.lower())]
    offered = [CompletionItem(name, help=words or None) for name, _, words in fitting]
    if offered or known is _run_numbers:
        return offered
    return _offer_paths("file", context, incomplete)


def _offer_paths(kind: str, _: click.Context, incomplete: str) -> list[CompletionItem]:
    return [CompletionItem(incomplete, type=kind)]


def _measures(_: click.Context) -> Iterator[str]:
    for name, definition in REGISTRY.items():
        if definition.cutoff != "required":
            yield name
        if definition.cutoff in ("optional", "required"):
            yield f"{name}@10"
    yield from GROUPS


def _presets(_: click.Context) -> Iterable[str]:
    return PRESETS


def _models(_: click.Context) -> Iterator[str]:
    for name, kind in {**LEXICAL, **ENCODERS}.items():
        yield f"{name}:" if ":" in kind.form.partition("[")[0] else name


def _summaries(context: click.Context) -> list[RunSummary]:
    """The runs of the store; none where there is no store to read."""
    from assay import store

    with suppress(Exception), store.open(context.params.get("store"), create=False) as found:
        return found.summaries()
    return []


def _run_numbers(context: click.Context) -> Iterator[str]:
    for one in _summaries(context):
        yield f"{one.id}\t{one.name} {one.dataset}"


def _stored(attribute: str) -> Callable[[click.Context], Iterator[str]]:
    """Values that the runs of the store have there."""

    def look(context: click.Context) -> Iterator[str]:
        for one in _summaries(context):
            value = getattr(one, attribute)
            yield from value if isinstance(value, tuple) else [value]

    return look


_OFFERS: Final[dict[str, Callable[[click.Context], Iterable[str]]]] = {
    "measure": _measures,
    "measures": _measures,
    "names": _measures,
    "conventions": _presets,
    "model": _models,
    "spec": _models,
    "dataset": _stored("dataset"),
    "tag": _stored("tags"),
    "tags": _stored("tags"),
    "task": _stored("task"),
    "name": _stored("name"),
}
