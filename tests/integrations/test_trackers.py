"""Records in trackers: MLflow for real where it is installed, wandb by a stand-in or for real."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from assay import evaluate
from assay.errors import MissingPackageError, UsageError
from assay.integrations import log_mlflow, log_wandb
from assay.runs.record import RunRecord
from assay.store.files import write_records

QRELS = {f"q{i}": {"a": 1} for i in range(30)}
RUN = {query: {"a": 2.0 if i % 3 else 0.5, "b": 1.0} for i, query in enumerate(QRELS)}


@pytest.fixture
def record(tmp_path) -> RunRecord:
    file = tmp_path / "bm25.run"
    file.write_text("q1 Q0 a 1 2.0 bm25\n")
    return RunRecord(
        "bm25",
        evaluate(RUN, QRELS, ["nDCG@10", "P(rel=2)@5"]),
        task="retrieval",
        dataset="cranfield",
        config={"k1": 0.9, "stem": {"by": "Porter"}},
        seeds={"seed": 3},
        tags=("lexical", "old"),
        notes="as in the paper",
        files=(str(file),),
    )


def as_stored(file: Path, tmp_path: Path) -> Any:
    """The only run of a file, as a store imports it."""
    pytest.importorskip("sqlalchemy")
    import assay.store

    with assay.store.open(tmp_path / "a.db") as store:
        store.load(file)
        assert not store.damages()
        assert not store.unsigned()
        return store.run(1), store.run(1).scores()


def test_records_are_written_as_a_store_imports_them(record, tmp_path):
    write_records([record], tmp_path / "record.json")
    run, scores = as_stored(tmp_path / "record.json", tmp_path)
    assert (run.name, run.dataset, run.config, run.tags) == (
        "bm25",
        "cranfield",
        {"k1": 0.9, "stem": {"by": "Porter"}},
        ("lexical", "old"),
    )
    assert scores.values.tobytes() == record.scored().values.tobytes()
    assert scores.signature == record.scored().signature


@pytest.fixture
def mlflow(tmp_path, monkeypatch) -> Any:
    """MLflow with a store of files in a folder of the test."""
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    found = pytest.importorskip("mlflow")
    found.set_tracking_uri((tmp_path / "mlruns").as_uri())
    return found


@pytest.mark.filterwarnings("ignore")
def test_mlflow_holds_metrics_params_tags_and_files(record, mlflow, tmp_path):
    run = log_mlflow(record)
    assert mlflow.active_run() is None
    found = mlflow.get_run(run)
    mean = record.means["nDCG@10"]
    assert found.data.metrics["nDCG_at_10"] == mean
    assert found.data.metrics["nDCG_at_10_low"] < mean < found.data.metrics["nDCG_at_10_high"]
    assert found.data.metrics["nDCG_at_10_n"] == 30
    assert "P_rel_2_at_5" in found.data.metrics
    assert found.data.params["conventions.ties"] == "order"
    assert found.data.params["queries"] == record.scored().query_set
    assert found.data.params["config.stem.by"] == "Porter"
    assert found.data.params["seeds.seed"] == "3"
    digests = [text for key, text in found.data.params.items() if key.endswith("sha256")]
    assert len(digests) == 1
    assert len(digests[0]) == 64
    assert found.data.tags["assay.signature"] == record.scored().signature
    assert found.data.tags["assay.tags"] == "lexical, old"
    assert found.data.tags["mlflow.note.content"] == "as in the paper"
    assert found.info.run_name == "bm25"
    folder = Path(mlflow.artifacts.download_artifacts(run_id=run, artifact_path="assay"))
    assert "<html" in (folder / "report.html").read_text("utf-8")
    stored, scores = as_stored(folder / "record.json", tmp_path)
    assert stored.name == "bm25"
    assert scores.values.tobytes() == record.scored().values.tobytes()


@pytest.mark.filterwarnings("ignore")
def test_an_active_run_of_mlflow_is_used_and_left_open(record, mlflow):
    with mlflow.start_run() as active:
        assert log_mlflow(record, report=False) == active.info.run_id
        assert mlflow.active_run() is not None
        with pytest.raises(UsageError, match="An MLflow run is active: arguments have no effect"):
            log_mlflow(record, run_name="other")
    files = mlflow.MlflowClient().list_artifacts(active.info.run_id, "assay")
    assert [one.path for one in files] == ["assay/record.json"]


class FakeRun:
    """As much of a run of wandb as `log_wandb` touches."""

    def __init__(self, **init: Any) -> None:
        self.init, self.id, self.finished, self.offline = init, "abc", False, True
        self.summary: dict[str, float] = {}
        self.settings: dict[str, str] = {}
        self.config = SimpleNamespace(update=self._update)
        self.files: dict[str, str] = {}

    def _update(self, values: dict[str, str], *, allow_val_change: bool) -> None:
        assert allow_val_change
        self.settings |= values

    def log_artifact(self, artifact: Any) -> Any:
        self.files |= artifact.files
        return artifact

    def finish(self) -> None:
        self.finished = True


class FakeArtifact:
    def __init__(self, name: str, type: str) -> None:
        self.name, self.type = name, type
        self.files: dict[str, str] = {}

    def add_dir(self, folder: str) -> None:
        self.files |= {one.name: one.read_text("utf-8") for one in Path(folder).iterdir()}


@pytest.fixture
def wandb(monkeypatch) -> Any:
    """A stand-in: the package starts a service of its own, which a quick test cannot wait for."""
    module: Any = ModuleType("wandb")
    module.run, module.made, module.Artifact = None, [], FakeArtifact

    def init(**arguments: Any) -> FakeRun:
        module.made.append(FakeRun(**arguments))
        return module.made[-1]

    module.init = init
    monkeypatch.setitem(sys.modules, "wandb", module)
    return module


def test_wandb_gets_metrics_config_and_files(record, wandb):
    assert log_wandb(record, project="ranking") == "abc"
    (run,) = wandb.made
    assert run.init == {
        "name": "bm25",
        "tags": ["lexical", "old"],
        "notes": "as in the paper",
        "project": "ranking",
    }
    mean = record.means["nDCG@10"]
    assert run.summary["nDCG@10"] == mean
    assert run.summary["nDCG@10/low"] < mean < run.summary["nDCG@10/high"]
    assert run.settings["signature"] == record.scored().signature
    assert json.loads(run.files["record.json"])["runs"][0]["name"] == "bm25"
    assert "<html" in run.files["report.html"]
    assert run.finished


def test_a_running_run_of_wandb_is_used_and_left_open(record, wandb):
    wandb.run = FakeRun()
    log_wandb(record, report=False)
    assert set(wandb.run.files) == {"record.json"}
    assert not wandb.run.finished
    with pytest.raises(UsageError, match="A wandb run is active: arguments have no effect"):
        log_wandb(record, project="other")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_wandb_offline(record, tmp_path):
    real = pytest.importorskip("wandb")
    run = log_wandb(record, mode="offline", project="ranking", dir=str(tmp_path))
    assert list(tmp_path.glob(f"wandb/offline-run-*-{run}/run-{run}.wandb"))
    assert real.run is None


@pytest.mark.parametrize(("log", "package"), [(log_mlflow, "mlflow"), (log_wandb, "wandb")])
def test_an_absent_package_is_named_with_its_extra(record, monkeypatch, log, package):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingPackageError, match=rf"'{package}'.*\[{package}\]"):
        log(record)


def test_records_without_scores_are_logged(wandb):
    log_wandb(RunRecord("timing", config={"k": 1}))
    assert wandb.made[0].summary == {}
    assert set(wandb.made[0].files) == {"record.json"}
