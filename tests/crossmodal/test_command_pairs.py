"""`assay crossmodal`: image–text pairs, sides with labels of their own, zero-shot classes."""

from __future__ import annotations

import json

import numpy as np
import pytest

from assay.crossmodal import (
    Prototypes,
    label_retrieval,
    paired_retrieval,
    zero_shot_classification,
)
from assay.crossmodal.demo import write_demo

PAIRS = ("--modality", "image=images.npy", "--modality", "text=texts.npy")
SPLIT = ("--modality", "test=test.npy", "--modality", "train=images.npy")
OWN = ("--modality-labels", "test=test-classes.npy", "train=classes.npy")
PROMPTS = ("--prototype-embeddings", "prompts.npz")


@pytest.fixture
def here(tmp_path, monkeypatch):
    """The demo's files, and what they hold."""
    write_demo(tmp_path)
    monkeypatch.chdir(tmp_path)
    return {path.stem: np.load(path) for path in tmp_path.glob("*.npy")}


def data(answer):
    assert answer.code == 0, answer.err
    return json.loads(answer.out)


def test_a_protocol_has_the_numbers_of_the_library(here, assay):
    answer = data(assay("crossmodal", *PAIRS, "--protocol", "coco-1k", "--json"))
    expected = paired_retrieval(
        {"image": here["images"], "text": here["texts"]}, protocol="coco-1k"
    )
    assert answer["levels"]["pair"]["rSum"]["value"] == pytest.approx(expected.rsum().value)
    measures = answer["levels"]["pair"]["text2image"]["measures"]
    assert list(measures) == ["Success@1", "Success@5", "Success@10", "MedR", "MeanR"]
    assert measures["Success@5"]["chance"] == pytest.approx(5 / 40)
    assert answer["folds"] == 5
    assert "not comparable with published numbers" in answer["remarks"][0]


def test_a_protocol_prints_the_row_of_papers(here, assay):
    text = assay("crossmodal", *PAIRS, "--protocol", "pairs", "-m", "MAP@R")
    assert text.out.startswith("pairs: any number of images")
    assert "image2text R@1   R@5" in text.out
    latex = assay("crossmodal", *PAIRS, "--protocol", "pairs", "--format", "latex").out
    assert r"MedR & MeanR & rSum \\" in latex
    table = assay("crossmodal", *PAIRS, "--protocol", "pairs", "--format", "csv").out
    assert table.splitlines()[0].startswith("positives,direction,measure,value,95 % low")
    assert len(table.splitlines()) == 12


