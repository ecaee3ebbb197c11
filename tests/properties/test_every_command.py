"""Every command has a row in a table of metamorphic tests, or a reason why it needs none."""

from __future__ import annotations

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("sqlalchemy")

from tests.cli.every_command import COMMANDS
from tests.properties import (
    test_same_doors,
    test_same_pictures,
    test_same_predictions,
    test_same_runs,
    test_same_stored,
    test_same_tasks,
    test_same_texts,
    test_same_vectors,
)
from tests.properties.metamorphic import KINDS

FAMILIES = (
    test_same_runs,
    test_same_vectors,
    test_same_predictions,
    test_same_texts,
    test_same_pictures,
    test_same_stored,
    test_same_tasks,
)
TABLE = {command: row for family in FAMILIES for command, row in family.TABLE.items()}
WITHOUT = {
    "runs check": "it names damages and computes no figure",
    **test_same_stored.WITHOUT,
    "agreement": "tests/judging/test_agreement.py has the definitions",
    "judge": "a model answers: tests/judging/test_machine.py",
    "label": "a person answers: tests/judging/test_session.py",
    "pool": "tests/judging/test_pool.py shuffles its queries",
    "queries": "tests/judging/test_queries.py has logs in other orders",
    "completion": "it prints a script of the shell",
    "diff": "tests/search/test_diff.py has a brute force of every definition",
    "demo": "a bench of texts that come with Python: see bench",
    "measures": "it prints definitions",
    "schema": "it prints what a settings file may hold",
    "serve": "it shows what is stored",
    "verify": "it computes what other commands compute: tests/cli/test_verify.py",
}
# Commands whose Python function is tested apart from `DOORS`, or whose result is a file.
OTHER_DOORS = {
    "eval": "test_evaluate_says_what_eval_says",
    "rank": "test_rank_and_fuse_write_what_the_commands_write",
    "fuse": "test_rank_and_fuse_write_what_the_commands_write",
    "report": "test_a_report_says_what_the_command_says",
}
NO_DOOR = {
    "convert": "read_run and write_run, which tests/io has in every format",
    "encode": "tests/cluster calls encode_shards",
    "descriptors run": "the command and Python call run_experiment; pictures are slow",
    "descriptors match": "the command and Python call match_images; pictures are slow",
    "descriptors demo": "see descriptors run",
    "runs compare": "the command prints what compare says of stored scores",
    "runs show": "the command prints what is stored",
    "trec_eval": "the command prints what trec_eval returns",
}


def test_every_command_has_a_row() -> None:
    assert not set(TABLE) & set(WITHOUT)
    lacking = set(COMMANDS) - set(TABLE) - set(WITHOUT)
    assert not lacking, f"give the command a row in tests/properties/test_same_*.py: {lacking}"
    assert not (set(TABLE) | set(WITHOUT)) - set(COMMANDS), "there is no such command"


@pytest.mark.parametrize("command", sorted(TABLE))
def test_every_row_has_every_kind(command: str) -> None:
    row = TABLE[command]
    assert set(row) == set(KINDS), "give each kind its pairs, or say why there are none"
    assert all(row.values()), "an empty list shows nothing: say why"
    for same in (one for pairs in row.values() if isinstance(pairs, list) for one in pairs):
        assert same.line.startswith(command) or command == "encode"
        assert (same.line, same.engine) != (same.other, "")


def test_every_row_has_a_python_door() -> None:
    doors = {*test_same_doors.DOORS, *OTHER_DOORS, *NO_DOOR}
    assert doors == set(TABLE)
    for name in OTHER_DOORS.values():
        assert hasattr(test_same_doors, name)
