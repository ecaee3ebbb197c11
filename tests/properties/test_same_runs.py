"""Runs and judgments: the commands that read, compare, fuse, explain and store them."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("pyarrow")

from tests.properties.metamorphic import DIGEST, Same, Sayings, Table, cases_of, check_same, swapped
from tests.properties.variants import MARK

_FORMATS = ("csv", "tsv", "jsonl", "json", "parquet")
_NO_THREADS = "it has no threads of its own"
_ONE_FILE = "a run is one file"
_NO_BLOCKS = "a file is read at once"

EVAL = "eval dense.run coarse.run -r qrels.txt -m AP -m nDCG@10 -m SetP -q --json"
DEPTH = "eval dense.run coarse.run -r qrels.txt -m AP -m num_rel_ret --depth 5 --ties order --json"
FLOAT32 = "eval dense.run coarse.run -r qrels.txt -m AP -c sentence_transformers -q --json"
GROUPED = "eval dense.run coarse.run -r qrels.txt -m AP --by groups.tsv:kind --json"
COMPARE = "compare dense.run coarse.run -r qrels.txt -m AP --resamples 200 --json"
CLUSTERS = "compare dense.run coarse.run -r qrels.txt --by groups.tsv:topic --resamples 200 --json"
STILL = "compare dense.run lexical.run -r qrels.txt -m AP --test t --interval t --json"
REPORT = "report dense.run coarse.run -r qrels.txt -m AP --resamples 200 -o report.md --json"
CHECK = "check coarse.run qrels.txt -m AP --json"
EXPLAIN = "explain coarse.run -r qrels.txt --query 302 -m AP --json"
EXPECTED = "explain coarse.run -r qrels.txt --query 302 -m AP --ties expected --json"
FUSE = "fuse dense.run coarse.run -o fused.run"
COMBSUM = "fuse dense.run coarse.run --method combsum --normalize zscore -o sum.run"
CONVERT = "convert coarse.run copy.tsv"
TREC = "trec_eval -q -c -m all_trec qrels.txt coarse.run"


def _of(line: str, folder: str, ending: str, **further: str) -> Same:
    """The same line with runs and judgments of another folder and ending."""
    pairs = [
        (f"{name}.run", f"{folder}/{name}.{ending}") for name in ("dense", "coarse", "lexical")
    ]
    judged = "txt" if ending == "run" else ending.replace("run", "txt")
    found = [(old, new) for old, new in pairs if old in line]
    found += [("qrels.txt", f"{folder}/qrels.{judged}")] if "qrels.txt" in line else []
    return swapped(line, *found, **further)


def _formats(line: str, *endings: str) -> list[Same]:
    """Every format, or some; both ways to compress; ids that a file holds as integers."""
    made = [_of(line, ending, ending) for ending in endings or _FORMATS]
    return [*made, _of(line, "gz", "run.gz"), _of(line, "zst", "run.zst")]


def _integers(line: str) -> Same:
    """Ids that are integers in a file are ids without quotes in messages."""
    same = _of(line, "integers", "parquet")
    return same._replace(words=((r"'(\d+)'", r"\1"), (r'"query": "?(\d+)"?', r'"query": \1')))


def _npz(line: str) -> Same:
    return swapped(line, ("dense.run", "npz/dense.npz"), ("coarse.run", "npz/coarse.npz"))


def _renamed(line: str, *more: str) -> Same:
    pairs = [(one, f"renamed/{one}") for one in ("dense.run", "coarse.run", "qrels.txt", *more)]
    same = swapped(line, *((old, new) for old, new in pairs if old in line))
    other = same.other.replace("--query ", f"--query {MARK}")
    return same._replace(other=other, back=(*same.back, (MARK, "")), words=(DIGEST,))


def _mixed(line: str, *more: str) -> Same:
    pairs = [(one, f"mixed/{one}") for one in ("dense.run", "coarse.run", "qrels.txt", *more)]
    return swapped(line, *((old, new) for old, new in pairs if old in line))


def _scaled(line: str, **further: Any) -> Same:
    """Scores eight times as high, in the same order."""
    names = [f"{name}.run" for name in ("dense", "coarse") if f"{name}.run" in line]
    return swapped(line, *((name, f"times8/{name}") for name in names), **further)


def _numpy(line: str, file: str = "") -> Same:
    return Same(line, line, file=file, engine="numpy")


def _file(same: Same, file: str) -> Same:
    """The written file counts; the second command writes another."""
    return same._replace(
        file=file,
        other=same.other.replace(f"-o {file}", f"-o other-{file}"),
        other_file=f"other-{file}",
    )


_SCORE = (r'"score": [^,}]+', '"score": 0')  # which explain shows

TABLE: Table = {
    "eval": {
        "format": [*_formats(EVAL), _integers(EVAL), _npz(EVAL), *_formats(FLOAT32, "parquet")],
        "lines": [_mixed(EVAL), _mixed(DEPTH), _mixed(GROUPED, "groups.tsv")],
        "renamed": [_renamed(EVAL), _renamed(DEPTH), _renamed(GROUPED, "groups.tsv")],
        "unordered": "see test_names_in_another_order",
        "threads": _NO_THREADS,
        "engine": [_numpy(EVAL), _numpy(FLOAT32)],
        "scaled": [_scaled(EVAL), _scaled(FLOAT32)],
        "split": _ONE_FILE,
        "blocks": _NO_BLOCKS,
    },
    "compare": {
        "format": [
            *_formats(COMPARE, "csv", "jsonl"),
            *(_integers(line) for line in (COMPARE, CLUSTERS)),
            _npz(COMPARE),
        ],
        "lines": [_mixed(COMPARE), _mixed(CLUSTERS, "groups.tsv")],
        "renamed": [_renamed(COMPARE), _renamed(CLUSTERS, "groups.tsv")],
        "unordered": "see test_names_in_another_order",
        "threads": _NO_THREADS,
        "engine": [_numpy(COMPARE), _numpy(CLUSTERS)],
        "scaled": [_scaled(COMPARE), _scaled(STILL)],
        "split": _ONE_FILE,
        "blocks": _NO_BLOCKS,
    },
    "report": {
        "format": [*_formats(REPORT, "csv", "json", "parquet"), _integers(REPORT), _npz(REPORT)],
        "lines": [_mixed(REPORT)],
        "renamed": [_renamed(REPORT)],
        "unordered": "intervals resample queries in the order of their ids",
        "threads": _NO_THREADS,
        "engine": [_numpy(REPORT)],
        "scaled": [_scaled(REPORT)],
        "split": _ONE_FILE,
        "blocks": _NO_BLOCKS,
    },
    "check": {
        "format": [*_formats(CHECK), _integers(CHECK)],
        "lines": [_mixed(CHECK)],
        "renamed": [_renamed(CHECK)],
        "unordered": "its examples are the first by id",
        "threads": _NO_THREADS,
        "engine": [_numpy(CHECK)],
        "scaled": [_scaled(CHECK)],
        "split": _ONE_FILE,
        "blocks": _NO_BLOCKS,
    },
    "explain": {
        "format": [*_formats(EXPLAIN), _integers(EXPLAIN), *_formats(EXPECTED, "jsonl")],
        "lines": [_mixed(EXPLAIN), _mixed(EXPECTED)],
        "renamed": [_renamed(EXPLAIN)],
        "unordered": "see eval, whose value it explains",
        "threads": _NO_THREADS,
        "engine": [_numpy(EXPLAIN), _numpy(EXPECTED)],
        "scaled": [_scaled(one, words=(_SCORE,)) for one in (EXPLAIN, EXPECTED)],
        "split": _ONE_FILE,
        "blocks": _NO_BLOCKS,
    },
    "fuse": {
        "format": [
            _file(one, file)
            for line, file in ((FUSE, "fused.run"), (COMBSUM, "sum.run"))
            for one in (_of(line, "csv", "csv"), _npz(line), _integers(line))
        ],
        "lines": [
            _file(_mixed(FUSE), "fused.run"),
            _file(_mixed(COMBSUM), "sum.run"),
            _file(
                Same(FUSE, FUSE.replace("dense.run coarse.run", "coarse.run dense.run")),
                "fused.run",
            ),
            _file(
                Same(COMBSUM, COMBSUM.replace("dense.run coarse.run", "coarse.run dense.run")),
                "sum.run",
            ),
        ],
        "renamed": [_file(_renamed(FUSE), "fused.run"), _file(_renamed(COMBSUM), "sum.run")],
        "unordered": "equal scores are frequent where ranks are added",
        "threads": _NO_THREADS,
        "engine": [_file(_numpy(FUSE), "fused.run"), _file(_numpy(COMBSUM), "sum.run")],
        "scaled": [_file(_scaled(FUSE), "fused.run"), _file(_scaled(COMBSUM), "sum.run")],
        "split": _ONE_FILE,
        "blocks": _NO_BLOCKS,
    },
    "trec_eval": {
        "format": [_of(TREC, "gz", "run.gz"), _of(TREC, "zst", "run.zst")],
        "lines": [_mixed(TREC)],
        "renamed": [_renamed(TREC)],
        "unordered": "see test_names_in_another_order",
        "threads": _NO_THREADS,
        "engine": [_numpy(TREC)],
        "scaled": [_scaled(TREC)],
        "split": _ONE_FILE,
        "blocks": _NO_BLOCKS,
    },
    "convert": {
        "format": [
            Same(
                CONVERT,
                one.other.replace("copy.tsv", "again.tsv"),
                file="copy.tsv",
                other_file="again.tsv",
            )
            for one in (*_formats(CONVERT), swapped(CONVERT, ("coarse.run", "npz/coarse.npz")))
        ],
        "lines": "the order of lines is kept",
        "renamed": "ids are copied",
        "unordered": "ids are copied",
        "threads": _NO_THREADS,
        "engine": [_numpy(CONVERT, "copy.tsv")],
        "scaled": "scores are copied",
        "split": _ONE_FILE,
        "blocks": _NO_BLOCKS,
    },
}
NEEDS = {"report": "altair"}


@pytest.mark.parametrize("same", list(cases_of(TABLE, NEEDS)))
def test_the_same_is_said(same: Same, sayings: Sayings) -> None:
    check_same(same, sayings)


def test_names_in_another_order(sayings: Sayings) -> None:
    """Where nothing ties, no number depends on ids; the order of queries is that of ids."""
    for line in (
        "eval dense.run -r qrels.txt -m AP -m nDCG@10 -m RR -m SetP --json",
        "eval dense.run -r qrels.txt -m AP --by groups.tsv:kind --json",
        "compare dense.run partial.run -r qrels.txt -m AP --test t --interval t --json",
    ):
        names = ("dense.run", "partial.run", "qrels.txt", "groups.tsv")
        pairs = [(name, f"unordered/{name}") for name in names if name in line]
        check_same(swapped(line, *pairs, words=(DIGEST, _EXAMPLES, _LAST_BITS)), sayings)


_EXAMPLES = (r"((?:'\w+'(?:, )?)+)", "ids")  # some queries, in the order of ids
_LAST_BITS = (r"(\.\d{13})\d+", r"\1")  # sums of squares in another order
