//! The pool's history: a ring of records in an object that the directory calls `history`.
//!
//! The first record, how the pool was made, stays for ever; of the others the oldest give way when
//! the ring is full. Offsets in the ring only grow; [`HistoryPhys::to_phys`] says where they are.
//!
//! A damaged history is replaced by a new one with the next record
//! (test: `a_damaged_history_begins_anew`).
//!
//! Invariants:
//! - The records are read back in the order in which they were added, however often the ring went
//!   round (test: `history_keeps_the_first_record_and_the_newest`).
//! - A record is given up in the header before its bytes are overwritten. A reader looks at the
//!   header again after each record, so that a reader never returns overwritten bytes (test:
//!   `the_history_is_read_while_its_oldest_records_are_overwritten`).

use dmu::{Dnode, DnodeSpec, SyncRead, Tx};
use env::{boxed, impatient};
use ondisk::history::{HISTORY_MAX_BYTES, HISTORY_MIN_BYTES, decode_record, encode_record};
use ondisk::mos::directory;
use ondisk::{HistoryPhys, NvList, ObjectType};
use std::sync::Arc;
use units::ObjectId;
use zerocopy::little_endian::U64;
use zerocopy::{FromZeros, IntoBytes};

use crate::{Dsl, DslError};

const BLOCK_BYTES: u32 = 128 << 10;
/// Share of the pool that the ring takes.
const SHARE_OF_POOL: u64 = 1000;
/// Length of the number that stands before a record.
const LENGTH_BYTES: u64 = 8;

/// The ring, opened.
struct Ring {
    dnode: Arc<Dnode>,
    phys: HistoryPhys,
}

impl Ring {
    fn of(dnode: Arc<Dnode>) -> Result<Self, DslError> {
        let phys = Self::header(&dnode)?;
        Ok(Self { dnode, phys })
    }

    fn header(dnode: &Dnode) -> Result<HistoryPhys, DslError> {
        let damaged = |_| DslError::damaged(dnode.object(), "header of the history");
        HistoryPhys::decode(&dnode.bonus()).map_err(damaged)
    }

    fn damaged(&self) -> DslError {
        DslError::damaged(self.dnode.object(), "record of the history")
    }

    /// Where `len` bytes from a growing offset lie: the piece up to the ring's end, and the rest.
    fn pieces(&self, offset: u64, len: u64) -> Result<[(u64, u64); 2], DslError> {
        let at = self.phys.to_phys(offset).ok_or_else(|| self.damaged())?;
        let first = len.min(self.phys.phys_max_off.get().saturating_sub(at));
        Ok([(at, first), (self.phys.create_len.get(), len - first)])
    }

    async fn read(&self, offset: u64, len: u64) -> Result<Vec<u8>, DslError> {
        let mut bytes = Vec::new();
        for (at, len) in self.pieces(offset, len)? {
            let mut piece = vec![0; usize::try_from(len).map_err(|_| self.damaged())?];
            self.dnode.read(at, &mut piece).await?;
            bytes.extend(piece);
        }
        Ok(bytes)
    }

    async fn write(&self, tx: &Tx, offset: u64, bytes: &[u8]) -> Result<(), DslError> {
        let mut rest = bytes;
        for (at, len) in self.pieces(offset, bytes.len() as u64)? {
            let (piece, later) = rest.split_at(len as usize);
            self.dnode.write(tx, at, piece).await?;
            rest = later;
        }
        Ok(())
    }

    /// Length of the record at an offset below `end`, the number before it included.
    async fn record_len(&self, offset: u64, end: u64) -> Result<u64, DslError> {
        let word = self.read(offset, LENGTH_BYTES).await?;
        let len = <[u8; 8]>::try_from(&word[..]).map(u64::from_le_bytes).map_err(|_| self.damaged())?;
        let whole = len.checked_add(LENGTH_BYTES).filter(|whole| *whole <= end.saturating_sub(offset));
        whole.ok_or_else(|| self.damaged())
    }

    /// The record at an offset below `end`, and the offset of the next record.
    async fn record_at(&self, offset: u64, end: u64) -> Result<(NvList, u64), DslError> {
        let len = self.record_len(offset, end).await?;
        Ok((self.decode(&self.read(offset, len).await?)?, offset + len))
    }

    /// Appends a record; the oldest make room.
    async fn append(&mut self, tx: &Tx, bytes: &[u8]) -> Result<(), DslError> {
        let len = bytes.len() as u64;
        if self.phys.create_len.get() == 0 {
            self.dnode.write(tx, 0, bytes).await?;
            self.phys.create_len = U64::new(len);
            self.phys.bof = U64::new(len);
            self.phys.eof = U64::new(len);
            return self.store(tx);
        }
        if len >= self.phys.ring_bytes() {
            return Ok(());
        }
        while self.phys.ring_bytes() - (self.phys.eof.get() - self.phys.bof.get()) <= len {
            let (bof, eof) = (self.phys.bof.get(), self.phys.eof.get());
            self.phys.bof = U64::new(bof + self.record_len(bof, eof).await?);
            self.phys.records_lost = U64::new(self.phys.records_lost.get() + 1);
        }
        self.store(tx)?;
        self.write(tx, self.phys.eof.get(), bytes).await?;
        self.phys.eof = U64::new(self.phys.eof.get() + len);
        self.store(tx)
    }

