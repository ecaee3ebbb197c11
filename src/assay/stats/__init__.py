"""Intervals, tests, corrections, effect sizes, power and seeds.

Functions take one number per query and return a frozen result that states its method.
"""

from assay.core.on_demand import open_door

__getattr__, __dir__ = open_door(__name__, __file__)
