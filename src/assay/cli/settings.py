"""Options and arguments that know what they are for: facts stand where they are declared.

Help sections, standard input, completion, stored configurations, `assay runs rerun` and `assay
verify` all ask the parameter itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeVar

import click

Decorated = TypeVar("Decorated", bound=Callable[..., Any])

# Headings of the options in a command's help, in this order.
SECTIONS: Final = (
    "Input",
    "Models",
    "Search",
    "Measures and conventions",
    "Statistics",
    "Gate",
    "Machines",
    "Trust",
    "Result",
    "Store",
)


_FACTS: Final[Mapping[str, Any]] = {
    "section": "Other",
    **dict.fromkeys(("reads", "writes", "folder", "aside"), False),
    **dict.fromkeys(("offers", "allow", "names"), ""),
}


class Facts:
    """What is known of a parameter beside what click knows.

    Args:
        section: Heading in the help, one of `SECTIONS`.
        reads: It names a file to read, so that `-` is standard input.
        writes: It names a file or folder to write; a repeated command does without it.
        folder: It names a folder, for completion.
        aside: It says where results go, which is no part of what was run.
        offers: Import path of a function (context) → values, for completion.
        allow: Import path of a function (values, params, consent, place) that refuses what a
            stranger's command may not do; without one, an address needs consent.
        names: Import path of a function (file) → paths and texts that the file names in turn.
    """

    section: str
    reads: bool
    writes: bool
    folder: bool
    aside: bool
    offers: str
    allow: str
    names: str

    def __init__(self, *names: Any, **attributes: Any) -> None:
        for name, default in _FACTS.items():
            setattr(self, name, attributes.pop(name, default))
        super().__init__(*names, **attributes)


class Option(Facts, click.Option):
    """An option with its facts."""


class Argument(Facts, click.Argument):
    """An argument with its facts."""


def option(*names: str, **attributes: Any) -> Callable[[Decorated], Decorated]:
    """Declare an option: the arguments of `click.option`, and those of `Facts`."""
    return click.option(*names, cls=Option, **attributes)


def argument(*names: str, **attributes: Any) -> Callable[[Decorated], Decorated]:
    """Declare an argument: those of `click.argument`, and those of `Facts`."""
    return click.argument(*names, cls=Argument, **attributes)


def allow_anything(values: list[str], params: Mapping[str, Any], consent: Any, place: str) -> None:
    """Refuse nothing: another option's check looks at this one, too."""


def facts_of(command: click.Command) -> Iterator[tuple[str, Option | Argument]]:
    """Yield the names and parameters of a command that have facts."""
    for parameter in command.params:
        if isinstance(parameter, Option | Argument) and parameter.name:
            yield parameter.name, parameter
