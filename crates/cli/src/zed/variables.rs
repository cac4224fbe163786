//! Makes the variables of a zedlet from the values of an event.

use super::zedlets::subclass;
use crate::view::events::{pool_state_word, vdev_state_word};
use events::names::{CLASS, POOL_STATE, TIME, VDEV_LASTSTATE, VDEV_STATE};
use ondisk::{NvList, NvValue};
use std::fmt::Display;
use std::path::{Path, PathBuf};

/// The prefix of variables that come from the event.
const OF_EVENT: &str = "ZEVENT_";
/// This text takes the place of a value that no variable can hold.
const NO_TEXT: &str = "_NOT_IMPLEMENTED_";
/// Zedlets have this `PATH` if the caller gives no other one.
const PATH: &str = "/usr/bin:/bin:/usr/sbin:/sbin";
/// The commands whose paths are variables.
const COMMANDS: [&str; 5] = ["zdb", "zed", "zfs", "zinject", "zpool"];

/// `Surroundings` has the values of variables that do not come from the event.
pub struct Surroundings {
    /// The directory of the zedlets.
    pub dir: PathBuf,
    /// `PATH`, and then commands are found by that path, too.
    pub path: Option<String>,
}

/// Returns all variables of the zedlets that run for an event.
pub fn variables(event: &NvList, surroundings: &Surroundings) -> Vec<(String, String)> {
    let mut variables = Vec::new();
    for (name, value) in event.iter() {
        let text = text(name, value);
        variables.push((of_event(name), text));
        if let Some(word) = word(name, value) {
            variables.push((format!("{}_STR", of_event(name)), word.to_owned()));
        }
    }
    variables.push((of_event("subclass"), subclass(event.get_str(CLASS).unwrap_or_default()).to_owned()));
    variables.extend(moment(event));
    variables.extend(surroundings.variables());
    variables
}

/// The variable for a value of an event.
fn of_event(name: &str) -> String {
    let letter = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
    OF_EVENT.chars().chain(name.chars().map(letter)).collect()
}

/// The word for a number that stands for a state.
fn word(name: &str, value: &NvValue) -> Option<&'static str> {
    match value {
        NvValue::U64(state) if [VDEV_STATE, VDEV_LASTSTATE].contains(&name) => Some(vdev_state_word(*state)),
        NvValue::U64(state) if name == POOL_STATE => Some(pool_state_word(*state)),
        _ => None,
    }
}

fn text(name: &str, value: &NvValue) -> String {
    let is_guid = name.ends_with("_guid") || name.ends_with("_guids");
    let number = |number: &u64| {
        if is_guid { format!("{number:#018X}").replacen("0X", "0x", 1) } else { number.to_string() }
    };
    match value {
        NvValue::Flag => "1".to_owned(),
        NvValue::Bool(is) => u8::from(*is).to_string(),
        NvValue::Byte(number) | NvValue::U8(number) => number.to_string(),
        NvValue::I8(number) => number.to_string(),
        NvValue::I16(number) => number.to_string(),
        NvValue::U16(number) => number.to_string(),
        NvValue::I32(number) => number.to_string(),
        NvValue::U32(number) => number.to_string(),
        NvValue::I64(number) | NvValue::HrTime(number) => number.to_string(),
        NvValue::U64(value) => number(value),
        NvValue::Str(words) => words.clone(),
        NvValue::StrArray(words) => words.join(" "),
        NvValue::I64Array(numbers) => in_a_row(numbers),
        NvValue::U64Array(numbers) => numbers.iter().map(number).collect::<Vec<_>>().join(" "),
        _ => NO_TEXT.to_owned(),
    }
}

fn in_a_row(numbers: &[impl Display]) -> String {
    numbers.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
}

/// The parts of an event's time.
fn moment(event: &NvList) -> Vec<(String, String)> {
    let Some(NvValue::I64Array(time)) = event.get(TIME) else { return Vec::new() };
    let [secs, nanos] = time.as_slice() else { return Vec::new() };
    let shown = engine::props::zoned_time(u64::try_from(*secs).unwrap_or(0));
    vec![
        (of_event("time_secs"), secs.to_string()),
        (of_event("time_nsecs"), nanos.to_string()),
        (of_event("time_string"), shown),
    ]
}

