"""The arithmetic that `explain` shows: every number of each column and line, worked out by hand."""

from __future__ import annotations

from math import log2

import pytest

from assay.inspect.explain import Explanation, explain

# Relevant at ranks 2 (grade 2) and 5, one more not retrieved; judged not relevant at rank 3.
RUN = {"q": dict(zip("abcdef", range(6, 0, -1), strict=True))}
QRELS = {"q": {"b": 2, "c": 0, "e": 1, "z": 1, "y": 0}}
FOUND = ("found",), [(2, 1), (5, 2)]
PRECISIONS = ("found", "precision", "sum"), [(2, 1, 1 / 2, 1 / 2), (5, 2, 2 / 5, 9 / 10)]
FIRST_PRECISION = PRECISIONS[0], PRECISIONS[1][:1]
LEVELS = ("found", "precision"), [(2, 1, 1 / 2), (5, 2, 2 / 5)]
DCG = 2 / log2(3) + 1 / log2(6)
IDEAL = 2 + 1 / log2(3) + 1 / 2
NONE: tuple[tuple[str, ...], list[tuple[float, ...]]] = ((), [])

IN_ORDER = {
    "P@5": (FOUND, ["relevant documents at ranks ≤ 5: 2", "P@5 = 2 / 5 = 0.4"]),
    "P(trunc=true)@5": (
        (FOUND[0], FOUND[1][:1]),
        ["relevant documents at ranks ≤ 3: 1", "P@3 = 1 / 3 = 0.333333"],
    ),
    "R(cap=true)@2": (
        (FOUND[0], FOUND[1][:1]),
        ["relevant documents at ranks ≤ 2: 1", "R@2 = 1 / 2 = 0.5"],
    ),
    "R(cap=false)@5": (FOUND, ["relevant documents at ranks ≤ 5: 2", "R@5 = 2 / 3 = 0.666667"]),
    "Success@5": (FOUND, ["relevant documents at ranks ≤ 5: 2", "Success@5 = 1"]),
    "Success@1": ((("found",), []), ["relevant documents at ranks ≤ 1: 0", "Success@1 = 0"]),
    "RR": (
        (("1/rank",), [(2, 1 / 2)]),
        ["first relevant document at rank 2", "RR = 1 / 2 = 0.5"],
    ),
    "RR@1": (NONE, ["no relevant document at ranks ≤ 1: RR = 0"]),
    "AP": (PRECISIONS, ["sum of precisions: 0.9; divided by R = 3", "AP = 0.9 / 3 = 0.3"]),
    "AP(over=hits)@5": (
        PRECISIONS,
        ["sum of precisions: 0.9; divided by the hits = 2", "AP = 0.9 / 2 = 0.45"],
    ),
    "AP(over=min)@2": (
        FIRST_PRECISION,
        ["sum of precisions: 0.5; divided by min(k, R) = 2", "AP = 0.5 / 2 = 0.25"],
    ),
    "AP(over=k)@4": (
        FIRST_PRECISION,
        ["sum of precisions: 0.5; divided by k = 4", "AP = 0.5 / 4 = 0.125"],
    ),
    "MAP@R": (
        FIRST_PRECISION,
        ["sum of precisions: 0.5; divided by R = 3", "MAP@R = 0.5 / 3 = 0.166667"],
    ),
    "GMAP": (
        PRECISIONS,
        [
            "sum of precisions: 0.9; divided by R = 3",
            "AP = 0.9 / 3 = 0.3",
            "over queries the geometric mean of max(AP, 0.00001) is taken",
        ],
    ),
    "nDCG": (
        (
            ("gain", "discount", "gain·discount", "DCG"),
            [(2, 2, 1 / log2(3), 2 / log2(3), 2 / log2(3)), (5, 1, *(1 / log2(6),) * 2, DCG)],
        ),
        [
            f"DCG = {DCG:.6g}",
            f"ideal DCG = 2·1.0000 + 1·{1 / log2(3):.4f} + 1·0.5000 = {IDEAL:.6g}",
            f"nDCG = {DCG:.6g} / {IDEAL:.6g} = {DCG / IDEAL:.6g}",
        ],
    ),
    "Rprec(mult=0.5)": (
        (FOUND[0], FOUND[1][:1]),
        ["relevant documents at ranks ≤ 2: 1", "P@2 = 1 / 2 = 0.5"],
    ),
    "RBP(graded=false,p=0.25)": (
        (
            ("gain", "0.25^(rank−1)", "product", "sum"),
            [(2, 1, 1 / 4, 1 / 4, 1 / 4), (5, 1, 1 / 256, 1 / 256, 65 / 256)],
        ),
        ["RBP = (1 − 0.25) · 0.253906 = 0.19043"],
    ),
    "RBP(graded=true,p=0.25)@3": (
        (("gain", "0.25^(rank−1)", "product", "sum"), [(2, 2, 1 / 4, 1 / 2, 1 / 2)]),
        ["RBP = (1 − 0.25) · 0.5 / 2 (the highest grade) = 0.1875"],
    ),
    "ERR(gmax=2)": (
        (
            ("stops here", "got here", "product/rank", "sum"),
            [(2, 3 / 4, 1, 3 / 8, 3 / 8), (5, 1 / 4, 1 / 4, 1 / 80, 31 / 80)],
        ),
        ["ERR = 0.3875; the reader is still looking with probability 0.1875"],
    ),
    "bpref": (
        (("bad above", "1 − share", "sum"), [(2, 0, 1, 1), (5, 1, 1 / 2, 3 / 2)]),
        ["R = 3, judged not relevant: 2, smaller of the two: 2", "bpref = 1.5 / 3 = 0.5"],
    ),
    "Judged": (NONE, ["judged documents: 3 of 6", "Judged = 3 / 6 = 0.5"]),
    "Judged@3": (NONE, ["judged documents at ranks ≤ 3: 2 of 3", "Judged = 2 / 3 = 0.666667"]),
    "Unjudged@9": (
        NONE,
        ["judged documents at ranks ≤ 9: 3 of 6", "Unjudged@9 = 3 / 9 = 0.333333"],
    ),
    "iprec@0.5": (LEVELS, ["recall 0.5 needs 2 of 3: best precision from there on = 0.4"]),
    "iAP(levels=0/1)": (
        LEVELS,
        [
            "recall 0 needs 0 of 3: best precision from there on = 0.5",
            "recall 1 needs 3 of 3: best precision from there on = 0",
            "iAP = 0.5 / 2 = 0.25",
        ],
    ),
    "SetP": (FOUND, ["relevant documents: 2", "SetP = 2 / 6 = 0.333333"]),
    "SetR(cap=true)": (FOUND, ["relevant documents: 2", "SetR = 2 / 3 = 0.666667"]),
    "SetF(beta=2)": (
        FOUND,
        [
            "relevant documents: 2",
            "SetP = 2 / 6 = 0.333333",
            "SetR = 2 / 3 = 0.666667",
            "SetF = 1.11111 / 2 = 0.555556",
        ],
    ),
    "num_ret": (NONE, ["documents retrieved: 6"]),
    "num_rel": (NONE, ["relevant documents: 3"]),
    "num_rel_ret@3": (NONE, ["relevant documents retrieved at ranks ≤ 3: 1"]),
    "num_nonrel_judged_ret": (NONE, ["judged non-relevant documents retrieved: 1"]),
}


