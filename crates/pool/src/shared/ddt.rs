//! The deduplication tables (DDT): a block that many places refer to is freed with its last reference only.
//!
//! Tables get no entries here: what is written is not looked up, whatever the property `dedup` says, and so has
//! no entry. A clone of a block that has one is one reference more. Every free of a block that is marked as deduplicated costs
//! its entry one reference, and the last one the block. A marked block without an entry was taken out
//! of the table (OpenZFS prunes such as are referred to once), and is freed like any other.
//!
//! Logs of a table (feature `fast_dedup`) must be empty, as they are once OpenZFS had the time to write
//! them out: a pool with entries in them is not changed here.
//!
//! Invariants
//! - A block goes with its last reference, its entry too; the entry is in the class that its references
//!   ask for. (test: `a_pool_with_deduplicated_blocks_is_worked_on`)
//! - Statistics agree with entries in every txg; a table without entries is taken away.
//!   (same test)

use std::collections::BTreeMap;

use dmu::zap::{ZAP_FLAG_HASH64, ZAP_FLAG_PRE_HASHED_KEY, ZAP_FLAG_UINT64_KEY, Zap, ZapSpec, ZapValue};
use dmu::{Dnode, DnodeSpec, Objset, Tx};
use dsl::Dsl;
use dsl::features::FAST_DEDUP;
use env::boxed;
use ondisk::ddt::{self, DDT_CLASSES, DDT_HISTOGRAM_ROWS, DDT_ROW_WORDS, DdtEntry};
use ondisk::mos::directory::DDT_STATS;
use ondisk::{Blkptr, ChecksumKind, CompressionKind, ObjectType};
use std::sync::Arc;
use units::{ObjectId, SECTOR_BYTES};
use zio::Zio;

use crate::PoolError;
use crate::facts::DedupFacts;
use crate::shared::SharedSpace;

/// Class of entries with several references.
const DUPLICATE: usize = 1;
/// Class of entries with one.
const UNIQUE: usize = 2;
/// Within each half of a row of the statistics: what blocks are charged.
const CHARGED: usize = 3;

/// What becomes of a block's references: one more, or one less.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Change {
    Add,
    Take,
}

/// All tables of a pool.
#[derive(Default)]
pub(crate) struct Ddt(async_lock::Mutex<Tables>);

#[derive(Default)]
struct Tables {
    /// Of all of them; there is none where there never was a table.
    statistics: Option<Zap>,
    by_checksum: BTreeMap<&'static str, Table>,
}

/// The table of one checksum.
struct Table {
    checksum: ChecksumKind,
    /// Where its classes are listed: the MOS directory, or one of its own.
    directory: Zap,
    owns_directory: bool,
    flat: bool,
    classes: [Option<Class>; DDT_CLASSES.len()],
    changed: bool,
}

/// Entries of one class.
struct Class {
    entries: Zap,
    histogram: Vec<u64>,
}

impl Class {
    async fn add_to(&self, facts: &mut DedupFacts) -> Result<(), PoolError> {
        facts.entries += self.entries.count().await?;
        let dnode = self.entries.dnode();
        facts.core_bytes += (dnode.max_block().get() + 1) * u64::from(dnode.block_bytes());
        facts.rows.resize(DDT_HISTOGRAM_ROWS, [0; DDT_ROW_WORDS]);
        for (sum, row) in facts.rows.iter_mut().zip(self.histogram.chunks(DDT_ROW_WORDS)) {
            sum.iter_mut().zip(row).for_each(|(sum, figure)| *sum = sum.saturating_add(*figure));
        }
        Ok(())
    }
}

/// What keeps a pool's tables from being changed, by name.
pub(crate) async fn obstacle(dsl: &Dsl) -> Result<Option<String>, PoolError> {
    let (_, obstacle) = Tables::load(dsl).await?;
    Ok(obstacle)
}

impl Ddt {
    /// Finds the tables.
    #[boxed]
    pub async fn load(dsl: &Dsl) -> Result<Self, PoolError> {
        Ok(Self(async_lock::Mutex::new(Tables::load(dsl).await?.0)))
    }

