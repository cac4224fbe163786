//! `zfs mount` and `zfs unmount`.

use super::select::find;
use crate::args::{Args, Flag, Spec};
use crate::mount_helper;
use crate::program::Command;
use crate::session::{Outcome, Session, usage};
use crate::view::json::{Json, document};
use control::{Failure, FailureKind, Mount, Mounts, Unmount};

pub const MOUNT: Command = Command::new(
    Spec {
        name: "mount",
        alias: None,
        about: "mounts file systems, or shows what is mounted",
        flags: &[
            Flag::switch('a', "all that are to be mounted by themselves"),
            Flag::switch('f', "also what was received redacted, and what is in use"),
            Flag::switch('j', "as JSON").or("json"),
            Flag::switch('l', "load keys first (there are none)"),
            Flag::switch('O', "over a directory that is not empty"),
            Flag::switch('R', "and all below that are to be mounted by themselves"),
            Flag::switch('v', "tell how far it is"),
            Flag::value('o', "opts", "mount options"),
        ],
        operands: "[-a | -R filesystem ... | filesystem]",
    },
    mount,
);

pub const UNMOUNT: Command = Command::new(
    Spec {
        name: "unmount",
        alias: Some("umount"),
        about: "unmounts file systems",
        flags: &[
            Flag::switch('a', "all"),
            Flag::switch('f', "even if in use"),
            Flag::switch('u', "forget keys (there are none)"),
        ],
        operands: "<-a | filesystem|mountpoint>",
    },
    unmount,
);

fn mount(session: &mut Session, args: &Args) -> Outcome {
    let dataset = match (args.has('a'), args.operands.as_slice()) {
        (false, []) if args.has('R') => return usage("missing filesystem argument"),
        (false, []) => return show(session, args),
        (true, []) => None,
        (false, [dataset]) => Some(dataset.clone()),
        (false, _) if args.has('R') => return mount_each(session, args),
        _ => return usage("too many arguments"),
    };
    mount_one(session, args, dataset)
}

/// Mounts several datasets, and the datasets below each.
fn mount_each(session: &mut Session, args: &Args) -> Outcome {
    for dataset in &args.operands {
        mount_one(session, args, Some(dataset.clone()))?;
    }
    Ok(0)
}

/// Mounts a dataset, or all if there is none.
fn mount_one(session: &mut Session, args: &Args, dataset: Option<String>) -> Outcome {
    if let Some(name) = &dataset {
        find(session, name)?;
    }
    let options: Option<Vec<String>> = args.value('o').map(|o| o.split(',').map(str::to_owned).collect());
    if let (Some(name), Some(options)) = (&dataset, &options)
        && options.iter().any(|option| option == "remount")
    {
        return remount(session, name, &options.join(","));
    }
    let (options, recursive) = (options.unwrap_or_default(), args.has('R') && dataset.is_some());
    let (overlay, force) = (args.has('O'), args.has('f'));
    session.ask(&Mount { dataset, options, overlay, recursive, force, ..Mount::default() })?;
    Ok(0)
}

/// Changes how a file system is mounted. The kernel does that by itself, and the daemon looks at the kernel's table.
fn remount(session: &Session, dataset: &str, options: &str) -> Outcome {
    let cannot = |reason: &str| Failure::cannot(FailureKind::Invalid, "mount", dataset, reason);
    let mounts = session.ask(&Mounts {})?;
    let mounted = mounts.iter().find(|mount| mount.dataset == dataset);
    let place = &mounted.ok_or_else(|| cannot("not currently mounted"))?.mountpoint;
    Ok(mount_helper::remount(options, place))
}

fn show(session: &mut Session, args: &Args) -> Outcome {
    let mounts = session.ask(&Mounts {})?;
    if args.has('j') {
        let mut all = Json::object();
        for mount in &mounts {
            let one = Json::object()
                .with("filesystem", Json::text(&mount.dataset))
                .with("mountpoint", Json::text(&mount.mountpoint));
            all.put(&mount.dataset, one);
        }
        writeln!(session.out(), "{}", document("zfs mount").with("datasets", all))?;
        return Ok(0);
    }
    for mount in mounts {
        writeln!(session.out(), "{:30}  {}", mount.dataset, mount.mountpoint)?;
    }
    Ok(0)
}

fn unmount(session: &mut Session, args: &Args) -> Outcome {
    let target = match (args.has('a'), args.operands.as_slice()) {
        (true, []) => None,
        (false, [target]) => Some(target.clone()),
        (false, []) => return usage("missing filesystem argument"),
        _ => return usage("too many arguments"),
    };
    if let Some(name) = target.as_deref().filter(|name| !name.starts_with('/')) {
        find(session, name)?;
    }
    session.ask(&Unmount { target, force: args.has('f'), ..Unmount::default() })?;
    Ok(0)
}
