//! What a volume takes at most, and which blocks suit a pool.
//!
//! OpenZFS reserves for a volume what it takes once all of it is written, with nothing compressed: its blocks, as the vdev
//! on which they take the most has them, and what points to them (`zvol_volsize_to_reservation`, libzfs_dataset.c). On a
//! raidz small blocks take parity and padding out of proportion; datasets are charged by how much a block of 128 KiB takes,
//! so that is what is compared.

use vdev::NodeKind;

use crate::Pool;

/// `volblocksize` where nothing else suits better.
const BLOCK_DEFAULT_BYTES: u32 = 16 << 10;
/// Datasets are charged as if all blocks were of this size (`SPA_OLD_MAXBLOCKSIZE`).
const USUAL_BLOCK_BYTES: u64 = 128 << 10;
/// The smallest block (`SPA_MINBLOCKSIZE`): sizes are divided by it before they are multiplied.
const SECTOR_BYTES: u64 = 512;
/// Pointers that an indirect block of 128 KiB has.
const POINTERS_PER_BLOCK: u64 = 1024;
/// An indirect block, before it is compressed.
const INDIRECT_BYTES: u64 = 128 << 10;
/// Blocks of dnodes, one of each level, that every objset has.
const META_DNODE_BLOCKS: u64 = 7;
/// Copies of what points to blocks of which there is one copy.
const METADATA_COPIES: u64 = 2;

/// How a vdev spreads a block, as far as its size is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Spreading {
    /// Each block lies whole on a device.
    Whole,
    /// Over so many children, some of which have parity.
    Raidz { children: u64, parity: u64 },
    /// Over groups of children, whole groups at a time.
    Draid { data: u64, parity: u64 },
}

/// A vdev, as far as the size of blocks is concerned.
#[derive(Clone, Copy, Debug)]
struct Ground {
    ashift: u32,
    spreading: Spreading,
}

impl Ground {
    /// What a block takes on it, in bytes.
    const fn taken(self, block_bytes: u64) -> u64 {
        let sectors = ((block_bytes - 1) >> self.ashift) + 1;
        match self.spreading {
            Spreading::Whole => sectors << self.ashift,
            Spreading::Raidz { children, parity } => {
                let all = sectors + parity * sectors.div_ceil(children - parity);
                all.next_multiple_of(parity + 1) << self.ashift
            }
            Spreading::Draid { data, parity } => (sectors.div_ceil(data) * (data + parity)) << self.ashift,
        }
    }

    /// The least that can be allocated on it, as OpenZFS counts it where it looks for a block size.
    const fn unit_bytes(self) -> u64 {
        let sectors = match self.spreading {
            Spreading::Whole => 1,
            Spreading::Raidz { parity: 1, .. } => 2,
            Spreading::Raidz { .. } => 4,
            Spreading::Draid { data, .. } => data,
        };
        sectors << self.ashift
    }

    /// What so many blocks are charged to their dataset if all lie here; none where that is their size.
    fn charged(self, blocks: u64, block_bytes: u64) -> Option<u64> {
        if self.spreading == Spreading::Whole {
            return None;
        }
        let usual = self.taken(USUAL_BLOCK_BYTES) / SECTOR_BYTES;
        let all = blocks.checked_mul(self.taken(block_bytes));
        Some(all.map_or(u64::MAX, |all| (all / usual).saturating_mul(USUAL_BLOCK_BYTES / SECTOR_BYTES)))
    }
}

/// See [`Pool::volume_room`].
fn room(grounds: &[Ground], size_bytes: u64, block_bytes: u32) -> u64 {
    let mut blocks = size_bytes / u64::from(block_bytes);
    let data = grounds.iter().filter_map(|ground| ground.charged(blocks, block_bytes.into())).max();
    let data = data.filter(|&bytes| bytes > 0).unwrap_or(blocks * u64::from(block_bytes));
    let mut pointing = META_DNODE_BLOCKS;
    while blocks > 1 {
        blocks = blocks.div_ceil(POINTERS_PER_BLOCK);
        pointing += blocks;
    }
    data.saturating_add(pointing * METADATA_COPIES * INDIRECT_BYTES)
}