    /// Counts one reference more of a block that is marked as deduplicated. Says whether it is in a table.
    #[boxed]
    pub async fn add_reference(
        &self,
        mos: &Arc<Objset>,
        tx: &Tx,
        zio: &Zio,
        bp: &Blkptr,
    ) -> Result<bool, PoolError> {
        self.change_references(mos, tx, zio, bp, Change::Add).await
    }

    /// Takes away one reference of a block that is marked as deduplicated, and with the last one the
    /// block. Says whether it was in a table.
    #[boxed]
    pub async fn take_reference(
        &self,
        mos: &Arc<Objset>,
        tx: &Tx,
        zio: &Zio,
        bp: &Blkptr,
    ) -> Result<bool, PoolError> {
        self.change_references(mos, tx, zio, bp, Change::Take).await
    }

    async fn change_references(
        &self,
        mos: &Arc<Objset>,
        tx: &Tx,
        zio: &Zio,
        bp: &Blkptr,
        change: Change,
    ) -> Result<bool, PoolError> {
        let mut tables = self.0.lock().await;
        let checksum = bp.checksum_kind().map(ChecksumKind::name).unwrap_or_default();
        let Tables { statistics, by_checksum } = &mut *tables;
        match (by_checksum.get_mut(checksum), statistics) {
            (Some(table), Some(statistics)) => {
                table.change_references(mos, tx, zio, statistics, (bp, change)).await
            }
            _ => Ok(false),
        }
    }

    /// Finds the tables of a pool that is only read, if they are understood whole.
    #[boxed]
    pub async fn load_whole(dsl: &Dsl) -> Result<Option<Self>, PoolError> {
        let (tables, obstacle) = Tables::load(dsl).await?;
        Ok(obstacle.is_none().then(|| Self(async_lock::Mutex::new(tables))))
    }

    /// Space that datasets count more than once.
    #[boxed]
    pub async fn space(&self) -> SharedSpace {
        self.0.lock().await.space()
    }

    /// The same, and what the tables take, as of the last synced txg.
    #[boxed]
    pub async fn facts(&self, mos: &Arc<Objset>) -> Result<DedupFacts, PoolError> {
        let tables = self.0.lock().await;
        let mut facts = DedupFacts { blocks: tables.space(), ..DedupFacts::default() };
        for table in tables.by_checksum.values() {
            facts.table_bytes += table.taken_bytes(mos).await?;
            for class in table.classes.iter().flatten() {
                class.add_to(&mut facts).await?;
            }
        }
        Ok(facts)
    }

    /// The objects of the tables' entries.
    #[boxed]
    pub async fn objects(&self) -> Vec<ObjectId> {
        let tables = self.0.lock().await;
        let classes = tables.by_checksum.values().flat_map(|table| table.classes.iter().flatten());
        classes.map(|class| class.entries.object()).collect()
    }

    /// Writes statistics that changed, and takes empty tables away.
    #[boxed]
    pub async fn sync(&self, dsl: &Dsl, tx: &Tx) -> Result<(), PoolError> {
        let mut tables = self.0.lock().await;
        let Tables { statistics: Some(statistics), by_checksum } = &mut *tables else { return Ok(()) };
        let mut empty = Vec::new();
        for (name, table) in by_checksum.iter_mut().filter(|(_, table)| table.changed) {
            table.changed = false;
            if table.is_empty().await? {
                table.remove(dsl, tx, statistics).await?;
                empty.push(*name);
            } else {
                table.write_statistics(tx, statistics).await?;
            }
        }
        by_checksum.retain(|name, _| !empty.contains(name));
        Ok(())
    }
}

impl Tables {
    /// The tables, and what keeps them from being changed.
    async fn load(dsl: &Dsl) -> Result<(Self, Option<String>), PoolError> {
        let mut tables = Self::default();
        let mut obstacle = None;
        let Some(statistics) = dsl.directory().lookup_u64(DDT_STATS.as_bytes()).await? else {
            return Ok((tables, None));
        };
        let statistics = Zap::hold(dsl.mos(), ObjectId::new(statistics)).await?;
        for checksum in ChecksumKind::ALL {
            if let Some(mut table) = Table::find(dsl, checksum).await? {
                obstacle = obstacle.or(table.load(dsl, &statistics).await?);
                tables.by_checksum.insert(checksum.name(), table);
            }
        }
        tables.statistics = Some(statistics);
        Ok((tables, obstacle))
    }