def rows_of(found: Explanation) -> list[tuple[float, ...]]:
    return [(line.rank, *line.values) for line in found.lines if line.values]


def check(found: Explanation, table: tuple, working: list[str]) -> None:
    columns, rows = table
    assert found.columns == columns
    assert rows_of(found) == [pytest.approx(row, rel=1e-14) for row in rows]
    assert list(found.working) == working


@pytest.mark.parametrize("measure", IN_ORDER)
def test_a_list_by_hand(measure):
    check(explain(RUN, QRELS, query="q", measure=measure), *IN_ORDER[measure])


@pytest.mark.parametrize(("n", "more"), [(4, ""), (5, " + … (5 terms)")])
def test_of_an_ideal_order_four_terms_are_shown(n, more):
    docs = dict.fromkeys("abcdefgh"[:n], 1)
    found = explain({"q": {"a": 1.0}}, {"q": docs}, query="q", measure="nDCG")
    ideal = sum(1 / log2(1 + r) for r in range(1, n + 1))
    shown = "1·1.0000 + 1·0.6309 + 1·0.5000 + 1·0.4307"
    assert found.working[1] == f"ideal DCG = {shown}{more} = {ideal:.6g}"


# Tied: at ranks 2–4 two relevant (grades 2 and 1) and one not; at 5–6 one relevant, one unjudged.
TIED = {"q": {"a": 6, "b": 5, "c": 5, "d": 5, "e": 2, "f": 2}}
TIED_QRELS = {"q": {"a": 0, "b": 2, "c": 0, "d": 1, "e": 1, "z": 1, "y": 0}}
CHANCES = ("chance", "sum"), [(2, 2 / 3, 2 / 3), (3, 2 / 3, 4 / 3)]
FIRST = (
    ("first here", "chance/rank", "sum"),
    [
        (2, 2 / 3, 1 / 3, 1 / 3),
        (3, 1 / 3, 1 / 9, 4 / 9),
        (4, 0, 0, 4 / 9),
    ],
)
MEANS = (
    ("chance", "found if so", "product/rank", "sum"),
    [
        (2, 2 / 3, 1, 1 / 3, 1 / 3),
        (3, 2 / 3, 3 / 2, 1 / 3, 2 / 3),
        (4, 2 / 3, 2, 1 / 3, 1),
        (5, 1 / 2, 3, 3 / 10, 13 / 10),
        (6, 1 / 2, 3, 1 / 4, 31 / 20),
    ],
)
# Readers stop with 3/4 at grade 2 and 1/4 at 1; the first of the two is either, then the other.
STOPS = [2 / 3 * 1 / 2, 1 / 3 * 1 / 2 + 1 / 3 * 5 / 16, 2 / 3 * 5 / 16, *(3 / 16 * 1 / 8,) * 2]


