"""Which labels are retrieved for which: counts, tables, pictures."""

from __future__ import annotations

from collections import Counter
from xml.etree import ElementTree

import numpy as np
import pytest

from assay.crossmodal import Prototypes, label_retrieval
from assay.crossmodal.tables import (
    confusion_picture,
    confusion_table,
    label_table,
    measure_table,
    mistake_table,
)
from assay.tables.table import as_csv
from tests.crossmodal.brute import ranked

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def world():
    rng = np.random.default_rng(3)
    labels = np.array([f"l{i}" for i in rng.integers(0, 4, 60)])
    return rng.integers(-2, 3, (60, 3)).astype(float), labels


def confused(vectors, labels, k):
    found = label_retrieval({"image": vectors}, labels, k_values=[k], metric="dot")
    return found["label"]["image2image"]


def test_counts_agree_with_brute_force(world):
    vectors, labels = world
    expected = Counter()
    for row, vector in enumerate(vectors):
        first = ranked([float(vector @ doc) for doc in vectors], row)[:5]
        expected.update((labels[row], labels[i]) for i in first)
    rows = list(confused(vectors, labels, 5).confusion.rows())
    assert {(row.query_label, row.doc_label): row.count for row in rows} == expected
    for label in set(labels):
        assert sum(row.share for row in rows if row.query_label == label) == pytest.approx(1)


def test_the_matrix_holds_the_shares(world):
    result = confused(*world, 5)
    names, shares = result.confusion.matrix()
    assert names == ["l0", "l1", "l2", "l3"]
    for row in result.confusion.rows():
        cell = shares[names.index(row.query_label), names.index(row.doc_label)]
        assert cell == pytest.approx(row.share)
    # Micro P@k is the mean of the diagonal, weighted by the queries of each label.
    weight = np.array([(world[1] == name).mean() for name in names])
    assert np.diag(shares) @ weight == pytest.approx(result[5])


def test_rare_labels_become_one_beyond_the_limit(world):
    names, shares = confused(*world, 5).confusion.matrix(largest=3)
    assert len(names) == 3
    assert names[-1] == "2 other labels"
    assert np.allclose(shares.sum(axis=1), 1)


def test_mistakes_are_pairs_of_different_labels_by_share(world):
    result = confused(*world, 5)
    worst = result.confusion.mistakes(3)
    assert len(worst) == 3
    assert all(row.query_label != row.doc_label for row in worst)
    assert [row.share for row in worst] == sorted((row.share for row in worst), reverse=True)


def test_tables_have_a_row_for_everything(world):
    vectors, labels = world
    found = label_retrieval(
        {"image": vectors, "text": vectors}, labels, k_values=[5], full=True, metric="dot"
    )["label"]
    results = list(found.values())
    assert len(measure_table(results).rows) == 2 * 4
    assert len(label_table(results).rows) == 2 * 4
    assert len(mistake_table(results, 2).rows) == 2 * 2
    assert len(confusion_table(results).rows) == sum(len(list(r.confusion.rows())) for r in results)
    assert "image2text" in as_csv(measure_table(results))


def test_the_picture_has_a_cell_for_each_pair_and_shows_labels_literally():
    labels = np.array(["<script>alert(1)</script>", "a&b", "\x1b[31mred", "x"] * 5)
    vectors = np.random.default_rng(0).normal(size=(20, 3))
    found = label_retrieval({"image": vectors}, labels, k_values=[5])["label"]["image2image"]
    picture = confusion_picture([found, found])
    tree = ElementTree.fromstring(picture)
    cells = [rect for rect in tree.iter(f"{SVG}rect") if rect.find(f"{SVG}title") is not None]
    assert len(cells) == 2 * len(list(found.confusion.rows()))
    texts = {element.text for element in tree.iter(f"{SVG}text")}
    assert {"<script>alert(1)</script>", "a&b", "\\x1b[31mred"} <= texts
    assert not list(tree.iter(f"{SVG}script"))


def test_rows_without_queries_are_grey_not_zero():
    found = label_retrieval(
        {"image": np.eye(3)},
        ["a", "b", "c"],
        k_values=[1],
        prototypes=Prototypes.of(np.eye(3)[:1], ["a"]),
    )["label"]["prototype2image"]
    _, shares = found.confusion.matrix()
    assert np.isnan(shares[1:]).all()
    assert "b: no queries" in confusion_picture([found])
