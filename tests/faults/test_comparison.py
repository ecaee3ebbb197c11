"""Faults 55 to 61, 64 and 65, by the numbers of the fault list: where systems are compared."""

from __future__ import annotations

import json
import math
import re
import string

import numpy as np
import pytest

from assay import compare
from assay.errors import MismatchError
from assay.tables.table import Cell, Table, as_latex, latex_comment, latex_text
from tests.comparison.made_scores import scores_of

RNG = np.random.default_rng(55)
A, B = RNG.random(100), RNG.random(100)


# 55: identical systems


@pytest.mark.parametrize("test", ["randomisation", "t", "wilcoxon", "sign", "bootstrap"])
def test_identical_systems(engine, test):
    found = compare(scores_of(A), scores_of(A), test=test, margin=0.1)
    assert found.verdict.startswith("A and B are identical on RR: equal on all 100 queries")
    assert found.pairs[0].p == 1
    assert found.pairs[0].winner is None
    assert {one.rank.rank for one in found.standings} == {1.5}
    json.dumps(found.to_dict(), allow_nan=False)
    assert "identical" in repr(found)


@pytest.mark.parametrize("correction", ["holm", "tukey"])
def test_many_identical_systems(engine, correction):
    found = compare(*[scores_of(A)] * 5, correction=correction)
    assert all(pair.p == 1 for pair in found.pairs)
    assert found.verdict == "A, B, C, D and E are identical on RR: equal on all 100 queries"
    assert {one.letters for one in found.standings} == {"a"}


def test_a_difference_without_spread():
    found = compare(scores_of(A + 0.25), scores_of(A), test="t")
    assert "cannot be compared on RR: all differences are equal" in found.verdict
    assert compare(scores_of(A + 0.25), scores_of(A)).pairs[0].winner == "A"


# 56: too few queries


@pytest.mark.parametrize("n", [0, 1, 2])
@pytest.mark.parametrize("systems", [2, 4])
@pytest.mark.parametrize("correction", ["holm", "tukey"])
def test_too_few_queries(engine, n, systems, correction):
    found = compare(*[scores_of(A[i : i + n]) for i in range(systems)], correction=correction)
    assert " on RR: at least 3 are needed" in found.verdict
    assert found.verdict.startswith(f"Too few queries ({n}) to compare ")
    for pair in found.pairs:
        assert pair.outcome == "undecided"
        assert math.isnan(pair.p)
        assert math.isnan(pair.interval.low)
        assert math.isnan(pair.minimum_detectable)
    assert {one.letters for one in found.standings} == {""}
    data = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert data["measures"]["RR"]["pairs"][0]["p"] is None
    assert "–" in repr(found)


def test_against_a_baseline():
    found = compare(*[scores_of(A[i : i + 2]) for i in range(3)], baseline="A")
    assert "cannot be compared: B and C (too few queries (2):" in found.verdict


def test_too_few_groups():
    scores = [scores_of(values) for values in (A, B)]
    halves = {f"q{i:04}": f"u{i // 50}" for i in range(100)}
    found = compare(*[each.with_groups(user=halves) for each in scores], by="user")
    assert "Too few groups (2) to compare A and B on RR: at least" in found.verdict


# 57: p is never 0, and never shown as 0


def test_p_is_never_zero(engine):
    high, low = 0.9 + A / 100, A / 100
    for test in ("randomisation", "t", "wilcoxon", "sign", "bootstrap"):
        found = compare(scores_of(high), scores_of(low + B / 1000), test=test)
        assert 0 < found.pairs[0].p < 0.001
        assert "p < 0.0001" in found.verdict
        assert "p = 0.0000" not in repr(found)
        assert " 0.0000" not in found.verdict


def test_resamples_that_cannot_separate_anything_are_remarked_on():
    systems = [scores_of(A[:30] / 10 + i / 10) for i in range(8)]
    found = compare(*systems, resamples=100, correction="holm")
    assert all(pair.winner is None for pair in found.pairs)
    assert "100 resamples are too few to separate any pair: use 560" in found.remarks[0]
    enough = compare(*systems, resamples=600, correction="holm")
    assert not any("resamples are too few" in remark for remark in enough.remarks)
    assert all(pair.winner for pair in compare(*systems, resamples=100).pairs)


# 58: the seed


def test_the_same_seed_gives_the_same_bytes():
    texts = [
        json.dumps(compare(scores_of(A), scores_of(B), seed=seed).to_dict()) for seed in (3, 3, 4)
    ]
    assert texts[0] == texts[1] != texts[2]
    assert '"seed": 3' in texts[0]


