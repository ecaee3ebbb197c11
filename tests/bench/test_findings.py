"""The diagnosis: every finding where there is something to find, and silence where not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from assay.bench import run_bench
from assay.bench.findings import disagreements, failures, find_copies, find_facts
from assay.core.ids import Ids
from assay.core.judgments import Judgments
from assay.io.collections import Collection
from assay.models import EmbeddingCache
from tests.bench.samples import small

ENGLISH = "the engine of this wing is the one that lifts and from what we know it was by design"
GERMAN = "der Motor ist nicht das was mit dem Flügel für den Auftrieb sorgt und wie ein Vogel auf"


def made(
    docs: Sequence[str], queries: Sequence[str], judged: Sequence[tuple[int, int]]
) -> Collection:
    doc_ids = Ids.of([f"d{i}" for i in range(len(docs))], "doc")
    query_ids = Ids.of([f"q{i}" for i in range(len(queries))], "query")
    rows, numbers = zip(*judged, strict=True)
    qrels = Judgments.from_pairs(query_ids, doc_ids, rows, numbers, np.ones(len(rows)))
    return Collection(doc_ids, docs, query_ids, queries, qrels)


def codes(collection: Collection, models: Sequence[str] = ("bm25",)) -> set[str]:
    return {one.code for one in run_bench(collection, models).diagnosis.findings}


def test_a_sound_collection_has_no_severe_finding() -> None:
    assert not {one.severity for one in run_bench(small(), ["bm25"]).diagnosis.findings} - {"note"}


def test_absent_judged_documents_are_reported() -> None:
    collection = small()
    ids = Ids.of([id.replace("d00", "D00") for id in collection.doc_ids], "doc")
    result = run_bench(replace(collection, doc_ids=ids, fingerprint=""), ["bm25"])
    if len(result.collection.absent_docs):
        assert result.diagnosis["absent-docs"].severity == "error"
        assert "upper and lower case" in result.diagnosis["absent-docs"].effect
    names = Ids.of([f"{id}x" if i % 2 else id for i, id in enumerate(collection.doc_ids)], "doc")
    half = run_bench(replace(collection, doc_ids=names, fingerprint=""), ["bm25"])
    found = half.diagnosis["absent-docs"]
    assert found.count == len(half.collection.absent_docs) > 0
    assert half.diagnosis.findings[0].code == "absent-docs", "the gravest comes first"


def test_judged_queries_without_a_text_are_left_out() -> None:
    collection = small()
    fewer = replace(
        collection,
        query_ids=collection.query_ids.take(np.arange(5, 25)),
        query_texts=collection.query_texts[5:],
        fingerprint="",
    )
    result = run_bench(fewer, ["bm25"])
    assert result.diagnosis["absent-queries"].count == 5
    assert result["bm25"].scores.n_queries == 20


def test_duplicate_documents_are_reported() -> None:
    text = "wings lift because air flows faster above than below and that is the whole of it"
    docs = [text, text.upper() + "!", f"{text} always", "engines push", "x y z"]
    collection = made(docs, ["wings lift", "engines"], [(0, 0), (1, 3)])
    result = run_bench(collection, ["bm25"])
    assert result.diagnosis["duplicate-docs"].examples == ("d0 = d1",)
    near = result.diagnosis["near-duplicate-docs"]
    assert (near.count, near.message[:12]) == (1, "2 documents ")
    assert "and more" not in str(near)
    assert find_copies(docs) == ([[0, 1]], [[0, 2]])
    short = ["a b c d e f g", "a b c d e f g h", "h a b c d e f g"]
    assert find_copies(short) == ([], []), "short texts are alike by accident"


@pytest.mark.parametrize("texts", [[], [""], ["", "x"], ["a b c"], ["", "", "..."]])
def test_texts_without_copies(texts: list[str]) -> None:
    assert find_copies(texts) == ([], [])


def test_facts_about_texts_are_found_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    docs = [f"{ENGLISH} and more of it", f"{ENGLISH}, and more of it!", f"{ENGLISH} and more of"]
    collection = made(docs, [GERMAN], [(0, 0)])

    def findings() -> list[str]:
        cache = EmbeddingCache(tmp_path)
        return [str(one) for one in run_bench(collection, ["bm25"], cache=cache).diagnosis.findings]

    first = findings()
    assert first == [str(one) for one in run_bench(collection, ["bm25"]).diagnosis.findings]
    calls = []
    monkeypatch.setattr(
        "assay.bench.findings.find_copies", lambda texts: calls.append(1) or find_copies(texts)
    )
    assert findings() == first
    assert not calls
    (file,) = tmp_path.rglob("*.facts")
    file.write_bytes(file.read_bytes()[:-1])
    assert findings() == first
    assert len(calls) == 1, "what is damaged is computed again"
    assert find_facts(docs[:2], tmp_path).near == []
    assert find_facts([f"{docs[0]}{docs[1]}", docs[2]], tmp_path) != find_facts(docs, tmp_path)
    assert len(calls) == 3, "other texts have other facts"


def test_near_duplicates_are_those_of_brute_force() -> None:
    rng = np.random.default_rng(0)
    texts = []
    for _ in range(20):
        words = [f"w{i}" for i in rng.integers(0, 500, 60)]
        texts.append(" ".join(words))
        changed = words.copy()
        changed[int(rng.integers(60))] = "other"
        texts.append(" ".join(changed))

    def runs(text: str) -> set[tuple[str, ...]]:
        words = text.split()
        return set(zip(words, words[1:], words[2:], strict=False))

    wanted = [
        [i, j]
        for i in range(len(texts))
        for j in range(i + 1, len(texts))
        if len(runs(texts[i]) & runs(texts[j])) >= 0.8 * len(runs(texts[i]) | runs(texts[j]))
    ]
    assert find_copies(texts) == ([], wanted)
    assert len(wanted) == 20


def test_a_language_mismatch_is_reported() -> None:
    docs = [ENGLISH + f" number {i}" for i in range(9)]
    found = codes(made(docs, [GERMAN], [(0, 0)]))
    assert "language-mismatch" in found
    assert "language-mismatch" not in codes(
        made(docs, ["what is the engine of the wing"], [(0, 0)])
    )


def test_capitals_change_no_lexical_search_and_give_no_warning() -> None:
    docs = ["The Wing lifts.", "An Engine pushes.", "Air flows."]
    found = [
        made(docs, [query], [(0, 0)]) for query in ("WHAT LIFTS THE WING", "what lifts the wing")
    ]
    assert codes(found[0]) == codes(found[1])
    shouted, quiet = (run_bench(one, ["bm25", "tfidf", "lsa:2"], measures="RR") for one in found)
    for loud, low in zip(shouted.systems, quiet.systems, strict=True):
        assert loud.scores.values.tolist() == low.scores.values.tolist()


def test_what_capitals_cost_a_model_is_measured() -> None:
    plain = small()
    loud = replace(plain, query_texts=[text.upper() for text in plain.query_texts])
    letters = "letters=py:tests.bench.samples:letters"  # which knows small ones only
    assert "capitals" not in codes(plain, [letters])
    result = run_bench(loud, ["bm25", letters])
    (found,) = (one for one in result.diagnosis.findings if one.code == "capitals")
    assert found.message.startswith("letters loses by capitals: 25 queries in lower case reach +")
    assert "Lower-case the queries" in found.effect
    low = run_bench(plain, [letters])["letters"].scores["nDCG@10"]
    small_letters, given = result["letters"].lower_cased
    assert small_letters.tolist() == low.tolist()
    assert given.tolist() == result["letters"].scores["nDCG@10"].tolist()
    assert result["bm25"].lower_cased is None
    deaf = "deaf=py:tests.bench.samples:lower_cased_letters"
    assert "capitals" not in codes(loud, [deaf])


def test_failures_and_disagreements_are_those_of_the_values() -> None:
    collection = small()
    models = ["bm25", "letters=py:tests.bench.samples:letters"]
    result = run_bench(collection, models)
    values = np.array([one.scores["nDCG@10"] for one in result.systems])
    ids = [str(id) for id in result["bm25"].scores.query_ids]
    assert failures(result) == [ids[i] for i in np.flatnonzero((values == 0).all(axis=0))]
    spread = np.abs(values[0] - values[1])
    found = disagreements(result)
    assert len(found) == (spread > 0).sum()
    assert found[0][1] == spread.max()
    assert [value for _, value in found] == sorted(spread[spread > 0], reverse=True)


def test_unjudged_share_is_that_of_the_lists() -> None:
    collection = small()
    result = run_bench(collection, ["bm25"])
    judged = {
        q: {collection.doc_ids[int(d)] for d in collection.qrels.docs[i : i + 1]}
        for i, q in enumerate(collection.query_ids)
    }
    rows = [result["bm25"].ranking.row(q)[:10] for q in collection.query_ids]
    share = np.mean(
        [
            sum(doc not in judged[q] for doc, _ in row) / 10
            for q, row in zip(collection.query_ids, rows, strict=True)
        ]
    )
    shown = result.diagnosis["unjudged"].message
    assert f"{100 * share:.0f} %" in shown


def test_what_a_mean_would_hide_stands_beside_it() -> None:
    result = run_bench(small(), ["bm25", "tfidf"], measures="nDCG@100, Success@40")
    wanted = (
        "all: nDCG@100: the cutoff exceeds the 40 documents of the collection",
        "all: always 1 in a complete ranking: Success@40 (chance 100 %)",
    )
    said = result.to_dict()["remarks"]
    assert [said.count(one) for one in wanted] == [1, 1]
    assert all(one in str(result) for one in wanted)
    assert all(list(result.report().remarks).count(one) == 1 for one in wanted)


def test_a_system_beats_chance_where_most_relevant_documents_are_absent() -> None:
    """Of 25 relevant documents a query has one is here: a random order finds that or nothing."""
    here = small(n_docs=40, n_queries=25)
    gone = [f"x{i:02}" for i in range(24)]
    doc_ids = Ids.of([*here.doc_ids, *gone], "doc")
    rows = np.repeat(np.arange(25), 25)
    docs = np.concatenate([[target, *range(40, 64)] for target in here.qrels.docs])
    qrels = Judgments.from_pairs(here.query_ids, doc_ids, rows, docs, np.ones(len(rows)))
    result = run_bench(replace(here, qrels=qrels), ["bm25"], measures=["R@20", "RR"])
    mean, best = result.chance.mean(), result.ceiling.mean()
    assert mean["R@20"] == pytest.approx(20 / 40 / 25)
    assert mean["RR"] == pytest.approx(sum(1 / r for r in range(1, 41)) / 40)
    assert best["R@20"] == pytest.approx(1 / 25)
    scores = result["bm25"].scores.mean()
    assert mean["R@20"] < scores["R@20"] <= best["R@20"]
    page = str(result.to_dict())
    assert "worse than a random order" not in page
