"""Ask a program for the value of every vector and say where it agrees.

    python conformance/run.py --adapter assay
    python conformance/run.py --adapter my_adapter.py --adapter 'node my_adapter.js' --show 20
    python conformance/run.py --adapter assay --adapter pytrec_eval --markdown

An adapter is the name of a file in `adapters/`, a Python file with a function `evaluate(case)`, or
a command that reads `{"cases": [...]}` on stdin and writes `{"answers": [...]}` on stdout.
`README.md` beside this file describes cases and answers. Exit code 1: a value differs; 2: an
adapter cannot be asked.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import math
import shlex
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
CLOSE = 1e-12
STATES = ("to the last bit", "within 1e-12", "differs", "not supported")
SAME, NEAR, OTHER, UNSUPPORTED = STATES
LEGEND = "= to the last bit, ≈ within 1e-12 or in all digits it prints, ≠ differs, – not supported"


# What trec_eval chooses, and a vector unless it says otherwise. An adapter of a program with these
# refuses a vector that wants others.
TREC_EVAL = {
    "ties": "order",
    "tiebreak": "id-descending",
    "gain": "linear",
    "ideal": "judged",
    "ap": "R",
    "recall": "R",
    "empty": "zero",
    "missing": "zero",
    "self": "keep",
    "depth": 0,
}


class UnsupportedError(Exception):
    """Raised by an adapter: the program cannot be asked for this."""


class AdapterError(Exception):
    """An adapter that cannot be asked, or does not answer every case."""


@dataclass(frozen=True)
class Outcome:
    """How the answer to one vector compares; `why` says what was found instead."""

    vector: Mapping[str, Any]
    state: str
    why: str = ""

    @property
    def group(self) -> tuple[str, str]:
        """The file and the case of the vector."""
        file, case, _ = self.vector["id"].split("/")
        return file, case


def read_vectors(folder: Path = HERE / "vectors") -> list[dict[str, Any]]:
    """All vectors, file by file."""
    files = sorted(folder.glob("*.json"))
    return [one for file in files for one in json.loads(file.read_text("utf-8"))["vectors"]]


# Asking


def ask(adapter: str, vectors: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The answers of an adapter, in the order of the vectors."""
    cases = [{key: v[key] for key in ("measure", "conventions", "run", "qrels")} for v in vectors]
    file = HERE / "adapters" / f"{adapter}_adapter.py"
    if file.is_file() or adapter.endswith(".py"):
        evaluate = _load(file if file.is_file() else Path(adapter))
        return [_call(evaluate, case) for case in cases]
    try:
        return _ask_command(adapter, cases)
    except (OSError, ValueError, IndexError) as error:  # no such program, no JSON, no word at all
        raise AdapterError(f"{adapter or 'the adapter'} cannot be asked: {error}") from None


def _ask_command(adapter: str, cases: list[dict[str, Any]]) -> list[dict[str, Any]]:
    words, asked = shlex.split(adapter), json.dumps({"cases": cases})
    done = subprocess.run(words, input=asked, capture_output=True, text=True, check=False)
    if done.returncode:
        raise AdapterError(f"{adapter} ended with {done.returncode}: {done.stderr[-300:]}")
    data = json.loads(done.stdout)
    answers = data.get("answers") if isinstance(data, dict) else None
    if not isinstance(answers, list) or len(answers) != len(cases):
        found = f"{len(answers)} answers" if isinstance(answers, list) else f"{data!r:.60}"
        raise AdapterError(f"{adapter} gave {found} to {len(cases)} cases")
    return answers


