"""How good a ranking is, and how sure you can be.

The public names stand in `__init__.pyi`; they and the packages beside them (`assay.report`,
`assay.stats`, `assay.bench`, …) load when they are first used, so that `import assay` costs little.
"""

from assay.core.on_demand import open_door

__version__ = "0.2.0"

__getattr__, __dir__ = open_door(__name__, __file__)
