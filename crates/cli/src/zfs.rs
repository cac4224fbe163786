//! `zfs`: datasets.

mod allow;
mod bookmark;
mod clone;
mod create;
mod destroy;
mod diff;
mod get;
mod hold;
mod list;
mod mount;
mod owners;
mod project;
mod props;
mod receive;
mod redact;
mod rename;
mod rewrite;
mod rollback;
mod select;
mod send;
mod set;
mod snapshot;
mod upgrade;
mod userspace;
mod wait;

use crate::program::{Command, Kind, Program};
pub use select::dataset_at;

/// The commands, in the order of the usage list.
pub const PROGRAM: Program = Program {
    name: "zfs",
    about: "file systems and their properties",
    kind: Kind::OpenZfs,
    commands: &[
        VERSION,
        create::COMMAND,
        destroy::COMMAND,
        snapshot::COMMAND,
        rollback::COMMAND,
        clone::CLONE,
        clone::PROMOTE,
        rename::COMMAND,
        bookmark::COMMAND,
        list::COMMAND,
        set::SET,
        get::COMMAND,
        set::INHERIT,
        upgrade::COMMAND,
        userspace::USERSPACE,
        userspace::GROUPSPACE,
        userspace::PROJECTSPACE,
        project::COMMAND,
        mount::MOUNT,
        mount::UNMOUNT,
        hold::HOLD,
        hold::HOLDS,
        hold::RELEASE,
        diff::COMMAND,
        send::COMMAND,
        receive::COMMAND,
        redact::COMMAND,
        rewrite::COMMAND,
        allow::ALLOW,
        allow::UNALLOW,
        wait::COMMAND,
    ],
};

const VERSION: Command = crate::zpool::VERSION;
