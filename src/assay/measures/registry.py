"""Measures as values, and the registry that knows how to compute each of them.

A `Measure` is a name with parameters and a cutoff, such as `nDCG@10` or `AP(rel=2)@100`. The same
string is command-line argument, column header and JSON key. A `Definition` is what the registry
holds: the function, its parameters, its range, its laws. `@measure(...)` adds one.

`ranked` and `sets` are imported with this package. Any other file of this folder that registers a
measure, and modules of other packages (entry points of the group `assay.measures`, see
`assay.plugins`), are imported when a name is not known yet, or when all names are listed.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from assay.arrays import Floats, exp2
from assay.errors import MeasureError, PluginError
from assay.plugins import MEASURES, builtin_plugins, load_extensions, load_target

if TYPE_CHECKING:
    from assay.measures.derivations import Derivation
    from assay.measures.views import TieView


_CUTOFFS: Final = ("none", "optional", "required", "level", "R")
_LARGEST_CUTOFF: Final = 10**15  # exact as int64 and as float64

Value = bool | int | float | str | tuple[Any, ...]

LAWS: Final[frozenset[str]] = frozenset(
    {
        "monotone",  # moving a relevant document up never lowers it
        "local",  # @k ignores what is below k
        "perfect",  # a perfect order reaches the ceiling
        "order-free",  # depends on what was retrieved, not on the order
        "size-only",  # depends on how much was retrieved, not on what
        "holes",  # says what was not judged: one more judgment never raises it, more is not better
        "single-RR",  # with one relevant document it equals RR
        "single-Success",  # with one relevant document it equals Success
    }
)


class ExpectationError(MeasureError):
    """An exact expectation over tied documents that is not known, or would take too long."""


@dataclass(frozen=True)
class Param:
    """One parameter of a measure: its default, and which values it takes.

    `convention` names the field of `Conventions` that supplies the value where the measure's
    own string says nothing. `kind` is "number", "flag", "choice", "levels" or "gains".
    """

    default: Value | None
    kind: str
    about: str
    choices: tuple[str, ...] = ()
    low: float = -math.inf
    high: float = math.inf
    convention: str | None = None

    def check(self, owner: str, key: str, value: Value) -> Value:
        """Return the value if this parameter takes it; the error says what it takes."""
        if isinstance(value, np.generic):
            value = value.item()
        if self.kind == "flag" and isinstance(value, bool):
            return value
        if self.kind == "choice" and value in self.choices:
            return value
        if self.kind == "number" and _is_number(value) and self.low <= value <= self.high:  # type: ignore[operator]
            return value
        if self.kind == "levels" and _all_numbers(value, 1, 0.0, 1.0):
            return value if isinstance(value, tuple) else (value,)
        if self.kind == "gains" and _all_numbers(value, 2, 0.0, math.inf):
            grades: Any = value
            if len(dict(grades)) == len(grades):  # no grade is given two gains
                return value
        raise MeasureError(f"{owner}({key}={format_value(value)}): {key} must be {self.takes()}.")

    def takes(self) -> str:
        """Describe what this parameter takes."""
        if self.kind in _TAKES:
            return _TAKES[self.kind]
        if self.kind == "choice":
            return "one of " + ", ".join(self.choices)
        return f"a number from {format_value(self.low)} to {format_value(self.high)}"


_TAKES: Final = {
    "flag": "true or false",
    "levels": "recall levels from 0 to 1 joined by '/', e.g. 0.25/0.5/0.75",
    "gains": "grade:gain pairs joined by '/', each grade once, gains ≥ 0, e.g. 1:3/2:9",
}


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _all_numbers(value: Value, width: int, low: float, high: float) -> bool:
    """Tell whether all are numbers in range, or (width 2) pairs whose second number is in range."""
    items = value if isinstance(value, tuple) else (value,)
    rows = [item if isinstance(item, tuple) else (item,) for item in items]
    return bool(rows) and all(
        len(row) == width and all(map(_is_number, row)) and low <= row[-1] <= high for row in rows
    )


def format_value(value: Value) -> str:
    """Return a parameter value as it is written: `true`, `2`, `0.5`, `exp`, `0.25/0.5`, `1:3/2:9`.

    >>> format_value(((1, 3.0), (4, 4.5)))
    '1:3/4:4.5'
    """
    if isinstance(value, tuple):
        rows = [item if isinstance(item, tuple) else (item,) for item in value]
        return "/".join(":".join(map(format_value, row)) for row in rows)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


@dataclass(frozen=True)
class Measure:
    """A measure with its parameters and cutoff; `parse(str(m)) == m`.

    `cutoff` is a rank, a recall level (iprec), the letter R (MAP@R) or None.

    >>> str(Measure("AP", (("rel", 2),), 100))
    'AP(rel=2)@100'
    """

    name: str
    params: tuple[tuple[str, Value], ...] = ()
    cutoff: int | float | str | None = None

    @cached_property
    def _text(self) -> str:
        inside = ",".join(f"{key}={format_value(value)}" for key, value in self.params)
        cut = "" if self.cutoff is None else f"@{format_value(self.cutoff)}"
        return self.name + (f"({inside})" if inside else "") + cut

    def __str__(self) -> str:
        """Return the canonical name."""
        return self._text

    def __repr__(self) -> str:
        """Return the canonical name, so that tables and lists of measures read well."""
        return str(self)

    @property
    def bounds(self) -> tuple[float, float] | None:
        """The least and the largest value of a query; None where there is no largest."""
        high = self.definition.high
        return None if high is None else (0.0, high)

    def __matmul__(self, cutoff: float) -> Measure:
        """Return the measure with another cutoff: `AP @ 10`."""
        return self.definition.build(dict(self.params), cutoff)

    def __call__(self, **params: Value) -> Measure:
        """Return the measure with more parameters: `nDCG(gain="exp")`."""
        return self.definition.build({**dict(self.params), **params}, self.cutoff)

    @property
    def definition(self) -> Definition:
        """The registered definition of this measure."""
        return find_definition(self.name)

    @property
    def is_quality(self) -> bool:
        """Whether more is better; it is not where a measure says what nobody judged."""
        return "holes" not in self.definition.laws

    @property
    def is_order_free(self) -> bool:
        """Whether only what was retrieved counts, whatever its order."""
        return "order-free" in self.definition.laws and self.cutoff is None


@dataclass(frozen=True)
class Definition:
    """How a measure is computed and what is known about it."""

    name: str
    function: Callable[..., Floats]
    gain: str  # how a grade becomes a gain; see assay.measures.registry
    cutoff: str  # none, optional, required, level, R
    params: Mapping[str, Param]
    laws: frozenset[str]
    expected: Callable[..., Floats] | None  # closed form over tie groups; None: function is linear
    extremes: (
        Callable[..., tuple[Floats, Floats] | None] | None
    )  # where best is not "relevant first"
    high: float | None  # largest value it can take; None: no limit
    aggregate: str  # mean, sum, geometric
    aliases: tuple[str, ...]
    trec: str | None  # trec_eval's name, with {k}, {level} or {params}
    formula: str
    defined: str = field(default="relevant")  # relevant: needs R > 0; retrieved; always
    derivation: Callable[..., Derivation | None] | None = (
        None  # how explain works it out; None: generally
    )
    tied_derivation: Callable[..., Derivation | None] | None = None  # the same over tied orders

    def __hash__(self) -> int:
        """Hash name, parameters and cutoff."""
        return hash((self.name, self.function))

    @property
    def built_in(self) -> bool:
        """Whether the measure is Assay's own, not that of another package."""
        return self.function.__module__.partition(".")[0] == __name__.partition(".")[0]

    @property
    def summary(self) -> str:
        """First line of the docstring."""
        return (self.function.__doc__ or "").strip().splitlines()[0]

    def expectation(self, at: TieView, **arguments: Any) -> Floats:
        """Return the exact mean over all orders of tied documents, one number per query."""
        if self.expected is not None:
            return self.expected(at, **arguments)
        try:
            return self.function(at, **arguments)
        except AttributeError as error:  # it needs more than tie groups can tell
            raise ExpectationError(
                f"{self.name} has no expectation over tied documents: its function is not linear "
                f"in ranks ({error}). Register it with expected=."
            ) from error

    def build(self, params: Mapping[str, Value], cutoff: float | str | None) -> Measure:
        """Return a `Measure` of this definition, with every parameter checked."""
        checked = []
        for key in sorted(params):
            if key not in self.params:
                names = ", ".join(sorted(self.params)) or "none"
                raise MeasureError(f"{self.name} has no parameter {key!r}. It takes: {names}.")
            value = self.params[key].check(self.name, key, params[key])
            if value != self.params[key].default or self.params[key].convention:
                checked.append((key, value))
        return Measure(self.name, tuple(checked), self._check_cutoff(cutoff))

    def _check_cutoff(self, cutoff: float | str | None) -> float | str | None:
        if self.cutoff == "R":
            return "R"
        if cutoff is None:
            if self.cutoff in ("required", "level"):
                example = f"{self.name}@{'0.1' if self.cutoff == 'level' else '10'}"
                raise MeasureError(f"{self.name} needs a cutoff, e.g. {example}.")
            return None
        if self.cutoff == "none":
            raise MeasureError(f"{self.name} takes no cutoff. Omit @{cutoff}.")
        if self.cutoff == "level":
            if not _is_number(cutoff) or not 0 <= float(cutoff) <= 1:
                raise MeasureError(f"{self.name}@{cutoff}: the recall level must be from 0 to 1.")
            return cutoff
        if isinstance(cutoff, np.integer):
            cutoff = int(cutoff)
        whole = isinstance(cutoff, int) and not isinstance(cutoff, bool)
        if not whole or not 1 <= cutoff <= _LARGEST_CUTOFF:  # type: ignore[operator]
            raise MeasureError(
                f"{self.name}@{cutoff}: the cutoff k must be a whole number from 1 to 10^15. "
                f"Write for instance {self.name}@10."
            )
        return cutoff


