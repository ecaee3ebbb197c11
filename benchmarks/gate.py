"""How often a regression gate errs that is asked at every commit, and what it sees.

No system of 200 looks is worse than the baseline: the share of replications in which any fails is
printed for the plain gate (each look tested as if it were the only one), for the same t test at
levels that sum up to 5 % over all looks, and for the bets of `--look`. Looks are independent, or
each is the one before with a tenth of the queries changed. Then the smallest mean loss that is seen
with 80 % power, as a multiple of what a single t test sees. `--margins` prints in how many samples
a gate with a margin opens: for systems that are worse by the margin or more, and for equal ones.
`--reruns` calls the command that docs/ci.md prints on files: identical, noisy (as good), better,
worse and broken runs.

    python benchmarks/gate.py --queries 50 200 1000 --replications 200
    python benchmarks/gate.py --margins --queries 20 50 100 200 500 --replications 2000
    python benchmarks/gate.py --reruns --queries 50 --replications 300
"""

from __future__ import annotations

import argparse
import contextlib
import io
import math
import os
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from assay.stats import minimum_detectable_difference, non_inferior
from assay.stats.bounded import t_tail, unseen_loss_p
from assay.stats.tests import EProcess, look_share

Sample = NDArray[np.float64]
Kind = Callable[[np.random.Generator, int], Sample]
LEVEL: Final = 0.05
LOOKS: Final = 200
POWER: Final = 0.8


def graded(rng: np.random.Generator, n: int) -> Sample:
    """Differences of values such as nDCG."""
    return 0.5 * (rng.beta(2, 3, n) - rng.beta(2, 3, n))


def sparse(rng: np.random.Generator, n: int) -> Sample:
    """Most queries have the same value, as with RR."""
    return rng.choice([-1, -0.5, 0, 0.5, 1], p=[0.02, 0.05, 0.86, 0.05, 0.02], size=n)


def skewed(rng: np.random.Generator, n: int) -> Sample:
    """Many small losses and a few large gains, equal on average."""
    return np.where(rng.random(n) < 0.1, 0.18, -0.02) + rng.normal(0, 0.01, n)


KINDS: Final[tuple[Kind, ...]] = (graded, sparse, skewed)


def lost(share: float, rest: Kind | None = None) -> Kind:
    """A share of queries is lost as a whole; the rest is equal, or differs as given."""

    def draw(rng: np.random.Generator, n: int) -> Sample:
        others = np.zeros(n) if rest is None else rest(rng, n)
        return np.where(rng.random(n) < share, -1.0, others)

    return draw


def shifted(rng: np.random.Generator, n: int) -> Sample:
    """Graded differences that are worse by 0.05."""
    return graded(rng, n) - 0.05


# Name, margin, differences: worse by the margin or more, but for those called equal.
MARGINS: Final[tuple[tuple[str, float, Kind], ...]] = (
    ("5 % lost", 0.01, lost(0.05)),
    ("5 % lost", 0.05, lost(0.05)),
    ("1 % lost", 0.01, lost(0.01)),
    ("5 % lost, graded", 0.01, lost(0.05, graded)),
    ("graded, worse", 0.05, shifted),
    ("equal, graded", 0.02, graded),
    ("equal, graded", 0.05, graded),
    ("equal, graded", 0.1, graded),
    ("equal, sparse", 0.1, sparse),
)


def walk(rng: np.random.Generator, kind: Kind, n: int, changed: float) -> list[Sample]:
    """The differences at each look; `changed` is the share of queries that a commit changes."""
    looks = [kind(rng, n)]
    for _ in range(LOOKS - 1):
        looks.append(np.where(rng.random(n) < changed, kind(rng, n), looks[-1]))
    return looks


def p_of_t(differences: Sample) -> float:
    """Two-sided p of Student's test."""
    error = differences.std(ddof=1) / np.sqrt(len(differences))
    return 2 * t_tail(abs(differences.mean()) / error, len(differences) - 1)


def p_of_bets(differences: Sample) -> float:
    """p of the bets on a loss."""
    return EProcess.of(differences, np.zeros(len(differences)), 1.0).p()


def alarms(looks: list[Sample]) -> tuple[bool, bool, bool]:
    """Whether each of the three gates raised any alarm."""
    found = [False] * 3
    for number, differences in enumerate(looks, 1):
        if differences.mean() >= 0:
            continue
        p, level = p_of_t(differences), LEVEL * look_share(number)
        found[0] |= p <= LEVEL
        found[1] |= p <= level
        found[2] |= p_of_bets(differences) <= level
    return found[0], found[1], found[2]


def false_alarms(args: argparse.Namespace) -> None:
    """Print how often any of 200 equal systems failed."""
    print(f"false alarms in {LOOKS} looks, % of {args.replications} replications")
    print(
        f"{'differences':12s} {'looks':12s} {'n':>5s} {'plain':>7s} {'t, spent':>9s} {'bets':>6s}"
    )
    for kind in args.kinds:
        for changed, name in ((1.0, "independent"), (0.1, "a tenth")):
            for n in args.queries:
                rng = np.random.default_rng(args.seed)
                found = [alarms(walk(rng, kind, n, changed)) for _ in range(args.replications)]
                plain, spent, bets = 100 * np.mean(found, axis=0)
                row = f"{kind.__name__:12s} {name:12s} {n:5d}"
                print(f"{row} {plain:7.1f} {spent:9.1f} {bets:6.1f}", flush=True)