def test_pairs_by_id_are_those_of_the_layout(here, assay):
    np.save("pair-of-image.npy", np.arange(200))
    order = np.random.default_rng(0).permutation(1000)
    np.savez("mixed.npz", text_embeddings=here["texts"][order], sample_ids=order + 5000)
    np.savez("pair-of-text.npz", labels=np.arange(1000) // 5, sample_ids=np.arange(5000, 6000))
    mixed = ("--modality", "image=images.npy", "--modality", "text=mixed.npz", "--modality-labels")
    pairs = ("image=pair-of-image.npy", "text=pair-of-text.npz", "--protocol", "pairs", "--json")
    found = data(assay("crossmodal", *mixed, *pairs))
    plain = data(assay("crossmodal", *PAIRS, "--protocol", "pairs", "--json"))
    assert found["levels"]["pair"]["rSum"] == plain["levels"]["pair"]["rSum"]


def test_qrels_and_ids_of_samples(here, assay, tmp_path):
    (tmp_path / "image-ids.txt").write_text("".join(f"img{i}\n" for i in range(200)))
    lines = (tmp_path / "positives.txt").read_text().splitlines()
    named = [line.split() for line in lines]
    (tmp_path / "named.txt").write_text("".join(f"{q} 0 img{d} {g}\n" for q, _, d, g in named))
    protocol = ("--protocol", "pairs", "--json")
    plain = data(assay("crossmodal", *PAIRS, *protocol, "--qrels", "text2image=positives.txt"))
    ids = data(
        assay(
            *("crossmodal", *PAIRS, *protocol, "--qrels", "text2image=named.txt"),
            *("--modality-ids", "image=image-ids.txt"),
        )
    )
    one, other = (found["levels"]["qrels"]["text2image"] for found in (plain, ids))
    assert one["queries"] == 200
    assert one["measures"]["Success@1"]["value"] == other["measures"]["Success@1"]["value"]
    assert (
        one["measures"]["Success@5"]["value"]
        > plain["levels"]["pair"]["text2image"]["measures"]["Success@5"]["chance"]
    )


def test_positives_in_the_layout_of_eccv_caption(here, assay, tmp_path):
    """{query id: [ids of positives]} in each direction, of some queries only."""
    image_ids = [391895 + 7 * image for image in range(200)]
    text_ids = [770337 + text for text in range(1000)]
    for name, ids in (("image", image_ids), ("text", text_ids)):
        (tmp_path / f"{name}-ids.txt").write_text("".join(f"{one}\n" for one in ids))
    to_image = {str(text_ids[3]): [image_ids[0], image_ids[7]], str(text_ids[9]): [image_ids[1]]}
    to_text = {str(image_ids[0]): [text_ids[0], text_ids[3], text_ids[40]]}
    (tmp_path / "eccv_caption_to_image.json").write_text(json.dumps(to_image))
    (tmp_path / "eccv_image_to_caption.json").write_text(json.dumps(to_text))
    answer = data(
        assay(
            *("crossmodal", *PAIRS, "--protocol", "pairs", "--json", "-m", "MAP@R", "-m", "Rprec"),
            *("--modality-ids", "image=image-ids.txt", "text=text-ids.txt"),
            *("-r", "text2image=eccv_caption_to_image.json"),
            *("-r", "image2text=eccv_image_to_caption.json"),
        )
    )
    found = answer["levels"]["qrels"]
    assert (found["text2image"]["queries"], found["image2text"]["queries"]) == (2, 1)
    images, texts = (here[name].astype(float) for name in ("images", "texts"))
    images /= np.linalg.norm(images, axis=1, keepdims=True)
    texts /= np.linalg.norm(texts, axis=1, keepdims=True)
    first = np.argsort(-(texts @ images[0]), kind="stable")[:3]
    hits = [text in (0, 3, 40) for text in first]
    measures = found["image2text"]["measures"]
    assert measures["Rprec"]["value"] == pytest.approx(np.mean(hits))
    precisions = [hits[i] * sum(hits[: i + 1]) / (i + 1) for i in range(3)]
    assert measures["MAP@R"]["value"] == pytest.approx(sum(precisions) / 3)


def test_test_queries_search_a_training_gallery(here, assay):
    answer = data(
        assay(
            "crossmodal",
            *SPLIT,
            *OWN,
            "--directions",
            "test2train",
            "-m",
            "RR",
            "-m",
            "AP",
            "--json",
        )
    )
    expected = label_retrieval(
        {"test": here["test"], "train": here["images"]},
        modality_labels={"test": here["test-classes"], "train": here["classes"]},
        directions=["test2train"],
        measures=["RR", "AP"],
        k_values=(),
    )["label"]["test2train"]
    one = answer["levels"]["label"]["test2train"]
    assert {name: row["micro"] for name, row in one["measures"].items()} == dict(expected.micro)
    assert (one["queries"], one["docs"], one["label_recall_at_k"]) == (40, 200, {})
    both = assay("crossmodal", *SPLIT, *OWN, "-m", "RR", "--k-values", "3", "--json")
    assert list(data(both)["levels"]["label"]["test2train"]["measures"]) == ["P@3", "RR"]


def test_zero_shot_classification(here, assay, tmp_path):
    options = ("--modality", "image=images.npy", "--labels", "classes.npy", *PROMPTS, "--zero-shot")
    answer = data(assay("crossmodal", *options, "--json"))
    prompts = np.load("prompts.npz")
    prototypes = Prototypes.of(prompts["embeddings"], prompts["labels"])
    expected = zero_shot_classification(
        {"image": here["images"]}, here["classes"], prototypes=prototypes
    )["image2prototype"]
    (row,) = answer["zero_shot"]
    assert row["top-1"] == expected.micro["Success@1"]
    assert row["mean per class"] == pytest.approx(expected.macro["Success@1"])
    assert row["chance"] == pytest.approx(1 / 8)
    text = assay("crossmodal", *options, "--confusion", "confusion.csv")
    assert text.out.startswith("Zero-shot classification")
    counts = np.genfromtxt("confusion.csv", delimiter=",", dtype=str, skip_header=1)
    assert counts[:, 5].astype(int).sum() == 200
    latex = assay("crossmodal", *options, "--format", "latex").out
    assert "top-1 & 95" in latex


def test_a_label_map_holds_for_prototypes(here, assay, tmp_path):
    names = np.unique(here["classes"]).tolist()
    coarser = {name: "indoor" if name in ("cat", "kitchen") else "outdoor" for name in names}
    (tmp_path / "map.json").write_text(json.dumps(coarser))
    answer = data(
        assay(
            *("crossmodal", "--modality", "image=images.npy", "--labels", "fine=classes.npy"),
            *(*PROMPTS, "--label-map", "coarse=map.json", "--k-values", "5", "--json"),
        )
    )
    one = answer["levels"]["coarse"]["prototype2image"]
    assert one["empty_labels"] == []
    assert {name: row["queries"] for name, row in one["labels"].items()} == {
        "indoor": 6,
        "outdoor": 18,
    }
    del coarser["cat"]
    coarser["dog"] = "indoor"
    (tmp_path / "short.json").write_text(json.dumps(coarser))
    np.save("no-cat.npy", np.where(here["classes"] == "cat", "snow", here["classes"]))
    failed = assay(
        *("crossmodal", "--modality", "image=images.npy", "--labels", "fine=no-cat.npy"),
        *(*PROMPTS, "--label-map", "coarse=short.json"),
    )
    assert failed.code == 3
    assert "short.json lacks the labels 'cat' of prototypes" in failed.err


def test_prototypes_of_coarser_labels_stay_so(here, assay, tmp_path):
    (tmp_path / "map.json").write_text(
        json.dumps(dict.fromkeys(np.unique(here["classes"]).tolist(), "all"))
    )
    np.savez("coarse.npz", embeddings=np.ones((1, 24)), labels=np.array(["all"]))
    answer = data(
        assay(
            *("crossmodal", "--modality", "image=images.npy", "--labels", "fine=classes.npy"),
            *("--prototype-embeddings", "coarse.npz", "--label-map", "coarse=map.json", "--json"),
        )
    )
    assert answer["levels"]["coarse"]["prototype2image"]["label_recall_at_k"]["10"] == 1.0
    assert answer["levels"]["fine"]["prototype2image"]["empty_labels"] == ["all"]


def test_saved_runs_have_rank_numbers(here, assay):
    assert assay("crossmodal", *PAIRS, "--protocol", "pairs", "--save").code == 0
    shown = assay("runs", "show", "2", "--json")
    kept = {(one["measure"], one["average"]): one for one in data(shown)["run"]["aggregates"]}
    assert kept["MeanR", "micro"]["chance"] == pytest.approx(100.5)
    assert kept["rSum", "both directions"]["low"] < kept["rSum", "both directions"]["value"]
    resampled = assay("runs", "show", "2").out
    assert "whole groups by label" in resampled


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((*PAIRS, "--protocol", "pairs", "--labels", "classes.npy"), "exclude each other"),
        ((*PAIRS, "--protocol", "pairs", "--full"), "--protocol and --full exclude"),
        ((*PAIRS, "--folds", "2"), "--folds requires --protocol"),
        ((*PAIRS,), "Missing option '--labels'"),
        (
            (*SPLIT, *OWN, "--labels", "classes.npy"),
            "--labels and --modality-labels exclude each other",
        ),
        ((*SPLIT, "--modality-labels", "classes.npy"), "write MODALITY=FILE"),
        ((*SPLIT, *OWN, "--zero-shot"), "--zero-shot requires label descriptions"),
        ((*PAIRS, "--protocol", "pairs", "-m", "RRR"), "RRR"),
        ((*PAIRS, "--protocol", "coco"), "coco-5k"),
    ],
)
def test_refusals(here, assay, arguments, words):
    answer = assay("crossmodal", *arguments)
    assert answer.code == 2
    assert words in answer.err


def test_the_demo_shows_each_command_at_work(tmp_path, assay):
    answer = assay("crossmodal", "--demo", str(tmp_path / "demo"))
    assert answer.code == 0
    assert answer.out.count("$ assay crossmodal ") == 5
    assert "Zero-shot classification" in answer.out
    assert r"\toprule" in answer.out
