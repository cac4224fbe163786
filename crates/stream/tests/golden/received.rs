//! A receiver in memory: what a stream says is what the pool has.
//!
//! ```text
//!  objset ─► send, in each form ─► Received ═ the objset, read by dmu
//!  full stream of a, then what changed from a to b ═ full stream of b
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use dmu::{Dnode, Objset, SeekTo};
use ondisk::CompressionKind;
use ondisk::send::{DrrBody, DrrType, DrrWrite, record_flags};
use stream::{Form, SendError, SendOrder};
use units::{BlockId, ObjectId};

use crate::world::{World, records};

/// Contents are compared in pieces of this size at most: that of blocks which are always sent whole.
const PIECE_BYTES: usize = 128 << 10;

#[derive(Debug, Default, PartialEq, Eq)]
struct Object {
    object_type: u32,
    bonus_type: u32,
    bonus: Vec<u8>,
    slots: u8,
    block_bytes: u32,
    /// What is not zero, by offset.
    pieces: BTreeMap<u64, Vec<u8>>,
    spill: Option<Vec<u8>>,
}

impl Object {
    fn put(&mut self, offset: u64, contents: &[u8]) {
        for (piece, at) in contents.chunks(PIECE_BYTES).zip((offset..).step_by(PIECE_BYTES)) {
            if codec::is_all_zero(piece) {
                self.pieces.remove(&at);
            } else {
                self.pieces.insert(at, piece.to_vec());
            }
        }
    }

    fn free(&mut self, offset: u64, length: u64) {
        let end = offset.saturating_add(length);
        self.pieces.retain(|&at, _| at < offset || at >= end);
    }
}

/// What a receiver has.
#[derive(Debug, Default, PartialEq, Eq)]
struct Received {
    objects: BTreeMap<u64, Object>,
}

impl Received {
    /// Takes a stream; which types of records it had.
    fn take(&mut self, stream: &[u8]) -> BTreeSet<DrrType> {
        let mut types = BTreeSet::new();
        for record in records(stream).expect("a sound stream") {
            types.insert(record.record.body.drr_type());
            self.record(&record.record.body, &record.payload);
        }
        types
    }

    fn object(&mut self, object: u64) -> &mut Object {
        self.objects
            .get_mut(&object)
            .unwrap_or_else(|| panic!("nobody said that there is an object {object}"))
    }

    fn record(&mut self, body: &DrrBody, payload: &[u8]) {
        match body {
            DrrBody::Begin(_) | DrrBody::End(_) => {}
            DrrBody::Object(object) => {
                let known = self.objects.entry(object.object.get()).or_default();
                known.object_type = object.object_type.get();
                known.bonus_type = object.bonus_type.get();
                known.bonus = payload[..object.bonus_bytes.get() as usize].to_vec();
                known.slots = object.slots;
                known.block_bytes = object.block_bytes.get().min(PIECE_BYTES as u32);
                if object.flags & record_flags::OBJECT_SPILL == 0 {
                    known.spill = None;
                }
            }
            DrrBody::Freeobjects(free) => {
                let (first, end) = (free.first_object.get(), free.first_object.get() + free.objects.get());
                self.objects.retain(|&object, _| object < first || object >= end);
            }
            DrrBody::Write(write) => {
                let contents = contents_of(write, payload);
                self.object(write.object.get()).put(write.offset.get(), &contents);
            }
            DrrBody::WriteEmbedded(write) => {
                let kind = CompressionKind::from_raw(write.compression).expect("known");
                let packed = &payload[..write.physical_bytes.get() as usize];
                let contents = codec::decompress(kind, packed, write.logical_bytes.get() as usize);
                self.object(write.object.get()).put(write.offset.get(), &contents.expect("sound"));
            }
            DrrBody::Spill(spill) => self.object(spill.object.get()).spill = Some(payload.to_vec()),
            DrrBody::Free(free) => self.object(free.object.get()).free(free.offset.get(), free.length.get()),
            other => panic!("{other:?} is not sent"),
        }
    }
}

fn contents_of(write: &DrrWrite, payload: &[u8]) -> Vec<u8> {
    let len = write.logical_bytes.get() as usize;
    match write.compression {
        0 => payload.to_vec(),
        raw => {
            codec::decompress(CompressionKind::from_raw(raw).expect("known"), payload, len).expect("sound")
        }
    }
}

/// The same of an objset, by the way that files are read.
async fn read(objset: &Arc<Objset>) -> Received {
    let mut found = Received::default();
    let mut at = ObjectId::new(0);
    while let Some(object) = objset.next_object(at).await.expect("readable") {
        let dnode = objset.hold(object).await.expect("there");
        found.objects.insert(object.get(), read_object(&dnode).await);
        at = object;
    }
    found
}

