//! The block reference table (BRT): a block that files share by cloning is freed with its last reference only.
//!
//! ```text
//!  sync of a txg:  datasets written ─► references of clones, and of claimed logs, counted up
//!                                        ─► blocks let go: counted down, or freed with the last one ─► tables written
//! ```
//! A block that was never cloned has no entry, and one reference. Each free of a block that may be in the table costs
//! one reference, or the block itself when there is none left. A block that is marked as deduplicated has its
//! references counted in that table ([`super::ddt`]) and comes here only if it is not in there.
//!
//! A log that an import claims has a reference to each block that its clones name, until it is given back: whatever
//! becomes of the files that had the block, replay finds it.
//!
//! If the table of a vdev is lost, no data block of that vdev is freed, because other files may
//! refer to it, and no reference is counted.
//!
//! Invariants
//! - A block in the table is not freed; its entry goes with the last reference but one.
//!   (tests: `shared_blocks_outlive_all_but_their_last_file`, `random_histories_of_clones_equal_a_plain_model`)
//! - References are counted up before any are counted down, in each txg.
//! - Counts, sums and entries agree in every txg; an empty table is taken away. (`zdb` of the same tests)

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use dmu::zap::{ZAP_FLAG_HASH64, ZAP_FLAG_UINT64_KEY, Zap, ZapSpec, ZapValue};
use dmu::{Dnode, DnodeSpec, Tx};
use dsl::Dsl;
use dsl::features::{BLOCK_CLONING, BLOCK_CLONING_ENDIAN};
use env::boxed;
use ondisk::brt::{BRT_COUNTS_BLOCK_BYTES, BRT_OBJECT_PREFIX, BRT_RANGE_BYTES, BRT_ZAP_SHIFT, BrtVdevPhys};
use ondisk::{Blkptr, ObjectType};
use units::{ObjectId, VdevId, VdevOffset};
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
pub(crate) struct Brt(async_lock::Mutex<BTreeMap<VdevId, Table>>, BTreeSet<VdevId>);

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
    #[boxed]
    pub async fn load(dsl: &Dsl) -> Result<Self, PoolError> {
        let endian_fixed = dsl.feature_count(&BLOCK_CLONING_ENDIAN).await?.is_some_and(|count| count > 0);
        let (mut tables, mut lost) = (BTreeMap::new(), BTreeSet::new());
        for entry in dsl.directory().all().await? {
            let name = std::str::from_utf8(&entry.name).ok();
            let vdev = name.and_then(|name| name.strip_prefix(BRT_OBJECT_PREFIX)?.parse().ok());
            let (Some(vdev), Some(object)) = (vdev, entry.value.as_u64()) else { continue };
            match Table::load(dsl, ObjectId::new(object), endian_fixed).await {
                Err(error) if error.is_loss() => {
                    tracing::error!(vdev, %error, "the table of shared blocks is lost: none of the vdev's data is freed");
                    lost.insert(VdevId::new(vdev));
                }
                table => _ = tables.insert(VdevId::new(vdev), table?),
            }
        }
        Ok(Self(async_lock::Mutex::new(tables), lost))
    }

    /// Counts one reference more of each block, all of which are data.
    #[boxed]
    pub async fn add_references(
        &self,
        dsl: &Dsl,
        tx: &Tx,
        zio: &Zio,
        blocks: &[Blkptr],
    ) -> Result<(), PoolError> {
        let mut more: BTreeMap<(VdevId, VdevOffset), (&Blkptr, u64)> = BTreeMap::new();
        for bp in blocks.iter().filter(|bp| !self.1.contains(&bp.dva(0).vdev)) {
            more.entry((bp.dva(0).vdev, bp.dva(0).offset)).or_insert((bp, 0)).1 += 1;
        }
        let mut tables = self.0.lock().await;
        for ((vdev, _), (bp, references)) in more {
            let table = match tables.entry(vdev) {
                Entry::Occupied(table) => table.into_mut(),
                Entry::Vacant(place) => place.insert(Table::create(dsl, tx, zio, vdev).await?),
            };
            table.add_references(tx, zio, bp, references).await?;
        }
        Ok(())
    }

    /// Takes away one reference of a block that is to be freed. Says whether it was shared: then
    /// it must stay.
    #[boxed]
    pub async fn take_reference(&self, tx: &Tx, zio: &Zio, bp: &Blkptr) -> Result<bool, PoolError> {
        if bp.level().get() > 0 || bp.object_type().is_metadata() || bp.is_embedded() || bp.is_hole() {
            return Ok(false);
        }
        if self.1.contains(&bp.dva(0).vdev) {
            let what = "block reference table".to_owned();
            return Err(PoolError::Damaged { object: ObjectId::new(0), what });
        }
        match self.0.lock().await.get_mut(&bp.dva(0).vdev) {
            Some(table) => table.take_reference(tx, zio, bp).await,
            None => Ok(false),
        }
    }

    /// Space that datasets count more than once.
    #[boxed]
    pub async fn space(&self) -> SharedSpace {
        let space = |table: &Table| SharedSpace {
            used_bytes: table.phys.used_bytes.get(),
            saved_bytes: table.phys.saved_bytes.get(),
        };
        self.0.lock().await.values().map(space).sum()
    }

    /// The objects of the tables' entries.
    #[boxed]
    pub async fn objects(&self) -> Vec<ObjectId> {
        self.0.lock().await.values().map(|table| table.entries.object()).collect()
    }

    /// Writes headers and counts that changed, and takes empty tables away.
    #[boxed]
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

    /// A table without entries, for a vdev that has none.
    async fn create(dsl: &Dsl, tx: &Tx, zio: &Zio, vdev: VdevId) -> Result<Self, PoolError> {
        // OpenZFS counts what metaslabs cover, and refuses a pool with more counts than that.
        let config = zio.vdevs().top(vdev)?.config();
        let covered = config.asize >> config.metaslab_shift << config.metaslab_shift;
        let counts = covered.div_ceil(BRT_RANGE_BYTES).max(1);
        let endian_fixed = match dsl.feature_count(&BLOCK_CLONING_ENDIAN).await? {
            None => false,
            Some(0) => dsl.feature_count(&BLOCK_CLONING).await?.unwrap_or(0) == 0,
            Some(_) => true,
        };
        let spec = ZapSpec {
            dnode: DnodeSpec {
                indirect_shift: BRT_ZAP_SHIFT,
                ..DnodeSpec::new(ObjectType::OTN_ZAP_METADATA, 1 << BRT_ZAP_SHIFT)
            },
            normflags: 0,
            flags: ZAP_FLAG_HASH64 | ZAP_FLAG_UINT64_KEY,
        };
        let entries = Zap::create(dsl.mos(), tx, &spec).await?;
        let kind = ObjectType::OTN_UINT64_METADATA;
        let spec =
            DnodeSpec::new(kind, BRT_COUNTS_BLOCK_BYTES).with_bonus(kind, size_of::<BrtVdevPhys>() as u16);
        let object = dsl.mos().allocate(tx, &spec).await?;
        let name = format!("{BRT_OBJECT_PREFIX}{vdev}");
        dsl.directory().add_u64(tx, name.as_bytes(), object.object().get()).await?;
        dsl.count_feature(tx, &BLOCK_CLONING, 1).await?;
        if endian_fixed {
            dsl.count_feature(tx, &BLOCK_CLONING_ENDIAN, 1).await?;
        }
        let phys = BrtVdevPhys {
            entries: entries.object().get().into(),
            counts: counts.into(),
            range_bytes: BRT_RANGE_BYTES.into(),
            ..BrtVdevPhys::default()
        };
        Ok(Self { object, entries, phys, counts: vec![0; counts as usize], endian_fixed, changed: true })
    }

    async fn add_references(
        &mut self,
        tx: &Tx,
        zio: &Zio,
        bp: &Blkptr,
        references: u64,
    ) -> Result<(), PoolError> {
        let offset = bp.dva(0).offset.get();
        let range = (offset / self.phys.range_bytes.get()) as usize;
        if self.counts.len() <= range {
            // The vdev has grown since the table was made.
            self.counts.resize(range + 1, 0);
            self.phys.counts = (self.counts.len() as u64).into();
        }
        let before = match self.counts[range] {
            0 => 0,
            _ => self.references_at(offset).await?,
        };
        let after = before.checked_add(references).ok_or_else(|| self.damaged("an entry"))?;
        self.account_more(range, before == 0, references, zio.charged_bytes(bp))?;
        self.entries.update_words(tx, &[offset], &self.value(after)).await?;
        Ok(())
    }

    /// Counts references more.
    fn account_more(
        &mut self,
        range: usize,
        is_new: bool,
        references: u64,
        bytes: u64,
    ) -> Result<(), PoolError> {
        let mut phys = self.phys;
        let more = |sum: u64, by: Option<u64>| {
            by.and_then(|by| sum.checked_add(by)).ok_or_else(|| self.damaged("sums do not add up"))
        };
        phys.saved_bytes.set(more(phys.saved_bytes.get(), bytes.checked_mul(references))?);
        if is_new {
            phys.used_bytes.set(more(phys.used_bytes.get(), Some(bytes))?);
            phys.total.set(more(phys.total.get(), Some(1))?);
            let count = self.counts[range].checked_add(1);
            self.counts[range] =
                count.ok_or_else(|| self.damaged("more blocks than a range has room for"))?;
        }
        self.phys = phys;
        self.changed = true;
        Ok(())
    }

    /// References of the block at `offset` beyond the first.
    async fn references_at(&self, offset: u64) -> Result<u64, PoolError> {
        let Some(value) = self.entries.lookup_words(&[offset]).await? else { return Ok(0) };
        let references = self.references(&value).filter(|&references| references > 0);
        references.ok_or_else(|| self.damaged("an entry without references"))
    }

    async fn take_reference(&mut self, tx: &Tx, zio: &Zio, bp: &Blkptr) -> Result<bool, PoolError> {
        let offset = bp.dva(0).offset.get();
        let range = (offset / self.phys.range_bytes.get()) as usize;
        if self.counts.get(range).is_none_or(|&count| count == 0) {
            return Ok(false);
        }
        let Some(left) = self.references_at(offset).await?.checked_sub(1) else { return Ok(false) };
        self.account_less(range, left, zio.charged_bytes(bp))?;
        if left == 0 {
            self.entries.remove_words(tx, &[offset]).await?;
        } else {
            self.entries.update_words(tx, &[offset], &self.value(left)).await?;
        }
        Ok(true)
    }

    /// Counts one reference less.
    fn account_less(&mut self, range: usize, left: u64, bytes: u64) -> Result<(), PoolError> {
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
