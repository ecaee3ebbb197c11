"""Names of measures: canonical, from trec_eval, from other tools and papers, and misspelt."""

from __future__ import annotations

import re

import numpy as np
import pytest

from assay import Measure, parse, parse_many
from assay.errors import MeasureError
from assay.measures import GROUPS, REGISTRY
from assay.measures.registry import measure


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("map", "AP"),
        ("MAP", "AP"),
        ("mAP@10", "AP@10"),
        ("map@r", "MAP@R"),
        ("AP@R", "MAP@R"),
        ("MAP(rel=2)@R", "MAP(rel=2)@R"),
        ("P_5", "P@5"),
        ("P.5", "P@5"),
        ("precision@5", "P@5"),
        ("Label-Precision@5", "P@5"),
        ("ndcg_cut_10", "nDCG@10"),
        ("NDCG@10", "nDCG@10"),
        ("ndcg", "nDCG"),
        ("ndcg_burges@5", "nDCG(gain=exp)@5"),
        ("nDCG(dcg='exp-log2')@5", "nDCG(gain=exp)@5"),
        ("ndcg.1=3,2=9", "nDCG(gains=1:3/2:9)"),
        ("recip_rank", "RR"),
        ("MRR@10", "RR@10"),
        ("Acc@1", "Success@1"),
        ("hit_rate@10", "Success@10"),
        ("recall_100", "R@100"),
        ("R_cap@10", "R(cap=true)@10"),
        ("recall_cap@10", "R(cap=true)@10"),
        ("relative_P_10", "R(cap=true)@10"),
        ("set_relative_P", "SetR(cap=true)"),
        ("ndcg_exp@5", "nDCG(gain=exp)@5"),
        ("ndcg(dcg=log2)", "nDCG(gain=linear)"),
        ("iprec_at_recall_0.10", "iprec@0.1"),
        ("Rprec_mult_0.20", "Rprec(mult=0.2)"),
        ("11pt_avg", "iAP"),
        ("11pt_avg.0.25,0.5", "iAP(levels=0.25/0.5)"),
        ("gm_map", "GMAP"),
        ("Bpref", "bpref"),
        ("set_F", "SetF"),
        ("unj_5", "Unjudged@5"),
        ("RBP", "RBP"),
        ("rbp", "RBP(graded=true,p=0.9)"),
        (" AP ( rel = 2 ) @ 10 ", "AP(rel=2)@10"),
        ("AP(rel=1)", "AP"),
        ("AP(rel=2.0)", "AP(rel=2)"),
        ("P@1e3", "P@1000"),
    ],
)
def test_names_in_use(text, canonical):
    assert str(parse(text)) == canonical
    assert parse(canonical) == parse(text)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("nDGC@10", "nDCG"),
        ("precison@5", "P"),
        ("recall_at@10", r"Unknown measure 'recall_at'\. Did you mean .*\bR\b"),
        ("recall_at_10", r"Unknown measure 'recall_at_10'\. Did you mean .*\bR\b"),
        ("precision_at@10", r"Unknown measure 'precision_at'\. Did you mean P\b"),
        ("Label-Recall@5", r"Unknown measure 'Label-Recall'\. Did you mean .*\bR\b"),
        ("label_recall@5", r"Unknown measure 'label_recall'\. Did you mean .*\bR\b"),
        ("", "Cannot read"),
        ("P", "needs a cutoff, e.g. P@10"),
        ("P@", "Cannot read"),
        ("P@@5", "Cannot read"),
        ("P(5", "Cannot read"),
        ("P(rel=2)(rel=3)@5", "Cannot read"),
        ("P(rel)@5", "key=value"),
        ("P(rel=)@5", "key=value"),
        ("P(rel=1,rel=2)@5", "twice"),
        ("P(foo=1)@5", "no parameter 'foo'. It takes: rel, trunc"),
        ("P(rel=high)@5", "rel must be"),
        ("P(rel=true)@5", "rel must be"),
        ("P(trunc=1)@5", "true or false"),
        ("AP(over=N)", "one of R, min, hits, k"),
        ("RBP(p=1.5)", "from 0 to 1"),
        ("nDCG(gains=1)", "grade:gain"),
        ("nDCG(gains=1:3/1:4)", "each grade once"),
        ("nDCG(gains=1:-3)", "gains ≥ 0"),
        ("iprec@1.5", "from 0 to 1"),
        ("iprec", "needs a cutoff, e.g. iprec@0.1"),
        ("iAP(levels=2)", "recall levels"),
        ("num_ret(rel=2)", "takes: none"),
        ("num_ret@5", "no cutoff"),
        ("P@R", "Rprec"),
        ("nDCG@R", "whole number"),
    ],
)
def test_what_cannot_be_read_is_answered_with_what_can(text, found):
    with pytest.raises(MeasureError, match=found):
        parse(text)


