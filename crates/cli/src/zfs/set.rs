//! `zfs set` and `zfs inherit`.

use super::owners;
use super::select::find;
use crate::args::{Args, Flag, Spec};
use crate::program::Command;
use crate::session::{Outcome, Session, Stop, usage};
use crate::view::get::dataset_property_help;
use control::{DatasetInherit, DatasetSet, Failure, FailureKind};
use engine::props::{Access, dataset_prop, is_user_prop};

pub const SET: Command = Command::new(
    Spec {
        name: "set",
        alias: None,
        about: "sets properties of datasets",
        flags: &[Flag::switch('u', "leave what is mounted where it is")],
        operands: "<property=value> ... <filesystem|volume|snapshot> ...",
    },
    set,
)
.telling(dataset_property_help);

pub const INHERIT: Command = Command::new(
    Spec {
        name: "inherit",
        alias: None,
        about: "lets datasets take a property from their parent again",
        flags: &[
            Flag::switch('r', "and all below"),
            Flag::switch('S', "to the received value, where there is one"),
        ],
        operands: "<property> <filesystem|volume|snapshot> ...",
    },
    inherit,
);

fn set(session: &mut Session, args: &Args) -> Outcome {
    let first_name = args.operands.iter().position(|word| !word.contains('='));
    let (assignments, names) = args.operands.split_at(first_name.unwrap_or(args.operands.len()));
    match (assignments, names) {
        ([], []) => return usage("missing arguments"),
        ([], _) => return usage("missing property=value argument(s)"),
        (_, []) => return usage("missing dataset name(s)"),
        _ if names.iter().any(|name| name.contains('=')) => return usage("invalid argument order"),
        _ => {}
    }
    let props: Vec<(String, String)> = assignments
        .iter()
        .filter_map(|word| word.split_once('='))
        .map(|(name, value)| (owners::numbered(name), value.to_owned()))
        .collect();
    each(session, names, |session, name| {
        let keep_mounted = args.has('u');
        session.ask(&DatasetSet { name: name.to_owned(), props: props.clone(), keep_mounted, maker: None })
    })
}

fn inherit(session: &mut Session, args: &Args) -> Outcome {
    let (property, names) = match args.operands.split_first() {
        None => return usage("missing property argument"),
        Some((_, [])) => return usage("missing dataset argument"),
        Some((property, names)) => (property.clone(), names),
    };
    let (recursive, received) = (args.has('r'), args.has('S'));
    check_inheritable(&property, received)?;
    each(session, names, |session, name| {
        session.ask(&DatasetInherit {
            name: name.to_owned(),
            property: property.clone(),
            recursive,
            received,
            maker: None,
        })
    })
}

/// Some properties are a dataset's own, and some are facts.
fn check_inheritable(property: &str, received: bool) -> Result<(), Stop> {
    let Some(def) = dataset_prop(property) else {
        return if is_user_prop(property) { Ok(()) } else { usage(format!("invalid property '{property}'")) };
    };
    let refuse = |line: String| Failure::new(FailureKind::Invalid, line);
    let failure = match def.access {
        Access::Inherit => return Ok(()),
        Access::ReadOnly | Access::AtCreation => refuse(format!("{property} property is read-only")),
        Access::Set if received && property == "volsize" => {
            refuse(format!("'{property}' property cannot be reverted to a received value"))
        }
        Access::Set if received => return Ok(()),
        Access::Set => {
            let failure = refuse(format!("'{property}' property cannot be inherited"));
            match def.name {
                "quota" | "reservation" | "refquota" | "refreservation" => failure
                    .and(format!("use 'zfs set {property}=none' to clear"))
                    .and(format!("use 'zfs inherit -S {property}' to revert to received value")),
                _ => failure,
            }
        }
    };
    Err(failure.into())
}

/// Does it to every dataset; complains of those it fails for, and gives the exit code.
fn each(
    session: &mut Session,
    names: &[String],
    one: impl Fn(&Session, &str) -> Result<(), Stop>,
) -> Outcome {
    let mut code = 0;
    for name in names {
        match find(session, name).and_then(|_| one(session, name)) {
            Err(Stop::Failed(failure)) => code = session.complain(&failure),
            result => result?,
        }
    }
    Ok(code)
}
