"""Result files from the wild: units declared, contradictions reported, duplicates noticed."""

from __future__ import annotations

import json

import pytest

from assay.errors import FormatError, UsageError
from assay.tasks.prediction.imports import import_results

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
    "ndcg": 46.0,
    "f1": 0.212,
}


def write(folder, **files):
    for name, data in files.items():
        path = folder / f"{name.replace('__', '/')}.json"
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_text(data if isinstance(data, str) else json.dumps(data))
    return folder


def test_a_folder_becomes_one_table_of_fractions(tmp_path):
    other = {**GOOD, "f1": 0.3, "mrr": 42.001}
    write(tmp_path, mhsa_1=GOOD, mhsa_2=other, empty={})
    found = import_results(tmp_path, unit="percent", f1_unit="fraction")
    assert [one.model for one in found.results] == ["mhsa", "mhsa"]
    assert found.results[0].values == {
        "Success@1": 0.3,
        "Success@3": 0.4,
        "Success@5": 0.55,
        "Success@10": 0.6,
        "RR": 0.42,
        "nDCG@10": 0.46,
        "F1(avg=weighted)": 0.212,
    }
    assert found.results[0].total == 100
    assert found.empty == (str(tmp_path / "empty.json"),)
    assert found.contradictions == ()
    row = next(row for row in found.seeds().rows if row.measure == "F1(avg=weighted)")
    assert (row.n_seeds, row.mean) == (2, pytest.approx(0.256))


def test_exact_duplicates_are_not_replicates(tmp_path):
    write(tmp_path, a__s1=GOOD, a__s2=json.dumps(GOOD, indent=3), a__s3={**GOOD, "f1": 0.2})
    found = import_results(tmp_path, unit="percent", f1_unit="fraction")
    assert [(p[-7:], f[-7:]) for p, f in found.duplicates] == [("s2.json", "s1.json")]
    assert {row.n_seeds for row in found.seeds().rows} == {2}
    assert any("repeats" in remark for remark in found.remarks)


def test_files_of_sums_need_no_unit_but_are_checked(tmp_path):
    sums = {"correct@1": 1, "correct@5": 2, "rr": 1.5, "ndcg": 1.63, "total": 2}
    write(tmp_path, a=sums)
    found = import_results(tmp_path, unit="percent")
    assert found.results[0].values == {
        "Success@1": 0.5,
        "Success@5": 1.0,
        "RR": 0.75,
        "nDCG@10": pytest.approx(0.815),
    }


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"acc@1": 0.3, "f1": 21.2}, "f1 is 21.2, which is not a fraction; left out"),
        ({**GOOD, "correct@1": 20}, "acc@1 is 30, which is not a fraction"),
        ({"acc@1": 0.5, "acc@5": 0.4}, "Success@1 (0.5000) is above Success@5"),
        ({"acc@1": 0.5, "mrr": 0.4}, "is above RR"),
        ({"ndcg": 0.7, "acc@10": 0.4, "acc@1": 0.1}, "nDCG@10 (0.7000) is above Success@10"),
        ({"acc@1": 0.3, "correct@1": 1, "total": 10}, "0.3 as stated and 0.1 by its counts"),
        ({"correct@1": 11, "total": 10}, "11 of 10 for Success@1 is impossible"),
        ({"correct@1": 0, "total": 0}, "total is 0"),
        ({"acc@1": -0.1}, "-0.1, which is not a fraction"),
    ],
)
def test_contradictions_are_reported(tmp_path, data, words):
    found = import_results(write(tmp_path, a=data), unit="fraction")
    assert any(words in line for line in found.contradictions), found.contradictions


def test_f1_as_a_fraction_among_percentages_is_asked_about(tmp_path):
    found = import_results(write(tmp_path, a=GOOD), unit="percent")
    assert "If it is a fraction, declare f1_unit='fraction'" in found.contradictions[0]
    assert len(found.contradictions) == 1


def test_splits_in_one_file_are_results_of_their_own(tmp_path):
    write(tmp_path, a={"val": {"acc@1": 0.2}, "test": {"acc@1": 0.3}, "note": "x"})
    found = import_results(tmp_path, unit="fraction")
    assert [(one.model, one.values["Success@1"]) for one in found.results] == [
        ("a/val", 0.2),
        ("a/test", 0.3),
    ]


def test_what_is_no_result_is_listed_and_the_rest_goes_on(tmp_path):
    write(tmp_path, good={"acc@1": 0.1}, broken='{"acc@1": ', listed=[1], nan='{"acc@1": NaN}')
    found = import_results(tmp_path, unit="fraction")
    assert len(found.results) == 1
    assert len(found.unreadable) == 3
    assert "broken.json" in found.unreadable[0]


def test_units_and_folders_are_needed(tmp_path):
    with pytest.raises(FormatError, match="no \\.json files"):
        import_results(tmp_path, unit="percent")
    with pytest.raises(UsageError, match="not a folder"):
        import_results(tmp_path / "x", unit="percent")
    with pytest.raises(UsageError, match="percent, fraction"):
        import_results(tmp_path, unit="per mille")


def test_numbers_beyond_a_float_are_no_results(tmp_path):
    write(tmp_path, a='{"acc@1": 0.2, "total": 1e999, "f1": 1' + "0" * 400 + "}")
    (one,) = import_results(tmp_path, unit="fraction").results
    assert (one.values, one.total) == ({"Success@1": 0.2}, None)
