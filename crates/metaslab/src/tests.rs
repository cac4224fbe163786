//! Promises of the allocator, and a plain model of space that every history is compared with.

mod exhaustion;
mod held;
mod leaving;
mod loading;
mod model;
mod placement;
mod range_tree;
mod txgs;
mod unflushed;
mod vdevs;

use ondisk::Dva;
use units::{Ashift, Asize, Psize, Spread, Txg, VdevId};

use crate::{Allocator, Class, Hint, MetaslabId, VdevConfig};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

fn txg(raw: u64) -> Txg {
    Txg::new(raw)
}

fn vdev(id: u32, class: Class, asize: u64, ms_shift: u8) -> VdevConfig {
    let (id, ashift, asize) = (VdevId::new(id), Ashift::new(9), Asize::new(asize));
    VdevConfig { id, class, ashift, asize, ms_shift, spread: Spread::PLAIN }
}

/// `count` normal vdevs of `asize` bytes.
fn normal(count: u32, asize: u64, ms_shift: u8) -> Allocator {
    let mut space = Allocator::new();
    for id in 0..count {
        space.add_vdev(vdev(id, Class::Normal, asize, ms_shift)).unwrap();
    }
    space
}

impl Allocator {
    fn one(&mut self, at: u64, bytes: u64) -> Dva {
        self.try_one(at, bytes).unwrap()
    }

    fn try_one(&mut self, at: u64, bytes: u64) -> Result<Dva, crate::AllocError> {
        self.allocate(Class::Normal, Psize::new(bytes), 1, txg(at), Hint::default()).map(|dvas| dvas[0])
    }

    /// Takes what is left of the txg's changes, and lets it be done.
    fn finish(&mut self, at: u64) {
        self.take_changes(txg(at));
        self.sync_done(txg(at));
    }
}

fn ms(raw: u32) -> MetaslabId {
    MetaslabId::new(raw)
}

fn overlap(a: &Dva, b: &Dva) -> bool {
    let end = |dva: &Dva| dva.offset.get() + dva.asize.get();
    a.vdev == b.vdev && a.offset.get() < end(b) && b.offset.get() < end(a)
}
