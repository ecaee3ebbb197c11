"""A test collection that every machine has: the docstrings of Python's own standard library.

A document is what a docstring says after its summary line; a query is such a summary line, and
the one document relevant to it is the rest of the same docstring. Rules:

- Looked at are the public functions, classes and methods of the public modules of
  `sys.stdlib_module_names`, if the standard library defines them. Modules that greet, open
  windows, change the terminal or are replaced by other packages are left alone.
- Equal bodies are one document, named after the first object that has it.
- No query is made of a summary that is a signature (`f(x) -> y`), has fewer than three words,
  stands over two different bodies, or whose body stands under two different summaries: which
  document is meant could not be told. Their bodies stay, as documents.
- Documents and queries stand in a seeded random order, so that ties favour no module.
"""

from __future__ import annotations

import inspect
import random
import re
import sys
import warnings
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from importlib import import_module
from io import StringIO
from pkgutil import iter_modules
from types import ModuleType
from typing import Any, Final

from assay import checks
from assay.errors import UsageError
from assay.ids import Ids
from assay.io.collections import Collection
from assay.judgments import Judgments

__all__ = ["SEED", "stdlib_collection"]

SEED: Final = 20

_LEFT_ALONE: Final = {
    *("antigravity", "this"),  # a browser, a poem
    *("idlelib", "tkinter", "turtle", "turtledemo"),  # windows
    *("readline", "rlcompleter"),  # change the terminal
    *("distutils", "ensurepip", "lib2to3", "pip", "venv"),  # replaced, or about installing
    *("encodings", "pydoc_data", "test"),  # tables, and no library
}
_FEWEST_WORDS: Final = 3
_SIGNATURE: Final = re.compile(r"^[\w.\[\]]+\s?\(|->|--\s*$")


@dataclass(frozen=True, order=True)
class _Docstring:
    name: str
    summary: str
    body: str


def stdlib_collection(*, n_queries: int | None = None, seed: int = SEED) -> Collection:
    """The docstrings of this Python's standard library as documents and queries.

    `n_queries` draws a sample of the queries. The fingerprint tells one Python version and
    platform from another; the seed decides order and sample only.

    >>> collection = stdlib_collection()
    >>> len(collection.doc_ids) > len(collection.query_ids) > 1000
    True
    """
    if sys.flags.optimize > 1:
        raise UsageError("python -OO drops docstrings, and they are the collection. Leave -OO out.")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # many modules, and some classes, are deprecated
        docstrings = _collected()
    documents = {one.body: one.name for one in reversed(docstrings)}  # the first name stays
    queries = _answerable(docstrings)
    shuffle = random.Random(seed)
    bodies = sorted(documents, key=documents.__getitem__)
    shuffle.shuffle(bodies)
    shuffle.shuffle(queries)
    if n_queries is not None:
        queries = queries[: checks.check_cutoff(n_queries, "n_queries")]
    return _as_collection(bodies, documents, queries)


def _as_collection(
    bodies: list[str], documents: dict[str, str], queries: list[_Docstring]
) -> Collection:
    doc_ids = Ids.of([documents[body] for body in bodies], what="doc")
    query_ids = Ids.of([f"q:{one.name}" for one in queries], what="query")
    targets = [documents[one.body] for one in queries]
    version = ".".join(map(str, sys.version_info[:3]))
    return Collection(
        doc_ids=doc_ids,
        doc_texts=tuple(bodies),
        query_ids=query_ids,
        query_texts=tuple(one.summary for one in queries),
        qrels=Judgments.from_targets(targets, query_ids=query_ids, doc_ids=doc_ids),
        name=f"Python {version} standard library",
    )


def _answerable(docstrings: list[_Docstring]) -> list[_Docstring]:
    """One docstring for every summary that asks for one body, which answers it alone."""
    bodies, summaries = defaultdict(set), defaultdict(set)
    for one in docstrings:
        bodies[_plain(one.summary)].add(one.body)
        summaries[one.body].add(_plain(one.summary))
    chosen = {
        one.body: one
        for one in reversed(docstrings)
        if _is_summary(one.summary)
        and len(bodies[_plain(one.summary)]) == len(summaries[one.body]) == 1
    }
    return sorted(chosen.values())


def _plain(text: str) -> str:
    return " ".join(text.casefold().split()).rstrip(".")


def _is_summary(line: str) -> bool:
    return len(line.split()) >= _FEWEST_WORDS and not _SIGNATURE.search(line)


def _collected() -> list[_Docstring]:
    """The docstrings with a summary line and a body, each once, by name."""
    found: dict[str, _Docstring] = {}
    modules = list(_modules(sys.stdlib_module_names - _LEFT_ALONE))
    for module in modules:  # after all imports: `curses.has_key` the module hides the function
        for name, value in _public(module):
            parts = _split(value)
            if parts is not None:
                found.setdefault(name, _Docstring(name, *parts))
    return sorted(found.values())


def _modules(names: Iterable[str]) -> Iterator[ModuleType]:
    """Public modules, and those inside public packages."""
    for name in sorted(names):
        module = None if name.rpartition(".")[2].startswith("_") else _imported(name)
        if module is None:
            continue
        yield module
        inner = iter_modules(getattr(module, "__path__", ()))
        yield from _modules(f"{name}.{one.name}" for one in inner)


def _imported(name: str) -> ModuleType | None:
    """A module, if this platform has it; what it says when imported is not heard."""
    try:
        with redirect_stdout(StringIO()), redirect_stderr(StringIO()):
            return import_module(name)
    except Exception:  # absent here, or broken: not part of the collection
        return None


def _public(module: ModuleType) -> Iterator[tuple[str, Any]]:
    """Functions, classes and their methods that a module shows, under their full names."""
    for name, value in sorted(vars(module).items()):
        if name.startswith("_") or name.endswith("hook"):  # programs put their own hooks there
            continue
        if inspect.isclass(value) and _is_ours(value):
            home = f"{_home(value, module)}.{value.__qualname__}"
            yield home, value
            yield from _methods(value, home)
        elif inspect.isroutine(value) and _is_ours(value):
            yield f"{_home(value, module)}.{name}", value


def _methods(owner: type, home: str) -> Iterator[tuple[str, Any]]:
    for name, value in sorted(vars(owner).items()):
        function = getattr(value, "__func__", value)  # of a classmethod or staticmethod
        if not name.startswith("_") and inspect.isroutine(function) and _is_ours(function):
            yield f"{home}.{name}", function


def _is_ours(value: Any) -> bool:
    """Defined by the standard library; a method written in C names no module."""
    module = getattr(value, "__module__", None)
    return module is None or (
        isinstance(module, str) and module.partition(".")[0] in sys.stdlib_module_names
    )


def _home(value: Any, shown_by: ModuleType) -> str:
    """The public module an object is known by: what `_io` defines belongs to `io`."""
    module = str(getattr(value, "__module__", None) or shown_by.__name__)
    if not module.startswith("_"):
        return "os" if module in ("posix", "nt") else module
    public = module.lstrip("_")
    return public if public in sys.stdlib_module_names else shown_by.__name__


def _split(value: Any) -> tuple[str, str] | None:
    """Summary line and body of an object's own docstring, if it has both."""
    text = getattr(value, "__doc__", None)
    if not isinstance(text, str):
        return None
    summary, _, rest = inspect.cleandoc(text).partition("\n")
    blank, _, body = rest.partition("\n")
    if not summary.strip() or blank.strip() or len(body.split()) < _FEWEST_WORDS:
        return None
    return summary.strip(), body.strip("\n").rstrip()
