"""Files of strangers: what they name runs no code and reaches no host without consent."""

from __future__ import annotations

import json
import pickle
import re
import socket
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import click
import numpy as np
import pytest

from assay import evaluate
from assay import store as run_store
from assay.bench import make_request, read_config
from assay.cli.main import assay as group
from assay.cli.main import list_commands
from assay.cli.repeating import StoredCommand
from assay.cli.settings import facts_of
from assay.cluster.shards import open_shard, open_shards
from assay.core.specs import Consent, host_of
from assay.errors import AssayError, FormatError, UsageError
from assay.io.collections import write_collection
from assay.models import encoder
from assay.models.adapters import sentence_transformers
from assay.models.specs import runs_code
from assay.runs.record import RunRecord
from assay.search.indexes.base import allow_index
from assay.vision.settings import read_experiment
from tests.bench.samples import small
from tests.models.fake_endpoint import endpoint as fake_endpoint
from tests.models.files import write_safetensors
from tests.plugins import install

KEY = "sk-secret-0123456789abcdef"
OWN = """
from os import system
from pathlib import Path
Path("imported").touch()

def letters(texts):
    return [[len(text), text.count("a"), 1.0] for text in texts]
"""


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A folder with a collection, and a module of the user's own beside it."""
    write_collection(small(), tmp_path / "made")
    (tmp_path / "my_own_module.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("ASSAY_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    for name in ("OPENAI_BASE_URL", "PYTHONPATH", "QDRANT_API_KEY", "PGPASSWORD"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delitem(sys.modules, "my_own_module", raising=False)
    return tmp_path


@pytest.fixture
def endpoint():
    with fake_endpoint() as server:
        yield server


def config(home, spec, more="", index="[]"):
    path = home / "bench.toml"
    path.write_text(
        f'corpus = "made"\nindex = {index}\n[[model]]\nname = "m"\nspec = "{spec}"\n{more}\n'
    )
    return str(path)


# Code.


def test_a_config_runs_no_command(home, assay):
    texts = ["sh", "-c", "touch ran"]
    (home / "made" / "corpus.jsonl").write_text(
        "".join(json.dumps({"_id": f"d{i}", "text": text}) + "\n" for i, text in enumerate(texts))
    )
    for words in (["bench"], ["explain", "--query", "q01"]):
        for allowed in ([], ["--allow-code"]):
            path = config(home, "py:subprocess:check_output")
            answer = assay(words[0], path, *words[1:], *allowed)
            assert answer.code == 2
            what = "functions of your own modules only" if allowed else "--allow-code"
            assert what in answer.err
    assert not (home / "ran").exists()


def test_a_function_of_your_own_runs_if_you_say_so(home, assay):
    path = config(home, "py:my_own_module:letters")
    refused = assay("bench", path, "--no-cache")
    assert refused.code == 2
    assert "names the model 'py:my_own_module:letters', which runs code" in refused.err
    assert not (home / "imported").exists(), "what is refused is not even imported"
    assert assay("bench", path, "--no-cache", "--allow-code", "--resamples", 200).code == 0
    typed = ("--model", "py:my_own_module:letters", "--no-cache", "--resamples", 200)
    assert assay("bench", path, *typed).code == 0, "what is typed needs no consent"


@pytest.mark.parametrize(
    "name",
    [
        "os:system",
        "builtins:exec",
        "subprocess:run",
        "numpy:load",
        "assay.models:encoder",
        "my_own_module:system",  # it only passes through
        "my_own_module.os:system",
        "__main__:print",
        "no_such_module:f",
        "..my_own_module:letters",
    ],
)
def test_what_is_not_your_own_is_refused(home, name):
    with pytest.raises(UsageError, match=r"functions of your own modules only|cannot be imported"):
        make_request(read_config(config(home, f"py:{name}")), allow_code=True)


def test_a_module_that_hides_behind_an_installed_name(home):
    (home / "numpy.py").write_text("def load(texts): ...")
    with pytest.raises(UsageError, match="functions of your own modules only"):
        make_request(read_config(config(home, "py:numpy:load")), allow_code=True)


def test_folders_of_pythonpath_are_your_own(home, monkeypatch, tmp_path_factory):
    other = tmp_path_factory.mktemp("other")
    (other / "from_the_path.py").write_text("def f(texts): return [[1.0]] * len(texts)")
    monkeypatch.syspath_prepend(str(other))
    path = config(home, "py:from_the_path:f")
    with pytest.raises(UsageError, match="functions of your own modules only"):
        make_request(read_config(path), allow_code=True)
    monkeypatch.setenv("PYTHONPATH", str(other))
    assert make_request(read_config(path), allow_code=True).plan.models[0].name == "m"


@pytest.mark.parametrize(
    ("spec", "runs"),
    [
        ("st:all-MiniLM-L6-v2", False),
        ("st:sentence-transformers/all-MiniLM-L6-v2", False),
        ("st:somebody/model", True),
        ("st:made", True),  # a folder
        ("st:./made", True),
        ("st:/tmp", True),
        ("st:sentence-transformers/../somebody", True),
        ("st:", True),
        ("py:m:f", True),
        ("strange:thing", True),
        ("wordllama", False),
        ("bm25", False),
        ("model2vec:somebody/model", False),
        ("tower.pt", False),
    ],
)
def test_what_runs_code(home, monkeypatch, spec, runs):
    entries = {"assay.models": {"strange": "strange_models:load"}}
    code = {"strange_models": "open('imported', 'w').close()"}
    monkeypatch.syspath_prepend(str(install(home, package="p", entries=entries, modules=code)))
    assert runs_code(spec) is runs
    if runs:
        with pytest.raises(UsageError, match="--allow-code"):
            make_request(read_config(config(home, spec)))
    assert not (home / "imported").exists()


_SPELLINGS = (
    ("nice-model", "nice-model"),
    ("nice-model", "sentence-transformers/nice-model"),  # a name alone gets this owner
    ("nice-model", "cross-encoder/nice-model"),  # and as a reranker this one
    ("sentence-transformers/nice-model", "sentence-transformers/nice-model"),
    ("./nice-model", "nice-model"),
    ("deep/er/nice-model", "deep/er/nice-model"),
    ("../HOME/nice-model", "nice-model"),
    ("HERE/nice-model", "nice-model"),
)


def put_model(home, folder):
    """A folder as sentence-transformers reads it, which names a class of its own."""
    place = home / folder
    place.mkdir(parents=True, exist_ok=True)
    modules = [{"idx": 0, "name": "0", "path": "", "type": "evil.Evil"}]
    (place / "modules.json").write_text(json.dumps(modules))
    (place / "evil.py").write_text(f"open({str(home / 'imported')!r}, 'w').close()")


@pytest.mark.parametrize(("name", "folder"), _SPELLINGS)
def test_a_folder_that_a_name_stands_for_is_code(home, assay, name, folder):
    spec = "st:" + name.replace("HERE", str(home)).replace("HOME", home.name)
    put_model(home, folder)
    refused = assay("bench", config(home, spec), "--no-cache")
    assert refused.code == 2
    assert f"names the model {spec!r}" in refused.err
    assert "--allow-code" in refused.err
    reranking = f'[[model]]\nspec = "bm25"\n[[rerank]]\nof = "bm25"\nspec = "{spec}"\n'
    (home / "two.toml").write_text(f'corpus = "made"\n{reranking}')
    refused = assay("bench", home / "two.toml", "--no-cache")
    assert refused.code == 2
    assert "--allow-code" in refused.err
    write_safetensors(Path("tower.safetensors"), {}, {"encoder": spec})
    with pytest.raises(FormatError, match="Files may not name code, files or servers"):
        encoder("tower.safetensors")
    for words in (["--model", spec], ["--model", "bm25", "--rerank", f"bm25>{spec}"]):
        with pytest.raises(UsageError, match="--allow-code"):
            StoredCommand(["bench", "made", *words]).check(Consent(), "The run")
    assert not (home / "imported").exists()


@pytest.mark.parametrize(
    ("version", "runs"), [("5.1.0", True), ("3.0", True), ("6.0.0", False), ("10.1", False)]
)
def test_a_revision_may_be_anybodys(home, monkeypatch, version, runs):
    """Whoever opens a pull request on the hub has written its revision of the authors' model."""
    monkeypatch.setattr(sentence_transformers, "version_of", lambda _: version)
    request = read_config(config(home, "st:all-MiniLM-L6-v2", 'revision = "refs/pr/1"'))
    stored = StoredCommand(
        ["bench", "made", "--model", "st:all-MiniLM-L6-v2", "--revision", "refs/pr/1"]
    )
    if runs:
        with pytest.raises(UsageError, match="--allow-code"):
            make_request(request)
        with pytest.raises(UsageError, match="--allow-code"):
            stored.check(Consent(), "The run")
    else:
        stored.check(Consent.of(endpoints=HUB), "The run")
        request_there = make_request(request, allow_endpoints=HUB)
        assert request_there.plan.models[0].settings["revision"] == "refs/pr/1"
    make_request(request, allow_code=True, allow_endpoints=HUB)
    stored.check(Consent.of(True, HUB), "The run")


HUB = ["huggingface.co"]


@pytest.mark.parametrize("spec", ["st:all-MiniLM-L6-v2", "model2vec:minishlab/potion-base-8M"])
def test_a_model_of_a_file_is_not_downloaded_without_consent(home, assay, monkeypatch, spec):
    loaded = []

    def load(name, **_):
        loaded.append(name)
        raise UsageError("loaded")

    static = SimpleNamespace(from_pretrained=load)
    for module in ("sentence_transformers", "model2vec"):
        package = SimpleNamespace(SentenceTransformer=load, CrossEncoder=load, StaticModel=static)
        monkeypatch.setitem(sys.modules, module, package)
    path = config(home, spec)
    for words in (("bench", path), ("bench", path, "--allow-code"), ("explain", path)):
        query = ("--query", "q01") if words[0] == "explain" else ()
        answer = assay(*words, *query)
        assert answer.code == 2
        assert f"names the model {spec!r}, which" in answer.err
        assert "--allow-endpoint huggingface.co" in answer.err
    (home / "two.toml").write_text(
        f'corpus = "made"\n[[model]]\nspec = "bm25"\n[[rerank]]\nof = "bm25"\nspec = "{spec}"\n'
    )
    assert assay("bench", "two.toml").code == 2
    with pytest.raises(UsageError, match="would download"):
        StoredCommand(["bench", "made", "--model", spec]).check(Consent.of(True), "The run")
    assert loaded == []
    for more in (("--allow-endpoint", "huggingface.co"), ("--model", spec)):
        assert "loaded" in assay("bench", path, "--no-cache", *more).err
    assert loaded == [spec.partition(":")[2]] * 2


def test_an_index_of_another_package(home, monkeypatch):
    entries = {"assay.indexes": {"strange": "strange_indexes:load"}}
    code = {"strange_indexes": "open('imported', 'w').close()"}
    monkeypatch.syspath_prepend(str(install(home, package="p", entries=entries, modules=code)))
    with pytest.raises(UsageError, match="--allow-code"):
        make_request(read_config(config(home, "wordllama", index='["strange:x"]')))
    assert not (home / "imported").exists()


@pytest.mark.parametrize(
    "inner",
    ["py:os:system", "st:made", "st:somebody/model", "openai:m", "npy:a.npy", "model2vec:made"],
)
def test_a_checkpoint_names_no_code_and_no_other_file(home, inner):
    tensors = {"projection.weight": np.eye(2, dtype=np.float32)}
    write_safetensors(Path("tower.safetensors"), tensors, {"encoder": inner})
    with pytest.raises(FormatError, match="Files may not name code, files or servers"):
        encoder("tower.safetensors")


@pytest.mark.parametrize("ending", ["yaml", "toml"])
def test_an_experiment_runs_no_function(home, ending):
    pytest.importorskip("yaml")
    file = home / f"e.{ending}"
    text = {
        "yaml": 'dataset: {path: demo}\ndescriptors: [SIFT, {name: x, type: "%s"}]\n',
        "toml": '[dataset]\npath = "demo"\n[[descriptors]]\nname = "x"\ntype = "%s"\n',
    }[ending]
    file.write_text(text % "my_own_module:letters")
    with pytest.raises(UsageError, match="names the descriptor 'my_own_module:letters', which"):
        read_experiment(file)
    assert not (home / "imported").exists()
    assert len(read_experiment(file, allow_code=True).descriptors) >= 1
    file.write_text(text % "os:system")
    with pytest.raises(UsageError, match="functions of your own modules only"):
        read_experiment(file, allow_code=True)


@pytest.mark.parametrize("ending", ["yaml", "toml"])
def test_an_experiment_runs_no_script_of_torch_but_a_graph(home, ending):
    pytest.importorskip("yaml")
    file = home / f"e.{ending}"
    text = {
        "yaml": 'dataset: {path: demo}\ndescriptors: [{name: x, type: "%s"}]\n',
        "toml": '[dataset]\npath = "demo"\n[[descriptors]]\nname = "x"\ntype = "%s"\n',
    }[ending]
    file.write_text(text % "torch:net.pt")
    with pytest.raises(UsageError, match=r"names the descriptor 'torch:net\.pt', which"):
        read_experiment(file)
    [found] = read_experiment(file, allow_code=True).descriptors
    assert found.type == f"torch:{home / 'net.pt'}"  # relative to the file
    file.write_text(text % "onnx:net.onnx")
    [found] = read_experiment(file).descriptors
    assert found.type == f"onnx:{home / 'net.onnx'}"


def test_a_folder_of_qdrant_is_not_unpickled(home):
    client = pytest.importorskip("qdrant_client")
    from qdrant_client import models

    # Its probe of SQLite is never closed, which Python 3.13 reports in some later test.
    with_points = client.QdrantClient(path="db", force_disable_check_same_thread=True)
    with_points.create_collection(
        "c", vectors_config=models.VectorParams(size=2, distance=models.Distance.DOT)
    )
    with_points.upsert("c", [models.PointStruct(id=1, vector=[1.0, 0.0])])
    with_points.close()
    import sqlite3

    class Harm:
        def __reduce__(self):
            return (Path.touch, (Path("ran"),))

    (file,) = (home / "db").rglob("storage.sqlite")
    with closing(sqlite3.connect(file)) as database, database:
        database.execute("UPDATE points SET point = ?", (pickle.dumps(Harm()),))
    from assay.search.indexes import build_index

    vectors = np.eye(3, dtype=np.float32)
    with build_index("qdrant:db", vectors) as index:
        index.search(vectors, 1)
    assert not (home / "ran").exists()
    assert {path.name for path in (home / "db").iterdir()} <= {"collection", "meta.json", ".lock"}


# Collections that a package fetches.

IR = 'corpus = "ir:beir/scifact/test"\n[[model]]\nspec = "bm25"\n'


def test_a_collection_of_a_file_is_not_fetched_without_consent(home, assay, monkeypatch):
    loaded = []

    def load(name):
        loaded.append(name)
        raise KeyError(name)

    monkeypatch.setitem(sys.modules, "ir_datasets", SimpleNamespace(load=load))
    (home / "ir.toml").write_text(IR)
    for words in (("bench",), ("explain", "--query", "1")):
        answer = assay(words[0], "ir.toml", *words[1:], "--allow-code")
        assert answer.code == 2
        assert "names the collection 'ir:beir/scifact/test', which" in answer.err
        assert "--allow-endpoint ir_datasets" in answer.err
    assert loaded == []
    typed = ("--corpus", "ir:beir/nfcorpus/test")
    for more in (("--allow-endpoint", "ir_datasets"), typed):
        assert "has no collection" in assay("bench", "ir.toml", *more).err
    assert loaded == ["beir/scifact/test", "beir/nfcorpus/test"]


# Endpoints and keys.


def run(path, home, **allowed):
    request = make_request(read_config(path), **allowed)
    return request.run(request.load())


def test_an_endpoint_of_a_file_gets_nothing_without_consent(home, endpoint, assay):
    path = config(home, "openai:m", f'base_url = "{endpoint.url}"')
    answer = assay("bench", path, "--no-cache")
    assert answer.code == 2
    assert f"sends data to {host_of(endpoint.url)}" in answer.err
    assert f"--allow-endpoint {host_of(endpoint.url)} " in answer.err
    other = ("--allow-endpoint", "127.0.0.1", "--allow-endpoint", "example.org=OPENAI_API_KEY")
    assert assay("bench", path, "--no-cache", *other).code == 2, "the port counts, too"
    assert endpoint.asked == []
    allowed = ("--allow-endpoint", host_of(endpoint.url), "--resamples", 200)
    assert assay("bench", path, "--no-cache", *allowed).code == 0
    assert set(endpoint.keys) == {None}, "it may have the texts, not the key"


def test_a_key_goes_where_file_and_user_agree(home, endpoint, monkeypatch):
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "aws-secret")
    named = f'base_url = "{endpoint.url}"\nkey_env = "AWS_SECRET_ACCESS_KEY"'
    host = host_of(endpoint.url)
    path = config(home, "openai:m", named)
    for allowed in ([], [host], ["example.org=AWS_SECRET_ACCESS_KEY"], [f"{host}=OPENAI_API_KEY"]):
        with pytest.raises(UsageError, match=f"--allow-endpoint {host}=AWS_SECRET_ACCESS_KEY"):
            run(path, home, allow_endpoints=allowed)
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")  # a worker elsewhere may have it
    with pytest.raises(UsageError, match="--allow-endpoint"):
        run(path, home, allow_endpoints=[host])
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "aws-secret")
    assert endpoint.asked == []
    run(path, home, allow_endpoints=[f"{host.upper()}=AWS_SECRET_ACCESS_KEY"])
    assert set(endpoint.keys) == {"Bearer aws-secret"}


