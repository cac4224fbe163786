"""File systems to be measured beside each other: pools with daemons of their own, and ext4, on new files of one directory.

ext4 lies on a loop device with direct I/O over a file beside the pools' devices, with its own defaults.
"""

import contextlib
import os
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent
SAWMILL = pathlib.Path(os.environ.get("BENCH_PROGRAM", ROOT / "target/release/sawmill"))
BASE = os.environ.get("BENCH_DIR", ROOT / "target")
DEVICE_BYTES = 8 << 30


def run(*words, check=True, **more):
    return subprocess.run([str(word) for word in words], check=check, stdout=subprocess.PIPE, **more).stdout


def room(path, size=DEVICE_BYTES):
    """A file with that many bytes of its own."""
    with open(path, "wb") as file:
        os.posix_fallocate(file.fileno(), 0, size)
    return path


@contextlib.contextmanager
def ext4(where, size=DEVICE_BYTES):
    """A new ext4 file system; where it is mounted."""
    mount, device = where / "ext4", room(where / "ext4.image", size)
    mount.mkdir()
    loop = run("losetup", "--find", "--show", "--direct-io=on", device).decode().strip()
    run("mkfs.ext4", "-q", "-E", "lazy_itable_init=0,lazy_journal_init=0", loop)
    run("mount", loop, mount)
    try:
        yield mount
    finally:
        run("umount", mount)
        run("losetup", "--detach", loop)


@contextlib.contextmanager
def pool(where, log=None, size=DEVICE_BYTES, main=None, properties=()):
    """A new pool called `bench`, with its own daemon, on the file `main` or a new one of that size, and a log on that file
    if there is one; where it is mounted. The properties are its file system's."""
    mount = where / "pool"
    os.environ["SAWMILL_RUN"] = str(where / "run")
    logs = ["log", log] if log else []
    options = [word for setting in properties for word in ("-O", setting)]
    run(SAWMILL, "zpool", "create", *options, "-m", mount, "bench", main or room(where / "main", size), *logs)
    try:
        yield mount
    finally:
        # There may be others beside it.
        os.environ["SAWMILL_RUN"] = str(where / "run")
        run(SAWMILL, "zpool", "destroy", "bench")
        run(SAWMILL, "daemon", "stop")
