"""Image–text retrieval and zero-shot classification against plain loops, on scores full of ties."""

from __future__ import annotations

import math
from itertools import permutations

import numpy as np
import pytest

from assay.crossmodal import (
    Prototypes,
    SampleRows,
    label_retrieval,
    paired_retrieval,
    zero_shot_classification,
)
from assay.crossmodal.results import FirstRanks
from assay.errors import MismatchError, ShapeError, UsageError
from assay.integrations.assertions import assert_not_worse
from assay.tables.table import as_latex
from tests.crossmodal.brute import ranked


def coarse(rng, rows, columns=3):
    """Vectors of few distinct values, so that dot products tie often."""
    return rng.integers(1, 4, size=(rows, columns)).astype(np.float32)


def lists(queries, docs):
    """Item numbers in the order of the dot product, ties by number, of each query."""
    scores = np.asarray(queries, np.float64) @ np.asarray(docs, np.float64).T
    return [ranked(row.tolist(), None) for row in scores]


def first_ranks(found, query_pairs, doc_pairs):
    return [
        1 + next(place for place, doc in enumerate(row) if doc_pairs[doc] == pair)
        for row, pair in zip(found, query_pairs, strict=True)
    ]


def recalls(ranks):
    return [100 * np.mean([rank <= k for rank in ranks]) for k in (1, 5, 10)]


@pytest.mark.parametrize("seed", range(6))
def test_both_directions_agree_with_a_plain_loop(seed):
    rng = np.random.default_rng(seed)
    images, texts = coarse(rng, 20), coarse(rng, 100)
    found = paired_retrieval({"image": images, "text": texts}, metric="dot", protocol="flickr30k")
    pairs = np.arange(20), np.arange(100) // 5
    i2t = first_ranks(lists(images, texts), *pairs)
    t2i = first_ranks(lists(texts, images), *reversed(pairs))
    for name, ranks in (("image2text", i2t), ("text2image", t2i)):
        one = found.direction(name)
        assert [100 * one.scores.mean()[f"Success@{k}"] for k in (1, 5, 10)] == pytest.approx(
            recalls(ranks)
        )
        median, mean = one.rank_numbers
        assert median.value == math.floor(np.median(ranks))
        assert mean.value == pytest.approx(np.mean(ranks))
        assert one.scores.tied.any()
    assert found.rsum().value == pytest.approx(sum(recalls(i2t) + recalls(t2i)))


@pytest.mark.parametrize("seed", range(3))
def test_folds_are_galleries_of_consecutive_images(seed):
    rng = np.random.default_rng(seed)
    images, texts = coarse(rng, 20), coarse(rng, 100)
    found = paired_retrieval({"image": images, "text": texts}, metric="dot", protocol="coco-1k")
    parts = []
    for fold in range(5):
        own, captions = images[4 * fold : 4 * fold + 4], texts[20 * fold : 20 * fold + 20]
        pairs = np.arange(4), np.arange(20) // 5
        ways = [
            first_ranks(lists(own, captions), *pairs),
            first_ranks(lists(captions, own), *reversed(pairs)),
        ]
        parts.append([[*recalls(way), math.floor(np.median(way)), np.mean(way)] for way in ways])
    mean = np.mean(parts, axis=0)
    for row, name in zip(mean, ("image2text", "text2image"), strict=True):
        one = found.direction(name)
        values = [100 * one.scores.mean()[f"Success@{k}"] for k in (1, 5, 10)]
        assert [*values, *(number.value for number in one.rank_numbers)] == pytest.approx(row)
    assert found.rsum().value == pytest.approx(mean[:, :3].sum())
    assert "coco-1k has 5000 images, this data 20: not comparable" in next(iter(found.remarks))


@pytest.mark.parametrize("ties", ["best", "worst", "expected"])
def test_first_rank_among_ties_is_that_of_all_orders(ties):
    images = np.array([[1.0], [1.0], [1.0], [2.0]])
    texts = np.array([[1.0], [1.0]])
    found = paired_retrieval(
        {"image": images, "text": texts},
        modality_labels={"image": ["a", "a", "b", "c"], "text": ["a", "b"]},
        metric="dot",
        ties=ties,
    )
    firsts = [
        [1 + min(order.index(image) for image in own) for order in permutations((1, 2, 3))]
        for own in ((1, 2), (3,))
    ]
    work = {"best": min, "worst": max, "expected": np.mean}[ties]
    expected = [1 + work(first) for first in firsts]  # the image that scores 2 stands before
    one = found.direction("text2image")
    assert one.ranks[0].values.tolist() == pytest.approx(expected)