    fn store(&self, tx: &Tx) -> Result<(), DslError> {
        Ok(self.dnode.set_bonus(tx, ObjectType::SPA_HISTORY_OFFSETS, self.phys.as_bytes())?)
    }

    /// All records, oldest first. Records that are added in the meantime are left out, and so are
    /// the records that these overwrite.
    async fn records(&self) -> Result<Vec<NvList>, DslError> {
        let mut records = Vec::new();
        if self.phys.create_len.get() == 0 {
            return Ok(records);
        }
        let mut first = vec![0; self.phys.create_len.get().min(HISTORY_MAX_BYTES) as usize];
        self.dnode.read(0, &mut first).await?;
        records.push(self.decode(&first)?);
        let (mut at, end) = (self.phys.bof.get(), self.phys.eof.get());
        while at < end {
            let read = self.record_at(at, end).await;
            let oldest = Self::header(&self.dnode)?.bof.get();
            if at < oldest {
                // The record, and all before, may have been overwritten while they were read.
                records.truncate(1);
                at = oldest;
                continue;
            }
            let (record, next) = read?;
            records.push(record);
            at = next;
        }
        Ok(records)
    }

    fn decode(&self, bytes: &[u8]) -> Result<NvList, DslError> {
        decode_record(bytes).map(|(record, _)| record).map_err(|_| self.damaged())
    }
}

impl Dsl {
    /// Adds a record to the history, which is made when there is none; its size follows from the
    /// pool's.
    ///
    /// A damaged history is replaced by a new one, because operations on the pool must not depend
    /// on their record.
    ///
    /// # Errors
    /// When the MOS cannot be changed.
    #[boxed]
    pub async fn add_history(&self, tx: &Tx, record: &NvList, pool_bytes: u64) -> Result<(), DslError> {
        let record = encode_record(record);
        match impatient(self.append_to_history(tx, &record, pool_bytes)).await {
            Err(error) if error.is_loss() && SyncRead::Record.goes_on() => {
                tracing::error!(%error, "the pool's history is damaged and is replaced by a new one");
                self.replace_history(tx, &record, pool_bytes).await
            }
            appended => appended,
        }
    }

    async fn replace_history(&self, tx: &Tx, record: &[u8], pool_bytes: u64) -> Result<(), DslError> {
        let old = self.directory_object(directory::HISTORY).await?;
        self.directory.remove(tx, directory::HISTORY.as_bytes()).await?;
        self.create_history(tx, pool_bytes).await?.append(tx, record).await?;
        match impatient(self.mos.free_object(tx, old)).await.map_err(DslError::from) {
            // The dnode of the history is lost, so nothing can refer to the history.
            Err(error) if error.is_loss() => Ok(()),
            freed => freed,
        }
    }

    async fn append_to_history(&self, tx: &Tx, record: &[u8], pool_bytes: u64) -> Result<(), DslError> {
        let mut ring = match self.directory.lookup_u64(directory::HISTORY.as_bytes()).await? {
            Some(object) => Ring::of(self.mos.hold(ObjectId::new(object)).await?)?,
            None => self.create_history(tx, pool_bytes).await?,
        };
        ring.append(tx, record).await
    }

    async fn create_history(&self, tx: &Tx, pool_bytes: u64) -> Result<Ring, DslError> {
        let spec = DnodeSpec::new(ObjectType::SPA_HISTORY, BLOCK_BYTES)
            .with_bonus(ObjectType::SPA_HISTORY_OFFSETS, size_of::<HistoryPhys>() as u16);
        let dnode = self.mos.allocate(tx, &spec).await?;
        let mut phys = HistoryPhys::new_zeroed();
        phys.phys_max_off =
            U64::new((pool_bytes / SHARE_OF_POOL).clamp(HISTORY_MIN_BYTES, HISTORY_MAX_BYTES));
        self.directory.add_u64(tx, directory::HISTORY.as_bytes(), dnode.object().get()).await?;
        Ok(Ring { dnode, phys })
    }

    /// All records of the history, oldest first.
    ///
    /// # Errors
    /// Damage, and those of reading the MOS.
    #[boxed]
    pub async fn history(&self) -> Result<Vec<NvList>, DslError> {
        match self.directory.lookup_u64(directory::HISTORY.as_bytes()).await? {
            Some(object) => Ring::of(self.mos.hold(ObjectId::new(object)).await?)?.records().await,
            None => Ok(Vec::new()),
        }
    }
}
