//! What the kernel is to allow on a mount: what properties say, and for this mount alone `zfs mount -o`.

use crate::front::{AccessTimes, MountFlags, Snapdir};
use crate::props::{PropDef, Props, Value, dataset_prop};

/// What was said when something was mounted; it counts before properties, until it is unmounted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Given {
    read_only: Option<bool>,
    exec: Option<bool>,
    setuid: Option<bool>,
    devices: Option<bool>,
    atime: Option<bool>,
    relatime: Option<bool>,
    writeback: Option<bool>,
    /// mount(8) chose the directory, and not the property.
    is_placed: bool,
}

/// Properties that the kernel's flags follow.
pub const FOLLOWED: [&str; 6] = ["readonly", "exec", "setuid", "devices", "atime", "relatime"];

/// The user property that says of a file system, and of those below it, that the system may keep what is written: OpenZFS has
/// none for that.
pub const WRITEBACK: &str = "org.sawmill:writeback";

impl Given {
    /// Reads the words of `-o`; the first that is unknown is the error.
    pub fn parse(words: &[String]) -> Result<Self, &str> {
        let mut given = Self::default();
        for word in words {
            given.take(word).ok_or(word.as_str())?;
        }
        Ok(given)
    }

    /// The same at a directory that mount(8) chose.
    pub fn placed(self) -> Self {
        Self { is_placed: true, ..self }
    }

    /// True if mount(8) chose the directory.
    pub fn is_placed(&self) -> bool {
        self.is_placed
    }

    fn take(&mut self, word: &str) -> Option<()> {
        match word {
            "defaults" => {}
            "ro" => self.read_only = Some(true),
            "rw" => self.read_only = Some(false),
            _ => {
                let (is_on, name) = word.strip_prefix("no").map_or((true, word), |name| (false, name));
                *self.switch(name)? = Some(is_on);
            }
        }
        Some(())
    }

    /// By the words of mount(8), and the names of properties.
    fn switch(&mut self, name: &str) -> Option<&mut Option<bool>> {
        match name {
            "exec" => Some(&mut self.exec),
            "suid" | "setuid" => Some(&mut self.setuid),
            "dev" | "devices" => Some(&mut self.devices),
            "atime" => Some(&mut self.atime),
            "relatime" => Some(&mut self.relatime),
            "writeback" => Some(&mut self.writeback),
            _ => None,
        }
    }

    /// Whether the system may keep what programs write: as was said when it was mounted, or else where [`WRITEBACK`] is `on`.
    pub fn writeback(&self, props: &Props) -> bool {
        self.writeback.unwrap_or_else(|| match props.get(WRITEBACK).map(|prop| &prop.value) {
            Some(Value::Text(text)) if text != "on" && text != "off" => {
                tracing::warn!(value = text, "{WRITEBACK} is neither on nor off, and counts as off");
                false
            }
            value => value == Some(&Value::Text("on".to_owned())),
        })
    }

    /// Returns the properties that options of the mount override, with the values of the options.
    pub fn temporary(&self, props: &Props, is_pool_read_only: bool) -> Vec<(&'static str, bool)> {
        let read_only = if is_pool_read_only { Some(true) } else { self.read_only };
        let given = [read_only, self.exec, self.setuid, self.devices, self.atime, self.relatime];
        let named = FOLLOWED.into_iter().zip(given);
        named.filter_map(|(name, is)| Some((name, is.filter(|is| *is != is_on(props, name))?))).collect()
    }

