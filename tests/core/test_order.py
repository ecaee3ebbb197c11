"""The tie rule: what it says, and that it is written in one place for each language."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from assay.core.ranking import sort_rows
from assay.native.tie_order import nearest_order, rank_order

SOURCE = Path(__file__).resolve().parents[2] / "src" / "assay"
RULE = ("native/tie_order.py", "native/exact/tie_order.hpp")


# What it says


def test_scores_descend_and_the_tiebreak_ascends():
    scores = np.array([1.0, 2.0, 2.0, 3.0, 1.0])
    tiebreak = np.array([5, 4, 3, 2, 1])
    assert rank_order(scores, tiebreak=tiebreak).tolist() == [3, 2, 1, 4, 0]
    assert rank_order(scores).tolist() == [3, 1, 2, 0, 4]
    assert sort_rows(np.array([0, 5]), scores, tiebreak).tolist() == [3, 2, 1, 4, 0]


def test_minus_zero_equals_zero():
    scores = np.array([-0.0, 0.0, -0.0, 0.0])
    assert rank_order(scores).tolist() == [0, 1, 2, 3]
    assert rank_order(scores, tiebreak=np.array([3, 2, 1, 0])).tolist() == [3, 2, 1, 0]
    assert sort_rows(np.array([0, 4]), scores, None).tolist() == [0, 1, 2, 3]
    assert nearest_order(scores).tolist() == [0, 1, 2, 3]


def test_rows_stay_apart():
    scores, row = np.array([1.0, 2.0, 1.0, 2.0]), np.array([1, 1, 0, 0])
    assert rank_order(scores, row=row).tolist() == [3, 2, 1, 0]
    assert nearest_order(scores, row=row).tolist() == [2, 3, 0, 1]


def test_the_kernels_and_numpy_agree():
    rng = np.random.default_rng(3)
    for _ in range(20):
        lengths = rng.integers(0, 30, 6)
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        scores = rng.choice([-1.0, -0.0, 0.0, 1.0, 1.5], offsets[-1])
        tiebreak = rng.permutation(offsets[-1]).astype(np.int64)
        row = np.repeat(np.arange(6), lengths)
        found = sort_rows(offsets, scores, tiebreak)
        assert found.tolist() == rank_order(scores, tiebreak=tiebreak, row=row).tolist()


# That it is written once

# A descending sort: a negated key or a reversed order.
DESCENDING = re.compile(
    r"(?:argsort|lexsort)\(.*(?<![\w\])] )-(?=[A-Za-z_(])"
    r"|key=lambda [^:]*: ?\(?.*(?<![\w\])] )-(?=[A-Za-z_(])"
    r"|argsort\([^#]*\)\[::-1\]"
)
# A sort of scores or distances, whichever way.
OF_SCORES = re.compile(r"(?:argsort|lexsort)\(.*\b(?:scores?|distances?|similarit\w+)\b")
# Sorts that are not rankings of documents by score, with what they sort.
OTHER_SORTS = {
    "bench/answers.py": "chunks of a document, of which the best count",
    "bench/asking.py": "ranks of order statistics",
    "bench/systems.py": "a dictionary of scores, in the order of a list of hits",
    "bench/reranking.py": "chunks of a document, of which the best counts",
    "judging/agreement.py": "systems by mean",
    "judging/holes.py": "gains of the ideal list, and documents by the harm that they do",
    "judging/queries.py": "drawn queries by their random keys",
    "comparison/compare.py": "queries by difference, for a table",
    "comparison/standings.py": "systems by mean",
    "tasks/comparison.py": "systems by mean",
    "measures/ranked.py": "gains of the ideal list, of which only the values matter",
    "models/adapters/onnx.py": "texts by length, to fill batches",
    "native/twins/trec.py": "grades, to count them",
    "report/report.py": "queries by how far systems are apart, the first to be packed",
    "report/chart_data.py": "groups by size",
    "report/svg.py": "queries by difference, for bars",
    "stats/effects.py": "pairs by distance, for the area under a curve",
    "store/run.py": "values for a chart",
    "bench/explain.py": "documents by grade, for a page",
    "bench/findings.py": "queries by spread",
    "bench/sweep.py": "settings by cost",
    "crossmodal/tables.py": "confused labels by count",
    "prediction/result.py": "classes by support, for a table",
    "vision/drawing.py": "matches to draw",
    "vision/keypoints.py": "keypoints by response",
    "web/pages/leaderboard.py": "runs by value",
    "web/pages/run.py": "groups by size",
}


def test_no_other_python_file_sorts_documents_by_score():
    found = {
        path
        for path, line in _lines("*.py")
        if path not in RULE and (DESCENDING.search(line) or OF_SCORES.search(line))
    }
    assert found <= set(OTHER_SORTS), (
        "Rank documents by assay.core.ranking; what is not a ranking goes into OTHER_SORTS."
    )


# Two scores, or a score and a limit, side by side.
COMPARISON = re.compile(
    r"(?:\bscores?\b(?:\[[^\]]*\])*(?:\.\w+)?|\w+(?:->|\.)score)\s*(?:[<>]=?|[!=]=)\s*\w"
    r"|\s(?:[<>]=?|[!=]=)\s(?:\w+\.)?scores?\b(?!\.size)"
)
# Lines that compare scores with bounds, or with the ranks that a file states.
BOUNDS = {
    "return (next.rank > rank && next.score > score) || (next.rank < rank && next.score < score);",
    "if (current.score < surely_below) continue;",
    "keep_if(query, [least](const Candidate& candidate) { return candidate.score >= least; });",
    "low = scores[i] < low ? scores[i] : low;",
    "high = scores[i] > high ? scores[i] : high;",
    "for (size_t i = 0; i < count; ++i) reached += scores[i] >= middle;",
    "bad += !(score <= largest);  // +Inf, and NaN, which is in no relation to any number",
    "const T* bad = std::find_if(scores, scores + count, "
    "[](T score) { return !(score <= std::numeric_limits<T>::max()); });",
}


def test_no_other_kernel_compares_scores():
    found = [
        (path, line)
        for path, line in (*_lines("*.cpp"), *_lines("*.hpp"))
        if path not in RULE and line not in BOUNDS and COMPARISON.search(line)
    ]
    assert not found, "Compare by tie_order.hpp; what is a bound goes into BOUNDS."


@pytest.mark.parametrize(
    "line",
    [
        "order = np.lexsort((docs, -scores, rows))",
        "order = np.argsort(-scores, kind='stable')",
        "ranked = sorted(found, key=lambda doc: (-found[doc], doc))",
        "order = np.argsort(scores)[::-1]",
        "order = np.argsort(distances, kind='stable')",
    ],
)
def test_the_search_finds_another_rule_in_python(line):
    assert DESCENDING.search(line) or OF_SCORES.search(line)


@pytest.mark.parametrize(
    "line",
    [
        "return a.score != b.score ? a.score > b.score : a.doc < b.doc;",
        "if (scores[i] > scores[j]) return true;",
        "if (score != other.score) return score > other.score;",
        "tied += scores[i] == own;",
    ],
)
def test_the_search_finds_another_rule_in_a_kernel(line):
    assert COMPARISON.search(line)


def _lines(pattern: str) -> list[tuple[str, str]]:
    """Lines of code below the package, without comments of their own."""
    return [
        (path.relative_to(SOURCE).as_posix(), line.strip())
        for path in sorted(SOURCE.rglob(pattern))
        for line in path.read_text("utf-8").splitlines()
        if not line.strip().startswith(("#", "//", ">>>"))
    ]
