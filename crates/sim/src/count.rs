//! How many crash states a run of tests visits.
//!
//! `SAWMILL_COUNT_STATES=FILE`: each state that is booted adds one byte to the file, so that the
//! states of many test programs, side by side and one after another, add up to the file's length.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::sync::LazyLock;

const COUNT_STATES: &str = "SAWMILL_COUNT_STATES";

static STATES: LazyLock<Option<File>> = LazyLock::new(|| {
    let path = std::env::var_os(COUNT_STATES)?;
    let file = OpenOptions::new().create(true).append(true).open(&path);
    Some(file.unwrap_or_else(|error| panic!("{}: {error}", path.display())))
});

/// One more state is visited.
pub(crate) fn one_more_state() {
    if let Some(mut file) = STATES.as_ref() {
        file.write_all(b".").expect("the file of states can be written");
    }
}
