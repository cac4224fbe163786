//! Sockets: a network namespace without an interface.
//!
//! Sockets of TCP, UDP and netlink belong to a network namespace, and so do Unix sockets with an
//! abstract name. In a namespace of its own, the process reaches none of the host, also by
//! operations of io_uring, which seccomp does not see. Unix sockets with a path belong to the file
//! system and are still there.

use nix::errno::Errno;
use nix::sched::{CloneFlags, unshare};

/// What became of the namespaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NetworkWall {
    /// The process has namespaces of its own for the network and for System V IPC.
    Own,
    /// The kernel has refused, as in a container without CAP_SYS_ADMIN. Then Landlock alone closes
    /// the sockets of the host: TCP and abstract names, and UDP since its tenth version.
    Refused(Errno),
}

/// Leaves the network of the host, and its message queues and shared memory of System V.
pub(crate) fn leave_network() -> NetworkWall {
    let left = unshare(CloneFlags::CLONE_NEWNET | CloneFlags::CLONE_NEWIPC);
    left.map_or_else(NetworkWall::Refused, |()| NetworkWall::Own)
}
