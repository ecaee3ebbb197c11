"""`assay trec_eval`: the bytes of trec_eval 10.0, by its own flags, and what is refused."""

from __future__ import annotations

import random
import shutil
import subprocess
from pathlib import Path

import pytest

from assay.compat.trec_eval import trec_eval
from assay.errors import MeasureError, MismatchError

_PARAMS = (
    "-q -miprec_at_recall..10,.20,.25,.75,.50 -m P.5,7,3 -m recall.20,2000 "
    "-m Rprec_mult.5.0,0.2,0.35 -mutility.2,-1,0,0 -m 11pt_avg..25,.5,.75 "
    "-mndcg.1=3,2=9,4=4.5 -mndcg_cut.10,20,23.4 -msuccess.2,5,20"
)
_GOLDEN = [
    ("", "qrels.test", "results.test", "out.test"),
    ("", "qrels.test.with-comments", "results.test", "out.test"),
    ("", "qrels.comment.test", "results.comment.test", "out.comment.test"),
    ("-m all_trec", "qrels.test", "results.test", "out.test.a"),
    ("-m all_trec -q", "qrels.test", "results.test", "out.test.aq"),
    ("-m all_trec -q -c", "qrels.test", "results.trunc", "out.test.aqc"),
    ("-m all_trec -qc -M100", "qrels.test", "results.trunc", "out.test.aqcM"),
    ("-m all_trec -mrelstring.20 -q -l2", "qrels.rel_level", "results.test", "out.test.aql"),
    (_PARAMS, "qrels.test", "results.test", "out.test.meas_params"),
]


@pytest.mark.parametrize(("flags", "qrels", "run", "expected"), _GOLDEN)
def test_the_programs_own_test_files(data_dir, assay, flags, qrels, run, expected):
    folder = data_dir("trec_eval_tests")
    answer = assay("trec_eval", *flags.split(), folder / qrels, folder / run)
    assert answer.code == 0
    assert answer.out == (folder / expected).read_text()


# Two queries by hand. q1: grades 1, -, 0, 2 of a, b, c, d at ranks 1 to 4, and e of grade 1 is not
# found; q2 is judged and not in the run.
QRELS = "q1 0 a 1\nq1 0 c 0\nq1 0 d 2\nq1 0 e 1\nq2 0 a 1\n"
RUN = "q1 Q0 d 4 1 t\nq1 Q0 c 3 2 t\nq1 Q0 b 2 3 t\nq1 Q0 a 1 4 t\n"


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, str]:
    (tmp_path / "qrels.txt").write_text(QRELS)
    (tmp_path / "run.txt").write_text(RUN)
    monkeypatch.chdir(tmp_path)
    return "qrels.txt", "run.txt"


def test_flags_choose_the_lines(assay, files):
    q1 = "map                   \tq1\t0.5000\n"
    q2 = "map                   \tq2\t0.0000\n"
    half = "map                   \tall\t0.5000\n"
    whole = "map                   \tall\t0.2500\n"
    assert assay("trec_eval", "-m", "map", *files).out == half
    assert assay("trec_eval", "-q", "-m", "map", *files).out == q1 + half
    assert assay("trec_eval", "-c", "-m", "map", *files).out == whole
    assert assay("trec_eval", "-cqn", "-mmap", *files).out == q1 + q2
    assert assay("trec_eval", "-n", "-m", "map", *files).out == ""
    level = assay("trec_eval", "-l2", "-m", "map", *files).out
    assert level == "map                   \tall\t0.2500\n"
    first = assay("trec_eval", "-M", "1", "-m", "map", *files).out
    assert first == "map                   \tall\t0.3333\n"


def test_remarks_go_to_stderr_only(assay, files):
    answer = assay("trec_eval", "-m", "map", *files)
    assert "1 judged queries are not in the run; -c counts them as 0" in answer.err


@pytest.mark.parametrize(
    ("measure", "value"),
    [
        ("relstring", "'1-02'"),
        ("relstring.2", "'1-'"),
        ("utility", "0.0000"),  # 2 found, 2 others
        ("utility.1,-0.5,-2,0.25", "2.7500"),  # and 1 missed, 20 - 2 - 3 = 15 of the rest
        ("set_map", "0.3333"),  # 2 · 2 / (4 · 3)
        ("set_F.3", "0.6154"),  # 4 · ½ · ⅔ / (3 · ½ + ⅔)
        ("binG", "0.5000"),  # (1 / log2 2 + 1 / log2 4) / 3
        ("yaap", "0.0000"),  # ln((1 + 1.5) / (1 + 3 - 1.5))
        ("dcg", "1.8614"),  # 1 / log2 2 + 2 / log2 5
        ("ideal_dcg", "3.1309"),  # 2 + 1 / log2 3 + 1 / log2 4
        ("ideal_dcg.2=1", "2.1309"),
        ("G", "0.4077"),  # (1 / log2(2 + 2 - 1) + 2 / log2(2 + 5 - 3)) / 4
        ("unj.2,4", "0.5000"),
        ("rbp_resid.p=0.5", "0.3125"),  # p⁴ + (1 - p) p
    ],
)
def test_measures_by_hand(files, measure, value):
    text = trec_eval(*files, [measure], per_query=True, n_docs=20)
    assert text.split("\n")[0].split("\t")[2] == value


def test_the_judged_documents_alone(files):
    text = trec_eval(*files, ["relstring", "num_ret", "map"], per_query=True, judged_only=True)
    assert [line.split("\t")[2] for line in text.split("\n")[:3]] == ["3", "0.5556", "'102'"]