def opens(args: argparse.Namespace) -> None:
    """Print how often a gate with a margin opens: by the t test alone, and as it is."""
    print(f"gate with a margin open, % of {args.replications} samples: t test alone / gate")
    for name, margin, kind in MARGINS:
        cells = []
        for n in args.queries:
            rng = np.random.default_rng(args.seed)
            samples = [kind(rng, n) for _ in range(args.replications)]
            found = np.array([margin_ps(each, margin) for each in samples])
            alone, gate = 100 * (found <= LEVEL).mean(axis=0)
            cells.append(f"{n}: {alone:.1f} / {gate:.1f}")
        print(f"{name:18s} {margin:5.2f}  {'   '.join(cells)}", flush=True)


def margin_ps(differences: Sample, margin: float) -> tuple[float, float]:
    """p of the test of a margin, and with what may not have been seen; 0 where all are equal."""
    p = non_inferior(differences, np.zeros(len(differences)), margin, method="t").p
    alone = float(differences[0] <= -margin) if math.isnan(p) else p
    return alone, max(alone, unseen_loss_p(differences, margin, 1.0))


SKILLS: Final = {"identical": 1.5, "noisy": 1.5, "better": 2.5, "worse": 0.7, "broken": 1.5}
DOCUMENTED: Final = "compare dense.run -r qrels.txt --baseline lexical.run -m nDCG@10 -m AP"


def run_lines(rng: np.random.Generator, n: int, skill: float) -> str:
    """Write a run of `n` queries over 100 documents, the first five of which are relevant."""
    scores = rng.standard_normal((n, 100)) + skill * (np.arange(100) < 5)
    rows = (f"q{q} Q0 d{d} 0 {scores[q, d]:.6f} x" for q in range(n) for d in range(100))
    return "\n".join(rows) + "\n"


def exit_codes(kind: str, n: int, args: argparse.Namespace) -> Counter[int]:
    """Return how often the documented gate ended with each exit code, each time on new files."""
    from assay.cli.main import main as command

    rng = np.random.default_rng(args.seed)
    codes: Counter[int] = Counter()
    for _ in range(args.replications):
        baseline = run_lines(rng, n, SKILLS["noisy"])
        run = baseline if kind == "identical" else run_lines(rng, n, SKILLS[kind])
        Path("lexical.run").write_text(baseline)
        Path("dense.run").write_text(run[: len(run) // 2 - 20] if kind == "broken" else run)
        words = io.StringIO()
        with contextlib.redirect_stdout(words), contextlib.redirect_stderr(words):
            codes[command([*DOCUMENTED.split(), "--fail-if-worse"])] += 1
    return codes


def rerun(args: argparse.Namespace) -> None:
    """Print the exit codes of the documented gate: 0 passed, 1 failed, others could not run."""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for n in args.queries:
            judged = (f"q{q} 0 d{d} 1" for q in range(n) for d in range(5))
            Path("qrels.txt").write_text(os.linesep.join(judged))
            for kind in SKILLS:
                codes = sorted(exit_codes(kind, n, args).items())
                ends = ", ".join(f"exit {code}: {count}" for code, count in codes)
                print(f"{kind:10s} {n:5d} queries, {args.replications} reruns: {ends}", flush=True)


def visible_loss(rng: np.random.Generator, kind: Kind, n: int, look: int) -> float:
    """The shift that bets see with 80 % power, over the one that a single t test sees."""
    single = minimum_detectable_difference(kind(rng, 20_000), power=POWER)
    single *= math.sqrt(20_000 / n)
    low, high = single, 10 * single
    for _ in range(8):
        middle = (low + high) / 2
        level = LEVEL * look_share(look)
        losses = (np.clip(kind(rng, n) - middle, -1, 1) for _ in range(300))
        seen = np.mean([p_of_bets(one) <= level for one in losses])
        low, high = (low, middle) if seen >= POWER else (middle, high)
    return (low + high) / 2 / single


def main() -> None:
    """The tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--queries", type=int, nargs="+", default=[50, 200, 1000])
    parser.add_argument("--replications", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    names = {kind.__name__: kind for kind in KINDS}
    parser.add_argument("--kinds", nargs="+", choices=list(names), default=list(names))
    parser.add_argument("--margins", action="store_true", help="the gate with a margin alone")
    parser.add_argument("--reruns", action="store_true", help="the documented command alone")
    args = parser.parse_args()
    args.kinds = [names[name] for name in args.kinds]
    if args.margins or args.reruns:
        (opens if args.margins else rerun)(args)
        return
    false_alarms(args)
    print("smallest loss seen with 80 % power, × that of a single t test")
    print(f"{'differences':12s} {'n':>5s} {'look 1':>7s} {'look 100':>9s} {'look 200':>9s}")
    rng = np.random.default_rng(args.seed)
    for kind in args.kinds:
        for n in args.queries:
            found = [visible_loss(rng, kind, n, look) for look in (1, 100, 200)]
            row = f"{kind.__name__:12s} {n:5d}"
            print(f"{row} {found[0]:7.2f} {found[1]:9.2f} {found[2]:9.2f}", flush=True)


if __name__ == "__main__":
    main()
