//! A changed stream, and the receive that it is given to.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use dsl::PropValue;
use env::Env;
use fastrand::Rng;
use futures::future::{Either, select};
use ondisk::NvList;
use ondisk::send::{DrrBody, HeaderType};
use pool::{Pool, PoolError};
use sim::Sim;
use stream::{Reader, ReceiveError};

use super::quarry::{OLD, Source};
use super::record::{SentRecord, sealed};
use super::twist::twist;
use crate::sends::order;

/// See the module.
#[derive(Clone)]
pub struct Attempt {
    pub source: &'static Source,
    records: Vec<SentRecord>,
    pub stream: Vec<u8>,
    pub snapshot: &'static str,
    origin: Option<&'static str>,
    pub force: bool,
    pub resumable: bool,
    /// A quota of the dataset.
    quota: Option<u64>,
}

impl Attempt {
    /// The attempt of a seed.
    pub fn of(sources: &'static [Source], seed: u64) -> Self {
        let mut dice = Rng::with_seed(seed);
        let source = &sources[dice.usize(..sources.len())];
        let mut records = source.records.clone();
        twist(&mut dice, &mut records);
        let mut stream = sealed(&records);
        if dice.usize(..16) == 0 {
            damage(&mut dice, &mut stream);
        }
        let is_moved = source.origin.is_none() && dice.usize(..10) == 0;
        Self {
            source,
            records,
            stream,
            snapshot: if is_moved { OLD } else { source.snapshot },
            origin: source.origin,
            force: is_moved || dice.usize(..4) == 0,
            resumable: dice.usize(..3) == 0,
            quota: (dice.usize(..16) == 0).then(|| 1 << dice.u32(16..22)),
        }
    }

    /// The same source and its stream as it was sent.
    pub fn sound(source: &'static Source) -> Self {
        Self {
            source,
            records: source.records.clone(),
            stream: sealed(&source.records),
            snapshot: source.snapshot,
            origin: source.origin,
            force: false,
            resumable: false,
            quota: None,
        }
    }

    /// The flags of the receive, and the records that the sound stream does not have.
    pub fn story(&self) -> String {
        let Self { source, snapshot, force, resumable, quota, .. } = self;
        let name = source.name;
        let flags = format!("{name} as {snapshot}, force {force}, resumable {resumable}, quota {quota:?}");
        let is_sound = |record: &&SentRecord| source.records.contains(record);
        let changed = self.records.iter().enumerate().filter(|(_, record)| !is_sound(record));
        let told = changed.map(|(at, record)| format!("\nrecord {at}: {record:?}"));
        let (before, after) = (source.records.len(), self.records.len());
        format!("{flags}, {before} records before, {after} now{}", told.collect::<String>())
    }

    /// The dataset that the stream goes into.
    pub fn head(&self) -> &'static str {
        self.snapshot.split('@').next().expect("a name")
    }

    /// Receives all streams in it, as `zfs receive` does. Returns the guid of the last snapshot, and
    /// how the receive ended.
    pub async fn receive(&self, pool: &Arc<Pool>) -> (Option<u64>, Result<(), PoolError>) {
        let mut last = None;
        let ended = self.receive_all(pool, &mut last).await;
        (last, ended)
    }

    async fn receive_all(&self, pool: &Arc<Pool>, last: &mut Option<u64>) -> Result<(), PoolError> {
        let mut reader = Reader::new(self.stream.as_slice());
        while let Some(read) = reader.next_record().await.map_err(ReceiveError::from)? {
            let DrrBody::Begin(begin) = read.record.body else { continue };
            if begin.header_type() == Ok(HeaderType::Compound) {
                continue;
            }
            let mut order = order(begin, self.snapshot);
            order.begin_offset = read.offset;
            order.list = NvList::decode(&read.payload).unwrap_or_default();
            order.origin = self.origin.map(str::to_owned);
            (order.force, order.resumable) = (self.force, self.resumable);
            order.props.extend(self.quota.map(|bytes| ("quota".to_owned(), PropValue::Number(bytes))));
            pool.receive(order, &mut reader).await?.finish().await?;
            *last = Some(begin.toguid.get());
        }
        Ok(())
    }
}

/// Damages a stream so that its checksums are wrong, or its end is missing.
fn damage(dice: &mut Rng, stream: &mut Vec<u8>) {
    let at = dice.usize(..stream.len());
    if dice.bool() {
        stream[at] ^= 1 << dice.usize(..8);
    } else {
        stream.truncate(at);
    }
}

/// The kind of an error: the names of up to three enums around it, and of the error of an objset.
pub fn kind(error: &PoolError) -> String {
    let text = format!("{error:?}");
    let words = |text: &str| {
        let words = text.split(['(', ')', ' ', '{', ',']);
        let names = words.take_while(|word| word.starts_with(|first: char| first.is_ascii_uppercase()));
        names.take(3).collect::<Vec<_>>().join(" ")
    };
    match text.split_once("source: ").filter(|(outer, _)| outer.contains("Objset")) {
        Some((outer, source)) => format!("{} {}", words(outer), words(source)),
        None => words(&text),
    }
}

/// Does `work`, which ends within ten virtual minutes unless it waits for ever.
pub async fn in_time<T>(sim: &Sim, what: &str, work: impl Future<Output = T>) -> T {
    match select(pin!(work), sim.sleep(Duration::from_secs(600))).await {
        Either::Left((done, _)) => done,
        Either::Right(_) => panic!("{what} waits for ever"),
    }
}
