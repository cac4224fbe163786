//! Which threads ask for what they write to be stable, and how long they wait for it.
//!
//! A mount remembers [`KEPT`] of them, whoever comes and goes. A thread that is new takes the place of the one that
//! asked least lately: what each has asked weighs half as much every [`HALVED_AFTER`] requests. The kernel says which
//! thread asks; of which process that is, and what that is called, is looked up when somebody wants to know.
//! (tests: `who_asks_often_is_remembered_among_many_who_ask_once`, `who_asked_long_ago_makes_room`)
//!
//! Only requests that wait for the log are noted, each by one short lock: fsync(2) and its like, and writes to files
//! that were opened with `O_SYNC` or `O_DSYNC`. Plain writes are not, also where `sync=always` makes them stable.

use std::sync::Arc;
use std::time::Duration;

use device::RealEnv;
use engine::SyncingThread;
use env::Env;
use parking_lot::Mutex;

/// Threads that a mount remembers.
const KEPT: usize = 128;
/// After so many requests all weights are halved.
const HALVED_AFTER: u32 = 4_096;

/// Those of one mount.
pub(crate) struct Syncs {
    env: Arc<RealEnv>,
    table: Mutex<Table>,
}

impl Syncs {
    pub fn new(env: Arc<RealEnv>) -> Self {
        Self { env, table: Mutex::default() }
    }

    /// When a request began, for [`Self::note`].
    pub fn now(&self) -> Duration {
        self.env.now()
    }

    /// A request of this thread, which began then, has made something stable.
    pub fn note(&self, thread: u32, since: Duration) {
        let waited = self.env.now().saturating_sub(since);
        self.table.lock().note(thread, waited);
    }

    /// Those that are remembered, with their processes as far as they can be told.
    pub fn threads(&self) -> Vec<SyncingThread> {
        // Looked up without the lock: the system may take its time.
        let threads: Vec<u32> = self.table.lock().kept.iter().map(|one| one.told.thread).collect();
        let owners = threads.into_iter().filter_map(|thread| Some((thread, Owner::of(thread)?)));
        let owners: Vec<(u32, Owner)> = owners.collect();
        self.table.lock().told(owners)
    }
}

/// A thread, and how much it asked lately.
struct Kept {
    weight: u32,
    told: SyncingThread,
}

#[derive(Default)]
struct Table {
    kept: Vec<Kept>,
    /// Requests since weights were halved.
    noted: u32,
}

impl Table {
    fn note(&mut self, thread: u32, waited: Duration) {
        let place = self.place_of(thread);
        let one = &mut self.kept[place];
        one.weight = one.weight.saturating_add(1);
        one.told.syncs += 1;
        one.told.waited += waited;
        // Whoever asks often is found soon.
        self.kept.swap(place, place.saturating_sub(1));
        self.noted += 1;
        if self.noted == HALVED_AFTER {
            self.kept.iter_mut().for_each(|one| one.weight /= 2);
            self.noted = 0;
        }
    }

    /// Where a thread is, which gets a place if it has none.
    fn place_of(&mut self, thread: u32) -> usize {
        if let Some(place) = self.kept.iter().position(|one| one.told.thread == thread) {
            return place;
        }
        let told = SyncingThread::new(thread);
        if self.kept.len() < KEPT {
            self.kept.push(Kept { weight: 0, told });
            return self.kept.len() - 1;
        }
        let lightest = self.kept.iter().enumerate().min_by_key(|(_, one)| one.weight);
        let place = lightest.map_or(0, |(place, _)| place);
        // It keeps the weight, so that of two newcomers neither drives out the other at once.
        self.kept[place].told = told;
        place
    }

    /// All of them, after their owners were looked up; of one that is gone the last that was known.
    fn told(&mut self, owners: Vec<(u32, Owner)>) -> Vec<SyncingThread> {
        for (thread, Owner { process, command }) in owners {
            if let Some(one) = self.kept.iter_mut().find(|one| one.told.thread == thread) {
                (one.told.process, one.told.command) = (process, Some(command));
            }
        }
        self.kept.iter().map(|one| one.told.clone()).collect()
    }
}

/// The process that a thread is of.
struct Owner {
    process: u32,
    command: String,
}

impl Owner {
    /// None when it is gone.
    fn of(thread: u32) -> Option<Self> {
        let status = std::fs::read(format!("/proc/{thread}/status")).ok()?;
        let status = String::from_utf8_lossy(&status);
        let group = status.lines().find_map(|line| line.strip_prefix("Tgid:"))?;
        let process = group.trim().parse().ok()?;
        let command = std::fs::read(format!("/proc/{process}/comm")).ok()?;
        Some(Self { process, command: printable(&command) })
    }
}

/// A program may call itself anything.
fn printable(command: &[u8]) -> String {
    let text = String::from_utf8_lossy(command);
    text.trim_end_matches('\n').chars().map(|letter| if letter.is_control() { '?' } else { letter }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLI: Duration = Duration::from_millis(1);

    fn find(table: &mut Table, thread: u32) -> Option<(u64, Duration)> {
        let told = table.told(Vec::new());
        told.iter().find(|one| one.thread == thread).map(|one| (one.syncs, one.waited))
    }

    #[test]
    fn who_asks_often_is_remembered_among_many_who_ask_once() {
        let mut table = Table::default();
        for newcomer in 1_000..21_000 {
            table.note(newcomer, MILLI);
            if newcomer % 10 == 0 {
                (1..=40).for_each(|thread| table.note(thread, MILLI * thread));
            }
        }
        assert_eq!(table.kept.len(), KEPT);
        for thread in 1..=40 {
            assert_eq!(find(&mut table, thread), Some((2_000, MILLI * thread * 2_000)), "{thread}");
        }
    }

    #[test]
    fn who_asked_long_ago_makes_room() {
        let mut table = Table::default();
        for thread in 1..KEPT as u32 {
            (0..10_000).for_each(|_| table.note(thread, MILLI));
        }
        for _ in 0..3_000 {
            [500, 501, 502].into_iter().for_each(|thread| table.note(thread, MILLI));
        }
        let counts = [500, 501, 502].map(|thread| find(&mut table, thread).map_or(0, |(syncs, _)| syncs));
        assert!(counts.iter().all(|count| *count > 2_500), "{counts:?}");
    }

    #[test]
    fn a_thread_is_told_with_its_process_also_when_it_is_gone() {
        let mut table = Table::default();
        let thread = std::thread::spawn(|| rustix::thread::gettid().as_raw_pid() as u32);
        let gone = thread.join().expect("it ends");
        let here = rustix::thread::gettid().as_raw_pid() as u32;
        [here, gone].into_iter().for_each(|thread| table.note(thread, MILLI));
        let owner = Owner::of(here).expect("it runs");
        assert_eq!((owner.process, owner.command.is_empty()), (std::process::id(), false));
        let command = owner.command.clone();
        let first = table.told(vec![(here, owner)]);
        let again = table.told(Vec::new());
        assert_eq!(first, again, "what was known stays");
        let told = |thread| again.iter().find(|one| one.thread == thread).expect("it asked").clone();
        assert_eq!((told(here).process, told(here).command), (std::process::id(), Some(command)));
        assert_eq!((told(gone).process, told(gone).command), (gone, None));
    }

    #[test]
    fn names_cannot_write_to_a_terminal() {
        assert_eq!(printable(b"a\x1b[2Jb\n"), "a?[2Jb");
    }
}
