//! What OpenZFS makes of the logs that we leave: its rules of replay, as it was seen to apply them, beside ours.
//!
//! A record that names a block has the whole block written. Where the file is shorter than the record's end it then
//! ends there; where it is not, nothing holds the size back, and a block that reaches beyond the end of the file makes
//! the file longer than anybody ever made it. (`tests/golden/README.md` tells of a pool where that was seen.) That is
//! a mistake, and pools of ours are to come to the same files there all the same.

use std::collections::BTreeMap;
use std::sync::Arc;

use ondisk::zil::LogRecord;
use ondisk::zil::record::body::attr_mask;
use ondisk::zil::record::{LrTruncate, LrWrite};
use units::ObjectId;

use super::basics::{contents, file};
use super::logged::{noise, prime};
use super::model::Dice;
use super::world::{Crashed, World, run_with};
use crate::*;

/// A file there: bytes may lie beyond its end.
#[derive(Clone, Default)]
struct TheirFile {
    size: u64,
    bytes: Vec<u8>,
}

impl TheirFile {
    fn put(&mut self, offset: u64, data: &[u8]) {
        let end = offset as usize + data.len();
        self.bytes.resize(self.bytes.len().max(end), 0);
        self.bytes[offset as usize..end].copy_from_slice(data);
    }

    fn write(&mut self, offset: u64, data: &[u8]) {
        self.put(offset, data);
        self.size = self.size.max(offset + data.len() as u64);
    }

    /// The write of a block that a record names.
    fn write_block(&mut self, lr: &LrWrite, block: &[u8]) {
        let (block_bytes, end) = (block.len() as u64, lr.offset + lr.length);
        let offset = if lr.length < block_bytes { lr.offset - lr.offset % block_bytes } else { lr.offset };
        let forced_end = (self.size < end).then_some(end);
        self.write(offset, block);
        self.size = forced_end.unwrap_or(self.size);
    }

    fn free(&mut self, lr: &LrTruncate) {
        let end = lr.offset + lr.length;
        if lr.offset > self.size {
            self.size = end;
        } else if lr.length == 0 {
            self.end_at(lr.offset);
        } else {
            let range = lr.offset.min(self.bytes.len() as u64)..end.min(self.bytes.len() as u64);
            self.bytes[range.start as usize..range.end as usize].fill(0);
            self.size = self.size.max(end);
        }
    }

    fn end_at(&mut self, size: u64) {
        self.bytes.truncate(size.min(self.bytes.len() as u64) as usize);
        self.size = size;
    }

    fn contents(&self) -> Vec<u8> {
        let mut contents = self.bytes.clone();
        contents.resize(self.size as usize, 0);
        contents
    }
}

/// Files as OpenZFS would have them after it replayed what a crash left.
async fn replayed_there(crashed: &Crashed, known: &[ObjectId]) -> BTreeMap<ObjectId, TheirFile> {
    let mut files = BTreeMap::new();
    for &object in known {
        let bytes = match crashed.zfs.attributes(object).await {
            Ok(_) => contents(&crashed.zfs, object).await,
            Err(_) => Vec::new(),
        };
        files.insert(object, TheirFile { size: bytes.len() as u64, bytes });
    }
    for (_, record) in crashed.records().await {
        let Some(file) = record.object().and_then(|object| files.get_mut(&object)) else { continue };
        match record {
            LogRecord::Write(LrWrite { offset, data: Some(data), .. }) => file.write(offset, &data),
            LogRecord::Write(lr) => {
                let hole = vec![0; lr.blkptr.lsize().get().max(lr.length) as usize];
                let block = match lr.blkptr.is_hole() {
                    true => hole,
                    false => crashed.store.read_data_block(&lr.blkptr).await.expect("it reads").to_vec(),
                };
                file.write_block(&lr, &block);
            }
            LogRecord::Write2(lr) => file.size = file.size.max(lr.offset + lr.length),
            LogRecord::Truncate(lr) => file.free(&lr),
            LogRecord::Setattr(lr) if lr.mask & attr_mask::SIZE != 0 => file.end_at(lr.size),
            _ => {}
        }
    }
    files
}

/// A change of a file's contents.
#[derive(Clone, Copy, Debug)]
enum Step {
    Write { offset: u64, len: usize, waits: bool },
    Resize(u64),
    Hole { offset: u64, len: u64 },
    Commit,
    Sync,
}

