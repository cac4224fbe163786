//! What happened to the disks, in one order for the whole world.

use std::sync::Arc;
use std::time::Duration;

use crate::rng::mix;

/// Index of a disk in its world, in the order the disks were added.
pub(crate) type DiskId = usize;

/// Something a test said while the world ran: mostly, what had just been promised to a user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// What was said.
    pub label: String,
    /// Whatever the test wants to know again.
    pub payload: Vec<u8>,
    /// When, in virtual time.
    pub at: Duration,
}

/// One event. A request begins when the disk gets it, and ends when the disk answers.
#[derive(Clone, Debug)]
pub(crate) enum Event {
    WriteBegun {
        disk: DiskId,
        write: u64,
        offset: u64,
        data: Arc<[u8]>,
        stable: bool,
    },
    /// A write or a discard; `durable`: it is on the medium now, or in a cache that outlives a power cut.
    WriteEnded {
        disk: DiskId,
        write: u64,
        durable: bool,
    },
    /// `data` is what the range will hold; nothing when the disk leaves it as it is.
    DiscardBegun {
        disk: DiskId,
        write: u64,
        offset: u64,
        data: Arc<[u8]>,
    },
    FlushBegun {
        disk: DiskId,
        flush: u64,
    },
    FlushEnded {
        disk: DiskId,
        flush: u64,
        result: FlushResult,
    },
    /// The medium changed on its own.
    Rotted {
        disk: DiskId,
        offset: u64,
        data: Arc<[u8]>,
    },
    /// The disk forgot these writes, which were done but not stable: see
    /// [`crate::SimDisk::lose_cache_at`].
    CacheLost {
        disk: DiskId,
        writes: Arc<[u64]>,
    },
    Marked(Mark),
}

/// How a flush ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FlushResult {
    /// As it should.
    Honest,
    /// The disk said so, and did nothing.
    Lie,
    /// With an error: what it was to make stable never will be.
    Failed,
}

impl Event {
    /// Whether it takes something out of a power cut's reach.
    pub(crate) fn makes_durable(&self) -> bool {
        match self {
            Self::WriteEnded { durable, .. } => *durable,
            Self::FlushEnded { result, .. } => *result == FlushResult::Honest,
            Self::WriteBegun { .. }
            | Self::DiscardBegun { .. }
            | Self::FlushBegun { .. }
            | Self::Rotted { .. }
            | Self::CacheLost { .. }
            | Self::Marked(_) => false,
        }
    }

    fn digest_into(&self, digest: &mut Digest) {
        match self {
            Self::WriteBegun { disk, write, offset, data, stable } => {
                digest.add_all(&[1, *disk as u64, *write, *offset, u64::from(*stable)]);
                digest.add_bytes(data);
            }
            Self::WriteEnded { disk, write, durable } => {
                digest.add_all(&[2, *disk as u64, *write, u64::from(*durable)]);
            }
            Self::FlushBegun { disk, flush } => digest.add_all(&[3, *disk as u64, *flush]),
            Self::FlushEnded { disk, flush, result } => {
                digest.add_all(&[4, *disk as u64, *flush, *result as u64]);
            }
            Self::Rotted { disk, offset, data } => {
                digest.add_all(&[5, *disk as u64, *offset]);
                digest.add_bytes(data);
            }
            Self::DiscardBegun { disk, write, offset, data } => {
                digest.add_all(&[7, *disk as u64, *write, *offset]);
                digest.add_bytes(data);
            }
            Self::CacheLost { disk, writes } => {
                digest.add_all(&[8, *disk as u64]);
                digest.add_all(writes);
            }
            Self::Marked(mark) => {
                digest.add_all(&[6, mark.at.as_nanos() as u64]);
                digest.add_bytes(mark.label.as_bytes());
                digest.add_bytes(&mark.payload);
            }
        }
    }
}

/// A number that two histories share only if they are the same.
pub(crate) fn digest<'a>(events: impl Iterator<Item = &'a Event>) -> u64 {
    let mut digest = Digest(0);
    for event in events {
        event.digest_into(&mut digest);
    }
    digest.0
}

struct Digest(u64);

impl Digest {
    fn add(&mut self, number: u64) {
        self.0 = mix(self.0.rotate_left(23) ^ number);
    }

    fn add_all(&mut self, numbers: &[u64]) {
        for &number in numbers {
            self.add(number);
        }
    }

    fn add_bytes(&mut self, bytes: &[u8]) {
        self.add(bytes.len() as u64);
        for word in bytes.chunks(8) {
            let mut raw = [0; 8];
            raw[..word.len()].copy_from_slice(word);
            self.add(u64::from_le_bytes(raw));
        }
    }
}
