//! The numbers of faults on order. Each process counts its own from 1, and commands know one number for each.

use control::InjectHandler;
use parking_lot::Mutex;

/// See the module.
#[derive(Debug, Default)]
pub struct InjectionNumbers(Mutex<Numbers>);

#[derive(Debug, Default)]
struct Numbers {
    last: u64,
    all: Vec<Number>,
}

#[derive(Clone, Copy, Debug)]
struct Number {
    /// As commands know it.
    id: u64,
    /// The process.
    pid: u32,
    /// As the process knows it.
    own: u64,
}

impl InjectionNumbers {
    /// Gives a fault its number.
    pub fn add(&self, pid: u32, own: u64) -> u64 {
        let mut numbers = self.0.lock();
        numbers.last += 1;
        let id = numbers.last;
        numbers.all.push(Number { id, pid, own });
        id
    }

    /// Returns the process that has a fault, and its number there.
    pub fn find(&self, id: u64) -> Option<(u32, u64)> {
        let numbers = self.0.lock();
        numbers.all.iter().find(|number| number.id == id).map(|number| (number.pid, number.own))
    }

    /// Gives the faults that a process lists the numbers that commands know.
    pub fn rename(&self, pid: u32, listed: Vec<InjectHandler>) -> Vec<InjectHandler> {
        let numbers = self.0.lock();
        let known = |own: u64| numbers.all.iter().find(|number| number.pid == pid && number.own == own);
        let renamed = |handler: InjectHandler| Some(InjectHandler { id: known(handler.id)?.id, ..handler });
        listed.into_iter().filter_map(renamed).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_fault_has_a_number_of_its_own() {
        let injections = InjectionNumbers::default();
        assert_eq!((injections.add(100, 1), injections.add(200, 1), injections.add(100, 2)), (1, 2, 3));
        assert_eq!(
            (injections.find(2), injections.find(3), injections.find(4)),
            (Some((200, 1)), Some((100, 2)), None)
        );
        let listed = |own| InjectHandler { id: own, ..InjectHandler::default() };
        let ids: Vec<u64> =
            injections.rename(100, vec![listed(1), listed(2)]).iter().map(|one| one.id).collect();
        assert_eq!(ids, [1, 3]);
    }
}
