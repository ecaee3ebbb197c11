"""Another number has another signature: every option of every command is given another value.

`OPTIONS` has a row for each option of each command that prints numbers; an option without a row
fails. A row is another value, which has to move some number, or says why there is nothing to move.
"""

from __future__ import annotations

import contextlib
import io
import json
import re
import shlex
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import click
import pytest

from assay.cli.main import main
from tests.cli.every_command import COMMANDS
from tests.golden.inputs import make_inputs

SHOWN = "shown"  # how a result is shown, named, written or stored
DATA = "data"  # which data are read


class Moved(NamedTuple):
    """Arguments that move a number; `base` where they need other ones beside them.

    `other` is the whole other line, where adding arguments does not make it.
    """

    line: str
    base: str = ""
    other: str = ""


class Still(NamedTuple):
    """Arguments that change neither a number nor the signature, but for the kernels' name."""

    line: str
    base: str = ""


class Added(NamedTuple):
    """Arguments that add a variant with numbers of its own; those of the others stay."""

    line: str
    base: str = ""


_TEXT = {"l0": "river stone", "l1": "the winter market of the old town", "l2": "a paper planet"}
_OTHER = {"l0": "thunder", "l1": "some orange pepper in the castle", "l2": "silver music"}
CAPTIONS = {
    "milan": {"label_to_text_sourish": _TEXT, "label_to_text_plain": _OTHER},
    "aruba": {"label_to_text_sourish": _OTHER},
}
_FILES = "--sensor-embeddings sensor.npy --text-embeddings text.npy --labels labels.npy --json"
_PAIRS = (
    "crossmodal --modality image=sensor.npy --modality text=captions.npy --protocol pairs --json"
)
_CROSSMODAL = f"crossmodal {_FILES} --k-values 3 10 --full"
_ITEMS = "crossmodal --modality item=letters.npy --labels labels.npy --k-values 3 --json"
_TEXTS = f"{_ITEMS} --use-prototypes --metadata captions.json --dataset-name milan"
_BAG = "--encoder py:tests.golden.models:bag"
_ZERO = "crossmodal --modality z=zero.npy --labels labels.npy --k-values 5 --json --zero drop"
_RUNS = "dense.run lexical.run coarse.run -r qrels.txt -m nDCG@10 -m AP --resamples 200"
_LETTERS = "letters=py:tests.golden.models:bag"
_BENCH = f"bench --corpus made --no-cache --model bm25 --model {_LETTERS}"
_BENCH += " -m nDCG@10 -m AP --resamples 100 --json"
_ASKED = f"{_BENCH} --system v=retrieve:tests.golden.retrievers:retrieve"
_JUDGED = _BENCH.replace("made", "made/corpus.jsonl --queries made/queries.jsonl -r both.qrels")
_JUDGED += " --chunk tokens:6:2 --allow-mismatch"
_TWO = "report dense.run lexical.run -r qrels.txt -m AP --resamples 200 -o two.md --json"
_CODES = "codes --embeddings codes.npz --queries codes.npz -r codes.qrels --method gaussian sign"
_CODES += " --bits 8 --k 5 --resamples 100 --json"
_LEARNT = _CODES.replace("gaussian sign", "itq")
_RANK = "rank q.npy d.npy -k 20 --full --query-ids q.ids -r rank.qrels -m AP -m nDCG@10"
_OWN = "rank d.npy d.npy -k 20 --full -r own.qrels -m AP -m nDCG@10"
_SHARDS = "rank q.npy 's-*.npy' -k 20 --full --query-ids q.ids -r rank.qrels -m AP -m nDCG@10"
_LISTS = "predict lists.tsv --candidates one --json"
_SEVERAL = "predict a.npy b.npy -t targets.npy --json"
_GATED = f"compare {_RUNS} --json -b lexical --fail-if-worse"
_FLOAT = f"{_BENCH} --model 'v=py:tests.golden.models:bag?codes=CODE'"
_BENCH_GATED = f"{_BENCH} -b letters --fail-if-worse"
_STAGES = f"{_BENCH} --rerank 'v=rerank/5:bm25>py:tests.bench.samples:shared_words'"
BASE = {
    "eval": "eval coarse.run partial.run -r qrels.txt -m AP -m nDCG@10 --json",
    "compare": f"compare {_RUNS} --json",
    "agreement": "agreement complete.txt other.txt --resamples 200 --json",
    "diff": "diff dense.run coarse.run --json",
    "report": f"report {_RUNS} -o report.md --json",
    "rank": _RANK,
    "crossmodal": _CROSSMODAL,
    "predict": "predict a.npy -t targets.npy --json",
    "codes": _CODES,
    "bench": _BENCH,
    "explain": "explain coarse.run -r qrels.txt --query 301 -m AP --json",
    "check": "check coarse.run qrels.txt -m AP --json",
    "descriptors patches": "descriptors patches floats --json",
    "descriptors run": "descriptors run whole.yaml --fresh --json",
    "descriptors match": "descriptors match whole.yaml --json",
    "descriptors demo": "descriptors demo --descriptor ORB --strongest 20 --json",
    "runs compare": "runs compare 1 2 3 --json --resamples 200",
    "tasks": "tasks values.csv --resamples 200 --json",
}
# Commands that print no numbers of their own, or those of a run that has its signature.
WITHOUT = {"completion", "convert", "demo", "encode", "fuse", "measures", "schema", "serve"}
WITHOUT |= {"judge", "label", "pool", "queries"}
WITHOUT |= {
    f"runs {name}" for name in ("check", "delete", "export", "import", "list", "note", "rerun")
}
WITHOUT |= {"runs show", "runs tag", "trec_eval", "verify"}

