"""What do shorter vectors lose? Binary codes, int8 and float16 against the float vectors."""

from assay.core.on_demand import open_door

__getattr__, __dir__ = open_door(__name__, __file__)
