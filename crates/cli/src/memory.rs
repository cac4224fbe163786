//! How much memory a pool gets.

/// Part of the machine's memory that a pool's cache gets: there may be several pools, and OpenZFS's half
/// is the kernel's to give back when others need it.
const CACHE_FRACTION: u64 = 8;
/// No less than this.
const CACHE_MIN_BYTES: u64 = 256 << 20;

/// Memory for a pool's cache on this machine.
#[must_use]
pub(crate) fn cache_bytes() -> u64 {
    let system = rustix::system::sysinfo();
    let all_bytes = system.totalram.saturating_mul(u64::from(system.mem_unit));
    (all_bytes / CACHE_FRACTION).max(CACHE_MIN_BYTES)
}
