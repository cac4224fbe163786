use super::*;
use futures::FutureExt;

fn ring_of(count: u64) -> EventRing {
    let ring = EventRing::of_run(7);
    post(&ring, count);
    ring
}

fn post(ring: &EventRing, count: u64) {
    (0..count).for_each(|_| ring.post(Duration::new(5, 6), Event::done("config_sync")));
}

fn eids(page: &Page) -> Vec<u64> {
    page.events.iter().filter_map(|event| event.get_u64(names::EID)).collect()
}

#[test]
fn an_event_has_its_class_its_time_and_the_next_number() {
    let ring = ring_of(2);
    let page = ring.after(Seen::default());
    assert_eq!(eids(&page), [1, 2]);
    assert_eq!(page.events[0].get_str(names::CLASS), Some("sysevent.fs.zfs.config_sync"));
    assert_eq!(page.events[0].get(names::TIME), Some(&NvValue::I64Array(vec![5, 6])));
    assert_eq!(page.seen, Seen { run: 7, eid: 2 });
}

#[test]
fn the_oldest_event_goes_when_the_ring_is_full() {
    let ring = ring_of(KEPT_MAX as u64 + 3);
    let page = ring.after(Seen::default());
    assert_eq!(page.events.len(), KEPT_MAX);
    assert_eq!((eids(&page)[0], page.dropped), (4, 0), "who has read nothing misses nothing");
}

#[test]
fn who_reads_too_late_is_told_how_much_he_missed() {
    let ring = ring_of(2);
    let seen = ring.after(Seen::default()).seen;
    post(&ring, KEPT_MAX as u64 + 5);
    let page = ring.after(seen);
    assert_eq!((page.dropped, eids(&page)[0], page.events.len()), (5, 8, KEPT_MAX));
    assert_eq!(ring.after(page.seen).events, []);
}

#[test]
fn what_was_cleared_is_not_missed() {
    let ring = ring_of(3);
    assert_eq!(ring.clear(), 3);
    assert_eq!(ring.clear(), 0);
    post(&ring, 1);
    let page = ring.after(Seen { run: 7, eid: 1 });
    assert_eq!((page.dropped, eids(&page)), (0, vec![4]));
}

#[test]
fn a_place_in_the_ring_of_another_run_is_its_beginning() {
    let page = ring_of(2).after(Seen { run: 6, eid: 40 });
    assert_eq!((eids(&page), page.dropped), (vec![1, 2], 0));
}

#[test]
fn who_waits_hears_of_the_next_event() {
    let ring = ring_of(1);
    let seen = ring.after(Seen::default()).seen;
    let mut waits = Box::pin(ring.until_after(seen));
    assert!((&mut waits).now_or_never().is_none());
    post(&ring, 1);
    assert!(waits.now_or_never().is_some());
    assert!(ring.until_after(seen).now_or_never().is_some(), "and who comes later, too");
}
