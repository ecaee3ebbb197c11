"""Systems on many tasks: by definition, without contradictions, and what is refused."""

from __future__ import annotations

import json
import math
from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay import compare_tasks
from assay.comparison.standings import pair_data
from assay.errors import (
    AssayError,
    FormatError,
    IdError,
    MismatchError,
    UsageError,
    ValueRangeError,
)
from assay.runs.record import RunRecord
from assay.stats import compare_jointly, rank_intervals
from assay.stats.corrections import split_letters
from assay.tasks.comparison import borda_points
from tests.comparison.made_scores import scores_of, with_users
from tests.examples import examples

RNG = np.random.default_rng(4)


def records(values, tasks, names=None):
    """A record for each system and query; `tasks` has the task of each query."""
    names = names or [f"s{i}" for i in range(len(values))]
    return [
        {"system": name, "task": task, "query": f"q{number:04}", "value": float(value)}
        for name, row in zip(names, values, strict=True)
        for number, (task, value) in enumerate(zip(tasks, row, strict=True))
    ]


def means_of(values, names=None):
    """A record for each system and task."""
    names = names or [f"s{i}" for i in range(len(values))]
    return [
        {"model": name, "task": f"t{number}", "score": float(value)}
        for name, row in zip(names, values, strict=True)
        for number, value in enumerate(row)
    ]


def made(systems: int, sizes: list[int], seed: int = 0, kind: str = "any"):
    rng = np.random.default_rng(seed)
    tasks = [f"t{i}" for i, n in enumerate(sizes) for _ in range(n)]
    values = rng.random((systems, len(tasks))) * 0.8 + 0.2 * rng.random((systems, 1))
    if kind == "ties":
        values = np.round(values, 1)
    elif kind == "binary":
        values = (values < 0.5).astype(float)
    elif kind == "shifted":
        values = values[0] * 0.5 + np.linspace(0, 0.4, systems)[:, None]
    elif kind == "twins":
        values[1] = values[0]
    return values, tasks


# By definition


def test_means_and_errors() -> None:
    values, tasks = made(3, [5, 40, 11])
    found = compare_tasks(records(values, tasks), resamples=300)
    labels = np.array(tasks)
    for pair in found.pairs:
        d = values[int(pair.a[1])] - values[int(pair.b[1])]
        parts = [d[labels == task] for task in found.tasks]
        assert pair.difference == pytest.approx(np.mean([part.mean() for part in parts]))
        variance = sum(part.var(ddof=1) / len(part) for part in parts) / 9
        assert pair.error == pytest.approx(math.sqrt(variance))
        assert pair.n_units == 56
        wins = sum(part.mean() > 0 for part in parts)
        assert (pair.effect.wins, pair.effect.losses) == (wins, 3 - wins)
    for one in found.standings:
        row = values[int(one.name[1])]
        expected = np.mean([row[labels == task].mean() for task in found.tasks])
        assert one.mean.estimate == pytest.approx(expected)
        assert one.mean.low < expected < one.mean.high


def test_intervals_of_means_resample_queries_within_tasks() -> None:
    """With more than 5,000 queries they are Student's: the error is that of fixed tasks."""
    values, tasks = made(2, [100, 6000])
    values[:, :100] += 5  # a task far away adds nothing to the error
    found = compare_tasks(records(values, tasks), resamples=100)
    labels = np.array(tasks)
    for one in found.standings:
        parts = [values[int(one.name[1])][labels == task] for task in found.tasks]
        error = math.sqrt(sum(part.var(ddof=1) / len(part) for part in parts)) / 2
        assert one.mean.half_width == pytest.approx(1.96 * error, rel=0.01)


def test_tasks_as_units_are_a_comparison_of_their_means() -> None:
    values, tasks = made(4, [7] * 10)
    found = compare_tasks(records(values, tasks), units="tasks", resamples=400)
    means = values.reshape(4, 10, 7).mean(axis=2)
    expected = compare_jointly(means, list(combinations(range(4), 2)), resamples=400)
    assert [pair.p for pair in found.pairs] == pytest.approx(expected.p.tolist())
    only_means = compare_tasks(means_of(means), resamples=400)
    assert only_means.units == "tasks"
    assert [pair.p for pair in only_means.pairs] == pytest.approx(expected.p.tolist())
    assert np.allclose(only_means.task_means, means)


