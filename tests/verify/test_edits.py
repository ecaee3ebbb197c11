"""`assay verify` of edited results: data counts under any version, sentences under the same."""

from __future__ import annotations

import copy
import json
import math
import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from assay import __version__
from assay.verify.differences import compare_results
from tests.golden.commands import COMMANDS, unmet
from tests.golden.inputs import make_inputs

KINDS = (
    "eval/chance by kind",
    "compare/gate closed",
    "compare/sensitivity",
    "compare/slices",
    "tasks/queries",
    "check/coarse",
    "explain/AP",
    "predict/lists by user",
    "predict/results",
    "codes/ties expected",
    "crossmodal/protocol, folds",
    "crossmodal/zero-shot, levels",
    "bench/notes",
    "bench/lexical",
    "descriptors patches/floats",
)
OTHERS = ("0.1.0", "0.3.0rc1", "7.0")
# This version and an older one by default: what counts does not depend on which other it is.
VERSIONS = [__version__, OTHERS[0], *(pytest.param(o, marks=pytest.mark.slow) for o in OTHERS[1:])]
EDITS = 3  # of data by the whole command, for each kind and version
Place = tuple[str | int, ...]

# The keys of docs/json.md under which a result speaks in sentences.
SENTENCE = ("verdict", "advice", "note", "message", "effect")
SENTENCES = ("remarks", "notes", "reasons", "contradictions", "verdicts")
CLOCKS = re.compile(r".*_seconds|.*_per_second|latency_ms|timings|processing_time_ms")


def is_sentence(place: Place) -> bool:
    if isinstance(place[-1], int):
        return place[-2] in SENTENCES
    return place[-1] in SENTENCE or (len(place) > 1 and place[-2] in ("verdicts", "refused"))


def is_timed(place: Place) -> bool:
    return any(isinstance(part, str) and CLOCKS.fullmatch(part) for part in place)


def nodes(data: Any, place: Place = ()) -> Iterator[tuple[Place, Any]]:
    yield place, data
    if isinstance(data, dict | list):
        for key, value in data.items() if isinstance(data, dict) else enumerate(data):
            yield from nodes(value, (*place, key))


def at(data: Any, place: Place) -> Any:
    for part in place:
        data = data[part]
    return data


def of_version(data: Any, version: str) -> Any:
    """The result as that version would have written it."""
    written = json.dumps(version)[1:-1]
    text = json.dumps(data).replace(f"version:{__version__}", f"version:{written}")
    other = json.loads(text.replace(f'"assay {__version__}"', f'"assay {written}"'))
    other["made_by"]["version"] = version
    return other


def edit_value(value: Any, rng: random.Random, texts: list[str]) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return rng.choice([value + 1, -value - 1, str(value), None])
    if isinstance(value, float):
        return rng.choice([math.nextafter(value, 9.0), value + 1, 1 - value / 3, str(value), None])
    if isinstance(value, str):
        parts = value.split("|")
        parts[rng.randrange(len(parts))] += "x"
        others = [text for text in texts if text != value] or ["other"]
        return rng.choice([rng.choice(others), "|".join(parts), "", None, value[::-1] + "y"])
    return rng.choice([0, "", False])


def edit_data(data: Any, rng: random.Random) -> str:
    """Change something that is neither a sentence nor time, in place; tell what."""
    texts = sorted({leaf for _, leaf in nodes(data) if isinstance(leaf, str) and len(leaf) < 40})
    aside = {"arguments", "version"}  # what is repeated, and the version under test
    places = [
        (place, value)
        for place, value in nodes(data)
        if place and not is_timed(place) and not (place[0] == "made_by" and set(place[1:2]) & aside)
    ]
    while True:
        place, value = rng.choice(places)
        holder = at(data, place[:-1])
        before = json.dumps(data)
        if isinstance(holder, dict) and rng.random() < 0.3:
            del holder[place[-1]]
            return f"deleted {place}"
        if is_sentence(place):
            continue
        if isinstance(value, list) and place[-1] not in SENTENCES:
            action: Callable[[], Any] = rng.choice(
                [value.reverse, lambda v=value: v.append(0), lambda v=value: v and v.pop()]
            )
            action()
        elif isinstance(value, dict):
            value["another"] = 1
        elif not isinstance(value, list):
            holder[place[-1]] = edit_value(value, rng, texts)
        if json.dumps(data) != before:
            return f"edited {place}: {value!r:.60} is {at(data, place)!r:.60}"


def edit_sentences(data: Any, rng: random.Random) -> str:
    """Reword, add or drop sentences; empty where there are none."""
    rest = {key: value for key, value in data.items() if key not in ("made_by", "settings")}
    places = [
        place
        for place, value in nodes(rest)
        if place
        and (
            (isinstance(value, str) and is_sentence(place))
            or (isinstance(value, list) and place[-1] in SENTENCES)
        )
    ]
    if not places:
        return ""
    place = rng.choice(places)
    value = at(data, place)
    if isinstance(value, list):
        value.append("A sentence of another version.")
        if rng.random() < 0.5 and len(value) > 1:
            del value[0]
    else:
        at(data, place[:-1])[place[-1]] = f"{value} Worded differently."
    return f"reworded {place}"


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("edited")
    make_inputs(folder)
    return folder


