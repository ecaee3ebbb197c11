"""The kernels in Python and numpy: the same answers and errors as the compiled ones, slower.

Each module is the twin of a folder of C++ beside it; all names together are one engine.
"""

from assay.native.twins.exact import *  # noqa: F403
from assay.native.twins.hamming import *  # noqa: F403
from assay.native.twins.objects import *  # noqa: F403
from assay.native.twins.search import *  # noqa: F403
from assay.native.twins.trec import *  # noqa: F403
