//! Events, as `zpool events` prints them.
//!
//! ```text
//! TIME                           CLASS
//! Nov 22 2026 04:38:10.012345678 sysevent.fs.zfs.config_sync
//!         version = 0x0                                          -v
//!         class = "sysevent.fs.zfs.config_sync"
//! ```

use engine::props::event_time;
use events::names::{CLASS, TIME, VDEV_LASTSTATE, VDEV_STATE, ZIO_TYPE};
use ondisk::{NvList, NvValue};
use std::fmt::Write;

/// How far what an event tells stands to the right, and how much farther lists within it.
const INDENT: usize = 8;
/// Requests, as `zio_type` numbers them.
const ZIO_TYPES: [&str; 7] = ["NULL", "READ", "WRITE", "FREE", "CLAIM", "FLUSH", "TRIM"];

/// What is shown of each event.
#[derive(Clone, Copy, Debug)]
pub struct EventStyle {
    /// For programs: no heading, tabs.
    pub scripted: bool,
    /// All that it tells.
    pub verbose: bool,
}

impl EventStyle {
    /// What stands above the first event.
    pub fn heading(self) -> String {
        if self.scripted { String::new() } else { format!("{:<30} CLASS\n", "TIME") }
    }

    /// The lines of an event.
    pub fn event(self, event: &NvList) -> String {
        let gap = if self.scripted { '\t' } else { ' ' };
        let mut text = format!("{}{gap}{}\n", time(event), event.get_str(CLASS).unwrap_or("?"));
        if self.verbose {
            put_list(&mut text, event, INDENT);
            text.push('\n');
        }
        text
    }
}

fn time(event: &NvList) -> String {
    let Some(NvValue::I64Array(time)) = event.get(TIME) else { return "?".to_owned() };
    let part = |at| time.get(at).and_then(|part: &i64| u64::try_from(*part).ok()).unwrap_or(0);
    format!("{}.{:09}", event_time(part(0)), part(1))
}

fn put_list(text: &mut String, list: &NvList, indent: usize) {
    for (name, value) in list.iter() {
        _ = write!(text, "{:indent$}{name} = ", "");
        match value {
            NvValue::List(inner) => {
                text.push_str("(embedded nvlist)\n");
                put_list(text, inner, indent + INDENT);
                _ = write!(text, "{:indent$}(end {name})", "");
            }
            NvValue::ListArray(lists) => put_lists(text, name, lists, indent),
            value => text.push_str(&shown(name, value)),
        }
        text.push('\n');
    }
}

fn put_lists(text: &mut String, name: &str, lists: &[NvList], indent: usize) {
    _ = writeln!(text, "({} embedded nvlists)", lists.len());
    for (at, list) in lists.iter().enumerate() {
        _ = writeln!(text, "{:indent$}{name}[{at}] = (embedded nvlist)", "");
        put_list(text, list, indent + INDENT);
        _ = writeln!(text, "{:indent$}(end {name}[{at}])", "");
    }
    _ = writeln!(text, "{:indent$}(end {name})", "");
}

fn shown(name: &str, value: &NvValue) -> String {
    match value {
        NvValue::U64(state) if [VDEV_STATE, VDEV_LASTSTATE].contains(&name) => {
            format!("\"{}\" ({state:#x})", vdev_state_word(*state))
        }
        NvValue::U32(kind) if name == ZIO_TYPE => {
            let word = ZIO_TYPES.get(*kind as usize).copied().unwrap_or("?");
            format!("{kind:#x} [{word}]")
        }
        NvValue::Flag => "1".to_owned(),
        NvValue::Bool(is) => u8::from(*is).to_string(),
        NvValue::Byte(number) | NvValue::U8(number) => format!("{number:#x}"),
        NvValue::I8(number) => format!("{number:#x}"),
        NvValue::I16(number) => format!("{number:#x}"),
        NvValue::U16(number) => format!("{number:#x}"),
        NvValue::I32(number) => format!("{number:#x}"),
        NvValue::U32(number) => format!("{number:#x}"),
        NvValue::I64(number) | NvValue::HrTime(number) => format!("{number:#x}"),
        NvValue::U64(number) => format!("{number:#x}"),
        NvValue::Str(words) => format!("\"{words}\""),
        NvValue::StrArray(words) => words.iter().map(|word| format!("\"{word}\" ")).collect(),
        NvValue::I64Array(numbers) => numbers.iter().map(|number| format!("{number:#x} ")).collect(),
        NvValue::U64Array(numbers) => numbers.iter().map(|number| format!("{number:#x} ")).collect(),
        _ => "<unknown>".to_owned(),
    }
}

/// The word of a vdev's state, as `zpool status` has it.
pub fn vdev_state_word(state: u64) -> &'static str {
    match state {
        1 | 2 => "OFFLINE",
        3 => "REMOVED",
        4 => "UNAVAIL",
        5 => "FAULTED",
        6 => "DEGRADED",
        7 => "ONLINE",
        _ => "UNKNOWN",
    }
}

/// The word of a pool's state, as events number the states.
pub fn pool_state_word(state: u64) -> &'static str {
    match state {
        0 => "ACTIVE",
        1 => "EXPORTED",
        2 => "DESTROYED",
        3 => "SPARE",
        4 => "L2CACHE",
        5 => "UNINITIALIZED",
        6 => "UNAVAIL",
        7 => "POTENTIALLY_ACTIVE",
        _ => "UNKNOWN",
    }
}

#[cfg(test)]
mod tests;
