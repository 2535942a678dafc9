"""Break the code at random and see a test fail: the second half of `make mutants`.

Which tests run each line is recorded once (`build/mutants`), for one state of the code. A mutant is
one edit of one expression or statement, in a copy of the tree. Only tests that run the edited line
see it, those of the nearest files first, for a minute of tests at most; then others of these files,
for what a fixture does may be judged by another test. docs/mutants.md says which edits there are
and which cannot be seen, and lists survivors.

`python -m tests.random_mutants SEED COUNT GROUP…` takes another sample.
"""

from __future__ import annotations

import hashlib
import json
import os
import queue
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from pathlib import Path

from coverage import CoverageData

from tests.random_edits import SOURCE, Edit, edits_of

ROOT = Path(__file__).resolve().parents[1]
KEPT = ROOT / "build" / "mutants"
GROUPS = {
    "maths": ("model", "acquisition", "learning", "data"),
    "storage": ("study",),
    "web": ("web",),
}
FOLDERS = ("properties", "model", "acquisition", "learning", "data", "outofcore", "study", "web")
FOLDERS += ("reliability", "util")
LEAST_KILLED = 0.75  # of a sample: below what was measured (docs/mutants.md), and the aim is 0.9
LIMIT = 60.0  # seconds of tests for a mutant, as they were when they were recorded
MEMORY = 8 << 30  # bytes that a run may take
QUICK = ["-m", "not slow", "-p", "no:cacheprovider", "-p", "tests.random_mutants"]
Ran = tuple[int | None, list[tuple[str, str, float]]]
FATES = ("killed", "killed by the time limit", "SURVIVED", "NO TEST")


# --- as a plugin of pytest, it writes down what each test took and how it ended ------------------


def pytest_runtest_logreport(report) -> None:
    if "PYTEST_XDIST_WORKER" not in os.environ and (log := os.environ.get("MUTANTS_LOG")):
        with open(log, "a") as file:
            file.write(json.dumps([report.nodeid, report.outcome, report.duration]) + "\n")


def run(folder: Path, arguments: list[str], limit: float | None = None) -> Ran:
    """Tests in a copy of the tree: the exit code, None for too late, and what each test did."""
    with tempfile.TemporaryDirectory(dir=os.environ.get("PYTEST_DEBUG_TEMPROOT")) as place:
        log, listed = Path(place) / "log", Path(place) / "arguments"
        log.touch()
        listed.write_text("\n".join(arguments))
        own = {"PYTHONPATH": str(folder / "src"), "MUTANTS_LOG": str(log)}
        own |= {"HYPOTHESIS_PROFILE": "quick", "OPENBLAS_NUM_THREADS": "1"}
        own |= {"PYTEST_DEBUG_TEMPROOT": place, "COVERAGE_FILE": str(KEPT / "coverage")}
        own |= {"JAX_COMPILATION_CACHE_DIR": str(ROOT / ".cache" / "jax")}
        process = subprocess.Popen(
            [sys.executable, "-m", "pytest", "-q", *QUICK, f"@{listed}"],
            cwd=folder,
            env={**os.environ, **own},
            stdout=subprocess.DEVNULL if limit else None,
            stderr=subprocess.STDOUT if limit else None,
            start_new_session=True,
            preexec_fn=lambda: bounded(limit),
        )
        try:
            ended = process.wait(limit and 2 * limit)
        except subprocess.TimeoutExpired:
            ended = None
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # it, and servers that it has left
            process.wait()
        ended = None if ended == -signal.SIGXCPU else ended
        return ended, [json.loads(line) for line in log.read_text().splitlines()]


def bounded(seconds: float | None) -> None:
    """Limits of this process: seconds of the processor, which waits of a busy machine are not."""
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    if seconds:
        resource.setrlimit(resource.RLIMIT_CPU, (int(seconds), int(seconds) + 5))


# --- which tests run a line ----------------------------------------------------------------------


