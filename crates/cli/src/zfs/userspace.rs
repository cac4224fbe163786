//! `zfs userspace`, `zfs groupspace` and `zfs projectspace`.

use super::owners::name_of;
use super::select::{Kinds, dataset_at, open};
use crate::args::{Args, Flag, Spec};
use crate::program::Command;
use crate::session::{Outcome, Session, Stop, usage};
use crate::view::userspace::{FIELDS, Field, Look, Row, table};
use control::{DatasetAccounts, Failure, FailureKind, Owner};
use engine::props::dataset_prop;
use std::cmp::Ordering;

const SCRIPTED: Flag = Flag::switch('H', "for programs: no heading, tabs");
const EXACT: Flag = Flag::switch('p', "exact numbers");
const COLUMNS: Flag =
    Flag::value('o', "field[,...]", "these columns: type, name, used, quota, objused, objquota");
const SORTED: Flag = Flag::value('s', "field", "sorted by this, smallest first").repeated();
const REVERSED: Flag = Flag::value('S', "field", "sorted by this, largest first").repeated();
const OPERANDS: &str = "<filesystem|snapshot|path>";

/// Of users or groups.
const FLAGS: &[Flag] = &[
    SCRIPTED,
    Flag::switch('i', "numbers in place of names of other systems (there are none)"),
    Flag::switch('n', "numbers in place of names"),
    EXACT,
    COLUMNS,
    SORTED,
    REVERSED,
    Flag::value('t', "type[,...]", "these: posixuser, posixgroup, smbuser, smbgroup, all"),
];

pub const USERSPACE: Command = Command::new(
    Spec {
        name: "userspace",
        alias: None,
        about: "shows what users use of a file system, and their quotas",
        flags: FLAGS,
        operands: OPERANDS,
    },
    |session, args| space(session, args, &[Owner::User]),
);

pub const GROUPSPACE: Command = Command::new(
    Spec {
        name: "groupspace",
        alias: None,
        about: "shows what groups use of a file system, and their quotas",
        flags: FLAGS,
        operands: OPERANDS,
    },
    |session, args| space(session, args, &[Owner::Group]),
);

pub const PROJECTSPACE: Command = Command::new(
    Spec {
        name: "projectspace",
        alias: None,
        about: "shows what projects use of a file system, and their quotas",
        flags: &[SCRIPTED, EXACT, COLUMNS, SORTED, REVERSED],
        operands: OPERANDS,
    },
    |session, args| space(session, args, &[Owner::Project]),
);

fn space(session: &mut Session, args: &Args, by_default: &[Owner]) -> Outcome {
    let order = order(args)?;
    let target = match args.operands.as_slice() {
        [] => return usage("missing dataset name"),
        [target] => target,
        _ => return usage("too many arguments"),
    };
    let fields = match args.value('o') {
        Some(text) => parse_fields(text)?,
        None => FIELDS.map(|(_, field)| field).to_vec(),
    };
    let of = args.value('t').map_or_else(|| Ok(by_default.to_vec()), parse_types)?;
    let name = dataset_of(session, target)?;
    let accounts = session.ask(&DatasetAccounts { name, of, id: None })?;
    let name = |owner, id| if args.has('n') { None } else { name_of(owner, id) };
    let mut rows: Vec<Row> =
        accounts.into_iter().map(|account| Row { name: name(account.owner, account.id), account }).collect();
    rows.sort_by(|a, b| compare(a, b, &order));
    let look = Look { fields, scripted: args.has('H'), exact: args.has('p') };
    session.out().write_all(table(&rows, &look).as_bytes())?;
    Ok(0)
}

/// By each of these columns in turn; `true`: the largest first.
fn compare(a: &Row, b: &Row, order: &[(Field, bool)]) -> Ordering {
    let by = |(field, reverse): &(Field, bool)| {
        let ordering = a.compare(b, *field);
        if *reverse { ordering.reverse() } else { ordering }
    };
    order.iter().map(by).find(|ordering| ordering.is_ne()).unwrap_or(Ordering::Equal)
}

/// What to sort by: every property of datasets will do, though only some are columns.
fn order(args: &Args) -> Result<Vec<(Field, bool)>, Stop> {
    let mut order = Vec::new();
    for (flag, word) in args.in_order().filter(|(flag, _)| matches!(flag, 's' | 'S')) {
        match FIELDS.iter().take(4).find(|(name, _)| *name == word) {
            Some((_, field)) => order.push((*field, flag == 'S')),
            None if dataset_prop(word).is_some() => {}
            None => return usage(format!("invalid field '{word}'")),
        }
    }
    order.extend([(Field::Type, false), (Field::Name, false)]);
    Ok(order)
}

/// Like a failure of the library, whose exit code is -1.
fn refuse<T>(line: String) -> Result<T, Stop> {
    Err(Failure::new(FailureKind::Invalid, line).exits(255).into())
}

fn parse_fields(text: &str) -> Result<Vec<Field>, Stop> {
    let field = |word: &str| match FIELDS.iter().find(|(name, _)| *name == word) {
        Some((_, field)) => Ok(*field),
        None => refuse(format!("invalid type '{word}' for -o option")),
    };
    text.split(',').map(field).collect()
}

/// Groups before users. There are none of other systems.
fn parse_types(text: &str) -> Result<Vec<Owner>, Stop> {
    let (mut groups, mut users) = (false, false);
    for word in text.split(',') {
        match word {
            "posixgroup" => groups = true,
            "posixuser" => users = true,
            "smbgroup" | "smbuser" => {}
            "all" => (groups, users) = (true, true),
            _ => return refuse(format!("invalid type '{word}' for -t option")),
        }
    }
    let those = [(groups, Owner::Group), (users, Owner::User)].into_iter();
    Ok(those.filter_map(|(is_meant, owner)| is_meant.then_some(owner)).collect())
}

/// The file system or snapshot that is meant: by its name, or by the path of something on it.
fn dataset_of(session: &Session, target: &str) -> Result<String, Stop> {
    if !target.starts_with('/') && !target.starts_with("./") {
        return Ok(open(session, target, Kinds::DATASETS)?.name);
    }
    dataset_at(session, target)
}