async fn read_object(dnode: &Dnode) -> Object {
    let mut object = Object {
        object_type: dnode.object_type().raw().into(),
        bonus_type: dnode.bonus_type().raw().into(),
        bonus: dnode.bonus(),
        slots: dnode.slots(),
        block_bytes: dnode.block_bytes().min(PIECE_BYTES as u32),
        pieces: BTreeMap::new(),
        spill: dnode.spill().await.expect("readable"),
    };
    let block_bytes = u64::from(dnode.block_bytes());
    let mut from = 0;
    while let Some(offset) = dnode.seek(from, SeekTo::Data).await.expect("readable") {
        let block = BlockId::new(offset / block_bytes);
        let contents = dnode.read_block(block).await.expect("readable");
        object.put(block.get() * block_bytes, &contents);
        from = (block.get() + 1) * block_bytes;
    }
    object
}

/// Fails with the first object that is another.
fn assert_same(what: &str, ours: &Received, theirs: &Received) {
    let numbers = |received: &Received| received.objects.keys().copied().collect::<Vec<_>>();
    assert_eq!(numbers(ours), numbers(theirs), "{what}");
    for (object, ours) in &ours.objects {
        let theirs = &theirs.objects[object];
        let places = |object: &Object| object.pieces.keys().copied().collect::<Vec<_>>();
        assert_eq!(places(ours), places(theirs), "{what}: where object {object} has data");
        assert!(ours == theirs, "{what}: object {object}");
    }
}

const FORMS: [Form; 3] = [
    Form { large_blocks: false, embedded: false, compressed: false },
    Form { large_blocks: true, embedded: false, compressed: true },
    Form { large_blocks: true, embedded: true, compressed: true },
];

/// The stream; `None` for what must not, or cannot, be sent so.
fn sent(world: &World, order: &SendOrder) -> Option<Vec<u8>> {
    match world.send(order) {
        Ok((stream, _)) => Some(stream),
        Err(SendError::LargeMicrozap { .. } | SendError::Unsupported { .. }) => None,
        Err(error) => panic!("{}: {error:?}", order.target.name),
    }
}

/// Sends all that is in a pool in each form, and reads it beside; which types of records there were.
fn all_is_sent(pool: &str) -> BTreeSet<DrrType> {
    let world = World::of(pool);
    let mut types = BTreeSet::new();
    for dataset in world.datasets().into_iter().filter(|dataset| world.can_be_opened(&dataset.name)) {
        let there = world.env.block_on(read(&world.objset(&dataset.name)));
        for form in FORMS {
            let order = world.order(&dataset.name, 0, false, form);
            let Some(stream) = sent(&world, &order) else { continue };
            let mut received = Received::default();
            types.extend(received.take(&stream));
            assert_same(&format!("{pool}: {}, {form:?}", dataset.name), &received, &there);
        }
    }
    types
}

#[test]
fn what_is_sent_is_what_is_there() {
    let many = all_is_sent("g11-many");
    assert!(many.contains(&DrrType::Spill), "some files have many attributes: {many:?}");
    for pool in ["g08-compress", "g09-checksums", "g12-zvol", "g18-v28", "g23-removed", "g27-quotas"] {
        assert!(all_is_sent(pool).contains(&DrrType::Write), "{pool}");
    }
}

/// From each snapshot to each later one of the same dataset.
#[test]
fn what_changed_makes_the_earlier_the_later() {
    for (pool, steps_min) in [("g10-snapshots-clones", 1), ("g27-quotas", 1), ("g30-streams", 6)] {
        let world = World::of(pool);
        let snapshots = world.snapshots();
        let mut steps = 0;
        for from in &snapshots {
            for to in snapshots.iter().filter(|to| to.dir == from.dir && world.is_earlier(from, to)) {
                for form in FORMS.into_iter().filter(|_| world.can_be_opened(&to.name)) {
                    let order = world.order(&from.name, 0, false, form);
                    let Some(full) = sent(&world, &order) else { continue };
                    let step = world.order(&to.name, order.target.guid, false, form);
                    let Some(step) = sent(&world, &step) else { continue };
                    let mut received = Received::default();
                    received.take(&full);
                    received.take(&step);
                    let there = world.env.block_on(read(&world.objset(&to.name)));
                    assert_same(
                        &format!("{pool}: {} to {}, {form:?}", from.name, to.name),
                        &received,
                        &there,
                    );
                    assert!(step.len() < full.len(), "less than all of it");
                    steps += 1;
                }
            }
        }
        assert!(steps >= steps_min * FORMS.len(), "{pool}: {steps}");
    }
}
