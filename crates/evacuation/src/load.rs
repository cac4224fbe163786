//! Reading where the blocks of removed vdevs are, and what was copied of one that is being removed.
//!
//! ```text
//!   import   com.delphix:removing ─► the vdev removed last ─► the one before … : mappings, in this order
//! ```
//! The mapping of a vdev is an object of the meta-objset, and may lie on a vdev that was removed later: so the latest is
//! read first. What is read before any of them was written anew at each removal ([`crate::rewrite_directory`]).

use std::sync::Arc;

use dsl::Dsl;
use env::boxed;
use ondisk::indirect::{ENTRY_BYTES, MappingPhys, RemovingPhys, entries};
use units::{ObjectId, SECTOR_BYTES, VdevId};
use vdev::{Mapping, Top, VdevTree};

use crate::{EvacuationError, state};

/// Reads the mappings of all vdevs that were removed, and the one of the vdev that is being removed.
///
/// # Errors
/// Damage, and those of reading the meta-objset.
#[boxed]
pub async fn load(dsl: &Dsl, vdevs: &VdevTree) -> Result<(), EvacuationError> {
    let (removed, leaving) = (vdevs.removed_tops(), leaving_tops(vdevs));
    if removed.is_empty() && leaving.is_empty() {
        return Ok(());
    }
    let state = state(dsl).await?;
    let mut next = state.and_then(|state| number(state.last_removed.get()));
    for _ in &removed {
        let Some(id) = next else { break };
        let top = vdevs.top(id)?;
        let Some(removed) = top.removed().filter(|removed| removed.mapping().is_none()) else { break };
        removed.set_mapping(mapping(dsl, &top, removed.config().mapping).await?);
        next = removed.config().previous;
    }
    let is_read = |top: &Arc<Top>| top.removed().is_some_and(|removed| removed.mapping().is_some());
    if let Some(top) = removed.iter().find(|top| !is_read(top)) {
        return Err(strange(dsl, format!("vdev {} is not among the removed ones", top.id())));
    }
    for top in leaving {
        load_leaving(dsl, &top, state).await?;
    }
    Ok(())
}

fn leaving_tops(vdevs: &VdevTree) -> Vec<Arc<Top>> {
    vdevs.tops().into_iter().filter(|top| top.config().leaving.is_some()).collect()
}

async fn load_leaving(dsl: &Dsl, top: &Top, state: Option<RemovingPhys>) -> Result<(), EvacuationError> {
    let Some(leaving) = top.config().leaving else { return Ok(()) };
    let is_it = |state: &RemovingPhys| state.is_under_way() && number(state.vdev.get()) == Some(top.id());
    if !state.as_ref().is_some_and(is_it) {
        return Err(strange(
            dsl,
            format!("vdev {} is being removed, and the directory knows nothing of it", top.id()),
        ));
    }
    let known = mapping(dsl, top, leaving.mapping).await?;
    top.change_copied(|copied| *copied = known);
    Ok(())
}

fn number(word: u64) -> Option<VdevId> {
    u32::try_from(word).ok().map(VdevId::new)
}

fn strange(dsl: &Dsl, what: String) -> EvacuationError {
    EvacuationError::Damaged { object: dsl.directory().object(), what }
}

async fn mapping(dsl: &Dsl, top: &Top, object: ObjectId) -> Result<Mapping, EvacuationError> {
    let damaged = |what: String| EvacuationError::Damaged { object, what };
    let dnode = dsl.mos().hold(object).await?;
    let phys = MappingPhys::decode(&dnode.bonus()).map_err(|error| damaged(error.to_string()))?;
    let asize = top.config().asize;
    let bytes = mapping_bytes(&phys, asize);
    let bytes = bytes.ok_or_else(|| damaged(format!("mapping of {} entries", phys.entries)))?;
    let packed = dnode.read_first(bytes).await?;
    let entries = entries(&packed).collect::<Result<Vec<_>, _>>().map_err(|e| damaged(e.to_string()))?;
    Mapping::new(entries, asize).ok_or_else(|| damaged("mapping out of order, or beyond its vdev".into()))
}

/// How long a mapping's entries are in bytes, if a vdev of that size can have so many.
fn mapping_bytes(phys: &MappingPhys, asize: u64) -> Option<u64> {
    let entries = Some(phys.entries.get()).filter(|entries| *entries <= asize / SECTOR_BYTES)?;
    entries.checked_mul(ENTRY_BYTES as u64)
}
