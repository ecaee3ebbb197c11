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
    # Those of numpy, with lines of code, tell a user nothing; -W comes before.
    warnings.simplefilter("ignore", RuntimeWarning, append=True)
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
