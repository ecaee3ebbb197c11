"""Label retrieval across modalities, against a brute force and against itself."""

from __future__ import annotations

import math
import tracemalloc

import numpy as np
import pytest

from assay.crossmodal import Prototypes, SampleRows, label_retrieval, search
from assay.crossmodal.compat import (
    compute_label_recall_at_k,
    compute_prototype_retrieval_metrics,
)
from assay.errors import MismatchError, ShapeError, UsageError, ValueRangeError
from tests.crossmodal.brute import label_precision

ALL = ["text2sensor", "sensor2text", "sensor2sensor", "text2text"]


def small_world(seed, n=40, width=3, labels=5):
    """Vectors of small whole numbers, so that many scores tie exactly."""
    rng = np.random.default_rng(seed)
    draw = lambda: rng.integers(-1, 2, (n, width)).astype(np.float32)  # noqa: E731
    return draw(), draw(), np.array([f"l{i}" for i in rng.integers(0, labels, n)])


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("metric", ["dot", "l2"])
@pytest.mark.parametrize("exclude_paired", [False, True])
def test_every_direction_agrees_with_brute_force(seed, metric, exclude_paired):
    sensor, text, labels = small_world(seed)
    sides = {"sensor": sensor, "text": text}
    found = label_retrieval(
        sides,
        labels,
        directions=ALL,
        k_values=[1, 3, 10],
        metric=metric,
        exclude_paired=exclude_paired,
    )["label"]
    for name in ALL:
        source, target = name.split("2")
        for k in (1, 3, 10):
            expected = label_precision(
                sides[source],
                sides[target],
                labels,
                labels,
                k,
                without_own=exclude_paired or source == target,
                metric=metric,
            )
            assert found[name][k] == pytest.approx(expected, abs=1e-12), (name, k)


@pytest.mark.parametrize("seed", range(4))
def test_prototypes_agree_with_brute_force(seed):
    sensor, text, labels = small_world(seed)
    prototypes, _, _ = small_world(seed + 100, n=7)
    names = np.array(["l0", "l1", "l1", "l2", "l3", "l4", "nowhere"])
    found = compute_prototype_retrieval_metrics(
        prototypes,
        names,
        sensor_embeddings=sensor,
        text_embeddings=text,
        target_labels=labels,
        k_values=[2, 5],
        normalize=False,
    )
    assert list(found) == ["prototype2sensor", "prototype2text"]
    for name, docs in (("prototype2sensor", sensor), ("prototype2text", text)):
        for k in (2, 5):
            expected = label_precision(prototypes, docs, names, labels, k, without_own=False)
            assert found[name][k] == pytest.approx(expected, abs=1e-12)
        assert found[name].empty_labels == ["nowhere"]


def test_results_read_as_the_document_reads_them():
    sensor, text, labels = small_world(1)
    results = compute_label_recall_at_k(
        sensor_embeddings=sensor + 2,
        text_embeddings=text + 2,
        labels=labels,
        k_values=[10, 5],
        directions=["text2sensor", "sensor2text"],
        normalize=True,
        verbose=True,
    )
    assert isinstance(results["text2sensor"][10], float)
    assert list(results) == ["text2sensor", "sensor2text"]
    plain = {d: {str(k): float(v) for k, v in row.items()} for d, row in results.items()}
    assert list(plain["sensor2text"]) == ["5", "10"]
    with pytest.raises(KeyError):
        results["text2text"]
    with pytest.raises(KeyError):
        results["text2sensor"][7]


def test_verbose_speaks_to_stderr_only(capsys):
    sensor, text, labels = small_world(1)
    compute_label_recall_at_k(sensor + 2, text + 2, labels=labels, verbose=True)
    said = capsys.readouterr()
    assert said.out == ""
    assert "text2sensor: 40 queries, 40 items" in said.err
    compute_label_recall_at_k(sensor + 2, text + 2, labels=labels)
    assert capsys.readouterr() == ("", "")


def test_self_is_excluded_whichever_directions_are_asked_for():
    sensor, text, labels = small_world(2)
    sides = {"sensor": sensor, "text": text}
    alone = label_retrieval(sides, labels, directions=["sensor2sensor"], metric="dot")["label"]
    both = label_retrieval(sides, labels, directions=ALL, metric="dot")["label"]
    assert dict(alone["sensor2sensor"]) == dict(both["sensor2sensor"])


