"""The collection that every machine has: what it holds, and that making it has no effect."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from assay.errors import UsageError
from assay.io.collections import Collection
from assay.search import demo_texts as module
from assay.search.demo_texts import stdlib_collection


@pytest.fixture(scope="module")
def collection() -> Collection:
    return stdlib_collection()


def test_its_size_is_as_documented(collection: Collection) -> None:
    assert 1200 < len(collection.query_ids) < len(collection.doc_ids)
    assert 1700 < len(collection.doc_ids) < 2600
    assert not len(collection.absent_docs)
    assert not len(collection.unjudged_queries)
    assert not len(collection.empty_docs)


def test_each_query_has_one_document_and_none_has_two(collection: Collection) -> None:
    qrels = collection.qrels
    assert (qrels.offsets[1:] - qrels.offsets[:-1] == 1).all()
    assert len(set(qrels.docs.tolist())) == len(collection.query_ids)
    for texts in (collection.doc_texts, collection.query_texts):
        assert len(set(texts)) == len(texts)


def test_a_query_and_its_document_are_one_docstring(collection: Collection) -> None:
    import textwrap

    text = dict(zip(collection.query_ids, collection.query_texts, strict=True))
    assert (
        text["q:textwrap.dedent"]
        == "Remove any common leading whitespace from every line in `text`."
    )
    body = collection.text_of("textwrap.dedent")
    assert body.startswith("This can be used to make triple-quoted strings line up")
    assert " ".join(body.split()) in " ".join(str(textwrap.dedent.__doc__).split())


@pytest.mark.parametrize(
    ("line", "fit"),
    [
        ("Return a new list.", True),
        ("Open it.", False),
        ("B.lower() -> copy of B", False),
        ("getkey([y, x]) reads a key", False),
        ("Compute f(x) for all x.", True),
    ],
)
def test_signatures_and_short_lines_are_not_queries(line: str, fit: bool) -> None:
    assert module.is_summary(line) is fit


def docstring(name: str, summary: str, body: str) -> module.Docstring:
    return module.Docstring(name, summary, body)


def test_ambiguous_summaries_are_not_queries() -> None:
    kept = docstring("a", "Sorts all the things.", "body one of it")
    alias = docstring("b", "Sorts all the  Things", "body one of it")
    one = docstring("c", "Puts an item in.", "body of c")
    other = docstring("d", "Puts an item in.", "body of d")
    shared = docstring("e", "First of the two.", "May be overridden now.")
    twice = docstring("f", "Second of the two.", "May be overridden now.")
    assert module.select_answerable([kept, alias, one, other, shared, twice]) == [kept]


@pytest.mark.slow
def test_the_seed_decides_order_and_sample_only(collection: Collection) -> None:
    again, other = stdlib_collection(), stdlib_collection(seed=1)
    assert list(again.doc_ids) == list(collection.doc_ids)
    assert list(again.query_ids) == list(collection.query_ids)
    assert list(other.doc_ids) != list(collection.doc_ids)
    assert {again.fingerprint, other.fingerprint} == {collection.fingerprint}
    some = stdlib_collection(n_queries=100)
    assert list(some.query_ids) == list(collection.query_ids)[:100]
    assert some.fingerprint != collection.fingerprint
    with pytest.raises(UsageError):
        stdlib_collection(n_queries=0)


SCRIPT = """
import json, os, sys, threading, signal
from assay.search.demo_texts import stdlib_collection
before = dict(os.environ), os.getcwd(), signal.getsignal(signal.SIGINT), sys.stdout
collection = stdlib_collection()
after = dict(os.environ), os.getcwd(), signal.getsignal(signal.SIGINT), sys.stdout
assert before == after and threading.active_count() == 1
loaded = sorted({"tkinter", "turtle", "this", "antigravity", "readline"} & set(sys.modules))
print(json.dumps([collection.fingerprint, loaded]))
"""


@pytest.mark.parametrize("hash_seed", ["1", pytest.param("2", marks=pytest.mark.slow)])
def test_making_it_says_and_changes_nothing(collection: Collection, hash_seed: str) -> None:
    """In a new process, with warnings as errors: same fingerprint, no output, no window."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", SCRIPT],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONHASHSEED": hash_seed},
    )
    assert json.loads(done.stdout) == [collection.fingerprint, []]
    assert done.stderr == ""


def test_a_python_without_docstrings_is_refused() -> None:
    code = "from assay.search.demo_texts import stdlib_collection; stdlib_collection()"
    done = subprocess.run(
        [sys.executable, "-OO", "-c", code], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "-OO" in done.stderr.splitlines()[-1]
