"""`assay codes`: files in, tables, curves and JSON out."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from assay.codes import evaluate_codes

FEW = ("--method", "gaussian", "--bits", "8", "32", "--k", "2", "5", "--resamples", "200")


@pytest.fixture
def vectors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, np.ndarray]:
    """A folder with vectors, ids, judgments and codes, made the current one."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(5)
    made = {"docs": rng.normal(size=(50, 6)), "queries": rng.normal(size=(12, 6))}
    ids = {"docs": [f"d{i}" for i in range(50)], "queries": [f"q{i}" for i in range(12)]}
    for side, array in made.items():
        np.save(f"{side}.npy", array)
        np.save(f"{side}-bits.npy", (array > 0).astype(np.int8))
        np.save(f"{side}-packed.npy", np.packbits(array > 0, axis=1))
        Path(f"{side}.txt").write_text("\n".join(ids[side]) + "\n")
    np.savez("all.npz", **made, doc_ids=ids["docs"], query_ids=ids["queries"])
    np.savez("bits.npz", docs=made["docs"] > 0, queries=made["queries"] > 0)
    nearest = np.argmax(made["queries"] @ made["docs"].T, axis=1)
    Path("qrels.txt").write_text("".join(f"q{i} 0 d{doc} 1\n" for i, doc in enumerate(nearest)))
    return made


def test_numbers_are_those_of_the_function(assay, vectors):
    answer = assay("codes", "--embeddings", "docs.npy", "--queries", "queries.npy", *FEW, "--json")
    assert (answer.code, answer.err) == (0, "")
    data = json.loads(answer.out)
    want = evaluate_codes(
        vectors["docs"],
        vectors["queries"],
        methods=["gaussian"],
        bits=[8, 32],
        k=[2, 5],
        resamples=200,
    ).to_dict()
    assert data["command"] == "codes"
    assert data["schema_version"] == 1
    for found, one in zip(data["codes"], want["codes"], strict=True):
        assert found["float_ranking"] == one["float_ranking"]
    assert [one["name"] for one in data["codes"]] == ["float", "gaussian-8", "gaussian-32"]
    assert [one["bytes_per_vector"] for one in data["codes"]] == [48, 1, 4]
    assert data["settings"]["k"] == [2, 5]


@pytest.mark.parametrize("source", ["text", "npz"])
def test_ids_come_from_text_files_or_keys(assay, vectors, source):
    files = {
        "text": (
            "--embeddings",
            "docs.npy",
            "--queries",
            "queries.npy",
            "--doc-ids",
            "docs.txt",
            "--query-ids",
            "queries.txt",
        ),
        "npz": ("--embeddings", "all.npz", "--queries", "all.npz"),
    }[source]
    answer = assay("codes", *files, "--qrels", "qrels.txt", *FEW, "--json")
    assert answer.code == 0
    data = json.loads(answer.out)
    assert set(data["codes"][1]["judgments"]) == {"R@2", "R@5", "nDCG@2", "nDCG@5"}
    assert data["codes"][1]["judgments"]["R@2"]["p"] is not None
    assert data["verdicts"]["R@2"]


def test_keys_name_arrays(assay, vectors):
    np.savez("odd.npz", corpus_vectors=vectors["docs"], other=vectors["queries"])
    answer = assay("codes", "--embeddings", "odd.npz", *FEW)
    assert answer.code == 2
    assert "'corpus_vectors', 'other'" in answer.err
    chosen = (
        "--embeddings-key",
        "corpus_vectors",
        "--queries",
        "odd.npz",
        "--queries-key",
        "other",
    )
    assert assay("codes", "--embeddings", "odd.npz", *chosen, *FEW).code == 0


def test_documents_may_be_their_own_queries(assay, vectors):
    answer = assay("codes", "--embeddings", "docs.npy", *FEW)
    assert answer.code == 0
    assert answer.out.startswith("50 queries, 49 other documents to find, cosine")
    assert (
        "50 queries, 50 documents"
        in assay("codes", "--embeddings", "docs.npy", "--keep-self", *FEW).out
    )


@pytest.mark.parametrize(
    "given",
    [
        ("--codes", "mine=bits.npz"),
        ("--codes", "mine=docs-bits.npy", "--query-codes", "mine=queries-bits.npy"),
        (
            "--packed",
            "6",
            "--codes",
            "mine=docs-packed.npy",
            "--query-codes",
            "mine=queries-packed.npy",
        ),
    ],
)
def test_ready_codes(assay, vectors, given):
    answer = assay(
        "codes",
        "--embeddings",
        "docs.npy",
        "--queries",
        "queries.npy",
        "--k",
        "3",
        *given,
        "--json",
    )
    assert answer.code == 0
    codes = {one["name"]: one for one in json.loads(answer.out)["codes"]}
    assert list(codes) == ["float", "mine"]
    assert codes["mine"]["bits"] == 6
    sign = evaluate_codes(vectors["docs"], vectors["queries"], methods=["sign"], k=[3]).to_dict()
    assert codes["mine"]["float_ranking"] == sign["codes"][1]["float_ranking"]


