"""Shows SOURCE at TARGET with ids shifted: who is 0 to 65535 there is 100000 to 165535 here. Exits with 3 where the file
system allows no such mount. Debian 12's mount(8) cannot do it yet."""

import ctypes
import errno
import os
import struct
import sys

SYS_OPEN_TREE, SYS_MOVE_MOUNT, SYS_MOUNT_SETATTR = 428, 429, 442
AT_FDCWD, AT_EMPTY_PATH = -100, 0x1000
OPEN_TREE_CLONE, MOVE_MOUNT_F_EMPTY_PATH, MOUNT_ATTR_IDMAP = 1, 4, 0x00100000
CLONE_NEWUSER = 0x10000000

libc = ctypes.CDLL(None, use_errno=True)


def call(number, *args):
    args = [ctypes.c_long(arg) if isinstance(arg, int) else arg for arg in args]
    result = libc.syscall(ctypes.c_long(number), *args)
    if result < 0:
        raise OSError(ctypes.get_errno(), f"system call {number}")
    return result


def shifting_namespace():
    """A user namespace that maps 0 to 100000, and on."""
    ready, told = os.pipe()
    hold, release = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(release)
        libc.unshare(CLONE_NEWUSER)
        os.write(told, b"x")
        os.read(hold, 1)
        os._exit(0)
    os.read(ready, 1)
    for kind in ("uid_map", "gid_map"):
        with open(f"/proc/{child}/{kind}", "w") as file:
            file.write("0 100000 65536")
    namespace = os.open(f"/proc/{child}/ns/user", os.O_RDONLY)
    os.close(release)
    os.waitpid(child, 0)
    return namespace


def main(source, target):
    tree = call(SYS_OPEN_TREE, AT_FDCWD, source.encode(), OPEN_TREE_CLONE)
    attributes = struct.pack("=QQQQ", MOUNT_ATTR_IDMAP, 0, 0, shifting_namespace())
    try:
        call(SYS_MOUNT_SETATTR, tree, b"", AT_EMPTY_PATH, attributes, len(attributes))
    except OSError as error:
        sys.exit(3 if error.errno == errno.EINVAL else str(error))
    call(SYS_MOVE_MOUNT, tree, b"", AT_FDCWD, target.encode(), MOVE_MOUNT_F_EMPTY_PATH)


main(*sys.argv[1:])
