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


def result(number, **changes):
    """A result of 3502 samples that no other number has."""
    return {**RATES_ONLY, "acc@1": 29.0 + number / 100, "total": 3502, **changes}


@pytest.mark.parametrize(
    ("paths", "model"),
    [
        (("model_seed0_test", "model_seed1_test"), "model"),
        (("seed0-model-test", "seed1-model-test"), "model"),
        (("model_seed=0_lr", "model_seed=1_lr"), "model_lr"),
        (("m_2023-05-01_12-30-11/results", "m_2023-05-02_08-00-59/results"), "m"),
        (("m_20251229_023222/test_results", "m_20251229_033222/test_results"), "m"),
        (("m_seed0_20251229_023222/test", "m_seed1_20251229_033222/test"), "m"),
        (("m_20251229_023222_seed0/test", "m_20251229_033222_seed1/test"), "m"),
        (("20251229_023222/m_test", "20251229_033222/m_test"), "m"),
        (("m/2023-05-01/12-30-11/test", "m/2023-05-02/12-30-11/test"), "m"),
        (("m_2023-05-01T12-30-11/m_seed0_test", "m_2023-05-02/m_seed1_test"), "m/m"),
        (("m_seed0_20251229_023222", "m_seed1_20251229_033222"), "m"),
        (("m/run_1/test", "m/run_2/test"), "m"),
        (("m_run1/results_1", "m_run2/results_1"), "m"),
        (("m/1/test", "m/2/test"), "m"),
    ],
)
def test_seeds_are_known_by_numbers_and_time_stamps_in_names(tmp_path, paths, model):
    write(tmp_path, **{path: result(place) for place, path in enumerate(paths)})
    found = import_results(tmp_path)
    assert {one.model for one in found.results} == {model}
    assert {row.n_seeds for row in found.seeds().rows} == {2}
    assert len({one.seed for one in found.results}) == 2


@pytest.mark.parametrize(
    "paths",
    [
        ("report_2023-05-01", "report_2023-05-02"),  # a file with a date may be a report
        ("report_2023-05-01_12-30-11", "report_2023-05-01_12-30-12"),
        ("20251229_023222/test_results", "20251229_033222/test_results"),  # of any model
        ("prev_7/test_results", "prev_14/test_results"),
        ("fold_1/test", "fold_2/test"),
        ("m_2023-13-01/test", "m_2023-14-01/test"),  # no month
        ("ht_20251230_200606_0be5ca73/test", "ht_20251230_200700_93f4edf8/test"),
    ],
)
def test_other_numbers_in_names_are_no_seeds(tmp_path, paths):
    write(tmp_path, **{path: result(place) for place, path in enumerate(paths)})
    found = import_results(tmp_path)
    assert len({one.model for one in found.results}) == 2
    assert found.seeds().rows == ()


def write_run(folder, number, config, name="config.yaml", **changes):
    run = folder / f"m_20251229_0{number}3222"
    write(folder, **{f"{run.name}__test_results": result(number, **changes)})
    (run / name).write_text(config)
    return run


@pytest.mark.parametrize(
    ("name", "config"),
    [
        ("config.yaml", "dim: 64\nseed: {seed}\nout: runs/m_20251229_0{seed}3222\n"),
        ("config.json", '{{"dim": 64, "random_seed": {seed}, "lr": 0.1}}'),
        ("hparams.toml", "dim = 64\nseed = {seed}  # of the weights\n"),
        ("args.txt", "Namespace(dim=64, seed={seed})"),
    ],
)
def test_runs_whose_configurations_differ_by_the_seed_are_seeds(tmp_path, name, config):
    for number in (1, 2, 3):
        write_run(tmp_path, number, config.format(seed=number), name)
    found = import_results(tmp_path)
    assert [(one.model, one.seed) for one in found.results] == [("m", str(n)) for n in (1, 2, 3)]
    assert {row.n_seeds for row in found.seeds().rows} == {3}