REGISTRY: Final[dict[str, Definition]] = {}


def find_definition(name: str) -> Definition:
    """Return the definition of a canonical name, of Assay or of another installed package."""
    if name not in REGISTRY:
        failures = load_measures()
        if name not in REGISTRY:
            raise MeasureError(f"Unknown measure {name!r}." + "".join(f" {e}" for e in failures))
    return REGISTRY[name]


def load_measures() -> tuple[PluginError, ...]:
    """Register the measures of every file of this folder, of rooms and of other packages.

    Returns:
        The errors of packages that fail.
    """
    for file in sorted(os.listdir(os.path.dirname(__file__))):
        module, ending = os.path.splitext(file)
        if ending == ".py" and module != "__init__":
            import_module(f"{__package__}.{module}")
    for target in filter(None, (room.measures for room in builtin_plugins()[0])):
        load_target(target)()
    return load_extensions(MEASURES)


def spellings(name: str, aliases: tuple[str, ...]) -> set[str]:
    """Return the names of a measure as the parser compares them; MAP alone is another name of AP.

    >>> sorted(spellings("Rprec", ("R-Precision",)))
    ['r_precision', 'rprec']
    """
    names = aliases if name == "MAP" else (name, *aliases)
    return {alias.lower().replace("-", "_") for alias in names}


