"""Beyond one machine: the engine's searches over shards, with the bytes of one machine."""

from assay.core.on_demand import open_door

__getattr__, __dir__ = open_door(__name__, __file__)
