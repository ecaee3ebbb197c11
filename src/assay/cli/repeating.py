"""Repeating a stored command: what it may do is decided by who repeats it, not by who stored it.

A store may come from anybody. So the models, indexes, functions and addresses of its commands need
the consent that a config file needs, and a command that writes files, or was imported, `--yes`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

import click

from assay.cli.commands import REPEATED
from assay.cli.main import COMMANDS, assay
from assay.cli.options import repeated_consent
from assay.core.consent import Consent
from assay.errors import UsageError
from assay.io.config_text import parse_toml, read_config_text
from assay.io.ir_data import allow_ir
from assay.models.adapters.openai import KEY, own_address
from assay.models.adapters.python_function import own_callable
from assay.models.from_file import allow_model, allow_reranker
from assay.search.indexes.specs import allow_index
from assay.tasks.bench.plan import Model, Rerank, split_stages
from assay.tasks.descriptors.experiment import allow_descriptor

__all__ = ["WRITES", "StoredCommand"]

# What each command writes to beside the store; every other option is read, or is no file.
WRITES: Final[dict[str, tuple[str, ...]]] = {
    "bench": ("file", "html", "runs", "per_query", "cache", "look_file"),
    "eval": ("file",),
    "compare": ("file", "look_file"),
    "rank": ("target", "checkpoint", "timings", "prepare"),
    "crossmodal": ("file", "confusions", "demo"),
    "predict": ("file", "reliability", "demo"),
    "descriptors demo": ("file", "folder", "show", "show_to", "wide", "chart"),
    "descriptors match": ("file", "chart"),
    "descriptors patches": ("file", "chart"),
    "descriptors run": ("file", "work", "show", "show_to", "wide", "chart"),
    "codes": ("file", "chart", "demo"),
}
# Commands that store nothing, and whose JSON is verified all the same.
_PLAIN: Final[dict[str, tuple[str, ...]]] = dict.fromkeys(("check", "explain", "tasks"), ("file",))
_HERE: Final = (None, "serial", "threads", "auto", "local")


class StoredCommand:
    """The arguments of a stored command, parsed as if they were typed, but not run."""

    def __init__(self, arguments: Sequence[str]) -> None:
        self.name, self._context = _parse(list(arguments))
        self._params = self._context.params

    def run(self, consent: Consent, **params: Any) -> None:
        """Run it here, without its output files and workers, and with these options changed."""
        away = (*{**WRITES, **_PLAIN}[self.name], "save", "store", "dataset", "tags")
        away += ("where", "workers")
        for name in {*away} & {*self._params}:
            self._params[name] = () if isinstance(self._params[name], tuple) else None
        self._params.update(params)
        token = repeated_consent.set(consent)
        try:
            with self._context, suppress(click.exceptions.Exit):
                self._context.command.invoke(self._context)
        finally:
            repeated_consent.reset(token)

    @property
    def resamples(self) -> int:
        """How many resamples it asks for."""
        return int(self._params.get("resamples") or 0)

    def texts(self) -> list[str]:
        """The texts of all its arguments and options."""
        return _texts(list(self._params.values()))

    def config_texts(self) -> Iterator[str]:
        """The texts of the config file that it names, which is read for the first of them."""
        for file in _texts(self._params.get("config")):
            yield from _texts(parse_toml(read_config_text(file), file))

    def writes(self) -> list[str]:
        """Files and folders that it names for its output."""
        given = [self._params.get(name) for name in WRITES[self.name]]
        return [str(one) for value in given for one in _texts(value)]

    def check(self, consent: Consent, place: str) -> None:
        """Refuse code and endpoints that are not allowed."""
        params = self._params
        if params.get("save") or params.get("store"):
            raise UsageError(f"{place} names its own store, which no stored command does.")
        allow_ir(params.get("corpus"), consent, place)
        models, stages = split_stages(_texts(params.get("model")))
        for spec in (*models, *_texts(params.get("encoder"))):
            _check_model(Model.parse(spec).spec, params, consent, place)
        for two in map(Rerank.parse, (*stages, *_texts(params.get("rerank")))):
            code = {"trust_remote_code": params.get("trust_remote_code")}
            allow_reranker(two.reranker, code, consent, place)
        for spec in _texts(params.get("index")):
            allow_index(spec, consent, place)
        for spec in _texts(params.get("descriptors")):
            allow_descriptor(spec, consent, place)
        for factory in _texts(params.get("factory")):
            consent.check_code(f"the factory {factory!r}", place)
            own_callable(factory, "MODULE:FACTORY")
        if params.get("where") not in _HERE:
            consent.check_code(f"the cluster {params['where']!r}", place)
        for url in self._addresses():
            consent.check_endpoint(url, place)

    def _addresses(self) -> Iterator[str]:
        """Addresses of files elsewhere."""
        for name, value in self._params.items():
            if name not in ("model", "encoder", "rerank", "index", "base_url", "where", "store"):
                yield from (one for one in _texts(value) if "://" in one)


def _parse(arguments: list[str]) -> tuple[str, click.Context]:
    """The name of a command with --save, and its options."""
    context = click.Context(assay, info_name="assay", **assay.context_settings)
    context.meta[REPEATED] = True
    name = arguments[0] if arguments else ""
    command = assay.get_command(context, name) if name in COMMANDS else None
    rest = arguments[1:]
    if isinstance(command, click.Group):
        name = f"{name} {rest[0]}" if rest else name
        command = command.get_command(context, rest[0]) if rest else None
        rest = rest[1:]
    if command is None or name not in {**WRITES, **_PLAIN}:
        raise UsageError(
            f"The result was made by {name!r}, which is not repeated; commands with --save are."
        )
    try:
        return name, command.make_context(name, rest, parent=context)
    except click.exceptions.Exit:
        raise UsageError(f"The stored command only prints its help: {name}.") from None


def _texts(value: Any) -> list[str]:
    """The texts of an option that may be given once or many times."""
    if isinstance(value, str):
        return [value]
    parts = value.values() if isinstance(value, dict) else value
    if isinstance(value, tuple | list | dict):
        return [one for part in parts for one in _texts(part)]
    return []


def _check_model(spec: str, params: Mapping[str, Any], consent: Consent, place: str) -> None:
    base_url = params.get("base_url")
    if spec.partition(":")[0] == "openai":
        url, variable = (base_url, KEY) if base_url else (own_address(), "")
        consent.check_endpoint(url, f"{place}: the model {spec!r}", variable)
    else:
        code = {"trust_remote_code": params.get("trust_remote_code")}
        allow_model(spec, code, consent, place)