def _refuse_known_names(name: str, aliases: tuple[str, ...], module: str) -> None:
    """Refuse a name that another measure has: `map` or `P` must not change their meaning.

    Only the module that registered a measure may do so again, as a notebook does.
    """
    mine = spellings(name, aliases)
    for definition in REGISTRY.values():
        if definition.name == name and definition.function.__module__ == module:
            continue
        both = ", ".join(sorted(mine & spellings(definition.name, definition.aliases)))
        if both or definition.name == name:
            raise MeasureError(
                f"The measure {name} of {module} takes the name {both or name}, which belongs to "
                f"{definition.name} of {definition.function.__module__}. Give it another."
            )


REL = Param(1, "number", "smallest grade that counts as relevant")


def measure(
    name: str,
    *,
    formula: str,
    laws: set[str],
    gain: str = "relevant",
    cutoff: str = "optional",
    params: Mapping[str, Param] | None = None,
    expected: Callable[..., Floats] | None = None,
    extremes: Callable[..., tuple[Floats, Floats] | None] | None = None,
    high: float | None = 1.0,
    aggregate: str = "mean",
    aliases: tuple[str, ...] = (),
    trec: str | None = None,
    defined: str = "relevant",
    derivation: Callable[..., Derivation | None] | None = None,
    tied_derivation: Callable[..., Derivation | None] | None = None,
) -> Callable[[Callable[..., Floats]], Callable[..., Floats]]:
    """Register the decorated function as the measure `name`; CONTRIBUTING.md has an example."""
    if not laws or not laws <= LAWS:
        raise MeasureError(f"{name} declares laws {sorted(laws)}; known laws: {sorted(LAWS)}.")
    for key, value, choices in (("gain", gain, GAINS), ("cutoff", cutoff, _CUTOFFS)):
        if value not in choices:
            raise MeasureError(f"{name} declares {key}={value!r}; known: {', '.join(choices)}.")
    rel = {} if gain in ("graded", "stop", "judged") else {"rel": REL}

    def register(function: Callable[..., Floats]) -> Callable[..., Floats]:
        _refuse_known_names(name, aliases, function.__module__)
        REGISTRY[name] = Definition(
            name=name,
            function=function,
            gain=gain,
            cutoff=cutoff,
            params={**rel, **(params or {})},
            laws=frozenset(laws),
            expected=expected,
            extremes=extremes,
            high=high,
            aggregate=aggregate,
            aliases=aliases,
            trec=trec,
            formula=formula,
            defined=defined,
            derivation=derivation,
            tied_derivation=tied_derivation,
        )
        return function

    return register


