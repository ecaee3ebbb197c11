"""The parameters of a request, looked up and checked, never trusted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final
from urllib.parse import parse_qsl, urlencode

from starlette.exceptions import HTTPException

from assay.core.text import printable
from assay.errors import UsageError
from assay.runs.aggregates import canonical
from assay.store import Run, Store

__all__ = ["QueryParams", "address", "choose_dataset", "choose_measure", "find_run", "find_runs"]

_MOST_PARAMETERS: Final = 200
_MOST_DIGITS: Final = 6  # of the number of a page
_UTF8: Final = "surrogatepass"  # names may hold halves of surrogate pairs


class QueryParams:
    """The parameters of one request, in order.

    >>> params = QueryParams.parse(b"run=3&run=4&page=2")
    >>> params.get_all("run"), params.get_int("page", 1), params.get("sort", "id")
    (['3', '4'], 2, 'id')
    """

    def __init__(self, pairs: list[tuple[str, str]]) -> None:
        self.pairs = pairs

    @classmethod
    def parse(cls, query: bytes) -> QueryParams:
        """From the part of an address after its question mark."""
        text = query.decode("latin-1")
        if text.count("&") >= _MOST_PARAMETERS:
            raise UsageError(f"An address has at most {_MOST_PARAMETERS} parameters.")
        try:
            return cls(parse_qsl(text, keep_blank_values=True, errors=_UTF8))
        except UnicodeDecodeError:
            raise UsageError("The address holds text that is not UTF-8.") from None

    def get_all(self, name: str) -> list[str]:
        """All values of a parameter."""
        return [value for key, value in self.pairs if key == name]

    def get(self, name: str, default: str = "") -> str:
        """The first value of a parameter."""
        return next(iter(self.get_all(name)), default)

    def __contains__(self, name: str) -> bool:
        """Whether the parameter was given, even if it is empty."""
        return bool(self.get_all(name))

    def get_int(self, name: str, default: int) -> int:
        """A positive integer."""
        text = self.get(name)
        if not text:
            return default
        digits = text.lstrip("0") if text.isascii() and text.isdecimal() else ""
        if not digits or len(digits) > _MOST_DIGITS:
            raise UsageError(f"{name} must be a positive integer, found {text!r:.60}.")
        return int(digits)

    def get_choice(self, name: str, choices: Iterable[str], default: str) -> str:
        """One of some words."""
        text, known = self.get(name) or default, list(choices)
        if text not in known:
            raise UsageError(f"{name} must be one of {', '.join(known)}; found {text!r}.")
        return text

    def get_name(self, name: str, known: Iterable[str]) -> str | None:
        """A name that people gave; None where there is no such parameter.

        A form cannot send every character, so it sends what people see.
        """
        text = self.get(name)
        if not text:
            return None
        names = list(known)
        if text in names:
            return text
        return next((one for one in names if printable(one) == text), text)

    def address(self, path: str, **changes: Any) -> str:
        """The address of a page with these parameters, some of them changed; None leaves one out.

        >>> QueryParams.parse(b"a=1&b=2").address("/x", b=3)
        '/x?a=1&b=3'
        """
        rest = [(key, value) for key, value in self.pairs if key not in changes]
        return _join(path, [*rest, *_flatten(changes)])


def address(path: str, **parameters: Any) -> str:
    """The address of a page.

    >>> address("/compare", run=[1, 2], measure="nDCG@10", baseline=None)
    '/compare?run=1&run=2&measure=nDCG%4010'
    """
    return _join(path, _flatten(parameters))


def _flatten(parameters: Mapping[str, Any]) -> list[tuple[str, str]]:
    pairs = []
    for key, value in parameters.items():
        several = value if isinstance(value, list | tuple) else [value]
        pairs += [(key, str(one)) for one in several if one is not None]
    return pairs


def _join(path: str, pairs: list[tuple[str, str]]) -> str:
    return f"{path}?{urlencode(pairs, errors=_UTF8)}" if pairs else path


def find_run(store: Store, key: str) -> Run:
    """One run by its number or uid."""
    try:
        return store.run(key)
    except UsageError as error:
        raise HTTPException(404, str(error)) from None


def find_runs(store: Store, params: QueryParams) -> list[Run]:
    """The runs that the address names, each once, in its order."""
    runs = [find_run(store, key) for key in params.get_all("run") if key]
    return list({run.id: run for run in runs}.values())


def choose_measure(params: QueryParams, measures: Sequence[str]) -> str:
    """The requested measure; the first where it is not available, and empty where none is.

    A form that changes the dataset still names the measure of the last one.
    """
    name = params.get_name("measure", measures)
    wanted = None if name is None else canonical(name)
    return wanted if wanted is not None and wanted in measures else next(iter(measures), "")


def choose_dataset(params: QueryParams, names: Sequence[str]) -> str:
    """The requested dataset, which may be the one without a name; else the first."""
    if "dataset" not in params:
        return next(iter(names), "")
    name = params.get_name("dataset", names) or ""
    if name not in names:
        raise HTTPException(404, f"There is no finished run of the dataset {name!r}.")
    return name
