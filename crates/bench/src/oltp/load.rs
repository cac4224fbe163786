//! The load itself: threads that make transactions, and a checkpoint from time to time.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use super::aligned::Aligned;
use super::store::{Moved, OltpError, Store};
use super::wal::Wal;
use crate::dice::Dice;
use crate::latencies::Latencies;
use crate::pace::Pace;

/// When pages are stable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Pages {
    /// With the next checkpoint, as of a database that has a log.
    #[default]
    Cached,
    /// Each when its write returns.
    Stable,
}

/// How many transactions are asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Rate {
    /// As many as the threads can: each begins the next when the last is done.
    #[default]
    Most,
    /// So many a second, whatever the last ones took: the time of each counts from when it was due.
    PerSecond(f64),
    /// The same, as percent of the most, which the ramp finds out.
    Percent(f64),
}

impl Rate {
    /// Transactions a second, where `most` is what the ramp found; 0 for as many as possible.
    pub(crate) fn per_second(self, most: f64) -> f64 {
        match self {
            Self::Most => 0.0,
            Self::PerSecond(rate) => rate,
            Self::Percent(percent) => most * percent / 100.0,
        }
    }
}

/// What a database does, whatever it lies on.
#[derive(Clone, Debug)]
pub struct Load {
    /// Threads, each of which makes one transaction at a time.
    pub threads: usize,
    /// Pages that a transaction reads, at random.
    pub reads: usize,
    /// Pages that it writes, at random.
    pub writes: usize,
    /// Bytes of a page: a multiple of [`super::ALIGN_BYTES`], as the log's record.
    pub block: usize,
    /// Bytes of all pages.
    pub span: u64,
    /// Bytes that a transaction appends to the log.
    pub wal_record: usize,
    /// Bytes of the log's file, used in a circle.
    pub wal_span: u64,
    /// When pages are stable.
    pub pages: Pages,
    /// From one checkpoint to the next, where pages are cached.
    pub checkpoint: Duration,
    /// How many transactions are asked for.
    pub rate: Rate,
    /// As many as possible are made for so long before it is measured; none when zero.
    pub ramp: Duration,
    /// How long it is measured. Every thread makes one transaction at least.
    pub time: Duration,
}

impl Load {
    /// Pages.
    fn places(&self) -> u64 {
        self.span / self.block as u64
    }

    /// Bytes that so many transactions read and write: pages, and the log's records.
    pub(crate) fn asked_for(&self, transactions: u64) -> Moved {
        let pages = |count: usize| (count * self.block) as u64;
        Moved {
            read: transactions * pages(self.reads),
            written: transactions * (pages(self.writes) + self.wal_record as u64),
        }
    }
}

/// What came of it, until all threads were done.
pub(crate) struct Driven {
    /// Of each transaction.
    pub latencies: Latencies,
    /// From the first one's beginning to the last one's end.
    pub took: Duration,
    /// Appends to the log.
    pub appends: u64,
}

impl Driven {
    /// Transactions a second.
    pub fn rate(&self) -> f64 {
        self.latencies.count() as f64 / self.took.as_secs_f64().max(f64::MIN_POSITIVE)
    }
}

/// Written at a time when files are made.
const FILL_BYTES: usize = 1 << 20;

/// All pages and all of the log are written once.
pub(crate) fn fill(store: &impl Store, load: &Load) -> Result<(), OltpError> {
    let pages_each = (FILL_BYTES / load.block).max(1);
    let mut some = Aligned::copy_of(&Dice::new(load.span).noise(pages_each * load.block));
    for first in (0..load.places()).step_by(pages_each) {
        let count = (load.places() - first).min(pages_each as u64) as usize;
        for (place, page) in (first..).zip(some.as_mut().chunks_mut(load.block)) {
            stamp(page, place);
        }
        store.write(first * load.block as u64, &some.as_ref()[..count * load.block], false)?;
    }
    store.checkpoint()?;
    let len = some.as_ref().len();
    for offset in (0..load.wal_span).step_by(len) {
        let len = (load.wal_span - offset).min(len as u64) as usize;
        store.append(offset, &some.as_ref()[..len])?;
    }
    store.settle()
}

/// Every page begins with its number, so that a read of anything else is noticed.
fn stamp(page: &mut [u8], place: u64) {
    page[..8].copy_from_slice(&place.to_le_bytes());
}

fn check_stamp(page: &[u8], place: u64) -> Result<(), OltpError> {
    if page[..8] == place.to_le_bytes() { Ok(()) } else { Err(OltpError::Wrong { place }) }
}

