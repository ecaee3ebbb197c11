"""Result files from the wild: units declared, contradictions reported, duplicates noticed."""

from __future__ import annotations

import json

import numpy as np
import pytest

from assay.errors import FormatError, UsageError
from assay.measures.classes import Confusion
from assay.tasks.prediction.imports import import_results
from assay.tasks.prediction.units import CUTS, broken_laws

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
        "nDCG@10": 0.44,
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
        ({**GOOD, "correct@1": 20}, "Success@1 is 0.3 as stated and 0.2 by its counts"),
        ({"acc@1": 0.5, "acc@5": 0.4}, "Success@1 (0.5000) is above Success@5"),
        ({"acc@1": 0.5, "mrr": 0.4}, "RR is 0.4000, and with these accuracies no ranking"),
        ({"ndcg": 0.7, "acc@10": 0.4, "acc@1": 0.1}, "less than 0.1867 or more than 0.2893"),
        ({"acc@1": 0.5, "f1": 0.9}, "less than 0.3333 or more than 0.6667"),
        ({"acc@1": 0.3, "correct@1": 1, "total": 10}, "0.3 as stated and 0.1 by its counts"),
        ({"correct@1": 11, "total": 10}, "11 of 10 for Success@1 is impossible"),
        ({"correct@1": 0, "total": 0}, "total is 0"),
        ({"acc@1": -0.1}, "acc@1 is -0.1, neither a fraction nor a percentage; left out"),
        ({"acc@1": 101}, "acc@1 is 101, neither a fraction nor a percentage; left out"),
    ],
)
def test_contradictions_are_reported(tmp_path, data, words):
    found = import_results(write(tmp_path, a=data), unit="fraction")
    assert any(words in line for line in found.contradictions), found.contradictions


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
VALIDATION = {
    "correct@1": 1352.0,
    "correct@3": 1966.0,
    "correct@5": 2091.0,
    "correct@10": 2223.0,
    "rr": 1693.85888671875,
    "ndcg": 54.45665121078491,
    "f1": 0.31499607454170114,
    "total": 3334.0,
    "acc@1": 40.551888942718506,
    "acc@5": 62.71745562553406,
    "acc@10": 66.67666435241699,
    "mrr": 50.805604457855225,
}
RATES_ONLY = {key: TEST[key] for key in ("acc@1", "acc@5", "acc@10", "mrr", "ndcg")}


@pytest.mark.parametrize(
    ("files", "model"),
    [
        ({"mhsa__test_results": TEST, "mhsa__val_results": VALIDATION}, "mhsa"),
        ({"test__mhsa_1": TEST, "val__mhsa_1": VALIDATION}, "mhsa"),
        ({"mhsa-test": TEST, "mhsa-validation": VALIDATION}, "mhsa"),
        ({"mhsa": {"validation": VALIDATION, "test": TEST}}, "mhsa"),
        ({"mhsa_1": {**TEST, "split": "test"}, "mhsa_2": {**VALIDATION, "split": "val"}}, "mhsa"),
        ({"mhsa__seed_1__testResults": TEST, "mhsa__seed_1__valResults": VALIDATION}, "mhsa"),
    ],
)
def test_splits_are_never_averaged(tmp_path, files, model):
    found = import_results(write(tmp_path, **files))
    shown = {(one.model, one.split): one.values["Success@1"] for one in found.results}
    assert shown == {
        (model, "test"): pytest.approx(0.29611650),
        (model, "validation"): pytest.approx(0.40551888),
    }
    assert found.seeds().rows == ()
    assert any("test, 3502 samples: 1" in remark for remark in found.remarks)
    assert found.contradictions == ()


