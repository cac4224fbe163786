use std::sync::Arc;

use env::IoBuf;
use ondisk::{Blkptr, BlkptrParts, Dva};
use units::{Asize, Txg, VdevId, VdevOffset};

use super::*;

fn block(place: u64, birth: u64) -> Blkptr {
    let dva = Dva {
        vdev: VdevId::new(0),
        offset: VdevOffset::new(place * 512),
        asize: Asize::new(512),
        gang: false,
    };
    let txg = Txg::new(birth);
    BlkptrParts {
        dvas: [dva, Dva::EMPTY, Dva::EMPTY],
        birth: txg,
        physical_birth: txg,
        ..BlkptrParts::default()
    }
    .to_blkptr()
}

fn bytes(len: usize) -> Arc<IoBuf> {
    Arc::new(IoBuf::zeroed(len))
}

#[test]
fn the_cache_stays_within_its_bytes() {
    let cache = Cache::new(1 << 20);
    for place in 0..4000 {
        cache.insert(&block(place, 1), Keep::Yes, &bytes(1000), None);
        assert!(cache.stats().bytes <= 1 << 20);
    }
    assert!(cache.stats().bytes > 900 << 10, "most of the room is used");
    cache.set_limit(64 << 10);
    assert!(cache.stats().bytes <= 64 << 10);
    cache.insert(&block(1, 2), Keep::Yes, &bytes(5000), None);
    assert!(cache.get(&block(1, 2)).is_none(), "larger than a shard");
}

#[test]
fn a_small_block_counts_as_the_memory_that_it_takes() {
    let cache = Cache::new(1 << 20);
    for place in 0..4000 {
        cache.insert(&block(place, 1), Keep::Yes, &bytes(512), None);
    }
    let kept = (0..4000).filter(|&place| cache.get(&block(place, 1)).is_some()).count();
    assert!(kept * env::IO_ALIGN_BYTES <= 1 << 20, "{kept} pages");
    assert!(kept * (env::IO_ALIGN_BYTES + 1024) > 900 << 10, "most of the room is used: {kept}");
}

#[test]
fn what_is_dirty_takes_from_the_room() {
    const LIMIT: u64 = 64 << 20;
    let cache = Cache::new(LIMIT);
    let fill = |birth| {
        (0..1000).for_each(|n| cache.insert(&block(n * 256, birth), Keep::Yes, &bytes(128 << 10), None))
    };
    fill(1);
    assert!(cache.stats().bytes > LIMIT / 10 * 8, "full");
    cache.make_room_for(DIRTY_BESIDE_CACHE_BYTES);
    assert!(cache.stats().bytes > LIMIT / 10 * 8, "the first part is beside the cache");
    // In steps, as writers make them; a step of each shard may still be on its way out.
    for dirty in (0..32).map(|mib| DIRTY_BESIDE_CACHE_BYTES + (mib << 20)) {
        cache.make_room_for(dirty);
        let most = LIMIT + DIRTY_BESIDE_CACHE_BYTES + (2 << 20);
        assert!(cache.stats().bytes + dirty <= most, "{} beside {dirty}", cache.stats().bytes);
    }
    fill(2);
    assert!(cache.stats().bytes <= LIMIT - (31 << 20), "nothing new beyond the room");
    cache.make_room_for(u64::MAX);
    let left = cache.stats().bytes;
    assert!(left > 0 && left <= LIMIT / LEFT_FRACTION, "a quarter stays, whatever is dirty: {left}");
    cache.make_room_for(0);
    fill(3);
    assert!(cache.stats().bytes > LIMIT / 10 * 8, "and is given back");
}

#[test]
fn a_place_used_again_is_another_block() {
    let cache = Cache::new(1 << 20);
    let old = block(7, 1);
    cache.insert(&old, Keep::Yes, &bytes(512), None);
    assert!(cache.get(&old).is_some());
    assert!(cache.get(&block(7, 2)).is_none(), "later birth");
    assert!(cache.get(&old.with_checksum([1, 2, 3, 4])).is_none(), "rewritten in the same txg");
    cache.forget(&old);
    assert!(cache.get(&old).is_none());
    let stats = cache.stats();
    assert_eq!((stats.hits, stats.misses, stats.bytes), (1, 3, 0));
}

#[test]
fn a_scan_leaves_hot_blocks_in_place() {
    let cache = Cache::new(1 << 20);
    let hot: Vec<_> = (0..100).map(|place| block(place, 1)).collect();
    for bp in &hot {
        cache.insert(bp, Keep::Yes, &bytes(4096), None);
        cache.get(bp);
        cache.get(bp);
    }
    for place in 1000..10_000 {
        cache.insert(&block(place, 1), Keep::Yes, &bytes(4096), None);
    }
    let kept = hot.iter().filter(|bp| cache.get(bp).is_some()).count();
    assert!(kept >= 90, "{kept} of 100 hot blocks left");
}

#[test]
fn a_block_used_again_after_its_eviction_stays() {
    let cache = Cache::new(1 << 20);
    cache.insert(&block(0, 1), Keep::Yes, &bytes(4096), None);
    let scan = |from: u64| {
        (from..from + 1000).for_each(|place| cache.insert(&block(place, 1), Keep::Yes, &bytes(4096), None))
    };
    scan(1000);
    assert!(cache.get(&block(0, 1)).is_none(), "used once only");
    cache.insert(&block(0, 1), Keep::Yes, &bytes(4096), None);
    scan(3000);
    assert!(cache.get(&block(0, 1)).is_some(), "its ghost was remembered");
}