/// See [`Pool::suitable_block`].
fn suitable_block(grounds: &[Ground]) -> (u32, u64) {
    let unit = grounds.iter().map(|ground| ground.unit_bytes()).max().unwrap_or(SECTOR_BYTES);
    let mut block_bytes = BLOCK_DEFAULT_BYTES;
    while u64::from(block_bytes) * 2 <= unit {
        block_bytes *= 2;
    }
    (block_bytes, unit)
}

impl Pool {
    /// What a volume of this size takes at most in this pool, in bytes: what `refreservation` is by itself.
    /// OpenZFS counts one copy, whatever the property `copies` says.
    #[must_use]
    pub fn volume_room(&self, size_bytes: u64, block_bytes: u32) -> u64 {
        room(&self.grounds(), size_bytes, block_bytes)
    }

    /// The size of blocks of a volume that suits the pool's vdevs, and the least that can be allocated on that of them
    /// where it is the most, in bytes.
    #[must_use]
    pub fn suitable_block(&self) -> (u32, u64) {
        suitable_block(&self.grounds())
    }

    fn grounds(&self) -> Vec<Ground> {
        let tops = self.vdevs.tops().into_iter();
        tops.map(|top| {
            let children = top.node().children().len() as u64;
            let spreading = match top.kind() {
                NodeKind::Raidz { parity } => Spreading::Raidz { children, parity: parity.into() },
                NodeKind::Draid(shape) => {
                    Spreading::Draid { data: shape.data() as u64, parity: shape.parity() as u64 }
                }
                _ => Spreading::Whole,
            };
            Ground { ashift: u32::from(top.ashift().get()), spreading }
        })
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn raidz(children: u64, parity: u64, ashift: u32) -> Ground {
        Ground { ashift, spreading: Spreading::Raidz { children, parity } }
    }

    const WHOLE: Ground = Ground { ashift: 12, spreading: Spreading::Whole };

    #[test]
    fn a_volume_takes_what_openzfs_reserves_for_it() {
        // 65536 blocks, 64 + 1 indirect blocks and 7 of dnodes, twice: `zfs create -V 1G` on a plain vdev.
        assert_eq!(room(&[WHOLE], 1 << 30, 16 << 10), (1 << 30) + 2 * 72 * (128 << 10));
        assert_eq!(room(&[], 16 << 10, 16 << 10), (16 << 10) + 2 * 7 * (128 << 10));
        // Blocks of 16 KiB take 24 KiB of a raidz1 of three devices, and blocks of 128 KiB take 192.
        assert_eq!(room(&[raidz(3, 1, 12)], 1 << 30, 16 << 10), (1 << 30) + 2 * 72 * (128 << 10));
        // Blocks of 8 KiB take 24 KiB of a raidz2 of five, instead of 13.5: 216 KiB is what those of 128 KiB take.
        let taken = (1_u64 << 17) * (24 << 10) / (216 << 10 >> 9) * 256;
        assert_eq!(room(&[WHOLE, raidz(5, 2, 12)], 1 << 30, 8 << 10), taken + 2 * (7 + 129) * (128 << 10));
        assert_eq!(room(&[raidz(5, 2, 12)], i64::MAX as u64, 512), u64::MAX);
    }

    #[test]
    fn blocks_of_a_volume_are_as_large_as_what_vdevs_allocate() {
        assert_eq!(suitable_block(&[]), (16 << 10, 512));
        assert_eq!(suitable_block(&[WHOLE, raidz(4, 2, 12)]), (16 << 10, 16 << 10));
        assert_eq!(suitable_block(&[raidz(4, 2, 13)]), (32 << 10, 32 << 10));
        let draid = Ground { ashift: 12, spreading: Spreading::Draid { data: 8, parity: 1 } };
        assert_eq!(suitable_block(&[draid]), (32 << 10, 32 << 10));
        assert_eq!(draid.taken(8 << 10), 36 << 10);
    }
}