    fn space(&self) -> SharedSpace {
        let classes = self.by_checksum.values().flat_map(|table| table.classes.iter().flatten());
        classes.map(Class::space).sum()
    }
}

impl Table {
    /// The table of a checksum, if there is one; its classes are still to be loaded.
    async fn find(dsl: &Dsl, checksum: ChecksumKind) -> Result<Option<Self>, PoolError> {
        let own = format!("{}{}", ddt::DDT_PREFIX, checksum.name());
        let (object, owns_directory) = match dsl.directory().lookup_u64(own.as_bytes()).await? {
            Some(object) => (ObjectId::new(object), true),
            None => (dsl.directory().object(), false),
        };
        let directory = Zap::hold(dsl.mos(), object).await?;
        let table = Self {
            checksum,
            directory,
            owns_directory,
            flat: false,
            classes: Default::default(),
            changed: false,
        };
        let mut exists = owns_directory;
        for class in 0..DDT_CLASSES.len() {
            exists |= table.directory.lookup_u64(table.name_of(class).as_bytes()).await?.is_some();
        }
        Ok(exists.then_some(table))
    }

    fn name_of(&self, class: usize) -> String {
        let (prefix, between) = (ddt::DDT_PREFIX, ddt::DDT_TYPE);
        format!("{prefix}{}{between}{}", self.checksum.name(), DDT_CLASSES[class])
    }

    /// Finds classes and their statistics; says what keeps the table from being changed.
    async fn load(&mut self, dsl: &Dsl, statistics: &Zap) -> Result<Option<String>, PoolError> {
        let mut obstacle = None;
        if self.owns_directory {
            let version = self.directory.lookup_u64(b"version").await?.unwrap_or_default();
            let flags = self.directory.lookup_u64(b"flags").await?.unwrap_or_default();
            if version != ddt::DDT_VERSION || flags & !(ddt::DDT_FLAG_FLAT | ddt::DDT_FLAG_LOG) != 0 {
                return Ok(Some(format!("deduplication table of version {version} with flags {flags:#x}")));
            }
            self.flat = flags & ddt::DDT_FLAG_FLAT != 0;
            obstacle = self.log_in_use(dsl).await?;
        }
        for class in 0..DDT_CLASSES.len() {
            let name = self.name_of(class);
            let Some(object) = self.directory.lookup_u64(name.as_bytes()).await? else { continue };
            if class < DUPLICATE {
                obstacle = Some("deduplication with ditto copies".into());
            }
            let entries = Zap::hold(dsl.mos(), ObjectId::new(object)).await?;
            let histogram = match statistics.lookup(name.as_bytes()).await? {
                Some(ZapValue::U64(words)) if words.len() == ddt::DDT_HISTOGRAM_WORDS => words,
                _ => return Err(self.damaged("no statistics")),
            };
            self.classes[class] = Some(Class { entries, histogram });
        }
        Ok(obstacle)
    }

    /// The logs of the table.
    async fn logs(&self) -> Result<Vec<(Vec<u8>, ObjectId)>, PoolError> {
        let listed = if self.owns_directory { self.directory.all().await? } else { Vec::new() };
        let logs = listed.into_iter().filter(|entry| entry.name.starts_with(ddt::DDT_LOG_PREFIX.as_bytes()));
        Ok(logs.filter_map(|log| Some((log.name, ObjectId::new(log.value.as_u64()?)))).collect())
    }

    /// What its classes and logs take, each in whole sectors as stat(2) has them.
    async fn taken_bytes(&self, mos: &Arc<Objset>) -> Result<u64, PoolError> {
        let in_sectors =
            |dnode: &Dnode| (dnode.used_bytes() + SECTOR_BYTES / 2) / SECTOR_BYTES * SECTOR_BYTES;
        let classes = self.classes.iter().flatten();
        let mut taken = classes.map(|class| in_sectors(class.entries.dnode())).sum();
        for (_, log) in self.logs().await? {
            taken += in_sectors(&*mos.hold(log).await?);
        }
        Ok(taken)
    }

