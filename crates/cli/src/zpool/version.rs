//! `zpool version` and `zfs version`: of the commands, and of the daemon if one runs.

use crate::args::{Args, Flag, Spec};
use crate::program::Command;
use crate::session::{Outcome, Session, usage};
use crate::view::json::{Json, document};
use control::DaemonStatusCall;

pub const COMMAND: Command = Command::new(
    Spec {
        name: "version",
        alias: None,
        about: "shows the version of this program and of the daemon",
        flags: &[Flag::switch('j', "as JSON").or("json")],
        operands: "",
    },
    run,
);

fn run(session: &mut Session, args: &Args) -> Outcome {
    if !args.operands.is_empty() {
        return usage("too many arguments");
    }
    let own = format!("sawmill-{}", env!("CARGO_PKG_VERSION"));
    let daemon = session.ask_running(&DaemonStatusCall {}).ok();
    let daemon = daemon.map(|status| format!("sawmill-daemon-{}", status.version));
    if args.has('j') {
        let program = if session.said().command.starts_with("zfs") { "zfs version" } else { "zpool version" };
        let versions = Json::object().with("userland", Json::text(&own));
        let versions = match &daemon {
            Some(daemon) => versions.with("kernel", Json::text(daemon)),
            None => versions,
        };
        writeln!(session.out(), "{}", document(program).with("zfs_version", versions))?;
        return Ok(0);
    }
    writeln!(session.out(), "{own}")?;
    if let Some(daemon) = daemon {
        writeln!(session.out(), "{daemon}")?;
    }
    Ok(0)
}
