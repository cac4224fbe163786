//! Loops that serve the same requests.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::RwLock;

/// How many of a company's loops watch for requests. One that makes a system call which may take long does not;
/// what comes meanwhile is taken by the others, so one always stays.
pub(crate) struct Company<L> {
    present: AtomicUsize,
    members: RwLock<Vec<Weak<L>>>,
}

impl<L> Company<L> {
    /// Of `loops` loops, which all watch.
    pub(crate) fn new(loops: usize) -> Self {
        Self { present: AtomicUsize::new(loops), members: RwLock::default() }
    }

    /// Makes a loop known to the others.
    pub(crate) fn join(&self, member: &Arc<L>) {
        self.members.write().push(Arc::downgrade(member));
    }

    /// A member of that kind.
    pub(crate) fn find(&self, is_it: impl Fn(&L) -> bool) -> Option<Arc<L>> {
        self.members.read().iter().filter_map(Weak::upgrade).find(|member| is_it(member))
    }

    /// Lets a loop be away until the answer is dropped; not the last one.
    pub(crate) fn leave(&self) -> Option<Away<'_, L>> {
        let others = |present: usize| (present > 1).then(|| present - 1);
        self.present.fetch_update(Ordering::AcqRel, Ordering::Acquire, others).ok()?;
        Some(Away(self))
    }
}

/// While it lives, a loop does not watch.
pub(crate) struct Away<'a, L>(&'a Company<L>);

impl<L> Drop for Away<'_, L> {
    fn drop(&mut self) {
        self.0.present.fetch_add(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_always_stays() {
        let company = Company::<()>::new(3);
        let first = company.leave().expect("two stay");
        let second = company.leave().expect("one stays");
        assert!(company.leave().is_none(), "the last one");
        drop(first);
        let third = company.leave().expect("one is back");
        assert!(company.leave().is_none());
        drop((second, third));
        assert!(Company::<()>::new(1).leave().is_none());
    }

    #[test]
    fn members_are_found_while_they_live() {
        let company = Company::new(2);
        let (one, two) = (Arc::new(1), Arc::new(2));
        company.join(&one);
        company.join(&two);
        assert_eq!(company.find(|&number| number > 1), Some(Arc::clone(&two)));
        drop(two);
        assert_eq!(company.find(|&number| number > 1), None);
    }
}
