"""The same ranking from every source: the same number, and the same words about it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas
import polars
import pytest

import assay
from assay.core.conventions import PRESETS, preset
from assay.core.ranking import Ranking
from assay.io.formats import read_run
from assay.io.writers import write_qrels, write_run

ENDINGS = ("txt", "csv", "tsv", "json", "jsonl", "parquet", "npz", "trec.gz")
MEASURES = ["RR", "AP", "nDCG@10", "P@3"]
N_DOCS = 120


@pytest.fixture(scope="module")
def scores():
    """Few distinct scores, so that ties decide nearly everything."""
    return np.random.default_rng(5).integers(0, 3, (15, N_DOCS)).astype(np.float64)


@pytest.fixture(scope="module")
def qrels():
    rng = np.random.default_rng(6)
    return {q: {int(d): 1 for d in rng.choice(N_DOCS, 4, False)} for q in range(15)}


def as_text(data):
    return {str(q): {str(d): value for d, value in row.items()} for q, row in data.items()}


def of(scores):
    """The numbers of each query by its text, and the signature without how it was found."""
    by_query = {str(q): scores.values[:, row].tolist() for row, q in enumerate(scores.query_ids)}
    return by_query, replace(scores, search="", settings=_without_search(scores)).signature


def _without_search(scores):
    return {key: value for key, value in scores.settings.items() if key == "docs"}


def by_hand(row, judged, descending):
    """RR by definition, ties by the bytes of the text."""
    order = sorted(row, key=lambda d: str(d).encode(), reverse=descending)
    ranked = sorted(order, key=lambda d: -row[d])
    return max((1 / rank for rank, d in enumerate(ranked, 1) if d in judged), default=0.0)


def test_three_documents_from_every_source(tmp_path):
    run, judged = {"q": {1: 1.0, 10: 1.0, 2: 1.0}}, {"q": {10: 1}}
    named = assay.evaluate(as_text(run), as_text(judged), "RR")
    assert named["RR"].tolist() == [0.5]  # 2, 10, 1
    frame = {"query": ["q"] * 3, "doc": [1, 10, 2], "score": [1.0] * 3}
    sources = [run, pandas.DataFrame(frame), polars.DataFrame(frame)]
    sources += [[("q", d, 1.0) for d in (2, 1, 10)]]
    sources += [Ranking.from_scores([[1.0, 1.0, 1.0]], query_ids=["q"], doc_ids=[1, 10, 2])]
    for source in sources:
        assert of(assay.evaluate(source, judged, "RR")) == of(named)
    for ending in ENDINGS:
        write_run(sources[-1], tmp_path / f"run.{ending}")
        kind = read_run(tmp_path / f"run.{ending}").doc_ids.kind
        truth = as_text(judged) if kind == "text" else judged
        assert of(assay.evaluate(tmp_path / f"run.{ending}", truth, "RR")) == of(named)


@pytest.mark.parametrize("name", sorted(PRESETS))
@pytest.mark.parametrize("source", ["matrix", "search", "lines"])
def test_written_and_read_in_every_format(tmp_path, scores, qrels, name, source):
    queries, docs = list(range(15)), list(range(N_DOCS))
    if source == "matrix":
        ranking = Ranking.from_scores(scores, query_ids=queries, doc_ids=docs)
    elif source == "search":
        ranking = assay.rank(
            scores,
            np.eye(N_DOCS),
            50,
            metric="dot",
            query_ids=queries,
            doc_ids=docs,
            keep_ties=True,
        )
    else:
        rng = np.random.default_rng(1)
        run = {q: {int(d): scores[q, d] for d in rng.permutation(N_DOCS)} for q in queries}
        ranking = assay.io.formats.as_ranking(run, preset(name))
    rules = preset(name).replace(missing="zero", self_match="keep")
    expected = of(assay.evaluate(ranking, qrels, MEASURES, conventions=rules))
    for ending in ENDINGS:
        write_run(ranking, tmp_path / f"run.{ending}")
        again = read_run(tmp_path / f"run.{ending}", conventions=rules)
        truth = as_text(qrels) if again.doc_ids.kind == "text" else qrels
        assert of(assay.evaluate(again, truth, MEASURES, conventions=rules)) == expected, ending


@pytest.mark.parametrize("tiebreak", ["id-descending", "id-ascending"])
def test_ties_go_by_text_as_by_definition(scores, qrels, tiebreak):
    rules = preset("trec_eval").replace(tiebreak=tiebreak)
    run = {q: dict(enumerate(row.tolist())) for q, row in enumerate(scores)}
    expected = {str(q): [by_hand(run[q], qrels[q], tiebreak == "id-descending")] for q in run}
    for data, truth in ((run, qrels), (as_text(run), as_text(qrels))):
        assert of(assay.evaluate(data, truth, "RR", conventions=rules))[0] == expected


def test_rows_without_ids_break_ties_by_number_and_the_signature_says_so(tmp_path, scores, qrels):
    numbered = Ranking.from_scores(scores)
    named = Ranking.from_scores(scores, doc_ids=list(range(N_DOCS)))
    values, words = of(assay.evaluate(numbered, qrels, MEASURES))
    others, other_words = of(assay.evaluate(named, qrels, MEASURES))
    assert values != others
    assert "|docs:numbered" in words
    assert "docs:" not in other_words
    assert assay.Conventions.parse(words) == preset("trec_eval")
    write_run(numbered, tmp_path / "run.npz")
    assert of(assay.evaluate(tmp_path / "run.npz", qrels, MEASURES)) == (values, words)
    write_run(numbered, tmp_path / "run.parquet")
    assert of(assay.evaluate(tmp_path / "run.parquet", qrels, MEASURES)) == (others, other_words)


def test_under_index_numbers_and_ids_are_one(scores, qrels):
    numbered = Ranking.from_scores(scores)
    named = Ranking.from_scores(scores, doc_ids=list(range(N_DOCS)))
    found = [assay.evaluate(one, qrels, MEASURES, conventions="ranx") for one in (numbered, named)]
    assert of(found[0]) == of(found[1])


def test_order_of_lines_matters_only_under_index(tmp_path, scores, qrels):
    lines = [f"{q} Q0 {d} 1 {s} t\n" for q, row in enumerate(scores) for d, s in enumerate(row)]
    write_qrels(assay.io.formats.as_judgments(as_text(qrels)), tmp_path / "qrels.txt")
    found = []
    for seed in range(3):
        np.random.default_rng(seed).shuffle(lines)
        (tmp_path / "run.txt").write_text("".join(lines))
        found.append(of(assay.evaluate(tmp_path / "run.txt", tmp_path / "qrels.txt", MEASURES)))
    assert found[0] == found[1] == found[2]


def test_ranks_of_targets_have_no_ids_to_break_ties_by(scores):
    """`target_ranks` puts the lower number first, whatever the conventions say of ids."""
    targets = np.arange(15)
    ranks = assay.target_ranks(scores, np.eye(N_DOCS), targets, metric="dot")
    ranking = assay.rank(scores, np.eye(N_DOCS), N_DOCS, metric="dot")
    truth = assay.Judgments.from_targets(targets, n_docs=N_DOCS)
    whole = assay.evaluate(ranking, truth, "RR", conventions="label_retrieval")
    for rules in (None, "trec_eval", "label_retrieval"):
        found = assay.score(ranks.hits(), "RR", conventions=rules)
        assert found["RR"].tolist() == whole["RR"].tolist()
        assert "|tiebreak:index|" in found.signature
