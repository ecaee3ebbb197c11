"""Plain data as text: JSON, TOML and YAML, and checks of it against a JSON schema.

Of schemas, the few keywords are known that our own use. TOML and YAML are what a person wrote,
small and of no great depth. YAML is written in the little of it that 1.1 and 1.2 read alike.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from datetime import date, datetime, time
from typing import Any, ClassVar, Final

from assay.core.text import did_you_mean
from assay.errors import FormatError, UsageError, need
from assay.io.streams import FilePath, read_text


def parse_json(text: str, place: str, *, constants: bool = False) -> Any:
    """Parse JSON text; `place` says where it stands, for messages.

    With `constants` NaN and Infinity, which Python's json writes and JSON does not have, are read.

    >>> parse_json('{"a": 1}', "here")
    {'a': 1}
    """
    try:
        return (_LENIENT if constants else _DECODER).decode(text)
    except RecursionError:
        raise FormatError(f"{place}: the JSON is nested too deeply. Flatten it.") from None
    except json.JSONDecodeError as error:
        line = f", line {error.lineno}" if "\n" in text.rstrip("\n") else ""
        raise FormatError(
            f"{place}{line}, column {error.colno}: not JSON: {error.msg}. Check that the file "
            "is complete."
        ) from None
    except ValueError as error:
        raise FormatError(f"{place}: {error}") from None


def _refuse_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    entries = dict(pairs)
    if len(entries) < len(pairs):
        seen: set[str] = set()
        key = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise ValueError(f"the key {key!r} appears twice in one JSON object. Keep one of the two.")
    return entries


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not valid JSON. Remove or replace it.")


def _finite(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise ValueError(f"{text[:40]} exceeds the range of a float. Write a smaller number.")
    return value


_DECODER = json.JSONDecoder(
    object_pairs_hook=_refuse_duplicates, parse_constant=_refuse_constant, parse_float=_finite
)
_LENIENT = json.JSONDecoder(object_pairs_hook=_refuse_duplicates)


_TYPES: Final[dict[str, tuple[type, ...]]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
}
_WORDS: Final = {"array": "a list", "object": "a table", "integer": "a whole number"}


def check_against(data: Any, schema: Mapping[str, Any], where: str) -> None:
    """Refuse data that does not fit, saying where and what was expected.

    >>> check_against({"k": 3}, {"type": "object", "properties": {"k": {"type": "integer"}}}, "x")
    """
    kind = schema.get("type")
    fits = kind is None or isinstance(data, _TYPES[kind])
    if not fits or (isinstance(data, bool) and kind not in (None, "boolean")):
        expected = _WORDS.get(str(kind), f"a {kind}")
        raise FormatError(f"{where}: expected {expected}, found {data!r:.60}.")
    if "enum" in schema and data not in schema["enum"]:
        raise FormatError(
            f"{where}: {data!r:.60} is not one of {', '.join(schema['enum'])}."
            f"{did_you_mean(data, schema['enum'])}"
        )
    _check_size(data, schema, where)
    if isinstance(data, dict):
        _check_table(data, schema, where)
    if isinstance(data, list) and "items" in schema:
        for number, item in enumerate(data, 1):
            check_against(item, schema["items"], f"{where}, number {number}")


def _check_size(data: Any, schema: Mapping[str, Any], where: str) -> None:
    if "minimum" in schema and data < schema["minimum"]:
        raise FormatError(f"{where}: {data} must be at least {schema['minimum']}.")
    if "exclusiveMinimum" in schema and not data > schema["exclusiveMinimum"]:
        raise FormatError(f"{where}: {data} must be above {schema['exclusiveMinimum']}.")
    for key in ("minLength", "minItems"):
        if key in schema and len(data) < schema[key]:
            few = "empty" if not data else f"{len(data)} long"
            raise FormatError(f"{where}: it is {few}. Its length must be at least {schema[key]}.")


def _check_table(data: dict[str, Any], schema: Mapping[str, Any], where: str) -> None:
    properties = schema.get("properties", {})
    for key, value in data.items():
        if key in properties:
            check_against(value, properties[key], f"{where}: {key}")
        elif schema.get("additionalProperties", True) is False:
            raise FormatError(
                f"{where}: unknown key {key!r}.{did_you_mean(key, properties)} "
                f"Keys: {', '.join(properties)}."
            )
    absent = [key for key in schema.get("required", ()) if key not in data]
    if absent:
        raise FormatError(f"{where}: the key {absent[0]!r} is missing. Add it.")


# TOML and YAML


_LONGEST: Final = 1 << 20
_DEEPEST: Final = 64
_DEEP: Final = "is nested too deeply. Flatten it"


def read_config_text(path: FilePath) -> str:
    """Return the text of a configuration file, which no person writes longer than 1 MiB."""
    text = read_text(path)
    if len(text) > _LONGEST:
        raise FormatError(f"{path} exceeds 1 MiB, the limit of a configuration. Check its name.")
    return text


def parse_toml(text: str, name: str) -> Any:
    """Parse TOML text; `name` is for messages.

    >>> parse_toml("k = 3", "x.toml")
    {'k': 3}
    """
    import tomllib  # few files are TOML

    try:
        data = tomllib.loads(text)
    except RecursionError:
        raise FormatError(f"{name} {_DEEP}.") from None
    except ValueError as error:  # of TOML itself, of a number of 5,000 digits, of a date
        raise FormatError(f"{name}: not TOML: {str(error)[:200]}.") from None
    return _checked(data, name)


def parse_yaml(text: str, name: str, *, dates: bool = True) -> Any:
    """Parse YAML text: no tags, no repeated keys, no references that could grow.

    Dates are refused, as they may be meant as text; without `dates` they are text.
    """
    yaml = need("yaml", "a file in YAML", "yaml")

    class Loader(yaml.SafeLoader):  # type: ignore[misc, name-defined]
        yaml_implicit_resolvers: ClassVar = {
            first: [rule for rule in rules if dates or not rule[0].endswith(":timestamp")]
            for first, rules in yaml.SafeLoader.yaml_implicit_resolvers.items()
        }

        def compose_node(self, parent: Any, index: Any) -> Any:
            if self.check_event(yaml.events.AliasEvent):
                raise self.refuse(self.peek_event(), "write the value out, without *")
            return super().compose_node(parent, index)

        def construct_mapping(self, node: Any, deep: bool = False) -> Any:
            seen: set[str] = set()
            for key, _ in node.value:
                if not isinstance(key, yaml.ScalarNode):
                    raise self.refuse(key, "a key is a word, not a list or a table")
                if key.value in seen:
                    raise self.refuse(key, f"the key {key.value[:60]!r} appears twice")
                seen.add(key.value)
            return super().construct_mapping(node, deep)

        def construct_object(self, node: Any, deep: bool = False) -> Any:
            try:
                return super().construct_object(node, deep)
            except (ValueError, TypeError, OverflowError) as error:  # a date, a long number
                raise self.refuse(node, str(error)[:120]) from None

        def refuse(self, node: Any, why: str) -> FormatError:
            return FormatError(f"{name}, line {node.start_mark.line + 1}: {why}.")

    try:
        return _checked(yaml.load(text, Loader), name)
    except FormatError:
        raise
    except RecursionError:
        raise FormatError(f"{name} {_DEEP}.") from None
    except (yaml.YAMLError, ValueError) as error:
        words = " ".join(str(error).split())[:300]
        raise FormatError(f"{name} is not YAML: {words}.") from None


def _checked(data: Any, name: str) -> Any:
    """Return the data, where it is of bounded depth and every whole number fits 64 bits."""
    level = [data]
    for _ in range(_DEEPEST):
        for value in level:
            _check_scalar(value, name)
        inner = [list(item.values()) if isinstance(item, dict) else item for item in level]
        keys = [key for item in level if isinstance(item, dict) for key in item]
        level = [item for many in inner if isinstance(many, list) for item in many] + keys
        if not level:
            return data
    raise FormatError(f"{name} {_DEEP}.")


def _check_scalar(value: Any, name: str) -> None:
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise FormatError(f"{name}: a whole number has {value.bit_length()} bits. Use 64 at most.")
    if isinstance(value, datetime | date | time):
        raise FormatError(f"{name}: {value} is a date. Write text in quotes.")
    if isinstance(value, str) and re.search("[\0\ud800-\udfff]", value):
        raise FormatError(f"{name}: {value[:60]!a} holds NUL or half a character. Remove it.")


_PLAIN: Final = re.compile(r"[A-Za-z_](?:[A-Za-z0-9_./@+() -]*[A-Za-z0-9_)+])?")
# Words that some version of YAML takes for something else than text.
_TAKEN: Final = frozenset(
    ["true", "false", "yes", "no", "on", "off", "y", "n", "null", "nan", "inf"]
)
_NOT_IN_YAML: Final = re.compile("[\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]")


def to_yaml(data: Any) -> str:
    """Return YAML of dictionaries, lists and scalars, a line for each entry.

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
            if isinstance(inner, Mapping | list | tuple) and inner:
                yield f"{_text(str(key))}:"
                yield from (f"  {line}" for line in _lines(inner))
            else:
                yield f"{_text(str(key))}: {_scalar(inner)}"
    elif isinstance(value, list | tuple) and value:
        for inner in value:
            first, *rest = _lines(inner)
            yield f"- {first}"
            yield from (f"  {line}" for line in rest)
    else:
        yield _scalar(value)


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
    """Write a number with a point: 1e-05 is a text in YAML 1.1."""
    if not math.isfinite(value):
        return ".nan" if math.isnan(value) else ".inf" if value > 0 else "-.inf"
    digits, e, power = repr(value).partition("e")
    return f"{digits}{'' if '.' in digits else '.0'}{e}{power}"


def _text(text: str) -> str:
    """Return the words as they are where nobody can misread them, else as in JSON."""
    if _PLAIN.fullmatch(text) and text.lower() not in _TAKEN and "  " not in text:
        return text
    quoted = json.dumps(text, ensure_ascii=False)
    return _NOT_IN_YAML.sub(lambda match: f"\\u{ord(match.group()):04x}", quoted)
