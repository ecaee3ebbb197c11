"""Whatever is handed over, the answer is a result or one of our own errors."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import assay
from assay import Ids, Judgments, Ranking
from assay.errors import AssayError, UsageError

RANKING = Ranking.from_scores([[1.0, 2.0]])
QRELS = Judgments.from_targets([1])
SCORES = assay.score(assay.judge(RANKING, QRELS), "RR").with_groups(g=["a"])
RUN, GRADES = {"q": {"a": 1.0}}, {"q": {"a": 1}}
Q, D = Ids.of(["q"]), Ids.of(["d"])

WRONG: list[Callable[[], object]] = [
    lambda: assay.judge(None, QRELS),
    lambda: assay.judge("x.run", QRELS),
    lambda: assay.judge(RANKING, None),
    lambda: assay.judge(RANKING, QRELS, conventions="nobody"),
    lambda: RANKING.under("nobody"),
    lambda: assay.score(None),
    lambda: assay.parse(None),
    lambda: assay.parse(5),
    lambda: assay.parse(b"x"),
    lambda: SCORES[0],
    lambda: assay.parse_many(5),
    lambda: assay.parse_many(None),
    lambda: assay.Stream(None),
    lambda: assay.Stream("RR").add_hits(None),
    lambda: assay.preset({}),
    lambda: assay.preset([]),
    lambda: assay.Conventions.parse("depth:" + "9" * 5000),
    lambda: assay.evaluate({"q": {"a": 1.0}}, {"q": {"a": 1}}, groups=["a"]),
    lambda: SCORES.mean(by=["g"]),
    lambda: SCORES.mean(by="g", weights=[1, 2]),
    lambda: SCORES.mean(by="g", weights={"a": "x"}),
    lambda: SCORES.mean(by="g", weights={"a": None}),
    lambda: SCORES.mean(by="g", weights={"a": 1e308}),
    lambda: SCORES.mean(by="g", weights={"a": 0.0}),
    lambda: assay.Scores.merge(None),
    lambda: Judgments.from_pairs(Q, D, [5], [0], [1]),
    lambda: Judgments.from_pairs(Q, D, [0], [-1], [1]),
    lambda: Judgments.from_pairs(Q, D, [0], [7], [1]),
    lambda: Judgments.from_pairs(Q, D, [0.7], [0], [1]),
    lambda: Judgments.from_pairs(Q, D, [0], [0], ["x"]),
    lambda: Judgments.from_targets([1], n_docs="5"),
    lambda: Ranking.from_lines(
        Q,
        D,
        queries=np.zeros(1, np.int32),
        docs=np.zeros(1, np.int32),
        scores=np.ones(1),
        tiebreak="zz",
    ),
    lambda: Ranking.from_lines(
        Q,
        D,
        queries=np.zeros(1, np.int32),
        docs=np.zeros(1, np.int32),
        scores=np.ones(1),
        precision="float16",
    ),
    lambda: assay.judge_ranks(np.array([2**63 + 5], np.uint64)),
    lambda: assay.judge_ranks([1e30]),
    lambda: assay.judge_ranks([2**62], tied=[2**62]),
    lambda: assay.judge_ranks([1], has_target=["no"]),
    lambda: assay.judge_ranks([1], has_target=[float("nan")]),
    lambda: assay.judge_ranks([1], has_target=[[True]]),
]


@pytest.mark.parametrize("call", WRONG)
def test_wrong_input_is_a_named_error(call: Callable[[], object]) -> None:
    with pytest.raises(AssayError):
        call()


def test_judge_takes_the_name_of_a_preset() -> None:
    assert assay.judge(RANKING, QRELS, conventions="next_location").rank.tolist() == [1]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda **k: assay.compare(SCORES, SCORES, **k), "compare has no keyword"),
        (lambda **k: assay.compare({"a": RUN, "b": RUN}, GRADES, **k), "compare has no keyword"),
        (lambda **k: assay.evaluate(RUN, GRADES, **k), "evaluate has no keyword"),
        (lambda **k: assay.check(RUN, GRADES, **k), "check has no keyword"),
        (lambda **k: assay.explain(RUN, GRADES, query="q", **k), "explain has no keyword"),
        (assay.Stream, "Stream has no keyword"),
    ],
)
@pytest.mark.parametrize(
    ("mistyped", "meant"), [("convetions", "conventions"), ("tie", "ties"), ("depht", "depth")]
)
def test_a_mistyped_keyword_is_named_with_the_nearest(
    call: Callable[..., object], words: str, mistyped: str, meant: str
) -> None:
    with pytest.raises(UsageError, match=rf"{words} '{mistyped}'\. Did you mean {meant}\?"):
        call(**{mistyped: None})


def test_keywords_of_runs_are_refused_with_scores() -> None:
    with pytest.raises(UsageError, match="ties applies to runs by name"):
        assay.compare(SCORES, SCORES, ties="best")
    with pytest.raises(UsageError, match=r"no keyword 'mesures'\. Did you mean measures\?"):
        assay.compare(SCORES, SCORES, mesures="RR")
