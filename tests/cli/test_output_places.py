"""Where a command writes is looked at before it works: nothing is computed in vain."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from assay.cli.main import assay as group
from assay.cli.main import list_commands
from assay.cli.options import output_file, output_folder

COMMANDS = {name: command.summary for name, command in list_commands().items()}

# Options and arguments that name a file or a folder which a command reads, or a store, which is
# opened before the work. All others that name one are written.
READ = {
    "against", "answers", "base_url", "by", "cache", "checkpoint", "config", "coordinates",
    "corpus", "doc_ids", "docs", "embeddings", "experiment", "factory", "file", "files", "folder",
    "folders",
    "groups", "guidelines", "imported", "index", "labels", "machine_labels", "metadata", "pool",
    "modalities", "previous", "prototype_embeddings",
    "prompt", "prototype_labels", "qrels",
    "queries", "query", "query_ids", "query_labels", "results", "run",
    "runs", "sensor_embeddings", "slices", "source", "sources", "store", "sure", "targets",
    "tasks", "text_embeddings", "texts", "train", "train_users",
}  # fmt: skip
PLACES = ("FILE", "FOLDER", "DIR", "PATH", "OUT")


def all_commands() -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group)
    for name in COMMANDS:
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from ((f"{name} {one}", found) for one, found in command.commands.items())
        else:
            yield name, command


def written() -> list[tuple[str, str]]:
    return [
        (name, parameter.name or "")
        for name, command in all_commands()
        for parameter in command.params
        if getattr(parameter.type, "func", None) in (output_file, output_folder)
    ]


def test_every_option_that_names_a_place_to_write_is_looked_at() -> None:
    named = {
        (name, parameter.name or "")
        for name, command in all_commands()
        for parameter in command.params
        if {"-o", "--output"} & set(parameter.opts)
        or (parameter.name not in READ and (parameter.metavar or "").strip("[]").startswith(PLACES))
    }
    assert not named - set(written())
    assert len(written()) > 30


@pytest.mark.parametrize(("name", "option"), written())
def test_a_place_that_cannot_be_written_is_refused_first(
    assay, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, option: str
) -> None:
    """The inputs do not exist: a command that had begun to read would say so instead."""
    monkeypatch.chdir(tmp_path)
    Path("plain").write_text("")
    command = dict(all_commands())[name]
    (place,) = [one for one in command.params if one.name == option]
    bad = os.path.join("plain", "results", "x.json")
    answer = assay(*name.split(), *arguments(command, place, bad))
    assert answer.code == 5
    assert answer.err.startswith(f"assay: Cannot write {bad}: ")
    assert (answer.err.count("Cannot write"), ".." in answer.err) == (1, False)
    assert "plain" in answer.err.partition(f"{bad}: ")[2]
    assert os.listdir() == ["plain"]


def arguments(command: click.Command, place: click.Parameter, path: str) -> Iterator[str]:
    for one in command.params:
        value = path if one is place else value_of(one)
        if one is not place and not one.required:
            continue
        if isinstance(one, click.Option):
            yield max(one.opts, key=len)
        yield value


def value_of(parameter: click.Parameter) -> str:
    if isinstance(parameter.type, click.Choice):
        return str(parameter.type.choices[0])
    return "absent"


RUN = ("eval", "run.txt", "-r", "qrels.txt", "-o")


@pytest.mark.parametrize(
    ("file", "words"),
    [
        ("run.txt/x.json", r"run\.txt is not a folder"),
        ("run.txt/new/x.json", r"run\.txt is not a folder"),
        (".", "is a directory"),
        ("nul\0.json", "Cannot write"),
    ],
)
def test_the_message_says_what_to_do(assay, tmp_path, monkeypatch, file, words):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run.txt").write_text("q1 Q0 a 1 2 tag\n")
    answer = assay(*RUN, file)
    assert answer.code == 5
    assert re.search(words, answer.err)


def test_a_folder_that_is_not_there_is_made(assay, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run.txt").write_text("q1 Q0 a 1 2 tag\n")
    assert assay(*RUN, "a/b/x.json").code == 5  # there are no judgments
    assert not (tmp_path / "a").exists()
    (tmp_path / "qrels.txt").write_text("q1 0 a 1\n")
    assert assay(*RUN, "a/b/x.json").code == 0
    assert (tmp_path / "a" / "b" / "x.json").exists()
    assert assay("convert", "run.txt", "c/run.json").code == 0
    assert (tmp_path / "c" / "run.json").exists()
    stored = assay("eval", "run.txt", "-r", "qrels.txt", "--save", "--store", "d/e/runs.db")
    assert stored.code == 0, stored.err


def test_a_folder_without_permission(assay, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "closed").mkdir(0o500)
    may_write = os.access  # root always may
    monkeypatch.setattr(
        os, "access", lambda path, mode: not path.endswith("closed") and may_write(path, mode)
    )
    answer = assay(*RUN, "closed/x.json")
    assert (answer.code, "no permission" in answer.err) == (5, True)


def test_a_link_to_nowhere_is_written_where_it_leads(assay, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run.txt").write_text("q1 Q0 a 1 2 tag\n")
    (tmp_path / "qrels.txt").write_text("q1 0 a 1\n")
    (tmp_path / "link.json").symlink_to("there.json")
    assert assay(*RUN, "link.json").code == 0
    assert (tmp_path / "there.json").exists()