def test_borda_is_that_of_mteb() -> None:
    pandas = pytest.importorskip("pandas")
    means = np.round(RNG.random((9, 14)), 1)
    table = pandas.DataFrame(means)
    counts = table.apply(lambda one: len(one) - one.rank(method="average", ascending=False))
    assert borda_points(means) == pytest.approx(counts.to_numpy())
    ranks = counts.sum(axis=1).rank(method="min", ascending=False)
    found = compare_tasks(means_of(means), resamples=200)
    for one in found.standings:
        number = int(one.name[1])
        assert one.borda == counts.sum(axis=1)[number]
        tied = (counts.sum(axis=1) == one.borda).sum()
        assert one.borda_rank.rank == ranks[number] + (tied - 1) / 2  # ours share the mean rank


def test_means_that_differ_by_rounding_tie() -> None:
    assert borda_points([[0.1 + 0.2], [0.3]]).tolist() == [[0.5], [0.5]]


def test_neighbours_are_counted() -> None:
    values, tasks = made(6, [30, 30], seed=1)
    values[:3] += 3
    found = compare_tasks(records(values, tasks), resamples=300)
    ranked = [one.name for one in found.standings]
    unclear = sum(found.pair(a, b).winner is None for a, b in pairwise(ranked))
    assert found.neighbours == (unclear, 5)
    assert f"{unclear} of 5 neighbouring pairs of the ranking" in found.verdict
    assert found.to_dict()["neighbours"] == {"not_separable": unclear, "all": 5}


def test_these_tasks_and_tasks_like_these_are_two_questions() -> None:
    values, tasks = made(2, [50] * 5, kind="any")
    values[0] = values[1] + 0.1 + 0.05 * RNG.random(250)
    here = compare_tasks(records(values, tasks), resamples=500)
    assert here.pairs[0].winner == "s0"
    assert "within tasks: results hold for these tasks" in here.method
    anywhere = compare_tasks(records(values, tasks), units="tasks", resamples=500)
    assert anywhere.pairs[0].outcome == "undecided"
    assert "Too few tasks (5) to compare " in anywhere.verdict
    assert "even a clean sweep gives p ≥ 0.0625" in anywhere.verdict
    assert "results generalise to similar tasks" in anywhere.method


# No contradictions


def contradictions(found, level):
    letters = {one.name: set(split_letters(one.letters)) for one in found.standings}
    for pair in found.pairs:
        decided = pair.winner is not None
        if decided and pair.p > level:
            yield f"{pair}: a winner with p {pair.p}"
        if not math.isnan(pair.interval.low):
            outside = pair.interval.low > 0 or pair.interval.high < 0
            if outside != (pair.p <= level) or outside != decided:
                yield f"{pair}: {pair.interval}"
        if any(letters.values()) and bool(letters[pair.a] & letters[pair.b]) == decided:
            yield f"{pair}: letters {letters}"
    for one in found.standings:
        if math.isnan(one.rank.low):
            continue
        better = sum(pair.loser == one.name for pair in found.pairs)
        worse = sum(pair.winner == one.name for pair in found.pairs)
        if (one.rank.low, one.rank.high) != (1 + better, len(found.names) - worse):
            yield f"{one}: {better} better, {worse} worse"


@examples(80)
@given(
    st.integers(2, 5),
    st.lists(st.integers(3, 15), min_size=1, max_size=9),
    st.sampled_from(["any", "ties", "binary", "shifted", "twins"]),
    st.sampled_from(["queries", "tasks"]),
    st.sampled_from([0.01, 0.05, 0.2]),
    st.integers(0, 2**32 - 1),
)
def test_no_two_answers_disagree(systems, sizes, kind, units, level, seed) -> None:
    values, tasks = made(systems, sizes, seed, kind)
    found = compare_tasks(records(values, tasks), units=units, level=level, resamples=200)
    assert list(contradictions(found, level)) == []
    text = str(found)
    assert "-0.0000" not in text
    assert "nan" not in text.lower().replace("nanmsmarco", "")
    json.dumps(found.to_dict(), allow_nan=False)
    assert "<table" in found._repr_html_()


