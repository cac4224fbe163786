//! What is left of a vdev on disk: its mapping, when what was copied, and how much of that is obsolete.
//!
//! ```text
//!   mapping   entries … ◄─ appended          bonus: end, bytes, how many, counts object
//!   counts    a word for each entry          only where the feature `obsolete_counts` is enabled
//!   births    (end, txg) … ◄─ appended       bonus: how many
//! ```
//! The feature `device_removal` counts vdevs that are, or are being, removed; `obsolete_counts` objects and marks.

use dmu::zap::Zap;
use dmu::{Dnode, DnodeSpec, Tx};
use dsl::Dsl;
use dsl::features::{DEVICE_REMOVAL, OBSOLETE_COUNTS};
use env::boxed;
use ondisk::ObjectType;
use ondisk::indirect::{BirthPhys, ENTRY_BYTES, Entry, MAPPING_BYTES_V0, MappingPhys};
use ondisk::mos::vdev_zap::{INDIRECT_OBSOLETE_SM, OBSOLETE_COUNTS_ARE_PRECISE};
use units::{ObjectId, Txg};
use vdev::Leaving;
use zerocopy::{FromBytes, IntoBytes};

use crate::{Batch, EvacuationError};

/// Data block of these objects.
const BLOCK_BYTES: u32 = 128 << 10;
/// Their type.
const WORDS: ObjectType = ObjectType::OTN_UINT64_METADATA;
/// The births' bonus: how many there are.
const BIRTHS_BONUS_BYTES: u16 = 8;
const COUNT_BYTES: u64 = 4;

/// Makes the objects of a vdev that is to be removed, and counts them.
///
/// # Errors
/// Those of changing the meta-objset.
#[boxed]
pub async fn create(dsl: &Dsl, tx: &Tx, top_zap: ObjectId) -> Result<Leaving, EvacuationError> {
    dsl.count_feature(tx, &DEVICE_REMOVAL, 1).await?;
    let mut phys = MappingPhys::default();
    let mut bonus_bytes = MAPPING_BYTES_V0;
    if dsl.feature_count(&OBSOLETE_COUNTS).await?.is_some() {
        let zap = Zap::hold(dsl.mos(), top_zap).await?;
        zap.add_u64(tx, OBSOLETE_COUNTS_ARE_PRECISE.as_bytes(), 1).await?;
        let spec = DnodeSpec::new(ObjectType::OTN_UINT32_METADATA, BLOCK_BYTES);
        phys.counts_object.set(dsl.mos().allocate(tx, &spec).await?.object().get());
        // The mark, and the object.
        dsl.count_feature(tx, &OBSOLETE_COUNTS, 2).await?;
        bonus_bytes = size_of::<MappingPhys>();
    }
    let spec = DnodeSpec::new(WORDS, BLOCK_BYTES).with_bonus(WORDS, bonus_bytes as u16);
    let mapping = dsl.mos().allocate(tx, &spec).await?;
    mapping.set_bonus(tx, WORDS, &phys.as_bytes()[..bonus_bytes])?;
    let spec = DnodeSpec::new(WORDS, BLOCK_BYTES).with_bonus(WORDS, BIRTHS_BONUS_BYTES);
    let births = dsl.mos().allocate(tx, &spec).await?.object();
    Ok(Leaving { mapping: mapping.object(), births })
}

/// Appends what the txg has copied.
///
/// # Errors
/// Those of changing the meta-objset.
#[boxed]
pub async fn append(dsl: &Dsl, tx: &Tx, leaving: Leaving, batch: &Batch) -> Result<(), EvacuationError> {
    let mapping = dsl.mos().hold(leaving.mapping).await?;
    let mut phys = decode(&mapping)?;
    let count = phys.entries.get();
    let entries: Vec<u8> =
        batch.entries.iter().flat_map(|(entry, _)| entry.encode().as_bytes().to_vec()).collect();
    mapping.write(tx, count * ENTRY_BYTES as u64, &entries).await?;
    if phys.counts_object.get() != 0 {
        let counts = dsl.mos().hold(ObjectId::new(phys.counts_object.get())).await?;
        let words: Vec<u8> = batch.entries.iter().flat_map(|(_, obsolete)| obsolete.to_le_bytes()).collect();
        counts.write(tx, count * COUNT_BYTES, &words).await?;
    }
    let length = |entry: &Entry| entry.target.asize.get();
    let bytes: u64 = batch.entries.iter().map(|(entry, _)| length(entry)).sum();
    phys.entries.set(count + batch.entries.len() as u64);
    phys.bytes_mapped.set(phys.bytes_mapped.get() + bytes);
    if let Some((last, _)) = batch.entries.last() {
        phys.end.set(last.source.get() + length(last));
    }
    let bonus_bytes = mapping.bonus().len().min(size_of::<MappingPhys>());
    mapping.set_bonus(tx, WORDS, &phys.as_bytes()[..bonus_bytes])?;
    append_birth(dsl, tx, leaving.births, BirthPhys { end: phys.end, txg: tx.txg().get().into() }).await
}

