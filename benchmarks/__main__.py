"""`python -m benchmarks [subject] [--full]`: run, print one table, write it as JSON."""

from __future__ import annotations

import argparse
from pathlib import Path

from benchmarks import (
    counts,
    designed_pools,
    embedding,
    encoding,
    imports,
    loop,
    neural,
    prediction,
    report,
    scale,
    scoring,
    studies,
    web,
)
from benchmarks.timing import say

SUBJECTS = {
    "loop": loop.run,
    "scoring": scoring.run,
    "prediction": prediction.run,
    "embedding": embedding.run,
    "neural": neural.run,
    "encoding": encoding.run,
    "import": imports.run,
    "studies": studies.run,
    "web": web.run,
    "scale": scale.run,
    "counts": counts.run,
    "designed": designed_pools.run,
}
OUTPUT = Path("bench-output") / "results.json"


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Time sumwise against its peers, answers checked first, and print one table.",
    )
    parser.add_argument("subject", nargs="?", choices=SUBJECTS, help="only this one (default: all)")
    parser.add_argument(
        "--full",
        action="store_true",
        help="run the paper's literal procedure for all 30 queries (minutes), and compare the "
        "questions, instead of extrapolating its time from four; and scale up to a million sets",
    )
    chosen = parser.parse_args()
    rows: list[report.Row] = []
    for name, run in SUBJECTS.items():
        if chosen.subject in (None, name):
            rows += run(chosen.full)
    report.save(rows, OUTPUT)
    say(f"also in {OUTPUT}")
    print(report.table(rows))


if __name__ == "__main__":
    main()
