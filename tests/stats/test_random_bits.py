"""The random numbers: known answers, the same for any cut, and random enough for tests."""

from __future__ import annotations

import numpy as np
import pytest

from assay.arrays import stream_key, words


def test_known_words_of_the_generator() -> None:
    # The published first outputs of SplitMix64 for the seed 1234567.
    known = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431]
    assert words(1234567, 0, 4).tolist() == known


def test_any_cut_gives_the_same_words() -> None:
    whole = words(99, 0, 1000)
    for cut in (1, 7, 500, 999):
        assert (np.concatenate([words(99, 0, cut), words(99, cut, 1000 - cut)]) == whole).all()


def test_counters_beyond_64_bits_wrap() -> None:
    assert words(1, 2**63, 2).tolist() == words(1, 2**63 + 2**64, 2).tolist()


def test_streams_and_seeds_differ() -> None:
    names = ("bootstrap", "sign flips", "shuffles", "seeds of a", "seeds of b")
    keys = {stream_key(seed, name) for seed in range(50) for name in names}
    assert len(keys) == 250


@pytest.mark.parametrize("seed", [0, 1, 2**64 - 1])
def test_bits_and_bytes_are_even(seed: int) -> None:
    drawn = words(stream_key(seed, "sign flips"), 0, 200_000)
    counts = np.bincount(drawn.view(np.uint8), minlength=256)
    expected = counts.sum() / 256
    assert ((counts - expected) ** 2 / expected).sum() < 255 + 5 * np.sqrt(2 * 255)
    bits = np.unpackbits(drawn[:20_000].view(np.uint8)).reshape(-1, 64).astype(float)
    correlation = np.corrcoef(bits.T) - np.eye(64)
    assert np.abs(correlation).max() < 5 / np.sqrt(20_000)
    lagged = np.corrcoef(bits[:-1].T, bits[1:].T)[:64, 64:]
    assert np.abs(lagged).max() < 5 / np.sqrt(20_000)
