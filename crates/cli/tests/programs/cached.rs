//! The kernel's cache of the files of a mount, with mappings that change pages and with writes that
//! bypass the cache.

use std::fs;

use crate::shell::sh;

/// Maps a sparse file, changes some of its pages, and seeks data while the mapping exists.
const MAPPED: &str = r#"
import mmap, os, subprocess
SIZE, STEP, MARK = 8 << 20, 1 << 20, b"DATADATA"
for flags in (0, os.O_DIRECT, os.O_DSYNC):
    path = f"mapped-{flags:x}"
    fd = os.open(path, os.O_RDWR | os.O_CREAT | flags, 0o644)
    os.ftruncate(fd, SIZE)
    mapping = mmap.mmap(fd, SIZE)
    os.close(fd)
    def count(path):
        return open(path, "rb").read().count(MARK)
    for round in range(3):
        for at in range(round * 4096, SIZE, STEP):
            mapping[at:at + len(MARK)] = MARK
        reader = os.open(path, os.O_RDONLY)
        assert os.lseek(reader, round * 4096, os.SEEK_DATA) == round * 4096
        assert os.lseek(reader, STEP // 2, os.SEEK_DATA) >= STEP, "there is a hole before"
        assert os.lseek(reader, round * 4096, os.SEEK_HOLE) >= (round + 1) * 4096
        os.close(reader)
        mapping[SIZE - 8192:SIZE - 8192 + len(MARK)] = MARK
        subprocess.run(["cp", "--sparse=auto", "--reflink=never", path, "copy"], check=True)
        subprocess.run(["tar", "-cSf", "archive.tar", path], check=True)
        os.mkdir("out")
        subprocess.run(["tar", "-xSf", "archive.tar", "-C", "out"], check=True)
        wanted = 8 * (round + 1) + 1
        found = [count(path), count("copy"), count("out/" + path)]
        assert found == [wanted] * 3, (path, round, found, wanted)
        assert os.stat("copy").st_blocks * 512 < SIZE, "holes stay holes"
        os.unlink("out/" + path)
        os.rmdir("out")
    mapping.close()
"#;

#[test]
fn what_a_mapping_changed_is_data_for_who_looks_for_data() {
    let Some(world) = crate::world(&["python3", "cp", "tar"]) else { return };
    fs::write(world.root().join("mapped.py"), MAPPED).expect("a script");
    sh("python3 mapped.py", &world.root());
    world.finish();
}

/// Copies files whose mappings have pages that the kernel has not written yet.
const COPIED: &str = r#"
import mmap, os
SIZE, MARK = 4 << 20, b"DATADATA"
for flags in (0, os.O_DIRECT, os.O_DSYNC):
    path = f"copied-{flags:x}"
    fd = os.open(path, os.O_RDWR | os.O_CREAT | flags, 0o644)
    os.ftruncate(fd, SIZE)
    mapping = mmap.mmap(fd, SIZE)
    for round in range(3):
        for at in range(round * 4096, SIZE, 1 << 20):
            mapping[at:at + len(MARK)] = MARK
        source = os.open(path, os.O_RDONLY)
        target = os.open("copy", os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644)
        done = 0
        while done < SIZE:
            more = os.copy_file_range(source, target, SIZE - done, done, done)
            assert more > 0, done
            done += more
        assert os.pread(target, SIZE, 0) == mapping[:], (path, round)
        # Also from one half of a file to its other half.
        mapping[8192 * round:8192 * round + len(MARK)] = MARK
        assert os.copy_file_range(source, fd, SIZE // 2, 0, SIZE // 2) == SIZE // 2
        assert mapping[SIZE // 2:] == mapping[:SIZE // 2], (path, round)
        os.close(source)
        os.close(target)
    mapping.close()
    os.close(fd)
"#;

#[test]
fn what_a_mapping_changed_is_copied_by_copy_file_range() {
    let Some(world) = crate::world(&["python3"]) else { return };
    fs::write(world.root().join("copied.py"), COPIED).expect("a script");
    sh("python3 copied.py", &world.root());
    world.finish();
}

/// Writes a page directly and asynchronously, again and again, while other threads read the page
/// through the cache and through a mapping. After a write has ended, each read must return its
/// data.
const ASYNCHRONOUS: &str = r#"
import ctypes, mmap, os, struct, threading
libc = ctypes.CDLL(None, use_errno=True)
IO_SETUP, IO_SUBMIT, IO_GETEVENTS, PWRITE, PAGE, PAGES = 206, 209, 208, 1, 4096, 8
context = ctypes.c_ulong(0)
assert libc.syscall(IO_SETUP, 64, ctypes.byref(context)) == 0, ctypes.get_errno()
buffer = mmap.mmap(-1, PAGE * PAGES)
address = ctypes.addressof(ctypes.c_char.from_buffer(buffer))

def submit(fd, page):
    block = ctypes.create_string_buffer(struct.pack("QIIHhIQQqQII", page, 0, 0, PWRITE, 0, fd, address + page * PAGE, PAGE, page * PAGE, 0, 0, 0))
    pointers = (ctypes.c_void_p * 1)(ctypes.addressof(block))
    assert libc.syscall(IO_SUBMIT, context, 1, pointers) == 1, ctypes.get_errno()
    return block

def wait():
    event = ctypes.create_string_buffer(32)
    assert libc.syscall(IO_GETEVENTS, context, 1, 1, event, None) == 1, ctypes.get_errno()
    result = struct.unpack("QQqq", event.raw)[2]
    assert result == PAGE, result

for flags in (os.O_DIRECT, os.O_DIRECT | os.O_DSYNC):
    path = f"written-{flags:x}"
    fd = os.open(path, os.O_RDWR | os.O_CREAT | flags, 0o644)
    os.ftruncate(fd, PAGE * PAGES)
    reader = os.open(path, os.O_RDONLY)
    mapping = mmap.mmap(reader, PAGE * PAGES, prot=mmap.PROT_READ)
    ends = threading.Event()
    def keep_reading():
        own = os.open(path, os.O_RDONLY)
        while not ends.is_set():
            for page in range(PAGES):
                os.pread(own, 8, page * PAGE)
    readers = [threading.Thread(target=keep_reading) for _ in range(2)]
    [thread.start() for thread in readers]
    try:
        for version in range(1, 150):
            wanted = struct.pack("Q", version)
            for page in range(PAGES):
                buffer[page * PAGE:page * PAGE + 8] = wanted
            blocks = [submit(fd, page) for page in range(PAGES)]
            [wait() for _ in blocks]
            for page in range(PAGES):
                read = os.pread(reader, 8, page * PAGE)
                mapped = mapping[page * PAGE:page * PAGE + 8]
                assert (read, mapped) == (wanted, wanted), (path, version, page, read, mapped)
    finally:
        ends.set()
        [thread.join() for thread in readers]
    mapping.close()
"#;

#[test]
fn a_buffered_read_sees_an_asynchronous_direct_write_that_has_ended() {
    for rings in [false, true] {
        let world = if rings { crate::world_over_rings(&["python3"]) } else { crate::world(&["python3"]) };
        let Some(world) = world else { continue };
        fs::write(world.root().join("written.py"), ASYNCHRONOUS).expect("a script");
        sh("timeout 120 python3 written.py", &world.root());
        world.finish();
    }
}
