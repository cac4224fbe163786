//! How the data of a write go to the log, if anybody asks for it.
//!
//! ```text
//!                                            a commit follows at once     later, or never
//!   short                                    copied into the record       copied into the record
//!   long, a log device is there              the record holds them        read back when asked for
//!   long, no log device                      in place                     in place
//!   `logbias=throughput`                     in place                     in place
//! ```
//! In place: each block is written once, where the file will have it, and its record names it. Long
//! is [`ZfsOptions::immediate_write_bytes`]; and when a commit follows at once also half a block, for
//! the next write may come to the same block, which would then be written twice.
//!
//! A write that leaves the file's size as it is, in the block in which the file ends, is never in place: OpenZFS would
//! replay its record by writing the whole block, and the file would end where the block does. See
//! `docs/decisions/2026-11-23-last-block.md`.
//! (tests: `a_write_within_a_files_last_block_leaves_its_size_alone_in_openzfs`,
//! `random_histories_of_a_file_are_replayed_alike_here_and_in_openzfs`)
//! (tests: `large_writes_are_logged_in_place_without_a_log_device`, `logbias_throughput_puts_all_data_in_place`)

use std::ops::Range;
use std::sync::Arc;

use device::{BoxFuture, BufSlice, Durability, IoBuf};
use dmu::{AheadWrite, Objset, WrittenAhead};
use ondisk::{Blkptr, Dva};
use units::{BlockId, ObjectId, Txg};
use zil::{DataBlock, DataPlace, Fetched, LoggedWrite, WriteData, WriteSource, ZilError};

use crate::file_io::{Piece, Stored};
use crate::journal::Origin;
use crate::options::{LogBias, ZfsOptions};
use crate::zfs::Zfs;
use crate::znode::Znode;

/// Longer writes that nobody waits for are read back if they must be logged after all.
const LOG_COPY_BYTES_MAX: usize = 32 << 10;

/// What matters to the log about a write, beside its bytes.
#[derive(Clone, Copy)]
pub(crate) struct LoggedAt {
    /// The file's size when the write began.
    pub size: u64,
    /// A commit follows at once.
    pub commits: bool,
}

impl Zfs {
    /// Tells the log of a write that `txg` has, of which `stored` holds the bytes.
    pub(crate) fn log_write(
        &self,
        txg: Txg,
        znode: &Arc<Znode>,
        piece: Piece<'_>,
        stored: Stored,
        at: LoggedAt,
    ) {
        let commits = at.commits;
        let (object, logged) = (znode.object(), self.is_logged());
        let block_bytes = u64::from(znode.dnode.block_bytes());
        if !self.goes_in_place(piece.data.len() as u64, block_bytes, commits) {
            let is_copied = matches!(stored, Stored::Copied(_)) && piece.data.len() <= LOG_COPY_BYTES_MAX;
            let write = || LoggedWrite {
                object,
                offset: piece.offset,
                length: piece.data.len() as u64,
                data: held_data(znode, stored, commits),
            };
            if logged && !commits && is_copied {
                // The copy stays until its txg has synced, and takes memory like what is dirty.
                self.os.txgs().add_copied(txg, piece.data.len() as u64);
            }
            return self.journal.write(Origin::Client, txg, logged, write);
        }
        let source: Arc<dyn WriteSource> =
            Arc::new(InPlace { os: Arc::clone(&self.os), back: ReadBack { znode: Arc::clone(znode) } });
        let (mut offset, end) = (piece.offset, piece.end());
        while offset < end {
            let length = (block_bytes - offset % block_bytes).min(end - offset);
            let data = if may_be_named(znode, offset..offset + length, at.size) {
                WriteData::Later(Arc::clone(&source))
            } else {
                let part = piece.part(offset..offset + length);
                held_data(znode, Stored::Copied(Arc::from(part.data)), commits)
            };
            let write = || LoggedWrite { object, offset, length, data };
            self.journal.write(Origin::Client, txg, logged, write);
            offset += length;
        }
    }

    fn goes_in_place(&self, bytes: u64, block_bytes: u64, commits: bool) -> bool {
        let options = self.options();
        options.log_bias == LogBias::Throughput
            || is_long(&options, bytes, block_bytes, commits)
                && self.log().is_some_and(|log| !log.has_log_devices())
    }
}