_SAVING = dict.fromkeys(("--save", "--store", "--dataset", "--tag"), SHOWN)
_SHOWING = dict.fromkeys(("--format", "--json", "--full", "--signature", "-o"), SHOWN)
_SAVED = {**_SAVING, **_SHOWING}
_RULES = {
    "-c": Moved("-c sentence_transformers"),
    "--ties": Moved("--ties best"),
    "--empty": Moved("--empty skip"),
    "--unjudged": Moved("--unjudged condensed"),
    "--depth": Moved("--depth 4"),
}
_MISSING = Moved("--missing skip", "compare dense.run partial.run -r qrels.txt -m AP --json")
_STATISTICS = {
    "--baseline": Moved("-b dense"),
    "--test": Moved("--test t"),
    "--correction": Moved("--correction none"),
    "--level": Moved("--level 0.2"),
    "--interval": Moved("--interval percentile"),
    "--resamples": Moved("--resamples 300"),
    "--seed": Moved("--seed 5"),
    "--margin": Still("", ""),
    "--by": Moved("--by groups.tsv:topic"),
}
OPTIONS: dict[str, dict[str, Any]] = {
    "eval": {
        **_SAVED,
        **_RULES,
        "-r": DATA,
        "--queries": DATA,
        **dict.fromkeys(("--pool", "--labels", "--machine-labels"), DATA),
        "--within": SHOWN,
        "-m": SHOWN,
        "--per-query": SHOWN,
        "--by": Moved(
            "", f"{BASE['eval']} --by groups.tsv:kind", f"{BASE['eval']} --by groups.tsv:length"
        ),
        "--missing": Moved("--missing skip"),
        "--rel": SHOWN,  # part of the names of the measures
        "--chance": SHOWN,
        "--n-docs": Moved("--n-docs 99", "{base} --chance --n-docs 61"),
        "--percent": SHOWN,
    },
    "agreement": {
        **_SAVED,
        "--run": DATA,
        "--by": DATA,
        "--within": SHOWN,
        "-m": Moved("-m P@3", "{base} --run dense.run --run lexical.run --run coarse.run"),
        "--resamples": Moved("--resamples 300"),
        "--seed": Moved("--seed 5"),
    },
    "diff": {
        **_SAVED,
        "-k": Moved("-k 4"),
        "--depth": Moved("--depth 12"),
        "--p": Moved("--p 0.5"),
        **dict.fromkeys(("-r", "--queries", "--slices"), DATA),
        **dict.fromkeys(("-m", "--moved", "--fail-if-overlap-below"), SHOWN),
        "--level": Moved("--level 0.2"),
        "--resamples": Moved("--resamples 300", "{base} -r qrels.txt"),
        "--seed": Moved("--seed 5", "{base} -r qrels.txt"),
    },
    "compare": {
        **_SAVED,
        **_RULES,
        **_STATISTICS,
        "-r": DATA,
        "--queries": DATA,
        **dict.fromkeys(("--pool", "--labels", "--machine-labels"), DATA),
        "--within": SHOWN,
        "-m": SHOWN,
        "--margin": Moved("--margin 0.2", "{base} --margin 0.01"),
        "--missing": _MISSING,
        "--rel": SHOWN,
        "--sensitivity": SHOWN,
        "--differences": SHOWN,
        "--fail-if": SHOWN,
        "--fail-if-worse": SHOWN,
        "--slices": SHOWN,  # a part of its own; the rest stays
        "--look": Moved("--look 3", f"{_GATED} --look 1"),
        "--look-file": Moved("", f"{_GATED} --look 2", f"{_GATED} --look-file seen.json"),
    },
    "report": {
        **_SHOWING,
        "--slices": SHOWN,
        **_RULES,
        **_STATISTICS,
        **dict.fromkeys(("--store", "--task", "--dataset", "--model", "--name", "--tag"), DATA),
        **dict.fromkeys(("--since", "--until"), DATA),
        "-r": DATA,
        "--queries": DATA,
        "-m": SHOWN,
        "--test": Moved("--test sign", _TWO),
        "--margin": SHOWN,  # the JSON of a report has no word on it
        "--missing": Moved("--missing skip", "report partial.run -r qrels.txt -o r.md --json"),
        "--rel": SHOWN,
        "--title": SHOWN,
        "--groups": SHOWN,
        "--n-docs": SHOWN,  # chance is on the page only
        "--figures": SHOWN,
        "--figure-format": SHOWN,
    },
    "rank": {
        "--full": SHOWN,
        "--signature": SHOWN,
        "-o": SHOWN,
        "-k": Moved("-k 4"),
        "--metric": Moved("--metric dot"),
        "--query-ids": DATA,
        "--doc-ids": DATA,
        "--exclude-self": Moved("--exclude-self", _OWN),
        "--keep-ties": Moved("--keep-ties", _RANK.replace("-k 20", "-k 3 --metric dot")),
        "--zero": Moved(
            "--zero drop", f"{_RANK.replace('q.npy d.npy', 'qz.npy dz.npy')} --zero last"
        ),
        "--threads": Still("--threads 1"),
        "--engine": Still("--engine numpy"),
        "--prepare": Still("--prepare docs.prepared"),
        "--to": SHOWN,
        "--tag": SHOWN,
        "--ir-metadata": SHOWN,
        "--cluster": Still("--cluster threads --workers 2", _SHARDS),
        "--workers": Still("--cluster threads --workers 3", f"{_SHARDS} --cluster threads"),
        "--checkpoint": Still("--checkpoint blocks", _SHARDS),
        "--dry-run": SHOWN,
        "--query-block": Still("--query-block 3", _SHARDS),
        "--in-flight": Still("--in-flight 3", _SHARDS),
        "--timings": SHOWN,
        "--sample": Moved("--sample 4", _SHARDS),
        "--seed": Moved("--seed 9", f"{_SHARDS} --sample 4"),
        "--recall-of": SHOWN,
        "-r": DATA,
        "-m": SHOWN,
        **{name: SHOWN for name in _SAVING if name != "--tag"},
    },
    "crossmodal": {
        **_SAVED,
        **dict.fromkeys(
            (
                "--sensor-embeddings",
                "--sensor-key",
                "--text-embeddings",
                "--text-key",
                "--modality",
                "--modality-key",
                "--labels",
                "--labels-key",
                "--modality-labels",
                "--modality-ids",
                "-r",
                "--label-map",
                "--prototype-embeddings",
                "--prototype-key",
                "--prototype-labels",
                "--use-prototypes",
                "--metadata",
            ),
            DATA,
        ),
        "--drop-labels": Moved("--drop-labels l0,l4"),
        "--directions": SHOWN,
        "--k-values": SHOWN,
        "-m": SHOWN,
        "--protocol": SHOWN,
        "--folds": Moved("--folds 4", _PAIRS),
        "--zero-shot": SHOWN,
        "--demo": SHOWN,
        "--normalize": Moved("--no-normalize"),
        "--metric": Moved("--metric l2"),
        "--exclude-paired": Moved("--exclude-paired"),
        "--ties": Moved("--ties expected", f"{_CROSSMODAL} --metric dot --drop-labels l1"),
        "--zero": Moved("--zero last", _ZERO),
        "--depth": SHOWN,  # adds MAP@R or leaves it out
        "--threads": Still("--threads 1"),
        "--dataset-name": Moved("--dataset-name aruba", f"{_TEXTS} {_BAG}"),
        "--caption-style": Moved("--caption-style plain", f"{_TEXTS} {_BAG}"),
        "--encoder": Moved("--encoder py:tests.golden.models:short_bag", f"{_TEXTS} {_BAG}"),
        "--checkpoint": DATA,
        "--text-encoder-factory": DATA,
        "--device": SHOWN,
        "--truncate": Moved("--truncate", f"{_CROSSMODAL} --prototype-embeddings proto.npz"),
        "--full": SHOWN,
        "--confusion": SHOWN,
        "--confusion-k": Moved("--confusion-k 7"),
    },
    "predict": {
        **_SAVED,
        "--demo": SHOWN,
        "-t": DATA,
        "--candidates": DATA,
        "--target": DATA,
        "--id": DATA,
        "-m": SHOWN,
        "-k": SHOWN,
        "--by": SHOWN,
        "--train": DATA,
        "--train-users": DATA,
        "--users": Moved("--users user", f"{_LISTS} --candidates two"),
        **dict.fromkeys(("--previous", "--history", "--coordinates"), DATA),
        **dict.fromkeys(
            ("--new-places", "--confidence", "--scores", "--reliability", "--confusion"), SHOWN
        ),
        "--predictability": SHOWN,
        "--n-classes": Moved("--n-classes 30", f"{_LISTS} --n-classes 9"),
        "--per-class": SHOWN,
        "--histogram": SHOWN,
        "--ties": Moved("--ties worst"),
        **dict.fromkeys(("--results", "--unit", "--f1-unit"), DATA),
        "--baseline": Moved("-b b", f"{_SEVERAL} c=a0.npz"),
        "--legacy-json": SHOWN,
        **dict.fromkeys(("--fail-if", "--fail-if-worse", "--look", "--look-file"), SHOWN),
        "--threads": Still("--threads 1"),
    },
    "codes": {
        **_SAVED,
        **dict.fromkeys(("--embeddings", "--embeddings-key", "--queries", "--queries-key"), DATA),
        **dict.fromkeys(("--doc-ids", "--query-ids", "-r", "--codes", "--query-codes"), DATA),
        **dict.fromkeys(("--labels", "--query-labels"), DATA),
        "--hashing": SHOWN,  # adds AP, with its cutoff in its name
        "--oversample": [
            Added("--oversample 2"),
            Added("--oversample 3", f"{_CODES} --oversample 2"),
        ],
        "--train": [
            Moved("--train 1", _LEARNT),
            Moved("--train 0.8", _LEARNT),
            Moved("--train codes-docs.npy", _LEARNT),
            Moved("--train 1", _LEARNT.replace("itq", "rabitq:1")),
        ],
        "--packed": DATA,
        "--bits": Moved("--bits 16"),
        "--method": Moved("--method itq"),
        "--k": Moved("--k 3 5"),
        "--rerank": Moved("--rerank 10"),
        "--metric": Moved("--metric dot"),
        "--ties": Moved("--ties best"),
        "--p": SHOWN,  # part of the name of the measure
        "--exclude-self": Moved(
            "--keep-self", "codes --embeddings codes-docs.npy --k 5 --method sign --json"
        ),
        "--zero": Moved(
            "--zero last",
            "codes --embeddings codes-zero.npy --k 5 --method int8 --json --zero drop",
        ),
        "--level": Moved("--level 0.2"),
        "--resamples": Moved("--resamples 150"),
        "--seed": Moved("--seed 4"),
        "--threads": Still("--threads 1"),
        "--chart": SHOWN,
        "--demo": SHOWN,
    },
    "bench": {
        **_SAVED,
        **_RULES,
        **_STATISTICS,
        **{
            key: row._replace(base="{base} --interval percentile")
            for key, row in _STATISTICS.items()
            if key in ("--resamples", "--seed")
        },
        "--corpus": DATA,
        "--extension": DATA,
        "--queries": DATA,
        "-r": DATA,
        "--answers": DATA,
        "--price": SHOWN,
        "--split": DATA,
        "--name": SHOWN,
        "--chunk": Moved("--chunk tokens:6:2"),
        "--filter": Moved("--filter 'text>=text'"),
        "--fold": Moved("--fold sum:2", "{base} --chunk tokens:6:2"),
        "--judged": Moved("--judged chunks", _JUDGED),
        "--model": [
            Moved(f"--model {_LETTERS.replace('bag', 'short_bag')}"),
            Added("--model 'v=py:tests.golden.models:bag?codes=int8'"),
            *(
                Moved("", _FLOAT.replace("CODE", "binary"), _FLOAT.replace("CODE", code))
                for code in ("mrl:8", "rabitq:1", "rabitq:1&train=1", "int4")
            ),
        ],
        "--fusion": Moved("--fusion f=combsum:bm25+letters", "{base} --fusion f=rrf:bm25+letters"),
        "--index": [Added("--index exact"), Added("--index faiss:Flat", f"{_BENCH} --index exact")],
        "--rerank": [
            Added("--rerank 'v=rerank/5:bm25>py:tests.bench.samples:shared_words'"),
            Added("--rerank 'w=rerank/3:bm25>py:tests.bench.samples:shared_words'", _STAGES),
            Moved("", _STAGES, _STAGES.replace("rerank/5", "rerank/3")),
        ],
        "--sweep": [
            Moved("", _STAGES, f"{_STAGES} --sweep depth=2,3"),
            Moved("", f"{_STAGES} --sweep depth=2,3", f"{_STAGES} --sweep depth=2,4"),
        ],
        "--chart": SHOWN,
        "--system": Moved("--system v=retrieve:tests.golden.retrievers:retrieve"),
        "--doc-of": Moved("--doc-of '([^#]+)(?:#.*)?'", _ASKED),
        "--concurrency": Still("--concurrency 2", _ASKED),
        "--timeout": Still("--timeout 60", _ASKED),
        "--retries": Still("--retries 1", _ASKED),
        "--failed": Still("--failed skip", _ASKED),
        "--fail-if": SHOWN,
        "--fail-if-worse": SHOWN,
        "--look": Moved("--look 3", f"{_BENCH_GATED} --look 1"),
        "--look-file": Moved(
            "", f"{_BENCH_GATED} --look 2", f"{_BENCH_GATED} --look-file looks.json"
        ),
        **dict.fromkeys(("--revision", "--dtype", "--trust-remote-code"), DATA),  # other models
        "--batch-size": Still("--batch-size 3"),
        "--query-prefix": Moved("--query-prefix 'stone '"),
        "--doc-prefix": Moved("--doc-prefix 'river '"),
        "--max-length": DATA,
        "--normalize": Moved("--no-normalize", "{base} --metric dot --normalize"),
        "--dimensions": Moved("--dimensions 5"),
        "--base-url": DATA,
        "--metric": Moved("--metric l2 --no-normalize", "{base} --no-normalize"),
        "--device": SHOWN,
        "--threads": Still("--threads 1"),
        "--cluster": Still("--cluster threads"),
        "--workers": Still("--cluster threads --workers 2", "{base} --cluster threads"),
        "--cache": Still("--cache kept", _BENCH.replace(" --no-cache", "")),
        "--no-cache": SHOWN,  # see --cache
        "-m": SHOWN,
        "--baseline": Moved("-b bm25"),
        "--by": Moved("--by kinds.csv"),
        "--empty": SHOWN,  # every query has a relevant document
        "--correction": SHOWN,  # of two systems there is nothing to correct
        "--ties": Moved("--ties best"),
        "--missing": DATA,  # every query that is searched is answered
        "--html": SHOWN,
        "--runs": SHOWN,
        "--per-query": SHOWN,
        "--csv": SHOWN,
    },
    "explain": {
        **_RULES,
        "--empty": SHOWN,
        "--missing": SHOWN,
        "-r": DATA,
        "--query": DATA,
        "-m": SHOWN,
        "--extension": DATA,
        "--corpus": SHOWN,
        "--queries": SHOWN,
        "--saved": DATA,
        "--store": DATA,
        "-n": SHOWN,
        "--rel": SHOWN,
        "--json": SHOWN,
        "-o": SHOWN,
    },
    "check": {  # its findings are sentences: tests/inspect/test_check.py moves the rules
        **dict.fromkeys(("-c", "--ties", "--empty", "--missing"), SHOWN),
        **dict.fromkeys(("--unjudged", "--depth"), SHOWN),
        "-r": DATA,
        "--queries": DATA,
        "-m": SHOWN,
        "--json": SHOWN,
        "-o": SHOWN,
    },
    "descriptors patches": {
        **_SAVED,
        **dict.fromkeys(("--name", "--timings", "--chart"), SHOWN),
        "--describe": DATA,
        "--split": Moved(
            "--split full", "descriptors patches floats --split a --tasks patch-tasks --json"
        ),
        "--tasks": DATA,
        "--metric": Moved("--metric cosine"),
        "--seed": Moved("--seed 3"),
    },
    "descriptors run": {
        **_SAVED,
        **dict.fromkeys(("--work", "--fresh", "--scenes", "--ranks", "--timings"), SHOWN),
        **dict.fromkeys(("--show", "--show-to", "--csv", "--chart"), SHOWN),
        "--force": DATA,
        "--threads": Still("--threads 1"),
    },
    "descriptors demo": {
        **_SAVED,
        **dict.fromkeys(("--write", "--scenes", "--ranks", "--timings"), SHOWN),
        **dict.fromkeys(("--show", "--show-to", "--csv", "--chart"), SHOWN),
        "--descriptor": DATA,
        "--strongest": Moved("--strongest 15"),
        "--force": DATA,
        "--threads": SHOWN,
    },
    "descriptors match": {
        "--resize": Moved("--resize 120"),
        "--chart": SHOWN,
        **_SAVED,
        "--matcher": Moved("--matcher ratio"),
        "--estimator": Moved("--estimator magsac"),
        "--inlier": Moved("--inlier 2"),
        "--repeats": Moved("--repeats 2"),
        "--scenes": SHOWN,
        "--threads": Still("--threads 1"),
    },
    "runs compare": {
        **_SHOWING,
        **{key: row for key, row in _STATISTICS.items() if key not in ("--margin", "--interval")},
        "--baseline": Moved("-b 1"),
        "--by": DATA,
        "-m": SHOWN,
        "--force": SHOWN,
        "--store": DATA,
        "--slices": SHOWN,
    },
    "tasks": {
        **_SHOWING,
        **{key: _STATISTICS[key] for key in ("--level", "--resamples", "--seed")},
        **dict.fromkeys(("--store", "--model", "--name", "--tag", "--since", "--until"), DATA),
        **dict.fromkeys(("-m", "--split", "--language"), DATA),
        "--units": Moved("--units tasks"),
        "--missing": Moved(
            "--missing drop-system", "tasks gaps.csv --missing drop-task --resamples 200 --json"
        ),
        "--only": Moved("--only t1 --only t2 --only t3"),
    },
}
_SLOW = {"descriptors run", "descriptors demo", "descriptors match"}
_NEEDS = {"bench": "scipy", "report": "altair", "runs compare": "sqlalchemy"}
_NEEDS |= {"descriptors run": "cv2", "descriptors match": "cv2", "descriptors demo": "skimage"}


