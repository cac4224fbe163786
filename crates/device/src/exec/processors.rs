//! On which processors a thread runs.
//!
//! A thread inherits from the one that starts it where it may run: who starts threads from a bound one has them
//! [`unbind`] themselves.

use std::sync::OnceLock;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Where this process may run, as the first who asked found it: nothing is bound before that.
fn usable() -> &'static [usize] {
    static USABLE: OnceLock<Vec<usize>> = OnceLock::new();
    USABLE.get_or_init(|| {
        // On a machine with more processors than such a set holds nothing is bound.
        let set = sched_getaffinity(None).unwrap_or_else(|_| CpuSet::new());
        (0..CpuSet::MAX_CPU).filter(|&processor| set.is_set(processor)).collect()
    })
}

/// The processors of `count` threads that are to be spread over those that this process may use; none where that is
/// not known.
pub(crate) fn spread(count: usize) -> Vec<usize> {
    usable().iter().copied().cycle().take(count).collect()
}

/// Keeps the thread that calls on one processor, if the system allows it.
pub(crate) fn bind(processor: usize) {
    run_on([processor]);
}

/// Lets the thread that calls run on all processors of this process.
pub(crate) fn unbind() {
    run_on(usable().iter().copied());
}

fn run_on(processors: impl IntoIterator<Item = usize>) {
    let mut set = CpuSet::new();
    processors.into_iter().for_each(|processor| set.set(processor));
    // Where that is refused, as by seccomp, the thread runs where it did: that costs time and nothing else.
    let _refused = sched_setaffinity(None, &set);
}
