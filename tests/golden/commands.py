"""Recorded answers of the command line: make them, or tell what has changed.

    python -m tests.golden.commands record FILE [--whole]
    python -m tests.golden.commands compare FILE [--renamed OLD=NEW]... [--words]

`record` writes what every command of `command_list` prints, exits with and writes; `compare` runs
them again and exits with 1 if any value differs. Inputs are made in a temporary folder.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import random
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tests.golden.command_list import COMMANDS
from tests.golden.differences import differences
from tests.golden.recording import Command, Renames, Session, shrunk

__all__ = ["COMMANDS", "RECORDED", "RENAMED", "main", "read", "renames", "unmet", "versions"]

RECORDED = Path(__file__).with_name("commands.json")
# Old names and the new ones, for keys of JSON and words of texts that were renamed on purpose.
RENAMED: dict[str, str] = {}


def main(arguments: list[str] | None = None) -> int:
    """Record or compare."""
    chosen = _parser().parse_args(arguments)
    names = _chosen_names(chosen.only, chosen.shuffle)
    given = dict(pair.split("=", 1) for pair in chosen.renamed)
    with tempfile.TemporaryDirectory(prefix="assay-golden-") as folder:
        session = Session(Path(folder), COMMANDS, renames(given))
        began = time.process_time()
        answers = _answers(session, names)
        took = time.process_time() - began
    print(f"{len(answers)} commands, {took:.1f} s of CPU", file=sys.stderr)
    if chosen.what == "record":
        kept = {name: one if chosen.whole else shrunk(one) for name, one in answers.items()}
        earlier = read(chosen.file)["commands"] if chosen.only and chosen.file.exists() else {}
        _write(chosen.file, {**earlier, **kept})
        return 0
    return _compared(read(chosen.file), answers, words=chosen.words, all_of_them=not chosen.only)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("what", choices=["record", "compare"])
    parser.add_argument("file", type=Path)
    parser.add_argument("--whole", action="store_true", help="record without any digest")
    parser.add_argument("--words", action="store_true", help="show where only words differ, too")
    parser.add_argument("--renamed", action="append", default=[], metavar="OLD=NEW")
    parser.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="TEXT",
        help="only commands whose name holds this",
    )
    parser.add_argument("--shuffle", type=int, metavar="SEED", help="run in another order")
    return parser


def renames(more: Mapping[str, str] | None = None) -> Renames:
    """The old name of each new one."""
    return Renames({new: old for old, new in {**RENAMED, **(more or {})}.items()})


def _chosen_names(only: Iterable[str], seed: int | None) -> list[str]:
    words = tuple(only)
    names = [name for name in COMMANDS if not words or any(word in name for word in words)]
    if seed is not None:
        random.Random(seed).shuffle(names)
    return names


def _answers(session: Session, names: Iterable[str]) -> dict[str, dict[str, Any]]:
    """What each command says, in the order of the list."""
    found = {}
    for name in names:
        missing = unmet(COMMANDS[name])
        if missing:
            print(f"{name}: left out, {', '.join(missing)} is not installed", file=sys.stderr)
            continue
        found[name] = session.answer(name)
    return {name: found[name] for name in COMMANDS if name in found}


def unmet(command: Command) -> list[str]:
    """The packages that a command needs and that are not here."""
    return [package for package in command.needs if find_spec(package) is None]


# Files of answers


def _write(file: Path, answers: Mapping[str, Any]) -> None:
    """A line for each command, so that a change shows as such."""
    lines = [
        f"{json.dumps(name)}: {json.dumps(answers[name], ensure_ascii=False)}"
        for name in COMMANDS
        if name in answers
    ]
    head = json.dumps(versions())
    text = f'{{"packages": {head},\n"commands": {{\n' + ",\n".join(lines) + "\n}}\n"
    file.write_text(text, "utf-8")
    print(f"{file}: {len(text.encode()):,} bytes", file=sys.stderr)


def read(file: Path) -> dict[str, Any]:
    """The recorded answers."""
    data: dict[str, Any] = json.loads(file.read_text("utf-8"))
    return data


def versions() -> dict[str, str]:
    """Versions of the packages that commands need, by the name they are imported by."""
    owners = importlib.metadata.packages_distributions()
    needed = sorted({package for command in COMMANDS.values() for package in command.needs})
    return {
        package: importlib.metadata.version(owners[package][0])
        for package in ["numpy", *needed]
        if package in owners
    }


def _compared(
    recorded: Mapping[str, Any],
    answers: Mapping[str, dict[str, Any]],
    *,
    words: bool,
    all_of_them: bool,
) -> int:
    """Print what differs; 1 if any value does."""
    old = recorded["commands"]
    values, reworded = 0, 0
    for name, answer in answers.items():
        found = list(differences(old[name], answer)) if name in old else []
        told = [one for one in found if words or not one.words]
        if told:
            print(f"\n{name}: assay {answer['args']}")
            print("".join(f"  {one}\n" for one in told), end="")
        values += sum(not one.words for one in found)
        reworded += sum(one.words for one in found)
    gone = [name for name in old if name not in answers] if all_of_them else []
    new = [name for name in answers if name not in old]
    for names, what in ((gone, "recorded, but not run"), (new, "run, but not recorded")):
        if names:
            print(f"\n{what}: {', '.join(names)}")
    print(f"\n{values} values differ; {reworded} texts differ in words only")
    return 1 if values or gone else 0


if __name__ == "__main__":
    sys.exit(main())
