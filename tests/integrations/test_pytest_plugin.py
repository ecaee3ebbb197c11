"""The plugin of pytest: baselines are recorded and read, and a failure holds the verdict."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from assay import Scores, evaluate, preset
from assay.errors import FormatError, UsageError
from assay.integrations import assert_at_least, assert_not_worse
from assay.runs.record import RunRecord
from assay.scoring.score_data import load_scores, save_scores
from tests.docs_pages import ROOT, blocks
from tests.integrations.conftest import OPTIONS

pytest_plugins = ["pytester"]
N = 60
FILE = "tests/baselines/test_it.py_test_ranking-*.json"


def scores_of(quality: float, n: int = N, **settings: object) -> Scores:
    """One relevant document a query, first with this probability, else third."""
    rng = np.random.default_rng(3)
    first = rng.random(n) < quality
    run = {f"q{i}": {"x": 2.0, "y": 1.5, "rel": 3.0 if first[i] else 1.0} for i in range(n)}
    return evaluate(run, {query: {"rel": 1} for query in run}, ["nDCG@10", "RR"], **settings)


TEST = """
    import sys
    sys.path.insert(0, {root!r})
    from assay.integrations import assert_not_worse
    from tests.integrations.test_pytest_plugin import scores_of

    def test_ranking(assay_baseline):
        scores = scores_of({quality}, {n})
        assert_not_worse(scores, assay_baseline(scores), "nDCG@10", margin=0.05)
"""


def write_test(pytester: pytest.Pytester, quality: float, n: int = N) -> None:
    root = str(Path(__file__).resolve().parents[2])
    pytester.makepyfile(test_it=TEST.format(root=root, quality=quality, n=n))


def test_a_missing_baseline_is_recorded_only_when_asked(pytester, run_pytest):
    write_test(pytester, 0.8)
    done = run_pytest()
    done.assert_outcomes(failed=1)
    done.stdout.fnmatch_lines([f"*no baseline {FILE}*"])
    recorded = run_pytest("--assay-update-baseline")
    recorded.assert_outcomes(passed=1)
    recorded.stdout.fnmatch_lines([f"assay: recorded *{FILE}"])
    run_pytest().assert_outcomes(passed=1)


def test_a_worse_ranking_fails_with_its_verdict(pytester, run_pytest):
    write_test(pytester, 0.8)
    run_pytest("--assay-update-baseline")
    write_test(pytester, 0.4)
    done = run_pytest()
    done.assert_outcomes(failed=1)
    done.stdout.fnmatch_lines(
        [
            "*new may lose 0.05 or more against baseline on nDCG@10: −0.*at least −0.*p = *",
            "*nDCG@10: 0.* against 0.*, n = 60 queries: 0 better, * worse, * equal*",
            "*most lost: q* −0.5000*",
            "*verdict: baseline is better than new on nDCG@10. Lead +0.* (95 % CI +0.*p < 0.0001)*",
            "*signature: preset:trec_eval|*",
            "*Inspect these queries first.*",
        ]
    )


def test_other_queries_fail_and_are_named(pytester, run_pytest):
    write_test(pytester, 0.8)
    run_pytest("--assay-update-baseline")
    write_test(pytester, 0.8, n=50)
    done = run_pytest()
    done.assert_outcomes(failed=1)
    done.stdout.fnmatch_lines(["*the queries differ: 10 only in baseline: 'q50', 'q51'*"])


def test_two_tests_may_share_a_baseline_of_the_same_scores_only(pytester, run_pytest):
    root = str(Path(__file__).resolve().parents[2])
    pytester.makepyfile(
        f"""
        import sys
        sys.path.insert(0, {root!r})
        import pytest
        from tests.integrations.test_pytest_plugin import scores_of

        @pytest.mark.parametrize("quality", [0.8, 0.8, 0.4])
        def test_shared(assay_baseline, quality):
            assay_baseline(scores_of(quality), "shared")
        """
    )
    done = run_pytest("--assay-update-baseline")
    done.assert_outcomes(passed=2, failed=1)
    done.stdout.fnmatch_lines(["*shared-*.json was recorded with different scores*"])


def write_tests(pytester: pytest.Pytester, **bodies: str) -> None:
    """Write a module for each path, with `__` for a slash."""
    root = str(Path(__file__).resolve().parents[2])
    head = f"import sys\nsys.path.insert(0, {root!r})\nimport pytest\n"
    head += "from assay.integrations import assert_not_worse\n"
    head += "from tests.integrations.test_pytest_plugin import scores_of\n"
    for path, body in bodies.items():
        file = pytester.path / f"{path.replace('__', '/')}.py"
        file.parent.mkdir(exist_ok=True)
        file.write_text(head + body)
    pytester.makeini("[pytest]\naddopts = --import-mode=importlib")


PLAIN = """
def test_quality(assay_baseline):
    scores = scores_of({})
    assert_not_worse(scores, assay_baseline(scores), "nDCG@10")