def test_a_variable_without_an_endpoint(home):
    with pytest.raises(UsageError, match="key_env requires base_url"):
        run(config(home, "openai:m", 'key_env = "AWS_SECRET_ACCESS_KEY"'), home)


def test_a_typed_endpoint_replaces_that_of_the_file_and_its_key(home, endpoint, assay):
    named = 'base_url = "https://example.org/v1"\nkey_env = "HOME"'
    path = config(home, "openai:m", named)
    typed = ("--base-url", endpoint.url, "--no-cache", "--resamples", 200)
    assert assay("bench", path, *typed).code == 0
    assert set(endpoint.keys) == {f"Bearer {KEY}"}


def test_the_endpoint_of_the_environment_needs_no_other_consent(home, endpoint, monkeypatch):
    monkeypatch.setenv("OPENAI_BASE_URL", endpoint.url + "/")
    run(config(home, "openai:m", f'base_url = "{endpoint.url}"'), home)
    run(config(home, "openai:m"), home)
    assert set(endpoint.keys) == {f"Bearer {KEY}"}
    with pytest.raises(UsageError, match="--allow-endpoint"):
        run(config(home, "openai:m", f'base_url = "{endpoint.url}/other"'), home)


@pytest.mark.parametrize(
    ("index", "host", "variable"),
    [
        ("qdrant:http://db.example.org:6333", "db.example.org:6333", "QDRANT_API_KEY"),
        ("pgvector:postgresql://me@db.example.org/x", "db.example.org", "PGPASSWORD"),
    ],
)
def test_a_server_of_vectors_and_its_key(home, monkeypatch, index, host, variable):
    path = config(home, "wordllama", index=f'["{index}"]')
    with pytest.raises(UsageError, match=f"--allow-endpoint {host} "):
        make_request(read_config(path))
    make_request(read_config(path), allow_endpoints=[host])
    monkeypatch.setenv(variable, "secret")
    with pytest.raises(UsageError, match=f"sends the content of {variable} to {host}") as caught:
        make_request(read_config(path), allow_endpoints=[host])
    assert "secret" not in str(caught.value)
    make_request(read_config(path), allow_endpoints=[f"{host}={variable}"])
    make_request(read_config(path), index=[index])