# 59: pairs with an undefined side


def test_undefined_pairs_are_removed_and_counted(engine):
    left, right, third = A.copy(), B.copy(), A * 0.5
    left[[3, 50]], right[[50, 70]] = math.nan, math.nan
    found = compare(scores_of(left), scores_of(right), scores_of(third), correction="none")
    assert [pair.effect.n_removed for pair in found.pairs] == [3, 2, 2]
    kept = np.delete(np.arange(100), [3, 50, 70])
    alone = compare(scores_of(A[kept]), scores_of(B[kept]))
    assert found.pairs[0].test.p == alone.pairs[0].test.p
    assert found.pairs[0].interval.low == alone.pairs[0].interval.low
    assert any("undefined on up to 3 queries" in remark for remark in found.remarks)
    data = found.to_dict()["measures"]["RR"]["pairs"][0]
    assert (data["n"], data["removed"]) == (97, 3)
    assert len(found.differences("RR").rows) == 97


def test_nothing_but_undefined():
    nothing = scores_of(np.full(10, math.nan))
    found = compare(nothing, scores_of(A[:10]))
    assert "Too few queries (0) to compare B and A on RR: at least" in found.verdict
    assert [one.name for one in found.standings] == ["B", "A"]


# 60: a hundred systems


@pytest.mark.parametrize("baseline", [None, "S1"])
def test_a_hundred_systems(baseline):
    systems = [scores_of(RNG.random(40) / 50 + i / 120) for i in range(100)]
    names = None if baseline is None else [f"S{i + 1}" for i in range(100)]
    how = None if baseline else "bonferroni"  # one level for all pairs, not one for each
    found = compare(
        *systems, names=names, baseline=baseline, test="t", correction=how, resamples=100
    )
    assert len(found.pairs) == (4950 if baseline is None else 99)
    letters = [one.letters for one in found.standings]
    if baseline is None:
        assert found.standings[0].name == "S100"
        assert all(letters)
    shown = str(found)
    assert shown.count("\n") < 120
    assert all(f"S{i + 1} " in shown for i in range(100))


def test_letters_do_not_run_out():
    systems = [scores_of(np.full(8, i / 100) + A[:8] / 1e6) for i in range(60)]
    found = compare(*systems, correction="none", resamples=100)
    letters = [one.letters for one in found.standings]
    assert len(set(letters)) == 60
    assert {"a", "z", "A", "Z", "a2", "h2"} <= set(letters)


# 61: different query sets


def test_the_intersection_is_compared_and_counted():
    ids = [f"q{i}" for i in range(100)]
    found = compare(scores_of(A, ids=ids), scores_of(B[:60], ids=ids[40:]))
    assert found.n_queries == 60
    assert "60 queries are in all systems and were compared; A has 100" in found.remarks
    queries = found.to_dict()["queries"]
    assert (queries["compared"], queries["by_system"]) == (60, {"A": 100, "B": 60})
    assert found.pairs[0].difference == pytest.approx((A[40:] - B[:60]).mean())


def test_less_than_half_is_refused():
    ids = [f"q{i}" for i in range(100)]
    compare(scores_of(A, ids=ids), scores_of(B[:50], ids=ids[:50]))
    for other, count in ((ids[51:], 49), ([f"z{i}" for i in range(100)], 0)):
        with pytest.raises(MismatchError) as caught:
            compare(scores_of(A, ids=ids), scores_of(B[: len(other)], ids=other))
        assert f"Only {count} queries are in all 2 systems" in str(caught.value)
        assert f"'A' has 100, 'B' has {len(other)}" in str(caught.value)


def test_three_systems_that_share_too_little():
    ids = [f"q{i}" for i in range(90)]
    parts = [scores_of(A[:60], ids=ids[i : i + 60]) for i in (0, 15, 30)]
    with pytest.raises(MismatchError, match="Only 30 queries"):
        compare(parts[0], parts[2], scores_of(A[:90], ids=ids))
    assert compare(*parts).n_queries == 30


def test_a_file_on_other_queries_ends_with_3(assay, tmp_path):
    (tmp_path / "qrels").write_text("".join(f"q{i} 0 a 1\n" for i in range(4)))
    for name, query in (("one", "q0"), ("two", "x9")):
        (tmp_path / name).write_text(f"{query} Q0 a 1 1 t\n")
    answer = assay("compare", tmp_path / "one", tmp_path / "two", "-r", tmp_path / "qrels")
    assert answer.code == 3
    assert "judged queries is in the run" in answer.err
    assert answer.out == ""


