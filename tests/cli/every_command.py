"""Every command of the command line by its whole name, such as "runs export"."""

from __future__ import annotations

from collections.abc import Iterator

import click

from assay.cli.main import assay

__all__ = ["COMMANDS"]


def _commands(group: click.Group, path: str = "") -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from _commands(command, f"{path}{name} ")
        elif command is not None:
            yield f"{path}{name}", command


COMMANDS = dict(_commands(assay))