    async fn log_in_use(&self, dsl: &Dsl) -> Result<Option<String>, PoolError> {
        for (_, log) in self.logs().await? {
            let bonus = dsl.mos().hold(log).await?.bonus();
            let length = bonus.get(ddt::DDT_LOG_LENGTH_AT..).and_then(|rest| rest.first_chunk::<8>());
            if length.is_none_or(|length| u64::from_le_bytes(*length) > 0) {
                return Ok(Some("deduplication log with entries".into()));
            }
        }
        Ok(None)
    }

    async fn change_references(
        &mut self,
        mos: &Arc<Objset>,
        tx: &Tx,
        zio: &Zio,
        statistics: &Zap,
        (bp, change): (&Blkptr, Change),
    ) -> Result<bool, PoolError> {
        let key = ddt::key(bp);
        let Some((class, mut entry)) = self.lookup(&key).await? else { return Ok(false) };
        let Some(slot) = entry.slot_of(bp) else { return Ok(false) };
        self.count(zio, class, &entry, bp, false)?;
        let block = entry.block(slot, bp).ok_or_else(|| self.damaged("an entry that names no block"))?;
        let left = match change {
            Change::Add => entry.add_reference(slot),
            Change::Take => entry.drop_reference(slot),
        };
        let left = left.ok_or_else(|| self.damaged("an entry without references"))?;
        if left == 0 {
            zio.free(tx.txg(), &block).await?;
        }
        let now = match entry.slots().map(|slot| entry.references(slot)).sum() {
            0 => None,
            1 => Some(UNIQUE),
            2_u64.. => Some(DUPLICATE),
        };
        if now != Some(class) {
            self.class(class).entries.remove_words(tx, &key).await?;
        }
        if let Some(now) = now {
            self.make_class(mos, tx, statistics, now).await?;
            self.class(now).entries.update_words(tx, &key, &packed(&entry)).await?;
            self.count(zio, now, &entry, bp, true)?;
        }
        self.changed = true;
        Ok(true)
    }

    async fn lookup(&self, key: &[u64]) -> Result<Option<(usize, DdtEntry)>, PoolError> {
        for (number, class) in self.classes.iter().enumerate() {
            let Some(class) = class else { continue };
            if let Some(value) = class.entries.lookup_words(key).await? {
                let entry = unpacked(&value, self.flat).ok_or_else(|| self.damaged("an entry"))?;
                return Ok(Some((number, entry)));
            }
        }
        Ok(None)
    }

    fn class(&self, number: usize) -> &Class {
        self.classes[number].as_ref().expect("entries are found, and put, in classes that there are")
    }

    async fn make_class(
        &mut self,
        mos: &Arc<Objset>,
        tx: &Tx,
        statistics: &Zap,
        number: usize,
    ) -> Result<(), PoolError> {
        if self.classes[number].is_some() {
            return Ok(());
        }
        let is_hash = self.checksum.is_dedup_grade();
        let spec = ZapSpec {
            dnode: DnodeSpec {
                indirect_shift: ddt::DDT_BLOCK_SHIFT,
                ..DnodeSpec::new(ObjectType::DDT_ZAP, 1 << ddt::DDT_BLOCK_SHIFT)
            },
            normflags: 0,
            flags: ZAP_FLAG_HASH64 | ZAP_FLAG_UINT64_KEY | if is_hash { ZAP_FLAG_PRE_HASHED_KEY } else { 0 },
        };
        let entries = Zap::create(mos, tx, &spec).await?;
        let (name, histogram) = (self.name_of(number), vec![0; ddt::DDT_HISTOGRAM_WORDS]);
        self.directory.add_u64(tx, name.as_bytes(), entries.object().get()).await?;
        statistics.add(tx, name.as_bytes(), &ZapValue::U64(histogram.clone())).await?;
        self.classes[number] = Some(Class { entries, histogram });
        Ok(())
    }

