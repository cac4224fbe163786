//! The fields of `/proc/PID/stat`, which describes a process. Fields are counted from 1, as in
//! proc(5).

use std::fs;

/// The unit of times in this file, which is the same on every Linux.
pub const TICKS_PER_SEC: u64 = 100;
/// The state is the first field after the name.
const STATE: usize = 3;

/// The fields after the name. Empty if the process is gone.
pub struct Stat(Vec<String>);

impl Stat {
    pub fn of(pid: u32) -> Self {
        let stat = fs::read(format!("/proc/{pid}/stat")).unwrap_or_default();
        let stat = String::from_utf8_lossy(&stat);
        // The name is in parentheses and may contain any character.
        let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
        Self(fields.split_whitespace().map(str::to_owned).collect())
    }

    pub fn is_zombie(&self) -> bool {
        self.0.first().is_some_and(|state| state == "Z")
    }

    pub fn number(&self, field: usize) -> Option<u64> {
        self.0.get(field.checked_sub(STATE)?)?.parse().ok()
    }
}