def with_sums(terms: list[tuple[float, ...]]) -> list[tuple[float, ...]]:
    """Ranks from 2 on before each row, the sum of its last column after it."""
    return [(2 + i, *term, sum(one[-1] for one in terms[: i + 1])) for i, term in enumerate(terms)]


MEAN_DCG = 1 / log2(3) + 1 / 2 + 1 / log2(5) + 1 / 2 / log2(6) + 1 / 2 / log2(7)
TIED_IDEAL = 2 + 1 / log2(3) + 1 / 2 + 1 / log2(5)
EXPECTED = {
    "P@3": (CHANCES, ["expected relevant documents at ranks ≤ 3: 1.33333", "1.33333 / 3"]),
    "R(cap=true)@3": (CHANCES, ["expected relevant documents at ranks ≤ 3: 1.33333", "/ 3 = "]),
    "R(cap=false)@3": (CHANCES, ["expected relevant documents at ranks ≤ 3: 1.33333", "/ 4 = "]),
    "num_rel_ret@3": (CHANCES, ["expected relevant documents at ranks ≤ 3: 1.33333", "= 1.33333"]),
    "Rprec(mult=0.5)": (
        (CHANCES[0], CHANCES[1][:1]),
        ["expected relevant documents at ranks ≤ 2: 0.666667", "P@2 = 0.666667 / 2 = 0.333333"],
    ),
    "Unjudged@5": (
        (("chance", "sum"), [(1, 1, 1), (2, 1, 2), (3, 1, 3), (4, 1, 4), (5, 1 / 2, 9 / 2)]),
        ["expected judged documents at ranks ≤ 5: 4.5", "Unjudged@5 = 0.5 / 5 = 0.1"],
    ),
    "Judged@5": (
        (("chance", "sum"), [(1, 1, 1), (2, 1, 2), (3, 1, 3), (4, 1, 4), (5, 1 / 2, 9 / 2)]),
        ["expected judged documents at ranks ≤ 5: 4.5", "Judged = 4.5 / 5 = 0.9"],
    ),
    "Success@2": (
        (("first here", "sum"), [(2, 2 / 3, 2 / 3)]),
        ["chance that a relevant document is at ranks ≤ 2: Success@2 = 0.666667"],
    ),
    "RR": (FIRST, ["first relevant document is here, over the rank: 0.444444"]),
    "AP": (
        MEANS,
        ["expected sum of precisions: 1.55; divided by R = 4", "AP = 1.55 / 4 = 0.3875"],
    ),
    "AP(over=hits)": (
        MEANS,
        ["expected sum of precisions: 1.55; divided by the hits = 3", "AP = 1.55 / 3 = 0.516667"],
    ),
    "AP(over=min)@3": (
        (MEANS[0], MEANS[1][:2]),
        ["sum of precisions: 0.666667; divided by min(k, R) = 3", "AP = 0.666667 / 3 = 0.222222"],
    ),
    "AP(over=hits)@3": (
        NONE,
        [  # one hit at rank 2 or at rank 3; or both
            f"1 hits with chance 0.666667: AP = {5 / 12:.6g}",
            f"2 hits with chance 0.333333: AP = {7 / 12:.6g}",
            f"AP = {17 / 36:.6g}",
        ],
    ),
    "AP(over=hits)@5": (
        NONE,
        ["2 hits with chance 0.5: AP = 0.5", "3 hits with chance 0.5: AP = 0.533333", "= 0.516667"],
    ),
    "AP(over=hits)@4": (NONE, ["hits: 2, sum of precisions: 1", "AP = 1 / 2 = 0.5"]),
    "MAP@R": (
        (MEANS[0], MEANS[1][:3]),
        ["expected sum of precisions: 1; divided by R = 4", "MAP@R = 1 / 4 = 0.25"],
    ),
    "nDCG": (
        (
            ("mean gain", "discount", "product", "DCG"),
            with_sums(
                [
                    (mean, 1 / log2(1 + r), mean / log2(1 + r))
                    for r, mean in zip(range(2, 7), (1, 1, 1, 1 / 2, 1 / 2), strict=True)
                ]
            ),
        ),
        [
            f"expected DCG = {MEAN_DCG:.6g}; ideal DCG = {TIED_IDEAL:.6g}",
            f"nDCG = {MEAN_DCG:.6g} / {TIED_IDEAL:.6g} = {MEAN_DCG / TIED_IDEAL:.6g}",
        ],
    ),
    "RBP(graded=false,p=0.25)@5": (
        (
            ("mean gain", "0.25^(rank−1)", "product", "sum"),
            with_sums(
                [
                    (m, 4.0 ** (1 - r), m * 4.0 ** (1 - r))
                    for r, m in ((2, 2 / 3), (3, 2 / 3), (4, 2 / 3), (5, 1 / 2))
                ]
            ),
        ),
        [f"RBP = (1 − 0.25) · {0.21875 + 1 / 512:.6g} = {0.75 * (0.21875 + 1 / 512):.6g}"],
    ),
    "RBP(graded=true,p=0.5)@3": (
        (
            ("mean gain", "0.5^(rank−1)", "product", "sum"),
            [(2, 1, 0.5, 0.5, 0.5), (3, 1, *(0.25,) * 2, 0.75)],
        ),
        ["RBP = (1 − 0.5) · 0.75 / 2 (the highest grade) = 0.1875"],
    ),
    "ERR(gmax=2)": (
        (
            ("stops here", "chance/rank", "sum"),
            with_sums([(stop, stop / r) for r, stop in enumerate(STOPS, 2)]),
        ),
        [f"stops here, over the rank: ERR = {sum(s / r for r, s in enumerate(STOPS, 2)):.6g}"],
    ),
    "bpref": (
        NONE,
        [
            "R = 4, judged not relevant: 3, smaller of the two: 3",
            "ranks 2–4: 2 relevant, each below 1 to 2 judged not relevant: 0.5 on average",
            "ranks 5–6: 1 relevant, each below 2 judged not relevant: 0.333333 on average",
            "bpref = 1.33333 / 4 = 0.333333",
        ],
    ),
}


@pytest.mark.parametrize("measure", EXPECTED)
def test_tied_documents_by_hand(measure):
    (columns, rows), working = EXPECTED[measure]
    found = explain(TIED, TIED_QRELS, query="q", measure=measure, conventions="ties:expected")
    assert found.columns == columns
    assert rows_of(found) == [pytest.approx(row, rel=1e-14, abs=0) for row in rows]
    _, *lines, _ = found.working  # the first line tells the tie groups, the last the list's order
    assert len(lines) == len(working)
    for line, wanted in zip(lines, working, strict=True):
        assert wanted in line
