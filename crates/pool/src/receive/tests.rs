use std::path::PathBuf;

use futures::executor::block_on;
use ondisk::ByteOrder;
use ondisk::send::{CHECKSUM_AT, DrrBody, DrrRecord, DrrType};
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
            let snapshot = "tank/new@1".to_owned();
            let begin = DrrBegin { fromguid: 0.into(), ..begin };
            let order = ReceiveOrder {
                begin,
                begin_offset: 0,
                snapshot,
                origin: None,
                props: Vec::new(),
                received_props: Vec::new(),
                force: false,
                resumable: false,
                maker: 0,
                list: NvList::new(),
            };
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