def test_every_option_of_every_command_has_a_row():
    assert set(COMMANDS) == set(OPTIONS) | WITHOUT
    assert set(OPTIONS) == set(BASE)
    for name, rows in OPTIONS.items():
        options = [one for one in COMMANDS[name].params if isinstance(one, click.Option)]
        spelt = {spelling for one in options for spelling in one.opts}
        allowing = ("--allow-mismatch", "--allow-code", "--allow-endpoint")
        known = {*rows, *allowing}  # which let a number be printed, and move none
        lacking = [one.opts for one in options if not set(one.opts) & known]
        assert not lacking, f"{name}: give the option a row in OPTIONS: {lacking}"
        assert not set(rows) - spelt - set(_STATISTICS) - set(_SAVED), f"{name}: no such option"


# What one command line says


class Said(NamedTuple):
    """All numbers by their place, and all signatures."""

    numbers: dict[str, float]
    signatures: tuple[str, ...]


_NOT_RESULTS = re.compile(
    r"serving|second|timing|time|bytes|per_second|settings|experiment|schema|version"
)
_NUMBER = re.compile(r"(?<![\w.:@-])-?\d+(?:\.\d+|(?= ?%))")


def _say(line: str) -> Said:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(shlex.split(line))
    assert code == 0, f"{line}\n{err.getvalue()}"
    text = out.getvalue()
    if not text.startswith("{"):
        lines = text.rstrip().splitlines()
        found = enumerate(_NUMBER.findall("\n".join(lines[:-1])))
        return Said({str(place): float(number) for place, number in found}, (lines[-1],))
    numbers: dict[str, float] = {}
    signatures: list[str] = []
    _walk(json.loads(text), "", numbers, signatures)
    return Said(numbers, tuple(signatures))


