"""Help of commands from pages that were recorded, because the options of a command need imports.

`assay COMMAND --help` is read from `help_pages.json`, where each page is the list of what click was
told to write; it is laid out anew for the width of the terminal. After a change of an option record
them again; a test compares each page with what the command itself says:

    python -m assay.cli.help_pages
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import click

__all__ = ["find_page", "record_pages"]

_FILE: Final = Path(__file__).with_name("help_pages.json")
_WRITES: Final = ("write_usage", "write_heading", "write_paragraph", "write_text", "write_dl")
_STEPS: Final = (*_WRITES, "indent", "dedent")

Page = list[list[Any]]


class _Recorder(click.HelpFormatter):
    """Notes what it is told to write."""

    def __init__(self) -> None:
        super().__init__()
        self.page: Page = []
        for name in _STEPS:
            setattr(self, name, self._noting(name))

    def _noting(self, name: str) -> Any:
        def note(*given: Any, **named: Any) -> None:
            self.page.append([name, given, named])

        return note


class _Recorded(click.Command):
    """A command that has only help."""

    def __init__(self, name: str, page: Page) -> None:
        super().__init__(name)
        self._page = page

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write what was recorded."""
        for name, given, named in self._page:
            if name == "commands":
                formatter.write_dl(_shortened(given, formatter.width))
            elif name == "write_dl":
                formatter.write_dl(list(map(tuple, given[0])), *given[1:], **named)
            else:
                getattr(formatter, name)(*given, **named)


def _shortened(commands: list[list[str]], width: int) -> list[tuple[str, str]]:
    """Names and first sentences of the commands of a group, a line each, as click has them."""
    limit = width - 6 - max(len(name) for name, _ in commands)
    return [
        (name, click.Command(name, help=text).get_short_help_str(limit)) for name, text in commands
    ]


def find_page(arguments: Sequence[str]) -> click.Command | None:
    """A stand-in for the command, where nothing but its help is asked for."""
    *words, last = arguments or [""]
    if last not in ("-h", "--help") or any(word.startswith("-") for word in words):
        return None
    import json  # other commands than help do without it

    pages = json.loads(_FILE.read_text("utf-8"))
    name = " ".join(words)
    return _Recorded(name, pages[name]) if name in pages else None


def record_pages(group: click.Group) -> dict[str, Page]:
    """The pages of all commands of a group and of the groups in it."""
    import json

    with click.Context(group, info_name="assay", **group.context_settings) as context:
        found = {name: _record(context) for name, context in _contexts(group, context)}
    pages: dict[str, Page] = json.loads(json.dumps(found))  # as they are read
    return pages


def _record(context: click.Context) -> Page:
    recorder = _Recorder()
    command = context.command
    command.format_help(context, recorder)
    if isinstance(command, click.Group):  # how much of a sentence is shown depends on the width
        names = [row[0] for row in recorder.page[-2][1][0]]
        found = {name: command.get_command(context, name) for name in names}
        texts = [(name, one.help if one else "") for name, one in found.items()]
        recorder.page[-2] = ["commands", texts, {}]
    return recorder.page


def _contexts(group: click.Group, parent: click.Context) -> Iterator[tuple[str, click.Context]]:
    for name in group.list_commands(parent):
        command = group.get_command(parent, name)
        if command is None:
            continue
        own = click.Context(command, parent, name, **command.context_settings)
        yield own.command_path.partition(" ")[2], own
        if isinstance(command, click.Group):
            yield from _contexts(command, own)


if __name__ == "__main__":
    import json

    from assay.cli.main import assay

    text = json.dumps(record_pages(assay), ensure_ascii=False, indent=1)
    _FILE.write_text(text + "\n", "utf-8")
