"""Result files of mteb: what is read, averaged, left out and refused."""

from __future__ import annotations

import json
import math

import pytest

from assay import compare_tasks
from assay.errors import FormatError, MismatchError, UsageError
from assay.tasks.tables import read_mteb


def entry(score, subset="default", languages=("eng-Latn",)):
    return {
        "main_score": score,
        "ndcg_at_10": score,
        "nauc": math.nan,  # as mteb writes it
        "hf_subset": subset,
        "languages": list(languages),
    }


def put(folder, model, task, *entries, split="test", revision="abc", version="1.18.0", meta=True):
    """A file as mteb writes it."""
    home = folder / model.replace("/", "__") / revision
    home.mkdir(parents=True, exist_ok=True)
    data = {
        "dataset_revision": "1",
        "task_name": task,
        "mteb_version": version,
        "scores": {split: list(entries)},
        "evaluation_time": 1.5,
        "kg_co2_emissions": None,
    }
    (home / f"{task}.json").write_text(json.dumps(data, indent=2))
    if meta:
        (home / "model_meta.json").write_text(json.dumps({"name": model, "revision": revision}))
    return home / f"{task}.json"


def cells(folder, **options):
    lines = read_mteb([folder], **options)
    named = zip(lines.system.tolist(), lines.task.tolist(), lines.values.tolist(), strict=True)
    return {(lines.systems[i], lines.tasks[j]): value for i, j, value in named}, lines.remarks


def test_the_main_score_of_the_test_split(tmp_path) -> None:
    path = put(tmp_path, "org/m", "NQ", entry(0.5))
    data = json.loads(path.read_text())
    data["scores"]["dev"] = [entry(0.9)]
    path.write_text(json.dumps(data))
    assert cells(tmp_path) == ({("org/m", "NQ"): 0.5}, ())
    assert cells(tmp_path, split="dev")[0] == {("org/m", "NQ"): 0.9}


def test_the_model_is_named_by_its_folder_without_meta(tmp_path) -> None:
    put(tmp_path, "org/m", "NQ", entry(0.5), meta=False)
    assert list(cells(tmp_path)[0]) == [("org/m", "NQ")]
    assert list(cells(tmp_path / "org__m" / "abc")[0]) == [("abc", "NQ")]
    put(tmp_path, "plain", "NQ", entry(0.5), meta=False)
    assert ("plain", "NQ") in cells(tmp_path)[0]


def test_subsets_are_averaged_and_the_same_for_all(tmp_path) -> None:
    both = (entry(0.2, "en"), entry(0.6, "de", ["deu-Latn"]))
    put(tmp_path, "org/a", "STS", *both)
    put(tmp_path, "org/b", "STS", *both, entry(0.9, "fr", ["fra-Latn"]))
    put(tmp_path, "org/c", "STS", *both)
    put(tmp_path, "org/d", "STS", both[0])
    found, remarks = cells(tmp_path)
    assert found == {
        ("org/a", "STS"): pytest.approx(0.4),
        ("org/b", "STS"): pytest.approx(0.4),
        ("org/c", "STS"): pytest.approx(0.4),
    }
    assert "tasks whose subsets were averaged: 'STS (2)'" in remarks
    assert any("'org/d on STS'" in remark for remark in remarks)
    english, _ = cells(tmp_path, languages=["eng"])
    assert set(english.values()) == {0.2}
    assert len(english) == 4


def test_another_split_where_there_is_no_test(tmp_path) -> None:
    put(tmp_path, "org/a", "TNews", entry(0.4), split="validation")
    put(tmp_path, "org/a", "NQ", entry(0.5))
    put(tmp_path, "org/b", "NQ", entry(0.5), split="dev")
    found, remarks = cells(tmp_path)
    assert found == {("org/a", "TNews"): 0.4, ("org/a", "NQ"): 0.5}
    assert "read from the split 'validation', the only one: 'TNews'" in remarks
    assert "omitted for lacking the split: 'org/b on NQ'" in remarks
    put(tmp_path, "org/b", "TNews", entry(0.4), split="dev")
    with pytest.raises(MismatchError, match="different splits: dev, validation"):
        cells(tmp_path)


