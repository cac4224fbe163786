//! `sawmill`, and `zpool` and `zfs` when called by those names.

use std::process::ExitCode;

/// Blocks come and go by the gigabyte: an allocator that keeps pages for the next ones, see
/// `docs/decisions/2026-11-22-allocator.md`.
#[global_allocator]
static HEAP: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    ExitCode::from(cli::main(std::env::args_os()))
}
