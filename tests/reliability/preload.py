"""System calls as they are elsewhere: a clock that is put forward and back, a disk without locks.

A small C library is put before the system's own (LD_PRELOAD) in a process that a test starts, so
that everything in it, SQLite included, sees the same.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

CLOCK = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static long ahead(void) { /* seconds, as the file CLOCK_AHEAD says at this moment */
    char text[32] = "";
    int file = open(getenv("CLOCK_AHEAD"), O_RDONLY | O_CLOEXEC);
    if (file < 0 || read(file, text, sizeof text - 1) < 0) abort();
    close(file);
    return atol(text);
}

int clock_gettime(clockid_t which, struct timespec *now) {
    int (*real)(clockid_t, struct timespec *) = dlsym(RTLD_NEXT, "clock_gettime");
    int failed = real(which, now);
    if (!failed && which == CLOCK_REALTIME) now->tv_sec += ahead();
    return failed;
}

int gettimeofday(struct timeval *now, void *zone) {
    struct timespec precise;
    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &precise)) return -1;
    now->tv_sec = precise.tv_sec;
    now->tv_usec = precise.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *now) {
    struct timespec precise;
    clock_gettime(CLOCK_REALTIME, &precise);
    if (now) *now = precise.tv_sec;
    return precise.tv_sec;
}
"""

# LOCKS is "refused", as on a disk that has none, or "ignored", as on one that only says that it has
LOCKS = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>

static int answer(void) {
    if (getenv("LOCKS")[0] == 'i') return 0;
    errno = ENOLCK;
    return -1;
}

static int control(const char *name, int file, int command, void *argument) {
    int (*real)(int, int, ...) = dlsym(RTLD_NEXT, name);
    switch (command) {
    case F_SETLK: case F_SETLKW: case F_OFD_SETLK: case F_OFD_SETLKW: return answer();
    case F_GETLK: case F_OFD_GETLK:
        if (!answer()) { ((struct flock *)argument)->l_type = F_UNLCK; return 0; }
        return -1;
    }
    return real(file, command, argument);
}

#define CONTROL(name) \
    int name(int file, int command, ...) { \
        va_list rest; \
        va_start(rest, command); \
        void *argument = va_arg(rest, void *); \
        va_end(rest); \
        return control(#name, file, command, argument); \
    }
CONTROL(fcntl)
CONTROL(fcntl64)

int flock(int file, int operation) { (void)file; (void)operation; return answer(); }
"""


def before(source: str, folder: Path, **environment: object) -> tuple[str, ...]:
    """The start of a command whose process has these system calls; skips where there are none."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if not sys.platform.startswith("linux") or compiler is None:
        pytest.skip("other system calls need Linux and a C compiler")
    code, library = folder / "calls.c", folder / "calls.so"
    code.write_text(source)
    made = [compiler, "-shared", "-fPIC", "-O1", "-o", library, code, "-ldl"]
    subprocess.run(made, check=True, capture_output=True)
    given = [f"{name}={value}" for name, value in environment.items()]
    return ("env", f"LD_PRELOAD={os.path.abspath(library)}", *given)
