//! The daemon ends when one of its threads panics, at once, and its log says why.
//!
//! A panic means that something we computed ourselves is wrong. What the thread was changing is half done, the locks
//! that it held are open again, and a request that it was to answer is never answered. To go on from there could write
//! the half that is done; to end cannot: the next command brings the pools back, and their logs hold what was promised.
//!
//! A hook does this, and not `panic = "abort"`, because Cargo has that setting for a profile and not for a program: the
//! fuzz targets, which catch panics to tell what caused them, are built with the same profiles. The hook runs on the
//! thread that panics, before anything is unwound, whoever made that thread (the FUSE library, the runtime that
//! answers commands) and whoever would have caught the panic.
//!
//! The reason is also left in a file, because the next daemon does not open the pool again whose opening ended this one.
//! (test: `a_daemon_in_which_a_thread_panics_ends_and_says_why_and_loses_nothing_promised`)

use std::backtrace::Backtrace;
use std::io::{self, Write};
use std::panic::PanicHookInfo;

/// From now on a panic ends the process, whatever thread it is in. `keep` keeps the reason, too.
pub fn end_the_process(keep: impl Fn(&str) -> io::Result<()> + Send + Sync + 'static) {
    std::panic::set_hook(Box::new(move |panic| {
        // There is nobody to tell when this fails.
        _ = keep(&reason_of(panic));
        _ = std::io::stderr().write_all(last_words(panic, &Backtrace::force_capture()).as_bytes());
        std::process::abort();
    }));
}

fn reason_of(panic: &PanicHookInfo<'_>) -> String {
    panic.to_string().replace('\n', " ")
}

/// The reason comes last: whoever waits for a daemon that does not start shows the log's last line.
fn last_words(panic: &PanicHookInfo<'_>, backtrace: &Backtrace) -> String {
    let thread = std::thread::current();
    let thread = thread.name().unwrap_or("without a name");
    let reason = reason_of(panic);
    let now = jiff::Timestamp::now();
    format!("{backtrace}\n{now:.6} ERROR the daemon ends: thread {thread} {reason}\n")
}
