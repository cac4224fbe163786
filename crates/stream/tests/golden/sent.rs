//! What we send is what OpenZFS sent, byte for byte.

use dmu::Objset;
use dsl::RedactionList;
use futures::executor::block_on;
use ondisk::NvList;
use ondisk::send::{
    DrrBegin, DrrBody, DrrType, HeaderType, RECORD_BYTES, StreamFeatures, begin_flags, begin_names,
};
use std::sync::Arc;
use stream::{Compound, Form, Redaction, Resume, SendError, SendOrder, StreamRecord};
use units::{ObjectId, Txg};

use crate::world::{World, bytes, records};

/// A substream of a stream.
struct Substream {
    begin: DrrBegin,
    bytes: Vec<u8>,
}

/// The substreams of a stream: itself, if it is no compound one.
fn substreams(name: &str) -> Vec<Substream> {
    let stream = bytes(name);
    let mut found = Vec::new();
    let mut open: Option<(DrrBegin, usize)> = None;
    for StreamRecord { offset, record, payload } in records(&stream).expect("a sound stream") {
        let end = offset as usize + RECORD_BYTES + payload.len();
        match record.body {
            DrrBody::Begin(begin) if begin.header_type() == Ok(HeaderType::Substream) => {
                open = Some((begin, offset as usize));
            }
            DrrBody::End(_) => found.extend(
                open.take().map(|(begin, start)| Substream { begin, bytes: stream[start..end].to_vec() }),
            ),
            _ => {}
        }
    }
    found
}

/// Fails with the first record that is another.
fn assert_same(what: &str, ours: &[u8], theirs: &[u8]) {
    if ours == theirs {
        return;
    }
    let (ours, theirs) = (records(ours).expect("a sound stream"), records(theirs).expect("a sound stream"));
    for (at, (our, their)) in ours.iter().zip(&theirs).enumerate() {
        assert_eq!(our.record, their.record, "{what}: record {at}");
        assert!(our.payload == their.payload, "{what}: payload of record {at}, {:?}", our.record);
    }
    panic!("{what}: {} records, not {}", ours.len(), theirs.len());
}

/// What was asked for when a substream was sent that begins so.
fn order_of(world: &World, begin: &DrrBegin, form: Form) -> SendOrder {
    let is_of_clone = begin.flags.get() & begin_flags::CLONE != 0;
    world.order(begin.name().expect("a name"), begin.fromguid.get(), is_of_clone, form)
}

/// Sends again what is in a stream, and compares; how many substreams that were.
fn sends_the_same(world: &World, name: &str, form: Form) -> usize {
    let substreams = substreams(name);
    for Substream { begin, bytes: theirs } in &substreams {
        let target = begin.name().expect("a name");
        let order = order_of(world, begin, form);
        let (ours, summary) = world.send(&order).expect("a sound pool");
        assert_same(&format!("{name}: {target}"), &ours, theirs);
        let objset = world.objset(target);
        let size = world.env.block_on(stream::size_of(&objset, &order)).expect("a sound pool");
        assert_eq!((size, size.stream_bytes()), (summary, ours.len() as u64), "{name}: {target}");
    }
    substreams.len()
}

/// All streams of the golden pool but the raw ones, and the redacted one and the resumed one, of which below.
#[test]
fn every_stream_is_sent_again_to_the_byte() {
    let world = World::open();
    let all = Form { large_blocks: true, embedded: true, compressed: true };
    let plain = Form::default();
    for (name, form, count) in [
        ("full", plain, 1),
        ("full-cLe", all, 1),
        ("incr", plain, 1),
        ("incr-all", plain, 2),
        ("from-bookmark", plain, 1),
        ("clone", plain, 1),
        ("vol", plain, 1),
        ("props", plain, 1),
        ("holds", plain, 1),
        ("repl", plain, 6),
    ] {
        assert_eq!(sends_the_same(&world, name, form), count, "{name}");
    }
}

