"""Assay inside other tools: pytest, experiment trackers, torchmetrics, scikit-learn, model cards.

Names load when first used, each with the package that it is for.
"""

from assay.core.on_demand import open_door

__getattr__, __dir__ = open_door(__name__, __file__)
