"""Vectors: exact search, label retrieval and compressed codes."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("pyarrow")

from tests.properties.metamorphic import DIGEST, Same, Sayings, Table, cases_of, check_same, swapped
from tests.properties.variants import MARK

_NAMED_ROWS = "--query-ids q.ids --doc-ids d.ids"
RANK = f"rank --full q.npy d.npy -k 20 {_NAMED_ROWS} -r named.qrels -m AP -m nDCG@10"
WRITE = "rank q.npy d.npy -k 20 --query-ids q.ids --doc-ids d.ids -o found.run"
DOT, L2 = (line.replace("rank ", f"rank --metric {m} ") for line in (RANK,) for m in ("dot", "l2"))
TIES = f"{WRITE} --keep-ties --exclude-self"
ROWS = "rank --full q.npy d.npy -k 20 --query-ids q.ids -r rank.qrels -m AP"
PLAIN = "rank --full q.npy 's-*.npy' -k 20 --query-ids q.ids -r rank.qrels -m AP"
_PAIR = "--sensor-embeddings sensor.npy --text-embeddings text.npy --labels labels.npy"
CROSS = f"crossmodal {_PAIR} --directions sensor2text text2text --k-values 3 10 --full --json"
NAMED = CROSS.replace(".npy", ".npz").replace("sensor.npz", "npz/sensor.npz")
NAMED = NAMED.replace("text.npz", "npz/text.npz").replace("labels.npz", "npz/labels.npz")
_FILES = "--embeddings codes-docs.npy --queries codes-queries.npy"
_IDS = "--doc-ids codes-docs.ids --query-ids codes-queries.ids -r codes.qrels"
CODES = f"codes {_FILES} {_IDS} --bits 8 --k 5 --resamples 200 --json"
SIGN = f"codes {_FILES} {_IDS} --method sign int8 float16 --k 5 --resamples 200 --json"
_BITS = "--codes own=bits-docs.npy --query-codes own=bits-queries.npy --method sign"
GIVEN = f"codes {_FILES} {_BITS} --k 5 --resamples 200 --json"


def _swap(line: str, kind: str, *names: str, **further: Any) -> Same:
    """The same line with files of another folder."""
    return swapped(line, *((name, f"{kind}/{name}") for name in names), **further)


def _wrote(same: Same, file: str = "found.run") -> Same:
    """The file is what counts."""
    other = same.other.replace(f"-o {file}", f"-o other-{file}")
    return same._replace(other=other, file=file, other_file=f"other-{file}")


def _more(line: str, *options: str) -> list[Same]:
    """The same line with options that change no number."""
    return [Same(line, f"{line} {option}") for option in options]


def _named(same: Same) -> Same:
    return same._replace(back=(*same.back, (MARK, "")), words=(DIGEST,))


def _numpy(line: str, file: str = "") -> Same:
    return Same(line, line, file=file, engine="numpy")


_BOTH = ("q.npy", "d.npy")
_SIDES = ("codes-docs.npy", "codes-queries.npy")
_CODE_IDS = ("codes-docs.ids", "codes-queries.ids")
_THREADS = ("--threads 1", "--threads 2", "--threads 3")
_BY_INDEX = (r'"by_index": [\d.]+', '"by_index": 0')  # which is by row, as it says
_NPZ = swapped(
    RANK.replace(" --query-ids q.ids --doc-ids d.ids", ""),
    ("q.npy", "npz/q.npz"),
    ("d.npy", "npz/d.npz"),
).other

TABLE: Table = {
    "rank": {
        "format": [
            *(_swap(line, kind, *_BOTH) for line in (RANK, L2) for kind in ("wide", "half")),
            *(_wrote(_swap(WRITE, kind, *_BOTH)) for kind in ("wide", "half", "fortran", "big")),
            Same(RANK, _NPZ),
            *(_wrote(_swap(TIES, kind, *_BOTH)) for kind in ("wide", "fortran")),
        ],
        # Which of the documents that tie with the k-th are kept goes by row: all of them are here.
        "lines": [
            _swap(f"{line} --keep-ties", "mixed", *names)
            for line in (RANK, DOT, L2)
            for names in (("d.npy", "d.ids"), ("q.npy", "q.ids", "named.qrels"))
        ],
        "renamed": [_named(_swap(RANK, "renamed", "q.ids", "d.ids", "named.qrels"))],
        "unordered": "vectors that tie are many here; runs show it",
        "threads": [
            *_more(RANK, *_THREADS),
            *_more(L2, "--threads 3"),
            *_more(PLAIN, "--cluster threads --workers 2", "--cluster serial"),
        ],
        "engine": [
            *(_numpy(line) for line in (RANK, DOT, L2, PLAIN)),
            _numpy(WRITE, "found.run"),
            *_more(RANK, "--engine numpy"),
        ],
        "scaled": [
            *(_swap(RANK, kind, name) for kind in ("times8", "times10") for name in _BOTH),
            *(_wrote(_swap(WRITE, kind, *_BOTH)) for kind in ("times8", "times10")),
            *(_swap(line, "times8", *_BOTH) for line in (DOT, L2)),
            _swap(DOT, "times10", "d.npy"),
        ],
        "split": [
            swapped(ROWS, ("d.npy", "'s-*.npy'")),
            swapped(ROWS, ("d.npy", "'p-*.safetensors'")),
            *(
                swapped(RANK.replace(" --doc-ids d.ids", ""), ("d.npy", f"'p-*.{kind}'"))._replace(
                    line=RANK
                )
                for kind in ("npz", "parquet")
            ),
        ],
        "blocks": _more(
            PLAIN,
            "--query-block 1",
            "--query-block 3",
            "--in-flight 3",
            "--checkpoint kept",
            "--checkpoint kept --threads 1",
        ),
    },
    "crossmodal": {
        "format": [
            *(_swap(CROSS, kind, "sensor.npy", "text.npy") for kind in ("wide", "fortran")),
            swapped(CROSS, ("labels.npy", "json/labels.json")),
            swapped(CROSS, ("sensor.npy", "data.npz"), ("labels.npy", "data.npz")),
        ],
        "lines": [Same(NAMED, NAMED.replace("npz/", "mixed/"), (("mixed/", "npz/"),))],
        "renamed": [
            _named(Same(NAMED, NAMED.replace("npz/", "renamed/"), (("renamed/", "npz/"),))),
            _swap(CROSS, "renamed", "labels.npy")._replace(back=((MARK, ""),)),
        ],
        "unordered": "samples that tie are many here; runs show it",
        "threads": _more(CROSS, *_THREADS),
        "engine": [_numpy(CROSS), _numpy(NAMED)],
        "scaled": [
            _swap(CROSS, "times8", "sensor.npy"),
            _swap(f"{CROSS} --metric dot", "times8", "sensor.npy", "text.npy"),
            _swap(f"{CROSS} --metric l2", "times8", "sensor.npy", "text.npy"),
        ],
        "split": "a modality is one file",
        "blocks": "see search.engine, whose blocks are tested there",
    },
    "codes": {
        "format": [
            _swap(SIGN, "fortran", *_SIDES),
            Same(
                SIGN,
                f"codes --embeddings codes.npz --queries codes.npz {SIGN[SIGN.index('-r ') :]}",
            ),
            Same(GIVEN, GIVEN.replace("bits-", "packed-").replace(" --k", " --packed 12 --k")),
        ],
        "lines": [
            _swap(CODES, "mixed", "codes-docs.npy", "codes-docs.ids", words=(_BY_INDEX,)),
            _swap(CODES, "mixed", "codes-queries.npy", "codes-queries.ids"),
            _swap(CODES, "mixed", "codes.qrels"),
        ],
        "renamed": [_named(_swap(CODES, "renamed", *_CODE_IDS, "codes.qrels"))],
        "unordered": "codes have few distances: nearly everything ties",
        "threads": _more(CODES, *_THREADS),
        "engine": [_numpy(CODES), _numpy(GIVEN)],
        "scaled": [
            *(_swap(CODES, "times8", *names) for names in (_SIDES[:1], _SIDES[1:], _SIDES)),
            _swap(f"{SIGN} --metric dot", "times8", *_SIDES),
            _swap(f"{SIGN} --metric l2", "times8", *_SIDES),
        ],
        "split": "vectors are one file",
        "blocks": "see search.engine, whose blocks are tested there",
    },
}


@pytest.mark.parametrize("same", list(cases_of(TABLE, {})))
def test_the_same_is_said(same: Same, sayings: Sayings) -> None:
    check_same(same, sayings)
