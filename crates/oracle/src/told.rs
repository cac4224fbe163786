//! What tested code tells its operator, beside the test that failed.

use tracing_subscriber::EnvFilter;

/// From now on warnings and errors of this process go to the output of the test on whose thread, or below whose
/// thread, they occur; `SAWMILL_LOG` chooses others, as it does for the daemon.
pub fn to_the_test() {
    let filter = EnvFilter::try_from_env("SAWMILL_LOG").unwrap_or_else(|_| EnvFilter::new("warn"));
    // Another test of the same process may have said so already.
    _ = tracing_subscriber::fmt().with_env_filter(filter).with_test_writer().with_ansi(false).try_init();
}
