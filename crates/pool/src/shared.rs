//! Space that several places refer to, and that is taken once.

pub(crate) mod brt;
pub(crate) mod ddt;
mod prefetch;

/// How much of it there is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SharedSpace {
    /// What it takes.
    pub used_bytes: u64,
    /// What it would take besides if nothing were shared: datasets count that, and the pool does not.
    pub saved_bytes: u64,
}

impl SharedSpace {
    /// What it would take, in hundredths of what it takes: 100 where nothing is shared.
    #[must_use]
    pub fn ratio_hundredths(&self) -> u64 {
        let (used, saved) = (u128::from(self.used_bytes), u128::from(self.saved_bytes));
        (used + saved).saturating_mul(100).checked_div(used).map_or(100, |ratio| ratio as u64)
    }
}

impl std::iter::Sum for SharedSpace {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |sum, one| Self {
            used_bytes: sum.used_bytes.saturating_add(one.used_bytes),
            saved_bytes: sum.saved_bytes.saturating_add(one.saved_bytes),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::SharedSpace;

    #[test]
    fn a_ratio_is_cut_off_and_at_least_one() {
        let ratio = |used_bytes, saved_bytes| SharedSpace { used_bytes, saved_bytes }.ratio_hundredths();
        assert_eq!(
            [ratio(0, 0), ratio(512, 0), ratio(512, 512), ratio(3, 2), ratio(3, 5)],
            [100, 100, 200, 166, 266]
        );
        assert_eq!(ratio(1 << 60, 1 << 60), 200);
        assert_eq!(ratio(0, 512), 100);
    }
}
