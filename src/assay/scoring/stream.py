"""Stream: evaluation in batches of queries, with the same bytes as evaluation in one go."""

from __future__ import annotations

from dataclasses import replace
from typing import Unpack

from assay.core import checks
from assay.core.conventions import Choices, Conventions, as_conventions, check_keywords
from assay.core.hits import Hits, judge
from assay.core.ids import Ids
from assay.errors import UsageError
from assay.io.formats import QrelsLike, RunLike, as_judgments, as_ranking
from assay.measures import MeasuresLike, parse_many
from assay.scoring.evaluate import score
from assay.scoring.scores import Scores

__all__ = ["Stream"]


class Stream:
    """Collects the scores of batches; a thin shell around `score` and `Scores.merge`.

    With `number=True` the queries of each batch, numbered from 0, are numbered on from the last
    batch; otherwise every query keeps its id, and an id may come once.

    >>> from assay import judge_ranks
    >>> stream = Stream("RR", number=True)
    >>> for ranks in ([1, 2], [4]):
    ...     stream.add_hits(judge_ranks(ranks))
    >>> round(stream.scores().mean()["RR"], 4)
    0.5833
    """

    def __init__(
        self,
        measures: MeasuresLike = "default",
        *,
        conventions: str | Conventions = "trec_eval",
        number: bool = False,
        **choices: Unpack[Choices],
    ) -> None:
        check_keywords(Stream, choices)
        self._measures = parse_many(measures)
        self._rules = as_conventions(conventions, **choices)
        self._number = number
        self._parts: list[Scores] = []
        self._seen = 0

    def add(self, run: RunLike, qrels: QrelsLike, *, allow_mismatch: bool = False) -> None:
        """Evaluate one batch of queries: a run and its judgments, as for `evaluate`."""
        ranking, judgments = as_ranking(run, self._rules), as_judgments(qrels)
        hits = judge(ranking, judgments, conventions=self._rules, allow_mismatch=allow_mismatch)
        self.add_hits(hits)

    def add_hits(self, hits: Hits) -> None:
        """Evaluate one batch of queries that is judged already."""
        checks.require(hits, Hits, "hits", "what judge() returns")
        if self._number:
            if hits.query_ids.kind != "integer":
                raise UsageError("number=True is for batches whose queries have no ids.")
            hits = replace(hits, query_ids=Ids.count(hits.n_queries, self._seen))
        self._seen += hits.n_queries
        self._parts.append(score(hits, self._measures, conventions=self._rules))

    def scores(self) -> Scores:
        """The scores of all batches so far."""
        if not self._parts:
            raise UsageError("Nothing was added to this Stream yet.")
        return Scores.merge(*self._parts)
