"""The pages of the documentation as tests read them: blocks, commands, headings and links."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from glob import glob
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")])

_FENCE = re.compile(r"^( *)```([\w-]*)\n(.*?)^\1```", re.S | re.M)
# A command that cannot run everywhere says so at its end.
_NEEDS = re.compile(r"\s# (needs (?:a network|a key|torch|Ray)|stays up)$")


class Block(NamedTuple):
    """A fenced block: its language and its text."""

    language: str
    text: str


class Printed(NamedTuple):
    """A command as it is printed, what it needs beyond this machine, and the output below it."""

    line: str
    needs: str
    output: str

    @property
    def words(self) -> list[str]:
        """What a shell makes of it in the current folder, without `assay` and redirections."""
        typed = self._typed[:-2] if self._sent else self._typed
        return [made for word in typed for made in sorted(glob(word)) or shlex.split(word)]

    @property
    def input(self) -> str:
        """The file that it reads as standard input, if any."""
        return self._typed[-1] if self._sent == "<" else ""

    @property
    def _sent(self) -> str:
        """How its last word is redirected, if it is."""
        return next((word for word in self._typed[-2:-1] if word in ("<", ">", ">>")), "")

    @property
    def _typed(self) -> list[str]:
        """Its words without `assay`, still in their quotes."""
        return shlex.split(self.line, comments=True, posix=False)[1:]


def blocks(page: Path, *languages: str) -> list[Block]:
    """The fenced blocks of a page; of some languages, where these are named."""
    found = [Block(found[2], found[3]) for found in _FENCE.finditer(page.read_text("utf-8"))]
    return [block for block in found if not languages or block.language in languages]


def outside_blocks(page: Path) -> str:
    """A page without its fenced blocks."""
    return _FENCE.sub("", page.read_text("utf-8"))


def without_code(text: str, *, spans: bool = True) -> str:
    """A text without its fenced blocks and, unless told otherwise, code within lines."""
    prose = _FENCE.sub("", text)
    return re.sub(r"`[^`\n]*`", "", prose) if spans else prose


def commands(page: Path) -> list[Printed]:
    """The commands of `assay` in console blocks, and those that jobs in YAML run."""
    import yaml  # not at the top: `tests.core_alone` reads commands where only the core is

    found = [printed for block in blocks(page, "console") for printed in _of_console(block.text)]
    jobs = [yaml.safe_load(block.text) for block in blocks(page, "yaml", "yml")]
    return found + [Printed(line, "", "") for job in jobs for line in _of_job(job)]


def _of_console(text: str) -> Iterator[Printed]:
    for part in re.split(r"^\$ ", _joined(text), flags=re.M)[1:]:
        line, _, output = part.partition("\n")
        if line.startswith("assay "):
            yield _printed(line, output.strip("\n"))


def examples(help: str) -> list[Printed]:
    """The commands that the help of a command prints, each on a line or several joined by `\\`."""
    return [_printed(line) for line in re.findall(r"^ +(assay .*)", _joined(help), re.M)]


def _joined(text: str) -> str:
    return re.sub(r"\s*\\\n\s*", " ", text)


def _printed(line: str, output: str = "") -> Printed:
    needs = _NEEDS.search(line)
    return Printed(line, needs[1] if needs else "", output)


def _of_job(entry: Any, key: str = "") -> Iterator[str]:
    """The lines under `run` that start with `assay`."""
    if isinstance(entry, dict):
        for name, value in entry.items():
            yield from _of_job(value, name)
    elif isinstance(entry, list):
        for value in entry:
            yield from _of_job(value, key)
    elif key == "run":
        yield from (line for line in str(entry).splitlines() if line.startswith("assay "))
