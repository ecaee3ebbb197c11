"""One evaluation as a record that every task makes, and that stores and reports take."""

from assay.core.on_demand import open_door

__getattr__, __dir__ = open_door(__name__, __file__)
