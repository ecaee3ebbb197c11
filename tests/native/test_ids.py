"""Joins and order of ids by bytes: native = twin."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples

# Short ids of two letters collide often; long ones share their first 8 and 16 bytes.
TEXT = st.text("ab", min_size=1, max_size=4) | st.text("é€a", min_size=1, max_size=3)
LONG = st.builds(lambda tail: "common-prefix-longer-than-16-" + tail, st.text("xy", max_size=3))
NUMBERED = st.builds(
    "{}{:0{}d}".format, st.sampled_from(["", "d"]), st.integers(0, 99), st.integers(1, 4)
)
TEXTS = st.lists(TEXT | LONG | NUMBERED | st.text("ab", min_size=6, max_size=18), max_size=25)


def packed(texts):
    raw = [text.encode() for text in texts]
    ends = np.cumsum([0, *map(len, raw)], dtype=np.int64)
    return np.frombuffer(b"".join(raw), np.uint8), ends


@examples(100)
@given(texts=TEXTS, others=TEXTS)
def test_match(engine, texts, others):
    found = engine.match_ids(*packed(texts), *packed(others))
    assert found.dtype == np.int64
    assert found.tolist() == [others.index(text) if text in others else -1 for text in texts]


@examples(100)
@given(texts=TEXTS)
def test_first_duplicate(engine, texts):
    seconds = [place for place, text in enumerate(texts) if text in texts[:place]]
    expected = (texts.index(texts[seconds[0]]), seconds[0]) if seconds else None
    assert engine.first_duplicate(*packed(texts)) == expected


@examples(100)
@given(texts=TEXTS, descending=st.booleans())
def test_order(engine, texts, descending):
    order = engine.order_ids(*packed(texts), descending)
    expected = sorted(range(len(texts)), key=lambda i: texts[i].encode(), reverse=descending)
    assert order.dtype == np.int64
    assert order.tolist() == expected


@given(texts=TEXTS.filter(len), data=st.data())
def test_take(engine, texts, data):
    places = data.draw(st.lists(st.integers(0, len(texts) - 1)))
    blob, ends = engine.take_ids(*packed(texts), np.array(places, np.int64))
    wanted = packed([texts[place] for place in places])
    assert blob.tolist() == wanted[0].tolist()
    assert ends.tolist() == wanted[1].tolist()


@pytest.mark.parametrize("most", [9_000, 300_000, 10**8])
def test_many_ids_that_end_in_digits(both, most):
    """Sparse ones, dense ones, and those between: by hash at first, then by number."""
    rng = np.random.default_rng(2)
    for order in (np.sort, lambda numbers: numbers):
        ids, others = (
            packed([f"d{n}" for n in order(rng.integers(0, most, size)).tolist()])
            for size in (20_000, 30_000)
        )
        for a, b in ((ids, others), (others, ids)):
            assert both[0].match_ids(*a, *b).tolist() == both[1].match_ids(*a, *b).tolist()
            assert both[0].first_duplicate(*a) == both[1].first_duplicate(*a)
            numbered = [engine.number_ids(*a) for engine in both]
            assert [x.tolist() for x in numbered[0]] == [x.tolist() for x in numbered[1]]


def test_many_ids(both):
    texts = [f"doc-{i * 7919 % 100_003}" for i in range(100_003)]
    ids, others = packed(texts), packed(texts[::-2])
    for name, args in (
        ("match_ids", (*ids, *others)),
        ("order_ids", (*ids, False)),
        ("first_duplicate", packed([*texts, texts[5]])),
    ):
        native, twin = (getattr(kernels, name)(*args) for kernels in both)
        assert np.array_equal(native, twin)


def test_places_out_of_range_are_refused(engine):
    for place in (-1, 1):
        with pytest.raises(ValueError, match="out of range"):
            engine.take_ids(*packed(["a"]), np.array([place], np.int64))
