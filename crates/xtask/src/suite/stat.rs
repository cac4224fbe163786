//! What the kernel tells of a process in `/proc/PID/stat`; fields are counted from 1, as in proc(5).

use std::fs;

/// What times are counted in: the same on every Linux.
pub const TICKS_PER_SEC: u64 = 100;
/// The state, the first field behind the name.
const STATE: usize = 3;

/// The fields behind the name; none of a process that is gone.
pub struct Stat(Vec<String>);

impl Stat {
    pub fn of(pid: u32) -> Self {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        // The name is in parentheses, and may have anything in it.
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