def test_self_is_excluded_by_id_beside_an_exact_copy():
    vectors = np.array([[1.0, 0], [1.0, 0], [0, 1]])
    found = label_retrieval({"image": vectors}, ["a", "b", "a"], k_values=[1])["label"]
    # Row 0 finds its copy (another label), row 1 finds row 0, row 2 finds row 0 (label a).
    assert found["image2image"].scores["P@1"].tolist()[0] == 0.0
    assert math.isnan(found["image2image"].scores["P@1"][1])  # no other 'b'
    assert found["image2image"].empty_labels == ["b"]


def test_paired_exclusion_leaves_the_pair_out_of_relevant_items_and_chance():
    vectors = np.eye(4)
    labels = ["a", "a", "b", "b"]
    sides = {"image": vectors, "text": vectors}
    kept = label_retrieval(sides, labels, k_values=[1])["label"]["image2text"]
    left_out = label_retrieval(sides, labels, k_values=[1], exclude_paired=True)["label"]
    assert kept[1] == 1.0
    assert left_out["image2text"][1] == 0.5
    assert kept.chance.mean()["P@1"] == pytest.approx(2 / 4)
    assert left_out["image2text"].chance.mean()["P@1"] == pytest.approx(1 / 3)


def test_names_of_modalities_are_free():
    sensor, text, labels = small_world(3)
    sides = {"image": sensor, "web2": text, "audio": sensor}
    found = label_retrieval(sides, labels, metric="dot")["label"]
    assert len(found) == 6
    assert dict(found["web22image"]) == dict(found["web22audio"])


def test_levels_share_one_search_and_equal_separate_runs(monkeypatch):
    sensor, text, fine = small_world(4)
    coarse = np.array([name[-1] in "01" for name in fine]).astype(int)
    searched = []
    original = search.rank_blocks
    monkeypatch.setattr(
        search, "rank_blocks", lambda q, *rest: searched.append(q) or original(q, *rest)
    )
    sides = {"sensor": sensor, "text": text}
    both = label_retrieval(sides, {"l1": coarse, "l2": fine}, metric="dot")
    assert len(searched) == 2
    for level, labels in (("l1", coarse), ("l2", fine)):
        alone = label_retrieval(sides, labels, metric="dot")["label"]
        assert {d: dict(v) for d, v in alone.items()} == {
            d: dict(v) for d, v in both[level].items()
        }


def test_dropped_labels_are_neither_asked_nor_found():
    sensor, text, labels = small_world(5)
    kept = (labels != "l0") & (labels != "l3")
    dropped = label_retrieval(
        {"sensor": sensor, "text": text}, labels, drop_labels=["l0", "l3", "absent"], metric="dot"
    )["label"]
    smaller = label_retrieval(
        {"sensor": sensor[kept], "text": text[kept]}, labels[kept], metric="dot"
    )["label"]
    assert {d: dict(v) for d, v in dropped.items()} == {d: dict(v) for d, v in smaller.items()}
    with pytest.raises(UsageError, match="'label' is left: all labels were dropped"):
        label_retrieval({"sensor": sensor}, labels, drop_labels=[f"l{i}" for i in range(5)])


def test_a_label_dropped_at_one_level_stays_at_the_other():
    sensor, _, labels = small_world(6)
    other = np.where(np.arange(40) % 2, "unknown", "seen")
    found = label_retrieval(
        {"sensor": sensor}, {"l1": labels, "l2": other}, drop_labels=["unknown"], metric="dot"
    )
    assert found["l1"]["sensor2sensor"].scores.n_queries == 40
    assert found["l2"]["sensor2sensor"].scores.n_queries == 20


def test_samples_are_matched_by_id_whatever_their_order():
    sensor, text, labels = small_world(7)
    ids = np.array([f"s{i:02}" for i in range(40)])
    plain = label_retrieval({"sensor": sensor, "text": text}, labels, metric="dot")["label"]
    rng = np.random.default_rng(0)
    a, b, c = (rng.permutation(40) for _ in range(3))
    mixed = label_retrieval(
        {"sensor": SampleRows(sensor[a], ids[a]), "text": SampleRows(text[b], ids[b])},
        SampleRows(labels[c], ids[c]),
        metric="dot",
    )["label"]
    for name, result in plain.items():
        assert mixed[name].scores.values.tobytes() == result.scores.values.tobytes()
    assert mixed["text2sensor"].scores.query_ids.to_list() == ids.tolist()


def test_samples_that_differ_are_named():
    sensor, text, labels = small_world(7, n=3)
    with pytest.raises(MismatchError, match=r"'x' of embeddings 'sensor' not in .*'c' of embed"):
        label_retrieval(
            {
                "sensor": SampleRows(sensor, ["a", "b", "x"]),
                "text": SampleRows(text, ["a", "b", "c"]),
            },
            labels,
        )
    with pytest.raises(MismatchError, match="different orders, and labels 'label' has none"):
        label_retrieval(
            {
                "sensor": SampleRows(sensor, ["a", "b", "c"]),
                "text": SampleRows(text, ["a", "c", "b"]),
            },
            labels,
        )
    with pytest.raises(MismatchError, match="embeddings 'sensor' has 3, labels 'label' has 2"):
        label_retrieval({"sensor": sensor}, labels[:2])


