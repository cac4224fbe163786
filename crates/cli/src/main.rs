//! `sawmill`, and `zpool` and `zfs` when called by those names.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(cli::main(std::env::args_os()))
}
