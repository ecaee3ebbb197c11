"""Settings, each declared once: options with their facts, config keys and JSON schemas.

    Setting → option of a command (declare), key of a config file (object_schema)
    dataclass of annotated fields → settings_of → schema; fill builds it from a config's data

Help sections, standard input, completion, stored configurations, `assay runs rerun` and `assay
verify` all ask the parameter itself. Nothing here needs numpy, so that `--help` is quick.
"""

from __future__ import annotations

import dataclasses
import math
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import MISSING, dataclass, is_dataclass
from typing import Any, Final, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import click

from assay.core.on_demand import OnDemand
from assay.errors import AssayError, FormatError

Decorated = TypeVar("Decorated", bound=Callable[..., Any])
Filled = TypeVar("Filled")

# Headings of the options in a command's help, in this order.
SECTIONS: Final = (
    *("Input", "Models", "Systems", "Search", "Measures and conventions", "Statistics"),
    *("Gate", "Machines", "Trust", "Result", "Store"),
)


_FACTS: Final[Mapping[str, Any]] = {
    "section": "Other",
    **dict.fromkeys(("reads", "writes", "folder", "aside"), False),
    **dict.fromkeys(("offers", "allow", "names"), ""),
}


class Facts:
    """Facts about a parameter besides those of click.

    Args:
        section: Heading in the help, one of `SECTIONS`.
        reads: It names a file to read, so that `-` is standard input.
        writes: It names a file or folder to write; a repeated command does without it.
        folder: It names a folder, for completion.
        aside: It says where results go, which is no part of what was run.
        offers: Import path of a function (context) → values, for completion.
        allow: Import path of a function (values, params, consent, place) that refuses what a
            stranger's command may not do; without one, an address needs consent.
        names: Import path of a function (file) → paths and texts that the file names in turn.
    """

    section: str
    reads: bool
    writes: bool
    folder: bool
    aside: bool
    offers: str
    allow: str
    names: str

    def __init__(self, *names: Any, **attributes: Any) -> None:
        for name, default in _FACTS.items():
            setattr(self, name, attributes.pop(name, default))
        super().__init__(*names, **attributes)


class Option(Facts, click.Option):
    """An option with its facts."""


class Argument(Facts, click.Argument):
    """An argument with its facts."""


def option(*names: str, **attributes: Any) -> Callable[[Decorated], Decorated]:
    """Declare an option: the arguments of `click.option`, and those of `Facts`.

    A metavar may follow the flag, as in "--level A"; `choices` are the values that it takes,
    `least` is the smallest whole number, and `shown` a default that the help shows.
    """
    flags, metavars = zip(*(name.partition(" ")[::2] for name in names), strict=True)
    if any(metavars):
        attributes["metavar"] = "".join(metavars)
    if "choices" in attributes:
        attributes["type"] = click.Choice(attributes.pop("choices"))
    if "least" in attributes:
        attributes["type"] = click.IntRange(min=attributes.pop("least"))
    if "shown" in attributes:
        attributes["default"] = attributes.pop("shown")
        attributes["show_default"] = attributes["default"] is not None
    # Anew for each command: click 8.1.0 forgets the class after the first.
    return lambda command: click.option(*flags, cls=Option, **attributes)(command)  # noqa: PLW0108


def argument(*names: str, **attributes: Any) -> Callable[[Decorated], Decorated]:
    """Declare an argument: those of `click.argument`, and those of `Facts`."""
    return lambda command: click.argument(*names, cls=Argument, **attributes)(command)  # noqa: PLW0108


def allow_anything(values: list[str], params: Mapping[str, Any], consent: Any, place: str) -> None:
    """Refuse nothing: another option's check looks at this one, too."""


def facts_of(command: click.Command) -> Iterator[tuple[str, Option | Argument]]:
    """Yield the names and parameters of a command that have facts."""
    for parameter in command.params:
        if isinstance(parameter, Option | Argument) and parameter.name:
            yield parameter.name, parameter


TEXT: Final = {"type": "string", "minLength": 1}
ANY_TEXT: Final = {"type": "string"}
TEXTS: Final = {"type": "array", "items": TEXT}
POSITIVE: Final = {"type": "number", "exclusiveMinimum": 0}
SWITCH: Final = {"type": "boolean"}


def at_least(least: int) -> dict[str, Any]:
    """Return the schema of whole numbers from `least`."""
    return {"type": "integer", "minimum": least}


WHOLE: Final = at_least(1)


def one_of(names: Iterable[str]) -> dict[str, Any]:
    """Return the schema of a choice."""
    return {"type": "string", "enum": list(names)}