@pytest.mark.parametrize(
    "index",
    [
        "pgvector:postgresql://good/x?host=evil",
        "pgvector:postgresql://good/x?hostaddr=192.0.2.66",
        "pgvector:postgresql://good/x?passfile=/etc/passwd",
        "pgvector:postgresql://good/x?service=other",
        "pgvector:host=evil dbname=x",
        "pgvector:postgresql:///x",
        "pgvector:postgresql://good#@evil/x",
        "pgvector:postgresql://good\\\\@evil/x",
        "qdrant:http://good#@evil",
        "qdrant:http://good\\\\@evil",
        "qdrant:http://evil@good@evil",
        "qdrant:/etc",
        "qdrant:folder",
    ],
)
def test_an_index_of_a_file_that_means_another_host_or_a_folder(home, index):
    allowed = Consent.of(True, ["good", "good=PGPASSWORD"])
    with pytest.raises(UsageError):
        allow_index(index, allowed, "A file")


def test_consent_is_written_in_one_way():
    for odd in ("http://host", "host/path", "host=", "=KEY", "me@host", "host=A B", "", 3):
        with pytest.raises(UsageError, match="HOST=VARIABLE"):
            Consent.of(endpoints=[odd])
    with pytest.raises(AssayError):
        Consent.of(code="yes")


