"""Random numbers by counter: word i of a stream is a function of (seed, stream, i) alone.

So any cut into blocks or threads draws the same numbers. The function is SplitMix64 (Steele, Lea &
Flood, OOPSLA 2014): a counter times an odd constant, scrambled by two multiplications. The compiled
kernels compute the same words.
"""

from __future__ import annotations

import numpy as np

from assay.arrays import Words

_STEP = 0x9E3779B97F4A7C15
_FIRST = 0xBF58476D1CE4E5B9
_SECOND = 0x94D049BB133111EB
_ALL = (1 << 64) - 1

# Each use of chance has a stream of its own, so that a test and an interval with the same seed
# never share their draws.
_STREAMS = {
    "bootstrap": 1,
    "sign flips": 2,
    "shuffles": 3,
    "seeds of a": 4,
    "seeds of b": 5,
    "sampled queries": 6,
    "rotation": 7,
    "keypoints": 16,
    "demo scenes": 17,
}


def stream_key(seed: int, stream: str) -> int:
    """Return where a stream starts: 64 bits, far from every other start."""
    return _scramble(_scramble(seed + _STEP) ^ (_STREAMS[stream] * _STEP))


def words(key: int, first: int, count: int) -> Words:
    """Return words first … first + count − 1 of the stream at `key`.

    >>> [int(word) for word in words(1234567, 0, 2)]
    [6457827717110365317, 3203168211198807973]
    """
    start = np.uint64((key + (first + 1) * _STEP) & _ALL)
    word = np.arange(count, dtype=np.uint64)
    word *= np.uint64(_STEP)
    word += start
    scratch = np.empty_like(word)
    for shift, factor in ((30, _FIRST), (27, _SECOND)):
        np.right_shift(word, np.uint64(shift), out=scratch)
        word ^= scratch
        word *= np.uint64(factor)
    np.right_shift(word, np.uint64(31), out=scratch)
    word ^= scratch
    return word


def _scramble(number: int) -> int:
    number &= _ALL
    number = ((number ^ (number >> 30)) * _FIRST) & _ALL
    number = ((number ^ (number >> 27)) * _SECOND) & _ALL
    return number ^ (number >> 31)