"""
CLASSES = """
class Test{}:
    def test_quality(self, assay_baseline):
        scores = scores_of({})
        assert_not_worse(scores, assay_baseline(scores), "nDCG@10")
"""
PARAMETERS = """
@pytest.mark.parametrize("name, quality", [("a/b", {}), ("a_b", {}), ("a b", {}), ("a" * 300, {})])
def test_quality(assay_baseline, name, quality):
    scores = scores_of(quality)
    assert_not_worse(scores, assay_baseline(scores), "nDCG@10")
"""
NAMES = """
@pytest.mark.parametrize("name, quality", [("a/b", {}), ("a_b", {}), ("A_b", {})])
def test_quality(assay_baseline, name, quality):
    scores = scores_of(quality)
    assert_not_worse(scores, assay_baseline(scores, name), "nDCG@10")
"""


@pytest.mark.parametrize(
    ("good", "bad"),
    [
        (
            {
                "test_dense__test_quality": PLAIN.format(0.9),
                "test_lexical__test_quality": PLAIN.format(0.4),
            },
            {"test_dense__test_quality": PLAIN.format(0.4)},
        ),
        (
            {"test_quality": CLASSES.format("Dense", 0.9) + CLASSES.format("Lexical", 0.4)},
            {"test_quality": CLASSES.format("Dense", 0.4) + CLASSES.format("Lexical", 0.4)},
        ),
        (
            {"test_quality": PARAMETERS.format(0.9, 0.4, 0.5, 0.6)},
            {"test_quality": PARAMETERS.format(0.4, 0.4, 0.5, 0.6)},
        ),
        (
            {"test_quality": NAMES.format(0.9, 0.4, 0.5)},
            {"test_quality": NAMES.format(0.4, 0.4, 0.5)},
        ),
    ],
)
def test_every_test_has_a_baseline_of_its_own(pytester, run_pytest, good, bad):
    write_tests(pytester, **good)
    recorded = run_pytest("--assay-update-baseline").parseoutcomes()
    # In this process `assay` is imported already, of which pytest may warn.
    assert set(recorded) - {"warnings"} == {"passed"}
    assert len(list((pytester.path / "tests/baselines").iterdir())) == recorded["passed"]
    run_pytest().assert_outcomes(passed=recorded["passed"])
    # Of another size, so that no compiled module of the same second is taken for it.
    write_tests(pytester, **{path: f"{body}# changed\n" for path, body in bad.items()})
    run_pytest().assert_outcomes(passed=recorded["passed"] - 1, failed=1)


def test_a_file_of_another_test_is_neither_read_nor_written(pytester, run_pytest):
    write_tests(pytester, test_a=PLAIN.format(0.9), test_b=PLAIN.format(0.4))
    run_pytest("--assay-update-baseline").assert_outcomes(passed=2)
    a, b = sorted((pytester.path / "tests/baselines").iterdir())
    assert '"test": "test_a.py::test_quality"' in a.read_text()
    a.write_bytes(b.read_bytes())
    for options in ((), ("--assay-update-baseline",)):
        done = run_pytest(*options)
        done.assert_outcomes(passed=1, failed=1)
        words = "is the baseline of test_b.py::test_quality, not of test_a.py::test_quality"
        assert words in done.stdout.str()
        assert a.read_bytes() == b.read_bytes()


def test_other_scores_are_noticed_before_they_are_written(pytester, run_pytest):
    body = """