def test_a_failed_run_keeps_no_key(home):
    with run_store.open("runs.db") as store:
        run = store.begin(RunRecord("r"))
        run.fail(ValueError(f"AUTHORIZATION:  bearer   {KEY.upper()}, X-Api-Key=another-key"))
    stored = b"".join(path.read_bytes() for path in home.glob("runs.db*")).lower()
    assert b"authorization" in stored
    assert KEY.encode() not in stored
    assert b"another-key" not in stored


# Manifests.


@pytest.mark.parametrize("key", ["path", "ids"])
@pytest.mark.parametrize(
    "url", ["http://192.0.2.1/a.npy", "s3://b/a.npy", "simplecache::http://192.0.2.1/a.npy"]
)
def test_a_manifest_does_not_send_you_elsewhere(tmp_path, key, url):
    entry = {"path": "a.npy", key: url}
    (tmp_path / "m.json").write_text(json.dumps({"shards": [entry]}))
    with pytest.raises(UsageError, match="outside its folder"):
        open_shards(str(tmp_path / "m.json"))


# Stored commands.


def stored(place, *command):
    """A store whose only run was saved by this command, as anybody can write one."""
    scores = evaluate({"q": {"d": 1.0}}, {"q": {"d": 1}})
    with run_store.open(place) as store:
        store.save(RunRecord("run", scores, command=tuple(command), task=command[0]))
    return place