/// Makes transactions for `time`: `rate` a second, or as many as can be when that is 0.
///
/// # Errors
/// The first that any thread met.
pub(crate) fn drive<S: Store>(
    store: &S,
    load: &Load,
    wal: &Wal,
    rate: f64,
    time: Duration,
) -> Result<Driven, OltpError> {
    let begun = Instant::now();
    let run = Run { store, load, wal, rate, until: begun + time, is_over: AtomicBool::new(false) };
    let (each, took, checkpoints) = thread::scope(|scope| {
        let checkpoints = scope.spawn(|| run.checkpoints());
        let run = &run;
        let threads: Vec<_> =
            (0..load.threads).map(|number| scope.spawn(move || run.transactions(number))).collect();
        let each: Vec<_> = threads.into_iter().map(|one| one.join().expect("no thread panics")).collect();
        let took = begun.elapsed();
        run.is_over.store(true, Relaxed);
        (each, took, checkpoints.join().expect("no thread panics"))
    });
    checkpoints?;
    Ok(Driven { latencies: all_of(each)?, took, appends: wal.take_appends() })
}

/// The latencies of all; or why the first of them failed, rather than that others did when its write of the log had.
fn all_of(each: Vec<Result<Latencies, OltpError>>) -> Result<Latencies, OltpError> {
    let (mut all, mut failed) = (Latencies::default(), None);
    for one in each {
        match one {
            Ok(latencies) => all.append(latencies),
            Err(OltpError::Log) if failed.is_some() => {}
            Err(error) => failed = Some(error),
        }
    }
    failed.map_or(Ok(all), Err)
}

/// What all threads share.
struct Run<'a, S> {
    store: &'a S,
    load: &'a Load,
    wal: &'a Wal,
    rate: f64,
    until: Instant,
    is_over: AtomicBool,
}

/// Who waits looks so often whether all is over.
const TICK: Duration = Duration::from_millis(10);

impl<S: Store> Run<'_, S> {
    fn transactions(&self, number: usize) -> Result<Latencies, OltpError> {
        let mut client = Client::new(self.load, number as u64);
        let mut pace = Pace::new(self.rate, self.load.threads, number);
        let mut latencies = Latencies::default();
        loop {
            let begun = pace.wait();
            let done = client.transaction(self.store, self.load).and_then(|()| self.wal.commit(self.store));
            if let Err(error) = done {
                self.is_over.store(true, Relaxed);
                return Err(error);
            }
            latencies.push(begun.elapsed());
            if Instant::now() >= self.until || self.is_over.load(Relaxed) {
                return Ok(latencies);
            }
        }
    }

    fn checkpoints(&self) -> Result<(), OltpError> {
        let mut next = Instant::now() + self.load.checkpoint;
        while !self.is_over.load(Relaxed) {
            thread::sleep(TICK);
            if self.load.pages == Pages::Cached && Instant::now() >= next {
                self.store.checkpoint()?;
                next = Instant::now() + self.load.checkpoint;
            }
        }
        Ok(())
    }
}

/// One thread's random numbers and memory.
struct Client {
    dice: Dice,
    page: Aligned,
    read: Aligned,
}

impl Client {
    fn new(load: &Load, number: u64) -> Self {
        let mut dice = Dice::new(number + 1);
        let page = Aligned::copy_of(&dice.noise(load.block));
        Self { dice, page, read: Aligned::copy_of(&vec![0; load.block]) }
    }

    /// All but the commit.
    fn transaction(&mut self, store: &impl Store, load: &Load) -> Result<(), OltpError> {
        for _ in 0..load.reads {
            let place = self.dice.roll() % load.places();
            store.read(place * load.block as u64, self.read.as_mut())?;
            check_stamp(self.read.as_ref(), place)?;
        }
        for _ in 0..load.writes {
            let place = self.dice.roll() % load.places();
            stamp(self.page.as_mut(), place);
            store.write(place * load.block as u64, self.page.as_ref(), load.pages == Pages::Stable)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_of_another_place_is_noticed() {
        let mut page = [0; 512];
        stamp(&mut page, 7);
        assert!(check_stamp(&page, 7).is_ok());
        assert!(matches!(check_stamp(&page, 8), Err(OltpError::Wrong { place: 8 })));
    }

    #[test]
    fn the_reason_is_told_and_not_what_followed_from_it() {
        let wrong = || Err(OltpError::Wrong { place: 1 });
        for each in [vec![wrong(), Err(OltpError::Log)], vec![Err(OltpError::Log), wrong()]] {
            assert!(matches!(all_of(each), Err(OltpError::Wrong { place: 1 })));
        }
    }
}