def test_only_results_of_the_same_samples_are_seeds(tmp_path):
    other = {**RATES_ONLY, "total": 3053}
    write(
        tmp_path,
        m_1={**RATES_ONLY, "total": 3502},
        m_2={**RATES_ONLY, "acc@1": 29.9, "total": 3502},
        m_3=other,
        m_4=RATES_ONLY,
        n_1={**other, "acc@1": 30.1},
        n_2={**other, "acc@1": 30.2},
    )
    found = import_results(tmp_path)
    accuracies = [row for row in found.seeds().rows if row.measure == "Success@1"]
    assert [(row.model, row.data, row.n_seeds) for row in accuracies] == [
        ("m", "3502 samples", 2),
        ("n", "3053 samples", 2),
    ]
    assert found.seeds().welch == ()  # m and n have no samples in common
    assert any(remark.startswith("results of other samples") for remark in found.remarks)
    assert "taken for seeds of one model by their names: m (2), n (2)" in found.remarks


def test_datasets_and_models_are_no_seeds(tmp_path):
    write(
        tmp_path,
        a__lstm=RATES_ONLY,
        a__mhsa={**RATES_ONLY, "acc@1": 29.9},
        b_v1={**RATES_ONLY, "acc@1": 29.8},
        b_v2={**RATES_ONLY, "acc@1": 29.7},
        c_1={**RATES_ONLY, "acc@1": 29.6, "dataset": "geolife"},
        c_2={**RATES_ONLY, "acc@1": 29.5, "dataset": "diy"},
        d_fold1={**RATES_ONLY, "acc@1": 29.4},
        d_fold2={**RATES_ONLY, "acc@1": 29.3},
        e_20260101_120000={**RATES_ONLY, "acc@1": 29.2},
        e_20260101_130000={**RATES_ONLY, "acc@1": 29.1},
    )
    found = import_results(tmp_path)
    assert len(found.results) == 10
    assert found.seeds().rows == ()


@pytest.mark.parametrize("f1", [0.21201484164351317, 21.201484164351317])
@pytest.mark.parametrize("rates", [1.0, 100.0])
@pytest.mark.parametrize("declared", [None, "percent", "fraction"])
def test_each_file_shows_the_unit_of_each_column(tmp_path, f1, rates, declared):
    data = {key: value * rates / 100 if key in RATES_ONLY else value for key, value in TEST.items()}
    found = import_results(write(tmp_path, a={**data, "f1": f1}), unit=declared)
    (one,) = found.results
    assert one.values["Success@1"] == pytest.approx(0.29611650)
    assert one.values["nDCG@10"] == pytest.approx(0.44958522)
    assert one.values["F1(avg=weighted)"] == pytest.approx(0.21201484)
    assert one.units["f1"] == ("fraction" if f1 < 1 else "percent")
    assert found.contradictions == ()


@pytest.mark.parametrize("declared", [None, "percent"])
def test_a_whole_file_in_the_other_unit_is_not_believed(tmp_path, declared):
    fractions = {key: value / 100 for key, value in RATES_ONLY.items()}
    write(tmp_path, m_1=RATES_ONLY, m_2=fractions)
    found = import_results(tmp_path, unit=declared)
    assert found.results[0].values["Success@1"] == pytest.approx(0.29611650)
    assert found.results[1].values == {}
    assert "fractions, or percentages below 1?" in found.contradictions[0]
    found = import_results(tmp_path, unit="fraction")
    assert found.results[0].values["RR"] == pytest.approx(found.results[1].values["RR"])


def test_another_result_of_the_same_file_shows_the_unit(tmp_path):
    write(tmp_path, a={"seen": RATES_ONLY, "unseen": {"acc@1": 0.176}}, b={"acc@1": 0.176})
    found = import_results(tmp_path, unit="percent")
    assert found.results[1].values == {"Success@1": pytest.approx(0.00176)}
    assert found.results[2].values == {}


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


@pytest.mark.parametrize("number", ["1e999", "1" + "0" * 400, "-1" + "0" * 400, "1" + "0" * 30])
def test_numbers_beyond_every_count_are_named(tmp_path, number):
    """They were left out without a word."""
    write(tmp_path, a=f'{{"acc@1": 0.2, "total": {number}}}', b='{"acc@1": 0.3}')
    found = import_results(tmp_path, unit="fraction")
    assert [one.values for one in found.results] == [{"Success@1": 0.3}]
    (words,) = found.unreadable
    assert "a.json" in words
    assert "beyond" in words
