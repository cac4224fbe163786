"""The loads of bench/compare: each returns how many a second, and p50 and p99 in microseconds where they are known.

- writes-1, writes-32: so many writers of 8 KiB with O_DSYNC, at random over 64 MiB that were written before
  (`sawmill bench file`; in process `bench zil` and bench/opponent)
- append: one writer's appends of 8 KiB to a new file, fsync after each (fio); its p50 is of write and fsync together
- files-1, files-8: so many threads that make files of 8 KiB, step by step (`sawmill bench files`); p50 and p99 in
  the table are of the first fsync, those of all steps are in the JSON
- sqlite-wal, sqlite-rollback: commits of one row each, synchronous=FULL, with a write-ahead log or a rollback journal
- postgres: pgbench's transactions, 8 clients
"""

import contextlib
import dataclasses
import json
import os
import pathlib
import shutil
import sqlite3
import statistics
import subprocess
import tempfile
import time

from benchfio import appends
from benchmounts import SAWMILL, run
from benchpostgres import fill, programs, server, speed

LOADS = ("writes-1", "writes-32", "append", "files-1", "files-8", "sqlite-wal", "sqlite-rollback", "postgres")
SPAN_MIB = 64
CLIENTS = 8


@dataclasses.dataclass
class Plan:
    """How much of each; bench/compare sets it."""

    seconds: int = 3
    ramp: int = 1
    files: int = 5000
    scale: int = 10


PLAN = Plan()


@dataclasses.dataclass
class Tree:
    """A mounted file system: its root, the directory for pages that are written at random, and PostgreSQL's settings."""

    plain: pathlib.Path
    pages: pathlib.Path
    postgres: list


def bench(*words):
    return json.loads(run(SAWMILL, "bench", *words, "--json"))


def of_writes(report):
    per_second = report.get("writes_per_second") or report["commits_per_second"]
    return {"per second": per_second, "p50 us": report["latency_p50_us"], "p99 us": report["latency_p99_us"]}


def of_files(report):
    steps = {step["name"]: step for step in report["steps"]}
    figures = {"per second": report["files_per_second"]}
    for part in ("p50", "p99"):
        figures[f"{part} us"] = steps["fsync"][f"{part}_us"]
        figures.update({f"{name}, {part} us": step[f"{part}_us"] for name, step in steps.items()})
    return figures


def writers(threads):
    """Words of all three programs."""
    return ("--threads", threads, "--size", "8k", "--span", f"{SPAN_MIB}m", "--seconds", PLAN.seconds)


def in_process(main, log):
    """What a pool on these devices is measured with, by load."""
    devices = ("--main", main, *(("--log", log) if log else ()))
    zil = lambda threads: of_writes(bench("zil", *devices, "--ramp", PLAN.ramp, *writers(threads)))
    files = lambda threads: of_files(bench("files", *devices, "--threads", threads, "--files", PLAN.files))
    return {
        "writes-1": lambda: zil(1),
        "writes-32": lambda: zil(32),
        "files-1": lambda: files(1),
        "files-8": lambda: files(8),
    }


def on_opponent(program, main, log):
    devices = ("--main", main, *(("--log", log) if log else ()))

    def zil(threads):
        words = (program, *devices, "--ramp", PLAN.ramp, *writers(threads))
        # It has suspended its pool once, and waited for ever.
        return of_writes(json.loads(run(*words, timeout=60 + 4 * (PLAN.ramp + PLAN.seconds))))

    return {"writes-1": lambda: zil(1), "writes-32": lambda: zil(32)}


def on_tree(tree):
    loads = {
        "writes-1": lambda: writes(tree.pages, 1),
        "writes-32": lambda: writes(tree.pages, 32),
        "append": lambda: append(tree.plain),
        "files-1": lambda: files(tree.plain, 1),
        "files-8": lambda: files(tree.plain, 8),
        "sqlite-wal": lambda: sqlite(tree.pages, "wal"),
        "sqlite-rollback": lambda: sqlite(tree.pages, "delete"),
    }
    if programs():
        loads["postgres"] = lambda: postgres(tree)
    return loads


def writes(where, threads):
    path = where / "writes"
    with open(path, "wb") as file:
        for _ in range(SPAN_MIB):
            file.write(os.urandom(1 << 20))
        os.fsync(file.fileno())
    try:
        return of_writes(bench("file", "--path", path, *writers(threads)))
    finally:
        path.unlink()


def append(where):
    path = where / "appended"
    try:
        # Without room beforehand: each append makes the file longer.
        made = appends(path, "8k", PLAN.seconds, "--fsync=1", "--fallocate=none")
        return {"per second": made["per second"], "p50 us": made["p50 us"]}
    finally:
        path.unlink(missing_ok=True)


def files(where, threads):
    return of_files(bench("files", "--path", where, "--threads", threads, "--files", PLAN.files))


def sqlite(where, mode):
    times = []
    with tempfile.TemporaryDirectory(dir=where) as there:
        with contextlib.closing(sqlite3.connect(pathlib.Path(there) / "db", isolation_level=None)) as db:
            (told,) = db.execute(f"PRAGMA journal_mode={mode}").fetchone()
            assert told == mode, f"SQLite keeps its journal as {told}"
            db.execute("PRAGMA synchronous=FULL")
            db.execute("CREATE TABLE rows (id INTEGER PRIMARY KEY, text TEXT)")
            end = time.monotonic() + PLAN.seconds
            while not times or time.monotonic() < end:
                begun = time.perf_counter()
                db.execute("INSERT INTO rows (text) VALUES (?)", ("x" * 100,))
                times.append((time.perf_counter() - begun) * 1e6)
    times.sort()
    at = lambda part: times[min(int(len(times) * part), len(times) - 1)]
    return {"per second": 1e6 / statistics.fmean(times), "p50 us": at(0.5), "p99 us": at(0.99)}


def postgres(tree):
    data, wal = tree.pages / "data", tree.plain / "wal"
    with tempfile.TemporaryDirectory() as beside:
        os.chmod(beside, 0o755)
        sockets = pathlib.Path(beside) / "sockets"
        try:
            with server(data, wal, tree.postgres, sockets):
                fill(sockets, PLAN.scale)
                return {"per second": speed(sockets, CLIENTS, PLAN.seconds)}
        finally:
            for place in (data, wal):
                shutil.rmtree(place, ignore_errors=True)
