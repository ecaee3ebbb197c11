"""The command line: `assay COMMAND`, one module for each command."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and give its exit code.

    0 fine, 1 `assay check` found something, 2 usage, 3 bad input, 4 a package is missing,
    5 file system, 70 a fault of Assay itself, 130 interrupted, 141 nobody reads the output.
    """
    try:
        from assay.cli.failures import exit_code_of
        from assay.cli.group import assay
    except KeyboardInterrupt:
        return 130

    return exit_code_of(lambda: assay.main(arguments, "assay", standalone_mode=False))