@pytest.fixture(scope="module")
def printed() -> dict[str, str]:
    """What each command printed, run once for all tests."""
    return {}


@pytest.fixture(params=KINDS)
def result(
    request: pytest.FixtureRequest,
    assay: Any,
    inputs: Path,
    printed: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> Any:
    if missing := unmet(COMMANDS[request.param]):
        pytest.skip(f"not installed: {', '.join(missing)}")
    monkeypatch.chdir(inputs)
    if request.param not in printed:
        printed[request.param] = assay(*COMMANDS[request.param].arguments).out
    return json.loads(printed[request.param])


def verify(assay: Any, data: Any) -> Any:
    Path("edited.json").write_text(json.dumps(data))
    return assay("verify", "edited.json", "--json")


@pytest.mark.parametrize("version", VERSIONS)
def test_every_edit_of_data_is_noticed(assay: Any, result: Any, version: str) -> None:
    rng = random.Random(f"{result['command']} {version}")
    written = of_version(result, version)
    clean = verify(assay, written)
    assert clean.code == 0, clean
    for _ in range(EDITS):
        data = copy.deepcopy(written)
        what = edit_data(data, rng)
        done = verify(assay, data)
        assert done.code in (1, 2, 3, 5), (what, done)


def test_sentences_count_under_the_same_version_only(assay: Any, result: Any) -> None:
    rng = random.Random(result["command"])
    data = copy.deepcopy(result)
    if not edit_sentences(data, rng):
        pytest.skip("it has no sentences")
    done = verify(assay, data)
    assert done.code == 1, done
    done = verify(assay, of_version(data, rng.choice(OTHERS)))
    assert done.code == 0, done.out
    assert json.loads(done.out)["differences"]


def test_thousands_of_edits_are_told_apart(result: Any) -> None:
    """The comparison alone, without computing each again."""
    result = {key: value for key, value in result.items() if key not in ("made_by", "signature")}
    rng = random.Random(5)
    for _ in range(60):
        version = rng.choice([__version__, *OTHERS])
        written = of_version({**result, "made_by": {}}, version)
        del written["made_by"]
        data = copy.deepcopy(written)
        what = edit_data(data, rng)
        _, differences = compare_results(data, result, "x", version)
        assert [one for one in differences if not one.in_prose], what
        data = copy.deepcopy(written)
        if what := edit_sentences(data, rng):
            _, differences = compare_results(data, result, "x", version)
            assert differences, what
            assert all(one.in_prose for one in differences), differences


# Examples that passed before


@pytest.fixture
def comparison(assay: Any, folder: Path) -> Any:
    line = ("compare", "run.txt", "other.txt", "-r", "qrels.txt", "--resamples", "100", "--json")
    return json.loads(assay(*line).out)


@pytest.mark.parametrize("version", [__version__, *OTHERS])
def test_a_reversed_winner_is_no_other_wording(assay: Any, comparison: Any, version: str) -> None:
    data = of_version(comparison, version)
    assert verify(assay, data).code == 0
    text = json.dumps(data["measures"])
    swapped = text.replace('"run"', '"?"').replace('"other"', '"run"').replace('"?"', '"other"')
    assert swapped != text
    assert verify(assay, {**data, "measures": json.loads(swapped)}).code == 1
    for measure in data["measures"].values():
        measure["pairs"][0]["outcome"] = "better"
    assert verify(assay, data).code == 1


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("key", ["schema", "schema_version", "command", "settings", "made_by"])
def test_a_key_that_is_gone_is_noticed(assay: Any, comparison: Any, key: str, version: str) -> None:
    data = of_version(comparison, version)
    del data[key]
    assert verify(assay, data).code in (1, 3)


def test_the_version_is_that_of_the_signature(assay: Any, comparison: Any) -> None:
    comparison["made_by"]["version"] = "0.1.0"
    done = verify(assay, comparison)
    assert done.code == 1
    assert f"version is {__version__} in the signature" in done.out


@pytest.mark.parametrize("version", ["", "latest", "0.1 ", "x" * 99, "1;2"])
def test_what_is_no_version_is_refused(assay: Any, comparison: Any, version: str) -> None:
    done = verify(assay, of_version(comparison, version))
    assert done.code == 3
    assert "is not a version of Assay" in done.err


def test_a_query_that_is_called_like_a_sentence_counts() -> None:
    stored, found = ({"per_query": {"note": text}, "settings": {"verdict": text}} for text in "ab")
    _, differences = compare_results(stored, found, "x", "0.1.0")
    assert [one.in_prose for one in differences] == [False, False]


def test_the_version_of_an_index_of_assay_is_that_of_the_result() -> None:
    stored, found = (
        {"systems": [{"index": {"version": f"assay {version}"}}]}
        for version in ("0.1.0", __version__)
    )
    assert not compare_results(stored, found, "x", "0.1.0")[1]
    assert compare_results(stored, found, "x", "0.1.1")[1]
    assert compare_results(stored, found, "x")[1]


def test_time_is_still_there() -> None:
    stored, found = {"costs": {"build_seconds": 1.0}}, {"costs": {"build_seconds": 2.0}}
    assert not compare_results(stored, found, "x")[1]
    for edited in ({}, {"build_seconds": "soon"}, {"build_seconds": {"a": 1}}):
        assert compare_results({"costs": edited}, found, "x")[1]
