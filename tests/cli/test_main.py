"""The group of commands: found by their files, named in one spelling."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest

from assay.cli.main import assay as group
from assay.cli.main import list_commands, normalize_spelling
from assay.plugins import load_target

COMMANDS = list_commands()


@pytest.mark.parametrize("name", COMMANDS)
def test_the_list_says_of_a_command_what_its_own_help_says(name: str) -> None:
    command = load_target(COMMANDS[name].target)
    assert command.name == name
    assert command.help.splitlines()[0] == COMMANDS[name].summary


def test_every_module_with_a_command_is_listed() -> None:
    source = Path(__file__).parents[2] / "src"
    with_command = {
        ".".join(path.relative_to(source).with_suffix("").parts)
        for path in (source / "assay").rglob("*.py")
        if re.search(r"^@click\.(command|group)\(", path.read_text("utf-8"), re.MULTILINE)
    }
    listed = {command.target.partition(":")[0] for command in COMMANDS.values()}
    assert with_command - {"assay.cli.main"} == listed


def test_words_have_one_spelling() -> None:
    for british, american in [
        ("randomisation", "randomization"),
        ("studentised", "studentized"),
        ("no-normalise", "no_normalize"),
    ]:
        assert normalize_spelling(british) == normalize_spelling(american)


@pytest.mark.parametrize("name", COMMANDS)
def test_no_two_options_and_no_two_values_become_one(name: str) -> None:
    command = load_target(COMMANDS[name].target)
    several = list(command.commands.values()) if isinstance(command, click.Group) else [command]
    for one in several:
        options = [opt for param in one.params for opt in (*param.opts, *param.secondary_opts)]
        assert len({normalize_spelling(opt) for opt in options}) == len(options)
        for param in one.params:
            if isinstance(param.type, click.Choice):
                choices = list(param.type.choices)
                assert len({normalize_spelling(choice) for choice in choices}) == len(choices)


def test_both_spellings_are_understood(assay: Callable[..., Any], folder: Path) -> None:
    files = ("run.txt", "other.txt", "-r", "qrels.txt", "--json", "--resamples", "100")
    british = assay("compare", *files, "--test", "randomisation", "--interval", "studentised")
    american = assay("compare", *files, "--test", "randomization", "--interval", "studentized")
    assert british.code == american.code == 0, american.err
    british_data, american_data = json.loads(british.out), json.loads(american.out)
    assert british_data.pop("made_by") != american_data.pop("made_by")  # as typed
    assert british_data == american_data
    fuse = ("fuse", "run.txt", "other.txt", "-o", "fused.run", "--method", "combsum")
    assert assay(*fuse, "--normalise", "minmax").code == 0


def test_an_unknown_command_is_answered_with_the_nearest(assay: Callable[..., Any]) -> None:
    done = assay("evel")
    assert done.code == 2
    assert "Unknown command 'evel'. Did you mean eval or serve?" in done.err
    assert group.get_command(click.Context(group), "evel") is None
