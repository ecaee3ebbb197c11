"""A command that gets a signal at a counted moment of its own: at its n-th import, open or rename.

    python signal_driver.py import SIGTERM 40 eval run.txt -r qrels.txt

The moments are Python's audit events, so that the n-th is the same however busy the machine is.
With 0 there is no signal, and the last line of stderr is the number of moments that there were.
"""

from __future__ import annotations

import os
import signal
import sys

KINDS = {"import": ("import",), "write": ("open", "os.rename", "os.remove", "os.chmod")}


def strike(kind: str, name: str, moment: int) -> list[int]:
    """Send the signal to this process at the moment; the answer counts how many have passed."""
    passed = [0]

    def hear(event: str, arguments: tuple[object, ...]) -> None:
        if event not in KINDS[kind] or (kind == "write" and ".assay-" not in str(arguments)):
            return
        passed[0] += 1
        if passed[0] == moment:
            os.kill(os.getpid(), getattr(signal, name))

    sys.addaudithook(hear)
    return passed


def main() -> None:
    kind, name, moment, *arguments = sys.argv[1:]
    sys.argv = ["assay", *arguments]
    from assay.__main__ import main as start  # before that, the interpreter starts

    passed = strike(kind, name, int(moment))
    code = start()
    if moment == "0":
        print(passed[0], file=sys.stderr)
    sys.exit(code)


if __name__ == "__main__":
    main()