def test_twice(assay_baseline):
    assay_baseline(scores_of(0.8))
    assay_baseline(scores_of(0.4))
"""
    write_tests(pytester, test_it=body)
    run_pytest("--assay-update-baseline").assert_outcomes(failed=1)
    (file,) = (pytester.path / "tests/baselines").iterdir()
    assert load_scores(file).values.tobytes() == scores_of(0.8).values.tobytes()


def test_a_damaged_file_is_recorded_anew(pytester, run_pytest):
    write_test(pytester, 0.8)
    run_pytest("--assay-update-baseline").assert_outcomes(passed=1)
    (file,) = (pytester.path / "tests/baselines").iterdir()
    file.write_text("{")
    run_pytest().assert_outcomes(failed=1)
    run_pytest("--assay-update-baseline").assert_outcomes(passed=1)
    run_pytest().assert_outcomes(passed=1)


@pytest.mark.parametrize("name", ["", "dense"])
def test_a_file_of_the_old_naming_is_named_and_not_read(pytester, run_pytest, name):
    write_tests(
        pytester, test_it=PLAIN.replace("(scores)", f"(scores, {name!r} or None)").format(1)
    )
    old = pytester.path / "tests/baselines" / f"{name or 'test_it-test_quality'}.json"
    old.parent.mkdir(parents=True)
    save_scores(scores_of(0.4), old)
    done = run_pytest()
    done.assert_outcomes(failed=1)
    assert f"{old.name} is obsolete" in done.stdout.str()
    assert "then delete the old file" in done.stdout.str()
    recorded = run_pytest("--assay-update-baseline")
    recorded.assert_outcomes(passed=1)
    recorded.stdout.fnmatch_lines([f"assay: *{old.name} is obsolete: delete it"])
    old.unlink()
    run_pytest().assert_outcomes(passed=1)


def test_the_folder_of_baselines_is_a_setting(pytester, run_pytest):
    write_test(pytester, 0.8)
    pytester.makeini("[pytest]\nassay_baselines = kept")
    run_pytest("--assay-update-baseline").assert_outcomes(passed=1)
    assert len(list((pytester.path / "kept").glob("test_it.py_test_ranking-*.json"))) == 1


@pytest.mark.slow
def test_workers_of_xdist_record_too(pytester):
    write_test(pytester, 0.8)
    done = pytester.runpytest_subprocess(*OPTIONS, "-n", "1", "--assay-update-baseline")
    done.assert_outcomes(passed=1)
    done.stdout.fnmatch_lines(["assay: recorded *test_it.py_test_ranking-*.json"])


@pytest.mark.slow
def test_workers_of_xdist_do_not_share_a_name_in_silence(pytester):
    pytest.importorskip("xdist")
    body = """
def test_quality(assay_baseline):
    assay_baseline(scores_of({}), "shared")
