use std::path::PathBuf;

use futures::executor::block_on;
use ondisk::ByteOrder;
use ondisk::blkptr::embedded;
use ondisk::send::{
    CHECKSUM_AT, DrrBody, DrrObject, DrrRecord, DrrType, DrrWrite, DrrWriteEmbedded, record_flags,
};
use ondisk::{CompressionKind, ObjectType};
use oracle::golden;
use sim::{DiskModel, DiskSpec, Sim};
use stream::{Reader, StreamRecord};
use vdev::{NewVdev, PoolState};

use super::*;
use crate::{PoolSpec, Tuning};

async fn pool(sim: &Sim) -> Arc<Pool> {
    let disk = NewVdev {
        paths: vec![PathBuf::from("disk")],
        ashift: None,
        bias: vdev::Bias::None,
        create_txg: 4,
        parity: 0,
        ..NewVdev::default()
    };
    let spec = PoolSpec {
        name: "tank".into(),
        stored_name: None,
        vdevs: vec![disk],
        root_props: Vec::new(),
        comment: None,
        force: false,
    };
    Pool::create(sim.env(), spec, Tuning::default()).await.expect("a pool is made of a new disk")
}

fn records(name: &str) -> Vec<StreamRecord> {
    let stream = std::fs::read(golden::path("g30-streams").join(format!("{name}.zstream"))).expect("golden");
    block_on(async {
        let mut reader = Reader::new(stream.as_slice());
        let mut records = Vec::new();
        while let Some(record) = reader.next_record().await.expect("a sound stream") {
            records.push(record);
        }
        records
    })
}

/// Receives a new dataset from a stream that begins so.
fn order(begin: DrrBegin) -> ReceiveOrder {
    ReceiveOrder {
        begin,
        begin_offset: 0,
        snapshot: "tank/new@1".to_owned(),
        origin: None,
        props: Vec::new(),
        received_props: Vec::new(),
        force: false,
        resumable: false,
        maker: 0,
        list: NvList::new(),
    }
}

fn random(seed: &mut u64) -> u64 {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    *seed
}

/// The same record with some bits of what it says changed, if there is such a record.
fn changed(record: &StreamRecord, seed: &mut u64) -> Option<StreamRecord> {
    let mut bytes = record.record.encode();
    for _ in 0..=random(seed) % 3 {
        // What a record says lies at its front, and the low bits of words count most.
        let at = 8 + random(seed) as usize % 56;
        bytes[at] ^= 1 << (random(seed) % 8);
    }
    if random(seed).is_multiple_of(4) {
        let types = [DrrType::Object, DrrType::Write, DrrType::Free, DrrType::Freeobjects, DrrType::Spill];
        bytes[..4].copy_from_slice(&types[random(seed) as usize % types.len()].raw().to_le_bytes());
    }
    bytes[CHECKSUM_AT..].fill(0);
    let decoded = DrrRecord::decode(&bytes, ByteOrder::Little).ok()?;
    let len = usize::try_from(decoded.payload_bytes().ok()?).ok()?;
    let mut payload = record.payload.grown(len);
    payload[record.payload.len().min(len)..].fill(0x5a);
    Some(StreamRecord { record: decoded, payload, ..record.clone() })
}

/// Sound sums, and records that nobody in his right mind would send: each is done or refused, and the pool goes on.
#[test]
fn records_that_do_not_fit_are_refused() {
    let sim = Sim::seed(11);
    sim.stop_recording();
    sim.add_disk(PathBuf::from("disk"), DiskSpec::new(1 << 30, DiskModel::ssd()));
    let mut seed = 0x5eed;
    let sound: Vec<Vec<StreamRecord>> = ["full", "vol", "clone"].map(records).into();
    let refused = sim.run_until(async {
        let pool = pool(&sim).await;
        let mut refused = 0;
        for round in 0..90 {
            let all = &sound[round % sound.len()];
            let DrrBody::Begin(begin) = all[0].record.body else { panic!("no BEGIN") };
            let order = order(DrrBegin { fromguid: 0.into(), ..begin });
            let Place { into, is_new, open, receiving, .. } = pool.make_place(&order).await.expect("a place");
            let mut receiver = Receiver::new(Arc::clone(&open.objset), &order.begin);
            let mut fails = false;
            for record in &all[1..all.len() - 1] {
                let record = match random(&mut seed) % 16 {
                    0 => changed(record, &mut seed).unwrap_or_else(|| record.clone()),
                    _ => record.clone(),
                };
                if receiver.take(record).await.is_err() {
                    fails = true;
                    break;
                }
            }
            refused += usize::from(fails);
            drop(receiver);
            let received = Received {
                pool: Arc::clone(&pool),
                order,
                into,
                is_new,
                has_begun: true,
                _receiving: receiving,
            };
            pool.sync_now().await.expect("what was taken can be written");
            received.give_up().await;
            assert!(pool.dsl().resolve("tank/new").await.is_err(), "nothing is left");
        }
        pool.close(PoolState::Exported).await.expect("closes");
        refused
    });
    assert!((20..90).contains(&refused), "{refused} of 90");
}