# 64: LaTeX


EVIL = r"\input{/etc/passwd} \write18{x} 50% $x$ a_b c^d e&f #1 ~ {y} <z> \\ ^^41 |" + "`'\""
# What LaTeX text may hold of its special characters: the escapes that we write.
ESCAPES = re.compile(
    r"\\(?:[{}$&#_%]|textbackslash\{\}|textasciitilde\{\}|textasciicircum\{\}|textless\{\}"
    r"|textgreater\{\}|textbar\{\}|symbol\{\d+\})|\$-\$|\$\\(?:leq|geq|pm|kappa|tau)\$|\{[\[*]\}"
)


def left_over(text: str) -> set[str]:
    return set(ESCAPES.sub("", text)) & set("\\{}$&#_%~^<>|\"'`")


@pytest.mark.parametrize("text", [EVIL, *string.punctuation, "−–≤≥±κτ", "[x]", "*x", " [x"])
def test_specials_are_escaped(text):
    assert left_over(latex_text(text)) == set()


def test_letters_that_latex_does_not_know_are_commands():
    """Its fonts have no ≥, κ and τ outside of mathematics: such a page does not compile."""
    assert latex_text("p ≥ 0.25, κ, τ") == r"p $\geq$ 0.25, $\kappa$, $\tau$"


def test_no_command_survives():
    assert r"\input" not in latex_text(EVIL)
    assert r"\write" not in latex_text(EVIL)
    assert r"\textbackslash{}input\{/etc/passwd\}" in latex_text(EVIL)
    assert latex_text("[x") == "{[}x"
    assert latex_text("a[x]*") == "a[x]*"


def test_lines_cannot_be_broken():
    for text in ("a\nb", "a\r\\input{x}", "a\u2028b", "\x1b[0m"):
        assert len(latex_text(text).splitlines()) == 1
        assert len(latex_comment(text).splitlines()) == 1


def test_tables_in_latex():
    rows = ((Cell(EVIL), Cell(-0.5, "fraction")), (Cell("[*"), Cell(math.nan, "fraction", True)))
    lines = as_latex(Table((EVIL, "AP"), rows)).splitlines()
    assert lines[0] == r"\begin{tabular}{lr}"
    assert lines[4].endswith(r" & $-$0.5000 \\")
    assert lines[5] == r"{[}* & \textbf{--} \\"
    for line in (lines[2], lines[4]):
        assert left_over(line.removesuffix(r" \\").replace(" & ", "")) == set()


def test_a_whole_comparison(assay, tmp_path):
    evil = "\\input{x}_%&#"
    (tmp_path / "qrels").write_text("".join(f"q{i} 0 a 1\n" for i in range(8)))
    for name, order in ((evil, "ab"), ("plain", "ba")):
        lines = [f"q{i} Q0 {doc} 1 {9 - n} t\n" for i in range(8) for n, doc in enumerate(order)]
        (tmp_path / name).write_text("".join(lines))
    answer = assay(
        "compare",
        tmp_path / evil,
        tmp_path / "plain",
        "-r",
        tmp_path / "qrels",
        "--format",
        "latex",
        "--sensitivity",
        "--differences",
        "2",
    )
    assert answer.code == 0
    kept = [line for line in answer.out.splitlines() if not line.startswith("%")]
    assert r"\input" not in "\n".join(kept)
    assert r"\textbackslash{}input\{x\}\_\%\&\#" in answer.out


# 65: escape codes in names


@pytest.mark.parametrize("layout", ["text", "markdown", "latex", "csv", "json"])
def test_escape_codes_in_names_of_files(assay, tmp_path, layout):
    (tmp_path / "qrels").write_text("".join(f"q{i}\x1b[5m 0 a 1\n" for i in range(5)))
    for name in ("\x1b[31mred", "b\u202el"):
        (tmp_path / name).write_text("".join(f"q{i}\x1b[5m Q0 a 1 1 t\n" for i in range(5)))
    paths = [tmp_path / "\x1b[31mred", tmp_path / "b\u202el"]
    answer = assay(
        "compare",
        *paths,
        "-r",
        tmp_path / "qrels",
        "--format",
        layout,
        "--fail-if",
        "RR < 2",
        *(["--sensitivity"] * (layout != "csv")),
    )
    assert answer.code == 1
    assert "\x1b" not in answer.err
    if layout != "csv":  # which keeps what it is given, for programs
        assert "\x1b" not in answer.out
        assert "\u202e" not in answer.out
