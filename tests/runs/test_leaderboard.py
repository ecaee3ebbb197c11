"""Leaderboard: records compared as `assay.compare` does; one record stands alone."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from assay import Ids, Scores, compare, parse_many, preset
from assay.core.text import Remark
from assay.errors import UsageError
from assay.runs import RunRecord, rank_records
from assay.runs.run_files import score_run_files

N = 40


def make_record(name: str, skill: float, seed: int = 0, **fields: object) -> RunRecord:
    rng = np.random.default_rng(seed)
    values = np.clip(rng.normal(0.4, 0.1, (2, N)) + skill, 0, 1)
    scores = Scores(
        parse_many(["AP", "RR"]),
        Ids.of([f"q{i:02}" for i in range(N)], "query"),
        values,
        tied=np.zeros((2, N), bool),
        missing=np.zeros(N, bool),
        conventions=preset("trec_eval"),
        groups={"scene": np.asarray([f"s{i % 5}" for i in range(N)], np.str_)},
    )
    return RunRecord(name, scores, **fields)  # type: ignore[arg-type]


def test_it_says_what_compare_says() -> None:
    records = [make_record("a", 0.2, 1), make_record("b", 0.0, 2)]
    board = rank_records(records, resamples=300, seed=3)
    expected = compare(
        records[0].scored(), records[1].scored(), names=["a", "b"], resamples=300, seed=3
    )
    assert board.comparison is not None
    assert board.comparison.to_dict() == expected.to_dict()
    assert board.verdicts == expected.verdicts
    assert (board.names, list(map(str, board.measures))) == (("a", "b"), ["AP", "RR"])
    assert board.group_columns == ("scene",)


def test_one_record_stands_alone() -> None:
    board = rank_records([make_record("a", 0.1, chance={"AP": 0.01})], resamples=300)
    (standing,) = board.standings_on("AP")
    assert board.comparison is None
    assert standing.mean.estimate == pytest.approx(board.runs[0].means["AP"])
    assert standing.mean.low < standing.mean.estimate < standing.mean.high
    assert board.verdicts["AP"].startswith("a scores 0.")
    assert board.verdicts["AP"].endswith("a random order reaches 0.0100")
    assert math.isnan(board.chance_on("RR"))
    assert board.method == "Intervals: 95 % score-test."
    drawn = rank_records([make_record("a", 0.1)], resamples=300, interval="bca")
    assert drawn.method == "Intervals: 95 % BCa, 300 resamples, seed 0."


def test_the_verdict_names_whom_a_random_order_beats() -> None:
    chance = {"AP": 0.45, "RR": 0.0}
    records = [make_record(name, skill, chance=chance) for name, skill in (("a", 0.2), ("b", 0.0))]
    board = rank_records(records, resamples=300)
    means = {one.name: one.mean.estimate for one in board.standings_on("AP")}
    assert means["b"] < 0.45 < means["a"]
    tail = "; b is worse than a random order, which reaches 0.4500"
    assert board.verdicts["AP"].headline.endswith(tail)
    assert board.verdicts["AP"].numbers.startswith("Lead ")
    assert "random order" not in board.verdicts["RR"]
    both = [replace(one, chance={"AP": 0.99}) for one in records]
    said = rank_records(both, resamples=300).verdicts["AP"]
    assert said.headline.endswith("; a and b are worse than a random order, which reaches 0.9900")
    sure = [replace(one, chance={"AP": 1.0}) for one in records]
    assert "random order" not in rank_records(sure, resamples=300).verdicts["AP"]


def test_clusters_of_the_records_are_resampled_as_whole_groups() -> None:
    records = [make_record(name, skill, clusters="scene") for name, skill in (("a", 0.1), ("b", 0))]
    board = rank_records(records, resamples=300)
    assert board.settings.by == "scene"
    means = [one.mean for one in board.standings_on("AP")]
    assert {(mean.method, mean.groups) for mean in means} == {("score", 5.0)}
    other = rank_records([one.replace(clusters="") for one in records], resamples=300)
    assert other.settings.by is None
    assert {one.mean.groups for one in other.standings_on("AP")} == {None}


def test_remarks_warn_of_other_datasets_and_query_sets() -> None:
    records = [
        make_record("a", 0.1, dataset="x", config={"query_set": "1"}),
        make_record("b", 0.0, dataset="y", config={"query_set": "2"}),
    ]
    remarks = " ".join(rank_records(records, resamples=300).remarks)
    assert "2 datasets (x, y)" in remarks
    assert "different query sets" in remarks


def test_a_remark_on_all_runs_stands_once() -> None:
    about = Remark("judgments read from 'a' and 'b'", n=0)
    records = [make_record("a", 0.1), make_record("b", 0.0)]
    records = [
        one.replace(scores=replace(one.scored(), remarks=(about,), settings={})) for one in records
    ]
    told = [words for words in rank_records(records, resamples=300).remarks if "judgments" in words]
    assert told == [f"all: {about}"]
    assert told[0].n == 0  # information, which gets no warning sign


def test_nothing_to_compare_is_refused() -> None:
    with pytest.raises(UsageError, match="at least one run"):
        rank_records([])
    with pytest.raises(UsageError, match="A baseline needs two runs, found one \\('b'\\)"):
        rank_records([make_record("a", 0.1)], baseline="b")
    with pytest.raises(UsageError, match="has no per-query values"):
        rank_records([RunRecord("a")])


def test_an_index_among_models_is_named() -> None:
    records = [make_record("m", 0.1), make_record("other", 0.0, 1)]
    plain = rank_records(records, resamples=200)
    behind = make_record("m @ usearch", 0.1, config={"variant_of": "m"})
    mixed = rank_records([*records, behind], resamples=200)
    assert any("variants of a model are compared with all others" in one for one in mixed.remarks)
    assert not any("variants of a model" in one for one in plain.remarks)


def test_slices_need_two_runs() -> None:
    with pytest.raises(UsageError, match="two or more"):
        rank_records([make_record("only", 0.1)], slices="scene")
    found = rank_records([make_record("a", 0.1), make_record("b", 0.0, 1)], slices="scene")
    assert found.comparison is not None
    assert found.comparison.slices is not None
    assert found.comparison.slices.names == ("s0", "s1", "s2", "s3", "s4")


def test_a_measure_that_no_order_changes_never_heads_the_verdict(tmp_path):
    documents = [f"d{n}" for n in range(12)]
    qrels = tmp_path / "qrels.txt"
    qrels.write_text("".join(f"q{q} 0 d{q} 1\nq{q} 0 d{q + 1} 0\n" for q in range(8)))
    for name, shift in (("first", 0), ("second", 3)):
        lines = [
            f"q{q} Q0 {doc} 0 {(number - q + shift) % 12} {name}\n"
            for q in range(8)
            for number, doc in enumerate(documents)
        ]
        (tmp_path / f"{name}.run").write_text("".join(lines))
    paths = [str(tmp_path / f"{name}.run") for name in ("first", "second")]
    records = score_run_files(paths, str(qrels), ["R@100", "P@20", "nDCG@10", "AP"], n_docs=12)
    board = rank_records(records, resamples=200)
    assert [str(m) for m in board.measures] == ["nDCG@10", "AP", "R@100", "P@20"]
    assert next(iter(board.verdicts)) == "nDCG@10"
    assert board.comparison is not None
    assert board.comparison.verdict.splitlines()[0].count("nDCG@10")
    idle = score_run_files(paths, str(qrels), ["R@100", "P@20"], n_docs=12)
    assert [str(m) for m in rank_records(idle, resamples=200).measures] == ["R@100", "P@20"]
    unknown = score_run_files(paths, str(qrels), ["R@100", "AP"])
    assert str(rank_records(unknown, resamples=200).measures[0]) == "R@100"
