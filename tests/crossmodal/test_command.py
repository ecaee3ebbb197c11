"""`assay crossmodal`: every option of the document's command line, and the richer answers."""

from __future__ import annotations

import json
import re
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from assay.crossmodal import label_retrieval
from tests.models.files import write_safetensors

SUMMARY = ("--format", "summary")
K = ("--k-values", "5", "10")


@pytest.fixture
def world(tmp_path, monkeypatch):
    """Embeddings and labels as .npy and as one .npz, metadata, and a text model."""
    rng = np.random.default_rng(0)
    labels = np.array([f"l{i}" for i in rng.integers(0, 4, 60)])
    sensor, text = rng.normal(size=(2, 60, 5)).astype(np.float32)
    np.save(tmp_path / "sensor.npy", sensor)
    np.save(tmp_path / "text.npy", text)
    np.save(tmp_path / "labels.npy", labels)
    np.save(tmp_path / "coarse.npy", (labels < "l2").astype(int))
    np.savez(tmp_path / "data.npz", sensor_embeddings=sensor, text_embeddings=text, labels=labels)
    texts = {"l0": "zero", "l1": ["one", "eins"], "l9": "nobody"}
    (tmp_path / "meta.json").write_text(json.dumps({"milan": {"label_to_text_sourish": texts}}))
    (tmp_path / "cross_model.py").write_text(
        "def f(texts):\n    return [[len(t), ord(t[0]), 1, ord(t[-1]), 2] for t in texts]\n"
        "def factory(content, device):\n    return f\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    return {"sensor": sensor, "text": text}, labels


def values(results):
    return {name: {str(k): v for k, v in row.items()} for name, row in results.items()}


FILES = (
    "--sensor_embeddings",
    "sensor.npy",
    "--text_embeddings",
    "text.npy",
    "--labels",
    "labels.npy",
)


def test_the_documents_command_line(world, assay):
    answer = assay(
        "crossmodal",
        *FILES,
        "--k_values",
        "10",
        "5",
        "--directions",
        "text2sensor",
        "sensor2text",
        "sensor2sensor",
        "text2text",
        "--normalize",
        "--output",
        "results.json",
        *SUMMARY,
    )
    assert answer.code == 0
    assert answer.out.startswith("=" * 70 + "\nLABEL-RECALL@K RESULTS SUMMARY\n")
    assert "Sensor -> Sensor:" in answer.out
    assert "it is P@k" in answer.err
    expected = label_retrieval(
        world[0],
        world[1],
        k_values=[5, 10],
        directions=["text2sensor", "sensor2text", "sensor2sensor", "text2text"],
    )["label"]
    assert json.loads(Path("results.json").read_text()) == values(expected)


def test_the_default_is_a_table_with_interval_chance_and_signature(world, assay):
    answer = assay("crossmodal", *FILES, *K, "--directions", "text2sensor")
    head, first, *_ = answer.out.splitlines()
    assert head.split() == [
        *("direction", "measure", "mean", "95", "%", "CI", "chance", "ceiling", "queries"),
    ]
    result = label_retrieval(world[0], world[1], k_values=[5, 10], directions=["text2sensor"])
    part = result["label"]["text2sensor"]
    ends = part.intervals()[0].text()
    chance, ceiling = part.chance.mean()["P@5"], part.ceiling.mean()["P@5"]
    numbers = f"{part.micro['P@5']:.4f} {ends} {chance:.4f} {ceiling:.4f} 60"
    assert " ".join(first.split()) == f"text2sensor P@5 {numbers}"
    assert answer.out.splitlines()[-1].startswith("signature ")
    assert "Label-Recall" not in answer.out + answer.err


def test_hyphens_and_underscores_are_the_same(world, assay):
    hyphens = assay("crossmodal", *[part.replace("_", "-") for part in FILES], *K)
    assert hyphens == assay("crossmodal", *FILES, "--k_values", "5", "10")


def test_npz_with_keys_and_without(world, assay):
    npy = assay("crossmodal", *FILES, *K).out
    keys = (
        "--sensor_key",
        "sensor_embeddings",
        "--text_key",
        "text_embeddings",
        "--labels_key",
        "labels",
    )
    npz = (
        "--sensor_embeddings",
        "data.npz",
        "--text_embeddings",
        "data.npz",
        "--labels",
        "data.npz",
    )
    assert assay("crossmodal", *npz, *keys, *K).out == npy
    assert assay("crossmodal", *npz, *K).out == npy
    wrong = assay("crossmodal", *npz, "--text-key", "txt")
    assert wrong.code == 2
    assert "no array 'txt'" in wrong.err


PROTOTYPES = (
    "--use_prototypes",
    "--metadata",
    "meta.json",
    "--dataset_name",
    "milan",
    "--caption_style",
    "sourish",
)


def test_prototypes_by_an_encoder(world, assay):
    encoder = ("--encoder", "py:cross_model:f", *SUMMARY)
    answer = assay("crossmodal", *FILES, *PROTOTYPES, *encoder, *K)
    assert answer.code == 0
    assert "Text Prototype -> Sensor:" in answer.out
    assert "Text Prototype -> Text:" in answer.out
    assert "1 prototypes whose label no item carries were left out: 'l9'" in answer.err
    one = assay(
        "crossmodal",
        *FILES,
        *PROTOTYPES,
        *encoder,
        *K,
        "--directions",
        "prototype2sensor",
    )
    assert "Text Prototype -> Text:" not in one.out


def test_prototypes_by_a_checkpoint(world, assay):
    write_safetensors(Path("m.safetensors"), {"w": np.ones(1, np.float32)})
    base = ("crossmodal", *FILES, *PROTOTYPES, *K, *SUMMARY)
    made = assay(
        *base, "--checkpoint", "m.safetensors", "--text-encoder-factory", "cross_model:factory"
    )
    assert made.code == 0
    assert made.out == assay(*base, "--encoder", "py:cross_model:f").out
    bare = assay(*base, "--checkpoint", "m.safetensors")
    assert bare.code == 3
    assert "names no text model" in bare.err


def test_ready_prototypes(world, assay):
    np.savez("proto.npz", embeddings=np.eye(5, dtype=np.float32)[:2], labels=np.array(["l0", "l1"]))
    np.save("proto.npy", np.eye(5, dtype=np.float32)[:2])
    np.save("names.npy", np.array(["l0", "l1"]))
    base = ("crossmodal", *FILES, *K, *SUMMARY, "--prototype-embeddings")
    ready = assay(*base, "proto.npz")
    assert ready.code == 0
    assert "Text Prototype -> Sensor:" in ready.out
    assert ready.out == assay(*base, "proto.npy", "--prototype-labels", "names.npy").out
    assert "Pass --prototype-labels" in assay(*base, "proto.npy").err


def test_other_modalities(world, assay):
    answer = assay(
        "crossmodal",
        "--modality",
        "image=sensor.npy",
        "--modality",
        "audio=data.npz",
        "--modality-key",
        "audio=text_embeddings",
        "--labels",
        "labels.npy",
        *K,
        "--directions",
        "image2audio",
        "audio2audio",
        "-o",
        "r.json",
        *SUMMARY,
    )
    assert answer.code == 0
    assert "Image -> Audio:" in answer.out
    expected = label_retrieval(
        {"image": world[0]["sensor"], "audio": world[0]["text"]},
        world[1],
        k_values=[5, 10],
        directions=["image2audio", "audio2audio"],
    )["label"]
    assert json.loads(Path("r.json").read_text()) == values(expected)


def test_levels(world, assay):
    Path("map.json").write_text(json.dumps({f"l{i}": int(i < 2) for i in range(4)}))
    sides = (*FILES[:4], *SUMMARY)
    named = assay(
        "crossmodal", *sides, "--labels", "l2=labels.npy", "l1=coarse.npy", *K, "-o", "levels.json"
    )
    assert named.code == 0
    assert "RESULTS SUMMARY (l1)" in named.out
    found = json.loads(Path("levels.json").read_text())
    assert list(found) == ["l2", "l1"]
    mapped = assay(
        "crossmodal", *sides, "--labels", "l2=labels.npy", "--label-map", "l1=map.json", *K
    )
    assert mapped.out == named.out
    labels = world[1].tolist()
    both = {"l2": labels, "l1": [int(label < "l2") for label in labels]}
    Path("both.json").write_text(json.dumps(both))
    assert assay("crossmodal", *sides, "--labels", "both.json", *K).out == named.out


def test_sample_ids_bring_rows_together(world, assay):
    rng = np.random.default_rng(1)
    ids = np.arange(60)
    for name, array in (("sensor", world[0]["sensor"]), ("text", world[0]["text"])):
        order = rng.permutation(60)
        np.savez(f"{name}.npz", embeddings=array[order], sample_ids=ids[order])
    by_id = {"label": {f"s{i}": label for i, label in enumerate(world[1].tolist())}}
    Path("by_id.json").write_text(json.dumps(by_id))
    order = rng.permutation(60)
    np.savez("labels.npz", labels=world[1][order], sample_ids=ids[order])
    sides = ("--sensor-embeddings", "sensor.npz", "--text-embeddings", "text.npz")
    mixed = assay("crossmodal", *sides, "--labels", "labels.npz", *K, *SUMMARY)
    assert mixed.out == assay("crossmodal", *FILES, *K, *SUMMARY).out
    strange = assay("crossmodal", *sides, "--labels", "by_id.json", *K)
    assert strange.code == 3


def test_full_prints_every_table(world, assay):
    answer = assay("crossmodal", *FILES, *K, "--full")
    assert answer.code == 0
    for words in (
        "MAP@R",
        "nDCG@10",
        "chance",
        "ceiling",
        "macro",
        "tied share",
        "95 % intervals over queries",
        "retrieved label",
        "preset:label_retrieval",
    ):
        assert words in answer.out
    written = assay("crossmodal", *FILES, *K, "--full", "-o", "table.md")
    assert written.out == ""
    assert "| text2sensor | P@5 |" in Path("table.md").read_text()


def test_json_has_everything(world, assay):
    answer = assay("crossmodal", *FILES, *K, "--full", "--json", "--directions", "sensor2sensor")
    data = json.loads(answer.out)
    assert data["schema_version"] == 1
    assert data["command"] == "crossmodal"
    one = data["levels"]["label"]["sensor2sensor"]
    assert set(one["measures"]) == {"P@5", "P@10", "R@5", "R@10", "nDCG@5", "nDCG@10", "MAP@R"}
    assert "self:exclude" in one["signature"]
    assert one["measures"]["P@5"]["low"] < one["measures"]["P@5"]["micro"]
    assert sum(label["queries"] for label in one["labels"].values()) == 60
    assert one["confusion"]["k"] == 5
    assert one["label_recall_at_k"]["5"] == one["measures"]["P@5"]["micro"]


def test_confusion_files(world, assay):
    answer = assay(
        "crossmodal",
        *FILES,
        *K,
        "--confusion",
        "map.svg",
        "table.csv",
        "table.json",
        "table.md",
        "--confusion-k",
        "3",
    )
    assert answer.code == 0
    assert ElementTree.parse("map.svg").getroot().tag.endswith("svg")
    pairs = json.loads(Path("table.json").read_text())["confusion"]
    assert [entry["direction"] for entry in pairs] == ["text2sensor", "sensor2text"]
    assert all(entry["k"] == 3 for entry in pairs)
    assert sum(row["count"] for row in pairs[0]["pairs"]) == 60 * 3
    assert Path("table.csv").read_text().startswith("level,direction,k,query label")


def test_dropped_labels(world, assay):
    answer = assay("crossmodal", *FILES, *K, "--json", "--drop-labels", "l0,l1", "l3")
    assert set(json.loads(answer.out)["levels"]["label"]["text2sensor"]["labels"]) == {"l2"}


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("--labels", "labels.npy"), 2, "No embeddings to search"),
        (FILES[:4], 2, "Missing option '--labels'"),
        ((*FILES, "--k-values", "0"), 2, "whole number ≥ 1"),
        ((*FILES, "--k-values", "-3"), 2, "whole number ≥ 1"),
        ((*FILES, "--k-values", "ten"), 2, "is not a whole number"),
        ((*FILES, "--directions", "text2senser"), 2, "Did you mean text2sensor"),
        ((*FILES, "--use-prototypes"), 2, "--metadata and --dataset-name"),
        ((*FILES, *PROTOTYPES), 2, "--encoder and --checkpoint exclude each other"),
        ((*FILES, *PROTOTYPES, "--encoder", "nothing"), 2, "Unknown encoder"),
        ((*FILES, "--modality", "x.npy"), 2, "write NAME=FILE"),
        ((*FILES, "--modality", "text=text.npy"), 2, "--modality text repeats --text-embeddings"),
        ((*FILES, "--modality-key", "video=a"), 2, "--modality-key names 'video', an unknown name"),
        ((*FILES, "--labels", "coarse.npy"), 2, "--labels: a value without a name appears twice"),
        ((*FILES, "-o", "out.csv"), 2, r"out\.csv: summaries are \.json"),
        ((*FILES, "-o", "labels.npy", "--full"), 2, "one of the inputs|cannot be written as"),
        ((*FILES, "--confusion", "x.png"), 2, "use .svg"),
        ((*FILES, "--confusion", "sensor.npy"), 2, "one of the inputs|use .svg"),
        ((*FILES, "--normalize", "--metric", "l2"), 2, "See 'assay crossmodal --help'"),
        (
            (*FILES, "--text-encoder-factory", "a:b", *PROTOTYPES, "--encoder", "wordllama"),
            2,
            "--text-encoder-factory requires --checkpoint",
        ),
        (("--sensor-embeddings", "no.npy", "--labels", "labels.npy"), 5, "does not exist"),
        (("--sensor-embeddings", "meta.json", "--labels", "labels.npy"), 3, "npy and .npz"),
        ((*FILES, "extra"), 2, ""),
    ],
)
def test_refusals(world, assay, arguments, code, words):
    answer = assay("crossmodal", *arguments)
    assert answer.code == code, answer.err
    assert re.search(words, answer.err)
    assert "Traceback" not in answer.err
    assert answer.out == ""


def test_help_has_two_examples_and_loads_at_most_numpy(assay):
    from tests.cli.test_start_up import HEAVY, loaded_after

    assert assay("crossmodal", "--help").out.count("assay crossmodal --") >= 2
    assert loaded_after("crossmodal", "--help") & set(HEAVY) <= {"numpy"}