def test_identical_systems() -> None:
    values, tasks = made(3, [10, 10])
    found = compare_tasks(records(np.tile(values[0], (3, 1)), tasks), resamples=200)
    assert "s0, s1 and s2 are identical on the mean over 2 tasks: equal on all 2 tasks" in repr(
        found
    )
    # The same means of all tasks, but other queries: not the same system.
    turned = np.stack([values[0], np.r_[values[0][:10][::-1], values[0][10:][::-1]]])
    swapped = compare_tasks(records(turned, tasks), resamples=200)
    assert swapped.pairs[0].outcome == "not separable"
    few = [values[0][:3], values[0][:3][::-1]]
    untestable = compare_tasks(records(np.stack(few), tasks[:3]), resamples=200)
    assert untestable.pairs[0].outcome == "undecided"
    assert "Too few queries (3) to compare" in untestable.verdict


@pytest.mark.parametrize("sizes", [[10, 20], [10, 10]])
def test_a_constant_system_has_an_interval_only_where_the_bounds_are_known(sizes) -> None:
    values, tasks = made(2, sizes)
    values[0] = 1.0
    table = compare_tasks(records(values, tasks), resamples=200)
    best = next(one for one in table.standings if one.name == "s0")
    assert math.isnan(best.mean.low)
    assert "no intervals of means" in repr(table)
    scored = {
        name: {"a": scores_of(row[:10]), "b": scores_of(row[10:])}
        for name, row in zip(("s0", "s1"), values, strict=True)
    }
    best = next(one for one in compare_tasks(scored).standings if one.name == "s0")
    assert 0.8 < best.mean.low < best.mean.high == 1.0


# Calibration


@pytest.mark.parametrize(
    ("units", "sims", "most"),
    [
        ("tasks", 50, 7),
        *(pytest.param(units, 200, 20, marks=pytest.mark.slow) for units in ("queries", "tasks")),
    ],
)
def test_equal_systems_are_seldom_separated(units: str, sims: int, most: int) -> None:
    """Five systems without a difference on these tasks, or on the population of tasks."""
    rng = np.random.default_rng(8)
    sizes = [8, 30, 60, 15, 25, 40, 10, 12]
    tasks = np.repeat(np.arange(8), sizes)
    wrong = 0
    for _ in range(sims):
        by_task = 0.2 * rng.normal(size=(5, 8))
        if units == "queries":
            by_task -= by_task.mean(axis=1, keepdims=True)
        noise = np.where(rng.random((5, len(tasks))) < 0.4, rng.random((5, len(tasks))), 0.0)
        found = compare_tasks(
            records(noise + by_task[:, tasks], [f"t{i}" for i in tasks]),
            units=units,
            resamples=300,
        )
        wrong += any(pair.winner for pair in found.pairs)
    assert wrong <= most


def test_many_small_tasks_are_not_taken_for_one_large() -> None:
    """Each task loses its own mean: without that, 10 % of these would be separated."""
    rng = np.random.default_rng(9)
    tasks = np.repeat(np.arange(20), 3)
    wrong = 0
    for _ in range(300):
        values = rng.normal(size=(2, 60)) + 0.3 * rng.normal(size=60)
        found = compare_jointly(
            values, [(0, 1)], blocks=tasks, contrasts=[[1 / 20] * 20], resamples=200
        )
        wrong += bool(found.p[0] <= 0.05)
    assert wrong <= 24


# Stored runs and scores


def runs_of(values, tasks, **more):
    labels = np.array(tasks)
    return [
        RunRecord(f"s{i}", scores_of(row[labels == task]), dataset=task, **more)
        for i, row in enumerate(values)
        for task in dict.fromkeys(tasks)
    ]


def test_runs_are_compared_by_their_datasets() -> None:
    values, tasks = made(3, [20, 12])
    found = compare_tasks(runs_of(values, tasks), resamples=300)
    table = compare_tasks(records(values, tasks), resamples=300)
    assert [pair.p for pair in found.pairs] == [pair.p for pair in table.pairs]
    assert "the mean of RR over 2 tasks" in found.verdict
    assert found.signature
    named = compare_tasks(runs_of(values, tasks), measure="RR", resamples=300)
    assert named.verdict == found.verdict
    with pytest.raises(UsageError, match="AP is not a mean of all runs"):
        compare_tasks(runs_of(values, tasks), measure="AP")


