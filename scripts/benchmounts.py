"""File systems to be measured beside each other, on new files of one directory or on devices that are there: pools with
daemons of their own, and the kernel's: ext4, XFS and btrfs.

The kernel's lie on loop devices with direct I/O over files beside the pools' devices.
"""

import contextlib
import os
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent
SAWMILL = pathlib.Path(os.environ.get("BENCH_PROGRAM", ROOT / "target/release/sawmill")).resolve()
# The daemon takes no device and no directory by a path that is not whole.
BASE = pathlib.Path(os.environ.get("BENCH_DIR", ROOT / "target")).resolve()
DEVICE_BYTES = 8 << 30


def run(*words, check=True, **more):
    return subprocess.run([str(word) for word in words], check=check, stdout=subprocess.PIPE, **more).stdout


def room(path, size=DEVICE_BYTES):
    """A file with that many bytes of its own."""
    with open(path, "wb") as file:
        os.posix_fallocate(file.fileno(), 0, size)
    return path


@contextlib.contextmanager
def loop(path):
    """A loop device with direct I/O over that file."""
    device = run("losetup", "--find", "--show", "--direct-io=on", path).decode().strip()
    try:
        yield device
    finally:
        run("losetup", "--detach", device)


@contextlib.contextmanager
def mounted(where, device, options=()):
    """The file system of a device, mounted there."""
    where.mkdir()
    run("mount", *(word for option in options for word in ("-o", option)), device, where)
    try:
        yield where
    finally:
        run("umount", where)
        where.rmdir()


def make_ext4(device, *options, extended=()):
    """What mkfs would leave to be done while it is measured is done first."""
    extended = ("lazy_itable_init=0", "lazy_journal_init=0", *extended)
    run("mkfs.ext4", "-F", "-q", "-E", ",".join(extended), *options, device)


@contextlib.contextmanager
def ext4(where, size=DEVICE_BYTES):
    """A new ext4 file system with its own defaults; where it is mounted."""
    with loop(room(where / "ext4.image", size)) as device:
        make_ext4(device)
        with mounted(where / "ext4", device) as mount:
            yield mount


@contextlib.contextmanager
def pool(where, log=None, size=DEVICE_BYTES, main=None, properties=()):
    """A new pool called `bench`, with its own daemon, on the file `main` or a new one of that size, and a log on that file
    if there is one; where it is mounted. The properties are its file system's."""
    mount = where / "pool"
    os.environ["SAWMILL_RUN"] = str(where / "run")
    logs = ["log", log] if log else []
    options = [word for setting in properties for word in ("-O", setting)]
    devices = [main or room(where / "main", size), *logs]
    try:
        run(SAWMILL, "zpool", "create", *options, "-m", mount, "bench", *devices)
        yield mount
    finally:
        # There may be others beside it.
        os.environ["SAWMILL_RUN"] = str(where / "run")
        run(SAWMILL, "zpool", "destroy", "bench", check=False)
        run(SAWMILL, "daemon", "stop")
