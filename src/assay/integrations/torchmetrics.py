"""A metric of torchmetrics and Lightning around `Stream`: the same numbers as everywhere else.

Each batch is judged and scored as it comes; what is kept is one number per query and measure, not
the predictions. States are the bits of float64 as integers, which every device can hold.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from typing import Any

import numpy as np

from assay.arrays import Floats, Ints
from assay.core.conventions import Conventions, as_conventions
from assay.core.ids import Ids
from assay.errors import IdError, ShapeError, UsageError, need
from assay.integrations.sklearn import judge_rows
from assay.measures import Measure, parse_many
from assay.scoring.evaluate import Stream
from assay.scoring.scores import Scores


def _base() -> Any:
    """Return the class of torchmetrics.

    Without it this module loads, and its class says what it needs.
    """
    try:
        return import_module("torchmetrics").Metric
    except ImportError:
        return object


_STATES = ("query_ids", "value_bits", "tied")
_UNNAMED = -1


class RetrievalMetric(_base()):  # type: ignore[misc]
    """Measures of rankings, batch by batch and over all processes.

    `update(preds, target)` takes queries × candidates; with `indexes`, which say the query of each
    candidate, all three may be flat. All candidates of a query come in one batch. Targets are
    grades; candidates whose target is `ignore_index` are left out. `compute` gives the mean, or a
    dictionary of means by measure; `scores` the value of each query, for `compare` and reports.

    A query that comes twice with the same values, as samplers repeat some to fill a batch, counts
    once; without `indexes` every row counts.

    Args:
        measures: One or several measures, or their names.
        conventions: Conventions, or their name.
        ignore_index: Target of candidates to leave out.
        **settings: Settings of `torchmetrics.Metric`.

    Example:
        metric = RetrievalMetric("nDCG@10")
        metric.update(preds, target)
        metric.compute()
    """

    is_differentiable = False
    higher_is_better = True
    full_state_update = False
    query_ids: list[Any]
    value_bits: list[Any]
    tied: list[Any]

    def __init__(
        self,
        measures: str | Measure | Iterable[str | Measure] = "nDCG@10",
        *,
        conventions: str | Conventions = "trec_eval",
        ignore_index: int | None = None,
        **settings: Any,
    ) -> None:
        need("torchmetrics", "a metric of torchmetrics", "torchmetrics")
        super().__init__(**settings)
        self.measures, self.ignore_index = parse_many(measures), ignore_index
        self.conventions = as_conventions(conventions)
        for name in _STATES:
            self.add_state(name, default=[], dist_reduce_fx="cat")

    def update(self, preds: Any, target: Any, indexes: Any = None) -> None:
        """Score a batch of whole queries."""
        scores, grades = _floats(preds), _floats(target)
        queries = _queries(scores, grades, indexes)
        rows = grades != (np.inf if self.ignore_index is None else self.ignore_index)
        if not rows.any():
            return
        hits = judge_rows(scores[rows], grades[rows], queries[rows], self.conventions)
        stream = Stream(self.measures, conventions=self.conventions)
        stream.add_hits(hits)
        results = stream.scores()
        ids = np.array(results.query_ids.to_list(), np.int64)
        self._keep("query_ids", ids if indexes is not None else np.full_like(ids, _UNNAMED))
        self._keep("value_bits", np.ascontiguousarray(results.values.T).view(np.int64))
        self._keep("tied", results.tied.T.astype(np.int64))

    def set_dtype(self, dst_type: Any) -> RetrievalMetric:
        """Change nothing: states are bits, and have no precision to choose."""
        return self

    def sync(self, *args: Any, **named: Any) -> None:
        """Gather the states of all processes; some may be empty."""
        for name in _STATES:
            if not getattr(self, name):
                shape = (0,) if name == "query_ids" else (0, len(self.measures))
                self._keep(name, np.zeros(shape, np.int64))
        super().sync(*args, **named)

    def _keep(self, state: str, values: Ints) -> None:
        torch = need("torch", "a metric of torchmetrics", "torchmetrics")
        getattr(self, state).append(torch.tensor(values, device=self.device))

    def compute(self) -> Any:
        """Return the mean, or the means of several measures by name."""
        torch = need("torch", "a metric of torchmetrics", "torchmetrics")
        width = torch.float32 if self.device.type == "mps" else torch.float64
        means = {
            name: torch.tensor(value, dtype=width, device=self.device)
            for name, value in self.scores().mean().items()
        }
        return means if len(self.measures) > 1 else next(iter(means.values()))

    def scores(self) -> Scores:
        """Return the value of each query of this process."""
        ids, bits, tied = (_whole(getattr(self, name)) for name in _STATES)
        if not len(ids):
            raise UsageError("No data. Call update() first.")
        unnamed = ids == _UNNAMED  # queries without an index are numbered
        ids = np.where(unnamed, np.cumsum(unnamed) + ids.max(), ids)
        query_ids, first, of = np.unique(ids, return_index=True, return_inverse=True)
        changed = (bits != bits[first][of]).any(axis=1)
        if changed.any():
            raise IdError(
                f"Query {ids[np.argmax(changed)]} came twice with other values. Put all its "
                "candidates into one batch."
            )
        return Scores(
            measures=self.measures,
            query_ids=Ids.of(query_ids, "query"),
            values=np.ascontiguousarray(bits[first].T).view(np.float64),
            tied=tied[first].T.astype(bool),
            missing=np.zeros(len(first), bool),
            conventions=self.conventions,
        )


def _whole(parts: Any) -> Ints:
    """Join a state into one array."""
    tensors = parts if isinstance(parts, list) else [parts]
    arrays = [tensor.cpu().numpy() for tensor in tensors if tensor.numel()]
    return np.concatenate(arrays) if arrays else np.zeros(0, np.int64)


def _floats(values: Any) -> Floats:
    values = values.detach().cpu() if hasattr(values, "detach") else values
    return np.asarray(values.double() if hasattr(values, "double") else values, np.float64)


def _queries(scores: Floats, grades: Floats, indexes: Any) -> Ints:
    """Return the number of each candidate's query."""
    if indexes is None and scores.ndim == 2:
        indexes = np.broadcast_to(np.arange(len(scores))[:, None], scores.shape)
    elif indexes is None:
        raise ShapeError("Wrong shape. Pass preds and target as queries × candidates, or indexes.")
    queries = np.asarray(indexes.cpu() if hasattr(indexes, "cpu") else indexes)
    if not scores.shape == grades.shape == queries.shape:
        shapes = f"{scores.shape}, {grades.shape} and {queries.shape}"
        raise ShapeError(f"preds, target and indexes differ in shape: {shapes}. Align them.")
    if queries.dtype.kind not in "iu" or (queries < 0).any():
        raise UsageError("Invalid indexes. Pass one whole number from 0 per candidate.")
    return queries.astype(np.int64)
