"""`assay schema`: Print the JSON schema of a config file."""

from __future__ import annotations

import json

import click

from assay.cli import options, output
from assay.cli.commands import Command
from assay.tasks.bench.config import SCHEMA

__all__ = ["command"]


@click.command("schema", cls=Command)
@click.argument("what", type=click.Choice(["bench"]))
@options.output_option
def command(*, what: str, file: str | None) -> None:
    """Print the JSON schema of a config file.

    \b
    Examples:
      assay schema bench
      assay schema bench -o bench.schema.json
    """
    output.put(json.dumps({"bench": SCHEMA}[what], indent=2, ensure_ascii=False), file)
