"""A store as version 0.1 wrote it, and what that version said of it.

    python -m tests.store.made_before FOLDER

writes made_by_0_1.db and made_by_0_1.json into a folder. Made once, by version 0.1; later versions
only read it: whoever has such a file must find every number in it again. Its schema was upgraded
once, to the first of a release.
"""

from __future__ import annotations

import csv
import io
import json
import os
import sqlite3
import sys
import tempfile
from contextlib import closing, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import assay
import assay.store
from tests.golden.inputs import make_inputs

__all__ = ["DATABASE", "SAID", "said_of"]

DATABASE = Path(__file__).with_name("made_by_0_1.db")
SAID = Path(__file__).with_name("made_by_0_1.json")

_LETTERS = "letters=py:tests.golden.models:bag"
_COMMANDS = (
    "eval dense.run coarse.run -r qrels.txt -m nDCG@10,AP,RR --by groups.tsv:kind"
    " --chance --n-docs 61 --ties expected --json --dataset trec --tag first --tag final",
    "compare lexical.run partial.run -r qrels.txt -m nDCG@10,AP --by groups.tsv:topic --resamples"
    " 300 --seed 5 --dataset trec",
    "predict m=a0.npz --dataset places --tag final",
    "crossmodal --sensor-embeddings sensor.npy --text-embeddings text.npy --labels labels.npy"
    " --k-values 3 5 --directions sensor2text --dataset-name milan",
    "codes --embeddings codes.npz --queries codes.npz -r codes.qrels --method sign --k 5"
    " --resamples 200",
    f"bench --corpus made --no-cache --model {_LETTERS} --by kinds.csv --resamples 300 --name texts"
    " -m nDCG@10 -m RR",
    "descriptors run one.yaml --fresh --dataset scenes",
    "eval dense.run absent.run -r qrels.txt --dataset trec",
)
_ONE = """
dataset: {path: scenes}
keypoints: {detector: orb, border: 20, strongest: 25}
descriptors: [ORB]
evaluation: {tau: [3], resamples: 300, verification: {scenes: 2}}
"""


def said_of(database: Path) -> dict[str, Any]:
    """All that a store says of its runs, by the command line, by exports and by its view."""
    with assay.store.open(database) as store:
        numbers = sorted(run.id for run in store.runs())
        sound = store.damages()
    return {
        "damages": sound,
        "list": _json("runs", "list", "--store", database)["runs"],
        "runs": {str(number): _shown(database, number) for number in numbers},
        "export": json.loads(_exported(database, ".json")),
        "values": {
            name: _cells(_exported(database, ".csv", dataset=name)) for name in ("by hand", "texts")
        },
        "wide_results": _wide_results(database),
    }


def _shown(database: Path, number: int) -> Any:
    per_query = ("-q",) if _has_values(database, number) else ()
    return _json("runs", "show", number, *per_query, "--store", database)["run"]


def _has_values(database: Path, number: int) -> bool:
    with assay.store.open(database) as store:
        return bool(store.run(number).conventions)


def _exported(database: Path, ending: str, **filters: str) -> str:
    with tempfile.TemporaryDirectory() as folder, assay.store.open(database) as store:
        file = Path(folder) / f"runs{ending}"
        store.export(file, **filters)
        return file.read_text("utf-8")


def _cells(text: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text)))


def _wide_results(database: Path) -> list[dict[str, Any]]:
    """The view that other programs read."""
    with closing(sqlite3.connect(database)) as connection:
        connection.row_factory = sqlite3.Row
        rows = connection.execute("SELECT * FROM wide_results ORDER BY run_id").fetchall()
    return [{key: row[key] for key in row.keys()} for row in rows]  # noqa: SIM118


def _json(*arguments: object) -> Any:
    code, out = _called(*arguments, "--json")
    if code:
        raise SystemExit(f"assay {' '.join(map(str, arguments))} ended with {code}")
    return json.loads(out)


def _called(*arguments: object) -> tuple[int, str]:
    """Exit code and stdout of the command line."""
    from assay.cli.main import main

    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = main(list(map(str, arguments)))
    return code, out.getvalue()


# How the file was made


def make(folder: Path) -> None:
    """Write the store and what it says."""
    database = folder / DATABASE.name
    with tempfile.TemporaryDirectory(prefix="assay-made-") as inputs:
        make_inputs(Path(inputs))
        (Path(inputs) / "one.yaml").write_text(_ONE)
        here = os.getcwd()
        os.chdir(inputs)
        try:
            for line in _COMMANDS:
                code, _ = _called(*line.split(), "--save", "--store", database)
                if bool(code) != ("absent.run" in line):
                    raise SystemExit(f"assay {line} ended with {code}")
            _by_hand(database)
        finally:
            os.chdir(here)
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        connection.execute("PRAGMA journal_mode = DELETE")
        connection.execute("VACUUM")
    text = json.dumps(said_of(database), ensure_ascii=False, indent=None)
    (folder / SAID.name).write_text(text.replace('}, {"', '},\n{"') + "\n", "utf-8")


def _by_hand(database: Path) -> None:
    """What no command does: odd names, things shown, tags and notes later, a run still running."""
    from assay.store import RunningRun, RunRecord, ShownDoc, ShownQuery

    scores = assay.evaluate("dense.run", "four.txt", ["nDCG@10", "AP(rel=2)", "Success@1"])
    found = ShownDoc("d1", 0.1 + 0.2, 2.0, "a cat’s <b>text</b>")
    with assay.store.open(database) as store:
        store.save(
            scores,
            "=odd 😀 'name'; --",
            task="retrieval",
            dataset="by hand",
            model="naïve",
            config={"k": [1, 2.5, None]},
            seeds={"seed": 7},
            tags=["x", "two words"],
            details={"deep": [1, {"a": "b"}]},
            seconds=1.5,
            timings={"search": 0.25},
            chance={"nDCG@10": 0.125},
            ceiling={"nDCG@10": 1.0},
            data={"f": {"bytes": 1}},
            shown={
                "301": ShownQuery(
                    "cats?", (found, ShownDoc("d2", -1e300, None)), (ShownDoc("d9", None, 1.0),)
                ),
                "302": ShownQuery("", ()),
            },
        )
        store.tag(1, "best")
        store.untag(1, "first")
        store.note(2, "ties decide much of it\nsecond line")
        running = RunningRun(store, store.begin(RunRecord(name="unfinished", task="retrieval")))
        running.progress(3, 7)
        running.keep("part 1", scores)
        store.export("away.json", name="lexical")
        store.delete(store.runs(name="lexical")[0].id)
        store.load("away.json")  # now it says which file it came from


if __name__ == "__main__":
    make(Path(sys.argv[1]))
