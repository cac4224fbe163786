"""A PostgreSQL server with its files in directories to be measured, and pgbench asking it through a socket."""

import contextlib
import glob
import pathlib
import re
import shutil

from benchmounts import run

USER = "postgres"
OF_ALL = ["listen_addresses=''", "shared_buffers=128MB", "max_wal_size=1GB", "checkpoint_timeout=1min"]
# As the books on databases on ZFS say: a block is written whole or not at all, and log files are neither filled nor used
# again.
ON_ZFS = ["full_page_writes=off", "wal_init_zero=off", "wal_recycle=off"]


def programs():
    """The directory of the newest server's programs, or nothing."""
    found = sorted(glob.glob("/usr/lib/postgresql/*/bin"))
    return pathlib.Path(found[-1]) if found else None


def as_user(*words, **more):
    return run("setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups", *words, cwd="/", **more)


@contextlib.contextmanager
def server(data, wal, settings, sockets):
    """A new server with its data and its write-ahead log in these directories, whose parents `postgres` may enter."""
    for place in (data, wal, sockets):
        place.mkdir(exist_ok=True)
        shutil.chown(place, USER, USER)
    as_user(programs() / "initdb", "-D", data / "pg", "-X", wal / "pg", "--no-sync", "-A", "trust")
    options = " ".join(f"-c {setting}" for setting in [*settings, f"unix_socket_directories={sockets}"])
    as_user(programs() / "pg_ctl", "-D", data / "pg", "-w", "-l", sockets / "log", "-o", options, "start")
    try:
        yield
    finally:
        as_user(programs() / "pg_ctl", "-D", data / "pg", "-w", "-m", "fast", "stop")


def fill(sockets, scale):
    """pgbench's tables, of 15 MB for each of `scale`, stable."""
    as_user("pgbench", "-h", sockets, "-i", "-q", "-s", scale, "postgres", stderr=-3)
    as_user("psql", "-h", sockets, "-qc", "CHECKPOINT", "postgres")


def speed(sockets, clients, seconds, *how):
    """Transactions a second."""
    words = ("pgbench", "-h", sockets, "-c", clients, "-j", "2", "-T", seconds, *how, "postgres")
    return float(re.search(r"tps = ([0-9.]+)", as_user(*words, stderr=-3).decode())[1])
