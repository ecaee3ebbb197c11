"""How long a whole process takes, from cold: import, help, and an evaluation of two queries.

    python benchmarks/startup.py [--repeats 15]

Prints the median and the minimum of interleaved runs in milliseconds of the processor, which others
on the machine hardly change, beside the budget.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from assay.cli.main import list_commands

RUN = "q1 Q0 a 1 2.0 t\nq1 Q0 b 2 1.0 t\nq2 Q0 a 1 0.5 t\nq2 Q0 c 2 0.4 t\n"
QRELS = "q1 0 a 1\nq2 0 c 2\n"


def commands(folder: Path) -> dict[str, list[str]]:
    assay = [sys.executable, "-m", "assay"]
    return {
        "python, nothing imported": [sys.executable, "-c", "pass"],
        "import numpy": [sys.executable, "-c", "import numpy"],
        "import numpy, assay": [sys.executable, "-c", "import numpy, assay"],
        "assay --help": [*assay, "--help"],
        **{f"assay {name} --help": [*assay, name, "--help"] for name in list_commands()},
        "assay eval, two queries": [
            *assay,
            "eval",
            str(folder / "run.txt"),
            "-r",
            str(folder / "qrels.txt"),
        ],
    }


def milliseconds(command: list[str]) -> float:
    variables = {name: os.environ[name] for name in os.environ if name != "PYTHONDONTWRITEBYTECODE"}
    before = _used()
    subprocess.run(command, check=True, capture_output=True, env=variables)
    return 1000 * (_used() - before)


def _used() -> float:
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return children.ru_utime + children.ru_stime


def median(times: list[float]) -> float:
    return sorted(times)[len(times) // 2]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=15)
    repeats = parser.parse_args().repeats
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        (folder / "run.txt").write_text(RUN)
        (folder / "qrels.txt").write_text(QRELS)
        wanted = commands(folder)
        times: dict[str, list[float]] = {name: [] for name in wanted}
        for _ in range(repeats):
            for name, command in wanted.items():
                times[name].append(milliseconds(command))
    budget = {"assay --help": 150, "assay eval, two queries": 180}
    budget |= {name: 250 for name in times if name.endswith(" --help") and name not in budget}
    print(f"{'process':28} {'median':>8} {'least':>8} {'budget':>8}")
    for name, found in times.items():
        limit = budget.get(name, "")
        print(f"{name:28} {median(found):8.0f} {min(found):8.0f} {limit:>8}")
    extra = median(times["import numpy, assay"]) - median(times["import numpy"])
    print(f"import assay over numpy: {extra:.0f} ms (budget 60)")


if __name__ == "__main__":
    main()