BENCH = ("bench", "--corpus", "made", "--no-cache", "--resamples", "200")


@pytest.mark.parametrize(
    ("command", "needed"),
    [
        ((*BENCH, "--model", "py:my_own_module:letters"), "--allow-code"),
        ((*BENCH, "--model", "x=py:my_own_module:letters", "--allow-code"), "--allow-code"),
        ((*BENCH, "--model", "st:somebody/model"), "--allow-code"),
        ((*BENCH, "--model", "wordllama", "--cluster", "evil:6379"), "--allow-code"),
        ((*BENCH, "--model", "openai:m"), "--allow-endpoint api.openai.com "),
        (
            (*BENCH, "--model", "openai:m", "--base-url", "http://evil:1"),
            "--allow-endpoint evil:1=OPENAI_API_KEY",
        ),
        (
            (*BENCH, "--model", "wordllama", "--index", "qdrant:http://evil:1"),
            "--allow-endpoint evil:1 ",
        ),
        (
            (*BENCH, "--model", "bm25", "--rerank", "bm25>rerank:http://evil:1"),
            "--allow-endpoint evil:1 ",
        ),
        (
            (*BENCH, "--model", "bm25", "--model", "rerank:bm25>rerank:https://evil?key_env=PATH"),
            "--allow-endpoint evil=PATH ",
        ),
        ((*BENCH, "--model", "rerank:bm25>py:my_own_module:letters"), "--allow-code"),
        (
            ("bench", "--corpus", "ir:beir/scifact/test", "--model", "bm25"),
            "--allow-endpoint ir_datasets ",
        ),
        (("bench", "ir.toml", "--allow-endpoint", "ir_datasets"), "--allow-endpoint ir_datasets "),
        (("codes", "--demo", "anywhere"), "--yes"),
        (("predict", "--demo", "anywhere"), "--yes"),
        (("bench", "bench.toml", "--allow-code"), "--allow-code"),
        (("bench", "hosts.toml", "--allow-endpoint", "evil"), "--allow-endpoint evil "),
        (("descriptors", "run", "e.toml", "--allow-code"), "--allow-code"),
        (("descriptors", "match", "e.toml", "--allow-code"), "--allow-code"),
        (("descriptors", "demo", "--descriptor", "my_own_module:letters"), "--allow-code"),
        (("descriptors", "patches", "x", "--describe", "torch:net.pt"), "--allow-code"),
        (
            (
                *("crossmodal", "--labels", "l.npy", "--use-prototypes", "--metadata", "m.json"),
                *("--encoder", "py:my_own_module:letters"),
            ),
            "--allow-code",
        ),
        (
            (
                *("crossmodal", "--labels", "l.npy", "--checkpoint", "t.pt"),
                *("--text-encoder-factory", "my_own_module:letters"),
            ),
            "--allow-code",
        ),
        (("eval", "s3://evil/run.txt", "-r", "qrels.txt"), "--allow-endpoint evil "),
        ((*BENCH, "--model", "bm25", "--html", "/etc/passwd"), "--yes"),
        ((*BENCH, "--model", "bm25", "--runs", "anywhere"), "--yes"),
        ((*BENCH, "--model", "bm25", "-o", "my_own_module.py"), "--yes"),
        ((*BENCH[:3], "--model", "bm25", "--cache", "anywhere"), "--yes"),
        (("rank", "q.npy", "d.npy", "-o", "my_own_module.py"), "--yes"),
        (
            ("eval", "r", "-r", "q", "--save", "--store", "postgresql://evil/x", "--"),
            "names a store",
        ),
        (("eval", "r", "-r", "q", "--store=other.db", "--"), "names a store"),
        (("serve",), "has no --save"),
        (("runs", "delete", "1", "--yes"), "has no --save"),
    ],
    ids=lambda value: " ".join(value[-3:]) if isinstance(value, tuple) else None,
)
def test_a_stored_command_needs_the_consent_of_who_repeats_it(home, assay, command, needed):
    config(home, "py:my_own_module:letters")
    (home / "hosts.toml").write_text(
        'corpus = "made"\n[[model]]\nspec = "openai:m"\nbase_url = "https://evil/v1"\n'
    )
    (home / "ir.toml").write_text(IR)
    (home / "e.toml").write_text(
        '[dataset]\npath = "demo"\n[[descriptors]]\nname = "x"\ntype = "my_own_module:letters"\n'
    )
    place = stored(home / "strange.db", *command)
    before = (home / "my_own_module.py").read_bytes()
    answer = assay("runs", "rerun", 1, "--store", place)
    assert answer.code == 2, answer.err
    assert needed in answer.err
    assert not (home / "imported").exists()
    assert (home / "my_own_module.py").read_bytes() == before


