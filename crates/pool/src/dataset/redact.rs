//! Redaction bookmarks: what of a snapshot is not to be sent, as some of its clones have it.

use std::sync::Arc;

use dmu::Objset;
use dsl::features::REDACTION_BOOKMARKS;
use dsl::{DslError, REDACT_SNAPS_MAX, RedactionList};
use env::boxed;
use ondisk::dsl::REDACT_BLOCK_BYTES;
use units::Txg;

use crate::space::task_room::{COPIES, DATASET_BYTES};
use crate::{Pool, PoolError};

/// Why there is no redaction bookmark, though nothing is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RedactRefusal {
    /// One of the snapshots was received redacted.
    #[error("attempted to redact redacted dataset or with respect to redacted dataset")]
    Redacted,
    /// One by which is to be redacted is none of a clone.
    #[error("redaction snapshot must be descendent of snapshot being redacted")]
    NotDescendent,
    /// There are more snapshots than a bookmark has room for.
    #[error("too many redaction snapshots specified")]
    TooMany,
}

impl Pool {
    /// Makes a bookmark of a snapshot, `pool/fs#mark`, with a list of the blocks that the snapshots `by` of its clones have all
    /// changed. Others may change the pool meanwhile; the snapshots stay.
    ///
    /// # Errors
    /// [`PoolError::Redact`]; [`PoolError::NeedsFeature`]; [`PoolError::Redaction`] when a snapshot cannot be read; those of
    /// [`Pool::bookmark`].
    #[boxed]
    pub async fn redact(
        self: &Arc<Self>,
        snapshot: String,
        name: String,
        by: Vec<String>,
    ) -> Result<(), PoolError> {
        if by.len() > REDACT_SNAPS_MAX {
            return Err(RedactRefusal::TooMany.into());
        }
        if !self.is_enabled(&REDACTION_BOOKMARKS).await? {
            return Err(PoolError::NeedsFeature { name: REDACTION_BOOKMARKS.name });
        }
        let (target, of_target) = self.unredacted(&snapshot).await?;
        self.dsl.check_bookmark(&snapshot, &name).await?;
        let (mut objsets, mut snaps) = (Vec::new(), Vec::new());
        for one in &by {
            let (objset, phys) = self.unredacted(one).await?;
            if !self.dsl.is_before_snapshot(&snapshot, one).await? {
                return Err(RedactRefusal::NotDescendent.into());
            }
            objsets.extend(objset);
            snaps.push(phys.guid.get());
        }
        let since = Txg::new(of_target.creation_txg.get());
        let blocks = match &target {
            Some(target) if objsets.len() == by.len() => {
                stream::redaction_list(target, &objsets, since).await?
            }
            _ => Vec::new(),
        };
        let list = RedactionList { snaps, is_complete: true, blocks };
        self.in_sync(move |pool, tx| async move {
            pool.dsl.check_bookmark(&snapshot, &name).await?;
            let listed = (list.blocks.len() * REDACT_BLOCK_BYTES) as u64;
            pool.check_task_room(&name, DATASET_BYTES + COPIES * listed)?;
            pool.dsl.create_redaction_bookmark(&tx, &snapshot, &name, &list).await?;
            let (of, mark) = name.split_once('#').unwrap_or((&name, ""));
            let of = pool.dsl.resolve(of).await?;
            pool.note_event(&tx, "bookmark", Some(&of), &format!("name={mark}")).await
        })
        .await
    }

    /// A snapshot that nothing was left out of.
    async fn unredacted(
        self: &Arc<Self>,
        name: &str,
    ) -> Result<(Option<Arc<Objset>>, ondisk::dsl::DslDatasetPhys), PoolError> {
        let dataset = self.dsl.resolve(name).await?;
        if !dataset.is_snapshot() {
            return Err(DslError::BadName { name: name.to_owned(), why: "it is no snapshot" }.into());
        }
        if self.dsl.redact_snaps(&dataset).await?.is_some() {
            return Err(RedactRefusal::Redacted.into());
        }
        let phys = self.dsl.dataset(dataset.dataset).await?;
        Ok((self.open_frozen(&dataset).await?, phys))
    }
}
