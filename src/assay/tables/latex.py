"""Tables as LaTeX (booktabs). Text from outside is escaped: it breaks nothing and runs nothing."""

from __future__ import annotations

import re
from typing import Final

from assay.core.text import printable
from assay.tables.table import UNDEFINED, Cell, Table

_SPECIALS: Final = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "#": r"\#",
    "_": r"\_",
    "%": r"\%",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\symbol{34}",
    "'": r"\symbol{39}",
    "`": r"\symbol{96}",
    "−": "$-$",
    "–": "--",
    "≤": r"$\leq$",
    "±": r"$\pm$",
}
_SPECIAL: Final = re.compile("|".join(map(re.escape, _SPECIALS)))
# A row ends with \\, which would take a [ or * at the start of the next one for its own.
_TAKEN: Final = re.compile(r"^(\s*)([\[*])")


def latex_text(text: object) -> str:
    r"""Return the text with everything escaped that LaTeX would take for a command.

    >>> print(latex_text(r"50% of a_b & \input{x}"))
    50\% of a\_b \& \textbackslash{}input\{x\}
    """
    safe = _SPECIAL.sub(lambda match: _SPECIALS[match.group()], printable(text))
    return _TAKEN.sub(r"\1{\2}", safe)


def latex_comment(text: object) -> str:
    """Return a line that LaTeX skips; line breaks in the text are written out."""
    return f"% {printable(text)}"


def as_latex(table: Table) -> str:
    r"""Return a tabular with the rules of booktabs, the best values in bold.

    >>> print(as_latex(Table(("run", "AP"), ((Cell("a_b"), Cell(0.25, "fraction", True)),))))
    \begin{tabular}{lr}
    \toprule
    run & AP \\
    \midrule
    a\_b & \textbf{0.2500} \\
    \bottomrule
    \end{tabular}
    """
    columns = "".join("l" if left else "r" for left in table.left)
    rows = [" & ".join(map(_cell, row)) for row in table.rows]
    return "\n".join(
        [
            rf"\begin{{tabular}}{{{columns}}}",
            r"\toprule",
            " & ".join(map(latex_text, table.columns)) + r" \\",
            r"\midrule",
            *(row + r" \\" for row in rows),
            r"\bottomrule",
            r"\end{tabular}",
        ]
    )


def _cell(cell: Cell) -> str:
    text = "--" if cell.text == UNDEFINED else latex_text(cell.text)
    if cell.kind != "text":
        text = re.sub(r"(?<![\w$])-(?=\d)", "$-$", text)
    return rf"\textbf{{{text}}}" if cell.best else text
