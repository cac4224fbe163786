//! Making an objset what a substream says.
//!
//! ```text
//!  StreamRecord ─► Receiver ─┬─ OBJECT, FREEOBJECTS            `objects`   made, altered, freed
//!                            └─ WRITE*, FREE, SPILL            `blocks`    changed
//!                                    │
//!                                    ▼  a plan each, which waits when much is dirty
//!                                dmu::Objset
//! ```
//! Each record is a change of its own, in whichever txg is open then. Nobody else changes the objset, and nobody uses it:
//! half of a stream is of no use. Blocks are stored as the objset's properties say, however they came.
//!
//! Invariants
//! - A record that does not fit the objset is refused with its place, whatever it says: nothing in a stream panics.
//!   (test: pool's `records_that_do_not_fit_are_refused`)
//! - What waits to be written is bounded as for everybody who changes an objset, by the plans' own waiting.

mod blocks;
mod objects;

use std::sync::Arc;

use dmu::{DmuError, Dnode, Estimate, Objset, Plan};
use env::boxed;
use ondisk::dnode::OBJECT_SHIFT_MAX;
use ondisk::send::{DrrBegin, DrrBody, RECORD_BYTES, ResumePoint, StreamFeatures, begin_flags};
use units::{ObjectId, Txg};

use crate::{ReadError, StreamRecord};

/// Why a stream cannot be received on. What came before is in the objset.
#[derive(Debug, thiserror::Error)]
pub enum ReceiveError {
    /// The stream itself.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// A record that does not fit the objset that the records before it made.
    #[error("record at byte {offset} of the stream: object {object}: {what}")]
    BadRecord {
        /// Where it begins.
        offset: u64,
        /// Of which object.
        object: ObjectId,
        /// What does not fit.
        what: &'static str,
    },
    /// A record of a kind that is not received yet.
    #[error("record at byte {offset} of the stream: {what} cannot be received")]
    Unsupported {
        /// Where it begins.
        offset: u64,
        /// What it has.
        what: &'static str,
    },
    /// The objset cannot be changed.
    #[error("object {object} cannot be received")]
    Objset {
        /// Which object.
        object: ObjectId,
        /// Why.
        #[source]
        source: Box<DmuError>,
    },
}

/// Where errors are told to be.
#[derive(Clone, Copy, Debug)]
struct At {
    offset: u64,
    object: ObjectId,
}

impl At {
    fn bad(self, what: &'static str) -> ReceiveError {
        ReceiveError::BadRecord { offset: self.offset, object: self.object, what }
    }

    /// What the stream asked for and cannot be is the stream's fault, and all else is not.
    fn of(self, error: DmuError) -> ReceiveError {
        match error {
            DmuError::Invalid { what, .. } => self.bad(what),
            DmuError::NoSuchObject { .. } => self.bad("there is no such object"),
            DmuError::ObjectExists { .. } => self.bad("its number is another object's"),
            source => ReceiveError::Objset { object: self.object, source: Box::new(source) },
        }
    }
}

/// Who is told how far a receive is, with the txg that has what came so far, while that is held.
pub type Progress = Arc<dyn Fn(Txg, ResumePoint) + Send + Sync>;

/// Takes the records of a substream, see the module.
pub struct Receiver {
    objset: Arc<Objset>,
    features: StreamFeatures,
    /// Records say which objects have spill blocks.
    tells_spills: bool,
    /// The object that records are about, so that it is not looked for with each.
    current: Option<Arc<Dnode>>,
    progress: Option<Progress>,
    /// The highest number of an object that was told of.
    last_object: u64,
    /// Bytes of the stream before what is read now: where the record ends that is being taken comes on top.
    before_bytes: u64,
    end_bytes: u64,
}

impl Receiver {
    /// Makes `objset` what the stream says that begins so; it must be as the snapshot is that the stream starts from.
    #[must_use]
    pub fn new(objset: Arc<Objset>, begin: &DrrBegin) -> Self {
        let tells_spills = begin.flags.get() & begin_flags::SPILL_BLOCK != 0;
        Self {
            objset,
            features: begin.features(),
            tells_spills,
            current: None,
            progress: None,
            last_object: 0,
            before_bytes: 0,
            end_bytes: 0,
        }
    }