def recorded() -> dict[str, float]:
    """What each test took; files of tests that are new or changed are run, the others kept."""
    KEPT.mkdir(parents=True, exist_ok=True)
    known = KEPT / "tests.json"
    base, files = hashlib.sha256(), {}
    for path in sorted([*SOURCE.rglob("*.py"), *(ROOT / "tests").rglob("*.py")]):
        name = str(path.relative_to(ROOT))
        if path.is_relative_to(SOURCE) and b">>> " in path.read_bytes():
            files[name] = ""  # examples in docstrings; a change of the code runs all anew
        if not path.name.startswith("test_"):
            base.update(b"" if path.name.startswith("random_") else path.read_bytes())
        elif path.relative_to(ROOT).parts[1] in FOLDERS:
            files[name] = hashlib.sha256(path.read_bytes()).hexdigest()
    state = json.loads(known.read_text()) if known.exists() else {}
    if state.get("base") != base.hexdigest():
        state = {"base": base.hexdigest(), "files": {}, "took": {}}
        (KEPT / "coverage").unlink(missing_ok=True)
    if new := [name for name, digest in files.items() if state["files"].get(name) != digest]:
        print(f"recording which lines {len(new)} files of tests run", flush=True)
        (KEPT / "coveragerc").write_text(f"[run]\nsource = {SOURCE}\n")
        measured = ["--cov", f"--cov-config={KEPT / 'coveragerc'}", "--cov-context=test"]
        measured += ["--cov-append", "--cov-report=", "-n", str(jobs()), "--dist", "worksteal"]
        _, reports = run(ROOT, [*measured, *new])
        took = {t: s for t, s in state["took"].items() if t.partition("::")[0] in files}
        took = {t: s for t, s in took.items() if t.partition("::")[0] not in new}
        failed = set()
        for test, outcome, seconds in reports:
            took[test] = took.get(test, 0.0) + seconds
            failed |= {test} if outcome != "passed" else set()
        state |= {"files": files, "took": {t: s for t, s in took.items() if t not in failed}}
        known.write_text(json.dumps(state))
    return state["took"]


def jobs() -> int:
    return int(os.environ.get("JOBS", os.cpu_count() or 1))


@cache
def seen(file: Path) -> dict[int, list[str]]:
    """The tests that run each line."""
    data = CoverageData(str(KEPT / "coverage"))
    data.read()
    return data.contexts_by_lineno(str(file))


@cache
def text_of(name: str) -> str:
    return (ROOT / name).read_text()


def chosen(mutant: Edit, took: dict[str, float]) -> list[str]:
    """The tests that may notice it: of files named alike all, then a few of each, nearest first."""
    found = {t.rpartition("|")[0] for file, n in mutant.lines for t in seen(file).get(n, [])}
    if found == {""}:  # only an import runs it: all tests of the module
        found |= {t.rpartition("|")[0] for each in seen(mutant.file).values() for t in each}
    if "" in found:  # an import runs it: tests that name the module may look at what it made
        found |= {t for t in took if mutant.file.stem in text_of(t.partition("::")[0])}
    by_file = defaultdict(list)
    for test in sorted(found & took.keys(), key=took.__getitem__):
        by_file[test.partition("::")[0]].append(test)
    package = mutant.file.relative_to(SOURCE).parts[0]

    def distance(test: str) -> int:
        name = Path(test.partition("::")[0])
        near = {package, "properties"} & {*name.parts}
        return 0 if mutant.file.stem in name.stem else 1 if near else 2

    turns = [
        (i * distance(t), distance(t), took[t], t)
        for f in by_file.values()
        for i, t in enumerate(f)
    ]
    wanted = [test for *_, test in sorted(turns)]
    wanted += [t for t in took if t.partition("::")[0] in by_file and t not in found]
    total, kept = 0.0, []
    for test in wanted:
        if not kept or total + took[test] <= LIMIT:
            total += took[test]
            kept.append(test)
    first = {name: i for i, name in enumerate(dict.fromkeys(t.partition("::")[0] for t in kept))}
    # those of a file together, for what they share; those that only might notice it last
    return sorted(kept, key=lambda t: (t not in found, first[t.partition("::")[0]], took[t]))


