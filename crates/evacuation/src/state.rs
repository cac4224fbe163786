//! How a removal stands, and that it can be read when nothing else of a pool can.

use std::sync::Arc;

use dmu::Tx;
use dmu::zap::ZapValue;
use dsl::Dsl;
use env::boxed;
use ondisk::indirect::RemovingPhys;
use ondisk::mos::directory::REMOVING;
use units::BlockId;

use crate::EvacuationError;

/// How the last removal stands, if there ever was one.
///
/// # Errors
/// Damage, and those of reading the meta-objset.
#[boxed]
pub async fn state(dsl: &Dsl) -> Result<Option<RemovingPhys>, EvacuationError> {
    let object = dsl.directory().object();
    let found = dsl.directory().lookup(REMOVING.as_bytes()).await?;
    let decoded = found.map(|value| RemovingPhys::decode(value.as_u64s())).transpose();
    decoded.map_err(|error| EvacuationError::Damaged { object, what: error.to_string() })
}

/// Notes how a removal stands.
///
/// # Errors
/// Those of changing the meta-objset.
#[boxed]
pub async fn store(dsl: &Dsl, tx: &Tx, phys: &RemovingPhys) -> Result<(), EvacuationError> {
    let words = ZapValue::U64(phys.to_words());
    Ok(dsl.directory().update(tx, REMOVING.as_bytes(), &words).await?)
}

/// Writes every block of the meta-objset's directory anew: what leads to the mappings of removed vdevs must not lie on
/// one itself, and the vdev that is to go takes no new blocks.
///
/// # Errors
/// Those of reading and changing the meta-objset.
#[boxed]
pub async fn rewrite_directory(dsl: &Dsl, tx: &Tx) -> Result<(), EvacuationError> {
    let dnode = dsl.directory().dnode();
    for block in 0..=dnode.max_block().get() {
        let block = BlockId::new(block);
        let bytes = dnode.read_block(block).await?;
        dnode.write_block(tx, block, Arc::clone(&bytes)).await?;
    }
    Ok(())
}
