"""Texts: models that search a collection, and texts encoded into shards."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("pyarrow")

from tests.properties.metamorphic import DIGEST, Same, Sayings, Table, cases_of, check_same, swapped
from tests.properties.variants import MARK

_LETTERS = "letters=py:tests.golden.models:bag"
_MODELS = f"--model bm25 --model {_LETTERS} --fusion rrf:bm25+letters --no-cache -m nDCG@10 -m AP"
BENCH = f"bench --corpus made {_MODELS} --resamples 100 --json"
_PARTS = "--corpus made/corpus.jsonl --queries made/queries.jsonl -r made/qrels/test.tsv"
PARTS = f"bench {_PARTS} --name made {_MODELS} --resamples 100 --json"
CHUNKS = f"{BENCH} --chunk tokens:6:2"
WORDS = "bench --corpus made --model tfidf --model lsa:5 --no-cache -m AP --resamples 100 --json"
KINDS = f"{BENCH} --by kinds.csv"
_VECTORS = "npy:ready/made-docs.npy,ready/made-queries.npy"
READY = f"bench --corpus made --model v={_VECTORS} --no-cache -m AP --resamples 100 --json"
ENCODE = "encode 'texts-*.jsonl' -e py:tests.golden.models:bag -o vectors"
_QUERIES = "vectors/part-00001.npy --query-ids vectors/part-00001.ids.txt"
SEARCH = f"rank {_QUERIES} vectors/manifest.json -k 9 -o near.run"


def _parts(corpus: str, queries: str, qrels: str = "made/qrels/test.tsv") -> Same:
    old = ("made/corpus.jsonl", "made/queries.jsonl", "made/qrels/test.tsv")
    pairs = zip(old, (corpus, queries, qrels), strict=True)
    return swapped(PARTS, *(pair for pair in pairs if len(set(pair)) > 1))


def _encoded(folder: str, texts: str = "'texts-*.jsonl'", *more: str, **further: Any) -> Same:
    """A search among vectors that were made in another way."""
    made = ENCODE.replace("'texts-*.jsonl'", texts).replace("-o vectors", f"-o {folder}")
    other = SEARCH.replace("vectors/manifest", f"{folder}/manifest").replace("-o near", "-o again")
    return Same(
        SEARCH,
        other,
        file="near.run",
        other_file="again.run",
        before=(ENCODE, " ".join((made, *more))),
        **further,
    )


# A model of ready vectors is known by a digest of them.
_MODEL = ((r'"fingerprint": "\w+"', '"fingerprint": ""'),)
# The digest of a collection is that of its ids, too.
_COLLECTION = ((r'"fingerprint": "\w+"', '"fingerprint": ""'), (r"collection:\w+", "collection"))

TABLE: Table = {
    "bench": {
        "format": [
            *(
                _parts(f"{e}/corpus.{e}", f"{e}/queries.{e}", f"{e}/made.{e}")
                for e in ("csv", "tsv")
            ),
            _parts("json/corpus.json", "json/queries.json", "made.qrels"),
            *(_parts(f"{e}/corpus.jsonl.{e}", f"{e}/queries.jsonl.{e}") for e in ("gz", "zst")),
        ],
        "lines": [
            swapped(line, ("--corpus made", "--corpus mixed/made"))
            for line in (BENCH, CHUNKS, WORDS)
        ]
        + [swapped(KINDS, ("kinds.csv", "mixed/kinds.csv"))],
        "renamed": [
            swapped(line, ("--corpus made", "--corpus renamed/made"))._replace(
                back=(("renamed/made", "made"), (MARK, "")), words=(DIGEST, *_COLLECTION)
            )
            for line in (BENCH, CHUNKS)
        ],
        "unordered": "intervals resample queries in the order of their ids",
        "threads": [
            Same(BENCH, f"{BENCH} {one}")
            for one in ("--threads 1", "--threads 2", "--cluster threads --workers 2")
        ],
        "engine": [Same(line, line, engine="numpy") for line in (BENCH, CHUNKS, WORDS)],
        "scaled": [
            swapped(
                READY,
                ("ready/made-docs.npy", "times8/made-docs.npy"),
                ("ready/made-queries.npy", "times8/made-queries.npy"),
                words=_MODEL,
            )
        ],
        "split": "a corpus is one file or folder",
        "blocks": [
            Same(BENCH, BENCH.replace("--no-cache", "--cache kept-texts")),
            Same(BENCH, BENCH.replace("--no-cache", "--cache  kept-texts")),  # from the cache now
        ],
    },
    "encode": {
        "format": [_encoded("packed", "'packed-*.jsonl.gz'")],
        "lines": [_encoded("mixed-texts", "mixed/texts.jsonl")],
        "renamed": "ids are copied",
        "unordered": "ids are copied",
        "threads": [_encoded("on-threads", "'texts-*.jsonl'", "--cluster threads --workers 2")],
        "engine": [_encoded("vectors", engine="numpy")],
        "scaled": "models make the vectors",
        "split": [_encoded("one", "whole/texts.jsonl")],
        "blocks": "a model makes a vector from one text",
    },
}
NEEDS = {"bench": "bm25s"}


@pytest.mark.parametrize("same", list(cases_of(TABLE, NEEDS)))
def test_the_same_is_said(same: Same, sayings: Sayings) -> None:
    check_same(same, sayings)