_LARGEST_GAIN = 1e290  # so that no sum of gains reaches infinity

GAINS = ("relevant", "graded", "relevant or graded", "preference", "judged", "stop")
GAIN_PARAMS = ("rel", "gain", "gains", "gmax", "graded")


@cache
def gain_function(kind: str, **params: Any) -> Callable[[Floats], Floats]:
    """Return the function from grades to gains; a negative grade is in the pool but has no gain.

    The same kind and parameters give the same function, so that views can be shared.
    """
    if kind == "relevant or graded":
        kind = "graded" if params.get("graded", False) else "relevant"
    if kind == "relevant":
        return lambda grade: (grade >= max(params["rel"], 0)).astype(np.float64)
    if kind == "preference":
        return lambda grade: np.where(
            grade >= max(params["rel"], 0), 1.0, np.where(grade >= 0, -1.0, 0.0)
        )
    if kind == "judged":
        return lambda grade: (grade >= 0).astype(np.float64)
    if kind == "graded":
        return lambda grade: _graded(grade, params.get("gain", "linear"), params.get("gains", ()))
    return lambda grade: _chance_to_stop(grade, params.get("gmax", 4))


def _graded(grade: Floats, scale: str, gains: tuple[tuple[float, float], ...]) -> Floats:
    gain = np.maximum(grade, 0.0)
    if scale != "linear":
        with np.errstate(over="ignore"):
            gain = exp2(gain) - 1.0
    for level, value in gains:
        gain = np.where(grade == level, value, gain)
    if gain.max(initial=0.0) > _LARGEST_GAIN:
        raise MeasureError(
            f"A grade of {grade.max():g} is too large for gain={scale}: sums of gains would "
            "overflow. Use smaller grades, or give gains of your own."
        )
    return gain


def _chance_to_stop(grade: Floats, gmax: float) -> Floats:
    top = grade.max(initial=0.0)
    if top > gmax:
        raise MeasureError(
            f"A judgment has grade {top:g}, above gmax={gmax:g}. Write ERR(gmax={top:g})."
        )
    return np.asarray((exp2(np.maximum(grade, 0.0)) - 1.0) / exp2(gmax))
