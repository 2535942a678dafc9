"""What `import sumwise` costs in a fresh interpreter."""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys

from benchmarks.report import Row, at_most, seconds
from benchmarks.timing import say

HEAVY = ("pandas", "sklearn", "numba", "jax", "sqlalchemy", "altair")
ROUNDS = 9
LIMIT = 0.35
PROGRAMS = {
    "nothing": "pass",
    "numpy": "import numpy",
    "sumwise": "from sumwise import ActiveLearner, AggregateRegressor, Sets",
}


def run(full: bool) -> list[Row]:
    del full
    _check()
    say("import: fresh interpreters")
    spent: dict[str, list[float]] = {name: [] for name in PROGRAMS}
    for number in range(ROUNDS + 1):
        for name, program in PROGRAMS.items():
            cpu = _cpu_of(program)
            if number:  # the first round reads files from disk
                spent[name].append(cpu)
    middle = {name: statistics.median(values) for name, values in spent.items()}
    pairs = zip(spent["numpy"], spent["sumwise"], strict=True)
    ratio = statistics.median(theirs / ours for theirs, ours in pairs)
    note = f"Interpreter included: {seconds(middle['nothing'])}. None of {', '.join(HEAVY)} loaded."
    row = at_most(
        "import sumwise, first names used", "", middle["sumwise"], LIMIT, "{:.3f} s", note
    )
    beside = Row(
        "import sumwise, first names used", "", seconds(middle["sumwise"]), "import numpy",
        seconds(middle["numpy"]), ratio,
    )  # fmt: skip
    return [row, beside]


def _check() -> None:
    loaded = f"print(*[name for name in {HEAVY} if name in sys.modules])"
    program = f"{PROGRAMS['sumwise']}; import sys; {loaded}"
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    if done.stdout.strip():
        raise AssertionError(f"import sumwise also imports {done.stdout.strip()}")


def _cpu_of(program: str) -> float:
    """CPU seconds, user and system, of one interpreter."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", program], check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
