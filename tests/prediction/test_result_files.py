"""Result files of the next-location projects: named files, stated units, same samples."""

from __future__ import annotations

import json

import numpy as np
import pytest

from assay.errors import AssayError, FormatError, MismatchError, UsageError, ValueRangeError
from assay.prediction import import_results
from assay.prediction.classes import Confusion
from assay.prediction.compat import CUTS, broken_laws

GOOD = {
    "correct@1": 30,
    "correct@3": 40,
    "correct@5": 55,
    "correct@10": 60,
    "rr": 42.0,
    "total": 100,
    "acc@1": 30.0,
    "acc@3": 40.0,
    "acc@5": 55.0,
    "acc@10": 60.0,
    "mrr": 42.0,
    "ndcg": 44.0,
    "f1": 0.212,
}


def write(folder, **files):
    """Write a file per name and return {name: path}."""
    for name, data in files.items():
        text = data if isinstance(data, str) else json.dumps(data)
        (folder / f"{name}.json").write_text(text)
    return {name: folder / f"{name}.json" for name in files}


def seeds(folder, model, *results):
    """Write a file per seed and return the paths."""
    return list(write(folder, **{f"{model}{n}": data for n, data in enumerate(results)}).values())


def test_values_are_fractions(tmp_path):
    files = seeds(tmp_path, "mhsa", GOOD, {**GOOD, "f1": 0.3, "mrr": 42.001})
    results = import_results({"mhsa": files}, f1_unit="fraction")
    assert [result.model for result in results.results] == ["mhsa", "mhsa"]
    assert results.results[0].values == {
        "Success@1": 0.3,
        "Success@3": 0.4,
        "Success@5": 0.55,
        "Success@10": 0.6,
        "RR": 0.42,
        "nDCG@10": 0.44,
        "F1(avg=weighted)": 0.212,
    }
    assert results.results[0].total == 100
    assert results.contradictions == results.remarks == ()
    row = next(row for row in results.seeds().rows if row.measure == "F1(avg=weighted)")
    assert (row.n_seeds, row.mean) == (2, pytest.approx(0.256))


def test_the_documents_own_json_is_in_percent(tmp_path):
    data = {"acc@1": 29.61, "acc@5": 54.48, "acc@10": 58.94}
    data |= {"mrr": 40.84, "ndcg": 44.96, "f1": 21.20}
    results = import_results(write(tmp_path, mhsa=data))
    assert list(results.results[0].values.values()) == pytest.approx(
        [0.2961, 0.5448, 0.5894, 0.4084, 0.4496, 0.2120]
    )
    assert results.signature.startswith("imported|unit:percent|f1_unit:percent|")
    assert results.remarks == (
        f"1 of 1 files lack the number of samples (first: {tmp_path / 'mhsa.json'})",
    )


def test_a_model_may_have_one_file_or_several(tmp_path):
    first, second = seeds(tmp_path, "a", {"acc@1": 30.0}, {"acc@1": 31.0})
    one_file = import_results({"a": str(first), "b": [second]})
    assert [result.model for result in one_file.results] == ["a", "b"]
    assert [row.n_seeds for row in one_file.seeds().rows] == [1, 1]


def test_exact_duplicates_are_not_seeds(tmp_path):
    files = seeds(tmp_path, "a", GOOD, json.dumps(GOOD, indent=3), {**GOOD, "f1": 0.2})
    results = import_results({"a": files}, f1_unit="fraction")
    assert results.duplicates == ((str(files[1]), str(files[0])),)
    assert {row.n_seeds for row in results.seeds().rows} == {2}
    assert any("repeats" in remark for remark in results.remarks)
    other = import_results({"a": files[0], "b": files[1]}, f1_unit="fraction")
    assert other.duplicates == ()  # another model may have the same numbers


