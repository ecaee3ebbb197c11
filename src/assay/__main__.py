"""`python -m assay` is `assay`: it hears signals before it imports anything large."""

import _signal  # `signal` imports far more, and Ctrl-C would end that with a traceback
import gc
import sys

_is_command = __name__ == "__main__" or sys.argv[0].endswith(("assay", "assay.exe"))
if _is_command and _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
    _signal.signal(_signal.SIGINT, _signal.SIG_DFL)  # until `signals.hear`

from assay.cli import signals  # noqa: E402


def main() -> int:
    """Run the command line of this process, and give its exit code."""
    gc.disable()  # until a command runs: nothing that an import makes is garbage
    sys.unraisablehook = signals.leave_if_lost
    signals.hear()
    try:
        from assay.cli.main import main as run

        return run()
    except KeyboardInterrupt:
        print(f"assay: {signals.ending_words()}", file=sys.stderr)
        return signals.ending_code() or 130
    finally:
        signals.end_quietly()
        gc.freeze()  # what is left ends with the process and need not be looked through


if __name__ == "__main__":
    sys.exit(main())
