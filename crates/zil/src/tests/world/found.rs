//! What a log in memory holds, as an import would find it.

use std::collections::BTreeMap;

use ondisk::Blkptr;
use ondisk::zil::LogRecord;
use units::Txg;

use super::store::{MemStore, OBJSET, now, place_of};
use super::{Tag, pattern};
use crate::{LogStore, LogWalk};

impl MemStore {
    pub fn walk_blocks(&self) -> Vec<Blkptr> {
        let header = self.header();
        let mut walk = LogWalk::new(OBJSET, &header, self);
        let mut blocks = Vec::new();
        while let Some(block) = now(walk.next()).expect("a log that reads") {
            blocks.push(block.bp);
        }
        blocks
    }

    /// What the log holds: tags and txgs; a write counts when all its data are there.
    pub fn recover(&self) -> Vec<(Tag, Txg)> {
        let header = self.header();
        let mut walk = LogWalk::new(OBJSET, &header, self);
        let mut found = Vec::new();
        let mut written: BTreeMap<(u64, Txg), u64> = BTreeMap::new();
        let mut last = 0;
        while let Some(block) = now(walk.next()).expect("a log that reads") {
            for record in block.records() {
                let (head, record) = record.expect("a sound record").decode().expect("a sound record");
                assert!(head.seq.get() > last, "record numbers ascend");
                last = head.seq.get();
                match record {
                    LogRecord::Remove(remove) => {
                        let name = String::from_utf8(remove.name).expect("a tag");
                        found.push((Tag(name.parse().expect("a tag")), head.txg));
                    }
                    LogRecord::Write(write) => {
                        let (tag, from) = (write.offset >> 32, write.offset & 0xffff_ffff);
                        let Some(data) = write.data.or_else(|| self.named_data(&write.blkptr)) else {
                            return found;
                        };
                        assert!((from..).zip(&data).all(|(i, &byte)| byte == pattern(tag, i)));
                        let so_far = written.entry((tag, head.txg)).or_default();
                        // The head of a write that has synced may be freed before its end.
                        let is_needed = head.txg > self.synced_txg();
                        assert!(!is_needed || *so_far == from, "pieces of a write follow each other");
                        *so_far += data.len() as u64;
                        found.push((Tag(tag), head.txg));
                    }
                    other => panic!("nobody logged {other:?}"),
                }
            }
        }
        found
    }

    /// The data in a block that a record names, if they have reached the disk.
    fn named_data(&self, bp: &Blkptr) -> Option<Vec<u8>> {
        self.0.lock().disk.get(&place_of(bp)).cloned()
    }

    pub fn written_lengths(&self) -> BTreeMap<u64, u64> {
        let header = self.header();
        let mut walk = LogWalk::new(OBJSET, &header, self);
        let mut lengths = BTreeMap::new();
        while let Some(block) = now(walk.next()).expect("a log that reads") {
            for record in block.records().map_while(Result::ok) {
                if let Ok((_, LogRecord::Write(write))) = record.decode() {
                    *lengths.entry(write.offset >> 32).or_default() += write.length;
                }
            }
        }
        lengths
    }
}