def test_files_of_sums_need_no_unit(tmp_path):
    sums = {"correct@1": 1, "correct@5": 2, "rr": 1.5, "ndcg": 1.63, "total": 2}
    (result,) = import_results(write(tmp_path, a=sums)).results
    assert result.values == {
        "Success@1": 0.5,
        "Success@5": 1.0,
        "RR": 0.75,
        "nDCG@10": pytest.approx(0.815),
    }


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (
            {**GOOD, "f1": 21.2, "correct@1": 20},
            "Success@1 is 0.3 in the file, but 0.2 by its counts",
        ),
        ({"acc@1": 50, "acc@5": 40}, "Success@1 (0.5000) is above Success@5"),
        ({"acc@1": 50, "mrr": 40}, "RR is 0.4000, but these accuracies imply"),
        ({"ndcg": 70, "acc@10": 40, "acc@1": 10}, "imply 0.1867 to 0.2893"),
        ({"acc@1": 50, "f1": 90}, "imply 0.3333 to 0.6667"),
    ],
)
def test_contradictions_are_reported(tmp_path, data, words):
    results = import_results(write(tmp_path, a=data))
    assert any(words in line for line in results.contradictions), results.contradictions


@pytest.mark.parametrize(
    ("data", "error", "words"),
    [
        ({"correct@1": 11, "total": 10}, ValueRangeError, r"a\.json: Success@1 is 11 of 10"),
        ({"correct@1": 0, "total": 0}, ValueRangeError, "total is 0"),
        ({"acc@1": -0.1}, ValueRangeError, "acc@1 is -0.1, which is not a valid percentage"),
        ({"acc@1": 101}, ValueRangeError, "acc@1 is 101, which is not a valid percentage"),
        ({}, FormatError, "holds no results: .* found nothing"),
        ({"total": 3}, FormatError, "holds no results: .* found 'total'"),
        ({"test": {"acc@1": 30}}, FormatError, "at the top of the file, found 'test'"),
        ([1], FormatError, "expected a JSON object"),
        ('{"acc@1": ', FormatError, "a.json"),
        ('{"acc@1": NaN}', FormatError, "a.json"),
        *(
            (f'{{"acc@1": 20, "total": {number}}}', FormatError, r"exceeds the range|up to 10\^15")
            for number in ("1e999", "1" + "0" * 400, "-1" + "0" * 400, "1" + "0" * 30)
        ),
    ],
)
def test_what_is_no_result_is_refused(tmp_path, data, error, words):
    with pytest.raises(error, match=words) as raised:
        import_results(write(tmp_path, a=data))
    assert "a.json" in str(raised.value)


# As in the files of the project that the next-location document is from.
TEST = {
    "correct@1": 1037.0,
    "correct@3": 1746.0,
    "correct@5": 1908.0,
    "correct@10": 2064.0,
    "rr": 1430.2467041015625,
    "ndcg": 44.95852291584015,
    "f1": 0.21201484164351317,
    "total": 3502.0,
    "acc@1": 29.611650109291077,
    "acc@5": 54.48315143585205,
    "acc@10": 58.93775224685669,
    "mrr": 40.84085524082184,
}
RATES_ONLY = {key: TEST[key] for key in ("acc@1", "acc@5", "acc@10", "mrr", "ndcg")}


@pytest.mark.parametrize("unit", ["percent", "fraction"])
@pytest.mark.parametrize("f1_unit", ["percent", "fraction"])
def test_units_are_stated(tmp_path, unit, f1_unit):
    scale = {"percent": 1.0, "fraction": 0.01}
    data = {key: v * scale[unit] if key in RATES_ONLY else v for key, v in TEST.items()}
    data["f1"] *= 100 * scale[f1_unit]
    results = import_results(write(tmp_path, a=data), unit=unit, f1_unit=f1_unit)
    (result,) = results.results
    assert result.values["Success@1"] == pytest.approx(0.29611650)
    assert result.values["nDCG@10"] == pytest.approx(0.44958522)
    assert result.values["F1(avg=weighted)"] == pytest.approx(0.21201484)
    assert results.contradictions == ()


