"""Nothing escapes the comparison of recorded answers: neither a digit, nor an order, nor a key."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from tests.golden.commands import renames
from tests.golden.differences import differences
from tests.golden.recording import shrunk

ANSWER: dict[str, Any] = {
    "exit": 0,
    "json": {
        "schema_version": 1,
        "verdict": "a is better than b: +0.1250, p = 0.0100",
        "outcome": "better",
        "queries": {f"q{i}": {"AP": 0.1 * i, "n": i} for i in range(100)},
        "pairs": [{"a": i, "b": 0.5} for i in range(100)],
    },
    "data": "".join(f"q{i} {i / 7}\n" for i in range(100)),
    "files": {"table.md": {"text": "".join(f"| q{i} | {i / 7:.4f} |\n" for i in range(100))}},
}


def _query(new: dict[str, Any]) -> None:
    new["json"]["queries"]["q50"]["AP"] += 1e-15


def _kind_of_number(new: dict[str, Any]) -> None:
    new["json"]["pairs"][40]["a"] = 40.0


def _outcome(new: dict[str, Any]) -> None:
    new["json"]["outcome"] = "worse"


def _number_in_a_sentence(new: dict[str, Any]) -> None:
    new["json"]["verdict"] = "a is better than b: +0.1251, p = 0.0100"


def _line(new: dict[str, Any]) -> None:
    new["data"] = new["data"].replace("q50 ", "q05 ")


def _cell(new: dict[str, Any]) -> None:
    new["files"]["table.md"]["text"] = new["files"]["table.md"]["text"].replace("7.1429", "7.1428")


def _no_file(new: dict[str, Any]) -> None:
    new["files"]["table.md"] = {"missing": True}


def _order(new: dict[str, Any]) -> None:
    new["json"] = dict(reversed(new["json"].items()))


def _order_within(new: dict[str, Any]) -> None:
    new["json"]["queries"] = dict(sorted(new["json"]["queries"].items()))


def _lost_key(new: dict[str, Any]) -> None:
    del new["json"]["outcome"]


def _exit_code(new: dict[str, Any]) -> None:
    new["exit"] = 1


@pytest.mark.parametrize("kept", [shrunk, copy.deepcopy], ids=["shrunk", "whole"])
@pytest.mark.parametrize(
    "change",
    [
        _query,
        _kind_of_number,
        _outcome,
        _number_in_a_sentence,
        _line,
        _cell,
        _no_file,
        _order,
        _order_within,
        _lost_key,
        _exit_code,
    ],
)
def test_a_change_is_found(
    kept: Callable[[Any], dict[str, Any]], change: Callable[[Any], None]
) -> None:
    new = copy.deepcopy(ANSWER)
    assert list(differences(kept(ANSWER), new)) == []
    change(new)
    found = list(differences(kept(ANSWER), new))
    assert found
    assert not any(one.words for one in found)


def test_other_words_are_told_apart_from_other_numbers() -> None:
    new = copy.deepcopy(ANSWER)
    new["json"]["verdict"] = "a beats b by +0.1250 (p = 0.0100)"
    new["files"]["table.md"]["text"] = new["files"]["table.md"]["text"].replace("| q", "| query q")
    assert all(one.words for one in differences(ANSWER, new))
    assert [one.path for one in differences(shrunk(ANSWER), new)] == ["json/verdict"]


def test_names_that_were_changed_on_purpose() -> None:
    names = renames({"docs": "documents", "label-recall": "label_recall"})
    assert names.old_key("documents") == "docs"
    assert names.old_key("document") == "document"
    assert names.old_text("3 documents by label_recall@10") == "3 docs by label-recall@10"
    assert names.old_text("my_documents") == "my_documents"