def test_revisions(tmp_path) -> None:
    put(tmp_path, "org/a", "NQ", entry(0.1), revision="external")
    put(tmp_path, "org/a", "NQ", entry(0.5), revision="abc", version="1.2.0")
    assert cells(tmp_path)[0] == {("org/a", "NQ"): 0.5}
    put(tmp_path, "org/a", "NQ", entry(0.7), revision="def", version="1.18.0")
    found, remarks = cells(tmp_path)
    assert found == {("org/a", "NQ"): 0.7}
    assert "several revisions; the one of the latest mteb was read: 'org/a on NQ'" in remarks
    put(tmp_path, "org/a", "NQ", entry(0.8), revision="abc", version="1.18.0")
    with pytest.raises(MismatchError, match=r"two results on NQ.*Pass the folder of one"):
        cells(tmp_path)
    assert cells(tmp_path / "org__a" / "abc")[0] == {("org/a", "NQ"): 0.8}


def test_scores_that_are_no_numbers_are_missing(tmp_path) -> None:
    put(tmp_path, "org/a", "NQ", entry(math.nan))
    put(tmp_path, "org/b", "NQ", entry(0.5))
    found, remarks = cells(tmp_path)
    assert found == {("org/b", "NQ"): 0.5}
    assert "main scores that are NaN count as missing: 'org/a on NQ'" in remarks


def test_other_files_are_left_out(tmp_path) -> None:
    path = put(tmp_path, "org/a", "NQ", entry(0.5))
    old = {"mteb_dataset_name": "FiQA", "test": {"ndcg_at_10": 0.5}}
    (path.parent / "FiQA.json").write_text(json.dumps(old))
    (tmp_path / "paths.json").write_text("{}")
    inside = path.parent / "experiments" / "fp16"
    inside.mkdir(parents=True)
    (inside / "NQ.json").write_text("not read")
    found, remarks = cells(tmp_path)
    assert list(found) == [("org/a", "NQ")]
    assert len([remark for remark in remarks if remark.startswith("omitted")]) == 2
    assert cells(tmp_path, only=["NQ"])[1] == ()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "not JSON"),
        ('{"task_name": 3, "scores": {"test": []}}', "task_name is 3"),
        ('{"task_name": "NQ", "scores": {}}', r"NQ\.json: unknown split 'test'"),
        ('{"task_name": "NQ", "scores": {"dev": [], "train": []}}', "Known: 'dev', 'train'"),
        ('{"task_name": "NQ", "scores": {"test": []}}', "expected a list of subsets"),
        ('{"task_name": "NQ", "scores": {"test": [3]}}', "number 1: expected hf_subset"),
        (
            '{"task_name": "NQ", "scores": {"test": [{"hf_subset": "d", "main_score": "1"}]}}',
            "a number as main_score",
        ),
        (
            '{"task_name": "NQ", "scores": {"test": [{"hf_subset": "d", "main_score": Infinity}]}}',
            "not finite",
        ),
    ],
)
def test_broken_files_are_named(text, words, tmp_path) -> None:
    path = put(tmp_path, "org/a", "NQ", entry(0.5))
    path.write_text(text)
    with pytest.raises(FormatError, match=words):
        cells(tmp_path)


def test_folders_without_results(tmp_path) -> None:
    with pytest.raises(FormatError, match="test_folders_without_results0: no results of mteb"):
        compare_tasks(tmp_path)
    put(tmp_path, "org/a", "NQ", entry(0.5))
    with pytest.raises(UsageError, match="Tables and folders of mteb results are mixed"):
        compare_tasks([tmp_path, tmp_path / "values.csv"])


def test_only_tasks_are_resampled(tmp_path) -> None:
    for number in range(8):
        put(tmp_path, "org/a", f"T{number}", entry(0.5 + 0.01 * number))
        put(tmp_path, "org/b", f"T{number}", entry(0.3 + 0.011 * number))
    found = compare_tasks(tmp_path, resamples=300)
    assert found.units == "tasks"
    assert found.pairs[0].winner == "org/a"
    assert "only task means are known, so tasks were" in repr(found)
    with pytest.raises(UsageError, match="Pass values per query, or units='tasks'"):
        compare_tasks(tmp_path, units="queries")
