//! What the daemon tells: to standard error, which is its log file when it was started
//! by a command. `SAWMILL_LOG` chooses what, as in `SAWMILL_LOG=debug`.

use tracing_subscriber::EnvFilter;

/// From now on events are told.
pub fn init() {
    let filter = EnvFilter::try_from_env("SAWMILL_LOG").unwrap_or_else(|_| EnvFilter::new("info"));
    let told =
        tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(false);
    _ = told.try_init();
}
