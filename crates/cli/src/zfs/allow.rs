//! `zfs allow` and `zfs unallow`.

use super::owners::name_of;
use super::select::{Kinds, open};
use crate::args::{Args, Flag, Spec};
use crate::program::Command;
use crate::session::{Outcome, Session, Stop, usage};
use crate::view::permissions;
use control::{DatasetAllow, DatasetPermissions, Owner};
use engine::delegation::{PERMISSIONS, delegated_props};
use engine::props::OwnerProp;
use std::collections::{BTreeMap, BTreeSet};

const LOCAL: Flag = Flag::switch('l', "on the dataset itself");
const BELOW: Flag = Flag::switch('d', "on all below it");
const USER: Flag = Flag::switch('u', "for users");
const GROUP: Flag = Flag::switch('g', "for groups");
const EVERYONE: Flag = Flag::switch('e', "for everyone");
const MAKER: Flag = Flag::switch('c', "for whoever makes a dataset below, on that");
const SET: Flag = Flag::switch('s', "of a set of permissions, which is called @name");
const HELP: Flag = Flag::switch('h', "show what there is");

pub const ALLOW: Command = Command::new(
    Spec {
        name: "allow",
        alias: None,
        about: "delegates permissions to users, or shows what was delegated",
        flags: &[LOCAL, BELOW, USER, GROUP, EVERYONE, MAKER, SET, HELP],
        operands: "[\"everyone\"|user|group[,...] | @setname] [perm|@setname[,...]] <filesystem|volume>",
    },
    |session, args| run(session, args, false),
)
.telling(permission_help);

pub const UNALLOW: Command = Command::new(
    Spec {
        name: "unallow",
        alias: None,
        about: "takes delegated permissions back",
        flags: &[
            LOCAL,
            BELOW,
            USER,
            GROUP,
            EVERYONE,
            MAKER,
            SET,
            Flag::switch('r', "and from all below"),
            HELP,
        ],
        operands: "[\"everyone\"|user|group[,...] | @setname] [perm|@setname[,...]] <filesystem|volume>",
    },
    |session, args| run(session, args, true),
)
.telling(permission_help);

/// The list of permissions after the usage.
fn permission_help() -> String {
    let row = |name: &str, kind: &str, notes: &str| format!("{name:16} {kind:14}\t{notes}\n");
    let mut text = String::from("The following permissions are supported:\n\n");
    text.push_str(&row("NAME", "TYPE", "NOTES"));
    text.extend(PERMISSIONS.iter().map(|(name, kind, notes)| row(name, kind, notes)));
    text.extend(delegated_props().into_iter().map(|name| row(name, "property", "")));
    text
}

/// To whom something is delegated: the letter that stands for them in a key, and their number or name.
type Whom = (char, String);

fn run(session: &mut Session, args: &Args, take_back: bool) -> Outcome {
    if args.has('h') {
        return usage("");
    }
    let is_shown = |rest: &[String]| {
        !take_back && rest.len() == 1 && !"ugecs".chars().any(|flag| args.has(flag)) && rest[0] != "everyone"
    };
    if is_shown(&args.operands) {
        return show(session, &args.operands[0]);
    }
    let (whom, rest) = whom(args)?;
    let (permissions, name) = match rest {
        [name] if take_back => (None, name),
        [permissions, name] => (Some(permissions.as_str()), name),
        _ => return usage("wrong number of parameters"),
    };
    open(session, name, Kinds::LIVE)?;
    let changes = changes(&whom, places(args, &whom), permissions);
    session.ask(&DatasetAllow { name: name.clone(), take_back, recursive: args.has('r'), changes })?;
    Ok(0)
}

fn show(session: &mut Session, name: &str) -> Outcome {
    open(session, name, Kinds::LIVE)?;
    let levels = session.ask(&DatasetPermissions { name: name.to_owned() })?;
    let nice = |is_user: bool, id: &str| {
        let owner = if is_user { Owner::User } else { Owner::Group };
        id.parse().ok().and_then(|id| name_of(owner, id))
    };
    let text: String = levels.iter().map(|level| permissions::text(level, &nice)).collect();
    session.out().write_all(text.as_bytes())?;
    Ok(0)
}

/// To whom, and the words behind that.
fn whom(args: &Args) -> Result<(Vec<Whom>, &[String]), Stop> {
    let has = |flags: &str| flags.chars().filter(|flag| args.has(*flag)).count();
    if has("uge") > 1 {
        return usage("-u, -g, and -e are mutually exclusive");
    }
    let words = args.operands.as_slice();
    if args.has('s') {
        if has("ugecs") > 1 {
            return usage("invalid options combined with -s");
        }
        return match words.split_first() {
            Some((set, _)) if !set.starts_with('@') => usage("invalid set name: missing '@' prefix"),
            Some((set, rest)) => Ok((vec![('s', set.clone())], rest)),
            None => usage("wrong number of parameters"),
        };
    }
    if args.has('c') {
        return match has("ugecsld") {
            1 => Ok((vec![('c', String::new())], words)),
            _ => usage("invalid options combined with -c"),
        };
    }
    if args.has('e') {
        return Ok((vec![('e', String::new())], words));
    }
    match words.split_first() {
        Some((first, rest)) if first == "everyone" && has("ug") == 0 => {
            Ok((vec![('e', String::new())], rest))
        }
        Some((first, rest)) => {
            let whom = first.split(',').map(|word| user_or_group(word, args.has('u'), args.has('g')));
            Ok((whom.collect::<Result<_, _>>()?, rest))
        }
        None => usage("wrong number of parameters"),
    }
}

