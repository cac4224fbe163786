"""What bench/compare compares: each way of storing on the same two devices, as its own users would set it up.

Devices are two loop devices with direct I/O over files that were written once. Everything lies on them: pools in process and
mounted, OpenZFS in user space, and the kernel's file systems.

- Pools, ours and OpenZFS's: as created; a dataset with recordsize=8K for random writes of 8 KiB and for databases, as both
  projects' documents advise. PostgreSQL has its settings for ZFS there (scripts/benchpostgres.py).
- ext4: mkfs's defaults and data=ordered. `+journal` has its journal on the second device; `+data-journal` has data go
  there first, too (data=journal), which is nearest to what a log device does.
- XFS: mkfs's defaults, logbsize=256k, which its documents advise for many syncs. `+log` has its log on the second device.
- btrfs: mkfs's and mount's defaults, with its tree log, which is what makes its fsync quick. It has no log device.
- Nowhere are times of access kept (atime=off, noatime), and nothing is discarded: that would take away the files' blocks below
  the devices. What mkfs would leave to be done later is done before.
"""

import contextlib
import os
import shutil

from benchmounts import ROOT, SAWMILL, make_ext4, mounted, pool, run
from benchpostgres import OF_ALL, ON_ZFS
from loads import Tree, in_process, on_opponent, on_tree

# An external log or journal has no more: XFS would not take more than 2 GiB.
JOURNAL_MIB = 512


class Devices:
    """The main device and the one for logs, with links to them in a directory for what is beside them."""

    def __init__(self, where, main, log):
        self.where = where
        self.main, self.log = main, log

    def link(self, name):
        """A path in the directory: OpenZFS in user space leaves a file beside a device's path."""
        path = self.where / name
        path.unlink(missing_ok=True)
        path.symlink_to(getattr(self, name))
        return path


@contextlib.contextmanager
def engine(devices, has_log):
    yield in_process(devices.main, devices.log if has_log else None)


@contextlib.contextmanager
def openzfs(devices, has_log):
    program = run(ROOT / "scripts/opponent").decode().strip()
    yield on_opponent(program, devices.link("main"), devices.link("log") if has_log else None)


@contextlib.contextmanager
def mount(devices, has_log):
    with pool(devices.where, devices.log if has_log else None, main=devices.main, properties=["atime=off"]) as top:
        run(SAWMILL, "zfs", "create", "-o", "recordsize=8K", "bench/pages")
        yield on_tree(Tree(plain=top, pages=top / "pages", postgres=OF_ALL + ON_ZFS))


@contextlib.contextmanager
def linux(devices, options=()):
    """The file system that the main device has by now."""
    with mounted(devices.where / "mount", devices.main, ("noatime", *options)) as top:
        yield on_tree(Tree(plain=top, pages=top, postgres=OF_ALL))


@contextlib.contextmanager
def ext4(devices, options=(), journal=False):
    words = []
    if journal:
        run("mke2fs", "-F", "-q", "-b", "4096", "-O", "journal_dev", devices.log, f"{JOURNAL_MIB}m")
        words = ["-b", "4096", "-J", f"device={devices.log}"]
    make_ext4(devices.main, *words, extended=("nodiscard",))
    with linux(devices, options) as loads:
        yield loads


@contextlib.contextmanager
def xfs(devices, has_log):
    logs = (f"logdev={devices.log}",) if has_log else ()
    words = ("-l", f"{logs[0]},size={JOURNAL_MIB}m") if has_log else ()
    run("mkfs.xfs", "-f", "-q", "-K", *words, devices.main)
    with linux(devices, ("logbsize=256k", *logs)) as loads:
        yield loads


@contextlib.contextmanager
def btrfs(devices):
    run("mkfs.btrfs", "-f", "-q", "-K", devices.main)
    with linux(devices, ("nodiscard",)) as loads:
        yield loads


SYSTEMS = {
    "engine": lambda devices: engine(devices, False),
    "engine+log": lambda devices: engine(devices, True),
    "openzfs": lambda devices: openzfs(devices, False),
    "openzfs+log": lambda devices: openzfs(devices, True),
    "mount": lambda devices: mount(devices, False),
    "mount+log": lambda devices: mount(devices, True),
    "ext4": ext4,
    "ext4+journal": lambda devices: ext4(devices, journal=True),
    "ext4+data-journal": lambda devices: ext4(devices, ("data=journal",), journal=True),
    "xfs": lambda devices: xfs(devices, False),
    "xfs+log": lambda devices: xfs(devices, True),
    "btrfs": btrfs,
}
# What each of them needs; the pools need nothing.
NEEDS = {"openzfs": "/usr/include/libzfs", "ext4": "mkfs.ext4", "xfs": "mkfs.xfs", "btrfs": "mkfs.btrfs"}


def is_there(name):
    needed = NEEDS.get(name.partition("+")[0])
    return needed is None or bool(shutil.which(needed)) or os.path.isdir(needed)