/// A spill block as OpenZFS sends it when the block is embedded in its pointer: a block of the
/// object, at an offset that no file reaches.
fn embedded_spill(object: u64, contents: &[u8]) -> StreamRecord {
    let packed = codec::compress(CompressionKind::Lz4, contents, 112).expect("it lies in a pointer");
    let write = DrrWriteEmbedded {
        object: object.into(),
        offset: (u64::MAX - 1).wrapping_mul(contents.len() as u64).into(),
        length: (contents.len() as u64).into(),
        compression: CompressionKind::Lz4.raw(),
        embedded_type: embedded::TYPE_DATA,
        logical_bytes: (contents.len() as u32).into(),
        physical_bytes: (packed.len() as u32).into(),
        ..DrrWriteEmbedded::default()
    };
    StreamRecord {
        offset: 0,
        record: DrrRecord::new(DrrBody::WriteEmbedded(write)),
        payload: env::IoBuf::copy_of(&packed),
    }
}

#[test]
fn a_spill_block_that_lies_in_its_pointer_is_received_as_one() {
    let sim = Sim::seed(12);
    sim.stop_recording();
    sim.add_disk(PathBuf::from("disk"), DiskSpec::new(1 << 30, DiskModel::ssd()));
    let all = records("full");
    let DrrBody::Begin(begin) = all[0].record.body else { panic!("no BEGIN") };
    let mut contents = vec![0; 512];
    contents[..20].fill(7);
    sim.run_until(async {
        let pool = pool(&sim).await;
        let order = order(begin);
        let Place { into, is_new, open, .. } = pool.make_place(&order).await.expect("a place");
        let mut receiver = Receiver::new(Arc::clone(&open.objset), &order.begin);
        let mut spilled = None;
        for record in &all[1..all.len() - 1] {
            match record.record.body {
                DrrBody::Object(object)
                    if spilled.is_none() && object.bonus_type.get() == u32::from(ObjectType::SA.raw()) =>
                {
                    let object = DrrObject { flags: record_flags::OBJECT_SPILL, ..object };
                    let record =
                        StreamRecord { record: DrrRecord::new(DrrBody::Object(object)), ..record.clone() };
                    receiver.take(record).await.expect("an object with a spill block");
                    let spill = embedded_spill(object.object.get(), &contents);
                    receiver.take(spill).await.expect("its spill block");
                    spilled = Some(units::ObjectId::new(object.object.get()));
                }
                _ => receiver.take(record.clone()).await.expect("a sound record"),
            }
        }
        drop(receiver);
        pool.sync_now().await.expect("it can be written");
        let object = spilled.expect("a file with system attributes");
        let dnode = open.objset.hold(object).await.expect("there");
        assert_eq!(dnode.spill().await.expect("readable"), Some(contents));
        drop((dnode, open));
        let received = Received {
            pool: Arc::clone(&pool),
            order,
            into,
            is_new,
            has_begun: true,
            _receiving: Arc::default(),
        };
        received.give_up().await;
        pool.close(PoolState::Exported).await.expect("closes");
    });
}

#[test]
fn a_resumable_stream_whose_name_is_no_text_leaves_nothing() {
    let sim = Sim::seed(13);
    sim.stop_recording();
    sim.add_disk(PathBuf::from("disk"), DiskSpec::new(1 << 30, DiskModel::ssd()));
    let DrrBody::Begin(begin) = records("full")[0].record.body else { panic!("no BEGIN") };
    let begin = DrrBegin { toname: [0xff; ondisk::send::TONAME_BYTES], ..begin };
    let order = ReceiveOrder { resumable: true, ..order(begin) };
    sim.run_until(async {
        let pool = pool(&sim).await;
        let placed = pool.make_place(&order).await.map(|place| place.into.name);
        let what = "a name that is no text";
        let is_refused =
            matches!(&placed, Err(PoolError::Receive(ReceiveRefusal::Unsupported { what: told })) if *told == what);
        assert!(is_refused, "{placed:?}");
        assert!(pool.dsl().resolve("tank/new").await.is_err(), "nothing is left");
        pool.close(PoolState::Exported).await.expect("closes");
    });
}

/// The dnode of an object of more than 2^63 bytes is damaged to everybody who reads it.
#[test]
fn a_block_behind_the_end_of_the_longest_object_is_refused() {
    let sim = Sim::seed(14);
    sim.stop_recording();
    sim.add_disk(PathBuf::from("disk"), DiskSpec::new(1 << 30, DiskModel::ssd()));
    let all = records("full");
    let DrrBody::Begin(begin) = all[0].record.body else { panic!("no BEGIN") };
    let is_long =
        |body: &DrrBody| matches!(body, DrrBody::Write(write) if write.logical_bytes.get() == 128 << 10);
    let long = all.iter().position(|record| is_long(&record.record.body)).expect("a file of long blocks");
    let DrrBody::Write(write) = all[long].record.body else { panic!("no WRITE") };
    let at = |offset: u64| {
        let moved = DrrBody::Write(DrrWrite { offset: offset.into(), ..write });
        StreamRecord { record: DrrRecord::new(moved), ..all[long].clone() }
    };
    sim.run_until(async {
        let pool = pool(&sim).await;
        let order = order(begin);
        let place = pool.make_place(&order).await.expect("a place");
        let mut receiver = Receiver::new(Arc::clone(&place.open.objset), &order.begin);
        for record in &all[1..long] {
            receiver.take(record.clone()).await.expect("a sound record");
        }
        let block_bytes = 128 << 10;
        for offset in [1 << 63, (1 << 63) - 512, u64::MAX - block_bytes] {
            let taken = receiver.take(at(offset)).await;
            assert!(matches!(taken, Err(stream::ReceiveError::BadRecord { .. })), "{offset}: {taken:?}");
        }
        receiver.take(at((1 << 63) - block_bytes)).await.expect("the last block of the longest object");
        drop((receiver, place));
        pool.close(PoolState::Exported).await.expect("closes");
    });
}
