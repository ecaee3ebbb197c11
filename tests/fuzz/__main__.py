"""The long run: python -m tests.fuzz --minutes 60 [--seed 1] [--gigabytes 8]."""

from __future__ import annotations

import argparse
import resource
import sys
import tempfile
from pathlib import Path

from tests.fuzz.harness import fuzz


def main() -> int:
    parser = argparse.ArgumentParser("python -m tests.fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--gigabytes", type=float, default=8, help="of address space, at most")
    given = parser.parse_args()
    limit = int(given.gigabytes * 2**30)
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    with tempfile.TemporaryDirectory() as folder:
        calls, found = fuzz(Path(folder), seed=given.seed, files=10**9, seconds=60 * given.minutes)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    for one in {failure.error: failure for failure in found}.values():
        print(one)
    print(f"{calls} calls, {len(found)} failures, peak {peak} MiB")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