def _random_files(folder: Path, chance: random.Random) -> tuple[str, str]:
    """Judgments with negative grades and empty queries, and a run with many ties."""
    docs = [f"d{i}" for i in range(chance.choice((4, 12, 40)))]
    qrels, run = [], []
    for query in map(str, chance.sample(range(100), 6)):
        low = chance.choice((0, 0, -1))
        judged = chance.sample(docs, chance.randint(1, len(docs)))
        qrels += [f"{query} 0 {judged[0]} {chance.randint(0, 1)}"]
        qrels += [f"{query} 0 {doc} {chance.randint(low, 3)}" for doc in judged[1:]]
        found = chance.sample(docs, chance.randint(1, len(docs)))
        run += [f"{query} Q0 {doc} 0 {chance.randint(0, 4) / 3} tag" for doc in found]
    for name, lines in (("q", qrels), ("r", run)):
        chance.shuffle(lines)
        (folder / name).write_text("\n".join(lines) + "\n")
    return str(folder / "q"), str(folder / "r")


_FLAGS = ("-q", "-qc", "-c", "-qn", "-ql2", "-qcl3", "-qM5", "-qcM1")
_ASKED = ("official", "all_trec", "set", "P.1,3", "dcg", "yaap", "ndcg.1=3,2=9", "G.1=2", "unj.1")


@pytest.mark.parametrize("number", range(12))
def test_bytes_of_the_program_that_is_installed(tmp_path, assay, number):
    program = shutil.which("trec_eval")
    if program is None:
        pytest.skip("trec_eval is not on the PATH")
    chance = random.Random(number)
    paths = _random_files(tmp_path, chance)
    for flags in _FLAGS:
        asked = ["-m", chance.choice(_ASKED), flags]
        theirs = subprocess.run([program, *asked, *paths], capture_output=True, check=True)
        assert assay("trec_eval", *asked, *paths).out == theirs.stdout.decode(), asked


_ONLY_THERE = ("infAP", "binG", "G", "ndcg_rel", "Rndcg", "set_map", "utility", "rbp")


@pytest.mark.parametrize("number", range(6))
def test_numbers_of_pytrec_eval(tmp_path, number):
    """What Assay has no measure of its own for; the package has the formulas of trec_eval 9."""
    theirs = pytest.importorskip("pytrec_eval")
    names = sorted({*_ONLY_THERE, "ndcg", "set_F"} & set(theirs.supported_measures))
    assert len(names) > 6
    qrels, run = _random_files(tmp_path, random.Random(number))
    with open(qrels) as judged, open(run) as ranked:
        evaluator = theirs.RelevanceEvaluator(theirs.parse_qrel(judged), set(names))
        wanted = evaluator.evaluate(theirs.parse_run(ranked))
    found: dict[str, dict[str, float]] = {}
    for line in trec_eval(qrels, run, names, per_query=True, summary=False).split("\n"):
        name, query, value = line.split("\t")
        found.setdefault(query, {})[name.strip()] = float(value)
    assert found.keys() == wanted.keys()
    for query, values in found.items():
        assert values == pytest.approx(wanted[query], abs=5.1e-5), query


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ("-R prefs", "-R of trec_eval is not supported but for -R qrels"),
        ("-T other", "-T of trec_eval is not supported but for -T trec_results"),
        ("-D 1", "-D of trec_eval is not supported"),
        ("-Z scores", "-Z of trec_eval is not supported"),
        ("-m prefs", "trec_eval is not supported (preferences or several"),
        ("-m map_avgjg", "trec_eval is not supported (preferences or several"),
        ("-m mapp", "trec_eval has no measure 'mapp'. Did you mean map"),
        ("-m ndcg@10", "trec_eval has no measure 'ndcg@10'"),
        ("-m map.5", "map takes no such parameters"),
        ("-m P.", "P takes no such parameters"),
        ("-m P.0", ": invalid cutoffs"),
        ("-m P.5,5", ": invalid cutoffs"),
        ("-m P.five", "'five', a parameter of P, is not a number"),
        ("-m G.3", "G.3: cannot read gains"),
        ("-m P.\u0663", "is not a number"),
        ("-m P." + "9" * 400, "99999999999999999999…, a parameter of"),
        ("-m rbp." + "9" * 400, "99999999999999999999…, a parameter of"),
        ("-m G.1=" + "9" * 400, "99999999999999999999…, a parameter of"),
        ("-m utility.1,1,1," + "9" * 400, "99999999999999999999…, a parameter of"),
        ("-m rbp.2", ": the persistence is out of range"),
        ("-m rbp_resid.p=-0.1", ": the persistence is out of range"),
        ("-m utility.1,2", "utility takes 4 numbers, found 2"),
    ],
)
def test_what_is_not_there_says_so(assay, files, flags, words):
    answer = assay("trec_eval", *flags.split(), *files)
    assert (answer.code, answer.out) == (2, "")
    assert words in answer.err


def test_a_weight_that_cancels_out_is_no_division():
    qrels, run = {"q": {"a": 1}}, {"q": {"a": 1.0}}
    assert trec_eval(qrels, run, ["set_F.-1"]).split()[-1] == "0.0000"


def test_flags_that_change_nothing_are_taken(assay, files):
    plain = assay("trec_eval", *files).out
    assert assay("trec_eval", "-R", "qrels", "-T", "trec_results", *files).out == plain
    assert plain.startswith("runid                 \tall\tt\nnum_q                 \tall\t1\n")


def test_the_first_parameters_of_a_measure_hold(files):
    once = trec_eval(*files, ["P.2"])
    assert trec_eval(*files, ["P.2", "P.3"]) == once
    assert once.split("\t")[0].strip() == "P_2"
    with pytest.raises(MeasureError, match="no such parameters"):
        trec_eval(*files, ["official.3"])


def test_no_query_in_common_is_refused(files):
    with pytest.raises(MismatchError, match="No query is both in the run and judged"):
        trec_eval({"other": {"a": 1}}, files[1])