def _walk(data: Any, place: str, numbers: dict[str, float], signatures: list[str]) -> None:
    if isinstance(data, dict):
        for key, value in data.items():
            if key == "signature":
                signatures.append(value)
            elif not _NOT_RESULTS.search(key):
                _walk(value, f"{place}/{key}", numbers, signatures)
    elif isinstance(data, list):
        for number, value in enumerate(data):
            name = value.get("name", number) if isinstance(value, dict) else number
            _walk(value, f"{place}/{name}", numbers, signatures)
    elif isinstance(data, str) and "verdict" in place:
        numbers |= {f"{place} {n}": float(x) for n, x in enumerate(_NUMBER.findall(data))}
    elif isinstance(data, int | float) and not isinstance(data, bool):
        numbers[place] = float(data)


def _moved(old: Said, new: Said) -> list[str]:
    """Places that both have, with different numbers."""
    return [
        place
        for place, number in old.numbers.items()
        if place in new.numbers and new.numbers[place] != number
    ]


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """What a command line says, each once, in a folder with inputs."""
    folder: Path = tmp_path_factory.mktemp("inputs")
    make_inputs(folder)
    (folder / "captions.json").write_text(json.dumps(CAPTIONS))
    lines = map(str.split, (folder / "complete.txt").read_text().splitlines())
    other = (
        f"{q} 0 {doc} {(int(g) + (n % 3 == 0)) % 4}\n" for n, (q, _, doc, g) in enumerate(lines)
    )
    (folder / "other.txt").write_text("".join(other))
    table = (folder / "values.csv").read_text().splitlines()
    gaps = [line for line in table if not line.startswith("s2,t7")]
    (folder / "gaps.csv").write_text("\n".join(gaps))
    judged = (f"{q} 0 {(5 * q + n) % 48} 1\n" for q in range(12) for n in (0, 3, 11))
    (folder / "own.qrels").write_text("".join(judged))
    whole = (folder / "made/qrels/test.tsv").read_text().splitlines()[1:]
    both = (
        f"{q} 0 {doc}{part} {g}\n" for q, doc, g in map(str.split, whole) for part in ("", "#1")
    )
    (folder / "both.qrels").write_text("".join(both))
    known: dict[str, Said] = {}

    def say(line: str) -> Said:
        if line not in known:
            known[line] = _say(line)
        return known[line]

    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("ASSAY_STORE", str(folder / "runs.db"))
        patch.setenv("ASSAY_CACHE", str(folder / "cache"))
        yield say