def test_groups_of_queries_stay_together() -> None:
    values, _ = made(2, [40, 40])
    users = [f"u{i // 4}" for i in range(40)]
    grouped = [
        RunRecord(
            f"s{i}", with_users(row[start : start + 40], users), dataset=task, clusters="user"
        )
        for i, row in enumerate(values)
        for task, start in (("a", 0), ("b", 40))
    ]
    found = compare_tasks(grouped, resamples=300)
    assert (found.pairs[0].n_units, found.pairs[0].units) == (20, "groups")
    parts = [(values[0] - values[1])[i : i + 40].reshape(10, 4).mean(axis=1) for i in (0, 40)]
    error = math.sqrt(sum(part.var(ddof=1) / 10 for part in parts)) / 2
    assert found.pairs[0].error == pytest.approx(error)


def test_runs_that_do_not_fit() -> None:
    values, tasks = made(2, [20, 12])
    runs = runs_of(values, tasks)
    with pytest.raises(MismatchError, match="'s0' has two runs on 't0'"):
        compare_tasks([*runs, runs[0]])
    with pytest.raises(MismatchError, match="names no dataset"):
        compare_tasks([run.replace(dataset="") for run in runs])
    with pytest.raises(UsageError, match="Pass Scores"):
        compare_tasks({"a": {"t": [0.1, 0.2]}})


# What is missing


def test_a_system_without_a_task_is_refused_unless_told() -> None:
    values, tasks = made(4, [10, 10, 10])
    rows = [row for row in records(values, tasks) if (row["system"], row["task"]) != ("s3", "t1")]
    with pytest.raises(MismatchError, match=r"'s3' lacks 't1'.*2 of 3 tasks.*3 systems"):
        compare_tasks(rows)
    fewer_tasks = compare_tasks(rows, missing="drop-task", resamples=200)
    assert fewer_tasks.tasks == ("t0", "t2")
    assert "1 tasks without a value of all systems omitted: 't1'" in str(fewer_tasks)
    fewer_systems = compare_tasks(rows, missing="drop-system", resamples=200)
    assert fewer_systems.names == ("s0", "s1", "s2")
    some = compare_tasks(rows, only=["t0", "t2"], resamples=200)
    assert some.names == ("s0", "s1", "s2", "s3")
    with pytest.raises(UsageError, match="Unknown task 'T0'"):
        compare_tasks(rows, only=["T0"])
    with pytest.raises(UsageError, match="missing"):
        compare_tasks(rows, missing="ignore")


def test_queries_that_not_all_have() -> None:
    values, tasks = made(2, [10, 10])
    rows = records(values, tasks)
    found = compare_tasks(rows[1:], resamples=200)
    assert found.sizes == {"t0": 9, "t1": 10}
    assert "t0 (9 of 10)" in str(found)
    with pytest.raises(MismatchError, match="only 4 of 10 queries"):
        compare_tasks(rows[6:])


def test_few_queries_or_tasks() -> None:
    values, tasks = made(2, [2, 10])
    with pytest.raises(MismatchError, match="fewer than 3 queries"):
        compare_tasks(records(values, tasks))
    two = compare_tasks(records(values, tasks), units="tasks", resamples=200)
    assert (
        "Too few tasks (2) to compare s0 and s1 on the mean over 2 tasks: at least 3 are"
        in two.verdict
    )
    with pytest.raises(UsageError, match="Only task means are known"):
        compare_tasks(means_of(values[:, :8]), units="queries")
    one = compare_tasks(records(*made(2, [30])), resamples=200)
    assert "the mean over one task" in one.verdict


# Hostile tables


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"value": math.nan}, AssayError, "is not finite"),
        ({"value": math.inf}, AssayError, "is not finite"),
        ({"value": "0.5"}, AssayError, "of type str, not a number"),
        ({"value": None}, ValueRangeError, "'value' is missing"),
        ({"system": ""}, IdError, "the system is empty"),
        ({"system": 7}, IdError, "the system 7 is of type int"),
        ({"task": ["a"]}, IdError, "of type list"),
        ({"query": 1.5}, IdError, "of type float"),
        ({"system": "\ud800"}, IdError, "half a character"),
    ],
)
def test_odd_cells_are_named(change, error, words) -> None:
    rows = records(*made(2, [4, 4]))
    rows[5] = {**rows[5], **change}
    with pytest.raises(error, match=words):
        compare_tasks(rows)