fn step(dice: &mut Dice, reach: u64) -> Step {
    let offset = dice.below(reach);
    let len = match dice.below(3) {
        0 => 1 + dice.below(200),
        1 => 1 + dice.below(9000),
        _ => 4096,
    };
    let offset = if dice.below(3) == 0 { offset - offset % 4096 } else { offset };
    match dice.below(12) {
        0..6 => Step::Write { offset, len: len as usize, waits: dice.below(3) == 0 },
        6 | 7 => Step::Resize(offset),
        8 => Step::Hole { offset, len },
        9 | 10 => Step::Commit,
        _ => Step::Sync,
    }
}

async fn take(world: &World, zfs: &Zfs, file: ObjectId, step: Step, seed: u64) {
    match step {
        Step::Write { offset, len, waits } => {
            let how = WriteFlags { sync: waits, ..WriteFlags::default() };
            zfs.write(file, offset, &noise(len, seed), how).await.unwrap();
        }
        Step::Resize(size) => {
            let set = SetAttributes { size: Some(size), ..SetAttributes::default() };
            zfs.set_attributes(file, set).await.unwrap();
        }
        Step::Hole { offset, len } => {
            zfs.allocate_range(file, offset, len, Allocate::PunchHole).await.unwrap();
        }
        Step::Commit => zfs.fsync(file, false).await.unwrap(),
        Step::Sync => world.sync(zfs).await,
    }
}

/// Takes these steps and crashes: both replays must come to what was there.
fn both_replay(options: ZfsOptions, steps: &[Step]) {
    run_with(options, async |world: Arc<World>, zfs| {
        prime(&zfs).await;
        let file = file(&zfs, zfs.root(), "f").await;
        for (seed, &step) in (1..).zip(steps) {
            take(&world, &zfs, file, step, seed).await;
        }
        zfs.fsync(file, false).await.unwrap();
        let expected = contents(&zfs, file).await;
        let crashed = world.cut_off(zfs).await;
        let theirs = replayed_there(&crashed, &[file]).await;
        crashed.zfs.replay(crashed.log).await.expect("a sound log");
        let ours = contents(&crashed.zfs, file).await;
        assert_eq!(ours.len(), expected.len(), "our size after {steps:?}");
        assert!(ours == expected, "our contents after {steps:?}");
        assert_eq!(theirs[&file].size, expected.len() as u64, "their size after {steps:?}");
        assert!(theirs[&file].contents() == expected, "their contents after {steps:?}");
    });
}

/// All data go in place, in small blocks.
fn in_place() -> ZfsOptions {
    ZfsOptions { log_bias: LogBias::Throughput, record_bytes: 4096, ..ZfsOptions::default() }
}

fn write(offset: u64, len: usize) -> Step {
    Step::Write { offset, len, waits: true }
}

#[test]
fn a_write_within_a_files_last_block_leaves_its_size_alone_in_openzfs() {
    both_replay(in_place(), &[write(0, 10_000), Step::Sync, write(9_000, 500)]);
    both_replay(in_place(), &[write(0, 10_000), write(9_000, 1_000)]);
    both_replay(in_place(), &[write(0, 1_000), Step::Sync, write(0, 1_000)]);
    // Of one block that is full when it is written, and grows before it is logged.
    let later = |offset, len| Step::Write { offset, len, waits: false };
    both_replay(
        in_place(),
        &[write(0, 1_024), Step::Sync, later(0, 1_024), later(1_024, 1_976), Step::Commit],
    );
    // The block lies within the file when it is written, and the file ends in it later.
    both_replay(
        in_place(),
        &[write(0, 12_288), Step::Sync, later(5_000, 100), Step::Resize(6_000), Step::Commit],
    );
    // The end was put there without a write.
    both_replay(in_place(), &[Step::Resize(10_000), Step::Sync, write(9_000, 500)]);
    both_replay(in_place(), &[write(0, 100), Step::Resize(300_000), Step::Sync, write(290_000, 500)]);
}

#[test]
fn random_histories_of_a_file_are_replayed_alike_here_and_in_openzfs() {
    let options = [
        in_place(),
        ZfsOptions { record_bytes: 16_384, ..in_place() },
        ZfsOptions { record_bytes: 4096, immediate_write_bytes: 2048, ..ZfsOptions::default() },
    ];
    for options in options {
        for seed in 0..120 {
            let mut dice = Dice::new(seed);
            let reach = [3_000, 20_000, 60_000][seed as usize % 3];
            let steps: Vec<Step> = (0..4 + dice.below(12)).map(|_| step(&mut dice, reach)).collect();
            both_replay(options, &steps);
        }
    }
}