    /// Adds an entry to its class's statistics, or takes it out.
    fn count(
        &mut self,
        zio: &Zio,
        class: usize,
        entry: &DdtEntry,
        bp: &Blkptr,
        is_added: bool,
    ) -> Result<(), PoolError> {
        let mut row = [0; DDT_ROW_WORDS];
        for slot in entry.slots() {
            let block = entry.block(slot, bp).ok_or_else(|| self.damaged("an entry that names no block"))?;
            let once = [1, bp.lsize().get(), bp.psize().get(), zio.charged_bytes(&block)];
            for (at, figure) in once.into_iter().enumerate() {
                row[at] += figure;
                row[at + once.len()] += figure * entry.references(slot);
            }
        }
        let references = row[DDT_ROW_WORDS / 2].max(1);
        let start = references.ilog2() as usize * DDT_ROW_WORDS;
        let damaged = self.damaged("statistics do not add up");
        let class = self.classes[class].as_mut().expect("an entry is in a class that there is");
        for (sum, figure) in class.histogram[start..].iter_mut().zip(row) {
            let now = if is_added { sum.checked_add(figure) } else { sum.checked_sub(figure) };
            *sum = now.ok_or_else(|| damaged.clone())?;
        }
        Ok(())
    }

    async fn is_empty(&self) -> Result<bool, PoolError> {
        for class in self.classes.iter().flatten() {
            if class.entries.count().await? > 0 {
                return Ok(false);
            }
        }
        Ok(true)
    }

    async fn write_statistics(&self, tx: &Tx, statistics: &Zap) -> Result<(), PoolError> {
        for (number, class) in self.classes.iter().enumerate() {
            if let Some(class) = class {
                let words = ZapValue::U64(class.histogram.clone());
                statistics.update(tx, self.name_of(number).as_bytes(), &words).await?;
            }
        }
        Ok(())
    }

    async fn remove(&self, dsl: &Dsl, tx: &Tx, statistics: &Zap) -> Result<(), PoolError> {
        for (number, class) in self.classes.iter().enumerate() {
            let (Some(class), name) = (class, self.name_of(number)) else { continue };
            self.directory.remove(tx, name.as_bytes()).await?;
            statistics.remove(tx, name.as_bytes()).await?;
            dsl.mos().free_object(tx, class.entries.object()).await?;
        }
        if self.owns_directory {
            for (_, log) in self.logs().await? {
                dsl.mos().free_object(tx, log).await?;
            }
            let own = format!("{}{}", ddt::DDT_PREFIX, self.checksum.name());
            dsl.directory().remove(tx, own.as_bytes()).await?;
            dsl.mos().free_object(tx, self.directory.object()).await?;
            dsl.count_feature(tx, &FAST_DEDUP, -1).await?;
        }
        Ok(())
    }

    fn damaged(&self, what: &str) -> PoolError {
        let what = format!("deduplication table of {}: {what}", self.checksum.name());
        PoolError::Damaged { object: self.directory.object(), what }
    }
}

impl Class {
    fn space(&self) -> SharedSpace {
        let rows = self.histogram.chunks_exact(DDT_ROW_WORDS);
        rows.map(|row| {
            let (used_bytes, referenced) = (row[CHARGED], row[DDT_ROW_WORDS / 2 + CHARGED]);
            SharedSpace { used_bytes, saved_bytes: referenced.saturating_sub(used_bytes) }
        })
        .sum()
    }
}

fn unpacked(value: &ZapValue, flat: bool) -> Option<DdtEntry> {
    let ZapValue::U8(bytes) = value else { return None };
    let (how, stored) = bytes.split_first()?;
    let (kind, is_little) = ddt::packing(*how)?;
    let words = codec::decompress(kind, stored, ddt::entry_words(flat) * size_of::<u64>()).ok()?;
    DdtEntry::decode(&words, is_little, flat)
}

fn packed(entry: &DdtEntry) -> ZapValue {
    let words = entry.encode();
    let shorter = codec::compress(CompressionKind::Zle, &words, words.len() - 1);
    let (kind, stored) = match shorter {
        Some(shorter) => (CompressionKind::Zle, shorter),
        None => (CompressionKind::Off, words),
    };
    ZapValue::U8([&[ddt::packing_byte(kind)], stored.as_slice()].concat())
}