def test_a_stored_command_with_consent(home, assay):
    place = stored(home / "mine.db", *BENCH, "--model", "run=py:my_own_module:letters")
    answer = assay("runs", "rerun", 1, "--store", place, "--allow-code")
    assert answer.code == 1, "the stored values were made up"
    assert "saved as run 2" in answer.err
    harmful = stored(home / "harm.db", *BENCH, "--model", "py:subprocess:check_output")
    answer = assay("runs", "rerun", 1, "--store", harmful, "--allow-code", "--yes")
    assert answer.code == 2
    assert "functions of your own modules only" in answer.err


def _saving(name, command):
    if isinstance(command, click.Group):
        for inner in command.list_commands(click.Context(command)):
            found = command.get_command(click.Context(command), inner)
            yield from _saving(f"{name} {inner}", found)
    elif any(one.name == "save" for one in command.params):
        yield name, command


def test_every_option_that_writes_says_so():
    context = click.Context(group)
    commands = dict(
        pair for name in list_commands() for pair in _saving(name, group.get_command(context, name))
    )
    said = re.compile(
        r"\b[Ww]rite|\bWhere\b|Folder (of finished|for)|[Cc]heckpoint|\bDraw\b|[Kk]eep"
    )
    for name, command in commands.items():
        for key, parameter in facts_of(command):
            text = getattr(parameter, "help", None) or ""
            takes_text = isinstance(parameter, click.Option) and not parameter.is_flag
            paths = parameter.metavar and re.search("FILE|DIR|FOLDER|RUN|PATH", parameter.metavar)
            if takes_text and paths and said.search(text) and key != "store":
                assert parameter.writes, (name, key, text)


