//! `fusermount3`: the users' way. It is set-user-id root, mounts for its caller where he may write, and
//! hands the device back through a socket.
//!
//! The kernel lets no set-user-id program into a mount that is only for its user, so that a mount inside such a mount is
//! refused. Where `/etc/fuse.conf` allows `allow_other`, mounts are for everybody, as far as modes and owners allow.

use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Command, Stdio};

use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SocketFlags, SocketType, recvmsg,
    socketpair,
};

use engine::{MountOptions, names};

use super::flags;
use super::identity::MountIdentity;
use super::point::{MountPoint, PointEntry, path_of};

const PROGRAM: &str = "fusermount3";
/// What the administrator allows users.
const CONFIGURATION: &str = "/etc/fuse.conf";
/// What the helper says of a mount point that it may not look at.
const NO_ACCESS: &str = "failed to access mountpoint";
/// Names the descriptor on which the helper answers.
const SOCKET: &str = "_FUSE_COMMFD";

/// Mounts a file system. Returns the device through which requests come.
///
/// # Errors
/// What the helper says.
pub(super) fn mount(point: &MountPoint, options: &MountOptions) -> io::Result<(OwnedFd, MountIdentity)> {
    let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    let is_for_all = allows_other(&std::fs::read_to_string(CONFIGURATION).unwrap_or_default());
    let words = words(options, is_for_all)?;
    let mut command = Command::new(PROGRAM);
    command.args(["-o", &words, "--", "."]).current_dir(path_of(point.directory.as_fd()));
    // The only descriptor that a child certainly inherits.
    command.env(SOCKET, "0").stdin(Stdio::from(theirs));
    run(command).map_err(|error| explained(error, is_for_all))?;
    let device = receive_device(&ours)?;
    Ok((device, MountIdentity::of(point.entry.open()?)?))
}

/// Returns the options of a mount. The helper splits them at commas, so that a name with a comma would add
/// options of its own.
///
/// # Errors
/// When the source is no name that a dataset may have.
fn words(options: &MountOptions, is_for_all: bool) -> io::Result<String> {
    let source = &options.source;
    names::check_dataset(source)
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error.to_string()))?;
    let flags = flags::words(options.flags);
    let others = if is_for_all { ",allow_other" } else { "" };
    Ok(format!("{flags},fsname={source},subtype=sawmill,default_permissions{others}"))
}

/// True if the configuration lets users make mounts for everybody.
fn allows_other(configuration: &str) -> bool {
    configuration.lines().any(|line| line.trim() == "user_allow_other")
}

/// Adds the way out where a mount point is inside a mount that is only for its user.
fn explained(error: io::Error, is_for_all: bool) -> io::Error {
    match error.to_string() {
        text if text.contains(NO_ACCESS) && !is_for_all => io::Error::new(
            io::ErrorKind::PermissionDenied,
            format!(
                "users cannot mount inside their own FUSE mounts: choose another directory with the property \
                 'mountpoint', or have root add the line 'user_allow_other' to {CONFIGURATION}"
            ),
        ),
        _ => error,
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_no_dataset_may_have_adds_no_options() {
        let words = |source: &str| {
            words(&MountOptions { source: source.to_owned(), ..MountOptions::default() }, false)
        };
        let plain = words("tank/a b").expect("a name");
        assert_eq!(plain, "rw,nosuid,nodev,fsname=tank/a b,subtype=sawmill,default_permissions");
        assert!(
            super::words(&MountOptions { source: "tank".into(), ..MountOptions::default() }, true)
                .is_ok_and(|words| words.ends_with(",default_permissions,allow_other"))
        );
        for source in ["tank/a,suid", "tank/a\\", "tank/a\n", "tank/../etc", "tank/a@b", ""] {
            assert!(words(source).is_err(), "{source:?}");
        }
    }

    #[test]
    fn the_configuration_says_who_may_see_the_mounts_of_users() {
        assert!(allows_other("# a\nmount_max = 5\n user_allow_other \n"));
        assert!(!allows_other("#user_allow_other\n"));
        assert!(!allows_other(""));
    }
}
