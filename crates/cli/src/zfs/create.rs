//! `zfs create`.

use crate::args::{Args, Flag, Spec};
use crate::program::Command;
use crate::session::{Outcome, Session, Stop, usage};
use control::{DatasetCreate, Failure, FailureKind};
use engine::names;

pub const COMMAND: Command = Command::new(
    Spec {
        name: "create",
        alias: None,
        about: "makes a file system, and mounts it",
        flags: &[
            Flag::switch('n', "check names, make nothing"),
            Flag::switch('p', "make missing parents; do not mind that it exists"),
            Flag::switch('u', "do not mount it"),
            Flag::switch('v', "tell what is made"),
            Flag::value('o', "property=value", "a property").repeated(),
            Flag::value('V', "size", "a volume of this size instead"),
        ],
        operands: "<filesystem>",
    },
    run,
);

fn run(session: &mut Session, args: &Args) -> Outcome {
    let call = read(args)?;
    if args.has('n') {
        let name = &call.name;
        if args.has('v') {
            writeln!(session.out(), "would create {name}")?;
        }
        return Ok(0);
    }
    session.ask(&call)?;
    if args.has('v') {
        writeln!(session.out(), "create {}", call.name)?;
    }
    Ok(0)
}

fn read(args: &Args) -> Result<DatasetCreate, Stop> {
    let mut call =
        DatasetCreate { parents: args.has('p'), no_mount: args.has('u'), ..DatasetCreate::default() };
    if let Some(text) = args.value('V') {
        let bytes = engine::nice::parse(text);
        call.volume_bytes = Some(bytes.or_else(|e| usage(format!("bad volume size '{text}': {e}")))?);
    }
    for text in args.values('o') {
        let Some((name, value)) = text.split_once('=') else {
            return usage("missing '=' for property=value argument");
        };
        if call.props.iter().any(|(n, _)| n == name) {
            return usage(format!("property '{name}' specified multiple times"));
        }
        call.props.push((name.to_owned(), value.to_owned()));
    }
    let what = if call.volume_bytes.is_some() { "volume" } else { "filesystem" };
    call.name = match args.operands.as_slice() {
        [] => return usage(format!("missing {what} argument")),
        [name] => name.clone(),
        _ => return usage("too many arguments"),
    };
    names::check_dataset(&call.name).map_err(|e| {
        Stop::Failed(Failure::cannot(FailureKind::Invalid, "create", &call.name, &e.to_string()))
    })?;
    Ok(call)
}
