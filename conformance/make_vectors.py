"""Write the test vectors: `python conformance/make_vectors.py [FOLDER]`.

The cases are written by hand, the values come from `reference.py`: exact fractions, rounded once.
No code of a program under test takes part.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from reference import RefusedError, evaluate_query, mean_of, queries_of
from run import TREC_EVAL

FORMAT = "ranking conformance vectors 1"
Run = dict[str, list[list[Any]]]
Qrels = dict[str, dict[str, int]]


def ranked(docs: str, start: float = 9.0) -> list[list[Any]]:
    """Documents named by letters, in this order; letters in brackets have one score.

    >>> ranked("a(bc)d", 3.0)
    [['a', 3.0], ['b', 2.0], ['c', 2.0], ['d', 1.0]]
    """
    found, score, inside = [], start, False
    for letter in docs:
        if letter in "()":
            inside, score = letter == "(", score - (letter == ")")
        else:
            found.append([letter, score])
            score -= not inside
    return found


def measure(text: str) -> dict[str, Any]:
    """A measure from a short form.

    >>> measure("AP@5,rel=2")
    {'name': 'AP', 'k': 5, 'rel': 2}
    """
    head, *more = text.split(",")
    name, _, k = head.partition("@")
    found: dict[str, Any] = {"name": name, **({"k": int(k)} if k else {})}
    for part in more:
        key, value = part.split("=")
        found[key] = float(value) if "." in value else int(value)
    return found


# Cases: file, name, what it shows, run, judgments, measures, conventions

PLAIN = {"q": ranked("abcdef")}
PLAIN_TRUTH = {"q": {"a": 1, "c": 1, "f": 1, "z": 1, "b": 0}}
GRADED = {"q": ranked("abcdefg")}
GRADED_TRUTH = {"q": {"a": 1, "b": 3, "d": 2, "e": 0, "g": 3, "y": 2, "z": 1}}
TIED = {"q": ranked("a(bcde)f(gh)")}
TIED_TRUTH = {"q": {"b": 1, "d": 2, "g": 1, "f": 0, "c": 0}}
LEVEL = {"q": ranked("(abcde)")}
LEVEL_TRUTH = {"q": {"c": 1}}
SEVERAL = {"one": ranked("abc"), "none": ranked("abc"), "extra": ranked("abc")}
SEVERAL_TRUTH = {"one": {"b": 1}, "none": {"a": 0}, "lost": {"a": 1}, "two": {"c": 2}}
SEVERAL["two"] = ranked("cab")
RANKED = "P@1 P@3 P@5 R@1 R@3 R@5 Success@1 Success@3 RR RR@2 AP AP@3 AP@5 Rprec SetP SetR SetF"
GAINS = "nDCG nDCG@1 nDCG@3 nDCG@5"
JUDGED = "bpref Judged@3 Judged@5"
ALL = f"{RANKED} {GAINS} {JUDGED} RBP,p=0.5 RBP@3,p=0.8 ERR,gmax=4 ERR@3,gmax=4"


def cases() -> Iterator[tuple[str, str, str, Run, Qrels, str, dict[str, Any]]]:
    """All cases."""
    yield from _plain_cases()
    yield from _graded_cases()
    yield from _tied_cases()
    yield from _query_cases()
    yield from _input_cases()


def _plain_cases() -> Iterator[tuple[str, str, str, Run, Qrels, str, dict[str, Any]]]:
    levels = " ".join(f"iprec,recall={x}" for x in ("0.0", "0.25", "0.5", "0.75", "1.0"))
    yield (
        "binary",
        "plain",
        "Relevant at ranks 1, 3 and 6; a fourth relevant document is not retrieved.",
        PLAIN,
        PLAIN_TRUTH,
        f"{ALL} {levels}",
        {},
    )
    yield (
        "binary",
        "beyond the list",
        "The cut-off is beyond the six documents of the list: P still divides by k.",
        PLAIN,
        PLAIN_TRUTH,
        "P@10 R@10 Success@10 RR@10 AP@10 nDCG@10 Judged@10 RBP@10,p=0.5 ERR@10,gmax=4",
        {},
    )
    worst = {"q": ranked("abcdefgz")}
    yield (
        "binary",
        "last",
        "The only relevant document is the last of eight.",
        worst,
        {"q": {"z": 1}},
        "P@5 R@5 Success@5 RR RR@5 AP AP@5 nDCG nDCG@5 Rprec SetF",
        {},
    )
    yield (
        "binary",
        "nothing found",
        "No relevant document is retrieved: the value is 0 and defined.",
        PLAIN,
        {"q": {"y": 1, "z": 2}},
        ALL,
        {},
    )
    yield (
        "binary",
        "all relevant",
        "Every document is relevant: any order is perfect.",
        {"q": ranked("abc")},
        {"q": {"a": 1, "b": 1, "c": 1}},
        "P@3 R@3 AP nDCG RR Rprec bpref SetF",
        {},
    )
    for rule in ("min", "hits", "k"):
        yield (
            "binary",
            f"AP over {rule}",
            f"Average precision divides by {rule}, not by R.",
            PLAIN,
            PLAIN_TRUTH,
            "AP@2 AP@3 AP@5",
            {"ap": rule},
        )
    yield (
        "binary",
        "capped recall",
        "Recall divides by min(k, R): three documents can hold three of four.",
        PLAIN,
        PLAIN_TRUTH,
        "R@1 R@3 R@5",
        {"recall": "min"},
    )
    yield (
        "binary",
        "depth",
        "Only the first four documents of the list count, whatever the measure.",
        PLAIN,
        PLAIN_TRUTH,
        "P@5 R@5 AP nDCG RR SetP SetR",
        {"depth": 4},
    )
    eleven = {"q": ranked("abcdefghijk", 20.0)}
    yield (
        "binary",
        "sevenths",
        "Seven relevant among eleven: sums of fractions that no double holds.",
        eleven,
        {"q": dict.fromkeys("acdfhik", 1)},
        "P@7 R@3 AP AP@7 nDCG nDCG@10 RBP,p=0.8 bpref",
        {},
    )


def _graded_cases() -> Iterator[tuple[str, str, str, Run, Qrels, str, dict[str, Any]]]:
    about = "Grades 1, 3, unjudged, 2, 0, unjudged, 3 in rank order; grades 2 and 1 are missed."
    yield "graded", "linear gain", about, GRADED, GRADED_TRUTH, f"{ALL} nDCG@10", {}
    yield "graded", "exponential gain", about, GRADED, GRADED_TRUTH, GAINS, {"gain": "exp"}
    ideal = {"ideal": "retrieved"}
    yield "graded", "ideal of what was retrieved", about, GRADED, GRADED_TRUTH, GAINS, ideal
    for smallest in (2, 3, 4):
        names = " ".join(
            f"{name},rel={smallest}" for name in ["P@3", "R@3", "AP", "RR", "Rprec", "bpref"]
        )
        words = f"{about} Relevant is a grade of {smallest} or more."
        yield "graded", f"relevant from {smallest}", words, GRADED, GRADED_TRUTH, names, {}
    negative = {"q": {"a": -1, "b": 2, "c": -2, "d": 1, "e": 0}}
    words = "Negative grades are no gain, not relevant, and for bpref not judged."
    names = "P@3 R@3 AP RR nDCG nDCG@3 bpref ERR,gmax=4"
    yield "graded", "negative grades", words, {"q": ranked("abcde")}, negative, names, {}
    high = {"q": {"a": 1, "b": 5, "c": 30}}
    words = "A grade of 30 beside small ones: exponential gains of 2³⁰ − 1."
    yield "graded", "high grades", words, {"q": ranked("abc")}, high, "nDCG nDCG@2", {"gain": "exp"}


def _tied_cases() -> Iterator[tuple[str, str, str, Run, Qrels, str, dict[str, Any]]]:
    about = "b, c, d, e share one score and so do g and h; relevant are b, d (grade 2) and g."
    for rule in ("id-descending", "id-ascending", "index"):
        chosen = {"tiebreak": rule}
        names = f"{RANKED} {GAINS} {JUDGED}"
        yield "ties", f"in order, {rule}", about, TIED, TIED_TRUTH, names, chosen
    some = "P@1 P@3 R@3 Success@3 RR RR@2 AP AP@3 nDCG nDCG@3 Rprec RBP,p=0.5 ERR,gmax=4 bpref"
    for rule in ("expected", "best", "worst"):
        yield "ties", rule, about, TIED, TIED_TRUTH, some, {"ties": rule}
        words = "Five documents with one score, one of them relevant: the list says nothing."
        names = "P@1 P@3 R@1 RR RR@2 AP nDCG nDCG@3 Success@3"
        yield "ties", f"constant, {rule}", words, LEVEL, LEVEL_TRUTH, names, {"ties": rule}
    exp = {"ties": "expected", "gain": "exp"}
    yield "ties", "expected, exponential gain", about, TIED, TIED_TRUTH, GAINS, exp
    words = "Every judged document is retrieved, so that tools without a pool can be asked."
    whole = {"q": {"a": 2, "b": 0, "c": 1, "d": 3, "e": 0, "f": 1}}
    for name, run in (("tied", ranked("a(bcd)(ef)")), ("not tied", ranked("abcdef"))):
        chosen = {"ties": "expected"}
        yield "ties", f"all retrieved, {name}", words, {"q": run}, whole, f"{GAINS} AP RR", chosen


def _query_cases() -> Iterator[tuple[str, str, str, Run, Qrels, str, dict[str, Any]]]:
    for empty in ("zero", "skip"):
        for missing in ("zero", "skip"):
            about = (
                f"Of the judged queries one has nothing relevant (empty: {empty}) and one is not "
                f"in the run (missing: {missing}); a query that is not judged is left out."
            )
            chosen = {"empty": empty, "missing": missing}
            names = "P@2 R@2 RR AP nDCG nDCG@2 Success@1"
            name = f"empty {empty}, missing {missing}"
            yield "queries", name, about, SEVERAL, SEVERAL_TRUTH, names, chosen
    many = {f"q{n}": ranked("abcdefg"[: n + 2]) for n in range(1, 6)}
    truth = {f"q{n}": {"abcdefg"[n]: 1, "a": n % 2} for n in range(1, 6)}
    about = "Five queries: the mean is that of their values, rounded once."
    yield "queries", "five", about, many, truth, "P@3 RR AP nDCG nDCG@3", {}
    own = {"a": ranked("abc"), "b": ranked("cba")}
    judged = {"a": {"a": 1, "c": 1}, "b": {"a": 2, "b": 1}}
    about = "Queries are documents of the collection; their own document is no hit."
    yield "queries", "self excluded", about, own, judged, "P@1 RR AP nDCG R@1", {"self": "exclude"}
    yield "queries", "self kept", about, own, judged, "P@1 RR AP nDCG R@1", {}


def _input_cases() -> Iterator[tuple[str, str, str, Run, Qrels, str, dict[str, Any]]]:
    twice = {"q": [["a", 3.0], ["b", 2.0], ["a", 1.0]]}
    about = "A document stands twice in a list: there is no value, and a program has to say so."
    yield "input", "document twice", about, twice, {"q": {"a": 1}}, "P@2 AP nDCG", {}
    zeros = {"q": [["a", 0.0], ["b", -0.0], ["c", -1.0]]}
    about = "0 and -0 are one score, so that b comes first; c has a negative score."
    yield "input", "signed zeros", about, zeros, {"q": {"a": 1, "c": 1}}, "RR AP nDCG", {}
    near = {"q": [["a", 1.0 + 2.0**-40], ["b", 1.0], ["c", 0.5]]}
    about = "Scores that differ by 2⁻⁴⁰ differ: a is first. In single precision b would be."
    yield "input", "near scores", about, near, {"q": {"a": 1}}, "P@1 RR AP nDCG", {}
    shuffled = {"q": [["c", 1.0], ["a", 3.0], ["b", 2.0]]}
    about = "The list is not sorted: scores decide, not places."
    yield "input", "not sorted", about, shuffled, {"q": {"a": 1, "c": 2}}, "P@1 RR AP nDCG", {}
    letters = {"q": [["é", 1.0], ["z", 1.0], ["Z", 1.0], ["10", 1.0], ["9", 1.0]]}
    about = (
        "Ids are compared by the bytes of their UTF-8: é, z, Z, 9, 10 from the last to the first."
    )
    truth = {"q": {"z": 1, "9": 1}}
    yield "input", "ids by bytes", about, letters, truth, "P@1 P@2 RR AP nDCG", {}
    huge = {"q": [["a", 1e300], ["b", -1e300], ["c", 1e-300], ["d", -1e-300]]}
    about = "Very large and very small scores keep their order: a, c, d, b."
    yield "input", "wide scores", about, huge, {"q": {"c": 1, "b": 1}}, "P@2 RR AP nDCG", {}
    about = "One document, one judgment."
    yield "input", "one", about, {"q": ranked("a")}, {"q": {"a": 1}}, "P@1 P@2 R@1 RR AP nDCG", {}


# Vectors


def vectors() -> dict[str, list[dict[str, Any]]]:
    """The vectors of each file."""
    found: dict[str, list[dict[str, Any]]] = {}
    for file, name, about, run, qrels, names, changes in cases():
        for short in names.split():
            case = {
                "id": f"{file}/{name}/{short}",
                "measure": measure(short),
                "conventions": {**TREC_EVAL, **changes},
                "run": run,
                "qrels": qrels,
            }
            found.setdefault(file, []).append({**case, **_answer(case, about)})
    return found


def _answer(case: dict[str, Any], about: str) -> dict[str, Any]:
    try:
        exact = {query: evaluate_query(case, query) for query in queries_of(case)}
    except RefusedError as error:
        return {"expected": {"refused": str(error)}, "why": about}
    values = {q: v if q in case["run"] else None for q, v in exact.items()}
    # The mean is that of doubles, as every program has them, summed exactly and rounded once.
    rounded = {q: None if v is None else Fraction(float(v)) for q, v in exact.items()}
    expected = {
        "per_query": {query: _value(value) for query, value in values.items()},
        "mean": _value(mean_of(case, rounded)),
    }
    return {"expected": expected, "why": f"{about} {_reason(case, values)}".strip()}


def _value(value: Fraction | None) -> dict[str, str] | None:
    if value is None:
        return None
    number = float(value)
    return {"decimal": repr(number), "hex": number.hex()}


def _reason(case: dict[str, Any], values: dict[str, Fraction | None]) -> str:
    rule = case["conventions"]["ties"]
    over = {"order": "", "expected": "the mean over all orders of tied documents, "}
    words = over.get(rule, f"the {rule} of all orders of tied documents, ")
    shown = [f"{query}: {_shown(value)}" for query, value in values.items()]
    return f"{_FORMULAS[case['measure']['name']]}; {words}{', '.join(shown)}."


def _shown(value: Fraction | None) -> str:
    if value is None:
        return "no value"
    if value.denominator < 10**12:
        return str(value)
    return f"{Decimal(value.numerator) / Decimal(value.denominator):.25f}…"


_FORMULAS = {
    "P": "P@k = relevant among the first k / k",
    "R": "R@k = relevant among the first k / R",
    "Success": "Success@k = 1 if one of the first k is relevant",
    "RR": "RR = 1 / rank of the first relevant document",
    "AP": "AP = Σ (i / rank of the i-th relevant document) / R",
    "Rprec": "Rprec = relevant among the first R / R",
    "nDCG": "nDCG = Σ gain / log₂(1 + rank), over the same of the ideal order",
    "RBP": "RBP = (1 − p) Σ p^(rank − 1) over relevant ranks",
    "ERR": "ERR = Σ 1/rank · s Π (1 − s of those above), s = (2^grade − 1) / 2^gmax",
    "bpref": "bpref = 1/R Σ (1 − min(N above, R) / min(N, R)), N the judged non-relevant",
    "Judged": "Judged@k = judged among the first k / min(k, length of the list)",
    "iprec": "iprec@x = the best i / rank of the i-th relevant document with i ≥ x · R",
    "SetP": "SetP = relevant retrieved / retrieved",
    "SetR": "SetR = relevant retrieved / R",
    "SetF": "SetF = 2 P R / (P + R) of the whole list",
}


def text_of(found: list[dict[str, Any]]) -> str:
    """A file: a line for each vector."""
    lines = ",\n".join(json.dumps(one, ensure_ascii=False) for one in found)
    return f'{{"format": "{FORMAT}", "vectors": [\n{lines}\n]}}\n'


def main(folder: Path) -> None:
    """Write all files."""
    for file, found in vectors().items():
        (folder / f"{file}.json").write_text(text_of(found), "utf-8")
        print(f"{file}.json: {len(found)} vectors")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "vectors")
