"""How good a ranking is, and how sure you can be.

The public names stand in `__init__.pyi`; they and the packages beside them (`assay.report`,
`assay.stats`, `assay.bench`, …) load when they are first used, so that `import assay` costs little.
"""

import _signal  # `signal` itself takes longer than all of this file
import sys

# As the command `assay`: Ctrl-C ends what is still being imported without a traceback.
_script = [*getattr(sys, "argv", ()), ""][0].replace("\\", "/").rpartition("/")[2]
_is_module = "\0-m\0assay\0" in "\0".join([*sys.orig_argv, ""])  # also after -I
_is_command = _script in ("assay", "assay.exe") or (_script == "-m" and _is_module)
if _is_command and _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
    try:
        _signal.signal(_signal.SIGINT, _signal.SIG_DFL)  # until `cli.signals.hear`
    except KeyboardInterrupt:  # it came before and is raised here
        sys.exit(130)

from assay.core.on_demand import open_door  # noqa: E402

__version__ = "0.2.0"

__getattr__, __dir__ = open_door(__name__, __file__)
