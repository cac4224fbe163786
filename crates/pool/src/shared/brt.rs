//! The block reference table (BRT): a block that files share by cloning is freed with its last reference only.
//!
//! OpenZFS makes and fills the table when somebody clones files; this program does not yet, and only takes it
//! apart: each free of a block that may be in the table costs one reference, or the block itself when there is
//! none left.
//!
//! Invariants
//! - A block in the table is not freed; its entry goes with the last reference but one.
//!   (test: `shared_blocks_outlive_all_but_their_last_file`)
//! - Counts, sums and entries agree in every txg; an empty table is taken away.

use std::collections::BTreeMap;
use std::sync::Arc;

use dmu::zap::{Zap, ZapValue};
use dmu::{Dnode, Tx};
use dsl::Dsl;
use dsl::features::{BLOCK_CLONING, BLOCK_CLONING_ENDIAN};
use ondisk::brt::{BRT_OBJECT_PREFIX, BrtVdevPhys};
use ondisk::{Blkptr, ObjectType};
use units::{ObjectId, VdevId};
use zerocopy::IntoBytes;
use zio::Zio;

use crate::PoolError;
use crate::shared::SharedSpace;

/// Bytes of a count.
const COUNT_BYTES: usize = 2;
/// Of the order of bytes that we read and write.
const LITTLE_ENDIAN: u64 = 0;

/// The tables of all vdevs that have one.
#[derive(Default)]
pub(crate) struct Brt(async_lock::Mutex<BTreeMap<VdevId, Table>>);

/// The table of one vdev.
struct Table {
    object: Arc<Dnode>,
    entries: Zap,
    phys: BrtVdevPhys,
    counts: Vec<u16>,
    /// Values are one integer, not eight bytes.
    endian_fixed: bool,
    /// Header and counts are to be written.
    changed: bool,
}

impl Brt {
    /// Reads the tables' headers and counts.
    pub async fn load(dsl: &Dsl) -> Result<Self, PoolError> {
        let endian_fixed = dsl.feature_count(&BLOCK_CLONING_ENDIAN).await?.is_some_and(|count| count > 0);
        let mut tables = BTreeMap::new();
        for entry in dsl.directory().all().await? {
            let name = std::str::from_utf8(&entry.name).ok();
            let vdev = name.and_then(|name| name.strip_prefix(BRT_OBJECT_PREFIX)?.parse().ok());
            let (Some(vdev), Some(object)) = (vdev, entry.value.as_u64()) else { continue };
            let table = Table::load(dsl, ObjectId::new(object), endian_fixed).await?;
            tables.insert(VdevId::new(vdev), table);
        }
        Ok(Self(async_lock::Mutex::new(tables)))
    }

    /// Takes away one reference of a block that is to be freed. Says whether it was shared: then
    /// it must stay.
    pub async fn take_reference(&self, tx: &Tx, zio: &Zio, bp: &Blkptr) -> Result<bool, PoolError> {
        if bp.level().get() > 0 || bp.object_type().is_metadata() || bp.is_embedded() || bp.is_hole() {
            return Ok(false);
        }
        match self.0.lock().await.get_mut(&bp.dva(0).vdev) {
            Some(table) => table.take_reference(tx, zio, bp).await,
            None => Ok(false),
        }
    }

    /// Space that datasets count more than once.
    pub async fn space(&self) -> SharedSpace {
        let space = |table: &Table| SharedSpace {
            used_bytes: table.phys.used_bytes.get(),
            saved_bytes: table.phys.saved_bytes.get(),
        };
        self.0.lock().await.values().map(space).sum()
    }

    /// Writes headers and counts that changed, and takes empty tables away.
    pub async fn sync(&self, dsl: &Dsl, tx: &Tx) -> Result<(), PoolError> {
        let mut tables = self.0.lock().await;
        for (vdev, table) in tables.iter_mut().filter(|(_, table)| table.changed) {
            if table.phys.total.get() == 0 {
                table.remove(dsl, tx, *vdev).await?;
            } else {
                table.write(tx).await?;
            }
        }
        tables.retain(|_, table| table.phys.total.get() > 0 || !table.changed);
        tables.values_mut().for_each(|table| table.changed = false);
        Ok(())
    }
}