def test_runs_whose_configurations_differ_otherwise_are_other_models(tmp_path):
    """Trials of a search for good settings have one name and many time stamps."""
    for number, dim in ((1, 64), (2, 128), (3, 64)):
        write_run(tmp_path, number, f"dim: {dim}\nseed: {number}\n")
    found = import_results(tmp_path)
    first, second = "m_20251229_013222", "m_20251229_023222"
    assert [one.model for one in found.results] == [first, second, first]
    assert {(row.model, row.n_seeds) for row in found.seeds().rows} == {(first, 2)}


def test_a_run_repeated_with_its_seed_is_no_further_seed(tmp_path):
    for number, seed in ((1, 42), (2, 42), (3, 7)):
        write_run(tmp_path, number, f"dim: 64\nseed: {seed}\n")
    found = import_results(tmp_path)
    assert len(found.results) == 3
    assert {row.n_seeds for row in found.seeds().rows} == {2}
    (words,) = [words for words in found.remarks if "repeat a seed" in words]
    assert words.startswith("1 results")
    assert "m_20251229_023222" in words


def test_a_seed_that_the_file_states_counts(tmp_path):
    write(tmp_path, a__x=result(1, seed=0), a__y=result(2, seed=0))
    write(tmp_path, b_1={"lstm": result(3)}, b_2={"lstm": result(4)}, b_3={"lstm": result(5)})
    found = import_results(tmp_path)
    assert [one.seed for one in found.results] == ["1", "2", "3", "0", "0"]
    assert {(row.model, row.n_seeds) for row in found.seeds().rows} == {("b/lstm", 3)}


def test_hidden_folders_hold_copies(tmp_path):
    copied = {**{"m__test_results": result(1)}, "m__.ipynb_checkpoints__test-checkpoint": result(2)}
    found = import_results(write(tmp_path, **copied))
    assert [one.model for one in found.results] == ["m"]


def split_tree(folder):
    for number in (0, 1):
        write(folder, **{f"geolife__m_seed{number}__test_results": result(number)})
        write(folder, **{f"geolife__m_seed{number}__val_results": result(number, total=3334)})
        write(folder, **{f"diy__m_seed{number}__test_results": result(number, total=12368)})
    return folder


def test_one_split_is_chosen_and_the_rest_counted(tmp_path):
    found = import_results(split_tree(tmp_path), split="test")
    assert {one.split for one in found.results} == {"test"}
    assert "2 results of other splits were not asked for, left out" in found.remarks
    found = import_results(tmp_path, split="val")
    assert [one.total for one in found.results] == [3334, 3334]
    with pytest.raises(UsageError, match="No result is of the split train; they are test, valid"):
        import_results(tmp_path, split="train")
    with pytest.raises(UsageError, match="split"):
        import_results(tmp_path, split="tset")


def test_contradictions_of_another_split_are_not_reported(tmp_path):
    write(tmp_path, m_test=result(1), m_val=result(1, **{"acc@5": 10.0}))
    assert import_results(tmp_path, split="test").contradictions == ()
    assert len(import_results(tmp_path, split="val").contradictions) == 1


@pytest.mark.parametrize(
    ("pattern", "count"),
    [
        ("test_results.json", 4),
        ("geolife/*/*.json", 4),
        ("geolife/**/*.json", 4),
        ("geolife/m_seed?/test_*.json", 2),
        (["diy/*/*.json", "val_*"], 4),
        ("{model}/m_seed{seed}/{split}_results.json", 6),
    ],
)
def test_a_pattern_chooses_files_by_the_end_of_their_path(tmp_path, pattern, count):
    assert len(import_results(split_tree(tmp_path), pattern=pattern).results) == count