impl Surroundings {
    fn variables(&self) -> Vec<(String, String)> {
        let version = env!("CARGO_PKG_VERSION");
        let own = [
            ("IFS", " \t\n".to_owned()),
            ("PATH", self.path.clone().unwrap_or_else(|| PATH.to_owned())),
            ("ZED_PID", std::process::id().to_string()),
            ("ZED_ZEDLET_DIR", self.dir.display().to_string()),
            ("ZFS_ALIAS", format!("sawmill-{version}")),
            ("ZFS_VERSION", version.to_owned()),
            ("ZFS_RELEASE", "1".to_owned()),
        ];
        // A daemon of another directory is the one that the programs of a zedlet mean.
        let handed_on = ["TZ", "SAWMILL_RUN"];
        let handed_on = handed_on.iter().filter_map(|name| Some((*name, std::env::var(name).ok()?)));
        let commands = COMMANDS.iter().map(|name| (name.to_uppercase(), self.command(name)));
        own.into_iter()
            .chain(handed_on)
            .map(|(name, value)| (name.to_owned(), value))
            .chain(commands)
            .collect()
    }

    /// The command of this name: a path beside this program, if the command is there, or the name alone.
    fn command(&self, name: &str) -> String {
        let beside = || Some(std::env::current_exe().ok()?.parent()?.join(name));
        let path = beside().filter(|path| self.path.is_none() && Path::exists(path));
        path.map_or_else(|| name.to_owned(), |path| path.display().to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use events::Event;
    use std::collections::BTreeMap;

    #[test]
    fn an_event_becomes_the_variables_that_zedlets_of_openzfs_read() {
        let mut event = Event::resource("statechange");
        let payload = event.payload();
        payload.add_str("pool", "tank".to_owned()).add_u64("pool_guid", 0xAB).add_u64(POOL_STATE, 0);
        payload.add_u64(VDEV_STATE, 6).add_u64(VDEV_LASTSTATE, 7).add_u64("vdev_ashift", 12);
        payload.add("spare_guids", NvValue::U64Array(vec![1, 2]));
        payload.add("spare_paths", NvValue::StrArray(vec!["/a".to_owned(), "/b".to_owned()]));
        payload.add(TIME, NvValue::I64Array(vec![1_795_288_704, 5]));
        payload.add_nvlist("detector", NvList::new());
        let surroundings = Surroundings { dir: "/etc/zed".into(), path: Some("/bin".to_owned()) };
        let all: BTreeMap<String, String> =
            variables(&event.into_payload(), &surroundings).into_iter().collect();
        for (name, value) in [
            ("ZEVENT_CLASS", "resource.fs.zfs.statechange"),
            ("ZEVENT_SUBCLASS", "statechange"),
            ("ZEVENT_POOL", "tank"),
            ("ZEVENT_POOL_GUID", "0x00000000000000AB"),
            ("ZEVENT_POOL_STATE_STR", "ACTIVE"),
            ("ZEVENT_VDEV_STATE", "6"),
            ("ZEVENT_VDEV_STATE_STR", "DEGRADED"),
            ("ZEVENT_VDEV_LASTSTATE_STR", "ONLINE"),
            ("ZEVENT_VDEV_ASHIFT", "12"),
            ("ZEVENT_SPARE_GUIDS", "0x0000000000000001 0x0000000000000002"),
            ("ZEVENT_SPARE_PATHS", "/a /b"),
            ("ZEVENT_TIME", "1795288704 5"),
            ("ZEVENT_TIME_SECS", "1795288704"),
            ("ZEVENT_TIME_NSECS", "5"),
            ("ZEVENT_DETECTOR", NO_TEXT),
            ("ZED_ZEDLET_DIR", "/etc/zed"),
            ("PATH", "/bin"),
            ("ZPOOL", "zpool"),
        ] {
            assert_eq!(all.get(name).map(String::as_str), Some(value), "{name}");
        }
        assert!(all["ZEVENT_TIME_STRING"].starts_with("2026-11-2"), "{}", all["ZEVENT_TIME_STRING"]);
    }
}
