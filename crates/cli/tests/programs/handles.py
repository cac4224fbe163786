"""Takes handles of files by name_to_handle_at(2), and opens files by open_by_handle_at(2).

    handles.py take PATH ...           prints a handle a line, as hexadecimal digits
    handles.py forge NUMBER ...        prints a handle a line: of an inode of that number, generation 1
    handles.py open DIRECTORY < lines  prints a line for each handle: the contents, the names, or the error
"""

import ctypes
import errno
import os
import stat
import struct
import sys

AT_FDCWD = -100
BYTES_MAX = 128
# FILEID_INO64_GEN: the upper and the lower half of the number, and the generation.
INO64_GEN = 0x81


class Handle(ctypes.Structure):
    _fields_ = [("len", ctypes.c_uint), ("kind", ctypes.c_int), ("data", ctypes.c_ubyte * BYTES_MAX)]


libc = ctypes.CDLL(None, use_errno=True)


def show(kind, data):
    print(struct.pack("<i", kind).hex() + bytes(data).hex())


def take(path):
    handle, mount = Handle(len=BYTES_MAX), ctypes.c_int()
    if libc.name_to_handle_at(AT_FDCWD, path.encode(), ctypes.byref(handle), ctypes.byref(mount), 0) != 0:
        raise OSError(ctypes.get_errno(), path)
    show(handle.kind, handle.data[: handle.len])


def opened(directory, line):
    raw = bytes.fromhex(line)
    data = raw[4:]
    handle = Handle(len=len(data), kind=struct.unpack("<i", raw[:4])[0])
    ctypes.memmove(handle.data, data, len(data))
    descriptor = libc.open_by_handle_at(directory, ctypes.byref(handle), os.O_RDONLY)
    if descriptor < 0:
        return errno.errorcode[ctypes.get_errno()]
    if stat.S_ISDIR(os.fstat(descriptor).st_mode):
        return " ".join([os.readlink(f"/proc/self/fd/{descriptor}"), *sorted(os.listdir(descriptor))])
    return os.read(descriptor, 100).decode().rstrip("\n")


match sys.argv[1:]:
    case ["take", *paths]:
        for path in paths:
            take(path)
    case ["forge", *numbers]:
        for number in map(int, numbers):
            show(INO64_GEN, struct.pack("<III", number >> 32, number & 0xFFFFFFFF, 1))
    case ["open", path]:
        directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        for line in sys.stdin.read().split():
            print(opened(directory, line))