def test_block_sizes_change_nothing(monkeypatch):
    sensor, text, labels = small_world(8, n=20)
    sides = {"sensor": sensor, "text": text}
    whole = label_retrieval(sides, labels, directions=ALL, full=True, metric="dot")["label"]
    monkeypatch.setattr(search, "FIRST_BLOCK", 1)
    monkeypatch.setattr(search, "ITEMS_PER_BLOCK", 100)
    steps = []
    parts = label_retrieval(
        sides,
        labels,
        directions=ALL,
        full=True,
        metric="dot",
        progress=lambda done, total: steps.append((done, total)),
    )["label"]
    for name in ALL:
        for which in ("scores", "chance", "ceiling"):
            left, right = getattr(whole[name], which), getattr(parts[name], which)
            assert left.values.tobytes() == right.values.tobytes()
        assert list(whole[name].confusion.rows()) == list(parts[name].confusion.rows())
    assert steps == sorted(steps)
    assert steps[-1] == (80, 80)
    assert len(steps) > 15


def test_full_measures_with_chance_and_ceiling():
    labels = np.repeat(["a", "b"], [3, 9])
    sensor = np.random.default_rng(0).normal(size=(12, 4))
    found = label_retrieval({"sensor": sensor}, labels, k_values=[4], full=True)["label"]
    one = found["sensor2sensor"]
    assert list(one.micro) == ["P@4", "R@4", "nDCG@4", "MAP@R"]
    # A query of label a has 2 others among 11, one of label b has 8.
    assert one.chance.mean()["P@4"] == pytest.approx((3 * 2 / 11 + 9 * 8 / 11) / 12)
    assert one.ceiling.mean()["P@4"] == pytest.approx((3 * 2 / 4 + 9 * 1) / 12)
    assert one.macro["P@4"] == pytest.approx(np.mean([one.macro.groups[g]["P@4"] for g in "ab"]))
    assert one.targets == {"a": 3, "b": 9}
    assert one.intervals()[0].method == "score"


def test_truncated_precision_of_rare_labels():
    items = np.array([[1.0, 0], [0.9, 0.1], [0, 1], [0.1, 0.9], [0.2, 0.8]])
    labels = ["a", "a", "b", "b", "b"]
    asked = {"sensor_embeddings": items, "target_labels": labels, "k_values": [4]}
    plain = compute_prototype_retrieval_metrics([[1.0, 0]], ["a"], **asked)
    cut = compute_prototype_retrieval_metrics([[1.0, 0]], ["a"], truncate=True, **asked)
    assert plain["prototype2sensor"][4] == 0.5  # 2 of 4 places
    assert cut["prototype2sensor"][4] == 1.0  # both items of the label, first


def test_map_at_r_is_left_out_beyond_the_depth_and_said_so():
    sensor, _, labels = small_world(9)
    found = label_retrieval({"sensor": sensor}, labels, full=True, depth=2, metric="dot")["label"]
    one = found["sensor2sensor"]
    assert "MAP@R" not in one.micro
    assert any("MAP@R needs depth" in remark for remark in one.remarks())


def test_constant_vectors_never_look_good():
    labels = np.array(["a"] * 5 + ["b"] * 15)  # the tie rule would put label a first
    same = np.ones((20, 3))
    by_order = label_retrieval({"sensor": same}, labels, k_values=[4])["label"]["sensor2sensor"]
    expected = label_retrieval({"sensor": same}, labels, k_values=[4], ties="expected")["label"]
    assert expected["sensor2sensor"][4] == pytest.approx(by_order.chance.mean()["P@4"], abs=1e-12)
    assert by_order.micro.counts["P@4"].tied_share == 1.0
    assert any("100 % of queries" in remark for remark in by_order.remarks())


def test_expected_ties_see_every_item_that_ties_with_the_last():
    """An item that ties with the k-th but lies beyond it must count for its share."""
    docs = np.array([[1.0], [1.0], [1.0], [1.0]])
    found = label_retrieval(
        {"image": docs}, ["a", "a", "b", "b"], k_values=[1], ties="expected", metric="dot"
    )["label"]
    assert found["image2image"][1] == pytest.approx(1 / 3)