async fn append_birth(dsl: &Dsl, tx: &Tx, births: ObjectId, birth: BirthPhys) -> Result<(), EvacuationError> {
    let births = dsl.mos().hold(births).await?;
    let count = birth_count(&births)?;
    births.write(tx, count * size_of::<BirthPhys>() as u64, birth.as_bytes()).await?;
    Ok(births.set_bonus(tx, WORDS, &(count + 1).to_le_bytes())?)
}

/// When something was copied last from a vdev, if anything was.
///
/// # Errors
/// Damage, and those of reading the meta-objset.
#[boxed]
pub async fn last_birth(dsl: &Dsl, births: ObjectId) -> Result<Option<Txg>, EvacuationError> {
    let births = dsl.mos().hold(births).await?;
    let Some(last) = birth_count(&births)?.checked_sub(1) else { return Ok(None) };
    let too_many = || damaged(&births, "number of births");
    let size = size_of::<BirthPhys>() as u64;
    let start = last.checked_mul(size).ok_or_else(too_many)?;
    let end = start.checked_add(size).ok_or_else(too_many)?;
    let bytes = births.read_part(start..end).await?;
    let birth = BirthPhys::read_from_bytes(&bytes).map_err(|_| damaged(&births, "birth"))?;
    Ok(Some(Txg::new(birth.txg.get())))
}

/// Takes away all objects of a vdev that is not removed after all, and their counts. Gives the space map of what was
/// obsolete, if there is one: it is still to be taken away.
///
/// # Errors
/// Those of changing the meta-objset.
#[boxed]
pub async fn remove(
    dsl: &Dsl,
    tx: &Tx,
    leaving: Leaving,
    top_zap: ObjectId,
) -> Result<Option<ObjectId>, EvacuationError> {
    let zap = Zap::hold(dsl.mos(), top_zap).await?;
    let mut counted = 0;
    if zap.lookup_u64(OBSOLETE_COUNTS_ARE_PRECISE.as_bytes()).await?.is_some() {
        zap.remove(tx, OBSOLETE_COUNTS_ARE_PRECISE.as_bytes()).await?;
        counted += 1;
    }
    let obsolete = zap.lookup_u64(INDIRECT_OBSOLETE_SM.as_bytes()).await?;
    if obsolete.is_some() {
        zap.remove(tx, INDIRECT_OBSOLETE_SM.as_bytes()).await?;
        counted += 1;
    }
    let counts = decode(&*dsl.mos().hold(leaving.mapping).await?)?.counts_object.get();
    if counts != 0 {
        dsl.mos().free_object(tx, ObjectId::new(counts)).await?;
        counted += 1;
    }
    dsl.mos().free_object(tx, leaving.mapping).await?;
    dsl.mos().free_object(tx, leaving.births).await?;
    if counted > 0 {
        dsl.count_feature(tx, &OBSOLETE_COUNTS, -counted).await?;
    }
    dsl.count_feature(tx, &DEVICE_REMOVAL, -1).await?;
    Ok(obsolete.map(ObjectId::new))
}

fn decode(mapping: &Dnode) -> Result<MappingPhys, EvacuationError> {
    MappingPhys::decode(&mapping.bonus()).map_err(|error| damaged(mapping, &error.to_string()))
}

fn birth_count(births: &Dnode) -> Result<u64, EvacuationError> {
    let bonus = births.bonus();
    let count = bonus.first_chunk::<8>().map(|count| u64::from_le_bytes(*count));
    count.ok_or_else(|| damaged(births, "number of births"))
}

fn damaged(dnode: &Dnode, what: &str) -> EvacuationError {
    EvacuationError::Damaged { object: dnode.object(), what: what.to_owned() }
}
