use futures::FutureExt;
use futures::executor::block_on;

use super::Places;

#[test]
fn a_write_under_way_forbids_the_repair() {
    let places = Places::default();
    let write = block_on(places.write(100..200));
    let claim = places.claim(150..250);
    drop(write);
    assert!(!claim.begin(), "it was under way when the claim was made");
    let claim = places.claim(150..250);
    drop(block_on(places.write(249..300)));
    assert!(!claim.begin(), "it began after the claim was made");
    let claim = places.claim(150..250);
    let beside = block_on(places.write(250..300));
    assert!(claim.begin(), "the write is beside it");
    drop(beside);
}

#[test]
fn a_write_waits_for_a_repair_under_way() {
    let places = Places::default();
    let claim = places.claim(0..100);
    assert!(claim.begin());
    let mut write = Box::pin(places.write(50..60));
    assert!((&mut write).now_or_never().is_none());
    assert!(places.write(100..160).now_or_never().is_some(), "beside it");
    drop(claim);
    let guard = write.now_or_never().expect("the repair has ended");
    assert!(!places.claim(0..100).begin());
    drop(guard);
    assert!(places.claim(0..100).begin());
}