fn is_long(options: &ZfsOptions, bytes: u64, block_bytes: u64, commits: bool) -> bool {
    bytes >= options.immediate_write_bytes && (!commits || bytes >= block_bytes / 2)
}

/// Whether a record may name the block that has the bytes of `range`, written into a file of `size` bytes. The file grew
/// by them, and then ends with them; or the whole block lies within the file. A file's only block does not count
/// for whole: it may grow before the record is written, and is named as it is then.
fn may_be_named(znode: &Znode, range: Range<u64>, size: u64) -> bool {
    let block_end = range.end.next_multiple_of(u64::from(znode.dnode.block_bytes()));
    size < range.end || (block_end <= size && znode.dnode.max_block().get() > 0)
}

/// The data of a write whose record is to hold them.
fn held_data(znode: &Arc<Znode>, stored: Stored, commits: bool) -> WriteData {
    match stored {
        Stored::Blocks(blocks) => WriteData::Slices(blocks.into_iter().map(BufSlice::from).collect()),
        Stored::Copied(bytes) if commits || bytes.len() <= LOG_COPY_BYTES_MAX => WriteData::Bytes(bytes),
        Stored::Copied(_) => WriteData::Later(Arc::new(ReadBack { znode: Arc::clone(znode) })),
    }
}

/// Reads the data of a logged write back when somebody asks for it.
struct ReadBack {
    znode: Arc<Znode>,
}

impl ReadBack {
    /// Whether a file with anything at this offset is still there.
    fn has(&self, offset: u64) -> bool {
        self.znode.check_alive().is_ok() && offset < self.znode.size()
    }
}

impl WriteSource for ReadBack {
    fn fetch(
        &self,
        object: ObjectId,
        offset: u64,
        length: u64,
        _txg: Txg,
    ) -> BoxFuture<'_, Result<Fetched, ZilError>> {
        Box::pin(async move {
            // No lock: a writer may hold it and wait for space. Newer bytes than were logged
            // belong to writes whose own records follow, or to none that was promised.
            if !self.has(offset) {
                return Ok(Fetched::Gone);
            }
            let mut buf = IoBuf::zeroed(length as usize);
            let read = self.znode.dnode.read(offset, &mut buf).await;
            read.map_err(|source| ZilError::Fetch { object, source: Arc::new(source) })?;
            Ok(Fetched::Slices(vec![BufSlice::from(buf)]))
        })
    }
}

/// Has the file's own block written when somebody asks for it. One that cannot be any more, for its
/// group is being synced, or for want of room, is read back.
struct InPlace {
    os: Arc<Objset>,
    back: ReadBack,
}

impl WriteSource for InPlace {
    fn place(&self, _object: ObjectId, offset: u64, _length: u64, txg: Txg) -> Option<DataPlace> {
        if !self.back.has(offset) {
            return None;
        }
        // As for reading back, newer bytes of the same group may come along.
        let dnode = &self.back.znode.dnode;
        let block = BlockId::new(offset / u64::from(dnode.block_bytes()));
        Some(match self.os.place_ahead(dnode, txg, block)? {
            WrittenAhead::Placed(write) => DataPlace::Block(Box::new(PlacedBlock(write))),
            WrittenAhead::Pointer(bp) => DataPlace::Pointer(bp),
            WrittenAhead::Before(bp) => DataPlace::Before(bp),
        })
    }

    fn has_places(&self) -> bool {
        true
    }

    fn fetch(
        &self,
        object: ObjectId,
        offset: u64,
        length: u64,
        txg: Txg,
    ) -> BoxFuture<'_, Result<Fetched, ZilError>> {
        self.back.fetch(object, offset, length, txg)
    }
}

/// A block of a file on its way to its place.
struct PlacedBlock(AheadWrite);

impl DataBlock for PlacedBlock {
    fn bp(&self) -> Blkptr {
        *self.0.bp()
    }

    fn write(&self, place: Dva, durability: Durability) -> BoxFuture<'static, Result<(), ZilError>> {
        let write = self.0.write(place, durability);
        Box::pin(async move {
            let failed = |error| ZilError::Io { vdev: place.vdev, op: "write", source: Arc::new(error) };
            write.await.map_err(failed)
        })
    }

    fn ended(&self, is_stable: bool) {
        self.0.ended(is_stable);
    }
}
