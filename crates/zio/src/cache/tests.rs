use std::sync::Arc;

use device::IoBuf;
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
        cache.insert(&block(place, 1), &bytes(1000));
        assert!(cache.stats().bytes <= 1 << 20);
    }
    assert!(cache.stats().bytes > 900 << 10, "most of the room is used");
    cache.set_limit(64 << 10);
    assert!(cache.stats().bytes <= 64 << 10);
    cache.insert(&block(1, 2), &bytes(5000));
    assert!(cache.get(&block(1, 2)).is_none(), "larger than a shard");
}

#[test]
fn a_place_used_again_is_another_block() {
    let cache = Cache::new(1 << 20);
    let old = block(7, 1);
    cache.insert(&old, &bytes(512));
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
        cache.insert(bp, &bytes(4096));
        cache.get(bp);
    }
    for place in 1000..10_000 {
        cache.insert(&block(place, 1), &bytes(4096));
    }
    let kept = hot.iter().filter(|bp| cache.get(bp).is_some()).count();
    assert!(kept >= 90, "{kept} of 100 hot blocks left");
}