def _load(file: Path) -> Any:
    sys.modules.setdefault("conformance_run", sys.modules[__name__])
    spec = importlib.util.spec_from_file_location(file.stem, file)
    if spec is None or spec.loader is None:
        raise AdapterError(f"{file} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
        return module.evaluate
    except (OSError, SyntaxError, ImportError, AttributeError) as error:
        raise AdapterError(f"{file} cannot be asked: {error}") from None


def _call(evaluate: Any, case: dict[str, Any]) -> dict[str, Any]:
    try:
        answer: dict[str, Any] = evaluate(case)
    except UnsupportedError as error:
        return {"unsupported": str(error)}
    except Exception as error:
        return {"refused": f"{type(error).__name__}: {error}"}
    return answer


# Comparing


def judge(vector: Mapping[str, Any], answer: Mapping[str, Any]) -> Outcome:
    """How an answer compares with what is expected."""
    if not _is_answer(answer):
        return Outcome(vector, OTHER, f"no answer as README.md describes it: {answer!r:.100}")
    if "unsupported" in answer:
        return Outcome(vector, UNSUPPORTED, answer["unsupported"])
    expected = vector["expected"]
    if "refused" in expected or "refused" in answer:
        if "refused" in expected and "refused" in answer:
            return Outcome(vector, SAME)
        found = answer.get("refused", f"a value, {answer.get('mean')}")
        return Outcome(vector, OTHER, f"expected {_words(expected)}, found {found}")
    digits = answer.get("digits")
    pairs = [("mean", expected["mean"], answer.get("mean"))]
    for query, value in expected["per_query"].items():
        found = answer.get("per_query", {}).get(query)
        if value is not None:  # a query without a value may be absent, null or 0
            pairs.append((query, value, found))
    states = [_state(value, found, digits) for _, value, found in pairs]
    worst = max(states, key=STATES.index)
    shown = [
        f"{name}: expected {value and value['decimal']}, found {found!r}"
        for (name, value, found), state in zip(pairs, states, strict=True)
        if state != SAME
    ]
    return Outcome(vector, worst, "; ".join(shown[:2]))


def _is_answer(answer: Any) -> bool:
    """Whether it has the keys and types of an answer."""
    if not isinstance(answer, Mapping):
        return False
    if "unsupported" in answer or "refused" in answer:
        return True
    per_query, digits = answer.get("per_query", {}), answer.get("digits", 1)
    if not isinstance(per_query, Mapping) or not (type(digits) is int and digits > 0):
        return False
    values = (answer.get("mean"), *per_query.values())
    return all(one is None or isinstance(one, float) or _is_small(one) for one in values)


def _is_small(value: Any) -> bool:
    """Whether it is a whole number that a float holds."""
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**53


def _words(expected: Mapping[str, Any]) -> str:
    return "a refusal" if "refused" in expected else f"{expected['mean']['decimal']}"


def _state(expected: Mapping[str, str] | None, found: Any, digits: int | None) -> str:
    """`digits` is how many decimals a program prints, if not all."""
    if expected is None or found is None or math.isnan(found):
        return SAME if expected is None and (found is None or math.isnan(found)) else OTHER
    value = float.fromhex(expected["hex"])
    if digits is not None:
        return NEAR if abs(value - found) <= 0.5000001 * 10**-digits else OTHER
    if value == found:
        return SAME
    return NEAR if abs(value - found) <= CLOSE * max(abs(value), 1.0) else OTHER


def run(adapter: str, vectors: list[dict[str, Any]]) -> list[Outcome]:
    """How one adapter answers all vectors."""
    answers = ask(adapter, vectors)
    return [judge(vector, answer) for vector, answer in zip(vectors, answers, strict=True)]


# Printing


def table(found: Mapping[str, list[Outcome]]) -> list[list[str]]:
    """A row for each case: of how many vectors each adapter agrees."""
    rows = [["case", "vectors", *found]]
    groups = list(dict.fromkeys(one.group for one in next(iter(found.values()))))
    for group in groups:
        own = {a: [one for one in all_ if one.group == group] for a, all_ in found.items()}
        size = len(next(iter(own.values())))
        rows.append([" · ".join(group), str(size), *(_cell(some) for some in own.values())])
    size = len(next(iter(found.values())))
    return [*rows, ["all", str(size), *(_cell(some) for some in found.values())]]


def _cell(outcomes: Iterable[Outcome]) -> str:
    """Such as `7 = 2 ≈ 1 ≠`; a dash where nothing could be asked."""
    counts = Counter(one.state for one in outcomes)
    marks = {SAME: "=", NEAR: "≈", OTHER: "≠"}
    shown = [f"{counts[state]} {mark}" for state, mark in marks.items() if counts[state]]
    return " ".join(shown) or "–"


def markdown(found: Mapping[str, list[Outcome]]) -> str:
    """The table, and what differs, as Markdown."""
    head, *rows = table(found)
    lines = [f"{LEGEND}.", "", _row(head), _row(["---"] * len(head)), *map(_row, rows)]
    for adapter, outcomes in found.items():
        other = [one for one in outcomes if one.state == OTHER]
        if other:
            lines += ["", f"Where {adapter} differs:", ""]
            lines += [f"- `{one.vector['id']}`: {one.why}" for one in other]
    return "\n".join(lines)


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def text(found: Mapping[str, list[Outcome]], show: int) -> str:
    """The table and the first differences as plain text."""
    rows = table(found)
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
    lines += ["", LEGEND]
    for adapter, outcomes in found.items():
        odd = [one for one in outcomes if one.state in (NEAR, OTHER)]
        lines += [f"{adapter}: {one.state}: {one.vector['id']}: {one.why}" for one in odd[:show]]
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    """Run adapters over all vectors and print who agrees where."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--adapter", action="append", required=True, metavar="NAME|FILE|COMMAND")
    parser.add_argument(
        "--only", default="", metavar="TEXT", help="only vectors with this in the id"
    )
    parser.add_argument(
        "--show", type=int, default=5, metavar="N", help="list N values that differ"
    )
    parser.add_argument("--markdown", action="store_true", help="print Markdown")
    chosen = parser.parse_args(arguments)
    vectors = [one for one in read_vectors() if chosen.only in one["id"]]
    if not vectors:
        parser.error(f"no vector has {chosen.only!r} in its id")
    try:
        found = {adapter: run(adapter, vectors) for adapter in chosen.adapter}
    except AdapterError as error:
        parser.error(str(error))
    print(markdown(found) if chosen.markdown else text(found, chosen.show))
    return int(any(one.state == OTHER for some in found.values() for one in some))


if __name__ == "__main__":
    sys.exit(main())
