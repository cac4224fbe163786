//! `zfs`: datasets.

mod create;
mod destroy;
mod get;
mod list;
mod mount;
mod rename;
mod select;
mod set;

use crate::program::{Command, Kind, Program};

/// The commands, in the order of the usage list.
pub const PROGRAM: Program = Program {
    name: "zfs",
    about: "file systems and their properties",
    kind: Kind::OpenZfs,
    commands: &[
        VERSION,
        create::COMMAND,
        destroy::COMMAND,
        rename::COMMAND,
        list::COMMAND,
        set::SET,
        get::COMMAND,
        set::INHERIT,
        mount::MOUNT,
        mount::UNMOUNT,
    ],
};

const VERSION: Command = crate::zpool::VERSION;