def test_a_pattern_says_what_is_model_seed_and_split(tmp_path):
    write(tmp_path, a_1__t=result(1), a_2__t=result(2), b_1__v=result(3), b_2__v=result(4))
    found = import_results(tmp_path, pattern="{model}_{seed}/{split}.json")
    shown = [(one.model, one.seed, one.split) for one in found.results]
    assert shown == [("a", "1", "t"), ("a", "2", "t"), ("b", "1", "v"), ("b", "2", "v")]
    assert len({row.data for row in found.seeds().rows}) == 2
    (first, *_) = import_results(tmp_path, pattern="{dataset}/{split}.json").results
    assert first.data == "a_1, t, 3502 samples"


def test_a_pattern_that_nothing_matches_is_refused(tmp_path):
    with pytest.raises(UsageError, match=r"None of the 6 .json files .* matches x\*\.json"):
        import_results(split_tree(tmp_path), pattern="x*.json")
    with pytest.raises(UsageError, match=r"\{modle\}. Did you mean model\?"):
        import_results(tmp_path, pattern="{modle}/*.json")


def many_models(folder, n_models=25):
    for number in range(n_models):
        for seed in (0, 1):
            name = f"m{chr(97 + number)}_seed{seed}__test_results"
            write(folder, **{name: result(3 * number + seed)})
    write(folder, single__test_results=result(99), other__test_results=result(5, total=7))
    return folder


def test_many_models_are_not_compared_in_all_pairs_unasked(tmp_path):
    found = import_results(many_models(tmp_path))
    assert len({row.model for row in found.seeds().rows}) == 25
    assert found.seeds().welch == ()
    assert any("25 models on test, 3502 samples make 300 pairs" in one for one in found.remarks)
    few = import_results(many_models(tmp_path / "few", 3))
    assert {(row.a, row.b) for row in few.seeds().welch} == {
        ("ma", "mb"),
        ("ma", "mc"),
        ("mb", "mc"),
    }


def test_models_are_compared_with_a_baseline(tmp_path):
    found = import_results(many_models(tmp_path), baseline="mc")
    tests = [row for row in found.seeds().welch if row.measure == "Success@1"]
    assert [row.b for row in tests] == ["mc"] * 25
    assert [row.a for row in tests[:3]] == ["ma", "mb", "md"]
    assert tests[0].difference == pytest.approx(-0.0006)
    single = next(row for row in tests if row.a == "single")
    assert (np.isnan(single.test.p), "too few" in single.test.note) == (True, True)
    assert "no result of mc on test, 7 samples: nothing is compared there" in found.remarks
    assert not any("pairs, and none was compared" in one for one in found.remarks)
    by_file = found.compare(baseline=str(tmp_path / "mc_seed1"))
    assert (by_file.baseline, by_file.seeds().welch) == ("mc", found.seeds().welch)


def test_only_the_pairs_asked_for_are_compared(tmp_path):
    found = import_results(many_models(tmp_path), pairs=[("ma", "mc"), ("mb", "other")])
    assert {(row.a, row.b) for row in found.seeds().welch} == {("ma", "mc")}
    assert "mb and other have no samples in common and are not compared" in found.remarks


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            {"baseline": "mcc"},
            "'mcc' is not a model, nor a file or folder of one; there are 27. Did",
        ),
        ({"pairs": [("ma", "nobody")]}, "'nobody' is not a model"),
        ({"baseline": "ma", "pairs": [("ma", "mb")]}, "exclude each other"),
    ],
)
def test_models_to_compare_must_be_there(tmp_path, options, words):
    with pytest.raises(UsageError, match=words):
        import_results(many_models(tmp_path), **options)


def test_remarks_on_many_files_end_and_the_rest_is_counted(tmp_path):
    write(tmp_path, good=result(1), **{f"empty{n}": {"note": n} for n in range(30)})
    found = import_results(tmp_path)
    assert len(found.to_dict()["empty"]) == 30
    assert sum("no results, left out" in words for words in found.remarks) == 8
    assert "… and 22 more like this; JSON lists all as 'empty'" in found.remarks
