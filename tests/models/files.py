"""Checkpoints written by hand, independently of any package."""

from __future__ import annotations

import json

TYPES = {"float32": "F32", "float64": "F64", "float16": "F16", "int64": "I64", "uint8": "U8"}


def write_safetensors(path, tensors, notes=None):
    """The format written by hand, independently of any package."""
    header, blob = ({"__metadata__": notes} if notes else {}), b""
    for name, array in tensors.items():
        header[name] = {
            "dtype": TYPES[str(array.dtype)],
            "shape": list(array.shape),
            "data_offsets": [len(blob), len(blob) + array.nbytes],
        }
        blob += array.tobytes()
    raw = json.dumps(header).encode()
    path.write_bytes(len(raw).to_bytes(8, "little") + raw + blob)
    return path
