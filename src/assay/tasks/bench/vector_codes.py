"""Vectors of a model as codes: int8, bits and the like, made and searched as `assay codes` does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from numpy.typing import NDArray

from assay.core.on_demand import OnDemand
from assay.core.text import did_you_mean
from assay.errors import UsageError

if TYPE_CHECKING:
    from assay.tasks.codes import encoders, quantisers
    from assay.tasks.codes.encoders import CodeEncoder
else:
    encoders = OnDemand("assay.tasks.codes.encoders")
    quantisers = OnDemand("assay.tasks.codes.quantisers")

__all__ = ["check_code", "make_codes"]

_PLAIN: Final = ("float16", "int8", "int4", "sign", "asymmetric")
_NAMES: Final = {"binary": "sign"}  # as other people call them
_FORMS: Final = ("binary", *_PLAIN, "mrl:D", "mrl:D+METHOD", "pq:M", "rabitq:B")


def check_code(name: str) -> None:
    """Refuse what is no code."""
    if _NAMES.get(name, name) in _PLAIN or quantisers.parse_spec(name) is not None:
        return
    hint = did_you_mean(name, _FORMS)
    raise UsageError(f"There is no code {name!r:.40}.{hint} Known: {', '.join(_FORMS)}.")


def make_codes(name: str, docs: NDArray[Any], metric: str, *, seed: int = 0) -> CodeEncoder:
    """The encoder of a code for vectors like these, which it may learn from; never from queries."""
    check_code(name)
    plain = _NAMES.get(name, name)
    spec = quantisers.parse_spec(plain)
    if spec is None:
        return encoders.make_encoder(plain, docs, metric=metric)
    return quantisers.spec_encoder(spec, docs, rows=None, seed=seed, metric=metric)
