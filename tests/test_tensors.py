"""Tensors as torch makes them are taken wherever arrays are: with grad, and of bfloat16.

`Tensor` refuses what torch refuses: `__array__` and `numpy` of a tensor with grad, of bfloat16 and
of another device. Numpy rounds nothing here: the values are multiples of 1/4 below 32.
"""

from __future__ import annotations

import numpy as np
import pytest

import assay
from assay.codes import evaluate_codes
from assay.codes.compat import cosine_similarity_matrix, hamming_distance_matrix, topk_cosine
from assay.crossmodal import (
    Prototypes,
    label_retrieval,
    paired_retrieval,
    zero_shot_classification,
)
from assay.errors import UsageError
from assay.models.encoding import as_vectors
from assay.prediction import evaluate_candidates, evaluate_confidence, evaluate_predictions
from assay.search.indexes import build_index


class Tensor:
    """As much of a torch tensor as numpy and users ask of it, and no more."""

    def __init__(self, values, dtype="torch.float32", grad=False, device="cpu"):
        self.values, self.dtype = np.asarray(values), dtype
        self.requires_grad, self.device = grad, device
        self.shape, self.ndim = self.values.shape, self.values.ndim

    def _like(self, values, **changes):
        fields = {"dtype": self.dtype, "grad": self.requires_grad, "device": self.device}
        return Tensor(values, **(fields | changes))

    def detach(self):
        return self._like(self.values, grad=False)

    def cpu(self):
        return self._like(self.values, device="cpu")

    def float(self):
        return self._like(self.values.astype(np.float32), dtype="torch.float32")

    def numpy(self):
        if self.requires_grad:
            raise RuntimeError("Can't call numpy() on Tensor that requires grad.")
        if self.device != "cpu":
            raise TypeError("can't convert cuda:0 device type tensor to numpy.")
        if self.dtype == "torch.bfloat16":
            raise TypeError("Got unsupported ScalarType BFloat16")
        return self.values

    def __array__(self, dtype=None, copy=None):
        return self.numpy() if dtype is None else self.numpy().astype(dtype)

    def __len__(self):
        return len(self.values)

    def __getitem__(self, at):
        return self._like(self.values[at])

    def __iter__(self):
        return (self._like(row) for row in self.values)

    def tolist(self):
        return self.values.tolist()


KINDS = {
    "plain": {},
    "grad": {"grad": True},
    "bfloat16": {"dtype": "torch.bfloat16"},
    "cuda": {"grad": True, "dtype": "torch.bfloat16", "device": "cuda:0"},
}
_rng = np.random.default_rng(8)
DOCS = (_rng.integers(-40, 40, (30, 8)) / 4).astype(np.float32)
QUERIES = (_rng.integers(-40, 40, (6, 8)) / 4).astype(np.float32)
LABELS = np.arange(30) % 5
TARGETS = np.arange(6) % 8
IDS = np.arange(30) * 7


def _table(report):
    return [report.intervals[code.name] for code in report.codes]


def _index(docs, queries):
    with build_index("exact", docs) as index:
        return index.rank(queries, 3).docs.tolist()


def _listed(ranking):
    return [ranking.row(row) for row in range(len(ranking))]


