//! Counts the crash states that a run of tests visits.
//!
//! With `SAWMILL_COUNT_STATES=FILE`, each state that is booted appends one byte to the file. The
//! length of the file is the number of states of all test programs that ran with this variable.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::sync::LazyLock;

const COUNT_STATES: &str = "SAWMILL_COUNT_STATES";

static STATES: LazyLock<Option<File>> = LazyLock::new(|| {
    let path = std::env::var_os(COUNT_STATES)?;
    let file = OpenOptions::new().create(true).append(true).open(&path);
    Some(file.unwrap_or_else(|error| panic!("{}: {error}", path.display())))
});

/// Counts a state that a test visits.
pub(crate) fn one_more_state() {
    if let Some(mut file) = STATES.as_ref() {
        file.write_all(b".").expect("the file of states can be written");
    }
}
