//! Prints nanoseconds per allocation, free and txg, on empty and on fragmented space.
//! `cargo run --release -p sawmill-metaslab --example allocation_speed`
#![forbid(unsafe_code)]

use std::time::{Duration, Instant};

use metaslab::{Allocator, Class, Hint, VdevConfig};
use ondisk::Dva;
use units::{Ashift, Asize, Psize, Spread, Txg, VdevId};

const GIB: u64 = 1 << 30;

fn allocator(vdevs: u32) -> Allocator {
    let mut space = Allocator::new();
    for id in 0..vdevs {
        let class = if id == 0 { Class::Log } else { Class::Normal };
        let (ashift, asize) = (Ashift::new(12), Asize::new(100 * GIB));
        let (id, spread) = (VdevId::new(id), Spread::PLAIN);
        space.add_vdev(VdevConfig { id, class, ashift, asize, ms_shift: 29, spread }).unwrap();
    }
    space
}

fn report(what: &str, took: Duration, count: usize) {
    println!("{what:<44} {:>7.0} ns", took.as_nanos() as f64 / count as f64);
}

fn allocate(space: &mut Allocator, class: Class, at: u64, count: usize, bytes: fn(usize) -> u64) -> Vec<Dva> {
    let one = |at_block| {
        let psize = Psize::new(bytes(at_block));
        space.allocate(class, psize, 1, Txg::new(at), Hint::default()).expect("room for all")[0]
    };
    (0..count).map(one).collect()
}

/// Allocates, syncs, frees and syncs; the space stays as it was, but for what is kept.
fn round(what: &str, space: &mut Allocator, class: Class, at: u64, count: usize, bytes: fn(usize) -> u64) {
    let start = Instant::now();
    let blocks = allocate(space, class, at, count, bytes);
    report(&format!("{what}: allocate"), start.elapsed(), count);
    let start = Instant::now();
    space.take_changes(Txg::new(at));
    space.sync_done(Txg::new(at));
    report(&format!("{what}: sync, per block"), start.elapsed(), count);
    let start = Instant::now();
    blocks.iter().for_each(|dva| space.free(Txg::new(at + 1), dva));
    report(&format!("{what}: free"), start.elapsed(), count);
    for done in at + 1..at + 4 {
        space.take_changes(Txg::new(done));
        space.sync_done(Txg::new(done));
    }
}

fn main() {
    let mut space = allocator(4);
    round("log, 4 to 128 KiB", &mut space, Class::Log, 10, 100_000, |at| 4096 << (at % 6));
    round("empty, 128 KiB", &mut space, Class::Normal, 20, 100_000, |_| 128 << 10);
    round("empty, mixed", &mut space, Class::Normal, 30, 100_000, |at| 4096 << (at * 7 % 6));

    let blocks = allocate(&mut space, Class::Normal, 40, 1_000_000, |at| 4096 * (1 + at as u64 * 7 % 11));
    space.take_changes(Txg::new(40));
    space.sync_done(Txg::new(40));
    blocks.iter().step_by(2).for_each(|dva| space.free(Txg::new(41), dva));
    for done in 41..44 {
        space.take_changes(Txg::new(done));
        space.sync_done(Txg::new(done));
    }
    println!("fragmentation {:?} %", space.fragmentation_percent(Class::Normal));
    round("half a million holes, mixed", &mut space, Class::Normal, 50, 100_000, |at| 4096 << (at * 7 % 6));
}
