//! `-o property=value`.

use super::owners;
use crate::args::Args;
use crate::session::{Stop, usage};
use control::{Failure, FailureKind, NameValue};
use engine::props::{Access, dataset_prop};

/// All that were given, as typed.
///
/// # Errors
/// When one has no `=`, or is given twice.
pub fn assignments(args: &Args) -> Result<Vec<NameValue>, Stop> {
    let refuse = |line: String| Err(Stop::Failed(Failure::new(FailureKind::Invalid, line)));
    let mut props: Vec<NameValue> = Vec::new();
    for text in args.values('o') {
        let Some((name, value)) = text.split_once('=') else {
            return refuse("missing '=' for property=value argument".to_owned());
        };
        let name = &owners::numbered(name);
        if props.iter().any(|(other, _)| other == name) {
            return refuse(format!("property '{name}' specified multiple times"));
        }
        props.push((name.to_owned(), value.to_owned()));
    }
    Ok(props)
}

/// The names of `-x NAME`, beside the properties of `-o`.
///
/// # Errors
/// When one is an assignment, is given twice, or lies in the data of a stream.
pub fn excluded(args: &Args, props: &[NameValue]) -> Result<Vec<String>, Stop> {
    let mut names: Vec<String> = Vec::new();
    for name in args.values('x') {
        if name.contains('=') {
            return usage("invalid character '=' in property argument");
        }
        let mut others = names.iter().chain(props.iter().map(|(other, _)| other));
        if others.any(|other| other == name) {
            return usage(format!("property '{name}' specified multiple times"));
        }
        check_can_be_other(name)?;
        names.push(name.to_owned());
    }
    Ok(names)
}

/// Properties that lie in the data of a stream, and that no dataset is without.
const IN_THE_DATA: [&str; 2] = ["version", "volsize"];
/// Properties that are chosen at creation, and that a received dataset need not have from its sender.
const OF_ENCRYPTION: [&str; 4] = ["encryption", "keyformat", "keylocation", "pbkdf2iters"];

/// Refuses a property that a received dataset has from its data.
fn check_can_be_other(name: &str) -> Result<(), Stop> {
    let Some(def) = dataset_prop(name) else { return Ok(()) };
    let is_fixed = matches!(def.access, Access::ReadOnly | Access::AtCreation);
    if IN_THE_DATA.contains(&def.name) || is_fixed && !OF_ENCRYPTION.contains(&def.name) {
        let line = format!("cannot receive: invalid property '{}'", def.name);
        return Err(Failure::new(FailureKind::Invalid, line).into());
    }
    Ok(())
}
