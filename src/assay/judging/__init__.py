"""From no judgments to a verdict: pools, labels, machine judges, agreement, estimates."""

from assay.core.on_demand import open_door

__getattr__, __dir__ = open_door(__name__, __file__)