def test_odd_tables_are_named() -> None:
    rows = records(*made(2, [4, 4]))
    with pytest.raises(IdError, match="row 16: system 's0', task 't0', query 'q0000' already has"):
        compare_tasks([*rows, rows[0]])
    with pytest.raises(IdError, match="Add a query column for values per query"):
        compare_tasks([{key: row[key] for key in ("system", "task", "value")} for row in rows])
    with pytest.raises(FormatError, match="which column holds the task"):
        compare_tasks([{"system": "a", "value": 1.0}])
    with pytest.raises(FormatError, match="no records"):
        compare_tasks([])
    with pytest.raises(FormatError, match="expected an object"):
        compare_tasks([rows[0], 3])
    with pytest.raises(UsageError, match="Cannot read a table"):
        compare_tasks(3)
    with pytest.raises(MismatchError, match="1 systems on 2 tasks"):
        compare_tasks([row for row in rows if row["system"] == "s0"])
    for arguments, words in (
        ({"level": 2}, "level"),
        ({"resamples": 3}, "resamples"),
        ({"seed": -1}, "seed"),
    ):
        with pytest.raises(UsageError, match=words):
            compare_tasks(rows, **arguments)


def test_hostile_names_are_shown_literally() -> None:
    values, tasks = made(2, [6, 6])
    names = ["<script>alert(1)</script>", "\x1b[31mred"]
    found = compare_tasks(records(values, tasks, names), resamples=200)
    assert "\x1b" not in str(found)
    assert "<script>" not in found._repr_html_()


@pytest.mark.parametrize("ending", ["csv", "tsv", "json", "jsonl", "parquet"])
def test_files_say_the_same(ending, tmp_path) -> None:
    rows = records(*made(3, [6, 9]))
    path = tmp_path / f"values.{ending}"
    if ending == "parquet":
        arrow = pytest.importorskip("pyarrow")
        parquet = pytest.importorskip("pyarrow.parquet")
        parquet.write_table(arrow.Table.from_pylist(rows), path)
    elif ending == "json":
        path.write_text(json.dumps(rows))
    elif ending == "jsonl":
        path.write_text("\n".join(map(json.dumps, rows)))
    else:
        mark = "," if ending == "csv" else "\t"
        lines = [mark.join(rows[0]), *(mark.join(map(str, row.values())) for row in rows)]
        path.write_text("\n".join(lines))
    found = compare_tasks(path, resamples=200)
    assert repr(found) == repr(compare_tasks(rows, resamples=200))
    halves = [row for row in rows if row["task"] == "t0"], [r for r in rows if r["task"] == "t1"]
    if ending == "jsonl":
        for number, half in enumerate(halves):
            (tmp_path / f"{number}.jsonl").write_text("\n".join(map(json.dumps, half)))
        parts = compare_tasks([tmp_path / "0.jsonl", tmp_path / "1.jsonl"], resamples=200)
        assert parts.verdict == found.verdict


def test_frames_say_the_same() -> None:
    pandas = pytest.importorskip("pandas")
    rows = records(*made(3, [6, 9]))
    found = compare_tasks(pandas.DataFrame(rows), resamples=200)
    assert repr(found) == repr(compare_tasks(rows, resamples=200))


def test_files_that_are_no_tables(tmp_path) -> None:
    path = tmp_path / "values.csv"
    for text, words in (
        ("system,task,query,value\n", "a header but no rows"),
        ("system,task,query,value\na,t,q\n", "line 2: expected 4 columns"),
        ("system,task,query,value\na,t,q,x\n", "line 2: the value 'x' is not a finite number"),
        ("a,b\n1,2\n", "which column holds the system"),
        ("\n\n", "holds only blank lines"),
    ):
        path.write_text(text)
        with pytest.raises(FormatError, match=words):
            compare_tasks(path)
    (tmp_path / "values.npy").write_bytes(b"\x93NUMPY")
    with pytest.raises(FormatError, match=r"must end in \.csv"):
        compare_tasks(tmp_path / "values.npy")
    with pytest.raises(AssayError):
        compare_tasks(tmp_path / "absent.csv")