@pytest.mark.parametrize(("n", "relevant"), [(5, 1), (6, 2), (7, 3), (4, 4)])
def test_chance_of_first_ranks_is_that_of_all_orders(n, relevant):
    firsts = [min(order[:relevant]) for order in permutations(range(1, n + 1))]
    one = FirstRanks(None, np.ones(1), np.array([relevant]), np.array([n]))
    assert one.chance_mean() == pytest.approx(np.mean(firsts))
    half = next(m for m in range(1, n + 1) if np.mean([first <= m for first in firsts]) >= 0.5)
    assert one.chance_median() == half


def test_a_positive_that_no_list_holds_stands_at_the_end():
    images = np.array([[1.0, 0.0], [0.0, 0.0], [0.0, 1.0]])  # the second has no direction
    texts = np.array([[1.0, 0.0], [1.0, 1.0], [0.0, 1.0]])
    found = paired_retrieval({"image": images, "text": texts}, zero="drop")
    assert found.direction("text2image").ranks[0].values.tolist() == [1, 3, 1]
    assert found.direction("image2text").ranks[0].values.tolist() == [1, 3, 1]
    assert any("zero" in words for words in found.remarks)


def test_pairs_by_id_need_no_order():
    rng = np.random.default_rng(1)
    images, texts = rng.normal(size=(12, 4)), rng.normal(size=(36, 4))
    order = rng.permutation(36)
    plain = paired_retrieval({"image": images, "text": texts})
    named = paired_retrieval(
        {"image": images, "text": texts[order]},
        modality_labels={"image": np.arange(12), "text": (np.arange(36) // 3)[order]},
    )
    assert named.rsum().value == pytest.approx(plain.rsum().value)


def test_images_repeated_for_each_caption_count_once():
    rng = np.random.default_rng(2)
    images, texts = rng.normal(size=(8, 4)), rng.normal(size=(40, 4))
    once = paired_retrieval({"image": images, "text": texts}, protocol="flickr30k")
    repeated = paired_retrieval(
        {"image": np.repeat(images, 5, axis=0), "text": texts}, protocol="flickr30k"
    )
    assert repeated.table() == once.table()
    with pytest.raises(ShapeError, match="coco-5k: 5 rows of 'text' per row of 'image' expected"):
        paired_retrieval({"image": rng.normal(size=(40, 4)), "text": texts}, protocol="coco-5k")


def test_qrels_add_positives_for_the_queries_they_judge():
    rng = np.random.default_rng(3)
    images, texts = coarse(rng, 15), coarse(rng, 30)
    judged = {"4": {"2": 1, "9": 1, "11": 0}, "20": {"10": 2}, "7": {"3": 1, "0": 1, "14": 1}}
    found = paired_retrieval(
        {"image": images, "text": texts},
        qrels={"text2image": judged},
        measures=["MAP@R", "R@5"],
        metric="dot",
    )
    one = found.direction("text2image", "qrels")
    assert one.scores.query_ids.to_list() == [4, 7, 20]
    whole = lists(texts, images)
    for place, query in enumerate((4, 7, 20)):
        good = {int(doc) for doc, grade in judged[str(query)].items() if grade}
        hits = [doc in good for doc in whole[query]]
        assert one.ranks[0].values[place] == 1 + hits.index(True)
        assert one.scores["Success@1"][place] == hits[0]
        assert one.scores["R@5"][place] == pytest.approx(sum(hits[:5]) / len(good))
        r = len(good)
        precision = [hits[i] * sum(hits[: i + 1]) / (i + 1) for i in range(r)]
        assert one.scores["MAP@R"][place] == pytest.approx(sum(precision) / r)
    assert found.paper_table().rows[1][1].value is None  # image2text is not judged
    with pytest.raises(MismatchError, match="'99' is not in 'image'"):
        paired_retrieval({"image": images, "text": texts}, qrels={"text2image": {"4": {"99": 1}}})
    with pytest.raises(UsageError, match="qrels name 'text2audio', not a direction"):
        paired_retrieval({"image": images, "text": texts}, qrels={"text2audio": judged})


def test_qrels_name_samples_by_their_ids():
    images = SampleRows(np.eye(3), ["x", "y", "z"])
    texts = SampleRows(np.eye(3)[[1, 2, 0]], ["c", "a", "b"])
    labels = {"image": ["p", "q", "r"], "text": ["p", "q", "r"]}
    found = label_retrieval(
        {"image": images, "text": texts},
        modality_labels={
            "image": SampleRows(labels["image"], images.ids),
            "text": SampleRows(labels["text"], texts.ids),
        },
        qrels={"text2image": {"c": {"y": 1}, "b": {"z": 1}}},
        measures=["RR"],
        k_values=(),
        directions=["text2image"],
    )
    values = dict(
        zip(
            found["qrels"]["text2image"].scores.query_ids.to_list(),
            found["qrels"]["text2image"].scores["RR"],
            strict=True,
        )
    )
    assert values == {"b": pytest.approx(1 / 3), "c": 1.0}


def test_rows_of_papers_and_records():
    rng = np.random.default_rng(4)
    images = rng.normal(size=(30, 4))
    texts = np.repeat(images, 5, axis=0) + rng.normal(size=(150, 4))
    found = paired_retrieval({"image": images, "text": texts}, protocol="flickr30k")
    latex = as_latex(found.paper_table())
    assert "image2text R@1 & R@5 & R@10 & MedR & MeanR & text2image R@1" in latex
    r1 = 100 * found.means("image2text")["Success@1"]
    assert latex.splitlines()[4].startswith(f"pair & {r1:.1f} & ")
    first, second = found.records()
    assert (first.clusters, second.clusters) == ("", "label")
    assert [one.measure for one in second.aggregates] == ["MedR", "MeanR", "rSum"]
    for number in second.aggregates:
        assert number.low <= number.value <= number.high
    assert second.chance["Success@5"] == pytest.approx(5 / 30)


def test_an_interval_of_captions_is_that_of_their_images():
    rng = np.random.default_rng(5)
    images = rng.normal(size=(40, 6))
    texts = np.repeat(images + 2 * rng.normal(size=images.shape), 5, axis=0)  # five times the same
    found = paired_retrieval({"image": images, "text": texts}, protocol="flickr30k")
    clustered = next(n for n in found.direction("text2image").numbers if n.measure == "Success@1")
    alone = paired_retrieval({"image": images, "text": texts[::5]})
    single = next(n for n in alone.direction("text2image").numbers if n.measure == "Success@1")
    assert clustered.value == single.value
    assert clustered.high - clustered.low > 0.8 * (single.high - single.low)


def test_senseless_pairs():
    rng = np.random.default_rng(0)
    images, texts = rng.normal(size=(6, 3)), rng.normal(size=(12, 3))
    with pytest.raises(UsageError, match="Did you mean flickr30k"):
        paired_retrieval({"image": images, "text": texts}, protocol="flickr30")
    with pytest.raises(UsageError, match="two modalities"):
        paired_retrieval({"image": images})
    with pytest.raises(UsageError, match="qrels judge the whole gallery and exclude folds"):
        paired_retrieval({"image": images, "text": texts}, folds=2, qrels={"image2text": {}})
    with pytest.raises(ShapeError, match="6 pairs do not split into 4 equal folds"):
        paired_retrieval({"image": images, "text": texts}, folds=4)
    with pytest.raises(UsageError, match="'text' has no labels"):
        paired_retrieval({"image": images, "text": texts}, modality_labels={"image": range(6)})
    both = {"image": range(6), "text": {"a": range(12), "b": range(12)}}
    with pytest.raises(UsageError, match="Pairs of 'text' need one level of labels"):
        paired_retrieval({"image": images, "text": texts}, modality_labels=both)
    with pytest.raises(UsageError, match="rSum needs both"):
        paired_retrieval(
            {"image": images, "text": texts}, qrels={"image2text": {"0": {"1": 1}}}
        ).rsum("qrels")


@pytest.mark.parametrize("seed", range(4))
def test_queries_and_gallery_with_labels_of_their_own(seed):
    rng = np.random.default_rng(seed)
    test, train = coarse(rng, 9), coarse(rng, 25)
    own, other = rng.integers(0, 4, 9), rng.integers(0, 4, 25)
    found = label_retrieval(
        {"test": test, "train": train},
        modality_labels={"test": own, "train": other},
        directions=["test2train", "train2train"],
        k_values=[5],
        measures=["RR", "AP", "Success@3", "nDCG@4"],
        metric="dot",
    )["label"]
    scores = found["test2train"].scores
    for query, row in enumerate(lists(test, train)):
        hits = [other[doc] == own[query] for doc in row]
        total = sum(hits)
        assert scores["P@5"][query] == pytest.approx(sum(hits[:5]) / 5)
        assert scores["Success@3"][query] == any(hits[:3])
        assert scores["RR"][query] == pytest.approx(1 / (1 + hits.index(True)))
        ap = sum(sum(hits[: i + 1]) / (i + 1) for i in range(25) if hits[i]) / total
        assert scores["AP"][query] == pytest.approx(ap)
        ideal = sum(1 / math.log2(2 + i) for i in range(min(4, total)))
        dcg = sum(hits[i] / math.log2(2 + i) for i in range(4))
        assert scores["nDCG@4"][query] == pytest.approx(dcg / ideal)
        chance = found["test2train"].chance["P@5"][query]
        assert chance == pytest.approx(total / 25)
    assert found["train2train"].n_docs == 25  # and no item finds itself
    assert "self:exclude" in found["train2train"].scores.signature


def test_a_sample_in_both_sets_can_be_left_out_by_its_id():
    test = SampleRows([[1.0], [2.0]], ["a", "b"])
    train = SampleRows([[5.0], [4.0], [3.0]], ["b", "c", "d"])
    labels = {
        "test": SampleRows(["x", "x"], ["a", "b"]),
        "train": SampleRows(["x", "y", "x"], ["b", "c", "d"]),
    }
    both = {"test": test, "train": train}
    options = {"directions": ["test2train"], "k_values": [1], "metric": "dot"}
    kept = label_retrieval(both, modality_labels=labels, **options)["label"]["test2train"]
    left = label_retrieval(both, modality_labels=labels, exclude_paired=True, **options)
    one = left["label"]["test2train"]
    assert kept.scores["P@1"].tolist() == [1, 1]
    assert one.scores["P@1"].tolist() == [1, 0]
    assert one.chance["P@1"].tolist() == pytest.approx([2 / 3, 1 / 2])
    bare = {name: rows.values for name, rows in both.items()}
    plain = {name: rows.values for name, rows in labels.items()}
    with pytest.raises(UsageError, match="Pass sample_ids of both sides, or omit exclude_paired"):
        label_retrieval(bare, modality_labels=plain, exclude_paired=True, **options)


def test_labels_of_sides_must_fit():
    vectors = {"a": [[1.0]], "b": [[1.0], [2.0]]}
    with pytest.raises(UsageError, match="'b' has no labels"):
        label_retrieval(vectors, modality_labels={"a": ["x"]})
    with pytest.raises(UsageError, match="'c' has no embeddings"):
        label_retrieval(vectors, modality_labels={"a": ["x"], "b": ["x", "y"], "c": ["x"]})
    with pytest.raises(UsageError, match="labels and modality_labels exclude each other"):
        label_retrieval(vectors, ["x"], modality_labels={"a": ["x"], "b": ["x", "y"]})
    with pytest.raises(UsageError, match="Pass the same levels for both"):
        label_retrieval(vectors, modality_labels={"a": {"l": ["x"]}, "b": ["x", "y"]})


@pytest.mark.parametrize("seed", range(4))
def test_zero_shot_classification_agrees_with_a_plain_loop(seed):
    rng = np.random.default_rng(seed)
    vectors, labels = coarse(rng, 60), rng.integers(0, 7, 60)
    prompts, classes = coarse(rng, 14), np.tile(np.arange(7), 2)
    prototypes = Prototypes.of(prompts, classes)
    found = zero_shot_classification(
        {"image": vectors}, labels, prototypes=prototypes, metric="dot"
    )
    one = found["image2prototype"]
    means = np.stack([prompts[classes == name].mean(axis=0) for name in range(7)])
    guessed = lists(vectors, means)
    right = np.array([row[0] == label for row, label in zip(guessed, labels, strict=True)])
    assert one.micro["Success@1"] == pytest.approx(right.mean())
    top = [label in row[:5] for row, label in zip(guessed, labels, strict=True)]
    assert one.micro["Success@5"] == pytest.approx(np.mean(top))
    by_class = [right[labels == name].mean() for name in np.unique(labels)]
    assert one.macro["Success@1"] == pytest.approx(np.mean(by_class))
    assert one.chance.mean()["Success@1"] == pytest.approx(1 / 7)
    counted = {(row.query_label, row.doc_label): row.count for row in one.confusion.rows()}
    loop = {}
    for row, label in zip(guessed, labels, strict=True):
        pair = str(label), str(row[0])
        loop[pair] = loop.get(pair, 0) + 1
    assert counted == loop
    cells = dict(zip(found.table().columns, found.table().rows[0], strict=True))
    assert cells["majority class"].value == pytest.approx(np.bincount(labels).max() / 60)


def test_prompts_are_brought_to_one_length_before_their_mean():
    prompts = Prototypes.of([[100.0, 0.0], [0.0, 1.0], [0.0, -1.0]], ["a", "a", "b"])
    found = zero_shot_classification(
        {"x": [[1.0, 1.2], [1.0, -8.0]]}, ["a", "b"], prototypes=prompts
    )
    assert found["x2prototype"].micro["Success@1"] == 1.0


def test_samples_without_a_description_are_left_out_and_named():
    prompts = Prototypes.of(np.eye(2), ["a", "b"])
    found = zero_shot_classification(
        {"x": np.eye(2)[[0, 1, 1]]}, ["a", "b", "c"], prototypes=prompts
    )
    one = found["x2prototype"]
    assert one.micro["Success@1"] == 1.0
    assert one.empty_labels == ["c"]
    assert (
        dict(zip(found.table().columns, found.table().rows[0], strict=True))["samples"].value == 2
    )


def test_prototypes_have_labels_of_each_level():
    rng = np.random.default_rng(0)
    vectors, fine = coarse(rng, 30), rng.choice(["a1", "a2", "b1"], 30)
    coarser = np.array([name[0] for name in fine])
    prototypes = Prototypes.of(coarse(rng, 3), ["a1", "a2", "b1"]).with_level("l1", ["a", "a", "b"])
    both = {"l2": fine, "l1": coarser}
    found = label_retrieval(
        {"x": vectors}, both, prototypes=prototypes, k_values=[4], metric="dot", drop_labels=["a2"]
    )
    for level, labels, own in (("l2", fine, ["a1", "b1"]), ("l1", coarser, ["a", "a", "b"])):
        kept = labels != "a2"
        rows = prototypes.vectors[[0, 2]] if level == "l2" else prototypes.vectors
        order = lists(rows, vectors[kept])
        loop = [
            np.mean([labels[kept][doc] == name for doc in row[:4]])
            for row, name in zip(order, own, strict=True)
        ]
        one = found[level]["prototype2x"]
        assert one.scores["P@4"].tolist() == pytest.approx(loop)


def test_the_gate_of_a_test_draws_whole_images():
    rng = np.random.default_rng(4)
    images = rng.normal(size=(12, 6))
    texts = np.repeat(images, 5, axis=0) + 0.4 * rng.normal(size=(60, 6))
    noisy = texts + np.repeat(1.5 * rng.normal(size=(12, 6)), 5, axis=0)
    new, old = (
        paired_retrieval({"image": images, "text": captions}).records()[1]
        for captions in (noisy, texts)
    )
    assert new.clusters == old.clusters == "label"
    settings = {"measure": "Success@1", "level": 0.001}  # p is 0.01 with 12 images
    assert assert_not_worse(new, old, **settings).settings.by == "label"
    assert assert_not_worse(new.scored(), old, **settings).settings.by == "label"
    with pytest.raises(AssertionError, match="new is worse than baseline"):
        assert_not_worse(new.scored(), old.scored(), **settings)