# What is written, and where modules come from.


def test_names_in_a_config_do_not_lead_out_of_the_folder(home, assay):
    names = ["../../out", "/etc/out", "..", "a/../../b", "c\\\\..\\\\d"]
    models = "".join(f'[[model]]\nname = "{name}"\nspec = "bm25"\n' for name in names)
    (home / "bench.toml").write_text(f'corpus = "made"\n{models}')
    before = set(home.parent.rglob("*"))
    assert (
        assay("bench", "bench.toml", "--runs", "runs", "--no-cache", "--resamples", 200).code == 0
    )
    new = {path for path in set(home.parent.rglob("*")) - before if path.is_file()}
    assert len(new) == len(names)
    assert {path.parent for path in new} == {home / "runs"}


def test_a_config_names_nothing_that_is_written(home):
    keys = ("output", "file", "html", "runs", "per_query", "cache", "store", "save", "cluster")
    for key in keys:
        (home / "bench.toml").write_text(
            f'corpus = "made"\n{key} = "x"\n[[model]]\nspec = "bm25"\n'
        )
        with pytest.raises(FormatError, match=f"unknown key '{key}'"):
            read_config(home / "bench.toml")


def test_names_in_an_archive_are_not_paths(home):
    np.savez("a.npz", **{"../../out": np.eye(2), "/etc/out": np.eye(2), "docs": np.eye(2)})
    before = set(home.parent.rglob("*"))
    (shard,) = open_shards("a.npz")
    with open_shard(shard) as content:
        assert content.shape == (2, 2)
    assert set(home.parent.rglob("*")) == before


