//! Livelists: of some clones, all blocks that are theirs alone, so that destroying them is quick.
//!
//! A livelist must tell of every block that its clone allocates or frees, or not be there. We drop
//! it when the clone is first written to, as OpenZFS does with clones that no longer share much with
//! their origin; the clone can then be destroyed as any other dataset.

use dmu::Tx;
use dmu::zap::Zap;
use ondisk::ObjectType;
use ondisk::dsl::dir_names;
use units::ObjectId;

use crate::dir::Dir;
use crate::features::LIVELIST;
use crate::{Dsl, DslError};

impl Dsl {
    /// Drops the livelist of a dir whose head is about to change, if it has one.
    pub(crate) async fn drop_livelist(&self, tx: &Tx, dir: &Dir) -> Result<(), DslError> {
        if dir.dnode().object_type() != ObjectType::OTN_ZAP_METADATA {
            return Ok(());
        }
        let fields = Zap::hold(&self.mos, dir.object()).await?;
        let Some(list) = fields.lookup_u64(dir_names::LIVELIST.as_bytes()).await? else {
            return Ok(());
        };
        fields.remove(tx, dir_names::LIVELIST.as_bytes()).await?;
        self.discard_deadlist(tx, ObjectId::new(list)).await?;
        self.count_feature(tx, &LIVELIST, -1).await
    }
}
