"""Descriptors of patches and keypoints."""

from __future__ import annotations

import pytest

pytest.importorskip("pyarrow")

from tests.properties.metamorphic import Same, Sayings, Table, cases_of, check_same, swapped

PATCHES = "descriptors patches floats --json"
BITS = "descriptors patches bits --json"
RUN = "descriptors run whole.yaml --fresh --json"
MATCH = "descriptors match whole.yaml --json"
KEPT = "descriptors run whole.yaml --work kept-scenes --json"
DEMO = "descriptors demo --descriptor ORB --strongest 20 --json"
_NO_IDS = "rows are the identities of patches and keypoints"
_OPENCV = "pictures are described by OpenCV"
# From what is kept; how many scenes were, it says.
_REUSED = ((r'"(computed|reused)": \d+', r'"\1": 0'), (r"\d+ scenes evaluated, \d+ reused", ""))

TABLE: Table = {
    "descriptors patches": {
        "format": [swapped(PATCHES, ("floats", "npy/floats"))],
        "lines": _NO_IDS,
        "renamed": _NO_IDS,
        "unordered": _NO_IDS,
        "threads": "it has no option for threads",
        "engine": [Same(line, line, engine="numpy") for line in (PATCHES, BITS)],
        "scaled": [swapped(PATCHES, ("floats", "times8/floats"))],
        "split": "a scene is a folder of its own",
        "blocks": "a scene is read at once",
    },
    "descriptors run": {
        "format": [swapped(RUN, ("whole.yaml", "whole.toml"), slow=True)],
        "lines": _NO_IDS,
        "renamed": _NO_IDS,
        "unordered": _NO_IDS,
        "threads": [Same(RUN, f"{RUN} --threads {n}", slow=True) for n in (1, 3)],
        "engine": [Same(RUN, RUN, engine="numpy", slow=True)],
        "scaled": _OPENCV,
        "split": "a scene is a folder of its own",
        "blocks": [
            Same(RUN, KEPT, slow=True),
            Same(RUN, f"{KEPT} --timings", words=_REUSED, slow=True),
        ],
    },
    "descriptors match": {
        "format": [swapped(MATCH, ("whole.yaml", "whole.toml"), slow=True)],
        "lines": _NO_IDS,
        "renamed": _NO_IDS,
        "unordered": _NO_IDS,
        "threads": [Same(MATCH, f"{MATCH} --threads 1", slow=True)],
        "engine": [Same(MATCH, MATCH, engine="numpy", slow=True)],
        "scaled": _OPENCV,
        "split": "a scene is a folder of its own",
        "blocks": "a scene is read at once",
    },
    "descriptors demo": {
        "format": "it makes its pictures itself",
        "lines": _NO_IDS,
        "renamed": _NO_IDS,
        "unordered": _NO_IDS,
        "threads": [Same(DEMO, f"{DEMO} --threads 1", slow=True)],
        "engine": [Same(DEMO, DEMO, engine="numpy", slow=True)],
        "scaled": _OPENCV,
        "split": "it makes its pictures itself",
        "blocks": "see descriptors run",
    },
}
NEEDS = {"descriptors run": "cv2", "descriptors match": "cv2", "descriptors demo": "skimage"}


@pytest.mark.parametrize("same", list(cases_of(TABLE, NEEDS)))
def test_the_same_is_said(same: Same, sayings: Sayings) -> None:
    check_same(same, sayings)
