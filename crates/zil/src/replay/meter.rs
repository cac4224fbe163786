//! How a replay gets on, for whoever waits for it.
//!
//! What there is to do was counted when the log was claimed. A log that an earlier import claimed was not
//! counted by this one: its records are numbered, and the header says the last number; bytes are told from those
//! of the records read so far.
//! (test: `progress_is_told_record_by_record`)

use std::sync::Arc;
use std::time::Duration;

use env::BoxFuture;
use parking_lot::Mutex;
use units::ObjsetId;

/// How far a replay has got.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReplayProgress {
    /// Records that are done: replayed, or found to be in the pool.
    pub records: u64,
    /// All records of the log.
    pub records_total: u64,
    /// Bytes of the records that are done.
    pub bytes: u64,
    /// Bytes of all records.
    pub bytes_total: u64,
    /// For how long it has been going on.
    pub elapsed: Duration,
}

impl ReplayProgress {
    /// How long it will go on, if records take as long as they did; `None` before the first.
    #[must_use]
    pub fn left(&self) -> Option<Duration> {
        let left = self.records_total.saturating_sub(self.records);
        let secs = self.elapsed.as_secs_f64() * left as f64 / self.records as f64;
        // A header may say any number of records.
        (self.records > 0).then(|| Duration::try_from_secs_f64(secs).unwrap_or(Duration::MAX))
    }
}

/// Is told of each record that has been replayed.
pub trait ReplayWatch: std::fmt::Debug + Send + Sync {
    /// One more record of `objset` is done. Its object's next one waits until the future is ready, and so does
    /// the next change of names.
    fn replayed(&self, objset: ObjsetId, progress: ReplayProgress) -> BoxFuture<'_, ()>;
}

/// What was counted of one log.
#[derive(Debug, Default)]
pub(crate) struct Meter(Mutex<Count>);

#[derive(Debug, Default)]
struct Count {
    /// Of all records; nothing when nobody counted them.
    total: Option<Amount>,
    done: Amount,
    /// Records that the numbers of the first and the last speak of.
    numbered: u64,
    begun: Option<Duration>,
    watch: Option<Arc<dyn ReplayWatch>>,
}

/// So many records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Amount {
    pub records: u64,
    pub bytes: u64,
}

impl Amount {
    /// One more record.
    pub fn add(&mut self, bytes: usize) {
        self.records += 1;
        self.bytes += bytes as u64;
    }
}

impl Meter {
    /// There is so much to do.
    pub fn expect(&self, total: Amount) {
        self.0.lock().total = Some(total);
    }

    pub fn watch(&self, watch: Arc<dyn ReplayWatch>) {
        self.0.lock().watch = Some(watch);
    }

    /// A replay begins, `now`.
    pub fn begin(&self, now: Duration) {
        let mut count = self.0.lock();
        (count.done, count.numbered, count.begun) = (Amount::default(), 0, Some(now));
    }

    /// The first record is so many numbers before the last.
    pub fn span(&self, records: u64) {
        let mut count = self.0.lock();
        if count.numbered == 0 {
            count.numbered = records;
        }
    }

    pub fn end(&self) {
        self.0.lock().begun = None;
    }

    /// A record of so many bytes is done; whoever wants to be told of it.
    pub fn add(&self, bytes: usize) -> Option<Arc<dyn ReplayWatch>> {
        let mut count = self.0.lock();
        count.done.add(bytes);
        count.watch.clone()
    }

    /// How far the replay has got that is under way.
    pub fn progress(&self, now: Duration) -> Option<ReplayProgress> {
        let count = self.0.lock();
        let Amount { records, bytes } = count.done;
        let total = count.total.unwrap_or_else(|| {
            let all = count.numbered.max(records);
            let per_record = bytes as f64 / records.max(1) as f64;
            Amount { records: all, bytes: (per_record * all as f64) as u64 }
        });
        count.begun.map(|begun| ReplayProgress {
            records,
            records_total: total.records,
            bytes,
            bytes_total: total.bytes,
            elapsed: now.saturating_sub(begun),
        })
    }
}