    /// Tells how far the objset is, of a stream whose first record begins at byte `begin`, and of which `before_bytes` came
    /// earlier.
    #[must_use]
    pub fn telling(mut self, begin: u64, before_bytes: u64, progress: Progress) -> Self {
        self.progress = Some(progress);
        self.before_bytes = before_bytes.wrapping_sub(begin.saturating_add(RECORD_BYTES as u64));
        self
    }

    /// The objset.
    #[must_use]
    pub fn objset(&self) -> &Arc<Objset> {
        &self.objset
    }

    /// Does what a record says. BEGIN and END say nothing here.
    ///
    /// # Errors
    /// See [`ReceiveError`].
    #[boxed]
    pub async fn take(&mut self, record: StreamRecord) -> Result<(), ReceiveError> {
        let StreamRecord { offset, record, payload } = record;
        self.end_bytes = offset.saturating_add((RECORD_BYTES + payload.len()) as u64);
        let unsupported = |what| Err(ReceiveError::Unsupported { offset, what });
        let at = |object: u64| {
            let at = At { offset, object: ObjectId::new(object) };
            match object {
                0 => Err(at.bad("it is the meta-dnode")),
                _ if object >> OBJECT_SHIFT_MAX != 0 => Err(at.bad("its number is too high")),
                _ => Ok(at),
            }
        };
        match record.body {
            DrrBody::Begin(_) | DrrBody::End(_) => Ok(()),
            DrrBody::Object(object) => {
                self.last_object = self.last_object.max(object.object.get());
                self.object(at(object.object.get())?, &object, &payload).await
            }
            DrrBody::Freeobjects(free) => {
                self.free_objects(offset, free.first_object.get(), free.objects.get()).await
            }
            DrrBody::Write(write) => self.write(at(write.object.get())?, &write, payload).await,
            DrrBody::WriteEmbedded(write) => {
                self.write_embedded(at(write.object.get())?, &write, &payload).await
            }
            DrrBody::Free(free) => {
                self.free(at(free.object.get())?, free.offset.get(), free.length.get()).await
            }
            DrrBody::Spill(spill) => self.spill(at(spill.object.get())?, &spill, &payload).await,
            DrrBody::WriteByref(_) => unsupported("a deduplicated stream"),
            DrrBody::ObjectRange(_) => unsupported("a raw stream"),
            // What is left out is a hole here: what this dataset lacks is said of it as a whole.
            DrrBody::Redact(redact) => {
                self.free(at(redact.object.get())?, redact.offset.get(), redact.length.get()).await
            }
        }
    }

    /// Frees what is behind the last object that was told of. A full stream, received on top of something else, tells only of
    /// numbers that its sender's objset had room for.
    ///
    /// # Errors
    /// See [`ReceiveError`].
    #[boxed]
    pub async fn free_beyond(&mut self) -> Result<(), ReceiveError> {
        self.free_objects(self.end_bytes, self.last_object.saturating_add(1), u64::MAX).await
    }

    /// The object that a record is about.
    async fn held(&mut self, at: At) -> Result<Arc<Dnode>, ReceiveError> {
        if let Some(current) = self.current.as_ref().filter(|dnode| dnode.object() == at.object) {
            return Ok(Arc::clone(current));
        }
        let dnode = self.objset.hold(at.object).await.map_err(|error| at.of(error))?;
        self.current = Some(Arc::clone(&dnode));
        Ok(dnode)
    }

    async fn plan(&self, at: At, estimate: Estimate) -> Result<Plan, ReceiveError> {
        self.objset.plan(estimate).await.map_err(|error| at.of(error))
    }

    /// Makes a planned change.
    fn apply(at: At, plan: Plan) -> Result<(), ReceiveError> {
        plan.apply().map(drop).map_err(|error| at.of(error))
    }

    /// Makes the last change of a record that a stream can begin with: the rest of one that breaks off later begins with it
    /// again.
    fn apply_and_tell(&self, at: At, offset: u64, plan: Plan) -> Result<(), ReceiveError> {
        plan.apply_with(|txg| self.tell(txg, at.object, offset)).map_err(|error| at.of(error))
    }

    fn tell(&self, txg: Txg, object: ObjectId, offset: u64) {
        if let Some(progress) = &self.progress {
            let bytes = self.before_bytes.wrapping_add(self.end_bytes);
            progress(txg, ResumePoint { object: object.get(), offset, bytes });
        }
    }
}