def test_percent_is_not_assumed_where_no_rate_exceeds_1(tmp_path):
    fractions = write(tmp_path, a={key: value / 100 for key, value in RATES_ONLY.items()})
    with pytest.raises(UsageError, match="Pass --unit fraction or --unit percent"):
        import_results(fractions)
    assert import_results(fractions, unit="percent").results[0].values["RR"] < 0.01
    with pytest.raises(UsageError, match=r"f1 0\.212015: .* Pass --f1-unit fraction"):
        import_results(write(tmp_path, a=TEST))
    with pytest.raises(ValueRangeError, match="not a valid fraction"):
        import_results(write(tmp_path, a=TEST), unit="fraction")
    with pytest.raises(UsageError, match="percent, fraction"):
        import_results(fractions, unit="per mille")


@pytest.mark.parametrize("key", ["total", "dataset", "split"])
def test_results_of_other_samples_are_refused(tmp_path, key):
    values = {"total": (3502, 3334), "dataset": ("geolife", "diy"), "split": ("test", "val")}[key]
    first, second = ({**RATES_ONLY, key: value} for value in values)
    files = write(tmp_path, a=first, b=second)
    with pytest.raises(
        MismatchError, match=f"{values[0]} and {values[1]}. Use results on the same"
    ):
        import_results(files)
    with pytest.raises(MismatchError, match="same samples"):
        import_results({"m": list(files.values())})


def test_unknown_numbers_of_samples_are_counted(tmp_path):
    files = write(tmp_path, a={**RATES_ONLY, "total": 3502}, b=RATES_ONLY)
    results = import_results(files)
    assert "1 of 2 files lack the number of samples" in results.remarks[0]
    assert results.seeds().data == ""


def three_models(folder):
    """Write three seeds of two models and one of a third."""
    levels = {"a": (30.0, 30.4, 30.1), "b": (33.0, 33.3, 33.1), "single": (31.0,)}
    return {
        model: seeds(folder, model, *({"acc@1": value, "total": 9} for value in values))
        for model, values in levels.items()
    }


def test_all_pairs_are_compared_by_welchs_test(tmp_path):
    results = import_results(three_models(tmp_path))
    tests = {(row.a, row.b): row for row in results.seeds().welch}
    assert list(tests) == [("a", "b"), ("a", "single"), ("b", "single")]
    assert tests["a", "b"].difference == pytest.approx(-0.0296667, abs=1e-6)
    assert tests["a", "b"].test.p < 0.001
    assert np.isnan(tests["a", "single"].test.p)
    assert "too few" in tests["a", "single"].test.note
    assert [table.columns[0] for table in results.tables()] == ["file", "samples", "samples"]


def test_models_are_compared_with_a_baseline(tmp_path):
    results = import_results(three_models(tmp_path), baseline="b")
    assert [(row.a, row.b) for row in results.seeds().welch] == [("a", "b"), ("single", "b")]
    with pytest.raises(UsageError, match=r"Did you mean single\?"):
        import_results(three_models(tmp_path), baseline="singel")


@pytest.mark.parametrize("files", ["folder", {}, {"a": []}, ["a.json"]])
def test_files_are_named_for_models(files):
    with pytest.raises(AssayError):
        import_results(files)


def test_what_the_accuracies_allow_holds_for_every_ranking():
    rng = np.random.default_rng(5)
    for _ in range(2000):
        n = rng.integers(1, 12)
        ranks = rng.choice([1, 2, 3, 4, 5, 6, 10, 11, 99], n)
        true = rng.integers(0, rng.integers(1, 5), n)
        wrong = (true + rng.integers(1, 6, n)) % 6
        values = {f"Success@{k}": float((ranks <= k).mean()) for k in CUTS if rng.random() < 0.7}
        values["RR"] = float((1 / ranks).mean())
        values["nDCG@10"] = float(np.where(ranks <= 10, 1 / np.log2(ranks + 1), 0).mean())
        counts = Confusion.count(true, np.where(ranks == 1, true, wrong))
        values["F1(avg=weighted)"] = counts.f1("weighted")
        assert list(broken_laws(values, 1e-9)) == []
