//! Points in time as the format keeps them.

use std::time::Duration;

/// Bytes of an encoded time.
pub const TIME_BYTES: usize = 16;

/// Seconds and nanoseconds since 1970-01-01 UTC; earlier times have negative seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp {
    /// Whole seconds, rounded down.
    pub secs: i64,
    /// 0 to 999,999,999.
    pub nanos: u32,
}

impl Timestamp {
    /// As two little-endian words: what an attribute and a log record hold.
    #[must_use]
    pub fn encode(self) -> [u8; TIME_BYTES] {
        let mut bytes = [0; TIME_BYTES];
        bytes[..8].copy_from_slice(&self.secs.to_le_bytes());
        bytes[8..].copy_from_slice(&u64::from(self.nanos).to_le_bytes());
        bytes
    }

    /// How long after `earlier` this is; none when it is not after it, and past 100 years.
    #[must_use]
    pub fn since(self, earlier: Self) -> Option<Duration> {
        let secs = self.secs.checked_sub(earlier.secs)?;
        let secs = (0..100 * 366 * 86_400).contains(&secs).then_some(secs)?;
        let nanos = secs * 1_000_000_000 + i64::from(self.nanos) - i64::from(earlier.nanos);
        u64::try_from(nanos).ok().map(Duration::from_nanos)
    }

    /// The time a nanosecond later.
    #[must_use]
    pub fn next(self) -> Self {
        match self.nanos {
            999_999_999.. => Self { secs: self.secs.saturating_add(1), nanos: 0 },
            nanos => Self { nanos: nanos + 1, ..self },
        }
    }

    /// The two words of a log record.
    #[must_use]
    pub fn to_words(self) -> [u64; 2] {
        [self.secs.cast_unsigned(), u64::from(self.nanos)]
    }

    /// From the two words of a log record or an attribute.
    #[must_use]
    pub fn from_words(words: [u64; 2]) -> Self {
        let nanos = u32::try_from(words[1]).unwrap_or(0).min(999_999_999);
        Self { secs: words[0].cast_signed(), nanos }
    }
}

impl From<Duration> for Timestamp {
    fn from(since_epoch: Duration) -> Self {
        let secs = i64::try_from(since_epoch.as_secs()).unwrap_or(i64::MAX);
        Self { secs, nanos: since_epoch.subsec_nanos() }
    }
}

impl From<Timestamp> for ondisk::zil::record::body::Timestamp {
    fn from(time: Timestamp) -> Self {
        Self { seconds: time.secs, nanos: time.nanos.into() }
    }
}

impl From<ondisk::zil::record::body::Timestamp> for Timestamp {
    fn from(time: ondisk::zil::record::body::Timestamp) -> Self {
        Self::from_words([time.seconds.cast_unsigned(), time.nanos])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_so_long_after_another_or_not_after_it() {
        let time = |secs, nanos| Timestamp { secs, nanos };
        assert_eq!(time(5, 1).since(time(4, 999_999_999)), Some(Duration::from_nanos(2)));
        assert_eq!(time(-3, 0).since(time(-5, 500_000_000)), Some(Duration::from_millis(1_500)));
        assert_eq!(time(5, 0).since(time(5, 0)), Some(Duration::ZERO));
        assert_eq!(time(5, 0).since(time(5, 1)), None);
        assert_eq!(time(i64::MAX, 0).since(time(0, 0)), None);
        assert_eq!(time(0, 0).since(time(i64::MIN, 0)), None);
        assert_eq!(time(0, 0).since(time(i64::MAX, 0)), None);
    }
}
