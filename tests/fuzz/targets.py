"""What reads each kind of file: functions of the library, and commands in this process."""

from __future__ import annotations

import contextlib
import io
import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from assay.bench.config import make_request, read_config
from assay.cli.main import main
from assay.cluster.jobs import ShardCheckpoint
from assay.cluster.shards import open_shard, open_shards
from assay.comparison.gate import read_gates
from assay.compat import ranx
from assay.core.hits import judge
from assay.core.ids import Ids
from assay.crossmodal.samples import load_text_prototypes_from_metadata, read_labels
from assay.errors import AssayError
from assay.integrations.records import read_model_card
from assay.io.arrays import read_vectors
from assay.io.checkpoint import Checkpoint
from assay.io.collections import read_answers, read_judgments
from assay.io.columns import read_groups
from assay.io.formats import read_qrels, read_run
from assay.io.texts import read_texts
from assay.prediction import import_results
from assay.prediction.files import read_prediction_file
from assay.scoring.score_data import load_scores
from assay.search.engine.prepared import prepare
from assay.search.safetensors import load_safetensors
from assay.tasks.tables import read_mteb, read_task_lines
from assay.vision.ground_truth import read_homography
from assay.vision.hpatches import read_splits
from assay.vision.keypoints import read_keypoints
from assay.vision.patches import evaluate_patches, read_patch_scenes
from assay.vision.scenes import name_categories
from assay.vision.settings import read_experiment

Target = Callable[[Path], Any]
ALLOWED: Final = frozenset({0, 1, 2, 3, 4, 5})


class InternalError(AssertionError):
    """A command ended with an exit code that no input may cause."""


def command(*arguments: str) -> Target:
    """A command line; {} is the file, {folder} where it lies."""

    def run(path: Path) -> None:
        words = [one.format(path, folder=path.parent) for one in arguments]
        said = io.StringIO()
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(said):
            code = main(words)
        if code not in ALLOWED:
            raise InternalError(f"exit {code} of {words}: {said.getvalue()[-300:]}")

    run.__name__ = " ".join(arguments)
    return run


def _judge_run(path: Path) -> None:
    judge(read_run(path), read_qrels(path.parent / "sound-qrels.trec"), allow_mismatch=True)


def _judge_numbered(path: Path) -> None:
    judge(read_run(path), read_qrels(path.parent / "sound-targets.npz"), allow_mismatch=True)


def _ranx_run(path: Path) -> None:
    with contextlib.suppress(AssertionError):  # what ranx raises for a document twice
        ranx.Run.from_file(str(path), kind="trec")


def _answers(path: Path) -> None:
    read_answers(path, Ids.of(["q1", "q2", "q3"], "query"), ["one", "two", "three"])


def _shard(path: Path) -> None:
    for shard in open_shards(str(path)):
        with open_shard(shard):
            pass


def _job(path: Path) -> None:
    folder = path.parent / "checkpoint"
    for old in folder.glob("*"):
        old.unlink()
    job = {"k": 5, "shards": [{"path": "docs.npy", "rows": 3, "sha256": "0" * 64}]}
    ShardCheckpoint(folder, job)
    (folder / path.name).write_bytes(path.read_bytes())
    ShardCheckpoint(folder, job)
    Checkpoint(folder, "f").load(path.name)


def _patch_scene(path: Path) -> Any:
    scene = path.parent / "patches" / "v_a"
    scene.mkdir(parents=True, exist_ok=True)
    for name in ("ref.csv", "e1.csv"):
        (scene / name).write_bytes(path.read_bytes())
    return read_patch_scenes(scene.parent)


def _result(path: Path) -> None:
    import_results({"model": path}, unit="percent").to_dict()


def _mteb(path: Path) -> None:
    read_mteb([path.parent])


