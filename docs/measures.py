"""docs/measures.md, written from the registry: python -m docs.measures."""

from __future__ import annotations

import sys

from assay.measures import REGISTRY, Definition
from assay.measures.registry import format_value, load_measures

_HEAD = """# Measures

r_1 < r_2 < … are the ranks of the relevant documents that were retrieved, g_i their gains, R the
number of relevant documents. A document is relevant if its grade is at least `rel` (default 1).
Write a measure as `name(parameter=value)@cutoff`, for instance `AP(rel=2)@100`; names of other
tools are understood and printed under the name in the first column.

A name is understood only where everyone means the same by it. `recall_at`, `precision_at` and
`label-recall`, which some programs print over `Success@k` and `P@k`, are refused with the
candidates named; the functions of `assay.compat` and the files that such programs write keep them.
In lower case, `rbp` and `rbp_resid` are those of trec_eval, `RBP(graded=true,p=0.9)` and
`RBPresid(p=0.9)`; `ndcg_exp` and `ndcg_burges` are `nDCG(gain=exp)`, `dcg_burges` is
`DCG(gain=exp)`, `recall_cap`, `r_cap` and `relative_p` are `R(cap=true)`.

A query without a relevant document has no value (NaN) for most measures; `empty=` says what a mean
does with it. `assay measures nDCG` explains one measure with an example, and `assay measures` lists
the measures of other installed packages as well.

| measure | formula | parameters | also called |
|---|---|---|---|
"""

_TAIL = """
Measures with a sum (`num_ret`, `num_rel`, `num_rel_ret`, `num_nonrel_judged_ret`) are added up over
queries, `GMAP` is a geometric mean, all others are averaged. Whether `RR` and `ERR` may be is
disputed: see [what may be averaged](averaging.md).

Top-1 classification (accuracy, precision, recall, F1 with micro, macro or weighted average) comes
from counts that merge exactly: `assay.prediction.classes.Confusion`.
"""


def measures_page() -> str:
    """Return the page of Assay's own measures as Markdown."""
    load_measures()
    built_in = [definition for definition in REGISTRY.values() if definition.built_in]
    return _HEAD + "".join(map(_row, built_in)) + _TAIL


def _row(definition: Definition) -> str:
    cells = (
        f"`{_example(definition)}`",
        f"{definition.summary} {_code(definition.formula)}",
        "; ".join(_parameters(definition)),
        ", ".join(f"`{alias}`" for alias in definition.aliases),
    )
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"


def _code(text: str) -> str:
    return f"`{text}`"


def _example(definition: Definition) -> str:
    cut = {"required": "@k", "optional": "[@k]", "level": "@x", "R": "@R"}.get(
        definition.cutoff, ""
    )
    return definition.name + cut


def _parameters(definition: Definition) -> list[str]:
    rows = []
    for key, param in sorted(definition.params.items()):
        if key == "rel":  # said once, above the table
            continue
        default = "by convention" if param.convention else format_value(param.default or 0)
        if param.kind == "flag" and not param.convention:
            default = format_value(bool(param.default))
        if param.kind in ("gains", "levels"):
            default = "none" if param.kind == "gains" else "0/0.1/…/1"
        rows.append(f"`{key}` ({param.about}; {default})")
    return rows


if __name__ == "__main__":
    sys.stdout.write(measures_page())