/// Somebody by name or number: a user, and where there is none of that name, and none is asked for, a group.
fn user_or_group(word: &str, user: bool, group: bool) -> Result<Whom, Stop> {
    let known = |owner: Owner| match OwnerProp::id(word) {
        Some(id) => name_of(owner, id).map(|_| id),
        None => super::owners::id_of(owner, word),
    };
    let number = || OwnerProp::id(word);
    let found = match (user, group) {
        (true, _) => known(Owner::User).or_else(number).map(|id| ('u', id)),
        (_, true) => known(Owner::Group).or_else(number).map(|id| ('g', id)),
        _ => known(Owner::User).map(|id| ('u', id)).or_else(|| known(Owner::Group).map(|id| ('g', id))),
    };
    let kind = if user {
        "user"
    } else if group {
        "group"
    } else {
        "user/group"
    };
    match found {
        Some((letter, id)) => Ok((letter, id.to_string())),
        None => usage(format!("invalid {kind} {word}")),
    }
}

/// Letters for where a permission is good: on the dataset, below it, or both; a set is nowhere.
fn places(args: &Args, whom: &[Whom]) -> &'static [char] {
    if whom.iter().any(|(letter, _)| matches!(letter, 's' | 'c')) {
        return &['-'];
    }
    match (args.has('l'), args.has('d')) {
        (true, false) => &['l'],
        (false, true) => &['d'],
        _ => &['l', 'd'],
    }
}

/// Keys and permissions as the format has them; sets have keys with a capital letter.
fn changes(
    whom: &[Whom],
    places: &[char],
    permissions: Option<&str>,
) -> BTreeMap<String, Option<BTreeSet<String>>> {
    let mut changes = BTreeMap::new();
    for (letter, id) in whom {
        for place in places {
            for (letter, of_sets) in [(*letter, false), (letter.to_ascii_uppercase(), true)] {
                let key = format!("{letter}{place}${id}");
                let Some(words) = permissions else {
                    changes.insert(key, None);
                    continue;
                };
                let words =
                    words.split(',').filter(|word| word.starts_with('@') == of_sets && !word.is_empty());
                let words: BTreeSet<String> = words.map(str::to_owned).collect();
                if !words.is_empty() {
                    changes.insert(key, Some(words));
                }
            }
        }
    }
    changes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permissions_and_sets_have_keys_of_their_own() {
        let changes = |whom: &[Whom], places: &[char], words| {
            let all = changes(whom, places, words).into_iter();
            all.map(|(key, words)| (key, words.map(|w| w.into_iter().collect::<Vec<_>>().join(","))))
                .collect::<Vec<_>>()
        };
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(
            changes(&[('u', "7".to_owned())], &['l', 'd'], Some("snapshot,@ops,mount")),
            [
                ("Ud$7".to_owned(), some("@ops")),
                ("Ul$7".to_owned(), some("@ops")),
                ("ud$7".to_owned(), some("mount,snapshot")),
                ("ul$7".to_owned(), some("mount,snapshot")),
            ]
        );
        assert_eq!(
            changes(&[('s', "@ops".to_owned())], &['-'], None),
            [("S-$@ops".to_owned(), None), ("s-$@ops".to_owned(), None)]
        );
    }

    #[test]
    fn words_say_to_whom() {
        let whom_of = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            let args = ALLOW.spec.parse(&words).expect("flags of the command");
            match whom(&args) {
                Ok((whom, rest)) => Ok((whom, rest.len())),
                Err(Stop::Usage(reason)) => Err(reason),
                Err(stop) => panic!("{stop:?}"),
            }
        };
        assert_eq!(whom_of(&["root", "mount", "p"]), Ok((vec![('u', "0".to_owned())], 2)));
        assert_eq!(whom_of(&["-g", "root,12345", "mount", "p"]).map(|(whom, _)| whom.len()), Ok(2));
        assert_eq!(whom_of(&["everyone", "mount", "p"]), Ok((vec![('e', String::new())], 2)));
        assert_eq!(whom_of(&["-c", "mount", "p"]), Ok((vec![('c', String::new())], 2)));
        assert_eq!(whom_of(&["-s", "@x", "mount", "p"]), Ok((vec![('s', "@x".to_owned())], 2)));
        for (words, reason) in [
            (&["-u", "-g", "root", "mount", "p"][..], "-u, -g, and -e are mutually exclusive"),
            (&["-s", "x", "mount", "p"], "invalid set name: missing '@' prefix"),
            (&["-s", "-c", "@x", "mount", "p"], "invalid options combined with -s"),
            (&["-c", "-l", "mount", "p"], "invalid options combined with -c"),
            (&["no such user", "mount", "p"], "invalid user/group no such user"),
        ] {
            assert_eq!(whom_of(words), Err(reason.to_owned()), "{words:?}");
        }
    }
}
