"""Names that try to be something else: markup, script, template, formula, terminal code, LaTeX."""

from __future__ import annotations

from typing import Final

HOSTILE: Final = (
    "<script>window.pwned=1</script>",
    "</script><script>window.pwned=1</script>",
    "<!--<script>",
    "<img src=x onerror=window.pwned=1>",
    "\"'><svg onload=window.pwned=1>",
    "`${window.pwned=1}`",
    "line\u2028separator\u2029",
    "javascript:window.pwned=1",
    "{{7*7}} ${7*7} <%= 7*7 %>",
    '=HYPERLINK("http://x.example","y")',
    "+1-1",
    "-2+3",
    "@SUM(A1)",
    "\x1b[31mred\x07",
    r"\input{/etc/passwd} 50% of $a_b^c & #~",
    "datum.first ? 'a' : \"b\" \\",
    "]]> --> */ //",
    "constructor",
    "__proto__",
    "half \ud800",
)
