//! Sending what was itself received in part, and kept: to have it elsewhere, and go on there.
//!
//! ```text
//!  sender ─► p/fs/%recv, broken off ─── zfs send -S p/fs ──► q/fs/%recv, broken off at the same place
//!                                      BEGIN as it came, what is there, no END
//! ```
//! It leads as far as what is known of the part: an incremental one has objects beyond that as they were before, and whoever
//! received those would take them for done. (test: `what_was_received_in_part_is_sent_on_and_completed_there`)

use crate::send::{Sink, cannot_send, features, no_source, refuse};
use crate::{Held, Holder, refusal};
use control::{DatasetSend, Failure, FailureKind, SendSize};
use dmu::Objset;
use ondisk::send::ResumeState;
use pool::PoolError;
use std::sync::Arc;
use stream::{Form, Redaction, SendOrder, Target};
use units::ObjectId;

impl Holder {
    pub(super) async fn send_saved(
        &self,
        held: &Held,
        call: &DatasetSend,
        sink: &mut Sink,
    ) -> Result<(), Failure> {
        let (objset, order) = self.saved(held, &call.snapshot).await?;
        let sent = stream::send(&objset, &order, &mut *sink).await;
        let sent = sent.map_err(|error| cannot_send(&call.snapshot, &error))?;
        // A kept part has at least one record after its BEGIN record.
        if sent.records_in_all() < 2 {
            return Err(refuse(FailureKind::Invalid, &call.snapshot, "nothing of it was received"));
        }
        tracing::info!(
            dataset = call.snapshot,
            bytes = sent.stream_bytes(),
            "sent what was received in part"
        );
        Ok(())
    }

    pub(super) async fn saved_size(&self, held: &Held, call: &DatasetSend) -> Result<Vec<SendSize>, Failure> {
        let name = call.snapshot.clone();
        let (objset, order) = self.saved(held, &name).await?;
        let size = stream::size_of(&objset, &order).await.map_err(|error| cannot_send(&name, &error))?;
        Ok(vec![SendSize { snapshot: name, from: None, bytes: size.stream_bytes() }])
    }

    /// What was received in part for a dataset, and how it is sent.
    async fn saved(&self, held: &Held, name: &str) -> Result<(Arc<Objset>, SendOrder), Failure> {
        let head = self.dataset(held, name).await?;
        let cannot = |error: PoolError| {
            let (kind, reason) = refusal::kind_and_reason(&error);
            refuse(kind, name, &reason)
        };
        let part = held.pool.saved_part(&head).await.map_err(cannot)?;
        let Some((dataset, state)) = part else {
            return Err(Failure::new(
                FailureKind::Invalid,
                format!("saved send failed: '{name}' has no saved state"),
            ));
        };
        let objset = held.pool.frozen_objset(&dataset.name).await.map_err(cannot)?;
        let objset = objset.ok_or_else(|| refuse(FailureKind::Invalid, name, "nothing was ever in it"))?;
        let ResumeState { fromguid, toguid, toname, form, point } = state;
        let origin = match fromguid {
            0 => None,
            guid => {
                let from = self.source_of_guid(held, name, guid).await?;
                let from = from.ok_or_else(|| no_source(name, &format!("{guid:#x}")))?;
                Some(self.origin(held, name, &from).await?)
            }
        };
        let phys = held.pool.dsl().dataset(dataset.dataset).await.map_err(|error| cannot(error.into()))?;
        let used = features(held, &dataset).await.map_err(|error| cannot(error.into()))?;
        let target = Target { guid: toguid, ..Target::of(&toname, &phys, used) };
        let form =
            Form { large_blocks: form.large_blocks, embedded: form.embedded, compressed: form.compressed };
        let order = SendOrder {
            target,
            origin,
            form,
            resume: None,
            redaction: Redaction::default(),
            cut_after: Some(ObjectId::new(point.object)),
        };
        Ok((objset, order))
    }
}