@dataclass(frozen=True)
class Setting:
    """A setting: a key of a config file, an option of a command, or both.

    Args:
        name: The key; the option has dashes for underscores.
        help: Text of the help and of the schema.
        value: JSON schema of the value, of which the option has its type, too.
        default: Value where none is given; both texts state it.
        option: What the option has beside, as `option` takes it, its names as `flags` where they
            are others; None for a key without an option.
    """

    name: str
    help: str
    value: Mapping[str, Any] = dataclasses.field(default_factory=lambda: TEXT)
    default: Any = None
    option: Mapping[str, Any] | None = None

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON schema of the key."""
        default = {} if self.default is None else {"default": self.default}
        return {**self.value, "description": self.help, **default}

    def declare(self, **changes: Any) -> Callable[[Decorated], Decorated]:
        """Return the option: its type, help and default come from the declaration.

        Args:
            changes: What this command's option has otherwise, such as `callback` or `default`.
        """
        attributes, value = {"help": self.help, **(self.option or {}), **changes}, self.value
        flags = attributes.pop("flags", (f"--{self.name.replace('_', '-')}",))
        if "enum" in value:
            attributes["type"] = click.Choice(value["enum"])
        elif value["type"] == "integer":
            attributes["type"] = click.IntRange(min=value["minimum"])
        elif value["type"] == "number" and "exclusiveMinimum" in value:
            attributes["type"] = click.FloatRange(min=value["exclusiveMinimum"], min_open=True)
        elif value["type"] == "boolean":
            attributes["default"] = None
        if value["type"] == "array" or attributes.get("multiple"):
            attributes["multiple"] = True
            attributes["help"] += " May be repeated."
        if attributes.get("show_default"):
            attributes.setdefault("default", self.default)
        elif self.default:
            default = self.default
            attributes["help"] += (
                f" [{default if isinstance(default, str) else ', '.join(default)}]"
            )
        return option(*flags, **attributes)


def object_schema(settings: Iterable[Setting], *required: str, **more: Any) -> dict[str, Any]:
    """Return the schema of a table whose keys are these settings."""
    return {
        **more,
        "type": "object",
        "additionalProperties": False,
        "required": list(required),
        "properties": {setting.name: setting.schema for setting in settings},
    }


@dataclass(frozen=True)
class About:
    """Describe a field of a settings dataclass: `scenes: Annotated[int, About(...)] = 10`.

    A help text alone may stand for it: `tau: Annotated[float, "Tolerance."] = 3.0`.

    Args:
        help: Text of the help and of the schema.
        limits: What narrows the schema of the type hint, such as `{"minimum": 1}`.
        option: As in `Setting`.
    """

    help: str
    limits: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    option: Mapping[str, Any] | None = None


def settings_of(kind: Any) -> dict[str, Setting]:
    """Return the settings that a dataclass declares, by name."""
    hints = get_type_hints(kind, include_extras=True)
    settings = {}
    for item in dataclasses.fields(kind):
        hint, about = get_args(hints[item.name])
        about = about if isinstance(about, About) else About(about)
        default = None if item.default in (MISSING, math.inf) else item.default
        default = list(default) if isinstance(default, tuple) else default
        value = {**_schema_of(hint), **about.limits}
        settings[item.name] = Setting(item.name, about.help, value, default, about.option)
    return settings


def dataclass_schema(kind: Any, **more: Any) -> dict[str, Any]:
    """Return the schema of a dataclass of settings; those without a default are required."""
    required = [
        item.name
        for item in dataclasses.fields(kind)
        if item.default is MISSING and item.default_factory is MISSING
    ]
    return object_schema(settings_of(kind).values(), *required, **more)


_PLAIN: Final = {int: "integer", float: "number", str: "string", bool: "boolean"}


def _schema_of(hint: Any) -> dict[str, Any]:
    """Return the schema of a type hint; what may be None has the default None."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        kinds = [kind for kind in inner if kind is not type(None)]
        value = _schema_of(kinds[0]) if len(kinds) == 1 else {}
        return {**value, "default": None}
    if origin is Literal:
        return one_of(inner)
    if origin is tuple:
        return {"type": "array", "items": _schema_of(inner[0])}
    if is_dataclass(hint):
        return dataclass_schema(hint)
    return {"type": _PLAIN.get(hint, "object")}


def fill(kind: type[Filled], data: Any, place: str) -> Filled:
    """Build a dataclass of settings from the data of a config file, checked.

    A single element stands for a list; true switches an optional table on, false and null off.

    Args:
        kind: The dataclass.
        data: Plain data.
        place: Where it stands, for messages.

    Raises:
        FormatError: If a key is unknown or missing, or a value does not fit.
    """
    schema = dataclass_schema(kind)
    plain = _write_out(data, schema)
    OnDemand("assay.io.plain_data").check_against(plain, schema, place)
    result: Filled = _build(kind, plain, place)
    return result


def _write_out(data: Any, schema: Mapping[str, Any]) -> Any:
    """Return the data without shorthand."""
    if schema.get("type") == "array":
        items = data if isinstance(data, list) else [data]
        return [_write_out(item, schema["items"]) for item in items]
    if not isinstance(data, Mapping) or "properties" not in schema:
        return data
    plain = {}
    for key, value in data.items():
        inner = schema["properties"].get(key, {})
        optional, table = inner.get("default", "") is None, "properties" in inner
        if optional and (value is None or (table and value is False)):
            continue
        plain[key] = _write_out({} if optional and table and value is True else value, inner)
    return plain


def _build(hint: Any, value: Any, place: str) -> Any:
    """Convert checked data to the type of a hint."""
    if get_origin(hint) in (Union, types.UnionType):
        inner = [kind for kind in get_args(hint) if kind is not type(None)]
        return _build(inner[0], value, place) if len(inner) == 1 else value
    if get_origin(hint) is tuple:
        kind = get_args(hint)[0]
        return tuple(_build(kind, item, f"{place}, number {i}") for i, item in enumerate(value, 1))
    if not hasattr(hint, "__dataclass_fields__"):
        return float(value) if hint is float else value
    hints = get_type_hints(hint)
    values = {key: _build(hints[key], item, f"{place}: {key}") for key, item in value.items()}
    try:
        return hint(**values)
    except FormatError:
        raise
    except AssayError as error:
        raise FormatError(f"{place}: {error}") from None
