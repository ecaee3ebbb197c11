"""A stored run keeps the settings of its numbers, through files and from older stores too."""

from __future__ import annotations

import json

import numpy as np
import pytest

import assay
from assay import store
from assay.runs.record import RunRecord
from assay.store.codec import pack_scores, unpack_scores

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


def test_settings_travel_in_json(tmp_path):
    scores, file = _scores(metric="dot"), tmp_path / "runs.json"
    with store.open(tmp_path / "a.db") as one, store.open(tmp_path / "b.db") as two:
        one.save(RunRecord("mine", scores))
        one.export(file)
        two.load(file)
        assert two.run(1).scores().settings == {"metric": "dot"}
        data = json.loads(file.read_text())
        del data["runs"][0]["scores"]["settings"]  # as earlier versions wrote it
        data["runs"][0]["uid"] = "0" * 32
        file.write_text(json.dumps(data))
        two.load(file)
        assert two.run(2).scores().settings == {}


def test_what_was_stored_without_settings_is_read():
    scores = _scores(metric="dot")
    blobs = [blob for blob in pack_scores(scores) if blob.kind != "settings"]
    found = unpack_scores(blobs, scores.conventions.signature(), search="native-certified")
    assert found.settings == {}
    assert np.array_equal(found.values, scores.values)
