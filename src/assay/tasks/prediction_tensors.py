"""Tensors as numpy arrays, without importing the package that they come from."""

from __future__ import annotations

from typing import Any

__all__ = ["as_array"]


def as_array(values: Any) -> Any:
    """What numpy can read: a torch tensor is detached and brought to main memory, the rest kept.

    Numpy has no bfloat16, so such a tensor is widened to float32, which holds it exactly.
    """
    if not (hasattr(values, "detach") and hasattr(values, "cpu")):
        return values
    tensor = values.detach().cpu()
    return (tensor.float() if str(tensor.dtype) == "torch.bfloat16" else tensor).numpy()