    /// Returns the words of `-o` with which a mount gets these flags. Flags that follow from the
    /// properties need no word.
    pub fn words_for(flags: MountFlags, props: &Props, is_pool_read_only: bool) -> Vec<String> {
        let follow = Self::default().flags(props, is_pool_read_only);
        let access = match flags.access {
            AccessTimes::Never => ["noatime"].as_slice(),
            AccessTimes::Relative => &["atime", "relatime"],
            AccessTimes::Always => &["atime", "norelatime"],
        };
        let word = |is_on: bool, [on, off]: [&'static str; 2]| if is_on { on } else { off };
        let switches = [
            (flags.read_only, follow.read_only, ["ro", "rw"]),
            (flags.exec, follow.exec, ["exec", "noexec"]),
            (flags.setuid, follow.setuid, ["suid", "nosuid"]),
            (flags.devices, follow.devices, ["dev", "nodev"]),
        ];
        let differing = switches.into_iter().filter(|(is, would_be, _)| is != would_be);
        let words = differing.map(|(is, _, words)| word(is, words));
        let access = access.iter().copied().filter(|_| flags.access != follow.access);
        words.chain(access).map(str::to_owned).collect()
    }

    /// The flags, of a pool that may only be read as a whole.
    pub fn flags(&self, props: &Props, is_pool_read_only: bool) -> MountFlags {
        let is_on = |given: Option<bool>, name| given.unwrap_or_else(|| is_on(props, name));
        MountFlags {
            read_only: is_pool_read_only || is_on(self.read_only, "readonly"),
            exec: is_on(self.exec, "exec"),
            setuid: is_on(self.setuid, "setuid"),
            devices: is_on(self.devices, "devices"),
            access: match (is_on(self.atime, "atime"), is_on(self.relatime, "relatime")) {
                (false, _) => AccessTimes::Never,
                (true, true) => AccessTimes::Relative,
                (true, false) => AccessTimes::Always,
            },
        }
    }
}

/// How the control directory is to be shown.
pub fn snapdir(props: &Props) -> Snapdir {
    match number(props, "snapdir") {
        1 => Snapdir::Visible,
        2 => Snapdir::Disabled,
        _ => Snapdir::Hidden,
    }
}

/// Whether a switch is on, set or by default.
pub fn is_on(props: &Props, name: &str) -> bool {
    number(props, name) == 1
}

/// A property that is a number, set or by default.
pub fn number(props: &Props, name: &str) -> u64 {
    let default = || dataset_prop(name).map(PropDef::default_value);
    match props.get(name).map(|prop| prop.value.clone()).or_else(default) {
        Some(Value::Number(number)) => number,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::props::{Prop, Source};

    fn parse(line: &str) -> Result<Given, String> {
        let words: Vec<String> = line.split(',').map(str::to_owned).collect();
        Given::parse(&words).map_err(str::to_owned)
    }

    #[test]
    fn without_a_word_the_properties_count() {
        let off = |name: &str| (name.to_owned(), Prop { value: Value::Number(0), source: Source::Local });
        let props: Props = [off("exec"), off("atime")].into();
        let flags = Given::default().flags(&props, false);
        assert_eq!(flags, MountFlags { exec: false, access: AccessTimes::Never, ..MountFlags::default() });
        let flags = parse("exec,nosuid,nodev,ro").expect("known words").flags(&props, false);
        assert!(flags.exec && !flags.setuid && !flags.devices && flags.read_only);
    }

    #[test]
    fn words_give_a_mount_the_flags_of_another() {
        let off = |name: &str| (name.to_owned(), Prop { value: Value::Number(0), source: Source::Local });
        let props: Props = [off("exec"), off("atime")].into();
        for line in
            ["defaults", "ro", "exec,nosuid", "nodev,atime,relatime", "atime,norelatime", "noatime,ro"]
        {
            let flags = parse(line).expect("known words").flags(&props, false);
            let words = Given::words_for(flags, &props, false);
            let again = Given::parse(&words).expect("known words");
            assert_eq!(again.flags(&props, false), flags, "{line}: {words:?}");
        }
        assert_eq!(Given::words_for(Given::default().flags(&props, false), &props, false), [""; 0]);
    }

    #[test]
    fn what_counts_in_place_of_properties_is_temporary() {
        let props = Props::default();
        let temporary =
            |line: &str, is_read_only| parse(line).expect("known").temporary(&props, is_read_only);
        assert_eq!(temporary("ro,noatime,exec", false), [("readonly", true), ("atime", false)]);
        assert_eq!(temporary("rw", true), [("readonly", true)]);
        assert_eq!(temporary("defaults", false), []);
    }

    #[test]
    fn nothing_is_written_to_a_pool_that_is_only_read() {
        let flags = parse("rw").expect("known").flags(&Props::default(), true);
        assert!(flags.read_only);
    }

    #[test]
    fn the_system_keeps_what_is_written_only_where_that_was_said() {
        let said = |text: &str| Prop { value: Value::Text(text.to_owned()), source: Source::Local };
        let props = |text: &str| -> Props { [(WRITEBACK.to_owned(), said(text))].into() };
        let keeps = |line: &str, props: &Props| parse(line).expect("known words").writeback(props);
        let none = Props::default();
        assert!(
            keeps("writeback", &none) && !keeps("noatime", &none) && !keeps("writeback,nowriteback", &none)
        );
        assert!(
            keeps("noatime", &props("on"))
                && !keeps("ro", &props("off"))
                && !keeps("ro", &props("yes"))
                && !keeps("nowriteback", &props("on"))
        );
    }

    #[test]
    fn words_that_mean_nothing_are_refused_by_name() {
        assert_eq!(parse("ro,sync"), Err("sync".into()));
        assert_eq!(parse("noro"), Err("noro".into()));
    }
}
