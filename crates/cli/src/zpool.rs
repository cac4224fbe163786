//! `zpool`: pools and their devices.

mod add;
mod attach;
mod checkpoint;
mod create;
mod detach;
mod devices;
mod events;
mod get;
mod history;
mod import;
mod iostat;
mod labelclear;
mod list;
mod pools;
mod presence;
mod reguid;
mod remove;
mod repeat;
mod scripts;
mod scrub;
mod set;
mod split;
mod status;
mod sweep;
mod upgrade;
mod version;
mod wait;

use crate::program::{Command, Kind, Program};

pub(crate) use import::search;
pub(crate) use pools::find as find_pool;

/// `zfs` has it, too.
pub const VERSION: Command = version::COMMAND;

/// The commands, in the order of the usage list.
pub const PROGRAM: Program = Program {
    name: "zpool",
    about: "pools and their devices",
    kind: Kind::OpenZfs,
    commands: &[
        version::COMMAND,
        create::COMMAND,
        pools::DESTROY,
        labelclear::COMMAND,
        checkpoint::COMMAND,
        add::COMMAND,
        remove::COMMAND,
        list::COMMAND,
        iostat::COMMAND,
        status::COMMAND,
        attach::ATTACH,
        detach::COMMAND,
        attach::REPLACE,
        presence::ONLINE,
        presence::OFFLINE,
        presence::REOPEN,
        split::COMMAND,
        reguid::COMMAND,
        sweep::INITIALIZE,
        sweep::TRIM,
        scrub::CLEAR,
        scrub::SCRUB,
        scrub::RESILVER,
        scrub::PREFETCH,
        history::COMMAND,
        events::COMMAND,
        import::COMMAND,
        pools::EXPORT,
        upgrade::COMMAND,
        get::COMMAND,
        set::COMMAND,
        pools::SYNC,
        wait::COMMAND,
    ],
};