#[test]
fn a_cold_block_is_kept_as_it_is_stored() {
    let cache = Cache::new(16 << 20);
    let packed = |place: u64| Arc::new(IoBuf::copy_of(&place.to_le_bytes().repeat(64)));
    for place in 0..400 {
        cache.insert(&block(place, 1), Keep::Yes, &bytes(128 << 10), Some(&packed(place)));
    }
    let (mut unpacked, mut cold) = (0, 0);
    for place in 0..400 {
        match cache.get(&block(place, 1)) {
            Some(Found::Unpacked(_)) => unpacked += 1,
            Some(Found::Packed(found)) => {
                assert_eq!(found[..], packed(place)[..]);
                cold += 1;
            }
            None => {}
        }
    }
    assert!(unpacked > 60 && cold > 200, "{unpacked} and {cold} of 400");
    let stats = cache.stats();
    assert_eq!((stats.hits, stats.packed_hits), (unpacked + cold, cold));
    assert!(stats.packed_bytes > 300 * 512 && stats.bytes <= 16 << 20);
    let large = bytes(8192);
    cache.insert(&block(9000, 1), Keep::Yes, &bytes(4096), Some(&large));
    assert!(cache.stats().packed_bytes <= stats.packed_bytes, "too large to be worth its room");
}

fn new<'a>(data: &'a Arc<IoBuf>, packed: Option<&'a Arc<IoBuf>>, place: u64) -> New<'a> {
    New { data, packed, origin: None, is_data: place.is_multiple_of(2), may_leave: place.is_multiple_of(3) }
}

/// What a shard may do, and a map that forgets nothing beside it: whatever is found is what was
/// inserted last, forgotten blocks are gone, and sums are exact after each step.
#[test]
fn a_shard_equals_its_plain_twin() {
    for seed in 0..20_u64 {
        let mut state = seed * 2 + 1;
        let mut draw = |n: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % n
        };
        let (mut shard, mut room) = (Shard::default(), 60_000);
        let mut twin = std::collections::HashMap::new();
        for _ in 0..3000 {
            let place = draw(100);
            let key = Key::of(&block(place, 1));
            match draw(10) {
                0..4 => {
                    let data = Arc::new(IoBuf::copy_of(&vec![draw(256) as u8; 512 << draw(5)]));
                    let packed = (draw(2) == 0).then(|| Arc::new(IoBuf::copy_of(&data[..data.len() / 4])));
                    shard.insert(key, new(&data, packed.as_ref(), place), room);
                    twin.insert(place, (data, packed));
                }
                4 => {
                    shard.forget(&key);
                    twin.remove(&place);
                }
                5 if draw(20) == 0 => {
                    room = 10_000 + draw(60_000) as usize;
                    shard.shrink_to(room);
                }
                _ => match shard.get(&key, false) {
                    None => {}
                    Some(Found::Unpacked(data)) => assert_eq!(data[..], twin[&place].0[..]),
                    Some(Found::Packed(packed)) => {
                        let (data, stored) = &twin[&place];
                        assert_eq!(packed[..], stored.as_ref().expect("it has one")[..]);
                        shard.insert(key, new(data, stored.as_ref(), place), room);
                    }
                },
            }
            shard.check();
            assert!(shard.held().0 <= room);
        }
    }
}

#[test]
fn queues_hits_and_evictions_are_counted_by_block() {
    let cache = Cache::new(16 << 20);
    let len = 64 << 10;
    cache.insert(&block(0, 1), Keep::Yes, &bytes(len), None);
    cache.note_ahead(&block(0, 1), Ahead::Predicted);
    assert_eq!(cache.stats().census.small.total(), len as u64);
    for _ in 0..3 {
        assert!(cache.get(&block(0, 1)).is_some());
    }
    let census = cache.stats().census;
    assert_eq!((census.small_hits, census.main_hits, census.predicted_hits), (3, 0, 1));
    for place in 1..2000 {
        cache.insert(&block(place, 1), Keep::Yes, &bytes(len), None);
    }
    let stats = cache.stats();
    assert_eq!(stats.census.main.total(), len as u64, "what was used stays");
    assert_eq!(stats.census.evicted + stats.census.blocks, 2000);
    assert!(stats.blocks_most >= stats.census.blocks && stats.blocks_most < 2000, "{stats:?}");
    assert!(stats.census.ghosts.total() > 0);
    assert_eq!(stats.census.stored_bytes, stats.census.logical_bytes, "nothing is packed");
    let evicted = stats.census.evicted_small_bytes + stats.census.evicted_barred_bytes;
    assert_eq!(evicted, stats.census.evicted * len as u64);
    // The block that left last is remembered.
    let gone = (1..2000).rev().map(|place| block(place, 1)).find(|block| !cache.has(block)).expect("evicted");
    cache.insert(&gone, Keep::Yes, &bytes(len), None);
    assert!(cache.get(&gone).is_some());
    let census = cache.stats().census;
    assert_eq!((census.ghost_hits, census.main_hits), (1, 1), "a ghost comes back into main");
}
