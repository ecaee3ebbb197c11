"""A stored run keeps the settings of its numbers, through files and from older stores too."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import assay
from assay import Ids, store
from assay.errors import FormatError
from assay.runs.record import RunRecord
from assay.store.codec import pack_scores, unpack_scores
from assay.store.files import MADE

RUN = {"q1": {"a": 2.0, "b": 1.0}, "q2": {"b": 1.0}}
QRELS = {"q1": {"a": 1}, "q2": {"a": 1}}
HOSTILE = {"model": "a|b\n%7C", "weights": "1,0.5", "prompt": "\ud800" + "x" * 1000}


def _scores(**settings: str) -> assay.Scores:
    return assay.evaluate(RUN, QRELS, "RR").but_settings(**settings)


@pytest.mark.parametrize("settings", [{}, {"metric": "dot", "k": "5"}, HOSTILE])
def test_settings_come_back(tmp_path, settings):
    scores = _scores(**settings)
    with store.open(tmp_path / "runs.db") as here:
        run = here.save(RunRecord("mine", scores))
        found = here.run(run.id)
        assert found.scores().settings == settings
        assert found.scores().signature == scores.signature == found.signature


@pytest.mark.parametrize("ending", ["json", "csv", "parquet"])
@pytest.mark.parametrize("settings", [{}, {"metric": "dot", "k": "5"}, HOSTILE])
@pytest.mark.parametrize("kind", ["text", "integer", "numbered"])
def test_the_signature_travels_in_every_format(tmp_path, ending, settings, kind):
    ids = {"text": ["1", "10", "2"], "integer": np.array([1, 10, 2]), "numbered": Ids.count(3)}
    scores = replace(
        _scores(**settings),
        query_ids=Ids.of(ids[kind], "query"),
        values=np.array([[0.5, 0.25, 1.0]]),
        tied=np.zeros((1, 3), bool),
        missing=np.zeros(3, bool),
        search="native-certified",
    )
    file = tmp_path / f"runs.{ending}"
    with store.open(tmp_path / "a.db") as one, store.open(tmp_path / "b.db") as two:
        one.save(RunRecord("mine", scores))
        one.export(file)
        two.load(file)
        found = [here.run(1) for here in (one, two)]
        signatures = [text for run in found for text in (run.signature, run.scores().signature)]
        assert set(signatures) == {scores.signature}
        assert [run.scores().query_ids.numbered for run in found] == [kind == "numbered"] * 2


def test_tables_of_earlier_versions_have_no_such_columns(tmp_path):
    with store.open(tmp_path / "a.db") as here:
        here.save(RunRecord("mine", _scores(metric="dot")))
        here.export(tmp_path / "runs.csv")
    table = pd.read_csv(tmp_path / "runs.csv").drop(columns=list(MADE))
    table.to_csv(tmp_path / "old.csv", index=False)
    with store.open(tmp_path / "b.db") as other:
        other.load(tmp_path / "old.csv")
        assert other.run(1).scores().settings == {}
        assert other.run(1).signature == _scores().signature


@pytest.mark.parametrize("wrong", ["[]", "{", "3", '{"k": 1}', '{"k": ["a"]}'])
def test_settings_that_are_none_are_refused(tmp_path, wrong):
    with store.open(tmp_path / "a.db") as here:
        here.save(RunRecord("mine", _scores(metric="dot")))
        here.export(tmp_path / "runs.csv")
        table = pd.read_csv(tmp_path / "runs.csv").assign(settings=wrong)
        table.to_csv(tmp_path / "runs.csv", index=False)
        with pytest.raises(FormatError, match=r"runs\.csv"):
            here.load(tmp_path / "runs.csv")


def test_settings_travel_in_json(tmp_path):
    scores, file = _scores(metric="dot"), tmp_path / "runs.json"
    with store.open(tmp_path / "a.db") as one, store.open(tmp_path / "b.db") as two:
        one.save(RunRecord("mine", scores))
        one.export(file)
        two.load(file)
        assert two.run(1).scores().settings == {"metric": "dot"}
        data = json.loads(file.read_text())
        del data["runs"][0]["scores"]["settings"]  # as earlier versions wrote it
        data["runs"][0] |= {"uid": "0" * 32, "digest": ""}
        file.write_text(json.dumps(data))
        two.load(file)
        assert two.run(2).scores().settings == {}


def test_what_was_stored_without_settings_is_read():
    scores = _scores(metric="dot")
    blobs = [blob for blob in pack_scores(scores) if blob.kind != "settings"]
    found = unpack_scores(blobs, scores.conventions.signature(), search="native-certified")
    assert found.settings == {}
    assert np.array_equal(found.values, scores.values)
