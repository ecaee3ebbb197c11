"""Variants of a model (index, codes, depth of reranking) dilute no verdict about models."""

from __future__ import annotations

import pytest

from assay.bench import Model, run_bench
from assay.bench.plan import BenchPlan
from assay.errors import UsageError
from tests.bench.samples import small

LETTERS = "py:tests.bench.samples:letters"
MODELS = ["bm25", f"float={LETTERS}"]
HOW = {"measures": ["nDCG@10"], "threads": 1}


def test_each_kind_of_variant_has_its_base() -> None:
    plan = BenchPlan.of(
        [f"small={LETTERS}?codes=int8", f"float={LETTERS}", f"bits={LETTERS}?codes=binary", "bm25"],
        fusions=["rrf:float+bm25"],
        indexes=["exact"],
        reranks=["a=rerank/5:bm25>py:m:f", "b=rerank/9:bm25>py:m:f", "c=rerank/9:float>py:m:f"],
    )
    assert plan.bases == {
        "small @ exact": "small",
        "float @ exact": "float",
        "bits @ exact": "bits",
        "bm25 @ exact": "bm25",
        "small": "float",
        "bits": "float",
        "b": "a",
    }
    assert plan.rivals == ["float", "bm25", "rrf(float+bm25)", "a", "c"]
    alone = BenchPlan.of([f"a={LETTERS}?codes=int8", f"b={LETTERS}?codes=binary", "bm25"])
    assert alone.bases == {"b": "a"}  # the first stands for the model
    other = Model("b", LETTERS, {"query_prefix": "x"}, codes="int8")
    assert BenchPlan.of([f"a={LETTERS}", other]).bases == {}  # another model
    assert BenchPlan.of([f"a={LETTERS}", f"b={LETTERS}"]).bases == {}


def test_codes_leave_the_verdict_on_models_as_it_was() -> None:
    plain = run_bench(small(), MODELS, **HOW)
    coded = [f"{kind}={LETTERS}?codes={kind}" for kind in ("int8", "binary", "int4")]
    varied = run_bench(small(), [*MODELS, *coded], **HOW)
    assert varied.standing.verdicts == plain.standing.verdicts
    assert varied.standing.names == ("bm25", "float")
    (family,) = varied.variants()
    assert (family.baseline, family.family) == ("float", "3 systems against float")
    said = str(varied)
    assert "Variants of float form a separate family: 3 systems against float." in said
    assert all(f"\n{kind} " in said for kind in ("int8", "binary", "int4"))  # with their means
    data = varied.to_dict()
    assert [one.get("variant_of") for one in data["systems"]] == [None, None, *["float"] * 3]
    assert [one.config.get("variant_of") for one in varied.records()][2:] == ["float"] * 3
    with pytest.raises(UsageError, match="'int8' is a variant of 'float'"):
        varied.report(baseline="int8")


def test_the_signature_says_what_makes_a_variant() -> None:
    signatures = [
        run_bench(small(), [*MODELS, *coded], indexes=indexes, **HOW).to_dict()["signature"]
        for coded, indexes in [
            ((), ()),
            ((f"v={LETTERS}?codes=int8",), ()),
            ((f"v={LETTERS}?codes=binary",), ()),
            ((f"v={LETTERS}?codes=rabitq:1",), ()),
            ((f"v={LETTERS}?codes=rabitq:1&train=1",), ()),
            ((), ("exact",)),
        ]
    ]
    assert len(set(signatures)) == 6
    assert "|variants:v(codes=int8)|queries:" in signatures[1]