# What is said


def test_many_systems_without_a_task_are_counted() -> None:
    values, tasks = made(9, [6, 6, 6])
    short = {"s2": "t0", **{f"s{i}": "t1" for i in range(3, 9)}}
    rows = [row for row in records(values, tasks) if short.get(row["system"]) != row["task"]]
    with pytest.raises(MismatchError) as caught:
        compare_tasks(rows)
    text = str(caught.value)
    assert text.startswith("7 of 9 systems have no value on some tasks: 's2' lacks 't0'; 's3' ")
    assert "'s6' lacks 't1'; and 2 more. Add them" in text
    assert "drop-task (1 of 3 tasks are left) or drop-system (2 systems are left)" in text
    kept = compare_tasks(rows, missing="drop-system", resamples=100)
    assert kept.names == ("s0", "s1")
    assert kept.remarks[0].startswith("7 systems without a value of all tasks omitted: 's2', ")
    for left_out, end in (("s8", "'s6' lacks 't1'; and 1 more. "), ("s7 s8", "'s6' lacks 't1'. ")):
        with pytest.raises(MismatchError, match=end):
            compare_tasks([row for row in rows if row["system"] not in left_out])
    nearly = [row for row in rows if row["system"] != "s1"]
    with pytest.raises(MismatchError, match=r"Only 1 systems on 3 tasks left.*\(7 systems"):
        compare_tasks(nearly, missing="drop-system")


@pytest.mark.parametrize(("lacking", "words"), [(3, "'t3'"), (4, r"'t3', … \(4 in all\)")])
def test_three_tasks_that_a_system_lacks_are_named(lacking, words) -> None:
    rows = [
        row
        for row in means_of(RNG.random((2, 8)))
        if row["model"] == "s0" or not 1 <= int(row["task"][1]) <= lacking
    ]
    with pytest.raises(MismatchError, match=rf"'s1' lacks 't1', 't2', .*{words}\. Add them"):
        compare_tasks(rows)


def test_ranks_and_pairs_come_from_the_draws_that_were_asked_for() -> None:
    means = RNG.random((4, 12))
    found = compare_tasks(means_of(means), resamples=150, seed=7, level=0.1)
    expected = rank_intervals(borda_points(means), level=0.9, resamples=150, seed=7)
    for one in found.standings:
        own = expected[int(one.name[1])]
        assert (one.borda_rank.low, one.borda_rank.high) == (own.low, own.high)
        for rank in (one.rank, one.borda_rank):
            assert (rank.level, rank.n, rank.n_removed) == (0.9, 12, 0)
            assert (rank.resamples, rank.seed) == (150, 7)
    for pair in found.pairs:
        for part in (pair.interval, pair.test):
            assert (part.n, part.n_removed, part.resamples, part.seed) == (12, 0, 150, 7)
        assert (pair.interval.level, pair.interval.method) == (0.9, "max-t")
        assert (pair.n_pairs, pair.n_units, pair.units) == (6, 12, "tasks")


def test_undefined_queries_of_scored_tasks_are_left_out_and_counted() -> None:
    values, tasks = made(2, [20, 12])
    values[0, 3] = values[1, 3] = values[1, 5] = math.nan
    found = compare_tasks(runs_of(values, tasks), resamples=100)
    assert found.sizes == {"t0": 18, "t1": 12}
    borda = "no intervals of Borda ranks (they resample tasks): too few tasks (2): at least 3"
    assert found.remarks == (
        "t0: RR is undefined on 2 queries (omitted)",
        f"{borda} are needed",
    )
    whole = np.delete(values, [3, 5], axis=1)
    parts = [(whole[0] - whole[1])[:18].mean(), (whole[0] - whole[1])[18:].mean()]
    assert found.pairs[0].difference == pytest.approx(np.mean(parts))
    values[0, :20] = math.nan
    with pytest.raises(MismatchError, match="Task 't0': no query has a value of RR in all"):
        compare_tasks(runs_of(values, tasks))


