"""The group of commands: found by their files, named in one spelling."""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import click
import pytest

from assay.cli.main import COMMANDS, _find_commands, _normalize
from assay.cli.main import assay as group


@pytest.mark.parametrize("name", COMMANDS)
def test_the_list_says_of_a_command_what_its_own_help_says(name: str) -> None:
    command = import_module(f"assay.cli.{name}").command
    assert command.name == name
    assert command.help.splitlines()[0] == COMMANDS[name]


def test_every_module_with_a_command_is_listed() -> None:
    folder = Path(__file__).parents[2] / "src" / "assay" / "cli"
    files = [*folder.glob("*.py"), *folder.glob("*/__init__.py")]
    found = {
        path.parent.name if path.stem == "__init__" else path.stem
        for path in files
        if "\n@click.command(" in path.read_text("utf-8")
        or "\n@click.group(" in path.read_text("utf-8")
    }
    assert found - {"main"} == set(COMMANDS)


def test_a_new_file_is_a_new_command(tmp_path: Path) -> None:
    (tmp_path / "eval.py").write_text('"""`assay eval`: Score runs."""\n')
    (tmp_path / "audit.py").write_text('"""`assay audit`: Look twice.\n\nMore of it.\n"""\n')
    (tmp_path / "options.py").write_text('"""Options that several commands share."""\n')
    folder = tmp_path / "bench"
    folder.mkdir()
    (folder / "__init__.py").write_text('"""`assay bench`: Compare models."""\n')
    assert list(_find_commands(tmp_path).items()) == [
        ("eval", "Score runs."),
        ("bench", "Compare models."),
        ("audit", "Look twice."),
    ]


def test_words_have_one_spelling() -> None:
    for british, american in [
        ("randomisation", "randomization"),
        ("studentised", "studentized"),
        ("no-normalise", "no_normalize"),
    ]:
        assert _normalize(british) == _normalize(american)


@pytest.mark.parametrize("name", COMMANDS)
def test_no_two_options_and_no_two_values_become_one(name: str) -> None:
    command = import_module(f"assay.cli.{name}").command
    several = list(command.commands.values()) if isinstance(command, click.Group) else [command]
    for one in several:
        options = [opt for param in one.params for opt in (*param.opts, *param.secondary_opts)]
        assert len({_normalize(opt) for opt in options}) == len(options)
        for param in one.params:
            if isinstance(param.type, click.Choice):
                choices = list(param.type.choices)
                assert len({_normalize(choice) for choice in choices}) == len(choices)


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
    assert "There is no command 'evel'. Did you mean eval or serve?" in done.err
    assert group.get_command(click.Context(group), "evel") is None
