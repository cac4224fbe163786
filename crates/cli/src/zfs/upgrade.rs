//! `zfs upgrade`: versions of file systems, and how file systems get newer ones.

use super::select::{Depth, Kinds, Shown, find, select};
use crate::args::{Args, Flag, Spec};
use crate::program::Command;
use crate::session::{Outcome, Session, Stop, usage};
use control::{DatasetInfo, DatasetSet, Value};

/// The version that file systems have here.
const CURRENT: u64 = zpl::ZPL_VERSION;

/// Versions, with what each brought.
const VERSIONS: [&str; 5] = [
    "Initial ZFS filesystem version",
    "Enhanced directory entries",
    "Case insensitive and filesystem user identifier (FUID)",
    "userquota, groupquota properties",
    "System attributes",
];

pub const COMMAND: Command = Command::new(
    Spec {
        name: "upgrade",
        alias: None,
        about: "shows file systems of old versions, or brings them to a newer one",
        flags: &[
            Flag::switch('a', "all file systems"),
            Flag::switch('r', "and all below"),
            Flag::switch('v', "show the versions that there are"),
            Flag::value('V', "version", "to this version"),
        ],
        operands: "[-a | filesystem ...]",
    },
    run,
);

fn run(session: &mut Session, args: &Args) -> Outcome {
    let to = match args.value('V') {
        None => None,
        Some("current") => Some(CURRENT),
        Some(text) => match text.parse() {
            Ok(version) if (1..=CURRENT).contains(&version) => Some(version),
            _ => return usage(format!("invalid version {text}")),
        },
    };
    let (all, named, more) = (args.has('a'), !args.operands.is_empty(), args.has('r') || to.is_some());
    match (args.has('v'), all || named) {
        (true, true) => usage(""),
        (_, false) if more => usage(""),
        _ if all && named => usage(""),
        (true, false) => show_versions(session),
        (false, true) => upgrade(session, args, to.unwrap_or(CURRENT)),
        (false, false) => list(session),
    }
}

fn show_versions(session: &mut Session) -> Outcome {
    let out = session.out();
    writeln!(out, "The following filesystem versions are supported:\n\nVER  DESCRIPTION")?;
    writeln!(out, "---  {}", "-".repeat(56))?;
    for (number, brought) in (1..).zip(VERSIONS) {
        writeln!(out, "{number:2}   {brought}")?;
    }
    writeln!(out, "\nFor more information on a particular version, including supported releases,")?;
    writeln!(out, "see the ZFS Administration Guide.\n")?;
    Ok(0)
}

/// The version of a file system; none where it cannot be told.
fn version(dataset: &DatasetInfo) -> Option<u64> {
    match dataset.props.get("version")?.value {
        Value::Number(version) => Some(version),
        Value::Text(_) | Value::Absent => None,
    }
}

fn list(session: &mut Session) -> Outcome {
    let (all, _) = select(session, &[], Depth::ALL, Shown::everywhere(Kinds::FILESYSTEMS), "all", false)?;
    writeln!(session.out(), "This system is currently running ZFS filesystem version {CURRENT}.\n")?;
    let older = "The following filesystems are out of date, and can be upgraded.  After being\n\
                 upgraded, these filesystems (and any 'zfs send' streams generated from\n\
                 subsequent snapshots) will no longer be accessible by older software versions.\n";
    let newer = "The following filesystems are formatted using a newer software version and\n\
                 cannot be accessed on the current system.\n";
    let mut any = false;
    for (told, is_meant) in [(older, is_older as fn(u64) -> bool), (newer, is_newer)] {
        let those: Vec<(u64, &str)> = all
            .iter()
            .filter_map(|dataset| Some((version(dataset)?, dataset.name.as_str())))
            .filter(|(version, _)| is_meant(*version))
            .collect();
        if those.is_empty() {
            continue;
        }
        any = true;
        writeln!(session.out(), "{told}\n\nVER  FILESYSTEM\n---  ------------")?;
        for (version, name) in those {
            writeln!(session.out(), "{version:2}   {name}")?;
        }
    }
    if !any {
        writeln!(session.out(), "All filesystems are formatted with the current version.")?;
    }
    Ok(0)
}

fn is_older(version: u64) -> bool {
    version < CURRENT
}

/// The request that gives a file system this version.
fn newer(name: &str, version: u64) -> DatasetSet {
    let props = vec![("version".to_owned(), version.to_string())];
    DatasetSet { name: name.to_owned(), props, keep_mounted: true, maker: None }
}

fn is_newer(version: u64) -> bool {
    version > CURRENT
}

fn upgrade(session: &mut Session, args: &Args, to: u64) -> Outcome {
    for name in &args.operands {
        find(session, name)?;
    }
    let depth = if args.has('r') || args.has('a') { Depth::ALL } else { Depth::NONE };
    let shown = Shown::everywhere(Kinds::FILESYSTEMS);
    let (those, mut code) = select(session, &args.operands, depth, shown, "all", false)?;
    let (mut same, mut upgraded) = (0, 0);
    for dataset in &those {
        match version(dataset) {
            Some(version) if version == to => same += 1,
            Some(version) if version > to => {
                let name = &dataset.name;
                writeln!(session.out(), "{name}: can not be downgraded; it is already at version {version}")?;
                code = 1;
            }
            _ => match session.ask(&newer(&dataset.name, to)) {
                Ok(()) => upgraded += 1,
                Err(Stop::Failed(refused)) => {
                    session.complain(&refused);
                    code = 1;
                }
                Err(stop) => return Err(stop),
            },
        }
    }
    writeln!(session.out(), "{upgraded} filesystems upgraded")?;
    if same > 0 {
        writeln!(session.out(), "{same} filesystems already at this version")?;
    }
    Ok(code)
}