def _cases() -> Iterator[Any]:
    for name, rows in OPTIONS.items():
        for option, several in rows.items():
            for row in several if isinstance(several, list) else [several]:
                if isinstance(row, Moved | Still | Added) and (row.line or row[-1]):
                    marks = [pytest.mark.slow] if name in _SLOW else []
                    yield pytest.param(name, row, id=f"{name} {option}", marks=marks)


def _without_kernels(signature: str) -> str:
    return re.sub(r"(engine|search):[^|]*", r"\1", signature)


@pytest.mark.parametrize(("name", "row"), list(_cases()))
def test_another_number_has_another_signature(name, row, said):
    if name in _NEEDS and find_spec(_NEEDS[name]) is None:
        pytest.skip(f"needs {_NEEDS[name]}")
    if name == "runs compare":
        said("eval dense.run lexical.run coarse.run -r qrels.txt -m AP --save --json")
    base = row.base.replace("{base}", BASE[name]) if row.base not in ("", name) else BASE[name]
    line = f"{base} {row.line}"
    if isinstance(row, Moved) and row.other:
        line = row.other
    for part in (" --fusion f=rrf:bm25+letters", " --cache kept", f" --model {_LETTERS}"):
        if part.split()[0] in row.line and not isinstance(row, Added):  # which would be given twice
            line = line.replace(part, "")
    old, new = said(base), said(line)
    assert old.signatures
    assert new.signatures
    moved = _moved(old, new)
    if isinstance(row, Added):
        assert new.numbers.keys() - old.numbers.keys()
        assert old.signatures != new.signatures
    elif isinstance(row, Still):
        assert not moved
        assert old.numbers.keys() == new.numbers.keys()
        kept = [list(map(_without_kernels, one.signatures)) for one in (old, new)]
        assert kept[0] == kept[1]
    else:
        assert moved, "this value moves no number: choose another"
        assert old.signatures != new.signatures, moved[:5]


