"""Options with several values in a row: `--k-values 10 50`."""

from __future__ import annotations

import click

__all__ = ["ManyValues"]


class ManyValues(click.Command):
    """A command whose repeatable options may list their values.

    Where the command takes arguments, too, only options that take numbers may: what is no number
    is an argument again.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Repeat the name of an option before each further value."""
        only_numbers = any(isinstance(one, click.Argument) for one in self.params)
        many = {
            name
            for option in self.params
            if isinstance(option, click.Option) and option.multiple
            if not only_numbers or isinstance(option.type, click.types.IntParamType)
            for name in option.opts
        }
        return super().parse_args(ctx, _repeated(args, many, only_numbers=only_numbers))


def _repeated(args: list[str], many: set[str], *, only_numbers: bool = False) -> list[str]:
    """The arguments with every value of these options under a name of its own.

    >>> _repeated(["--k_values", "1", "2", "--full"], {"--k-values"})
    ['--k_values', '1', '--k_values', '2', '--full']
    >>> _repeated(["-k", "1", "2", "a.npy", "3"], {"-k"}, only_numbers=True)
    ['-k', '1', '-k', '2', 'a.npy', '3']
    """
    made: list[str] = []
    current, given = "", 0
    for arg in args:
        if arg.startswith("-") and not _is_number(arg):
            name = arg.partition("=")[0].replace("_", "-")
            current, given = (arg, 0) if name in many and "=" not in arg else ("", 0)
        elif current and given and only_numbers and not _is_number(arg):
            current = ""
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
