//! Vdev specifications: the words after a pool's name, as a tree.
//!
//! ```text
//! spec  = group*                   keywords may come in any order
//! group = DEV                      a top-level vdev of its own
//!       | mirror DEV DEV+          | raidz[1-3] DEV+        | draid[1-3][:Nd][:Nc][:Ns] DEV+
//!       | log | special | dedup    turn the groups after them into that class
//!       | cache DEV+ | spare DEV+
//! ```
//!
//! What needs no pool and no device is refused here. Whether a device is free, large
//! enough and fits the pool is for [`crate::admit`], on the daemon's side.

mod draid;

pub use draid::{DraidNumbers, parse_draid};

use control::{Failure, FailureKind, VdevClass};
pub use control::{Layout, VdevSpec};

/// A word that is not a device.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Keyword {
    Group(Layout),
    Class(VdevClass),
    List(VdevClass),
    Draid { parity: u8 },
}

fn keyword(word: &str) -> Option<Keyword> {
    Some(match word {
        "mirror" => Keyword::Group(Layout::Mirror),
        "raidz" | "raidz1" => Keyword::Group(Layout::Raidz { parity: 1 }),
        "raidz2" => Keyword::Group(Layout::Raidz { parity: 2 }),
        "raidz3" => Keyword::Group(Layout::Raidz { parity: 3 }),
        "log" => Keyword::Class(VdevClass::Log),
        "special" => Keyword::Class(VdevClass::Special),
        "dedup" => Keyword::Class(VdevClass::Dedup),
        "cache" => Keyword::List(VdevClass::Cache),
        "spare" => Keyword::List(VdevClass::Spare),
        _ => return draid::parity(word).map(|parity| Keyword::Draid { parity }),
    })
}

fn refuse(reason: String) -> Failure {
    Failure::new(FailureKind::Invalid, format!("invalid vdev specification: {reason}"))
}

/// Most devices of one group.
const GROUP_MAX_DEVICES: usize = 255;

/// Reads a specification. `resolve` turns a device's word into a full path, or refuses it.
///
/// # Errors
/// The words to print, as scripts know them.
pub fn parse(
    words: &[String],
    mut resolve: impl FnMut(&str) -> Result<String, Failure>,
) -> Result<Vec<VdevSpec>, Failure> {
    let mut specs: Vec<VdevSpec> = Vec::new();
    let mut class = VdevClass::Normal;
    let mut seen: Vec<VdevClass> = Vec::new();
    let mut rest = words;
    while let Some((word, after)) = rest.split_first() {
        rest = after;
        match keyword(word) {
            None => {
                specs.push(VdevSpec { class, layout: Layout::Single, devices: vec![resolve(word)?] });
            }
            Some(Keyword::Class(next)) => {
                if next == VdevClass::Log && seen.contains(&next) {
                    return Err(refuse(format!("'{word}' can be specified only once")));
                }
                seen.push(next);
                class = next;
            }
            Some(Keyword::List(list)) => {
                if seen.contains(&list) {
                    return Err(refuse(format!("'{word}' can be specified only once")));
                }
                seen.push(list);
                class = VdevClass::Normal;
                let devices = take_devices(&mut rest, &mut resolve)?;
                check_count(word, devices.len(), 1)?;
                specs.extend(devices.into_iter().map(|d| VdevSpec {
                    class: list,
                    layout: Layout::Single,
                    devices: vec![d],
                }));
            }
            Some(Keyword::Group(layout)) => {
                check_layout(word, layout, class)?;
                let devices = take_devices(&mut rest, &mut resolve)?;
                check_count(word, devices.len(), least_devices(layout))?;
                specs.push(VdevSpec { class, layout, devices });
            }
            Some(Keyword::Draid { .. }) if class == VdevClass::Log => {
                return Err(refuse("unsupported 'log' device: draid".into()));
            }
            Some(Keyword::Draid { parity }) => {
                let devices = take_devices(&mut rest, &mut resolve)?;
                check_count(word, devices.len(), usize::from(parity) + 1)?;
                let layout = draid::layout(word, parity, devices.len())?;
                specs.push(VdevSpec { class, layout, devices });
            }
        }
    }
    if specs.is_empty() {
        return Err(refuse("at least one toplevel vdev must be specified".into()));
    }
    if seen.contains(&VdevClass::Log) && !specs.iter().any(|s| s.class == VdevClass::Log) {
        return Err(refuse("log requires at least 1 device".into()));
    }
    Ok(specs)
}

fn take_devices(
    rest: &mut &[String],
    resolve: &mut impl FnMut(&str) -> Result<String, Failure>,
) -> Result<Vec<String>, Failure> {
    let end = rest.iter().position(|w| keyword(w).is_some()).unwrap_or(rest.len());
    let (words, after) = rest.split_at(end);
    *rest = after;
    words.iter().map(|w| resolve(w)).collect()
}

fn check_layout(word: &str, layout: Layout, class: VdevClass) -> Result<(), Failure> {
    let name = if matches!(layout, Layout::Raidz { .. }) { "raidz" } else { word };
    if class == VdevClass::Log && layout != Layout::Mirror {
        return Err(refuse(format!("unsupported 'log' device: {name}")));
    }
    Ok(())
}

fn least_devices(layout: Layout) -> usize {
    match layout {
        Layout::Single => 1,
        Layout::Mirror => 2,
        Layout::Raidz { parity } | Layout::Draid { parity, .. } => usize::from(parity) + 1,
    }
}

fn check_count(word: &str, count: usize, least: usize) -> Result<(), Failure> {
    if count < least {
        return Err(refuse(format!("{word} requires at least {least} devices")));
    }
    if count > GROUP_MAX_DEVICES && (word.starts_with("raidz") || word.starts_with("draid")) {
        return Err(refuse(format!("{word} supports no more than {GROUP_MAX_DEVICES} devices")));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
