//! What `zpool import` tells of pools that it found, and of logs that are missing.

use super::condition::{Condition, PAGES, condition};
use super::names::{NameStyle, vdev_name};
use super::sections::{all_rows, flatten, heading};
use super::status::{reason, state_word};
use control::{ImportCandidate, InUse, PoolHealth, PoolInfo, VdevClass, VdevInfo};
use std::fmt::Write;

const NAME_MIN: usize = 10;

/// Everything about one pool that was found.
pub fn candidate(found: &ImportCandidate, names: NameStyle) -> String {
    let pool = &found.pool;
    let what = condition(pool);
    let destroyed = if found.destroyed { " (DESTROYED)" } else { "" };
    let mut text = format!("  pool: {}\n    id: {}\n", pool.name, pool.guid);
    _ = writeln!(text, " state: {}{destroyed}", pool.health.word());
    if let Some(line) = status_line(found, what) {
        _ = writeln!(text, "status: {line}");
    }
    _ = writeln!(text, "action: {}", action(found, what));
    if let Some(id) = message_id(found, what) {
        _ = writeln!(text, "   see: {PAGES}{id}");
    }
    text.push_str("config:\n\n");
    text.push_str(&config(pool, names));
    text
}

fn status_line(found: &ImportCandidate, what: Condition) -> Option<String> {
    if !found.unsupported_features.is_empty() {
        let list = found.unsupported_features.join("\n\t");
        return Some(match found.readable {
            true => format!(
                "The pool can only be accessed in read-only mode on this system. It\n\tcannot be accessed in \
                 read-write mode because it uses the following\n\tfeature(s) not supported on this \
                 system:\n\t{list}"
            ),
            false => {
                format!("The pool uses the following feature(s) not supported on this system:\n\t{list}")
            }
        });
    }
    match &found.in_use {
        Some(InUse::On { .. }) => {
            return Some("The pool is currently imported by another system.".to_owned());
        }
        Some(InUse::NoHostId) => {
            let line = "The pool has the multihost property on.  It cannot\n\tbe safely imported when the system \
                        hostid is not set.";
            return Some(line.to_owned());
        }
        Some(InUse::Held(holders)) => {
            return Some(format!("The pool is in use on this system:\n\t{}", holders.join("\n\t")));
        }
        None => {}
    }
    if is_foreign(found, what) {
        return Some("The pool was last accessed by another system.".to_owned());
    }
    what.import_status().map(str::to_owned)
}

fn is_foreign(found: &ImportCandidate, what: Condition) -> bool {
    found.foreign && what == Condition::Healthy
}

/// The page that tells more.
fn message_id(found: &ImportCandidate, what: Condition) -> Option<&'static str> {
    match is_foreign(found, what) {
        _ if !found.unsupported_features.is_empty() => None,
        _ if found.in_use.is_some() => Some("ZFS-8000-EY"),
        true => Some("ZFS-8000-EY"),
        false => what.words().and_then(|words| words.message_id),
    }
}

fn action(found: &ImportCandidate, what: Condition) -> String {
    let unsupported = !found.unsupported_features.is_empty();
    match &found.in_use {
        _ if unsupported => {}
        Some(InUse::On { hostname, hostid }) => {
            return format!(
                "The pool must be exported from {hostname} (hostid={hostid:x})\n\tbefore it can be safely imported."
            );
        }
        Some(InUse::NoHostId) => {
            return "Set a unique system hostid with the zgenhostid(8) command.".to_owned();
        }
        Some(InUse::Held(_)) => {
            return "End the process, or export the pool there, and run 'zpool import' again.".to_owned();
        }
        None => {}
    }
    let line = match (found.pool.health, found.foreign) {
        _ if unsupported && found.readable => {
            "The pool cannot be imported in read-write mode. Import the pool with\n\t'-o readonly=on', access \
             the pool on a system that supports the\n\trequired feature(s), or recreate the pool from backup."
        }
        _ if unsupported => {
            "The pool cannot be imported. Access the pool on a system that supports\n\tthe required \
             feature(s), or recreate the pool from backup."
        }
        (PoolHealth::Online, true) => {
            "The pool can be imported using its name or numeric identifier and\n\tthe '-f' flag."
        }
        (PoolHealth::Online, false) => "The pool can be imported using its name or numeric identifier.",
        (PoolHealth::Degraded, _) => {
            "The pool can be imported despite missing or damaged devices.  The\n\tfault tolerance of the \
             pool may be compromised if imported."
        }
        _ if what == Condition::WrittenElsewhereFatal => {
            "The pool cannot be imported, because its devices hold different\n\thistories of it. Choose the devices of \
             one with '-d DEVICE'."
        }
        _ if matches!(what, Condition::Missing | Condition::MissingFatal) => {
            "The pool cannot be imported. Attach the missing\n\tdevices and try again."
        }
        _ => "The pool cannot be imported due to damaged devices or data.",
    };
    line.to_owned()
}

/// The tree; caches and spares come before logs here, and show no state.
fn config(pool: &PoolInfo, names: NameStyle) -> String {
    let indented = |(depth, vdev): &(usize, &VdevInfo)| 2 * depth + vdev_name(vdev, names).len();
    let widest = all_rows(pool).iter().map(indented).max().unwrap_or(0);
    let width = widest.max(pool.name.len()).max(NAME_MIN);
    let mut text = String::new();
    row(&mut text, 0, &pool.name, &pool.root, width);
    let tree = |text: &mut String, vdev: &VdevInfo| {
        for (depth, vdev) in flatten(vdev, 1) {
            row(text, depth, &vdev_name(vdev, names), vdev, width);
        }
    };
    pool.tops(VdevClass::Normal).for_each(|vdev| tree(&mut text, vdev));
    for (title, vdevs) in [("cache", &pool.caches), ("spares", &pool.spares)] {
        if !vdevs.is_empty() {
            _ = writeln!(text, "\t{title}");
        }
        for vdev in vdevs {
            _ = writeln!(text, "\t  {}", vdev_name(vdev, names));
        }
    }
    for class in [VdevClass::Dedup, VdevClass::Special, VdevClass::Log] {
        let mut vdevs = pool.tops(class).peekable();
        if vdevs.peek().is_some() {
            _ = writeln!(text, "\t{}\t", heading(class));
        }
        vdevs.for_each(|vdev| tree(&mut text, vdev));
    }
    text
}

fn row(text: &mut String, depth: usize, name: &str, vdev: &VdevInfo, width: usize) {
    let indent = 2 * depth;
    let rest = width.saturating_sub(indent);
    _ = write!(text, "\t{:indent$}{name:rest$}  {}", "", state_word(vdev));
    let why = if vdev.not_present { vdev.aux.reason().map(str::to_owned) } else { reason(vdev) };
    if let Some(why) = why {
        _ = write!(text, "  {why}");
    }
    text.push('\n');
}

#[cfg(test)]
mod tests;
