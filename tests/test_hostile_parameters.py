"""Whatever a public function is given for a parameter, it answers or says what is wrong."""

from __future__ import annotations

import inspect
import math
import warnings
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

import assay
from assay.errors import AssayError

RUN = {"q1": {"a": 1.0, "b": 0.5}, "q2": {"a": 1.0, "b": 2.0}, "q3": {"b": 1.0}}
QRELS = {"q1": {"a": 1}, "q2": {"a": 2, "b": 0}, "q3": {"b": 1}}
VECTORS = np.eye(4, dtype=np.float32)
SCORES = assay.evaluate(RUN, QRELS, ["RR", "P@1"])
OTHER = assay.evaluate({"q1": {"b": 1.0}, "q2": {"a": 1.0}, "q3": {"b": 1.0}}, QRELS, ["RR", "P@1"])
HITS = assay.judge_ranks([1, 2, 3], n_docs=10)
CALLS = {
    "evaluate": ((RUN, QRELS), {"measures": "RR"}),
    "check": ((RUN, QRELS), {}),
    "compare": ((SCORES, OTHER), {"resamples": 20}),
    "judge_ranks": (([1, 2],), {}),
    "score": ((HITS,), {"measures": "RR"}),
    "rank": ((VECTORS, VECTORS), {"k": 2}),
    "parse": (("RR",), {}),
    "preset": (("trec_eval",), {}),
    "explain": ((RUN, QRELS), {"query": "q1"}),
}
HOSTILE = [
    10**400,
    -(10**400),
    2**63,
    math.nan,
    math.inf,
    1e308,
    [],
    {},
    (),
    [[]],
    [None],
    {"a": math.nan},
    "",
    "\0",
    "x" * 2000,
    "\ud800",
    b"x",
    None,
    True,
    -1,
    0,
    2.5,
    object(),
    Decimal("NaN"),
    Fraction(10**400, 3),
    np.array([]),
    np.float64("nan"),
    np.zeros((2, 2, 2)),
    lambda *_: None,
]


@pytest.mark.parametrize("name", CALLS)
def test_every_parameter(name):
    function = getattr(assay, name)
    args, settings = CALLS[name]
    parameters = inspect.signature(function).parameters
    names = [n for n, p in parameters.items() if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)]
    plain = [n for n, p in parameters.items() if p.kind == p.POSITIONAL_OR_KEYWORD]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for parameter in names:
            is_word = parameters[parameter].annotation in ("str", "bool", "str | None")
            for value in HOSTILE:
                if is_word and isinstance(value, np.ndarray):
                    continue  # numpy itself refuses to compare it with a word
                positional = list(args)
                keywords = dict(settings)
                if parameter in plain[: len(args)]:
                    positional[plain.index(parameter)] = value
                else:
                    keywords[parameter] = value
                try:
                    function(*positional, **keywords)
                except AssayError:
                    continue
                except Exception as error:
                    pytest.fail(
                        f"{name}({parameter}={value!r:.60}): {type(error).__name__} {error!s:.80}"
                    )
