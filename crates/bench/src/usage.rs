//! Time and memory that this process has used.

use std::time::{Duration, Instant};

/// A moment, and the CPU time used until then.
pub(crate) struct Usage {
    at: Instant,
    cpu: Duration,
}

impl Usage {
    pub fn now() -> Self {
        Self { at: Instant::now(), cpu: cpu_time() }
    }

    /// Time passed since then, and CPU time of all threads.
    pub fn since(&self) -> (Duration, Duration) {
        (self.at.elapsed(), cpu_time().saturating_sub(self.cpu))
    }
}

/// User and system time of this process, all threads.
pub(crate) fn cpu_time() -> Duration {
    let clock = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(clock.tv_sec as u64, clock.tv_nsec as u32)
}

/// Most memory that this process ever had at once; 0 where the system does not tell.
pub(crate) fn peak_bytes() -> u64 {
    status_bytes("VmHWM:")
}

/// Memory that this process has; 0 where the system does not tell.
pub(crate) fn resident_bytes() -> u64 {
    status_bytes("VmRSS:")
}

fn status_bytes(name: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0) << 10
}
