//! What a receive leaves that may be gone on with: fields of the dataset that it is received into.
//!
//! The fields are there from the first txg of the receive on, and say in every txg how far the records of that txg lead.
//! So whatever ends a receive, an error or a power cut, the dataset is as its fields say.

use dmu::Tx;
use dmu::zap::{Zap, ZapValue};
use env::boxed;
use ondisk::dsl::dataset_names as names;
use ondisk::send::{ResumeForm, ResumePoint, ResumeState};
use units::ObjectId;

use crate::{Dsl, DslError};

/// All of them.
const FIELDS: [&str; 11] = [
    names::RESUME_FROMGUID,
    names::RESUME_TONAME,
    names::RESUME_TOGUID,
    names::RESUME_OBJECT,
    names::RESUME_OFFSET,
    names::RESUME_BYTES,
    names::RESUME_LARGEBLOCK,
    names::RESUME_EMBEDOK,
    names::RESUME_COMPRESSOK,
    names::RESUME_RAWOK,
    names::RESUME_REDACT_BOOKMARK_SNAPS,
];

impl Dsl {
    /// A receive into a head, of what the state says, can be gone on with from now on.
    ///
    /// # Errors
    /// Those of changing the MOS.
    #[boxed]
    pub async fn begin_resumable(
        &self,
        tx: &Tx,
        head: ObjectId,
        state: &ResumeState,
    ) -> Result<(), DslError> {
        let fields = self.fields_of(tx, self.loaded_dataset(head).await?.dnode()).await?;
        if state.fromguid != 0 {
            fields.add_u64(tx, names::RESUME_FROMGUID.as_bytes(), state.fromguid).await?;
        }
        fields.add_u64(tx, names::RESUME_TOGUID.as_bytes(), state.toguid).await?;
        fields.add(tx, names::RESUME_TONAME.as_bytes(), &ZapValue::text(&state.toname)).await?;
        let ResumeForm { large_blocks, embedded, compressed, raw } = state.form;
        for (is_so, name) in [
            (large_blocks, names::RESUME_LARGEBLOCK),
            (embedded, names::RESUME_EMBEDOK),
            (compressed, names::RESUME_COMPRESSOK),
            (raw, names::RESUME_RAWOK),
        ] {
            if is_so {
                fields.add_u64(tx, name.as_bytes(), 1).await?;
            }
        }
        put_point(&fields, tx, state.point).await
    }

    /// The records of a txg have led so far.
    ///
    /// # Errors
    /// Those of changing the MOS.
    #[boxed]
    pub async fn note_received(&self, tx: &Tx, head: ObjectId, point: ResumePoint) -> Result<(), DslError> {
        put_point(&self.fields_of(tx, self.loaded_dataset(head).await?.dnode()).await?, tx, point).await
    }

    /// What a receive has left in a head to be gone on with, if it did.
    ///
    /// # Errors
    /// Those of reading the MOS.
    #[boxed]
    pub async fn resume_state(&self, head: ObjectId) -> Result<Option<ResumeState>, DslError> {
        if !self.can_be_resumed(head).await? {
            return Ok(None);
        }
        let fields = self.zap(head.get()).await?;
        let number = async |name: &str| fields.lookup_u64(name.as_bytes()).await;
        let toname = fields.lookup(names::RESUME_TONAME.as_bytes()).await?;
        let toname = toname.as_ref().and_then(ZapValue::as_text).unwrap_or_default().to_owned();
        let point = ResumePoint {
            object: number(names::RESUME_OBJECT).await?.unwrap_or_default(),
            offset: number(names::RESUME_OFFSET).await?.unwrap_or_default(),
            bytes: number(names::RESUME_BYTES).await?.unwrap_or_default(),
        };
        let form = ResumeForm {
            large_blocks: number(names::RESUME_LARGEBLOCK).await?.is_some(),
            embedded: number(names::RESUME_EMBEDOK).await?.is_some(),
            compressed: number(names::RESUME_COMPRESSOK).await?.is_some(),
            raw: number(names::RESUME_RAWOK).await?.is_some(),
        };
        Ok(Some(ResumeState {
            fromguid: number(names::RESUME_FROMGUID).await?.unwrap_or_default(),
            toguid: number(names::RESUME_TOGUID).await?.unwrap_or_default(),
            toname,
            point,
            form,
        }))
    }

    /// The receive has come to its end: nothing is left to go on with.
    ///
    /// # Errors
    /// Those of changing the MOS.
    #[boxed]
    pub async fn end_resumable(&self, tx: &Tx, head: ObjectId) -> Result<(), DslError> {
        let head = self.loaded_dataset(head).await?;
        let there = self.dataset_fields(head.dnode()).await?;
        for name in there.iter().filter(|name| FIELDS.contains(&name.as_str())) {
            self.zap(head.object().get()).await?.remove(tx, name.as_bytes()).await?;
        }
        Ok(())
    }
}

async fn put_point(fields: &Zap, tx: &Tx, point: ResumePoint) -> Result<(), DslError> {
    for (name, number) in [
        (names::RESUME_OBJECT, point.object),
        (names::RESUME_OFFSET, point.offset),
        (names::RESUME_BYTES, point.bytes),
    ] {
        fields.update_u64(tx, name.as_bytes(), number).await?;
    }
    Ok(())
}
