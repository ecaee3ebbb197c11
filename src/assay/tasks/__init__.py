"""Which system is better over many tasks? Means over tasks, ranks and Borda counts."""

from assay.core.on_demand import open_door

__getattr__, __dir__ = open_door(__name__, __file__)