# --- breaking ------------------------------------------------------------------------------------


def fate(mutant: Edit, took: dict[str, float], copies: queue.Queue[Path]) -> tuple[str, str]:
    """What became of it, and the first test that failed."""
    tests = chosen(mutant, took)
    if not tests:
        return "NO TEST", ""
    copy = copies.get()
    path = copy / mutant.file.relative_to(ROOT)
    code = mutant.file.read_bytes()
    path.write_bytes(code[: mutant.start] + mutant.new.encode() + code[mutant.end :])
    moment = random.randrange(10**9)  # compiled files are told apart by time and size alone
    os.utime(path, (moment, moment))
    try:
        ended, reports = run(copy, ["-x", *tests], 30 + 3 * sum(map(took.__getitem__, tests)))
        failed = [test for test, outcome, _ in reports if outcome == "failed"]
    finally:
        shutil.copy2(mutant.file, path)
        copies.put(copy)
    if ended in (0, None):
        return "SURVIVED" if ended == 0 else "killed by the time limit", ""
    return "killed", [*failed, tests[0]][0]  # none has failed if nothing could be imported


def copied(folder: Path) -> Path:
    for part in ("src", "tests", "scripts", "docs"):
        shutil.copytree(ROOT / part, folder / part)
    shutil.copy(ROOT / "pyproject.toml", folder)
    return folder


def sample(group: str, seed: int, count: int) -> list[Edit]:
    files = (path for part in GROUPS[group] for path in sorted((SOURCE / part).rglob("*.py")))
    return random.Random(seed).sample([edit for path in files for edit in edits_of(path)], count)


def shown(mutant: Edit) -> str:
    old = mutant.file.read_bytes()[mutant.start : mutant.end].decode()
    where = f"{mutant.file.relative_to(SOURCE)}:{mutant.line}"
    return f"{where}  {' '.join(old.split()):.90}  →  {mutant.new:.90}"


def main(seed: int = 0, count: int = 80, *groups: str) -> None:
    took = recorded()
    drawn = [(group, each) for group in groups or GROUPS for each in sample(group, seed, count)]
    fates, killers, left = Counter(), defaultdict(list), []
    with tempfile.TemporaryDirectory() as place, ThreadPoolExecutor(jobs()) as threads:
        copies: queue.Queue[Path] = queue.Queue()
        for n in range(jobs()):
            copies.put(copied(Path(place) / str(n)))
        found = threads.map(lambda each: fate(each[1], took, copies), drawn)
        for (group, mutant), (words, killer) in zip(drawn, found, strict=True):
            fates[group, words] += 1
            killers[killer].append((group, mutant))
            left += [(group, mutant)] * (not words.startswith("killed"))
            print(f"{words:9} {group}  {shown(mutant)}  {killer.rpartition('::')[2]}", flush=True)
        tests = [test for test in killers if test]
        _, reports = run(copies.get(), tests) if tests else (0, [])
        for test in {test for test, outcome, _ in reports if outcome == "failed"}:
            print(f"{test} fails on unbroken code")
            fates.update((group, "SURVIVED") for group, _ in killers[test])
            fates.subtract((group, "killed") for group, _ in killers[test])
    print(f"\nseed {seed}, {count} mutants of each group")
    killed = {group: fates[group, FATES[0]] + fates[group, FATES[1]] for group, _ in drawn}
    for group, n in killed.items():
        print(f"{group}: {n / count:.0%} killed", {word: fates[group, word] for word in FATES})
    sys.exit(any(n < LEAST_KILLED * count for n in killed.values()))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:3]), *sys.argv[3:])
