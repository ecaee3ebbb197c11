"""What differs between a recorded answer and a new one: values, or only words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from tests.golden.recording import (
    GONE,
    digest_of,
    digest_of_lines,
    digest_of_numbers,
    numbers_in,
)

__all__ = ["Difference", "differences"]

_ABSENT = "(absent)"
_BEFORE, _LONGEST = 40, 160


class Difference(NamedTuple):
    """One place where two answers differ; `words` if every number is the same there."""

    path: str
    old: Any
    new: Any
    words: bool = False

    def __str__(self) -> str:
        """A line each for the place, the old and the new, from where they part."""
        old, new = (one if isinstance(one, str) else repr(one) for one in (self.old, self.new))
        parts = zip(old, new, strict=False)
        same = next((row for row, (a, b) in enumerate(parts) if a != b), min(len(old), len(new)))
        same = max(same - _BEFORE, 0)
        return f"{self.path}\n    old {_cut(old, same)}\n    new {_cut(new, same)}"


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[Difference]:
    """All differences; `old` may be shrunk, `new` is whole. Arguments and stderr do not count."""
    if old.get("exit") != new.get("exit"):
        yield Difference("exit code", _exit(old), _exit(new))
    kinds = {"json": _in_json, "data": _in_data, "text": _in_text}
    for kind, compared in kinds.items():
        if kind in old and kind in new:
            yield from compared(kind, old[kind], new[kind])
        elif kind in old or kind in new:
            yield Difference(kind, old.get(kind, _ABSENT), new.get(kind, _ABSENT))
    if old.get("missing") != new.get("missing"):
        said = ["no file" if one.get("missing") else "a file" for one in (old, new)]
        yield Difference("", said[0], said[1])
    for name, content in old.get("files", {}).items():
        for one in differences(content, new.get("files", {}).get(name, {"missing": True})):
            yield one._replace(path=f"{name}: {one.path}")


def _exit(answer: Mapping[str, Any]) -> str:
    """The exit code, and the last that was said where it is not 0."""
    return " ".join(map(str, [answer.get("exit"), *answer.get("stderr", ())[-1:]]))


def _in_json(path: str, old: Any, new: Any) -> Iterator[Difference]:
    if isinstance(old, dict) and GONE in old and isinstance(new, dict | list):
        yield from _in_shrunk(path, old, new)
    elif isinstance(old, dict) and isinstance(new, dict):
        yield from _in_dict(path, old, new)
    elif isinstance(old, list) and isinstance(new, list):
        if len(old) != len(new):
            yield Difference(f"{path} (length)", len(old), len(new))
        for row, (one, other) in enumerate(zip(old, new, strict=False)):
            yield from _in_json(f"{path}[{row}]", one, other)
    elif isinstance(old, str) and isinstance(new, str) and " " in old and " " in new:
        if old != new:
            yield Difference(path, old, new, words=numbers_in(old) == numbers_in(new))
    elif repr(old) != repr(new):  # 1 is not 1.0 here, and NaN is NaN
        yield Difference(path, old, new)


def _in_shrunk(path: str, old: dict[str, Any], new: Any) -> Iterator[Difference]:
    """A table of which the ends and a digest were kept."""
    ends = old["ends"]
    if isinstance(ends, dict) and isinstance(new, dict):
        for key, one in ends.items():
            yield from _in_json(f"{path}/{key}", one, new.get(key, _ABSENT))
    elif isinstance(ends, list) and isinstance(new, list) and new:
        yield from _in_json(f"{path}[0]", ends[0], new[0])
        yield from _in_json(f"{path}[-1]", ends[1], new[-1])
    yield from _in_digest(path, old, digest_of(new))


def _in_digest(path: str, old: dict[str, Any], new: dict[str, Any]) -> Iterator[Difference]:
    kept = {key: one for key, one in old.items() if key != "ends"}
    if kept != new:
        yield Difference(f"{path} (digest; a whole recording shows where)", kept, new)


def _in_dict(path: str, old: dict[str, Any], new: dict[str, Any]) -> Iterator[Difference]:
    shared = [key for key in old if key in new]
    for key in [*old, *(key for key in new if key not in old)]:
        if key in old and key in new:
            yield from _in_json(f"{path}/{key}", old[key], new[key])
        else:
            yield Difference(f"{path}/{key}", old.get(key, _ABSENT), new.get(key, _ABSENT))
    now = [key for key in new if key in old]
    if shared != now:
        yield Difference(f"{path} (order of keys)", shared, now)


def _in_data(path: str, old: Any, new: str) -> Iterator[Difference]:
    """Lines that count letter by letter; the first that differs is told."""
    if isinstance(old, dict):
        yield from _in_digest(path, old, digest_of_lines(new))
    elif old != new:
        yield _first_difference(path, old.splitlines(), new.splitlines())


def _in_text(path: str, old: Any, new: str) -> Iterator[Difference]:
    """A text for people, of which the numbers count."""
    if isinstance(old, dict):
        yield from _in_digest(path, old, digest_of_numbers(new))
    elif numbers_in(old) != numbers_in(new):
        yield _first_difference(f"{path}, number", numbers_in(old), numbers_in(new))
    elif old != new:
        found = _first_difference(f"{path}, line", old.splitlines(), new.splitlines())
        yield found._replace(words=True)


def _first_difference(path: str, old: list[str], new: list[str]) -> Difference:
    length = max(len(old), len(new))
    pairs = ((list_ + [_ABSENT] * length)[:length] for list_ in (old, new))
    for row, (one, other) in enumerate(zip(*pairs, strict=True), 1):
        if one != other:
            return Difference(f"{path} {row}", one, other)
    return Difference(f"{path} (ends of lines)", "", "")


def _cut(text: str, start: int) -> str:
    before, after = GONE if start else "", GONE if len(text) > start + _LONGEST else ""
    return f"{before}{text[start : start + _LONGEST]}{after}"