def test_packed_codes_must_be_declared(assay, vectors):
    files = ("--embeddings", "docs.npy", "--queries", "queries.npy", "--k", "3")
    packed = ("--codes", "mine=docs-packed.npy", "--query-codes", "mine=queries-packed.npy")
    answer = assay("codes", *files, *packed)
    assert answer.code == 3
    assert "docs-packed.npy" in answer.err
    assert "--packed BITS" in answer.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--codes", "docs-bits.npy"), "NAME=FILE"),
        (("--codes", "a=docs-bits.npy"), "The codes docs-bits.npy need query codes"),
        (("--codes", "a=bits.npz", "--codes", "a=bits.npz"), "Two codes share a name"),
        (("--query-codes", "a=bits.npz"), "has no --codes"),
        (("--packed", "8"), "--packed requires --codes"),
        (("--chart", "curve.png"), ".svg"),
        (("--k", "0"), "--k"),
        (("--k", "51"), "k is 51, but queries have 50 candidates"),
        (("--rerank", "2"), "rerank is 2 and the largest k is 50"),
        (("--method", "pq"), "pq"),
        (("--p", "1"), "between 0 and 1"),
        (("--doc-ids", "docs.txt"), "both query_ids and doc_ids"),
        (("-o", "docs.npy", "--json"), "is one of the inputs"),
        (("--chart", "qrels.txt"), ".svg"),
    ],
)
def test_senseless_requests_are_usage_errors(assay, vectors, arguments, words):
    answer = assay("codes", "--embeddings", "docs.npy", "--queries", "queries.npy", *arguments)
    assert answer.code == 2
    assert words in answer.err
    assert answer.out == ""


def test_options_about_queries_need_queries(assay, vectors):
    answer = assay("codes", "--embeddings", "docs.npy", "--query-ids", "queries.txt")
    assert answer.code == 2
    assert "need --queries" in answer.err


def test_tables_for_people_and_programs(assay, vectors):
    files = ("--embeddings", "all.npz", "--queries", "all.npz", "-r", "qrels.txt")
    text = assay("codes", *files, *FEW, "--full").out
    for words in (
        "Overlap@2",
        "95 % interval",
        "by index",
        "tied",
        "RBO(p=0.9)",
        "Kendall",
        "Spearman",
        "chance",
        "− float",
        "search (ms per query)",
        "times smaller",
        "preset:binary_codes*|ties:expected",
    ):
        assert words in text
    assert "| code |" in assay("codes", *files, *FEW, "--format", "markdown").out
    rows = assay("codes", *files, *FEW, "--format", "csv").out.splitlines()
    assert rows[0].startswith("code,method,bits,bytes,against,measure,mean,low,high,n,")
    assert len(rows) == 1 + 3 * (2 + 1 + 2 + 4 + 4)


def test_the_curve_is_written(assay, vectors):
    assert assay("codes", "--embeddings", "docs.npy", *FEW, "--chart", "curve.svg").code == 0
    assert Path("curve.svg").read_text().startswith("<svg")


def test_underscores_commas_and_repetition(assay, vectors):
    files = (
        "--embeddings",
        "docs.npy",
        "--queries",
        "queries.npy",
        "--json",
        "--method",
        "gaussian",
    )
    more = ("--bits", "8", "--bits", "16", "--k", "3", "--exclude_self")
    answer = assay("codes", *files, *more)
    assert answer.code == 3
    assert "differ in number" in answer.err
    answer = assay("codes", *files, *more[:-1])
    names = [one["name"] for one in json.loads(answer.out)["codes"]]
    assert names == ["float", "gaussian-8", "gaussian-16"]


def test_judgments_name_rows_by_number_where_there_are_no_ids(assay, vectors):
    named = assay(
        "codes",
        "--embeddings",
        "all.npz",
        "--queries",
        "all.npz",
        "--qrels",
        "qrels.txt",
        *FEW,
        "--json",
    )
    Path("rows.txt").write_text(Path("qrels.txt").read_text().replace("q", "").replace("d", ""))
    bare = assay(
        "codes",
        "--embeddings",
        "docs.npy",
        "--queries",
        "queries.npy",
        "--qrels",
        "rows.txt",
        *FEW,
        "--json",
    )
    assert (bare.code, bare.err) == (0, "")
    judged = [[one["judgments"] for one in json.loads(a.out)["codes"]] for a in (named, bare)]
    assert judged[0] == judged[1]


@pytest.fixture
def labels(vectors) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(8)
    made = {"docs": rng.integers(0, 3, 50), "queries": rng.integers(0, 3, 12)}
    np.save("labels.npy", made["docs"])
    np.savez("labels.npz", doc_labels=made["docs"], query_labels=made["queries"])
    np.savez("strange.npz", labels=made["docs"], sample_ids=[f"x{i}" for i in range(50)])
    return made


