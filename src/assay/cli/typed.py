"""The command that was typed, to be typed again."""

from __future__ import annotations

import shlex

import click
from click.core import ParameterSource

__all__ = ["typed_command"]


def typed_command() -> str:
    """The command line of the running command: what was typed, in the order of its options."""
    context = click.get_current_context()
    words = ["assay", context.info_name or ""]
    for parameter in context.command.params:
        name = parameter.name or ""
        if context.get_parameter_source(name) is not ParameterSource.COMMANDLINE:
            continue
        value = context.params[name]
        words += _words(parameter, _without_password(value) if name == "store" else value)
    return shlex.join(words)


def _without_password(store: str) -> str:
    from assay.store.locations import locate

    return str(locate(store)) if "://" in store else store


def _words(parameter: click.Parameter, value: object) -> list[str]:
    values = value if isinstance(value, tuple) else (value,)
    if isinstance(parameter, click.Argument):
        return [str(one) for one in values]
    option = max(parameter.opts, key=len)
    if isinstance(parameter, click.Option) and parameter.is_flag:
        return [option]
    return [word for one in values for word in (option, str(one))]
