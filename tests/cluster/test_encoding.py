"""Texts become vectors, shard by shard, and only what is missing is made."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest

from assay.cluster import Cluster, ThreadExecutor, encode_shards, open_shards, rank_shards
from assay.errors import (
    AssayError,
    FormatError,
    IdError,
    StorageError,
    UsageError,
    ValueRangeError,
)
from assay.models import EncoderSettings
from assay.search.engine import rank
from tests.cluster.encoders import letters

SPEC = "py:tests.cluster.encoders:letters"
TEXTS = [
    [f"text {shard} about {word}" for word in ["apples", "pears", "plums", "figs"]]
    for shard in range(12)
]


@pytest.fixture
def corpus(tmp_path: Path) -> str:
    for shard, texts in enumerate(TEXTS):
        lines = [
            json.dumps({"_id": f"s{shard}-{row}", "text": text, "title": "A title"})
            for row, text in enumerate(texts)
        ]
        (tmp_path / f"texts-{shard}.jsonl").write_text("\n".join(lines) + "\n")
    return str(tmp_path / "texts-*.jsonl")


def all_texts() -> list[str]:
    return [f"A title {text}" for texts in TEXTS for text in texts]


def test_vectors_of_all_texts_in_order(corpus, tmp_path):
    with ThreadExecutor(3) as executor:
        done = encode_shards(corpus, SPEC, tmp_path / "v", cluster=Cluster(executor))
    assert (done.n_texts, done.made, done.resumed) == (48, 12, 0)
    shards = open_shards(done.manifest)
    vectors = np.concatenate([np.load(shard.path) for shard in shards])
    assert vectors.tolist() == letters(all_texts())
    ids = [line for shard in shards for line in Path(shard.ids).read_text().split()]
    assert ids[:5] == ["s0-0", "s0-1", "s0-2", "s0-3", "s1-0"]
    for shard in shards:
        assert shard.sha256 == hashlib.sha256(Path(shard.path).read_bytes()).hexdigest()


def test_what_was_encoded_can_be_searched(corpus, tmp_path):
    done = encode_shards(corpus, SPEC, tmp_path / "v")
    docs = np.array(letters(all_texts()), np.float32)
    ids = [f"s{shard}-{row}" for shard in range(12) for row in range(4)]
    got = rank_shards(
        docs[:5],
        done.manifest,
        7,
        query_ids=ids[:5],
        exclude="self",
        cluster=Cluster(checkpoint=tmp_path / "c"),
    )
    want = rank(docs[:5], docs, 7, query_ids=ids[:5], doc_ids=ids, exclude="self")
    assert [got.row(one) for one in ids[:5]] == [want.row(one) for one in ids[:5]]


def test_only_what_is_missing_damaged_or_changed_is_made_again(corpus, tmp_path):
    encode_shards(corpus, SPEC, tmp_path / "v")
    before = {path.name: path.read_bytes() for path in (tmp_path / "v").iterdir()}
    assert encode_shards(corpus, SPEC, tmp_path / "v").made == 0
    (tmp_path / "v" / "part-00001.npy").unlink()
    (tmp_path / "v" / "part-00002.npy").write_bytes(b"damaged")
    (tmp_path / "v" / "part-00003.json").write_text("{")
    (tmp_path / "v" / "part-00005.json").write_text("[]")
    receipt = tmp_path / "v" / "part-00006.json"
    receipt.write_text(receipt.read_text().replace('"empty": 0', '"empty": 1'))
    (tmp_path / "v" / "part-00007.ids.txt").write_text("other\n")
    done = encode_shards(corpus, SPEC, tmp_path / "v")
    assert (done.made, done.resumed) == (6, 6)
    assert {path.name: path.read_bytes() for path in (tmp_path / "v").iterdir()} == before
    (tmp_path / "texts-4.jsonl").write_text('{"_id": "new", "text": "a new text"}\n')
    done = encode_shards(corpus, SPEC, tmp_path / "v")
    assert (done.made, done.n_texts) == (1, 45)
    assert encode_shards(corpus, "wordllama", tmp_path / "v").made == 12


def test_a_failure_leaves_the_finished_shards(corpus, tmp_path):
    (tmp_path / "texts-9.jsonl").write_text('{"_id": "x", "text": 5}\n')
    with pytest.raises(AssayError, match=r"texts-9\.jsonl, line 1: the text of 'x' is int"):
        encode_shards(corpus, SPEC, tmp_path / "v")
    assert not (tmp_path / "v" / "manifest.json").exists()
    (tmp_path / "texts-9.jsonl").write_text('{"_id": "x", "text": "full"}\n')
    done = encode_shards(corpus, SPEC, tmp_path / "v")
    assert done.resumed >= 9


@pytest.mark.parametrize(
    ("name", "content", "error", "words"),
    [
        ("a.jsonl", "[1]\n", FormatError, "line 1: expected an object"),
        ("a.jsonl", '"bare text"\n', FormatError, "expected objects"),
        ("a.jsonl", '{"id": "x"}\n', FormatError, "cannot tell which column holds the text"),
        ("a.jsonl", '{"id": "1", "text": "x"}\n{"id": "2"}\n', ValueRangeError, "line 2"),
        ("a.jsonl", '{"id": "1", "text": "x"}\n' * 2, IdError, "appears twice"),
        ("a.jsonl", '{"id": "1 2", "text": "x"}\n', IdError, "white space"),
        ("a.jsonl", "{\n", FormatError, "not JSON"),
        ("a.doc", "x", UsageError, r"a\.doc: unknown ending"),
        ("a.txt", "", FormatError, "is empty"),
    ],
)
def test_texts_that_cannot_be_read(name, content, error, words, tmp_path):
    (tmp_path / name).write_text(content)
    with pytest.raises(error, match=words):
        encode_shards(tmp_path / name, SPEC, tmp_path / "v")


def test_nothing_to_read(tmp_path):
    with pytest.raises(StorageError, match="matches no file of texts"):
        encode_shards(str(tmp_path / "none-*.txt"), SPEC, tmp_path / "v")
    with pytest.raises(StorageError, match=r"none\.txt"):
        encode_shards(tmp_path / "none.txt", SPEC, tmp_path / "v")


@pytest.mark.parametrize(
    ("name", "content"),
    [("a.txt", "one text\nanother text\n"), ("a.jsonl", '{"text": "one"}\n{"text": "two"}\n')],
)
def test_texts_without_ids(name, content, tmp_path):
    (tmp_path / name).write_text(content)
    done = encode_shards([tmp_path / name], SPEC, tmp_path / "v")
    (shard,) = open_shards(done.manifest)
    assert (shard.rows, shard.ids) == (2, None)


def test_empty_texts_are_counted(tmp_path):
    (tmp_path / "a.txt").write_text("one text\n \nanother text\n")
    for _ in range(2):
        done = encode_shards(tmp_path / "a.txt", SPEC, tmp_path / "v")
        assert (done.n_texts, done.empty) == (3, 1)
    assert not np.load(tmp_path / "v" / "part-00000.npy")[1].any()


def test_prefixes_make_other_vectors(corpus, tmp_path):
    encode_shards(corpus, SPEC, tmp_path / "v")
    settings = EncoderSettings(doc_prefix="aaa: ")
    assert encode_shards(corpus, SPEC, tmp_path / "v", settings=settings).made == 12
    first = np.load(tmp_path / "v" / "part-00000.npy")
    assert first.tolist() == letters([f"aaa: {text}" for text in all_texts()[:4]])


def test_a_model_without_a_fingerprint_is_asked_again(corpus, tmp_path):
    spec = "py:tests.cluster.encoders:unknown"
    for _ in range(2):
        assert encode_shards(corpus, spec, tmp_path / "v").made == 12
