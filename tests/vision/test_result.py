"""Ranks of true matches, their means under all names, and merging; against explicit sorts."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from assay.errors import InputError, MismatchError, UsageError
from assay.vision import (
    DescriptorResult,
    PatchScene,
    compare_descriptors,
    evaluate_patches,
    metadata_text,
    rank_pair,
    read_metadata,
    summarize,
    wide_row,
)
from assay.vision.ranks import hamming_target_ranks, largest_distance, pair_distances, row_distances
from assay.vision.report import category_table, leaders_of

from .samples import distances, random_pair, some_pairs, sorted_ap

TIES = ("order", "expected", "best", "worst", "midrank-up")


def _ranked(*ranks: int, scene: str, pair: str = "1-2", n_docs: int = 9) -> object:
    """A pair whose true matches have these ranks; 0 is none. Distances are |q − d| on a line."""
    queries = np.full((len(ranks), 1), 100.0)
    docs = 100.0 + np.arange(1, n_docs + 1)[:, None]
    truth = np.array(ranks) - 1
    return rank_pair(queries, docs, truth=truth, scene=scene, pair=pair)


def test_fixture_of_micro_and_macro_with_and_without_zeros() -> None:
    result = DescriptorResult.of("x", [_ranked(1, 3, scene="1"), _ranked(5, 0, scene="2")])
    row = wide_row(result)
    assert row["true_map_micro"] == pytest.approx(0.5111, abs=5e-5)
    assert row["true_map_micro_including_zeros"] == pytest.approx(0.3833, abs=5e-5)
    assert row["true_map_macro_by_scene"] == pytest.approx(0.4333, abs=5e-5)
    assert row["true_map_macro_by_scene_including_zeros"] == pytest.approx(0.3833, abs=5e-5)


@pytest.mark.parametrize(
    ("above", "tied", "midrank", "expected", "best", "worst"),
    [
        (0, 1, 0.5, 0.75, 1, 0.5),
        (0, 2, 0.5, 0.6111, 1, 0.3333),
        (0, 3, 0.3333, 0.5208, 1, 0.25),
        (4, 5, 0.125, 0.1409, 0.2, 0.1),
    ],
)
def test_table_of_ties(
    above: int, tied: int, midrank: float, expected: float, best: float, worst: float
) -> None:
    docs = np.array([[1.0]] * above + [[2.0]] * (tied + 1) + [[9.0]])
    pair = rank_pair([[0.5]], docs, truth=[above], scene="s", pair="1-2")
    found = {
        ties: DescriptorResult.of("x", [pair], conventions=_rules(ties)).mean()["AP"]
        for ties in ("midrank-up", "expected", "best", "worst")
    }
    wanted = {"midrank-up": midrank, "expected": expected, "best": best, "worst": worst}
    assert found == pytest.approx(wanted, abs=5e-5)


def _rules(ties: str) -> str:
    return f"preset:keypoints|ties:{ties}"


@pytest.mark.parametrize("metric", ["l2", "hamming"])
@pytest.mark.parametrize("ties", TIES)
def test_every_tie_mode_equals_an_explicit_sort(metric: str, ties: str) -> None:
    rng = np.random.default_rng(3)
    for _ in range(4):
        left, right, truth = random_pair(rng, metric)
        pair = rank_pair(left, right, truth=truth, scene="s", pair="1-2", metric=metric)
        result = DescriptorResult.of("x", [pair], conventions=_rules(ties))
        apart = distances(left, right)
        wanted = [sorted_ap(row, target, ties) for row, target in zip(apart, truth, strict=True)]
        by_id = dict(zip(result.scores.query_ids.to_list(), result.scores["AP"], strict=True))
        found = [by_id[f"s/1-2/{i}"] for i in range(len(left))]
        np.testing.assert_allclose(found, wanted, rtol=1e-12)


def test_cosine_equals_an_explicit_sort() -> None:
    rng = np.random.default_rng(4)
    left, right = (rng.normal(size=(n, 6)).astype(np.float32) for n in (20, 30))
    truth = rng.integers(0, 30, 20)
    pair = rank_pair(left, right, truth=truth, scene="s", pair="1-2", metric="cosine")
    wide = left.astype(np.float64), right.astype(np.float64)
    units = [rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in wide]
    order = np.argsort(-(units[0] @ units[1].T), axis=1)
    assert pair.above.tolist() == np.argmax(order == truth[:, None], axis=1).tolist()


def test_failed_descriptors_count_zero_and_are_not_without_truth() -> None:
    left = np.array([[1.0, 0], [0, 0], [0, 1], [1, 1]])
    right = np.array([[1.0, 0], [0, 1], [0, 0]])
    pair = rank_pair(left, right, truth=[0, 1, 2, -1], scene="s", pair="1-2")
    result = DescriptorResult.of("x", [pair])
    assert (result.n_queries, result.n_excluded, result.n_failed) == (4, 1, 2)
    assert pair.failed.tolist() == [False, True, True, False]
    assert result.mean()["AP"] == pytest.approx(1 / 3)
    assert result.mean(empty="zero")["AP"] == pytest.approx(1 / 4)
    assert wide_row(result)["total_queries_failed"] == 2
    assert result.scene_rows()[0]["failed"] == 2


def test_failed_targets_stand_behind_all_others() -> None:
    right = np.array([[0.0], [3.0], [2.5]])  # the zero row would be the nearest
    pair = rank_pair([[0.5]], right, truth=[1], scene="s", pair="1-2")
    assert pair.above.tolist() == [1]
    assert pair.n_docs == 3


@pytest.mark.parametrize("bits", [False, True])
def test_a_constant_descriptor_scores_chance_and_never_looks_good(bits: bool) -> None:
    kind = np.full((200, 4), 7, np.uint8) if bits else np.full((200, 4), 0.3, np.float32)
    truth = np.arange(200)
    pair = rank_pair(
        kind,
        kind,
        truth=truth,
        scene="s",
        pair="1-2",
        matching=True,
        metric="hamming" if bits else "l2",
    )
    result = DescriptorResult.of("x", [pair])
    assert result.mean()["AP"] == pytest.approx(result.chance()["AP"], rel=1e-9)
    assert result.mean()["Success@10"] == pytest.approx(10 / 200)
    assert result.matching is not None
    assert result.matching.mean()["AP"] < 0.01


def test_chance_follows_the_sizes_of_the_pools() -> None:
    pairs = [
        _ranked(1, 2, scene="a", n_docs=5),
        _ranked(1, scene="b", n_docs=50),
        _ranked(0, scene="c", n_docs=7),
    ]
    harmonic = [sum(1 / r for r in range(1, n + 1)) / n for n in (5, 5, 50)]
    assert DescriptorResult.of("x", pairs).chance()["AP"] == pytest.approx(np.mean(harmonic))
    assert DescriptorResult.of("x", pairs).ceiling()["AP"] == 1.0


def test_parts_merge_to_the_whole_exactly_in_any_order() -> None:
    pairs = some_pairs(5)
    whole = DescriptorResult.of("x", pairs)
    parts = [
        DescriptorResult.of("x", [p for p in pairs if p.scene == s]) for s in whole.scene_names
    ]
    for order in ([0, 1, 2], [2, 0, 1]):
        first, *rest = (parts[i] for i in order)
        merged = first.merge(*rest)
        assert merged.scores.values.tobytes() == whole.scores.values.tobytes()
        assert metadata_text(merged) == metadata_text(whole)
        assert merged.query_set == whole.query_set


def test_parts_that_overlap_or_differ_do_not_merge() -> None:
    one = DescriptorResult.of("x", some_pairs(5))
    with pytest.raises(MismatchError, match="The pair 1-2 of scene 'i_b' appears twice"):
        one.merge(one)
    with pytest.raises(MismatchError, match=r"different tau: 3.0 and 1.0"):
        one.merge(DescriptorResult.of("x", [], tau=1.0))


def test_a_scene_has_one_category() -> None:
    pairs = [
        rank_pair([[1.0]], [[1.0]], truth=[0], scene="s", pair=f"1-{k}", category=c)
        for k, c in ((2, "light"), (3, "view"))
    ]
    with pytest.raises(MismatchError, match=r"'light' and in 'view'"):
        DescriptorResult.of("x", pairs)


def test_category_columns_are_means_over_scenes() -> None:
    result = DescriptorResult.of("x", some_pairs(1, "abcd"))
    means = result.scene_means()
    light = [value for scene, value in means.items() if scene.startswith("i_")]
    row = wide_row(result)
    assert row["illumination_map"] == pytest.approx(np.mean(light))
    assert row["viewpoint_map"] == pytest.approx(means["v_a"])


def test_a_scene_without_any_truth_is_left_out_or_counts_zero() -> None:
    pairs = [_ranked(1, scene="a"), _ranked(0, 0, scene="b")]
    row = wide_row(DescriptorResult.of("x", pairs))
    assert row["true_map_macro_by_scene"] == 1.0
    assert row["true_map_macro_by_scene_including_zeros"] == 0.5


def test_legacy_precision_is_the_share_of_right_nearest_neighbours() -> None:
    pairs = [
        _ranked(1, 1, 2, 0, scene="a", pair="1-2"),
        _ranked(1, 0, scene="a", pair="1-3"),
        _ranked(1, scene="b", pair="1-2"),
    ]
    row = wide_row(DescriptorResult.of("x", pairs))
    assert row["mean_precision"] == pytest.approx((2 / 4 + 1 / 2 + 1) / 3)
    assert row["legacy_macro_precision_by_scene"] == pytest.approx((0.5 + 1) / 2)


def test_aliases_of_success() -> None:
    row = wide_row(DescriptorResult.of("x", [_ranked(1, 4, 9, 0, scene="a")]))
    for name in ("precision", "recall"):
        values = [row[f"{name}_at_{k}"] for k in (1, 5, 10)]
        assert values == pytest.approx([1 / 3, 2 / 3, 1])


def test_image_matching_is_the_ap_of_nearest_neighbours() -> None:
    left = np.array([[0.0], [10.0], [20.0], [30.0]]) + 1
    right = np.array([[0.1], [10.2], [20.3], [29.0]]) + 1
    pair = rank_pair(
        left, right, truth=[0, 2, 2, -1], scene="s", pair="1-2", matching=True
    )  # nearest: right, wrong, right, wrong, from near to far
    result = DescriptorResult.of("x", [pair])
    assert result.matching is not None
    assert result.matching["AP"].tolist() == pytest.approx([(1 / 1 + 2 / 3) / 3])


def test_rank_histogram_has_an_overflow_bin() -> None:
    result = DescriptorResult.of("x", [_ranked(1, 1, 7, 60, 101, 150, 0, scene="a", n_docs=200)])
    bins = {one.label: one.queries for one in result.rank_histogram()}
    assert bins["1"] == 2
    assert bins["6–10"] == bins["51–100"] == 1
    assert bins["beyond 100"] == 2
    assert sum(bins.values()) == 6


def test_metadata_reads_back_whatever_scenes_are_called() -> None:
    odd = "a=b;c %\n"
    result = DescriptorResult.of("x", [_ranked(1, 3, scene=odd), _ranked(2, scene="v_wall")])
    found = read_metadata(metadata_text(result))
    assert found[f"{odd}_true_map"] == pytest.approx(2 / 3)
    assert found["v_wall_true_map"] == 0.5
    assert found["total_queries_processed"] == 3
    assert "illumination_map" not in found


def test_metadata_of_the_document() -> None:
    text = """true_map_micro=0.3724;true_map_macro_by_scene=0.3703;precision_at_1=0.2833;
    total_queries_processed=215939;total_queries_excluded=21536;
    i_dome_true_map=0.3598;v_wall_true_map=0.4579;"""
    assert read_metadata(text)["total_queries_excluded"] == 21536
    with pytest.raises(InputError, match="metadata: 'true_map_micro' is not key=value"):
        read_metadata("true_map_micro")
    with pytest.raises(InputError, match="appears twice"):
        read_metadata("a=1;a=2")


def test_intervals_draw_scenes_not_keypoints() -> None:
    rng = np.random.default_rng(0)
    pairs = [_ranked(*rng.integers(1, 4, 40), scene=f"s{i:02}") for i in range(10)]
    lower = [_ranked(*rng.integers(5, 9, 40), scene=f"t{i:02}") for i in range(10)]
    [row] = summarize(DescriptorResult.of("x", [*pairs, *lower]), resamples=2000)
    assert (row.micro.method, row.micro.groups) == ("score", 20)
    # The spread between scenes is what counts: 800 independent keypoints would give ±.02.
    assert row.micro.half_width > 0.05
    assert row.macro.n == 20


def test_few_scenes_have_intervals_and_one_has_none() -> None:
    few = summarize(DescriptorResult.of("x", some_pairs(2)))[0]
    assert few.micro.method == "score"
    assert 0 <= few.micro.low < few.micro.high <= 1
    [alone] = summarize(DescriptorResult.of("x", [_ranked(1, 2, scene="a")]))
    assert math.isnan(alone.micro.low)
    assert "too few" in alone.micro.note


def test_comparison_keeps_scenes_together() -> None:
    rng = np.random.default_rng(2)
    clean, noisy = [], []
    for scene in map(str, range(9)):
        left = rng.normal(size=(30, 8))
        right = left + 0.3 * rng.normal(size=left.shape)
        for found, noise in ((clean, 0.0), (noisy, 1.5)):
            worse = right + noise * rng.normal(size=left.shape)
            found.append(rank_pair(left, worse, truth=np.arange(30), scene=scene, pair="1-2"))
    one, other = DescriptorResult.of("clean", clean), DescriptorResult.of("noisy", noisy)
    comparison = compare_descriptors([one, other])
    assert comparison.settings.by == "scene"
    assert comparison.pairs[0].winner == "clean"
    assert comparison.pairs[0].test.p == 2 / 2**9  # all signs of nine scenes, not of 270 keypoints


def test_a_forced_comparison_is_of_scene_means() -> None:
    rng = np.random.default_rng(1)
    ranks = {f"s{i}": rng.integers(1, 5, 30) for i in range(9)}
    good = DescriptorResult.of("good", [_ranked(*r, scene=s) for s, r in ranks.items()])
    bad = DescriptorResult.of("bad", [_ranked(*(r + 2), scene=s) for s, r in ranks.items()])
    found = compare_descriptors([good, bad], force=True)
    assert found.pairs[0].winner == "good"
    assert found.pairs[0].effect.n == 9


def test_bold_are_all_that_a_test_does_not_show_to_be_worse() -> None:
    rng = np.random.default_rng(1)
    ranks = [rng.integers(1, 5, 30) for _ in range(9)]
    moves = {"good": [0] * 9, "like": [1, 0] * 4 + [0], "bad": [4] * 9}
    results = {}
    for name, moved in moves.items():
        pairs = zip(ranks, moved, "abcdefghi", strict=True)
        results[name] = DescriptorResult.of(
            name, [_ranked(*(rank + by), scene=scene) for rank, by, scene in pairs]
        )
    leaders = leaders_of(compare_descriptors([results["good"], results["bad"]], force=True))
    assert leaders == {"good"}
    assert leaders_of(None) == frozenset()
    like = leaders_of(compare_descriptors([results["good"], results["like"]], force=True))
    assert like == {"good", "like"}
    rows = [row for result in results.values() for row in summarize(result, resamples=500)]
    assert [row[6].best for row in category_table(rows).rows] == [True, False, False]
    assert [row[6].best for row in category_table(rows, like).rows] == [True, True, False]


def test_results_of_other_queries_are_not_compared_unless_forced() -> None:
    one = DescriptorResult.of("one", [_ranked(1, 2, scene=s) for s in "abc"])
    more = DescriptorResult.of("more", [_ranked(1, 2, scene=s, n_docs=90) for s in "abc"])
    with pytest.raises(
        MismatchError, match="have different queries: 'one' has 6 keypoints with a true match"
    ):
        compare_descriptors([one, more])
    assert compare_descriptors([one, more], force=True).pairs[0].effect.n == 3
    with pytest.raises(UsageError, match="A comparison needs two results"):
        compare_descriptors([one])


def test_inputs_stay_as_they_are() -> None:
    left, right, truth = random_pair(np.random.default_rng(0), "l2")
    before = [part.copy() for part in (left, right, truth)]
    rank_pair(left, right, truth=truth, scene="s", pair="1-2", matching=True)
    for part, old in zip((left, right, truth), before, strict=True):
        np.testing.assert_array_equal(part, old)


def test_records_carry_the_queries_and_the_clusters() -> None:
    result = DescriptorResult.of("mine", some_pairs())
    (one,) = result.records(config={"experiment": "x"})
    assert (one.name, one.model, one.task, one.clusters) == ("mine", "mine", "descriptors", "scene")
    assert one.query_set == result.query_set
    assert one.config["experiment"] == "x"
    assert one.chance == result.chance()


def test_patches_give_a_record_with_their_error_rates() -> None:
    rows = np.eye(3, dtype=np.float32)
    scenes = [PatchScene(name, "viewpoint", {"ref": rows, "e1": rows}) for name in ("v_a", "v_b")]
    found = evaluate_patches(scenes, name="eye")
    (one,) = found.records()
    assert (one.name, one.details) == (
        "eye",
        {"fpr95": found.fpr95, "by_difficulty": found.by_difficulty},
    )
    assert found.to_dict()["fpr95"] == found.fpr95


@pytest.mark.parametrize("metric", ["l2", "cosine", "hamming"])
def test_the_nearest_is_what_a_search_of_its_own_finds(metric: str) -> None:
    """Where no keypoint is nearer than the true match, it is not searched for again."""
    rng = np.random.default_rng(6)
    firsts = 0
    for _ in range(10):
        left, right, truth = random_pair(rng, "hamming" if metric == "hamming" else "l2")
        copied = np.flatnonzero((truth >= 0) & (rng.random(len(truth)) < 0.5))
        right[truth[copied]] = left[copied]
        lost, gone = rng.random(len(left)) < 0.1, rng.random(len(right)) < 0.1
        if metric != "hamming":
            lost, gone = lost | ~left.any(axis=1), gone | ~right.any(axis=1)
        known: dict[str, Any] = {"scene": "s", "pair": "1-2", "metric": metric, "matching": True}
        known |= {"failed_queries": lost, "failed_targets": gone}
        found = rank_pair(left, right, truth=truth, **known)
        alone = rank_pair(left, right, truth=np.full(len(left), -1), **known)
        assert found.nearest.tobytes() == alone.nearest.tobytes()
        for target in range(len(right)):
            asked = rank_pair(left, right, truth=np.full(len(left), target), **known)
            rows = truth == target
            np.testing.assert_array_equal(found.right[rows], asked.right[rows])
        firsts += int((found.above == 0).sum())
        np.testing.assert_array_equal(found.right, (found.above == 0) & (found.before == 0))
    assert firsts > 15


@pytest.mark.parametrize("block", [1, 100, 1 << 22])
def test_hamming_ranks_do_not_depend_on_blocks(monkeypatch: pytest.MonkeyPatch, block: int) -> None:
    monkeypatch.setattr("assay.vision.ranks.BLOCK", block)
    rng = np.random.default_rng(2)
    left, right = (rng.integers(0, 4, (n, 2)).astype(np.uint8) for n in (17, 23))
    target = rng.integers(0, 23, 17)
    found = hamming_target_ranks(left, right, target)
    for row, place in enumerate(target):
        apart = np.unpackbits(left[row] ^ right, axis=1).sum(axis=1)
        same = apart == apart[place]
        assert found.above[row] == (apart < apart[place]).sum()
        assert found.tied[row] == same.sum() - 1
        assert found.before[row] == same[:place].sum()
    assert found.before.max() > 0


@pytest.mark.parametrize("metric", ["l2", "cosine", "hamming"])
@pytest.mark.parametrize("count", [1, 63, 64, 65, 130, 700])
def test_distances_of_rows_are_those_of_the_table(metric: str, count: int) -> None:
    rng = np.random.default_rng(count)
    left, right = (rng.standard_normal((count, 61)).astype(np.float32) for _ in range(2))
    if metric == "hamming":
        left, right = (rng.integers(0, 256, (count, 9)).astype(np.uint8) for _ in range(2))
    scale = largest_distance(left, right, metric=metric)
    table = pair_distances(left, right, metric, scale)
    assert row_distances(left, right, metric, scale).tobytes() == np.diagonal(table).tobytes()