LABELLED = ("--labels", "labels.npy", "--query-labels", "labels.npz", "--hashing", "imagenet")


def test_hashing_by_labels_in_every_format(assay, vectors, labels):
    files = ("codes", "--embeddings", "docs.npy", "--queries", "queries.npy", *FEW, *LABELLED)
    answer = assay(*files, "--json")
    assert (answer.code, answer.err) == (0, "")
    want = evaluate_codes(
        vectors["docs"],
        vectors["queries"],
        methods=["gaussian"],
        bits=[8, 32],
        k=[2, 5],
        resamples=200,
        labels=labels["docs"],
        query_labels=labels["queries"],
        hashing="imagenet",
    ).to_dict()
    for found, one in zip(json.loads(answer.out)["codes"], want["codes"], strict=True):
        assert found["judgments"] == one["judgments"]
        assert found["judgments"]["AP@1000"]["mean"] > 0
        assert found.get("radius") == one.get("radius")
    for layout, words in (("text", "P@radius 2"), ("latex", "8 bits"), ("csv", "R@radius 32")):
        assert words in assay(*files, "--format", layout).out
    assert assay(*files, "--chart", "curve.svg").code == 0
    assert "By Hamming radius" in Path("curve.svg").read_text()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("--hashing", "all"), "hashing needs labels or qrels"),
        (("--labels", "labels.npy"), "Labels are missing"),
        (("--labels", "labels.npz", "--query-labels", "labels.npy"), "12"),
        ((*LABELLED, "--rerank", "10"), "hashing excludes rerank and oversample"),
    ],
)
def test_labels_that_do_not_fit_are_refused(assay, labels, change, words):
    files = ("codes", "--embeddings", "docs.npy", "--queries", "queries.npy", *FEW)
    answer = assay(*files, *change)
    assert answer.code != 0
    assert words in answer.err


def test_labels_of_other_rows_are_refused(assay, labels):
    for files in (("all.npz",), ("docs.npy", "--doc-ids", "docs.txt")):
        answer = assay("codes", "--embeddings", *files, *FEW, "--labels", "strange.npz")
        assert answer.code != 0
        assert "strange.npz: ids of labels and vectors differ" in answer.err


def test_methods_with_a_number_in_their_name(assay, vectors):
    files = ("codes", "--embeddings", "docs.npy", "--queries", "queries.npy", "--k", "2")
    methods = ("--method", "int4", "mrl:4", "mrl:4+sign", "rabitq:2", "--resamples", "200")
    data = json.loads(assay(*files, *methods, "--json").out)
    found = {one["name"]: (one["method"], one["bytes_per_vector"]) for one in data["codes"]}
    assert found["int4"] == ("int4", 3)
    assert found["mrl:4"] == ("mrl", 32)
    assert found["mrl:4+sign"] == ("mrl+sign", 1)
    assert found["rabitq:2"] == ("rabitq", 6)
    assert "trained on 25 other documents than the encoded" in data["remarks"][0]
    answer = assay(*files, "--method", "mrl")
    assert answer.code == 2
    assert "mrl:D" in answer.err


def test_oversampling_takes_several_factors(assay, vectors):
    files = ("codes", "--embeddings", "docs.npy", "--queries", "queries.npy", "--k", "3")
    more = ("--method", "sign", "--oversample", "2", "4", "--resamples", "200", "--chart", "c.svg")
    answer = assay(*files, *more, "--json")
    assert (answer.code, answer.err) == (0, "")
    names = [one["name"] for one in json.loads(answer.out)["codes"]]
    assert names == ["float", "sign", "sign ×2", "sign ×4"]
    assert "re-ranked ×4" in Path("c.svg").read_text()
    assert assay(*files, *more, "--rerank", "10").code == 2


@pytest.mark.slow
def test_the_demo_shows_each_command_at_work(tmp_path, assay, monkeypatch):
    monkeypatch.setattr("assay.codes.demo.N_QUERIES", 25)
    answer = assay("codes", "--demo", str(tmp_path / "demo"))
    assert answer.code == 0
    assert answer.out.count("$ assay codes ") == 3
    assert "mAP@all as learning to hash prints it" in answer.out
    assert (tmp_path / "demo" / "bytes.svg").stat().st_size > 1000
    docs, queries = (np.load(tmp_path / "demo" / f"{one}.npy") for one in ("docs", "queries"))
    names = [(tmp_path / "demo" / f"{one}.txt").read_text().split() for one in ("docs", "queries")]
    assert (len(docs), len(queries)) == tuple(map(len, names))
    judged = (tmp_path / "demo" / "qrels.txt").read_text().splitlines()
    targets = [line.split()[2] for line in judged]
    scores = (queries @ docs.T) / np.linalg.norm(docs, axis=1)
    places = [
        (row > row[names[0].index(doc)]).sum() for row, doc in zip(scores, targets, strict=True)
    ]
    assert np.median(places) < 100, "vectors that find what they should, of two thousand"
    assert assay("codes").code == 2
