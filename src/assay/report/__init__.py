"""Results that people read: tables, charts, reports, and the layouts of other tools."""

from assay.core.on_demand import open_door

__getattr__, __dir__ = open_door(__name__, __file__)