# Keys of an experiment file, each with another value that has to move some number.
_EXPERIMENT = {
    "dataset": {"path": "scenes"},
    "keypoints": {"detector": "orb", "border": 20, "strongest": 50},
    "descriptors": [{"name": "one", "type": "ORB"}],
    "evaluation": {"resamples": 100, "verification": True, "retrieval": True},
}
_IMAGES = {"image_retrieval": {"keypoints": 30}}
_KEYS: list[tuple[str, dict[str, Any]]] = [
    ("dataset", {"scenes": ["v_wall", "v_yard"]}),
    ("keypoints", {"detector": "akaze"}),
    ("keypoints", {"source": "project"}),
    ("keypoints", {"strongest": 15}),
    ("keypoints", {"random": 10}),
    ("evaluation", {"tau": [1]}),
    ("evaluation", {"ties": "order"}),
    ("evaluation", {"one_to_one": True}),
    ("evaluation", {"symmetric": True}),
    ("evaluation", {"rule": "program"}),
    ("evaluation", {"level": 0.8}),
    ("evaluation", {"verification": {"keypoints": 5}}),
    ("evaluation", {"verification": {"scenes": 1}}),
    ("evaluation", {"verification": {"seed": 3}}),
    ("evaluation", {"image_retrieval": {"keypoints": 8}}),
    ("evaluation", {"image_retrieval": {"keypoints": 30, "seed": 6}}),
    ("descriptors", {"type": "SIFT"}),
    ("descriptors", {"options": {"patchSize": 9}}),
]


@pytest.mark.slow
@pytest.mark.parametrize(("part", "change"), _KEYS, ids=str)
def test_another_number_of_an_experiment_has_another_signature(part, change, said):
    for needed in ("cv2", "yaml"):
        pytest.importorskip(needed)
    old = {**_EXPERIMENT, "evaluation": {**_EXPERIMENT["evaluation"], **_IMAGES}}
    given = old[part]
    new = [{**given[0], **change}] if isinstance(given, list) else {**given, **change}
    lines = []
    for name, experiment in (
        ("old", old),
        (f"new-{_KEYS.index((part, change))}", {**old, part: new}),
    ):
        Path(f"{name}.yaml").write_text(json.dumps(experiment))  # JSON is YAML
        lines.append(f"descriptors run {name}.yaml --fresh --json")
    before, after = map(said, lines)
    assert _moved(before, after), "this value moves no number: choose another"
    assert before.signatures != after.signatures