RUN: Final = (read_run, _judge_run, command("eval", "{}", "-r", "{folder}/sound-qrels.trec"))
NUMBERED: Final = (
    read_run,
    _judge_numbered,
    command("eval", "{}", "-r", "{folder}/sound-targets.npz"),
)
TWO_RUNS: Final = ("{folder}/sound-run.trec", "{folder}/other-run.trec")
JUDGED: Final = ("-r", "{folder}/sound-qrels.trec")
RANK: Final = ("rank", "{folder}/docs.npy", "{folder}/docs.npy", "-k", "2", "-o", "{folder}/o.run")
VERIFY: Final = command("verify", "{}", "--folder", "{folder}")
TREC_EVAL: Final = ("trec_eval", "-q", "-c", "-m", "all_trec")
QRELS: Final = (read_qrels, command("eval", "{folder}/sound-run.trec", "-r", "{}"))
NUMBERED_QRELS: Final = (
    read_qrels,
    command("eval", "{folder}/sound-scores.npy", "-r", "{}", "--allow-mismatch"),
)
TARGETS: Final[dict[str, tuple[Target, ...]]] = {
    "run.trec": (
        *RUN,
        command("check", "{}", "{folder}/sound-qrels.trec"),
        command(*TREC_EVAL, "{folder}/sound-qrels.trec", "{}"),
        command("compare", "{}", "{folder}/other-run.trec", *JUDGED, "--resamples", "100"),
        command("report", "{}", *JUDGED, "--resamples", "100", "-o", "{folder}/report.html"),
        _ranx_run,
    ),
    "run.trec.gz": RUN,
    "qrels.trec": (*QRELS, command(*TREC_EVAL, "{}", "{folder}/sound-run.trec")),
    "run.csv": (*RUN, command("convert", "{}", "{folder}/out.json")),
    "run.tsv": RUN,
    "qrels.csv": QRELS,
    "run.json": (*RUN, command("convert", "{}", "{folder}/out.csv")),
    "records.json": RUN,
    "run.jsonl": RUN,
    "run.npz": (*NUMBERED, command("convert", "{}", "{folder}/out.parquet")),
    "qrels.npz": NUMBERED_QRELS,
    "targets.npz": NUMBERED_QRELS,
    "labels.npz": NUMBERED_QRELS,
    "scores.npy": (
        *NUMBERED,
        lambda path: read_vectors(path, "doc"),
        command("rank", "{}", "{folder}/sound-scores.npy", "-k", "2", "-o", "{folder}/out.trec"),
        command("predict", "{}", "--targets", "{folder}/sound-scores.npy"),
    ),
    "run.parquet": (*RUN, read_task_lines),
    "docs.safetensors": (load_safetensors, _shard),
    "experiment.yaml": (read_experiment,),
    "bench.toml": (lambda path: make_request(read_config(path)),),
    "homography.txt": (read_homography,),
    "homography.xml": (read_homography,),
    "keypoints.csv": (read_keypoints,),
    "tasks.csv": (read_task_lines, command("tasks", "{}", "--resamples", "20")),
    "mteb.json": (_mteb,),
    "result.json": (_result, command("predict", "--results", "{}")),
    "manifest.json": (_shard,),
    "job.json": (_job,),
    "started": (_job,),
    "a.part": (_job,),
    "groups.csv": (lambda path: read_groups(str(path), Ids.of(["q1", "q2", "q3"], "query")),),
    "texts.jsonl": (lambda path: read_texts(path, "doc"),),
    "pairs.json": (read_judgments,),
    "predictions.csv": (
        lambda path: read_prediction_file(path, candidates=("top10",)),
        command("predict", "{}", "--candidates", "top10", "--by", "user"),
    ),
    "predictions.jsonl": (
        lambda path: read_prediction_file(path, candidates=("top10",)),
        command("predict", "{}", "--candidates", "top10"),
    ),
    "predictions.npz": (read_prediction_file, command("predict", "{}")),
    "vectors.npz": (
        lambda path: read_vectors(path, "doc"),
        command("rank", "{}", "{}", "-k", "2", "-o", "{folder}/out.trec"),
        command("codes", "{}"),
    ),
    "ref.csv": (lambda path: evaluate_patches(_patch_scene(path)),),
    "categories.csv": (lambda path: name_categories(["v_a", "i_b"], path),),
    "looks.json": (lambda path: read_gates(str(path)),),
    "run.trec.zst": RUN,
    "headed.run": RUN,
    "scores.json": (VERIFY,),
    "runs.json": (VERIFY, command("runs", "import", "{}", "--store", "{folder}/new.db")),
    "docs.prepared": (
        command(*RANK, "--prepare", "{}"),
        lambda path: prepare(path.parent / "docs.npy", path),
    ),
    "metadata.yaml": (
        command("fuse", *TWO_RUNS, "--ir-metadata", "{}", "-o", "{folder}/fused.run"),
    ),
    "map.json": (
        command(
            "crossmodal",
            "--modality",
            "a={folder}/docs.npy",
            "--modality",
            "b={folder}/docs.npy",
            "--labels",
            "{folder}/labels.json",
            "--label-map",
            "coarse={}",
            "--json",
        ),
    ),
    "kinds.tsv": (
        command("compare", *TWO_RUNS, *JUDGED, "--slices", "{}:kind", "--resamples", "100"),
    ),
    "ids.txt": (command(*RANK, "--doc-ids", "{}"),),
    "codes.npz": (
        command("codes", "--embeddings", "{folder}/docs.npy", "--codes", "mine={}", "--k", "2"),
    ),
    "answers.csv": (_answers,),
    "answers.json": (_answers,),
    "answers.jsonl": (_answers,),
    "card.md": (read_model_card,),
    "splits.json": (lambda path: read_splits(path.parent),),
    "captions.json": (lambda path: load_text_prototypes_from_metadata(path, "data", "plain"),),
    "categories.json": (lambda path: name_categories(["v_a", "i_b"], path),),
    "baseline.json": (load_scores,),
    "levels.json": (lambda path: read_labels({"": str(path)}, {}, {}),),
}


def try_target(target: Target, path: Path) -> None:
    """Call a reader; a named error is an answer like any other, a warning is none."""
    before = os.getcwd()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", RuntimeWarning)  # those of numpy
            target(path)
    except AssayError as error:
        if not str(error).strip():
            raise InternalError("an error without words") from error
    finally:
        os.chdir(before)
