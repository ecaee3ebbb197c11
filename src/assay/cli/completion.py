"""`assay completion` (Tools): Print the completion script of a shell."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Final

import click
from click.shell_completion import CompletionItem, get_completion_class

from assay.cli import output
from assay.cli.commands import Command
from assay.cli.settings import argument
from assay.core.conventions import PRESETS
from assay.plugins import load_target

_VARIABLE: Final = "_ASSAY_COMPLETE"


@click.command("completion", cls=Command)
@argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(*, shell: str) -> None:
    """Print the completion script of a shell.

    Completes commands, options, files, measures, presets, models and stored runs.

    \b
    Examples:
      assay completion bash >> ~/.bashrc
      assay completion zsh >> ~/.zshrc
      assay completion fish > ~/.config/fish/completions/assay.fish
    """
    completion = get_completion_class(shell)
    assert completion is not None
    root = click.get_current_context().find_root()
    output.write(completion(root.command, {}, "assay", _VARIABLE).source(), None)


def complete_values(command: click.Command) -> None:
    """Make every parameter of a command offer its values.

    A text parameter takes a file unless something better is known; click alone would offer
    nothing there, and the shell then no files either. Runs are files, or those of the store.
    """
    for parameter in command.params:
        offers = getattr(parameter, "offers", "")
        if offers and not isinstance(parameter.type, click.Choice):
            setattr(parameter, "shell_complete", partial(_offer, offers))  # noqa: B010
        elif _takes_path(parameter):
            kind = "dir" if getattr(parameter, "folder", False) else "file"
            setattr(parameter, "shell_complete", partial(_offer_paths, kind))  # noqa: B010
    if isinstance(command, click.Group):
        for subcommand in command.commands.values():
            complete_values(subcommand)


def _takes_path(parameter: click.Parameter) -> bool:
    flag = isinstance(parameter, click.Option) and (parameter.is_flag or parameter.count)
    return not flag and isinstance(
        parameter.type, click.types.StringParamType | click.types.FuncParamType
    )


def _offer(offers: str, context: click.Context, incomplete: str) -> list[CompletionItem]:
    """Offer names, each with what follows a tab as its description; files where none fits."""
    rows = [name.partition("\t") for name in dict.fromkeys(load_target(offers)(context))]
    fitting = [row for row in rows if row[0].lower().startswith(incomplete.lower())]
    offered = [CompletionItem(name, help=words or None) for name, _, words in fitting]
    if offered or offers.endswith(":offer_runs"):
        return offered
    return _offer_paths("file", context, incomplete)


def _offer_paths(kind: str, _: click.Context, incomplete: str) -> list[CompletionItem]:
    return [CompletionItem(incomplete, type=kind)]


def offer_measures(_: click.Context) -> Iterator[str]:
    """Yield the names of measures and of their groups."""
    from assay.measures import GROUPS, REGISTRY

    for name, definition in REGISTRY.items():
        if definition.cutoff != "required":
            yield name
        if definition.cutoff in ("optional", "required"):
            yield f"{name}@10"
    yield from GROUPS


def offer_presets(_: click.Context) -> Iterable[str]:
    """Return the names of the conventions' presets."""
    return PRESETS
