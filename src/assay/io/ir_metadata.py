"""ir_metadata: a header of YAML in comments that says how a TREC run was made.

    # ir_metadata.start
    # schema-version: 0.1
    # tag: bm25
    # ir_metadata.end

The schema (https://www.ir-metadata.org) names platform, research goal, implementation, method,
actor and data. Readers of runs skip the lines, as all comments.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from textwrap import dedent
from typing import Any, Final

from assay import __version__
from assay.core import checks
from assay.errors import FormatError, UsageError
from assay.io.config_text import parse_yaml, read_config_text, to_yaml
from assay.io.fingerprints import git_commit, versions
from assay.io.streams import FilePath, read_lines

_START: Final = "ir_metadata.start"
_END: Final = "ir_metadata.end"
_NOT_PACKAGES: Final = ("python", "assay", "engine", "platform")


def read_ir_metadata(path: FilePath) -> dict[str, Any] | None:
    """Return the metadata in the header of a run; None where it has none. Dates are texts."""
    header = read_header(path)
    if not header:
        return None
    lines = [line.removeprefix("#") for line in header.splitlines()[1:-1]]
    name = f"{os.fspath(path)}, ir_metadata"
    metadata = parse_yaml(dedent("\n".join(lines)), name, dates=False)
    if not isinstance(metadata, dict):
        raise FormatError(f"{name}: it is a table of entries, found {metadata!r:.60}.")
    return metadata


def read_header(path: FilePath) -> str:
    """Return the lines of the header as they stand; empty where the run has none."""
    lines: list[str] = []
    for line in read_lines(path):
        words = line.strip().removeprefix("#").strip()
        if not line.startswith("#") and words:
            break  # the first line of the run
        if lines or words == _START:
            lines.append(f"{line.rstrip()}\n")
        if lines and words == _END:
            return "".join(lines)
    if lines:
        raise FormatError(f"{os.fspath(path)}: '# {_START}' is not followed by '# {_END}'.")
    return ""


def format_header(metadata: Mapping[str, Any] | str) -> str:
    """Return the lines of a header, from metadata or from another run's header."""
    if isinstance(metadata, str):
        if not all(line.startswith("#") for line in metadata.splitlines()):
            raise UsageError("The header of a run is lines that begin with #.")
        return metadata
    checks.require(metadata, Mapping, "metadata", "a dictionary")
    body = to_yaml(metadata).splitlines()
    return "".join(f"# {line}\n" for line in (_START, *body, _END))


def describe_run(
    tag: str, *, command: str = "", method: Mapping[str, Any] | None = None, file: str = "auto"
) -> dict[str, Any]:
    """What is known here of a run that is made now, below the entries of a YAML file, if any.

    Actor, research goal and data are known to people only: their place is the file.
    """
    entries = {
        "schema-version": 0.1,
        "run-version": 1.0,
        "tag": tag,
        "platform": _platform(),
        "implementation": _implementation(command),
        "method": {"automatic": True, **(method or {})},
    }
    if file == "auto":
        return entries
    overrides = parse_yaml(read_config_text(file), file, dates=False)
    if not isinstance(overrides, dict):
        raise UsageError(f"{file} has to hold entries such as actor and research goal.")
    return _merge(entries, overrides)


def _platform() -> dict[str, Any]:
    packages_here = versions()
    packages = [
        f"{name}=={version}" for name, version in packages_here.items() if name not in _NOT_PACKAGES
    ]
    return {
        "hardware": {
            "cpu": {"architecture": platform.machine(), "number of cores": os.cpu_count() or 1}
        },
        "operating system": {
            "kernel": f"{platform.system()} {platform.release()}",
            "distribution": _distribution(),
        },
        "software": {
            "libraries": {"python": [f"python=={packages_here['python']}", *packages]},
            "retrieval toolkit": [f"assay=={__version__}"],
        },
    }


def _distribution() -> str:
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    except (OSError, KeyError):
        return platform.platform(terse=True)


def _implementation(command: str) -> dict[str, Any]:
    commit = git_commit()
    source = {"source": {"commit": commit}} if commit else {}
    return {**({"executable": {"cmd": command}} if command else {}), **source}


def _merge(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Both, entry by entry; what is given wins."""
    merged = dict(base)
    for key, value in changes.items():
        before = merged.get(key)
        inner = isinstance(value, Mapping) and isinstance(before, dict)
        merged[str(key)] = _merge(before or {}, value) if inner else value
    return merged
