//! Words that are no command here: what OpenZFS calls a command is told apart from a slip.

use crate::program::Program;

/// Commands of OpenZFS's `zpool` that there are not yet.
const OF_ZPOOL: &[&str] = &["ddtprune"];
/// Commands of OpenZFS's `zfs` that there are not yet.
const OF_ZFS: &[&str] =
    &["change-key", "load-key", "program", "share", "unload-key", "unshare", "unzone", "zone"];
/// Slips that are taken for a word that was meant.
const SLIPS_MAX: usize = 2;

/// What to say of a command that OpenZFS has and this program has not.
pub fn not_yet(program: &Program, word: &str) -> Option<String> {
    let lacking = match program.name {
        "zpool" => OF_ZPOOL,
        "zfs" => OF_ZFS,
        _ => return None,
    };
    lacking.contains(&word).then(|| {
        let name = program.name;
        format!(
            "'{name} {word}' is not supported yet\nIt will come with a later version; '{name} help' lists what \
             there is.  OpenZFS's\n'{name} {word}' can be used on the pool after 'zpool export'.\n"
        )
    })
}

/// The command that was meant, perhaps.
pub fn meant(program: &Program, word: &str) -> Option<&'static str> {
    let names = program.commands.iter().map(|command| command.spec.name);
    let near = names.map(|name| (slips(name, word), name)).min()?;
    (near.0 <= SLIPS_MAX && near.0 < word.len()).then_some(near.1)
}

/// How many letters have to be put in, left out or changed to make one word of the other.
fn slips(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (above, letter) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = above + 1;
        for place in 1..row.len() {
            let changed = diagonal + usize::from(letter != b[place - 1]);
            diagonal = row[place];
            row[place] = changed.min(diagonal + 1).min(row[place - 1] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{zfs, zpool};

    #[test]
    fn what_is_lacking_is_not_there() {
        for program in [zpool::PROGRAM, zfs::PROGRAM] {
            for command in program.commands {
                let names = [Some(command.spec.name), command.spec.alias];
                assert!(names.into_iter().flatten().all(|name| not_yet(&program, name).is_none()));
            }
        }
        assert!(
            not_yet(&zpool::PROGRAM, "ddtprune")
                .is_some_and(|text| text.starts_with("'zpool ddtprune' is not"))
        );
        assert_eq!(not_yet(&zpool::PROGRAM, "snapshot"), None);
    }

    #[test]
    fn a_slip_leads_to_what_was_meant() {
        assert_eq!(meant(&zpool::PROGRAM, "stauts"), Some("status"));
        assert_eq!(meant(&zpool::PROGRAM, "imprt"), Some("import"));
        assert_eq!(meant(&zfs::PROGRAM, "lst"), Some("list"));
        assert_eq!(meant(&zpool::PROGRAM, "frobnicate"), None);
        assert_eq!(meant(&zpool::PROGRAM, "x"), None);
        assert_eq!((slips("", "ab"), slips("ab", "ab"), slips("kitten", "sitting")), (2, 0, 3));
    }
}
