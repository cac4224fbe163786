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
//! is [`DataPolicy::immediate_write_bytes`]; and when a commit follows at once also half a block, for
//! the next write may come to the same block, which would then be written twice.
//!
//! A write that leaves the file's size as it is, in the block in which the file ends, is never in place: OpenZFS would
//! replay its record by writing the whole block, and the file would end where the block does. See
//! `docs/decisions/2026-11-23-last-block.md`.
//! (zpl's tests: `a_write_within_a_files_last_block_leaves_its_size_alone_in_openzfs`,
//! `random_histories_of_a_file_are_replayed_alike_here_and_in_openzfs`)
//! (zpl's tests: `large_writes_are_logged_in_place_without_a_log_device`, `logbias_throughput_puts_all_data_in_place`)

use std::ops::Range;
use std::sync::Arc;

use dmu::Dnode;
use env::BufSlice;
use units::Txg;
use zil::{LoggedWrite, WriteData, WriteSource};

use crate::journal::{Journal, Origin};
use crate::piece::{Piece, Stored};
use crate::policy::{DataPolicy, LogBias};
use crate::read_back::{InPlace, ReadBack};

/// Longer writes that nobody waits for are read back if they must be logged after all.
const LOG_COPY_BYTES_MAX: usize = 32 << 10;

/// What is written into: a file, a volume.
pub trait Target: Send + Sync + 'static {
    /// The object that has its bytes.
    fn dnode(&self) -> &Arc<Dnode>;

    /// Its bytes; `None` once it is gone for good.
    fn size_bytes(&self) -> Option<u64>;
}

/// A write that is planned, and what matters to the log about it.
pub struct LogWrite<'a> {
    /// Its bytes.
    pub piece: Piece<'a>,
    /// What holds them.
    pub stored: Stored,
    /// The target's size when the write began, in bytes.
    pub size: u64,
    /// A commit follows at once.
    pub commits: bool,
    /// How its data go to the log.
    pub policy: DataPolicy,
}

impl Journal {
    /// Tells the log of a client's write that `txg` has.
    pub fn log_write<T: Target>(&self, txg: Txg, target: &Arc<T>, write: LogWrite<'_>) {
        let block_bytes = u64::from(target.dnode().block_bytes());
        if self.goes_in_place(&write, block_bytes) {
            self.log_in_place(txg, target, &write, block_bytes);
        } else {
            self.log_whole(txg, target, write);
        }
    }

    /// The record holds the data, or they are read back for it.
    fn log_whole<T: Target>(&self, txg: Txg, target: &Arc<T>, write: LogWrite<'_>) {
        let LogWrite { piece, stored, commits, policy, .. } = write;
        let (object, logged) = (target.dnode().object(), policy.sync.is_logged());
        let is_copied = matches!(stored, Stored::Copied(_)) && piece.data.len() <= LOG_COPY_BYTES_MAX;
        if logged && !commits && is_copied {
            // The copy stays until its txg has synced, and takes memory like what is dirty.
            self.os.txgs().add_copied(txg, piece.data.len() as u64);
        }
        self.write(Origin::Client, txg, logged, || LoggedWrite {
            object,
            offset: piece.offset,
            length: piece.data.len() as u64,
            data: held_data(target, stored, commits),
        });
    }

    /// Each block's record names the object's own block, written when a commit asks for it.
    fn log_in_place<T: Target>(&self, txg: Txg, target: &Arc<T>, write: &LogWrite<'_>, block_bytes: u64) {
        let (object, logged) = (target.dnode().object(), write.policy.sync.is_logged());
        let source: Arc<dyn WriteSource> = Arc::new(InPlace::new(Arc::clone(&self.os), Arc::clone(target)));
        let (mut offset, end) = (write.piece.offset, write.piece.end());
        while offset < end {
            let length = (block_bytes - offset % block_bytes).min(end - offset);
            let data = if may_be_named(target.dnode(), offset..offset + length, write.size) {
                WriteData::Later(Arc::clone(&source))
            } else {
                let part = write.piece.part(offset..offset + length);
                held_data(target, Stored::Copied(Arc::from(part.data)), write.commits)
            };
            self.write(Origin::Client, txg, logged, || LoggedWrite { object, offset, length, data });
            offset += length;
        }
    }

    fn goes_in_place(&self, write: &LogWrite<'_>, block_bytes: u64) -> bool {
        let bytes = write.piece.data.len() as u64;
        let policy = &write.policy;
        let is_long = bytes >= policy.immediate_write_bytes && (!write.commits || bytes >= block_bytes / 2);
        policy.log_bias == LogBias::Throughput
            || is_long && self.log().is_some_and(|log| !log.has_log_devices())
    }
}

/// Whether a record may name the block that has the bytes of `range`, written into an object of `size` bytes. The
/// object grew by them, and then ends with them; or the whole block lies within the object. An object's only block does
/// not count for whole: it may grow before the record is written, and is named as it is then.
fn may_be_named(dnode: &Dnode, range: Range<u64>, size: u64) -> bool {
    let block_end = range.end.next_multiple_of(u64::from(dnode.block_bytes()));
    size < range.end || (block_end <= size && dnode.max_block().get() > 0)
}

/// The data of a write whose record is to hold them.
fn held_data<T: Target>(target: &Arc<T>, stored: Stored, commits: bool) -> WriteData {
    match stored {
        Stored::Blocks(blocks) => WriteData::Slices(blocks.into_iter().map(BufSlice::from).collect()),
        Stored::Copied(bytes) if commits || bytes.len() <= LOG_COPY_BYTES_MAX => WriteData::Bytes(bytes),
        Stored::Copied(_) => WriteData::Later(Arc::new(ReadBack::new(Arc::clone(target)))),
    }
}