"""
    write_tests(pytester, test_a=body.format(0.9), test_b=body.format(0.4))
    options = ("-n", "2", "--dist", "loadfile", "--assay-update-baseline")
    done = pytester.runpytest_subprocess(*OPTIONS, *options)
    assert done.ret == 1
    assert "use two names" in done.stdout.str()


def test_the_plugin_loads_no_numbers():
    code = (
        "import sys, pytest; before = set(sys.modules); import assay.integrations.pytest_plugin;"
        "import json; print(json.dumps(sorted(set(sys.modules) - before)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    ours = [name for name in json.loads(done.stdout) if name.split(".")[0] in ("assay", "numpy")]
    assert ours == [
        "assay",
        "assay.core",
        "assay.core.on_demand",
        "assay.integrations",
        "assay.integrations.pytest_plugin",
    ]


def test_pyproject_names_the_plugin():
    import tomllib

    text = (Path(__file__).resolve().parents[2] / "pyproject.toml").read_text("utf-8")
    points = tomllib.loads(text)["project"]["entry-points"]["pytest11"]
    assert points == {"assay": "assay.integrations.pytest_plugin"}


def test_the_same_scores_are_not_worse():
    comparison = assert_not_worse(scores_of(0.8), scores_of(0.8), ["nDCG@10", "RR"], margin=0.01)
    assert comparison.n_queries == N


def test_without_a_margin_only_a_significant_loss_fails():
    assert_not_worse(scores_of(0.75), scores_of(0.8), "RR")
    with pytest.raises(AssertionError, match="new is worse than baseline on RR"):
        assert_not_worse(scores_of(0.4), scores_of(0.8), "RR")


def test_records_and_files_are_baselines(tmp_path):
    file = tmp_path / "old.json"
    save_scores(scores_of(0.8), file)
    assert_not_worse(RunRecord("new", scores_of(0.8)), file, "RR", margin=0.01)
    assert_not_worse(scores_of(0.8), RunRecord("old", scores_of(0.8)), "RR", margin=0.01)
    with pytest.raises(UsageError, match="found dict"):
        assert_not_worse({"q": 1}, file, "RR")


def test_too_few_queries_are_said_to_be_too_few():
    with pytest.raises(
        AssertionError,
        match=r"preset:trec_eval\|ties:order\|tiebreak:id-descending\|scores:float64\|gain:linear\|ideal:judged\|ap:R\|recall:R\|iprec:round\|empty:zero\|missing:zero\|self:keep\|depth:all\|version:0\.2\.0\|engine:native\|baseline:baseline\|test:randomisation\|correction:max-t\|level:0\.05\|interval:auto\|resamples:10000\|seed:0\|margin:0",
    ):
        assert_not_worse(scores_of(0.74), scores_of(0.8), "RR", margin=0.06)


def test_a_margin_that_these_queries_cannot_show_is_refused():
    with pytest.raises(UsageError, match=r"60 queries cannot rule out a loss of 0\.01 on RR"):
        assert_not_worse(scores_of(0.75), scores_of(0.8), "RR", margin=0.01)
    with pytest.raises(UsageError, match="A margin needs at least 20 queries; RR has 12"):
        assert_not_worse(scores_of(0.8, 12), scores_of(0.6, 12), "RR", margin=0.5)


@pytest.mark.parametrize("n", [1, 2, 5, N])
@pytest.mark.parametrize("margin", [None, 0.001])
def test_the_same_scores_pass_on_few_queries(n, margin):
    assert_not_worse(scores_of(0.8, n), scores_of(0.8, n), ["nDCG@10", "RR"], margin=margin)


@pytest.mark.parametrize(
    ("changed", "outcome"),
    [
        ("", {"passed": 1}),
        ("better", {"passed": 1}),
        ("worse", {"failed": 1}),
        ("missing", {"failed": 1}),
        ("truncated", {"failed": 1}),
        ("other queries", {"failed": 1}),
    ],
)
def test_the_documented_test_on_every_kind_of_run(pytester, run_pytest, changed, outcome):
    def write_run(first: int) -> str:
        order = {True: ("rel", "x", "y"), False: ("x", "y", "rel")}
        lines = [
            f"q{i} Q0 {doc} {rank} {4 - rank} t\n"
            for i in range(N)
            for rank, doc in enumerate(order[i < first], 1)
        ]
        (pytester.path / "dense.run").write_text("".join(lines))
        return "".join(lines)

    (code,) = blocks(ROOT / "docs" / "ci.md", "python")
    pytester.makepyfile(test_it=code.text)
    (pytester.path / "qrels.txt").write_text("".join(f"q{i} 0 rel 1\n" for i in range(N)))
    text = write_run(40)
    run_pytest("--assay-update-baseline").assert_outcomes(passed=1)
    if changed in ("better", "worse"):
        write_run({"better": 55, "worse": 10}[changed])
    elif changed == "missing":
        (pytester.path / "dense.run").unlink()
    elif changed == "truncated":
        (pytester.path / "dense.run").write_text(text[: len(text) // 2].rsplit(" ", 2)[0])
    elif changed == "other queries":
        (pytester.path / "dense.run").write_text(text.replace("q", "other"))
    done = run_pytest()
    done.assert_outcomes(**outcome)
    if changed == "worse":
        done.stdout.fnmatch_lines(["*new is worse than baseline on nDCG@10: −0.*"])


def test_other_conventions_fail_and_are_named():
    with pytest.raises(AssertionError, match="different conventions: gain is exp and linear"):
        assert_not_worse(
            scores_of(0.8, conventions=preset("trec_eval").replace(gain="exp")),
            scores_of(0.8),
            "RR",
        )


def test_other_settings_fail_unless_allowed():
    other = scores_of(0.8).but_settings(metric="dot")
    with pytest.raises(AssertionError, match="signatures differ: metric is dot, was not set"):
        assert_not_worse(other, scores_of(0.8), "RR")
    assert_not_worse(other, scores_of(0.8), "RR", allow_other_settings=True)


def test_a_query_without_an_answer_is_a_loss_and_not_another_query():
    qrels = {f"q{i}": {"rel": 1} for i in range(N)}
    run = {query: {"rel": 1.0} for query in qrels}
    whole = evaluate(run, qrels, "RR")
    part = evaluate(dict(list(run.items())[:30]), qrels, "RR")
    assert_not_worse(whole, part, "RR")
    with pytest.raises(AssertionError, match="new is worse than baseline on RR"):
        assert_not_worse(part, whole, "RR")


def test_a_measure_that_the_baseline_lacks_is_named():
    with pytest.raises(UsageError, match="AP was not computed"):
        assert_not_worse(scores_of(0.8), scores_of(0.8), "AP")


def test_a_floor_of_the_mean():
    assert_at_least(scores_of(0.8), "nDCG@10", 0.5)
    with pytest.raises(AssertionError, match=r"nDCG@10 is 0\.\d{4} \[.*over n = 60 queries, below"):
        assert_at_least(scores_of(0.4), "nDCG@10", 0.9)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"layout": "assay scores 1"', '"layout": "other"', "holds no scores"),
        ("0.5", "0.6", "does not match its digest"),
        ("{", "", "not JSON"),
    ],
)
def test_a_file_that_was_changed_is_refused(tmp_path, old, new, message):
    file = tmp_path / "scores.json"
    save_scores(scores_of(0.8), file)
    file.write_text(file.read_text("utf-8").replace(old, new, 1), "utf-8")
    with pytest.raises(FormatError, match=message):
        load_scores(file)


def test_saved_scores_come_back_with_every_bit(tmp_path):
    scores = scores_of(0.8).with_groups(kind={f"q{i}": str(i % 3) for i in range(N)})
    save_scores(scores, tmp_path / "s.json")
    back = load_scores(tmp_path / "s.json")
    assert back.values.tobytes() == scores.values.tobytes()
    assert back.signature == scores.signature
    assert list(back.groups["kind"]) == list(scores.groups["kind"])
    assert back.query_ids == scores.query_ids


RETRIEVER = """
    import sys
    sys.path.insert(0, {root!r})
    from assay.integrations import assert_at_least, assert_not_worse
    from tests.bench.test_retrievers import DATA, shared_words

    def retrieve(text, k):
        return shared_words(text, k)[::{step}]

    def test_retriever(assay_baseline):
        assert_at_least(retrieve, "RR", 0.01, collection=DATA)
        assert_not_worse(retrieve, assay_baseline, "RR", collection=DATA)
"""


def test_a_retriever_and_a_collection_in_one_assertion(pytester, run_pytest):
    root = str(Path(__file__).resolve().parents[2])
    pytester.makepyfile(test_it=RETRIEVER.format(root=root, step=1))
    run_pytest("--assay-update-baseline").assert_outcomes(passed=1)
    run_pytest().assert_outcomes(passed=1)
    pytester.makepyfile(test_it=RETRIEVER.format(root=root, step=-1))
    done = run_pytest()
    done.assert_outcomes(failed=1)
    done.stdout.fnmatch_lines(["*RR: * against *, n = 25 queries*"])


def test_a_retriever_below_the_limit() -> None:
    from tests.bench.test_retrievers import DATA, shared_words

    with pytest.raises(AssertionError, match=r"RR is 0\.\d+ .* below 2"):
        assert_at_least(shared_words, "RR", 2, collection=DATA)
    with pytest.raises(UsageError, match="file, or a retriever with a collection"):
        assert_at_least(shared_words, "RR", 0.5)
