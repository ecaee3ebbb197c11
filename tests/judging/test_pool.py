"""Pools: probabilities, draws, extension, files."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from assay.errors import FormatError, MeasureError, MismatchError, UsageError, ValueRangeError
from assay.judging import make_pool, parse_linear, read_pool
from tests.judging.samples import make_runs


def brute_weights(runs, measure):
    """|weight| of each pair, by the formulas of the page, one pair at a time."""
    linear = parse_linear(measure)
    pairs = {}
    for column, run in enumerate(runs.values()):
        for query, docs in run.items():
            for rank, doc in enumerate(docs, 1):
                row = pairs.setdefault((query, doc), [0.0] * len(runs))
                row[column] = float(linear.weights(np.array([rank]))[0])
    return pairs


@pytest.mark.parametrize("measure", ["DCG@4", "P@3", "RBP(p=0.7)"])
def test_probabilities_are_proportional_to_the_root_of_summed_squares(measure):
    runs = make_runs()
    pool = make_pool(runs, 20, measure=measure)
    expected = {
        pair: np.sqrt(sum((a - b) ** 2 for a, b in combinations(row, 2)))
        for pair, row in brute_weights(runs, measure).items()
    }
    expected = {pair: weight for pair, weight in expected.items() if weight > 1e-12}
    chances = dict(zip(pool.names, pool.probabilities[:, -1], strict=True))
    assert chances.keys() == expected.keys()
    assert sum(chances.values()) == pytest.approx(20, abs=1e-6)
    below = [pair for pair, chance in chances.items() if chance < 1]
    ratios = [chances[pair] / expected[pair] for pair in below]
    assert np.ptp(ratios) < 1e-6 * max(ratios)


def test_the_aim_of_means_weighs_documents_on_which_all_agree():
    runs = {name: {"q": ["a", "b"]} for name in ("x", "y")}
    with pytest.raises(
        UsageError, match="The pool is empty: the systems agree on all counted documents"
    ):
        make_pool(runs, 5, measure="P@2")
    assert len(make_pool(runs, 5, measure="P@2", aim="means")) == 2


def test_the_share_of_draws_is_the_probability():
    runs = make_runs(2)
    drawn = [make_pool(runs, 15, seed=seed).stages > 0 for seed in range(250)]
    chances = make_pool(runs, 15).probabilities[:, -1]
    error = np.sqrt(chances * (1 - chances) / len(drawn)) + 1e-9
    assert (np.abs(np.mean(drawn, axis=0) - chances) < 4.5 * error).all()


def test_methods_depth_and_all():
    runs = make_runs(2)
    depth = make_pool(runs, method="depth", depth=2)
    assert set(depth.names) == {
        (query, doc) for run in runs.values() for query, docs in run.items() for doc in docs[:2]
    }
    assert depth.n_drawn == len(depth)
    every = make_pool(runs, method="all")
    assert set(every.names) == {
        (query, doc) for run in runs.values() for query, docs in run.items() for doc in docs
    }


def test_extension_keeps_what_was_drawn_and_takes_the_largest_probability():
    runs = make_runs(4)
    first = make_pool({name: runs[name] for name in ("s0", "s1")}, 15, seed=3)
    more = make_pool(runs, 25, extend=first)
    alone = make_pool(runs, 40, seed=3)
    before = dict(zip(first.names, first.probabilities[:, -1], strict=True))
    chances = dict(zip(more.names, more.probabilities[:, -1], strict=True))
    assert sum(chances.values()) == pytest.approx(sum(before.values()) + 25, abs=1e-6)
    assert all(chances[pair] >= before.get(pair, 0.0) for pair in chances)
    stage = dict(zip(more.names, more.stages.tolist(), strict=True))
    old = {pair for pair, s in zip(first.names, first.stages, strict=True) if s}
    assert {pair for pair, s in stage.items() if s == 1} == old
    # The random number of a pair is its own: the union of draws is a draw by the larger chance.
    numbers = dict(zip(alone.names, alone.stages.tolist(), strict=True))
    higher = dict(zip(alone.names, alone.probabilities[:, -1], strict=True))
    for pair, drawn in numbers.items():
        if drawn and higher[pair] <= chances[pair]:
            assert stage[pair]
    assert more.ancestors == (first.digest,)
    assert set(more.settings["systems"]) == set(runs)


def test_a_pool_is_the_same_whatever_the_order_of_queries():
    runs = make_runs(2)
    turned = {name: dict(reversed(run.items())) for name, run in runs.items()}
    drawn = [
        {pool.names[place] for place in pool.order}
        for pool in (make_pool(runs, 20), make_pool(turned, 20))
    ]
    assert drawn[0] == drawn[1]


def test_uncertainty_moves_labels_to_unsure_pairs():
    runs = make_runs(2)
    plain = make_pool(runs, 15)
    sure = {pair: (1.0 if pair[0] < "q5" else 0.1) for pair in plain.names}
    moved = make_pool(runs, 15, uncertainty=sure)
    for pair, before, after in zip(
        plain.names, plain.probabilities[:, -1], moved.probabilities[:, -1], strict=True
    ):
        assert (after > before) == (sure[pair] == 1.0) or before == after == 1
    with pytest.raises(ValueRangeError, match="Use 0 to 1"):
        make_pool(runs, 15, uncertainty={plain.names[0]: 1.5})


def test_files_hold_all_of_it(tmp_path: Path):
    runs = make_runs(3)
    pool = make_pool(runs, 10, extend=make_pool(runs, 15, seed=9))
    pool.write(tmp_path / "pool.tsv")
    again = read_pool(tmp_path / "pool.tsv")
    assert again.names == pool.names
    assert (again.probabilities == pool.probabilities).all()
    assert (again.stages == pool.stages).all()
    assert again.digest == pool.digest
    assert [again.names[p] for p in again.order] == [pool.names[p] for p in pool.order]


def test_an_edited_pool_is_noticed(tmp_path: Path):
    path = tmp_path / "pool.tsv"
    make_pool(make_runs(2), 10).write(path)
    lines = path.read_text().splitlines(keepends=True)
    for edited in (
        [lines[0].replace('"seed": 0', '"seed": 1'), *lines[1:]],
        lines[:-1],
        [*lines[:-1], lines[-1].replace("q", "x", 1)],
    ):
        path.write_text("".join(edited))
        with pytest.raises((MismatchError, FormatError)):
            read_pool(path)
    path.write_text("q1 0 d1 1\n")
    with pytest.raises(FormatError, match="not a pool"):
        read_pool(path)


def test_what_makes_no_sense_is_refused():
    runs = make_runs(2)
    with pytest.raises(MeasureError, match="nDCG@10 needs labels of all pairs"):
        make_pool(runs, measure="nDCG@10")
    with pytest.raises(UsageError, match="Differences need two"):
        make_pool({"a": runs["s0"]})
    with pytest.raises(UsageError, match="A pool by depth needs depth"):
        make_pool(runs, method="depth")
    with pytest.raises(UsageError, match=r"Invalid scale \[3, 1\]"):
        make_pool(runs, scale=[3, 1])