def test_tasks_under_other_conventions_are_remarked_on() -> None:
    values, _ = made(2, [10, 10])
    runs = [
        RunRecord(f"s{i}", scores_of(row[start : start + 10], empty=empty), dataset=empty)
        for i, row in enumerate(values)
        for start, empty in ((0, "skip"), (10, "zero"))
    ]
    found = compare_tasks(runs, resamples=100)
    assert "the tasks were scored under different conventions" in found.remarks
    alike = compare_tasks(runs_of(*made(2, [10, 10, 10])), resamples=100)
    assert not any("conventions" in remark for remark in alike.remarks)


def test_a_task_without_groups_has_a_group_for_each_query() -> None:
    values, _ = made(2, [12, 8])
    users = [f"u{i // 2}" for i in range(12)]
    runs = [
        run
        for i, row in enumerate(values)
        for run in (
            RunRecord(f"s{i}", with_users(row[:12], users), dataset="a", clusters="user"),
            RunRecord(f"s{i}", scores_of(row[12:]), dataset="b"),
        )
    ]
    (pair,) = compare_tasks(runs, resamples=100).pairs
    assert pair.n_units == 6 + 8
    d = values[0] - values[1]
    pairs, alone = d[:12].reshape(6, 2).mean(axis=1), d[12:]
    variance = pairs.var(ddof=1) / 6 + alone.var(ddof=1) / 8
    assert pair.error == pytest.approx(math.sqrt(variance) / 2)


def test_the_tables_of_tasks_hold_the_numbers_of_the_pairs() -> None:
    values, tasks = made(3, [12, 12, 12], seed=3, kind="shifted")
    found = compare_tasks(records(values, tasks), resamples=300, level=0.1)
    table = found.data_table()
    assert len(table.rows) == 3
    for pair, row in zip(found.pairs, table.rows, strict=True):
        data = dict(zip(table.columns, (cell.value for cell in row), strict=True))
        assert data == {key: value for key, value in pair_data(pair).items() if key in data}
    shown = found.pair_table()
    assert shown.columns[-shown.n_optional :] == ("tasks won/tied/lost",)
    assert [row[0].value for row in shown.rows] == ["s2 − s1", "s2 − s0", "s1 − s0"]
    assert [row[1].value for row in shown.rows] == ["+0.2000", "+0.4000", "+0.2000"]
    assert [row[4].value for row in shown.rows] == ["3/0/0"] * 3
    assert shown.columns[2] == "simultaneous 90 % CI"
    standings = found.table()
    assert standings.columns[2] == "90 % CI"
    assert [row[4].value for row in standings.rows] == ["6", "3", "0"]
    assert [row[1].best for row in standings.rows] == [True, False, False]
    assert "max-t over all 3 pairs" in found.method
    assert found.verdicts[1] == "Both neighbouring pairs of the ranking differ significantly"
    assert found.family == "all 3 pairs of 3 systems"
    assert found.method.startswith("p: max-t over all 3 pairs of 3 systems, 300 ")
    assert "differences are simultaneous (90 % jointly)" in found.method
    assert "intervals of means are individual 90 %." in found.method
    with pytest.raises(UsageError, match=r"Unknown system 'x'\. Name one of s0, s1, s2"):
        found.pair("s0", "x")


def test_one_pair_and_one_task_are_named_so() -> None:
    values, tasks = made(2, [30])
    found = compare_tasks(records(values, tasks), resamples=100)
    assert found.family == "one pair"
    assert "the mean over one task" in found.verdict
    assert len(found.verdicts) == 1
    balanced = np.tile([-0.01, 0.01], 15)
    three = np.stack([values[0], values[0] + balanced, values[0] + 5])
    neighbours = compare_tasks(records(three, tasks), resamples=300).verdicts[1]
    said = "1 of 2 neighbouring pairs of the ranking does not differ significantly"
    assert neighbours == said


def test_forty_five_pairs_are_shown_and_more_are_not() -> None:
    for n, tables in ((10, 2), (11, 1)):
        found = compare_tasks(means_of(RNG.random((n, 8))), resamples=100)
        assert sum(hasattr(part, "columns") for part in found.page()) == tables
