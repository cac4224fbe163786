//! The disks of a pool at rest, each a vdev of its own.

use std::ops::Range;

use ondisk::{Blkptr, Dva};
use sim::CrashImage;

/// See the module; all are of one size.
pub struct Disks<'a> {
    pub image: &'a CrashImage,
    pub paths: &'a [&'static str],
    pub bytes: u64,
}

impl Disks<'_> {
    pub fn numbers(&self) -> Range<usize> {
        0..self.paths.len()
    }

    pub fn peek(&self, disk: usize, at: u64, len: usize) -> Vec<u8> {
        self.image.peek(self.paths[disk], at, len)
    }

    /// Where a block lies, all its copies; none if that is nowhere.
    pub fn places(&self, bp: &Blkptr) -> Option<Vec<(usize, u64)>> {
        let place = |dva: Dva| {
            let disk = dva.vdev.get() as usize;
            let at = dva.offset.on_leaf()?.get();
            (disk < self.paths.len() && at < self.bytes).then_some((disk, at))
        };
        bp.dvas().map(place).collect::<Option<Vec<_>>>().filter(|places| !places.is_empty())
    }
}
