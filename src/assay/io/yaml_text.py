"""Plain data as YAML text, in the little of YAML that its versions 1.1 and 1.2 read alike."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from assay.errors import UsageError

__all__ = ["to_yaml"]

_PLAIN: Final = re.compile(r"[A-Za-z_](?:[A-Za-z0-9_./@+() -]*[A-Za-z0-9_)+])?")
# Words that some version of YAML takes for something else than text.
_TAKEN: Final = frozenset(
    ["true", "false", "yes", "no", "on", "off", "y", "n", "null", "nan", "inf"]
)
_NOT_IN_YAML: Final = re.compile("[\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]")


def to_yaml(data: Any) -> str:
    """YAML of dictionaries, lists, texts, numbers, booleans and None, a line for each entry.

    >>> print(to_yaml({"tag": "bm25", "k": [1, 0.5], "text": "a: b"}), end="")
    tag: bm25
    k:
      - 1
      - 0.5
    text: "a: b"
    """
    return "".join(f"{line}\n" for line in _lines(data))


def _lines(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping) and value:
        for key, inner in value.items():
            yield from _entry(f"{_text(str(key))}:", inner)
    elif isinstance(value, list | tuple) and value:
        for inner in value:
            first, *rest = _lines(inner)
            yield f"- {first}"
            yield from (f"  {line}" for line in rest)
    else:
        yield _scalar(value)


def _entry(key: str, value: Any) -> Iterator[str]:
    if isinstance(value, Mapping | list | tuple) and value:
        yield key
        yield from (f"  {line}" for line in _lines(value))
    else:
        yield f"{key} {_scalar(value)}"


def _scalar(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return _number(value)
    if isinstance(value, Mapping | list | tuple):
        return "{}" if isinstance(value, Mapping) else "[]"
    raise UsageError(f"YAML here holds texts, numbers, lists and dictionaries, not {value!r:.60}.")


def _number(value: float) -> str:
    """With a point: without one, 1e-05 is a text in YAML 1.1."""
    if not math.isfinite(value):
        return ".nan" if math.isnan(value) else ".inf" if value > 0 else "-.inf"
    digits, e, power = repr(value).partition("e")
    return f"{digits}{'' if '.' in digits else '.0'}{e}{power}"


def _text(text: str) -> str:
    """The words as they are where nobody can misread them, else as in JSON."""
    if _PLAIN.fullmatch(text) and text.lower() not in _TAKEN and "  " not in text:
        return text
    quoted = json.dumps(text, ensure_ascii=False)
    return _NOT_IN_YAML.sub(lambda found: f"\\u{ord(found.group()):04x}", quoted)