/// Whole, with what holds their substreams together.
#[test]
fn compound_streams_are_sent_again_to_the_byte() {
    let world = World::open();
    for name in ["incr-all", "props", "holds", "repl"] {
        let theirs = bytes(name);
        let first = records(&theirs).expect("a sound stream").swap_remove(0);
        let DrrBody::Begin(begin) = first.record.body else { panic!("no BEGIN") };
        let list = (!first.payload.is_empty()).then(|| NvList::decode(&first.payload).expect("an nvlist"));
        let last = begin.name().expect("a name");
        let mut compound = block_on(Compound::begin(Vec::new(), last, begin.features(), list.as_ref()))
            .expect("a Vec takes all");
        for Substream { begin, .. } in substreams(name) {
            let (ours, _) = world.send(&order_of(&world, &begin, Form::default())).expect("a sound pool");
            compound.sink().extend_from_slice(&ours);
        }
        let ours = block_on(compound.end());
        assert!(ours.expect("a Vec takes all") == theirs, "{name}");
    }
}

/// Bodies and payloads of a stream's records, from behind its BEGIN up to its END.
fn bodies(stream: &[u8]) -> Vec<(DrrBody, Vec<u8>)> {
    let records = records(stream).expect("a sound stream").into_iter();
    let between =
        records.filter(|record| !matches!(record.record.body.drr_type(), DrrType::Begin | DrrType::End));
    between.map(|record| (record.record.body, record.payload.to_vec())).collect()
}

/// OpenZFS 2.3.2 packs the nvlist of its BEGIN in the machine's own form, where later versions pack it in XDR, as we
/// do. So the sums of all records are others, and what records say is the same.
#[test]
fn a_resumed_stream_goes_on_in_the_same_place() {
    let world = World::open();
    let theirs = bytes("resumed");
    let begin = |stream: &[u8]| {
        let begin = records(stream).expect("a sound stream").swap_remove(0);
        (begin.record.body, NvList::decode(&begin.payload).expect("an nvlist"))
    };
    let list = begin(&theirs).1;
    let resume = Resume {
        object: ObjectId::new(list.get_u64(begin_names::RESUME_OBJECT).expect("it has one")),
        offset: list.get_u64(begin_names::RESUME_OFFSET).expect("it has one"),
    };
    let order = world.order("whirl/fs@1", 0, false, Form::default());
    let (ours, _) = world.send(&SendOrder { resume: Some(resume), ..order.clone() }).expect("a sound pool");
    assert_eq!(begin(&ours), begin(&theirs));
    assert!(bodies(&ours) == bodies(&theirs));
    // In the middle of an object: its record, and its blocks from there on.
    let middle = Resume { offset: 1 << 20, ..resume };
    let (ours, _) = world.send(&SendOrder { resume: Some(middle), ..order }).expect("a sound pool");
    let is_ahead = |body: &DrrBody| match body {
        DrrBody::Write(write) => write.object.get() == resume.object.get() && write.offset.get() < 1 << 20,
        _ => false,
    };
    let rest: Vec<_> = bodies(&theirs).into_iter().filter(|(body, _)| !is_ahead(body)).collect();
    assert!(rest.len() < bodies(&theirs).len() && bodies(&ours) == rest);
}

/// As OpenZFS 2.3.2 packs BEGIN's list in its own form, the sums of all records are others, and what they say is the same.
#[test]
fn a_redacted_stream_leaves_out_what_its_bookmark_lists() {
    let world = World::open();
    let list = world.env.block_on(world.pool().dsl().redaction_list("whirl/fs#rbook")).expect("readable");
    let RedactionList { snaps, is_complete, blocks } = list.expect("a redaction bookmark");
    assert!(is_complete && !blocks.is_empty());
    let redaction = Redaction { snaps: Some(snaps), blocks, ..Redaction::default() };
    let order = world.order("whirl/fs@3", 0, false, Form::default());
    let (ours, _) = world.send(&SendOrder { redaction, ..order }).expect("a sound pool");
    let begin = |stream: &[u8]| {
        let begin = records(stream).expect("a sound stream").swap_remove(0);
        (begin.record.body, NvList::decode(&begin.payload).expect("an nvlist"))
    };
    let theirs = bytes("redacted");
    assert_eq!(begin(&ours), begin(&theirs));
    assert!(bodies(&ours) == bodies(&theirs));
    let redacted = bodies(&ours).iter().filter(|(body, _)| body.drr_type() == DrrType::Redact).count();
    assert_eq!(redacted, 3);
}

