"""Options with several values in a row: `--k-values 10 50`."""

from __future__ import annotations

import click

__all__ = ["ManyValues"]


class ManyValues(click.Command):
    """A command without arguments, whose repeatable options may list their values."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Repeat the name of an option before each further value."""
        many = {
            name
            for option in self.params
            if isinstance(option, click.Option) and option.multiple
            for name in option.opts
        }
        return super().parse_args(ctx, _repeated(args, many))


def _repeated(args: list[str], many: set[str]) -> list[str]:
    """The arguments with every value of these options under a name of its own.

    >>> _repeated(["--k_values", "1", "2", "--full"], {"--k-values"})
    ['--k_values', '1', '--k_values', '2', '--full']
    """
    made: list[str] = []
    current, given = "", 0
    for arg in args:
        if arg.startswith("-") and not _is_number(arg):
            name = arg.partition("=")[0].replace("_", "-")
            current, given = (arg, 0) if name in many and "=" not in arg else ("", 0)
        elif current:
            made += [current] if given else []
            given += 1
        made.append(arg)
    return made


def _is_number(arg: str) -> bool:
    try:
        float(arg)
    except ValueError:
        return False
    return True