def test_no_connection_is_made_that_nobody_asked_for(home, assay, monkeypatch):
    def connect(self, address):
        raise AssertionError(f"connects to {address}")

    monkeypatch.setattr(socket.socket, "connect", connect)
    (home / "bench.toml").write_text('corpus = "made"\n[[model]]\nspec = "bm25"\n')
    assert assay("bench", "bench.toml", "--html", "r.html", "--resamples", 200).code == 0


def test_the_command_takes_no_module_from_the_current_folder(home):
    script = Path(sys.executable).with_name("assay")
    if not script.exists():
        pytest.skip("the command is not installed beside this Python")
    for name in ("yaml", "click", "numpy", "tomllib"):
        (home / f"{name}.py").write_text("open('imported', 'w').close()")
    (home / "e.yaml").write_text("dataset: {path: demo}\ndescriptors: [none]\n")
    for words in (["bench", "bench.toml"], ["descriptors", "run", "e.yaml"]):
        subprocess.run([script, *words], check=False, capture_output=True)
    assert not (home / "imported").exists()


@pytest.mark.parametrize(
    "words",
    [
        ("--model", "bm25", "--rerank", "bm25>py:subprocess:check_output"),
        ("--model", "bm25", "--rerank", "two=rerank/5:bm25>st:anybody/cross"),
        ("--model", "st:all-MiniLM-L6-v2", "--trust-remote-code"),
    ],
)
def test_a_stored_command_reranks_and_trusts_with_consent_only(words: tuple[str, ...]) -> None:
    command = StoredCommand(["bench", "--corpus", "made", *words])
    with pytest.raises(UsageError, match="--allow-code"):
        command.check(Consent.of(False, ()), "The run")
