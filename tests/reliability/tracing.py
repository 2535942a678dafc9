"""Trace a process (Linux): kill it right before its n-th system call that changes a file, or see
what it leaves in memory that the power may take away."""

from __future__ import annotations

import ctypes
import os
import platform
import signal
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

# write, pwrite64, writev, pwritev, ftruncate, fallocate, rename*, unlink*, fsync, fdatasync, openat
CHANGES = {
    "x86_64": {1, 18, 20, 296, 77, 285, 82, 264, 316, 87, 263, 74, 75, 257},
    "aarch64": {64, 68, 66, 70, 46, 47, 38, 276, 35, 82, 83, 56},
}.get(platform.machine(), set())
# numbers of calls: those that write to a file, those that flush it, those that give a name
WRITES, FLUSHES, NAMES = {
    "x86_64": ({1, 18, 20, 296}, {74, 75}, {82: 1, 264: 3, 316: 3, 86: 1, 265: 3, 83: 0, 258: 1}),
    "aarch64": ({64, 68, 66, 70}, {82, 83}, {38: 3, 276: 3, 37: 3, 34: 1}),
}.get(platform.machine(), (set(), set(), {}))  # NAMES: which argument is the new name
TRACEME, SYSCALL, SETOPTIONS, GET_SYSCALL_INFO = 0, 24, 0x4200, 0x420E
GOOD, EXITKILL = 0x1, 0x100000  # options: stops for system calls are told apart; we die, it dies
ENTRY = 1


def _ptrace(request: int, pid: int = 0, address: int = 0, data: object = None) -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    libc.ptrace.restype = ctypes.c_long
    done = libc.ptrace(request, pid, address, data)
    if done < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return done


def may_trace() -> bool:
    if not CHANGES:
        return False
    try:
        return killed_before(0, lambda: None, lambda _: os.write(1, b"")) is None
    except OSError:
        return False


def killed_before(n: int, prepare: Callable[[], Any], act: Callable[[Any], Any]) -> int | None:
    """Run `act(prepare())` in a fork, and kill it before change number n of `act`.

    If it ends before that, gives how many changes it has made.
    """
    passed = 0
    for pid, number, _ in _calls(prepare, act):
        if number in CHANGES:
            if passed == n:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
                return None
            passed += 1
    return passed


def unflushed(prepare: Callable[[], Any], act: Callable[[Any], Any], folder: Path) -> list[str]:
    """Files and folders inside `folder` that `act(prepare())` has changed in a fork, and whose
    content or whose names were not flushed to the disk when it ended; changes by mmap not seen."""
    pending: dict[tuple[int, int], str] = {}
    for pid, number, arguments in _calls(prepare, act):
        if number in WRITES | FLUSHES:
            place = f"/proc/{pid}/fd/{arguments[0]}"
            found, name = os.stat(place), os.readlink(place)
            if number in FLUSHES:
                pending.pop((found.st_dev, found.st_ino), None)
            elif Path(name).is_relative_to(folder) and not name.endswith("-shm"):
                pending[found.st_dev, found.st_ino] = name
        elif number in NAMES:
            parent = Path(os.fsdecode(_text_at(pid, arguments[NAMES[number]]))).parent
            if parent.is_relative_to(folder) and parent.is_dir():
                found = parent.stat()
                pending[found.st_dev, found.st_ino] = str(parent)
    left = {
        (found.st_dev, found.st_ino): str(path.relative_to(folder.parent))
        for path in (folder, *folder.rglob("*"))
        for found in [path.stat()]
    }
    return sorted(left[known] for known in pending if known in left)  # without what was removed


def _text_at(pid: int, address: int) -> bytes:
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        memory.seek(address)
        return memory.read(4096).split(b"\0")[0]


def _calls(
    prepare: Callable[[], Any], act: Callable[[Any], Any]
) -> Iterator[tuple[int, int, tuple[int, ...]]]:
    """Each system call of `act(prepare())` in a fork before it is carried out: the process, the
    number of the call and its arguments."""
    pid = os.fork()
    if not pid:
        try:
            prepared = prepare()
            _ptrace(TRACEME)
            os.kill(os.getpid(), signal.SIGSTOP)
            act(prepared)
            os._exit(0)
        finally:
            os._exit(1)
    _, status = os.waitpid(pid, 0)
    if not os.WIFSTOPPED(status):
        raise OSError("this process may not be traced")
    _ptrace(SETOPTIONS, pid, 0, GOOD | EXITKILL)
    info = ctypes.create_string_buffer(88)
    while True:
        _ptrace(SYSCALL, pid)
        _, status = os.waitpid(pid, 0)
        if os.WIFEXITED(status) or os.WIFSIGNALED(status):
            assert status == 0, "what was traced has failed"
            return
        if os.WSTOPSIG(status) != signal.SIGTRAP | 0x80:
            continue
        _ptrace(GET_SYSCALL_INFO, pid, len(info), ctypes.addressof(info))
        if info.raw[0] == ENTRY:
            number, *arguments = struct.unpack_from("7Q", info.raw, 24)
            yield pid, number, tuple(arguments)
