//! How long disks take.
//!
//! Figures are round numbers of the right size for their kind, not measurements of one
//! product: what matters is their proportion.

use std::time::Duration;

use crate::rng::Rng;

const fn us(n: u64) -> Duration {
    Duration::from_micros(n)
}

/// A spread of times: fastest, median, 90th and 99th of a hundred, slowest. Between them
/// times are spread evenly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Latency {
    /// Quantiles 0, 0.5, 0.9, 0.99 and 1.
    pub quantiles: [Duration; 5],
}

impl Latency {
    /// No time at all.
    pub const ZERO: Self = Self { quantiles: [Duration::ZERO; 5] };

    /// In microseconds.
    #[must_use]
    pub const fn us(quantiles: [u64; 5]) -> Self {
        let [a, b, c, d, e] = quantiles;
        Self { quantiles: [us(a), us(b), us(c), us(d), us(e)] }
    }

    pub(crate) fn draw(&self, rng: &mut Rng) -> Duration {
        const PERMILLE: [u64; 5] = [0, 500, 900, 990, 1000];
        let at = rng.below(1000);
        let step = PERMILLE.iter().rposition(|&from| from <= at).expect("quantiles begin at 0");
        let (from, to) = (PERMILLE[step], PERMILLE[step + 1]);
        let (low, high) =
            (self.quantiles[step].as_nanos() as u64, self.quantiles[step + 1].as_nanos() as u64);
        let span = high.saturating_sub(low);
        Duration::from_nanos(low + span * (at - from) / (to - from) + rng.below(span / (to - from) + 1))
    }
}

/// A turning platter under one arm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Platter {
    /// Time of one turn.
    pub turn: Duration,
    /// Bytes that pass the head in one turn.
    pub track_bytes: u64,
    /// Time to the next track.
    pub seek_min: Duration,
    /// Time across the whole disk.
    pub seek_max: Duration,
    /// Size of the write cache.
    pub cache_bytes: u64,
}

/// How long one kind of disk takes, and whether its cache survives a power cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskModel {
    /// Time of a read; on a platter, of one that the drive's electronics take.
    pub read: Latency,
    /// Time of a cached write; likewise.
    pub write: Latency,
    /// Time of a stable write, in place of `write`; on a platter, on top of the access.
    pub stable_write: Latency,
    /// Time of a flush; on a platter, on top of writing out the cache.
    pub flush: Latency,
    /// Bytes of all requests together that pass through the interface in a second; `u64::MAX` for no limit.
    pub bytes_per_second: u64,
    /// Requests served at once.
    pub parallel: usize,
    /// The write cache forgets at a power cut. Without it every write is stable when done.
    pub has_volatile_cache: bool,
    /// For disks that turn.
    pub platter: Option<Platter>,
}

impl DiskModel {
    /// Those that have a name, from the fastest down.
    pub const NAMED: [(&'static str, Self); 4] = [
        ("nvram", Self::nvram()),
        ("ssd-plp", Self::ssd_with_plp()),
        ("ssd", Self::ssd()),
        ("hdd-2007", Self::sata_2007()),
    ];

    /// The one of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::NAMED.iter().find(|(known, _)| *known == name).map(|(_, model)| *model)
    }

    /// A disk that takes no time, with a volatile cache: the strictest for correctness.
    #[must_use]
    pub const fn instant() -> Self {
        Self {
            read: Latency::ZERO,
            write: Latency::ZERO,
            stable_write: Latency::ZERO,
            flush: Latency::ZERO,
            bytes_per_second: u64::MAX,
            parallel: usize::MAX,
            has_volatile_cache: true,
            platter: None,
        }
    }

    /// A SATA disk of 2007: 7200 turns a minute, 80 MB/s, 16 MiB of volatile cache.
    #[must_use]
    pub const fn sata_2007() -> Self {
        Self {
            read: Latency::us([50, 80, 120, 200, 400]),
            write: Latency::us([60, 100, 160, 300, 600]),
            stable_write: Latency::us([50, 80, 120, 200, 400]),
            flush: Latency::us([100, 150, 250, 500, 1000]),
            bytes_per_second: 250_000_000,
            parallel: 1,
            has_volatile_cache: true,
            platter: Some(Platter {
                turn: us(8333),
                track_bytes: 666_000,
                seek_min: us(800),
                seek_max: us(16_000),
                cache_bytes: 16 << 20,
            }),
        }
    }

    /// A consumer's NVMe SSD: fast until something must be stable.
    #[must_use]
    pub const fn ssd() -> Self {
        Self {
            read: Latency::us([50, 80, 120, 300, 2000]),
            write: Latency::us([10, 15, 30, 100, 2000]),
            stable_write: Latency::us([400, 700, 1500, 5000, 20_000]),
            flush: Latency::us([400, 700, 1500, 5000, 20_000]),
            bytes_per_second: 2_000_000_000,
            parallel: 16,
            has_volatile_cache: true,
            platter: None,
        }
    }

    /// An SSD with power-loss protection: its cache outlives a power cut.
    #[must_use]
    pub const fn ssd_with_plp() -> Self {
        Self {
            read: Latency::us([50, 80, 120, 300, 1000]),
            write: Latency::us([12, 20, 30, 60, 1000]),
            stable_write: Latency::us([12, 20, 30, 60, 1000]),
            flush: Latency::us([3, 5, 8, 15, 100]),
            bytes_per_second: 2_000_000_000,
            parallel: 32,
            has_volatile_cache: false,
            platter: None,
        }
    }

    /// Memory that keeps its content.
    #[must_use]
    pub const fn nvram() -> Self {
        Self {
            read: Latency::us([2, 3, 4, 6, 20]),
            write: Latency::us([2, 3, 4, 6, 20]),
            stable_write: Latency::us([2, 3, 4, 6, 20]),
            flush: Latency::us([1, 1, 2, 3, 10]),
            bytes_per_second: 8_000_000_000,
            parallel: 64,
            has_volatile_cache: false,
            platter: None,
        }
    }

    /// The same disk with a cache that outlives a power cut: what is in the cache is stable, and a flush has nothing to do.
    #[must_use]
    pub const fn with_safe_cache(self) -> Self {
        Self { stable_write: self.write, flush: Latency::ZERO, has_volatile_cache: false, ..self }
    }

    pub(crate) fn transfer(&self, len: u64) -> Duration {
        if self.bytes_per_second == u64::MAX {
            return Duration::ZERO;
        }
        let nanos = u128::from(len) * 1_000_000_000 / u128::from(self.bytes_per_second);
        Duration::from_nanos(nanos as u64)
    }
}