# Each call with arrays must give the same with tensors; `tensor` makes one of an array.
CALLS = {
    "rank": lambda t: _listed(assay.rank(t(QUERIES), t(DOCS), 3)),
    "rank rows": lambda t: _listed(assay.rank(list(t(QUERIES)), [t(DOCS[:9]), t(DOCS[9:])], 3)),
    "rank ids": lambda t: _listed(assay.rank(t(QUERIES), t(DOCS), 3, doc_ids=t(IDS))),
    "prepare": lambda t: _listed(assay.rank(t(QUERIES), assay.prepare(t(DOCS)), 3)),
    "rank_codes": lambda t: _listed(
        assay.rank_codes(assay.pack_codes(t(QUERIES > 0)), assay.pack_codes(t(DOCS > 0)), 3)
    ),
    "target_ranks": lambda t: assay.target_ranks(t(QUERIES), t(DOCS), t(TARGETS)).rank.tolist(),
    "target_ranks_from_scores": lambda t: assay.target_ranks_from_scores(
        t(QUERIES), t(TARGETS)
    ).rank.tolist(),
    "from_scores": lambda t: _listed(assay.Ranking.from_scores(t(QUERIES))),
    "from_arrays": lambda t: _listed(
        assay.Ranking.from_arrays(t(np.array([[1, 0]])), t(np.array([[2.0, 1.0]])))
    ),
    "judge labels": lambda t: assay.evaluate(
        assay.rank(DOCS, DOCS, 5), assay.Judgments.from_labels(t(LABELS), t(LABELS)), "P@5"
    ).mean(),
    "judge targets": lambda t: assay.evaluate(
        assay.Ranking.from_scores(t(QUERIES)), assay.Judgments.from_targets(t(TARGETS)), "RR"
    ).mean(),
    "judge_ranks": lambda t: assay.score(assay.judge_ranks(t(TARGETS + 1)), "RR").mean(),
    "index": lambda t: _index(t(DOCS), t(QUERIES)),
    "evaluate_codes": lambda t: _table(
        evaluate_codes(t(DOCS), t(QUERIES), methods=["sign"], k=[3], resamples=100)
    ),
    "code labels": lambda t: evaluate_codes(
        t(DOCS), methods=["sign"], k=[3], labels=t(LABELS), resamples=100
    )["sign"].judged.mean(),
    "ready codes": lambda t: _table(
        evaluate_codes(DOCS, methods=[], codes={"own": t(DOCS > 0)}, k=[3], resamples=100)
    ),
    "cosine matrix": lambda t: cosine_similarity_matrix(t(DOCS)).tolist(),
    "hamming matrix": lambda t: hamming_distance_matrix(t(DOCS > 0)).tolist(),
    "topk_cosine": lambda t: topk_cosine(t(QUERIES), t(DOCS), 3).tolist(),
    "label_retrieval": lambda t: label_retrieval(
        {"a": t(DOCS), "b": t(DOCS[::-1].copy())}, t(LABELS), k_values=[3]
    ).to_dict(),
    "paired_retrieval": lambda t: paired_retrieval(
        {"a": t(DOCS), "b": t(DOCS[::-1].copy())}
    ).to_dict(),
    "zero_shot": lambda t: zero_shot_classification(
        {"a": t(DOCS)}, t(LABELS), prototypes=Prototypes.of(t(DOCS[:5]), t(LABELS[:5]))
    ).to_dict(),
    "predictions": lambda t: evaluate_predictions(t(QUERIES), t(TARGETS)).to_dict(),
    "candidates": lambda t: evaluate_candidates(
        t(np.array([[1, 2], [3, 4]])), t(np.array([2, 4]))
    ).to_dict(),
    "confidence": lambda t: evaluate_confidence(t(QUERIES), t(TARGETS)).to_dict(),
    "encoder": lambda t: as_vectors(t(DOCS), 30, "py:mine").tolist(),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", CALLS)
def test_tensors_give_what_arrays_give(name, kind):
    def tensor(values):
        fields = dict(KINDS[kind])
        if np.asarray(values).dtype.kind != "f":  # torch has grad and bfloat16 for floats alone
            fields = {"device": fields.get("device", "cpu"), "dtype": "torch.int64"}
        return Tensor(values, **fields)

    expected, result = CALLS[name](np.asarray), CALLS[name](tensor)
    assert str(result) == str(expected)


class Sparse(Tensor):
    """A tensor that has no array."""

    def detach(self):
        return self

    cpu = detach

    def numpy(self):
        raise TypeError("can't convert Sparse layout tensor to numpy.\nstack")


@pytest.mark.parametrize("name", CALLS)
def test_a_tensor_without_an_array_is_named(name):
    with pytest.raises(UsageError, match="Cannot read a tensor: can't convert Sparse layout"):
        CALLS[name](lambda values: Sparse(values, dtype="torch.float32"))
