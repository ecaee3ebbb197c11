"""`python -m assay` is `assay`: it hears signals before it imports anything large."""

import gc
import sys
import warnings

from assay.cli import signals


def main() -> int:
    """Run the command line of this process, and give its exit code."""
    gc.disable()  # until a command runs: nothing that an import makes is garbage
    sys.unraisablehook = signals.leave_if_lost
    signals.hear()
    if not sys.warnoptions:  # numpy's, with lines of code, tell a user nothing
        warnings.simplefilter("ignore", RuntimeWarning)
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
