//! What `zfs allow` prints of a dataset.

use control::Delegations;
use std::collections::BTreeMap;
use std::fmt::Write;

/// Bytes of a heading, with what it is filled up with.
const WIDTH: usize = 70;

/// Who something was delegated to, in the order in which they are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Whom {
    Set,
    Maker,
    User,
    Group,
    Everyone,
}

/// Permissions of one: where each is good, on the dataset itself and below it.
type Granted<'a> = BTreeMap<&'a str, (bool, bool)>;

/// The whole of one dataset; `nice` gives the name of a user (true) or group.
pub fn text(of: &Delegations, nice: &dyn Fn(bool, &str) -> Option<String>) -> String {
    let mut all: BTreeMap<(Whom, &str), Granted<'_>> = BTreeMap::new();
    for (key, words) in &of.granted {
        let Some((whom, place, id)) = read(key) else { continue };
        let granted = all.entry((whom, id)).or_default();
        for word in words {
            let places = granted.entry(word).or_default();
            places.0 |= place == 'l';
            places.1 |= place == 'd';
        }
    }
    let heading = format!("---- Permissions on {} ", of.dataset);
    let mut text = format!("{heading}{}\n", "-".repeat(WIDTH.saturating_sub(heading.len())));
    for (whom, title) in [(Whom::Set, "Permission sets:\n"), (Whom::Maker, "Create time permissions:\n")] {
        let of_whom: Vec<_> = all.iter().filter(|((other, _), _)| *other == whom).collect();
        if !of_whom.is_empty() {
            text.push_str(title);
        }
        for ((_, id), granted) in of_whom {
            let name = if id.is_empty() { String::new() } else { format!("{id} ") };
            let words: Vec<&str> = granted.keys().copied().collect();
            _ = writeln!(text, "\t{name}{}", words.join(","));
        }
    }
    for (places, title) in [
        ((true, false), "Local permissions:\n"),
        ((false, true), "Descendent permissions:\n"),
        ((true, true), "Local+Descendent permissions:\n"),
    ] {
        let mut lines = String::new();
        for ((whom, id), granted) in all.iter().filter(|((whom, _), _)| *whom > Whom::Maker) {
            let words: Vec<&str> =
                granted.iter().filter(|(_, where_)| **where_ == places).map(|(word, _)| *word).collect();
            if !words.is_empty() {
                _ = writeln!(lines, "\t{} {}", who(*whom, id, nice), words.join(","));
            }
        }
        if !lines.is_empty() {
            text.push_str(title);
            text.push_str(&lines);
        }
    }
    text
}

fn read(key: &str) -> Option<(Whom, char, &str)> {
    let (kind, id) = key.split_once('$')?;
    let mut letters = kind.chars();
    let whom = match letters.next()?.to_ascii_lowercase() {
        's' => Whom::Set,
        'c' => Whom::Maker,
        'u' => Whom::User,
        'g' => Whom::Group,
        'e' => Whom::Everyone,
        _ => return None,
    };
    Some((whom, letters.next()?, id))
}

fn who(whom: Whom, id: &str, nice: &dyn Fn(bool, &str) -> Option<String>) -> String {
    let is_user = whom == Whom::User;
    match whom {
        Whom::Everyone => "everyone".to_owned(),
        _ => {
            let kind = if is_user { "user" } else { "group" };
            format!("{kind} {}", nice(is_user, id).unwrap_or_else(|| format!("(unknown: {id})")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_delegated_is_shown_as_openzfs_shows_it() {
        let said = [
            ("ul$1000", "snapshot,mount"),
            ("ud$1000", "snapshot,mount,rename"),
            ("Ul$1000", "@ops"),
            ("gd$5", "send"),
            ("el$", "hold"),
            ("s-$@ops", "create,destroy"),
            ("S-$@ops", "@inner"),
            ("c-$", "destroy"),
        ];
        let words = |text: &str| text.split(',').map(str::to_owned).collect();
        let granted = said.iter().map(|(key, text)| ((*key).to_owned(), words(text))).collect();
        let of = Delegations { dataset: "tank/fs".to_owned(), granted };
        let nice = |is_user: bool, id: &str| (is_user && id == "1000").then(|| "joe".to_owned());
        assert_eq!(
            text(&of, &nice),
            "---- Permissions on tank/fs ------------------------------------------\n\
             Permission sets:\n\
             \t@ops @inner,create,destroy\n\
             Create time permissions:\n\
             \tdestroy\n\
             Local permissions:\n\
             \tuser joe @ops\n\
             \teveryone hold\n\
             Descendent permissions:\n\
             \tuser joe rename\n\
             \tgroup (unknown: 5) send\n\
             Local+Descendent permissions:\n\
             \tuser joe mount,snapshot\n"
        );
    }
}