/// Found again in what the clone has changed.
#[test]
fn the_list_is_the_one_that_openzfs_made() {
    for (pool, target, by, mark) in [
        ("g30-streams", "whirl/fs@3", "whirl/red@r", "whirl/fs#rbook"),
        ("g27-quotas", "whirl/fs@b", "whirl/red@r", "whirl/fs#rbook"),
    ] {
        let world = World::of(pool);
        let theirs = world.env.block_on(world.pool().dsl().redaction_list(mark)).expect("readable");
        let theirs = theirs.expect("a redaction bookmark");
        let since = world.env.block_on(async {
            let dataset = world.pool().dsl().resolve(target).await.expect("there").dataset;
            Txg::new(world.pool().dsl().dataset(dataset).await.expect("readable").creation_txg.get())
        });
        let (of, clone) = (world.objset(target), world.objset(by));
        let listed = |by: &[Arc<Objset>]| {
            world.env.block_on(stream::redaction_list(&of, by, since)).expect("a sound pool")
        };
        assert_eq!(listed(&[Arc::clone(&clone)]), theirs.blocks, "{pool}");
        // What two have changed is what either has, if it is one and the same.
        assert_eq!(listed(&[Arc::clone(&clone), Arc::clone(&clone)]), theirs.blocks, "{pool}");
        // The snapshot itself has changed nothing of itself.
        assert_eq!(listed(&[Arc::clone(&clone), Arc::clone(&of)]), [], "{pool}");
    }
}

/// Raw streams hold what only the crypt layer knows, and that does not exist yet.
#[test]
fn an_encrypted_dataset_is_refused() {
    let world = World::open();
    let objset = world.env.block_on(world.pool().frozen_objset("whirl/enc@e1"));
    assert!(objset.is_err(), "nobody opens its objset without keys");
}

/// A micro ZAP in pieces could not be put together again.
#[test]
fn large_micro_zaps_are_sent_with_large_blocks_only() {
    let world = World::open();
    let mut order = world.order("whirl/fs@1", 0, false, Form::default());
    order.target.features.large_microzap = true;
    assert!(matches!(world.send(&order), Err(SendError::LargeMicrozap { .. })));
    order.form.large_blocks = true;
    let (stream, _) = world.send(&order).expect("whole blocks");
    let DrrBody::Begin(begin) = records(&stream).expect("a sound stream")[0].record.body else {
        panic!("no BEGIN")
    };
    let told =
        StreamFeatures::LARGE_MICROZAP.with(StreamFeatures::LARGE_BLOCKS).with(StreamFeatures::SA_SPILL);
    assert_eq!(begin.features(), told);
}

/// The sink's failure ends a send, and is told with how far it came.
#[test]
fn a_sink_that_fails_ends_the_send() {
    let world = World::open();
    let order = world.order("whirl/fs@1", 0, false, Form::default());
    let objset = world.objset("whirl/fs@1");
    let mut room = vec![0_u8; 1_000_000];
    let sent =
        world.env.block_on(stream::send(&objset, &order, &mut futures::io::Cursor::new(&mut room[..])));
    match sent {
        Err(SendError::Sink { written_bytes, .. }) => assert!(written_bytes <= 1_000_000, "{written_bytes}"),
        other => panic!("{other:?}"),
    }
}
