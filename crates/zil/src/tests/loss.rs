//! What is told of logs that break off.

use std::collections::BTreeMap;

use env::{BoxFuture, IoBuf};
use ondisk::Blkptr;
use ondisk::zil::ZilHeader;
use units::ZilSeq;

use super::import::{claim, claim_what_answers, crashed};
use super::world::{MemStore, OBJSET, now};
use crate::{LogLoss, LogStore, LogWalk, loss_behind};

/// The log vdev from its beginning to the end of the chain.
fn image(store: &MemStore) -> Vec<u8> {
    let mut image = Vec::new();
    for bp in store.walk_blocks() {
        let at = bp.dva(0).offset.get() as usize;
        let bytes = now(store.read(&bp)).expect("memory");
        image.resize(image.len().max(at + bytes.len()), 0);
        image[at..at + bytes.len()].copy_from_slice(&bytes);
    }
    image
}

fn loss(store: &MemStore, header: &ZilHeader, image: &[u8]) -> Option<LogLoss> {
    let mut walk = LogWalk::new(OBJSET, header, store);
    while let Ok(Some(_)) = now(walk.next()) {}
    loss_at(image, (walk.place(), walk.newest_record()), header)
}

fn loss_at(image: &[u8], (place, newest): (Blkptr, ZilSeq), header: &ZilHeader) -> Option<LogLoss> {
    let read = |from: u64, len: usize| {
        let bytes = IoBuf::copy_of(&image[from as usize..from as usize + len]);
        Box::pin(std::future::ready(Some(bytes))) as BoxFuture<'_, _>
    };
    now(loss_behind(&read, 0..image.len() as u64, &place, newest, header))
}

#[test]
fn the_end_of_a_log_is_no_loss() {
    let store = crashed(5);
    let image = image(&store);
    assert_eq!(loss(&store, &store.header(), &image), None);
    let header = claim(&store).header();
    assert_eq!(loss(&store, &header, &image), None);
}

/// A torn last block is no more than the end.
#[test]
fn a_torn_last_block_is_no_loss() {
    let store = crashed(5);
    let (image, last) = (image(&store), store.walk_blocks()[4]);
    store.write_raw(&last, &[0; 4096]);
    assert_eq!(loss(&store, &store.header(), &image), None);
}

#[test]
fn a_damaged_middle_tells_what_lies_behind_it() {
    let store = crashed(5);
    let (image, third) = (image(&store), store.walk_blocks()[2]);
    let mut told = LogLoss { block: ZilSeq::new(3), blocks: 2, records: 2, names: 2, ..LogLoss::default() };
    // Damaged after the claim: it was there.
    let claimed = store.copy();
    let header = claim(&claimed).header();
    claimed.write_raw(&third, &[0; 4096]);
    store.write_raw(&third, &[0; 4096]);
    let certain = LogLoss { is_certain: true, records_claimed: 3, ..told.clone() };
    assert_eq!(loss(&claimed, &header, &image), Some(certain.clone()));
    // Told as such also when the rest is given up.
    let end = claim_what_answers(&claimed).end().expect("it has an end");
    assert_eq!(loss_at(&image, end, &header), Some(certain.clone()));
    assert!(!certain.to_string().contains("nobody had been told"), "{certain}");
    // And before: nobody knows.
    assert_eq!(loss(&store, &store.header(), &image), Some(told.clone()));
    assert_eq!(claim(&store).end(), Some((third, ZilSeq::new(2))));
    assert!(told.to_string().contains("nobody had been told"), "{told}");
    told.objects = BTreeMap::new();
    assert!(
        told.to_string().contains("before its block 3; behind that lie at least 2 blocks with 2 records"),
        "{told}"
    );
}
