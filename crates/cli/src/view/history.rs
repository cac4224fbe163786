//! Records of a pool's history, as `zpool history` prints them.
//!
//! ```text
//!  2026-11-22.04:38:10 zpool create tank a                       a command
//!  2026-11-22.04:38:10 [txg:5] create tank/fs (54)               what became of it       -i
//!  2026-11-22.04:38:10 ioctl snapshot                            how OpenZFS was asked   -i
//!  … [user 0 (root) on host:linux]                                                       -l
//! ```

use crate::ls::names;
use engine::props::moment;
use ondisk::history::names as field;
use ondisk::{NvList, NvValue};
use std::collections::BTreeMap;
use std::fmt::Write;

/// How far nvlists stand to the right, and how much farther those within them.
const NVLIST_INDENT: usize = 8;
const NVLIST_STEP: usize = 4;

/// What is shown of each record.
pub struct HistoryStyle {
    long: bool,
    internal: bool,
    users: BTreeMap<u32, String>,
}

impl HistoryStyle {
    /// `long`: with user and host; `internal`: not only commands.
    pub fn new(long: bool, internal: bool) -> Self {
        let users = if long { names("/etc/passwd") } else { BTreeMap::new() };
        Self { long, internal, users }
    }

    /// The lines of a record; none, if it is not to be shown.
    pub fn record(&self, record: &NvList) -> String {
        let Some(what) = self.what(record) else { return String::new() };
        let time = record.get_u64(field::TIME).map(moment).unwrap_or_default();
        let by = if self.long { self.by(record) } else { String::new() };
        format!("{time} {what}{by}\n")
    }

    fn what(&self, record: &NvList) -> Option<String> {
        if let Some(command) = record.get_str(field::COMMAND) {
            return Some(command.to_owned());
        }
        if !self.internal {
            return None;
        }
        if let Some(name) = record.get_str(field::INTERNAL_NAME) {
            return Some(event(name, record));
        }
        if let Some(name) = record.get_str(field::IOCTL) {
            return Some(ioctl(name, record));
        }
        let mut text = "unrecognized record:\n".to_owned();
        put_list(&mut text, record, NVLIST_STEP);
        Some(text)
    }

    fn by(&self, record: &NvList) -> String {
        let mut text = " [".to_owned();
        if let Some(uid) = record.get_u64(field::WHO) {
            _ = write!(text, "user {uid} ");
            let name = u32::try_from(uid).ok().and_then(|uid| self.users.get(&uid));
            name.into_iter().for_each(|name| _ = write!(text, "({name}) "));
        }
        record.get_str(field::HOST).into_iter().for_each(|host| _ = write!(text, "on {host}"));
        record.get_str(field::ZONE).into_iter().for_each(|zone| _ = write!(text, ":{zone}"));
        text + "]"
    }
}

fn event(name: &str, record: &NvList) -> String {
    let mut text = format!("[txg:{}] {name}", record.get_u64(field::TXG).unwrap_or(0));
    if let Some(dataset) = record.get_str(field::DATASET_NAME) {
        _ = write!(text, " {dataset} ({})", record.get_u64(field::DATASET_ID).unwrap_or(0));
    }
    text + " " + record.get_str(field::INTERNAL_STR).unwrap_or("")
}

fn ioctl(name: &str, record: &NvList) -> String {
    let mut text = format!("ioctl {name}\n");
    for (title, list) in [("input", field::INPUT), ("output", field::OUTPUT)] {
        if let Some(list) = record.get_nvlist(list) {
            _ = writeln!(text, "    {title}:");
            put_list(&mut text, list, NVLIST_INDENT);
        }
    }
    if let Some(NvValue::I64(errno)) = record.get(field::ERRNO) {
        _ = writeln!(text, "    errno: {errno}");
    }
    text
}

fn put_list(text: &mut String, list: &NvList, indent: usize) {
    for (name, value) in list.iter() {
        _ = write!(text, "{:indent$}{name}", "");
        match value {
            NvValue::Flag => text.push('\n'),
            NvValue::List(inner) => {
                text.push_str(":\n");
                put_list(text, inner, indent + NVLIST_STEP);
            }
            value => _ = writeln!(text, ": {}", shown(value)),
        }
    }
}

fn shown(value: &NvValue) -> String {
    match value {
        NvValue::Str(text) => format!("'{text}'"),
        NvValue::U64(number) => number.to_string(),
        NvValue::I64(number) => number.to_string(),
        NvValue::U32(number) => number.to_string(),
        NvValue::I32(number) => number.to_string(),
        NvValue::Bool(is) => is.to_string(),
        value => format!("{value:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn style(long: bool, internal: bool) -> HistoryStyle {
        HistoryStyle { long, internal, users: BTreeMap::from([(0, "root".to_owned())]) }
    }

    fn made() -> NvList {
        let mut record = NvList::new();
        record.add_str(field::COMMAND, "zpool create p a").add_u64(field::WHO, 0);
        record.add_str(field::ZONE, "linux").add_str(field::HOST, "box");
        record
    }

    #[test]
    fn commands_are_told_and_by_whom_when_asked() {
        assert_eq!(style(false, false).record(&made()), " zpool create p a\n");
        let long = " zpool create p a [user 0 (root) on box:linux]\n";
        assert_eq!(style(true, true).record(&made()), long);
    }

    #[test]
    fn what_became_of_a_command_is_told_when_asked() {
        let mut record = NvList::new();
        record.add_str(field::INTERNAL_NAME, "set").add_u64(field::TXG, 9).add_str(field::HOST, "box");
        record.add_str(field::DATASET_NAME, "p/fs").add_u64(field::DATASET_ID, 54);
        record.add_str(field::INTERNAL_STR, "atime=0");
        assert_eq!(style(true, false).record(&record), "");
        assert_eq!(style(false, true).record(&record), " [txg:9] set p/fs (54) atime=0\n");
        assert_eq!(style(true, true).record(&record), " [txg:9] set p/fs (54) atime=0 [on box]\n");
    }

    #[test]
    fn how_openzfs_was_asked_is_told_with_its_lists() {
        let mut snapshots = NvList::new();
        snapshots.add_flag("p@a");
        let (mut input, mut record) = (NvList::new(), NvList::new());
        input.add("snaps", NvValue::List(snapshots)).add_str("why", "so");
        record.add_str(field::IOCTL, "snapshot").add(field::INPUT, NvValue::List(input));
        let text = " ioctl snapshot\n    input:\n        snaps:\n            p@a\n        why: 'so'\n\n";
        assert_eq!(style(false, true).record(&record), text);
    }
}
