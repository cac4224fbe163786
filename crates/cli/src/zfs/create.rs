//! `zfs create`.

use super::owners::numbered;
use crate::args::{Args, Flag, Spec};
use crate::program::Command;
use crate::session::{Outcome, Session, Stop, usage};
use control::{DatasetCreate, DatasetMade, Failure, FailureKind};
use engine::names;
use std::fmt::Write;

pub const COMMAND: Command = Command::new(
    Spec {
        name: "create",
        alias: None,
        about: "makes a file system, and mounts it; or a volume",
        flags: &[
            Flag::value('b', "blocksize", "the volume's unit of storage: volblocksize"),
            Flag::switch('n', "check names and properties, make nothing"),
            Flag::value('o', "property=value", "a property").repeated(),
            Flag::switch('p', "make missing parents; do not mind that it exists"),
            Flag::switch('P', "as -v, for programs: tabs, exact numbers"),
            Flag::switch('s', "set nothing aside for the volume"),
            Flag::switch('u', "do not mount it"),
            Flag::switch('v', "tell what is made, and with what"),
            Flag::value('V', "size", "a volume of this size instead"),
        ],
        operands: "<filesystem|volume>",
    },
    run,
);

fn run(session: &mut Session, args: &Args) -> Outcome {
    let call = read(args)?;
    let made = if call.dry_run { session.ask_unnoted(&call)? } else { session.ask(&call)? };
    for warning in &made.warnings {
        eprintln!("{warning}");
    }
    if args.has('v') || args.has('P') {
        session.out().write_all(told(&call, &made, args.has('P')).as_bytes())?;
    }
    Ok(0)
}

/// What was made, or would be.
fn told(call: &DatasetCreate, made: &DatasetMade, for_programs: bool) -> String {
    let (name, mut text) = (&call.name, String::new());
    if made.existed {
        return text;
    }
    let would = if call.dry_run { "would " } else { "" };
    if call.parents {
        text += &match for_programs {
            true => format!("create_ancestors\t{name}\n"),
            false => format!("{would}create ancestors of {name}\n"),
        };
    }
    text += &if for_programs { format!("create\t{name}\n") } else { format!("{would}create {name}\n") };
    for (prop, value) in &made.props {
        let line =
            if for_programs { format!("property\t{prop}\t{value}") } else { format!("\t{prop}={value}") };
        writeln!(text, "{line}").expect("a string takes all");
    }
    text
}

fn read(args: &Args) -> Result<DatasetCreate, Stop> {
    let mut call = DatasetCreate {
        parents: args.has('p'),
        no_mount: args.has('u'),
        sparse: args.has('s'),
        dry_run: args.has('n'),
        volume: args.value('V').is_some(),
        ..DatasetCreate::default()
    };
    for (flag, text) in args.in_order() {
        let prop = match flag {
            'V' => ("volsize".to_owned(), size("volume size", text)?),
            'b' => ("volblocksize".to_owned(), size("volume block size", text)?),
            'o' => assignment(text)?,
            _ => continue,
        };
        if call.props.iter().any(|(name, _)| *name == prop.0) {
            return refuse(format!("property '{}' specified multiple times", prop.0));
        }
        call.props.push(prop);
    }
    if !call.volume && (args.has('s') || args.value('b').is_some()) {
        return usage("'-s' and '-b' can only be used when creating a volume");
    }
    if call.volume && call.no_mount {
        return usage("'-u' can only be used when creating a filesystem");
    }
    let what = if call.volume { "volume" } else { "filesystem" };
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

fn refuse<T>(line: String) -> Result<T, Stop> {
    Err(Stop::Failed(Failure::new(FailureKind::Invalid, line)))
}

/// A number of bytes, as it is sent.
fn size(what: &str, text: &str) -> Result<String, Stop> {
    match engine::nice::parse(text) {
        Ok(bytes) => Ok(bytes.to_string()),
        Err(error) => refuse(format!("bad {what} '{text}': {error}")),
    }
}

fn assignment(text: &str) -> Result<(String, String), Stop> {
    match text.split_once('=') {
        Some((name, value)) => Ok((numbered(name), value.to_owned())),
        None => refuse("missing '=' for property=value argument".to_owned()),
    }
}
