//! `-o property=value`.

use super::owners;
use crate::args::Args;
use crate::session::{Stop, usage};
use control::{Failure, FailureKind, NameValue};

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
/// When one is an assignment, or is given twice.
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
        names.push(name.to_owned());
    }
    Ok(names)
}
