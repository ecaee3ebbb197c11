"""How good a ranking is, and how sure you can be.

The public names stand in `__init__.pyi`; they and the packages beside them (`assay.report`,
`assay.stats`, `assay.bench`, …) load when they are first used, so that `import assay` costs little.
"""

import _signal  # `signal` itself takes longer than all of this file
import sys

# As the command `assay`: Ctrl-C ends what is still being imported without a traceback.
_words = [word.rpartition("/")[2] for word in sys.orig_argv[1:3]]
_is_command = _words[:1] == ["assay"] or _words == ["-m", "assay"]
if _is_command and _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
    _signal.signal(_signal.SIGINT, _signal.SIG_DFL)  # until `cli.signals.hear`

from assay.core.on_demand import open_door  # noqa: E402

__version__ = "0.2.0"

__getattr__, __dir__ = open_door(__name__, __file__)
