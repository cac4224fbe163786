//! Snapshots as streams, and what is made of them.
#![allow(dead_code, reason = "each test program uses a part of it")]

use std::sync::Arc;

use dsl::features::{LARGE_BLOCKS, LARGE_DNODE, ZSTD_COMPRESS};
use ondisk::NvList;
use ondisk::dsl::DslDatasetPhys;
use ondisk::send::{DrrBegin, DrrBody};
use pool::{Pool, PoolError, ReceiveOrder};
use stream::{Features, Form, Origin, Reader, Resume, SendOrder, Target};
use units::Txg;

/// With all that a stream can have.
pub const WHOLE_FORM: Form = Form { large_blocks: true, embedded: true, compressed: true };

/// A dataset, and features of the format that a stream of it depends on.
async fn facts(pool: &Arc<Pool>, name: &str) -> (DslDatasetPhys, Features) {
    let dataset = pool.dsl().resolve(name).await.expect("there");
    let used = async |feature| pool.dsl().dataset_uses(&dataset, feature).await.expect("readable");
    let features = Features {
        large_blocks: used(&LARGE_BLOCKS).await,
        zstd: used(&ZSTD_COMPRESS).await,
        large_dnode: used(&LARGE_DNODE).await,
        embedded_data: true,
        lz4: true,
        ..Features::default()
    };
    (pool.dsl().dataset(dataset.dataset).await.expect("readable"), features)
}

/// A snapshot as a stream: all of it, or what is new since `from`, a snapshot's name; or the rest of that.
pub async fn sent(
    pool: &Arc<Pool>,
    name: &str,
    from: Option<&str>,
    form: Form,
    resume: Option<Resume>,
) -> Vec<u8> {
    let (target, features) = facts(pool, name).await;
    let origin = match from {
        Some(from) => {
            let origin = facts(pool, from).await.0;
            let creation_txg = Txg::new(origin.creation_txg.get());
            Some(Origin { guid: origin.guid.get(), creation_txg, is_of_clone: false })
        }
        None => None,
    };
    let order = SendOrder {
        target: Target::of(name, &target, features),
        origin,
        form,
        resume,
        redaction: Default::default(),
        cut_after: None,
    };
    let objset = pool.frozen_objset(name).await.expect("readable").expect("has contents");
    let mut bytes = Vec::new();
    stream::send(&objset, &order, &mut bytes).await.expect("a sound pool");
    bytes
}

/// What a stream that begins so is received as.
pub fn order(begin: DrrBegin, snapshot: &str) -> ReceiveOrder {
    ReceiveOrder {
        begin,
        begin_offset: 0,
        snapshot: snapshot.to_owned(),
        origin: None,
        props: Vec::new(),
        received_props: Vec::new(),
        force: false,
        resumable: false,
        maker: 0,
        list: NvList::new(),
    }
}

/// Receives a stream of one snapshot.
pub async fn receive(
    pool: &Arc<Pool>,
    stream: &[u8],
    snapshot: &str,
    change: impl FnOnce(&mut ReceiveOrder),
) -> Result<(), PoolError> {
    let mut reader = Reader::new(stream);
    let first = reader.next_record().await.expect("a sound BEGIN").expect("a record");
    let DrrBody::Begin(begin) = first.record.body else { panic!("no BEGIN") };
    let mut order = order(begin, snapshot);
    if !first.payload.is_empty() {
        order.list = NvList::decode(&first.payload).expect("a list");
    }
    change(&mut order);
    pool.receive(order, &mut reader).await?.finish().await
}
