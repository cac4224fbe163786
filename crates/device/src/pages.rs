//! What programs have changed in a file's pages, on its way from the system to the server of its file system.
//!
//! `syncfs(2)` has the system begin to hand over all of it, and returns: for file systems that a program serves it does
//! not wait until they have it (Linux since 6.18 by intent, before because it handed over copies of pages). A file by
//! itself is waited for.

use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

/// `FILEID_INO64_GEN` of `linux/exportfs.h`: how FUSE and others name a file.
const INODE_AND_GENERATION: libc::c_int = 0x81;

/// `struct file_handle`, with the words that follow it.
#[repr(C)]
struct FileHandle {
    handle_bytes: libc::c_uint,
    handle_type: libc::c_int,
    words: [u32; 3],
}

/// Waits until a file of the FUSE file system at `mount`, which the system remembers, has been handed over with all that
/// was changed in it before. The file is opened for that, and closed.
///
/// # Errors
/// `ESTALE` when the system does not remember it, `EPERM` for who may not open a file without its name.
pub fn wait_for_pages(mount: impl AsFd, inode: u64, generation: u32) -> io::Result<()> {
    let file = open_by_handle(mount, inode, generation)?;
    sync_pages(&file)
    // Where it is closed, a system that hands over copies of pages waits for these.
}

#[expect(unsafe_code, reason = "a system call that no crate has in safe words")]
fn open_by_handle(mount: impl AsFd, inode: u64, generation: u32) -> io::Result<OwnedFd> {
    let words = [(inode >> 32) as u32, inode as u32, generation];
    let mut handle =
        FileHandle { handle_bytes: size_of_val(&words) as u32, handle_type: INODE_AND_GENERATION, words };
    // Without O_DIRECT, the kernel would wait here until no direct write of the file is under way,
    // whatever that write waits for. Later direct writes of the file would wait for each other. A
    // signal does not end the wait, so a killed server would never end either.
    // (test: `a_daemon_is_killed_while_a_snapshot_and_a_direct_write_wait_for_the_log`)
    let flags = libc::O_RDONLY | libc::O_CLOEXEC | libc::O_DIRECT;
    // SAFETY: the system reads a `struct file_handle` and the `handle_bytes` bytes behind it, which are all of
    // `handle`; that lives during the call, and nobody else has it.
    let opened = unsafe {
        libc::open_by_handle_at(
            mount.as_fd().as_raw_fd(),
            (&raw mut handle).cast::<libc::file_handle>(),
            flags,
        )
    };
    if opened < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new, and nobody else knows of it.
    Ok(unsafe { OwnedFd::from_raw_fd(opened) })
}

#[expect(unsafe_code, reason = "a system call that no crate has in safe words")]
fn sync_pages(file: &OwnedFd) -> io::Result<()> {
    let how =
        libc::SYNC_FILE_RANGE_WAIT_BEFORE | libc::SYNC_FILE_RANGE_WRITE | libc::SYNC_FILE_RANGE_WAIT_AFTER;
    // SAFETY: the call takes numbers only.
    match unsafe { libc::sync_file_range(file.as_raw_fd(), 0, 0, how) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
