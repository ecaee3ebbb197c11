"""Plain data from TOML and YAML that a person wrote, small and of no great depth."""

from __future__ import annotations

import tomllib
from datetime import date, datetime, time
from typing import Any, ClassVar, Final

from assay.errors import FormatError, need
from assay.io.streams import FilePath, read_text

__all__ = ["parse_toml", "parse_yaml", "read_config_text"]

_LONGEST: Final = 1 << 20
_DEEPEST: Final = 64
_DEEP: Final = "is nested too deeply to be a configuration"


def read_config_text(path: FilePath) -> str:
    """The text of a configuration file, which no person writes longer than 1 MiB."""
    text = read_text(path)
    if len(text) > _LONGEST:
        raise FormatError(f"{path}: a configuration is at most 1 MiB long. Is it the right file?")
    return text


def parse_toml(text: str, name: str) -> Any:
    """Data from TOML text; `name` is for messages.

    >>> parse_toml("k = 3", "x.toml")
    {'k': 3}
    """
    try:
        data = tomllib.loads(text)
    except RecursionError:
        raise FormatError(f"{name} {_DEEP}.") from None
    except ValueError as error:  # of TOML itself, of a number of 5,000 digits, of a date
        raise FormatError(f"{name}: not TOML: {str(error)[:200]}.") from None
    return _checked(data, name)


def parse_yaml(text: str, name: str, *, dates: bool = True) -> Any:
    """Data from YAML text: no tags, no repeated keys, no references that could grow.

    Dates are refused, as they may be meant as text; without `dates` they are text.
    """
    yaml = need("yaml", "a file in YAML", "yaml")

    class Loader(yaml.SafeLoader):  # type: ignore[misc, name-defined]
        yaml_implicit_resolvers: ClassVar = {
            first: [one for one in rules if dates or not one[0].endswith(":timestamp")]
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
    """The data, where it is of bounded depth and every whole number fits 64 bits."""
    level = [data]
    for _ in range(_DEEPEST):
        for value in level:
            _check_scalar(value, name)
        inner = [list(one.values()) if isinstance(one, dict) else one for one in level]
        keys = [key for one in level if isinstance(one, dict) for key in one]
        level = [one for many in inner if isinstance(many, list) for one in many] + keys
        if not level:
            return data
    raise FormatError(f"{name} {_DEEP}.")


def _check_scalar(value: Any, name: str) -> None:
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise FormatError(f"{name}: a whole number of {value.bit_length()} bits is too large.")
    if isinstance(value, datetime | date | time):
        raise FormatError(f"{name}: {value} is a date; write it in quotes where text is meant.")
    if isinstance(value, str) and "\0" in value:
        raise FormatError(f"{name}: {value[:60]!r} holds NUL, which no path or name can.")
