"""All exceptions of Assay.

    AssayError
    ├── InputError            the data is wrong; exit code 3
    │   ├── FormatError       a file cannot be read as what it claims to be
    │   ├── ShapeError        an array has the wrong number of rows, columns or dimensions
    │   ├── ValueRangeError   a value is NaN, infinite, negative, too large, …
    │   ├── IdError           an id is missing, duplicated, empty or of the wrong kind
    │   └── MismatchError     two inputs do not belong together
    ├── UsageError            the request is invalid; exit code 2
    │   ├── MeasureError      a measure name or parameter is not known
    │   └── ConventionError   a convention, preset or signature is not known
    ├── MissingPackageError   an optional package is needed; exit code 4
    ├── PluginError           a package that extends Assay cannot be loaded; exit code 4
    ├── StorageError          a file could not be read or written; exit code 5
    ├── EndpointError         a server did not answer, or not as expected; exit code 5
    └── ClusterError          a cluster cannot be reached, or lost a task for good; exit code 5

A message says what is wrong, where, what was found, and what to do about it.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

__all__ = [
    "AssayError",
    "ClusterError",
    "ConventionError",
    "EndpointError",
    "FormatError",
    "IdError",
    "InputError",
    "MeasureError",
    "MismatchError",
    "MissingPackageError",
    "PluginError",
    "ShapeError",
    "StorageError",
    "UsageError",
    "ValueRangeError",
    "error_text",
    "need",
]


class AssayError(Exception):
    """Base of all errors of Assay; `exit_code` is what the command line returns."""

    exit_code = 1


class InputError(AssayError, ValueError):
    """The data is wrong."""

    exit_code = 3


class FormatError(InputError):
    """A file cannot be read as what it claims to be."""


class ShapeError(InputError):
    """An array has the wrong number of rows, columns or dimensions."""


class ValueRangeError(InputError):
    """A value is NaN, infinite, negative, too large or otherwise outside its range."""


class IdError(InputError):
    """An id is missing, duplicated, empty or of the wrong kind."""


class MismatchError(InputError):
    """Two inputs do not belong together."""


class UsageError(AssayError, ValueError):
    """The request is invalid, whatever the data."""

    exit_code = 2


class MeasureError(UsageError):
    """A measure name or one of its parameters is not known."""


class ConventionError(UsageError):
    """A convention, a preset or a signature is not known."""


def install_command(extra: str) -> str:
    """Return the command that adds an extra to this installation.

    An installation from a folder, an archive or a repository has no other source to name.
    """
    import json
    from importlib import metadata

    try:
        origin = json.loads(
            metadata.distribution("assay-eval").read_text("direct_url.json") or "{}"
        )
    except metadata.PackageNotFoundError:  # the source folder itself is on the path
        origin = {"dir_info": {}}
    if "dir_info" in origin:
        editable = "-e " if origin["dir_info"].get("editable") else ""
        return f'pip install {editable}".[{extra}]" (in the source folder of Assay)'
    if "vcs_info" in origin:
        source = f"{origin['vcs_info'].get('vcs', 'git')}+{origin['url']}"
        return f'pip install "assay-eval[{extra}] @ {source}"'
    if "url" in origin:
        return f'pip install "{origin["url"].rpartition("/")[2]}[{extra}]"'
    return f'pip install "assay-eval[{extra}]"'


class MissingPackageError(AssayError, ImportError):
    """An optional package is needed; the message holds the command that installs it."""

    exit_code = 4

    def __init__(
        self, package: str, purpose: str, extra: str, *, command: str | None = None
    ) -> None:
        super().__init__(
            f"{purpose} needs the package '{package}', which is not installed. "
            f"Install it with: {command or install_command(extra)}"
        )


class PluginError(AssayError):
    """A package that extends Assay cannot be loaded; the message names it."""

    exit_code = 4


class StorageError(AssayError, OSError):
    """A file could not be read or written."""

    exit_code = 5


class EndpointError(AssayError):
    """A server did not answer, or not as expected."""

    exit_code = 5


class ClusterError(AssayError):
    """A cluster cannot be reached, or lost a task for good."""

    exit_code = 5


def need(module: str, purpose: str, extra: str) -> Any:
    """Import an optional module, or say which extra of Assay installs it."""
    try:
        return import_module(module)
    except ImportError:
        raise MissingPackageError(module.partition(".")[0], purpose, extra) from None


def error_text(error: BaseException) -> str:
    """Return the kind of an error and its first line, for a message."""
    words = (str(error).splitlines() or [""])[0]
    return f"{type(error).__name__}: {words:.160}" if words else type(error).__name__