impl Table {
    async fn load(dsl: &Dsl, object: ObjectId, endian_fixed: bool) -> Result<Self, PoolError> {
        let damaged = |what: &str| PoolError::Damaged { object, what: what.into() };
        let dnode = dsl.mos().hold(object).await?;
        let phys = BrtVdevPhys::decode(&dnode.bonus()).map_err(|e| damaged(&e.to_string()))?;
        if phys.range_bytes.get() == 0 {
            return Err(damaged("header of a block reference table"));
        }
        if phys.byte_order.get() != LITTLE_ENDIAN {
            return Err(damaged("a block reference table in big-endian order"));
        }
        let raw = dnode.read_first(phys.counts.get().saturating_mul(COUNT_BYTES as u64)).await?;
        let counts =
            raw.as_chunks::<COUNT_BYTES>().0.iter().map(|count| u16::from_le_bytes(*count)).collect();
        let entries = Zap::hold(dsl.mos(), ObjectId::new(phys.entries.get())).await?;
        Ok(Self { object: dnode, entries, phys, counts, endian_fixed, changed: false })
    }

    async fn take_reference(&mut self, tx: &Tx, zio: &Zio, bp: &Blkptr) -> Result<bool, PoolError> {
        let offset = bp.dva(0).offset.get();
        let range = (offset / self.phys.range_bytes.get()) as usize;
        if self.counts.get(range).is_none_or(|&count| count == 0) {
            return Ok(false);
        }
        let Some(value) = self.entries.lookup_words(&[offset]).await? else { return Ok(false) };
        let references = self.references(&value).filter(|&references| references > 0);
        let left = references.ok_or_else(|| self.damaged("an entry without references"))? - 1;
        self.account(range, left, zio.charged_bytes(bp))?;
        if left == 0 {
            self.entries.remove_words(tx, &[offset]).await?;
        } else {
            self.entries.update_words(tx, &[offset], &self.value(left)).await?;
        }
        Ok(true)
    }

    /// Counts one reference less.
    fn account(&mut self, range: usize, left: u64, bytes: u64) -> Result<(), PoolError> {
        let mut phys = self.phys;
        let less = |sum: u64, by: u64| sum.checked_sub(by).ok_or_else(|| self.damaged("sums do not add up"));
        phys.saved_bytes.set(less(phys.saved_bytes.get(), bytes)?);
        if left == 0 {
            phys.used_bytes.set(less(phys.used_bytes.get(), bytes)?);
            phys.total.set(less(phys.total.get(), 1)?);
            self.counts[range] -= 1;
        }
        self.phys = phys;
        self.changed = true;
        Ok(())
    }

    fn references(&self, value: &ZapValue) -> Option<u64> {
        match value {
            ZapValue::U64(words) => words.first().copied().filter(|_| self.endian_fixed),
            ZapValue::U8(bytes) => {
                let bytes = bytes.as_slice().try_into().ok().filter(|_| !self.endian_fixed);
                bytes.map(u64::from_le_bytes)
            }
            _ => None,
        }
    }

    fn value(&self, references: u64) -> ZapValue {
        if self.endian_fixed {
            ZapValue::U64(vec![references])
        } else {
            ZapValue::U8(references.to_le_bytes().to_vec())
        }
    }

    async fn write(&self, tx: &Tx) -> Result<(), PoolError> {
        let counts: Vec<u8> = self.counts.iter().flat_map(|count| count.to_le_bytes()).collect();
        self.object.write(tx, 0, &counts).await?;
        Ok(self.object.set_bonus(tx, ObjectType::OTN_UINT64_METADATA, self.phys.as_bytes())?)
    }

    async fn remove(&self, dsl: &Dsl, tx: &Tx, vdev: VdevId) -> Result<(), PoolError> {
        dsl.mos().free_object(tx, self.entries.object()).await?;
        dsl.mos().free_object(tx, self.object.object()).await?;
        dsl.directory().remove(tx, format!("{BRT_OBJECT_PREFIX}{vdev}").as_bytes()).await?;
        dsl.count_feature(tx, &BLOCK_CLONING, -1).await?;
        if self.endian_fixed {
            dsl.count_feature(tx, &BLOCK_CLONING_ENDIAN, -1).await?;
        }
        Ok(())
    }

    fn damaged(&self, what: &str) -> PoolError {
        PoolError::Damaged { object: self.object.object(), what: format!("block reference table: {what}") }
    }
}
