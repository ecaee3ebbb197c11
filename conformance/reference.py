"""Measures by their definitions, in exact arithmetic: slow, plain, and of no other program.

Every value is a fraction. Orders of tied documents are written out one by one, so that an
expectation is a mean over a list and no formula. Only the logarithms of nDCG are not rational:
they are taken to 80 digits.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import cache
from itertools import groupby, permutations, product
from math import ceil
from typing import Any

__all__ = ["RefusedError", "evaluate_query", "mean_of", "queries_of"]

Grades = dict[str, int]
Order = Sequence[str]


class RefusedError(Exception):
    """The input has no value: a program has to say so and must not print a number."""


def queries_of(case: dict[str, Any]) -> list[str]:
    """The queries over which the mean goes, before empty ones are looked at."""
    rule = case["conventions"]["missing"]
    return [q for q in case["qrels"] if q in case["run"] or rule == "zero"]


def mean_of(case: dict[str, Any], values: dict[str, Fraction | None]) -> Fraction | None:
    """The mean over the queries that count; None if there are none."""
    skip = case["conventions"]["empty"] == "skip"
    counted = [v for v in values.values() if v is not None or not skip]
    if not counted:
        return None
    return sum((Fraction(v or 0) for v in counted), Fraction(0)) / len(counted)


def evaluate_query(case: dict[str, Any], query: str) -> Fraction | None:
    """The value of one query; None where it is not defined: nothing is relevant."""
    rules, measure = case["conventions"], case["measure"]
    grades: Grades = case["qrels"][query]
    found = case["run"].get(query, [])
    docs = [doc for doc, _ in found]
    if len(set(docs)) < len(docs):
        raise RefusedError("a document stands twice in a list")
    if rules["self"] == "exclude":
        found = [pair for pair in found if pair[0] != query]
        grades = {doc: grade for doc, grade in grades.items() if doc != query}
    if not _relevant(grades, measure):
        return None
    values = [_MEASURES[measure["name"]](one, grades, case) for one in _orders(found, rules)]
    if rules["ties"] in ("best", "worst"):
        return max(values) if rules["ties"] == "best" else min(values)
    return sum(values, Fraction(0)) / len(values)


def _orders(found: list[list[Any]], rules: dict[str, Any]) -> Iterator[list[str]]:
    """The order of the list, or all orders that its scores allow; each cut at the depth."""
    ordered = _by_tiebreak(found, rules["tiebreak"])
    depth = rules["depth"] or len(ordered)
    if rules["ties"] == "order":
        yield [doc for doc, _ in ordered][:depth]
        return
    groups = [[doc for doc, _ in same] for _, same in groupby(ordered, key=lambda pair: pair[1])]
    for one in product(*(permutations(group) for group in groups)):
        yield [doc for group in one for doc in group][:depth]


def _by_tiebreak(found: list[list[Any]], rule: str) -> list[list[Any]]:
    """Score descending; equal scores by the bytes of the id, or as they stand in the list."""
    if rule == "index":
        return sorted(found, key=lambda pair: -pair[1])
    by_id = sorted(found, key=lambda pair: pair[0].encode(), reverse=rule == "id-descending")
    return sorted(by_id, key=lambda pair: -pair[1])


# What is relevant


def _relevant(grades: Grades, measure: dict[str, Any]) -> set[str]:
    smallest = measure.get("rel", 1)
    return {doc for doc, grade in grades.items() if grade >= smallest}


def _ranks(order: Order, grades: Grades, case: dict[str, Any]) -> list[int]:
    relevant = _relevant(grades, case["measure"])
    return [rank for rank, doc in enumerate(order, 1) if doc in relevant]


def _within(ranks: list[int], k: int | None) -> list[int]:
    return [rank for rank in ranks if k is None or rank <= k]


# Measures: of an order, the grades of the query, and the case


def _precision(order: Order, grades: Grades, case: dict[str, Any]) -> Fraction:
    k = case["measure"]["k"]
    return Fraction(len(_within(_ranks(order, grades, case), k)), k)


def _recall(order: Order, grades: Grades, case: dict[str, Any]) -> Fraction:
    k, total = case["measure"]["k"], len(_relevant(grades, case["measure"]))
    most = min(k, total) if case["conventions"]["recall"] == "min" else total
    return Fraction(len(_within(_ranks(order, grades, case), k)), most)


def _success(order: Order, grades: Grades, case: dict[str, Any]) -> Fraction:
    return Fraction(bool(_within(_ranks(order, grades, case), case["measure"]["k"])))


def _reciprocal_rank(order: Order, grades: Grades, case: dict[str, Any]) -> Fraction:
    ranks = _within(_ranks(order, grades, case), case["measure"].get("k"))
    return Fraction(1, ranks[0]) if ranks else Fraction(0)


def _average_precision(order: Order, grades: Grades, case: dict[str, Any]) -> Fraction:
    k, total = case["measure"].get("k"), len(_relevant(grades, case["measure"]))
    ranks = _within(_ranks(order, grades, case), k)
    hits, rule = len(ranks), case["conventions"]["ap"]
    over = {"R": total, "min": min(k or total, total), "hits": hits, "k": k or total}[rule]
    found = sum((Fraction(i, rank) for i, rank in enumerate(ranks, 1)), Fraction(0))
    return found / over if over else Fraction(0)


def _r_precision(order: Order, grades: Grades, case: dict[str, Any]) -> Fraction:
    total = len(_relevant(grades, case["measure"]))
    return Fraction(len(_within(_ranks(order, grades, case), total)), total)


def _ndcg(order: Order, grades: Grades, case: dict[str, Any]) -> Fraction:
    rules, k = case["conventions"], case["measure"].get("k")
    pool = order if rules["ideal"] == "retrieved" else grades
    gains = [_gain(grades.get(doc, 0), rules["gain"]) for doc in order]
    ideal = sorted((_gain(grades.get(doc, 0), rules["gain"]) for doc in pool), reverse=True)
    best = _discounted(ideal[:k])
    return _discounted(gains[:k]) / best if best else Fraction(0)


def _gain(grade: int, rule: str) -> int:
    grade = max(grade, 0)
    return 2**grade - 1 if rule == "exp" else grade


def _discounted(gains: list[int]) -> Fraction:
    return sum((gain / _log2(rank + 1) for rank, gain in enumerate(gains, 1)), Fraction(0))


@cache
def _log2(number: int) -> Fraction:
    """The logarithm of a whole number to 80 digits, or exactly."""
    power = number.bit_length() - 1
    if number == 1 << power:
        return Fraction(power)
    with localcontext() as context:
        context.prec = 80
        return Fraction(Decimal(number).ln() / Decimal(2).ln())


def _rank_biased(order: Order, grades: Grades, case: dict[str, Any]) -> Fraction:
    p = Fraction(case["measure"]["p"])  # the value of the double
    ranks = _within(_ranks(order, grades, case), case["measure"].get("k"))
    return (1 - p) * sum((p ** (rank - 1) for rank in ranks), Fraction(0))


def _expected_rr(order: Order, grades: Grades, case: dict[str, Any]) -> Fraction:
    highest, going_on, total = 2 ** case["measure"]["gmax"], Fraction(1), Fraction(0)
    for rank, doc in enumerate(order[: case["measure"].get("k")], 1):
        stops = Fraction(_gain(grades.get(doc, 0), "exp"), highest)
        total += going_on * stops / rank
        going_on *= 1 - stops
    return total


def _bpref(order: Order, grades: Grades, case: dict[str, Any]) -> Fraction:
    relevant = _relevant(grades, case["measure"])
    wrong = {doc for doc, grade in grades.items() if doc not in relevant and grade >= 0}
    most, total, above = min(len(wrong), len(relevant)), Fraction(0), 0
    for doc in order:
        if doc in relevant:
            total += 1 - (Fraction(min(above, len(relevant)), most) if above else 0)
        above += doc in wrong
    return total / len(relevant)


def _judged(order: Order, grades: Grades, case: dict[str, Any]) -> Fraction:
    top = order[: case["measure"]["k"]]
    return Fraction(sum(doc in grades for doc in top), len(top)) if top else Fraction(0)


def _interpolated(order: Order, grades: Grades, case: dict[str, Any]) -> Fraction:
    ranks = _ranks(order, grades, case)
    wanted = ceil(Fraction(case["measure"]["recall"]) * len(_relevant(grades, case["measure"])))
    reached = [Fraction(i, rank) for i, rank in enumerate(ranks, 1) if i >= wanted]
    return max(reached, default=Fraction(0))


def _set_precision(order: Order, grades: Grades, case: dict[str, Any]) -> Fraction:
    return Fraction(len(_ranks(order, grades, case)), len(order)) if order else Fraction(0)


def _set_recall(order: Order, grades: Grades, case: dict[str, Any]) -> Fraction:
    return Fraction(len(_ranks(order, grades, case)), len(_relevant(grades, case["measure"])))


def _set_f(order: Order, grades: Grades, case: dict[str, Any]) -> Fraction:
    both = _set_precision(order, grades, case), _set_recall(order, grades, case)
    return 2 * both[0] * both[1] / sum(both) if sum(both) else Fraction(0)


_MEASURES = {
    "P": _precision,
    "R": _recall,
    "Success": _success,
    "RR": _reciprocal_rank,
    "AP": _average_precision,
    "Rprec": _r_precision,
    "nDCG": _ndcg,
    "RBP": _rank_biased,
    "ERR": _expected_rr,
    "bpref": _bpref,
    "Judged": _judged,
    "iprec": _interpolated,
    "SetP": _set_precision,
    "SetR": _set_recall,
    "SetF": _set_f,
}