def test_labels_of_two_kinds_are_refused():
    prototypes = Prototypes.of([[1.0, 0]], ["3"])
    with pytest.raises(MismatchError, match="'3' and 3 are never equal"):
        label_retrieval({"sensor": [[1.0, 0], [0, 1]]}, [3, 4], prototypes=prototypes)


@pytest.mark.parametrize("k_values", [[0], [-1], [2.5], [True], [], "10", None, [10, None]])
def test_senseless_cutoffs(k_values):
    with pytest.raises((UsageError, ShapeError)):
        label_retrieval({"sensor": [[1.0], [2.0]]}, ["a", "a"], k_values=k_values)


def test_senseless_requests():
    vectors, labels = [[1.0], [2.0]], ["a", "a"]
    with pytest.raises(UsageError, match="No embeddings to search"):
        label_retrieval({}, labels)
    with pytest.raises(UsageError, match="metric must be"):
        label_retrieval({"sensor": vectors}, labels, metric="euclid")
    with pytest.raises(UsageError, match="No labels"):
        label_retrieval({"sensor": vectors}, {})
    with pytest.raises(UsageError, match="modalities must be"):
        label_retrieval([vectors], labels)
    with pytest.raises(UsageError, match="sensor2sensor: one sample cannot find itself"):
        label_retrieval({"sensor": vectors[:1]}, labels[:1])
    with pytest.raises(UsageError, match="prototypes must be"):
        label_retrieval({"sensor": vectors}, labels, prototypes=(vectors, labels))
    with pytest.raises(ShapeError, match=r"samples × dimensions.*\(2,\)"):
        label_retrieval({"sensor": [1.0, 2.0]}, labels)
    with pytest.raises(ValueRangeError, match="missing in row 1"):
        label_retrieval({"sensor": vectors}, ["a", None])


def test_the_documents_functions_take_one_level():
    vectors = [[1.0], [2.0]]
    with pytest.raises(UsageError, match="one label per sample"):
        compute_label_recall_at_k(vectors, vectors, labels={"l1": ["a", "b"]})


def test_inputs_are_left_alone():
    sensor, text, labels = small_world(10)
    before = [array.tobytes() for array in (sensor, text, labels)]
    for array in (sensor, text, labels):
        array.setflags(write=False)
    label_retrieval({"sensor": sensor, "text": text}, labels, full=True, metric="dot")
    assert [array.tobytes() for array in (sensor, text, labels)] == before


@pytest.mark.parametrize("seed", range(3))
def test_counts_of_the_engine_agree(seed):
    """`count_labels` counts the same hits by another way through the program."""
    from assay.search.engine import count_labels

    sensor, text, labels = small_world(seed, n=60)
    found = label_retrieval({"sensor": sensor, "text": text}, labels, k_values=[3], metric="dot")
    counts = count_labels(
        text, sensor, 3, query_labels=labels, doc_labels=labels, metric="dot"
    ).found[:, 0]
    assert found["label"]["text2sensor"].scores["P@3"].tolist() == (counts / 3).tolist()


def test_each_direction_and_level_is_a_record():
    vectors = np.eye(4)
    labels = {"fine": ["a", "a", "b", "b"], "coarse": ["x", "x", "x", "y"]}
    found = label_retrieval({"image": vectors, "text": vectors}, labels, k_values=[1])
    assert [one.name for one in found.records()] == [
        "fine: text2image",
        "fine: image2text",
        "coarse: text2image",
        "coarse: image2text",
    ]
    one = found.records()[3]
    assert one.config == {"level": "coarse", "direction": "image2text"}
    assert one.means == dict(found["coarse"]["image2text"].micro)


def test_a_result_has_tables_and_plain_data_of_all_levels():
    vectors = np.eye(4)
    labels = {"fine": ["a", "a", "b", "b"], "coarse": ["x", "x", "x", "y"]}
    found = label_retrieval({"image": vectors}, labels, k_values=[1])
    assert list(found.to_dict()["levels"]) == ["fine", "coarse"]
    assert all("level" in table.columns for table in found.tables())
    single = label_retrieval({"image": vectors}, labels["fine"], k_values=[1])
    assert not any("level" in table.columns for table in single.tables())


def test_nothing_of_the_size_queries_by_items_is_held():
    sensor, text, labels = small_world(1, n=6000, width=8)
    sensor += np.random.default_rng(1).random(sensor.shape, np.float32)  # few ties
    tracemalloc.start()
    try:
        label_retrieval(
            {"sensor": sensor, "text": text + 2},
            labels,
            directions=["text2sensor"],
            k_values=[1, 10],
        )
        assert tracemalloc.get_traced_memory()[1] < 6000 * 6000 / 4
    finally:
        tracemalloc.stop()