def test_many():
    assert [str(m) for m in parse_many("AP,P(rel=2)@5 , nDCG")] == ["AP", "P(rel=2)@5", "nDCG"]
    assert [str(m) for m in parse_many(["P.5,10", "AP", "map"])] == ["P@5", "P@10", "AP"]
    for name, members in GROUPS.items():
        assert [str(m) for m in parse_many(name)] == list(
            dict.fromkeys(str(parse(m)) for m in members)
        )
    for nothing in ([], [3], [None]):
        with pytest.raises(MeasureError):
            parse_many(nothing)


def test_measures_are_values():
    ap = parse("AP")
    assert str(ap @ 10) == "AP@10"
    assert str((ap @ np.int64(10))(rel=np.int64(2))) == "AP(rel=2)@10"
    assert {ap: 1}[parse("map")] == 1
    assert ap(rel=2.0) == ap(rel=2)
    assert ap(rel=1) == ap
    assert repr([ap]) == "[AP]"
    assert isinstance(ap, Measure)


def test_every_alias_leads_home():
    for definition in REGISTRY.values():
        for alias in definition.aliases:
            cut = {"required": "@5", "level": "@0.5", "R": "@R"}.get(definition.cutoff, "")
            assert parse(alias.removesuffix("@r") + cut).name == definition.name, alias


# What else a measure may be called: everyone means just this by it. A name that some program gives
# to another measure (Label-Recall to P, Recall@k to Success) belongs to assay.compat alone.
OTHER_NAMES = {
    "P": "precision prec label-precision label-score",
    "R": "recall",
    "Success": "acc accuracy hit hits hit_rate hr top_k_accuracy",
    "RR": "mrr recip_rank reciprocal_rank mean_reciprocal_rank",
    "AP": "map average_precision mean_average_precision map_cut true_map",
    "MAP": "map@r",
    "GMAP": "gm_map",
    "nDCG": "ndcg ndcg_cut",
    "Rprec": "r-precision r_precision rprecision",
    "RBP": "rank_biased_precision",
    "ERR": "err",
    "bpref": "bpref",
    "Judged": "judged",
    "Unjudged": "unj",
    "iprec": "iprec_at_recall",
    "iAP": "11pt_avg 11-pt_avg 11pt",
    "SetP": "set_p set_precision",
    "SetR": "set_recall set_r",
    "SetF": "set_f set_f1",
    "num_ret": "numret",
    "num_rel": "numrel",
    "num_rel_ret": "numrelret",
}


def test_a_measure_has_the_names_that_everyone_gives_it_and_no_others():
    for name, aliases in OTHER_NAMES.items():
        assert set(REGISTRY[name].aliases) == set(aliases.split()), name


@pytest.mark.parametrize(
    ("text", "candidates"),
    [
        ("recall_at@10", ("R", "Success")),
        ("Recall-At_5", ("R", "Success")),
        ("recall_at_k@3", ("R", "Success")),
        ("precision_at@10", ("P", "Success")),
        ("precision_at_1", ("P", "Success")),
        ("Label-Recall@5", ("P", "R")),
        ("label recall@5", ("P", "R")),
    ],
)
def test_a_name_of_two_measures_is_refused_and_both_are_named(text, candidates):
    with pytest.raises(MeasureError, match="Unknown measure") as caught:
        parse_many(text)
    assert all(f"{name} (" in str(caught.value) for name in candidates)


def test_a_measure_must_claim_a_law():
    for laws in (set(), {"nonsense"}):
        with pytest.raises(MeasureError, match="laws"):
            measure("Nonsense", formula="", laws=laws)
    assert "Nonsense" not in REGISTRY


