//! `fusermount3`: the users' way. It is set-user-id root, mounts for its caller where he may write, and
//! hands the device back through a socket.

use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Command, Stdio};

use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SocketFlags, SocketType, recvmsg,
    socketpair,
};

use engine::MountOptions;

use super::flags;
use super::identity::MountIdentity;
use super::point::{MountPoint, PointEntry, path_of};

const PROGRAM: &str = "fusermount3";
/// Names the descriptor on which the helper answers.
const SOCKET: &str = "_FUSE_COMMFD";

/// Mounts a file system. Returns the device through which requests come.
///
/// # Errors
/// What the helper says.
pub(super) fn mount(point: &MountPoint, options: &MountOptions) -> io::Result<(OwnedFd, MountIdentity)> {
    let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    let words = format!(
        "{},fsname={},subtype=sawmill,default_permissions",
        flags::words(options.flags),
        options.source
    );
    let mut command = Command::new(PROGRAM);
    command.args(["-o", &words, "--", "."]).current_dir(path_of(point.directory.as_fd()));
    // The only descriptor that a child certainly inherits.
    command.env(SOCKET, "0").stdin(Stdio::from(theirs));
    run(command)?;
    let device = receive_device(&ours)?;
    Ok((device, MountIdentity::of(point.entry.open()?)?))
}

/// Unmounts; `lazily` also what is in use.
///
/// # Errors
/// What the helper says.
pub(super) fn unmount(entry: &PointEntry, lazily: bool) -> io::Result<()> {
    let mut command = Command::new(PROGRAM);
    command.arg(if lazily { "-uz" } else { "-u" }).arg("--").arg(&entry.name);
    command.current_dir(path_of(entry.parent.as_fd())).stdin(Stdio::null());
    run(command)
}

fn run(mut command: Command) -> io::Result<()> {
    let output = command.output()?;
    if output.status.success() {
        return Ok(());
    }
    Err(io::Error::other(String::from_utf8_lossy(&output.stderr).trim().to_owned()))
}

fn receive_device(socket: &OwnedFd) -> io::Result<OwnedFd> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    recvmsg(socket, &mut [IoSliceMut::new(&mut byte)], &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
    let rights = ancillary.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut rights) => rights.next(),
        _ => None,
    });
    rights.ok_or_else(|| io::Error::other(format!("{PROGRAM} handed back no device")))
}
