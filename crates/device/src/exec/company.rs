//! Loops that serve the same requests.

use std::sync::atomic::{AtomicUsize, Ordering};

/// How many of a company's loops watch for requests. One that makes a system call which may take long does not;
/// what comes meanwhile is taken by the others, so one always stays.
pub(crate) struct Company {
    present: AtomicUsize,
}

impl Company {
    /// Of `loops` loops, which all watch.
    pub(crate) fn new(loops: usize) -> Self {
        Self { present: AtomicUsize::new(loops) }
    }

    /// Lets a loop be away until the answer is dropped; not the last one.
    pub(crate) fn leave(&self) -> Option<Away<'_>> {
        let others = |present: usize| (present > 1).then(|| present - 1);
        self.present.fetch_update(Ordering::AcqRel, Ordering::Acquire, others).ok()?;
        Some(Away(self))
    }
}

/// While it lives, a loop does not watch.
pub(crate) struct Away<'a>(&'a Company);

impl Drop for Away<'_> {
    fn drop(&mut self) {
        self.0.present.fetch_add(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_always_stays() {
        let company = Company::new(3);
        let first = company.leave().expect("two stay");
        let second = company.leave().expect("one stays");
        assert!(company.leave().is_none(), "the last one");
        drop(first);
        let third = company.leave().expect("one is back");
        assert!(company.leave().is_none());
        drop((second, third));
        assert!(Company::new(1).leave().is_none());
    }
}