@pytest.mark.parametrize(
    ("measure", "low", "high", "below", "above"),
    [
        ("RBP(p={})", "0", "1", "-0.001", "1.001"),
        ("ERR(gmax={})", "1", "60", "0.999", "60.001"),
        ("Rprec(mult={})", "0.01", "100", "0.0099", "100.001"),
        ("SetF(beta={})", "0", "1000", "-0.001", "1000.001"),
        ("iAP(levels={})", "0", "1/0.5", "-0.001", "0.5/1.001"),
        ("nDCG(gains=2:{})", "0", "1e200", "-0.001", "inf"),
        ("iprec@{}", "0", "1", "-0.001", "1.001"),
        ("P@{}", "1", "1000000000000000", "0", "1000000000000001"),
        ("AP@{}", "1", "1e15", "-1", "1.5"),
    ],
)
def test_the_ends_of_a_range_belong_to_it(measure, low, high, below, above):
    for inside in (low, high):
        assert parse(measure.format(inside)).name == re.split("[(@]", measure)[0]
    for outside in (below, above):
        with pytest.raises(MeasureError):
            parse(measure.format(outside))


def test_a_parameter_that_has_its_default_is_not_written():
    for text in ("RBP(p=0.8)", "RBP(graded=false)", "ERR(gmax=4)", "SetF(beta=1)", "Rprec(mult=1)"):
        assert str(parse(text)) == text.partition("(")[0]
    levels = "/".join(str(step / 10) for step in range(11))
    assert parse(f"iAP(levels={levels})") == parse("iAP")
    assert str(parse("P(trunc=false)@3")) == "P@3"


def test_numbers_in_names_keep_their_value():
    assert parse("P(rel=1e14)@5").params == (("rel", 10**14),)
    assert parse("P(rel=-2.50)@5").params == (("rel", -2.5),)
    assert isinstance(parse("P(rel=2e15)@5").params[0][1], float)
    for text in ("P(rel=99999999999999999999)@5", "P(rel=1e999)@5"):
        with pytest.raises(MeasureError, match="beyond 10\\^15"):
            parse(text)


def test_trec_eval_sets_hold_the_cuts_it_prints():
    cuts = (5, 10, 15, 20, 30, 100, 200, 500, 1000)
    levels = [
        f"iprec@{x}"
        for x in ["0", "0.1", "0.2", "0.3", "0.4", "0.5", "0.6", "0.7", "0.8", "0.9", "1"]
    ]
    first = ["num_ret", "num_rel", "num_rel_ret", "AP", "GMAP", "Rprec", "bpref", "RR"]
    official = [*first, *levels, *(f"P@{k}" for k in cuts)]
    mults = ["0.2", "0.4", "0.6", "0.8", "1", "1.2", "1.4", "1.6", "1.8", "2"]
    assert list(GROUPS["official"]) == official
    assert list(GROUPS["all_trec"]) == [
        *official,
        *(f"R@{k}" for k in cuts),
        "infAP",
        *(f"Rprec(mult={mult})" for mult in mults),
        *("iAP", "nDCG"),
        *(f"{name}@{k}" for name in ("nDCG", "AP", "R(cap=true)") for k in cuts),
        *("Success@1", "Success@5", "Success@10"),
        *("SetP", "SetR(cap=true)", "SetR", "SetF", "num_nonrel_judged_ret"),
        *("RBP(graded=true,p=0.9)", "RBPresid(p=0.9)"),
        *("Unjudged@5", "Unjudged@10", "Unjudged@20"),
    ]


def test_a_rank_that_trec_eval_would_cut_is_cut_and_a_level_is_not():
    assert str(parse("P_23.4")) == "P@23"
    assert str(parse("iprec_at_recall_0.25")) == "iprec@0.25"


def test_which_measures_have_a_largest_value():
    counts = ("num_ret", "num_rel", "num_rel_ret", "num_nonrel_judged_ret")
    kinds = {**dict.fromkeys(counts, "sum"), "GMAP": "geometric"}
    for definition in REGISTRY.values():
        wanted = None if definition.name in (*counts, "DCG") else (0.0, 1.0)
        if definition.built_in:
            assert Measure(definition.name).bounds == wanted
            assert definition.aggregate == kinds.get(definition.name, "mean")


def test_only_a_whole_set_is_free_of_order():
    assert parse("SetP").is_order_free
    assert parse("num_rel_ret").is_order_free
    assert not parse("num_rel_ret@5").is_order_free
    assert not parse("AP").is_order_free
