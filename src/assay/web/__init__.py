"""The dashboard: read-only pages over a store, for `assay serve`."""

from assay.core.on_demand import open_door

__getattr__, __dir__ = open_door(__name__, __file__)
