//! Finds roots by their content when no uberblock leads to one.
//!
//! ```text
//!  leaf, 4 MiB at a time ─► the first bytes of each sector: may an objset begin here?
//!    ─► its offset on the vdev ─► read there, decompressed, validated
//!    ─► a block pointer with the checksum of these bytes ─► FoundState
//! ```
//! An objset does not contain its own checksum, and the block with its checksum is lost. But its
//! first dnode leads to all other blocks through pointers with checksums, so the first block below
//! exposes a wrong guess. The constructed pointer has the checksum of the bytes that were found.
//! From there on, a root from a scan is treated like one from an uberblock.
//!
//! Objsets are metadata, which is stored uncompressed, as lz4, or in old pools as lzjb. An lz4
//! block contains its length. Of an lzjb block, the largest possible size is read. On a raidz or a
//! draid, the first data sector is found on the child that holds it.

use std::collections::BTreeMap;
use std::sync::Arc;

use env::{Device, IoBuf};
use futures::stream::{self, StreamExt};
use ondisk::dnode::DNODE_BLOCK_BYTES;
use ondisk::objset::{OBJSET_BYTES_V1, OBJSET_BYTES_V2, OBJSET_BYTES_V3};
use ondisk::{
    Blkptr, BlkptrParts, ByteOrder, ChecksumKind, CompressionKind, Dva, ObjectType, ObjsetPhys, ObjsetType,
};
use units::{Asize, LeafOffset, Lsize, Psize, SECTOR_BYTES, Txg, VdevOffset};
use vdev::{Address, NodeKind, Top};

use crate::{FoundState, RescueView};

/// The number of bytes that are read at a time, and the number of pieces that are read ahead.
const PIECE_BYTES: u64 = 4 << 20;
const PIECES_AHEAD: usize = 3;
/// The number of roots of each type that are kept, newest first.
const ROOTS_MAX: usize = 1 << 16;
/// The number of bytes that decide whether a block may begin here.
const HEAD_BYTES: usize = 16;
/// The sizes of an objset.
const OBJSET_SIZES: [usize; 3] = [OBJSET_BYTES_V3, OBJSET_BYTES_V2, OBJSET_BYTES_V1];
/// A raidz with single parity exchanges the parity and data columns in half of all rows: where this
/// bit of the offset is set.
const SWAPPED_BIT: u64 = 1 << 20;

/// Receives the progress of a scan.
pub trait ScanProgress {
    /// The total number of bytes to read.
    fn expect(&self, bytes: u64);
    /// The number of bytes that were read since the last call.
    fn add(&self, bytes: u64);
}

/// An objset that was found.
#[derive(Clone, Debug)]
pub struct FoundRoot {
    /// The type of the objset.
    pub kind: ObjsetType,
    /// The birth txg of the youngest block below it.
    pub txg: u64,
    /// A pointer to it.
    pub root: Blkptr,
}

/// The roots that a scan found, newest first.
#[derive(Clone, Debug, Default)]
pub struct FoundRoots {
    /// Meta-objsets.
    pub pools: Vec<FoundRoot>,
    /// Objsets of file systems and volumes.
    pub datasets: Vec<FoundRoot>,
}

impl FoundRoots {
    /// Returns the states of the meta-objsets.
    #[must_use]
    pub fn states(&self) -> Vec<FoundState> {
        let state = |found: &FoundRoot| FoundState {
            txg: found.txg,
            written_secs: None,
            root: found.root,
            copies: 0,
        };
        self.pools.iter().map(state).collect()
    }
}

/// Scans all devices of a view.
pub struct Scanner<'a> {
    view: &'a RescueView,
    progress: &'a dyn ScanProgress,
    pools: Kept,
    datasets: Kept,
}

impl<'a> Scanner<'a> {
    /// Prepares a scan of these devices.
    #[must_use]
    pub fn new(view: &'a RescueView, progress: &'a dyn ScanProgress) -> Self {
        Self { view, progress, pools: Kept::default(), datasets: Kept::default() }
    }

    /// Reads everything once. Unreadable parts are skipped.
    pub async fn run(mut self) -> FoundRoots {
        let tops: Vec<_> =
            self.view.vdevs().tops_with_devices().into_iter().filter(|top| !top.is_log()).collect();
        let leaves: Vec<_> =
            tops.iter().flat_map(|top| scanned_leaves(top).map(move |leaf| (top, leaf))).collect();
        self.progress.expect(leaves.iter().map(|(_, leaf)| leaf.end).sum());
        for (top, leaf) in leaves {
            self.leaf(top, &leaf).await;
        }
        FoundRoots { pools: self.pools.newest_first(), datasets: self.datasets.newest_first() }
    }

    async fn leaf(&mut self, top: &Top, leaf: &ScannedLeaf) {
        let starts = (0..leaf.end).step_by(usize::try_from(PIECE_BYTES).unwrap_or(usize::MAX));
        let reads = starts.map(|start| async move {
            let len = PIECE_BYTES.min(leaf.end - start);
            (start, len, read_piece(&leaf.device, start, len).await)
        });
        let mut pieces = stream::iter(reads).buffered(PIECES_AHEAD);
        while let Some((start, len, bytes)) = pieces.next().await {
            for (at, packing) in bytes.iter().flat_map(|piece| heads(piece, leaf.step)) {
                for offset in leaf.offsets(top, start + at) {
                    self.look_at(top, offset, packing).await;
                }
            }
            self.progress.add(len);
        }
    }

    /// Checks whether an objset begins here. Its size determines its layout on a raidz.
    async fn look_at(&mut self, top: &Top, offset: u64, packing: StoredAs) {
        let at = Address::now(top.id(), VdevOffset::new(offset));
        for psize in packing.sizes() {
            let Ok(len) = usize::try_from(psize) else { continue };
            let verify = |bytes: &[u8]| unpacked(bytes, packing).is_some();
            let Ok(stored) = self.view.vdevs().read(at, len, &verify).await else { continue };
            let Some((lsize, objset, txg)) = unpacked(&stored, packing) else { continue };
            let kept = match objset.kind() {
                Ok(ObjsetType::Meta) => &mut self.pools,
                Ok(ObjsetType::Zfs | ObjsetType::Zvol) => &mut self.datasets,
                _ => continue,
            };
            let asize = Psize::new(psize).allocated_over(top.ashift(), top.spread()).get();
            let dva = Dva { vdev: top.id(), offset: at.offset, asize: Asize::new(asize), gang: false };
            kept.add(Sighting { objset, stored, lsize, txg, dva, packing });
            return;
        }
    }
}

/// A place where an objset was found.
struct Sighting {
    objset: ObjsetPhys,
    stored: IoBuf,
    lsize: usize,
    txg: u64,
    dva: Dva,
    packing: StoredAs,
}

impl Sighting {
    fn parts(&self) -> Option<BlkptrParts> {
        let kind = ChecksumKind::Fletcher4;
        let checksum = codec::checksum_of(ByteOrder::Little, kind, &self.stored, None).ok()?;
        let psize = self.stored.len() as u64;
        Some(BlkptrParts {
            dvas: [self.dva, Dva::EMPTY, Dva::EMPTY],
            lsize: Lsize::new(self.lsize as u64),
            psize: Psize::new(psize),
            compression: self.packing.kind(),
            checksum_kind: kind,
            object_type: ObjectType::OBJSET,
            birth: Txg::new(self.txg),
            physical_birth: Txg::new(self.txg),
            checksum,
            ..BlkptrParts::default()
        })
    }
}

/// Roots by their txg and contents, so that copies of a root count once.
#[derive(Default)]
struct Kept(BTreeMap<(u64, [u64; 4]), (ObjsetType, BlkptrParts)>);

impl Kept {
    fn add(&mut self, sighting: Sighting) {
        let (Some(parts), Ok(kind)) = (sighting.parts(), sighting.objset.kind()) else { return };
        let known = self.0.entry((sighting.txg, parts.checksum)).or_insert((kind, parts));
        let places = &mut known.1.dvas;
        if !places.contains(&sighting.dva)
            && let Some(free) = places.iter_mut().find(|dva| !dva.is_valid())
        {
            *free = sighting.dva;
        }
        if self.0.len() > ROOTS_MAX {
            self.0.pop_first();
        }
    }

    fn newest_first(&self) -> Vec<FoundRoot> {
        let roots = self.0.iter().rev();
        let root = |((txg, _), (kind, parts)): (&(u64, _), &(ObjsetType, BlkptrParts))| FoundRoot {
            kind: *kind,
            txg: *txg,
            root: parts.to_blkptr(),
        };
        roots.map(root).collect()
    }
}

/// A leaf that is scanned, and how its offsets map to offsets on its vdev.
struct ScannedLeaf {
    device: Arc<dyn Device>,
    /// The number of bytes to read, from the first allocatable byte on.
    end: u64,
    /// Blocks begin at multiples of this number.
    step: usize,
    place: LeafPlace,
}

/// The position of a leaf in its vdev.
#[derive(Clone, Copy)]
enum LeafPlace {
    /// The leaf has all blocks of the vdev, at the offsets of the vdev.
    Whole,
    Raidz(RaidzPlace),
    /// The number of the child of a draid.
    Draid(usize),
}

/// The position of a leaf in a raidz.
#[derive(Clone, Copy)]
struct RaidzPlace {
    child: u64,
    children: u64,
    parity: u64,
    shift: u32,
}

impl RaidzPlace {
    fn offsets(self, at: u64) -> Vec<u64> {
        let number = (at >> self.shift) * self.children + self.child;
        let offset = |columns: u64| Some(number.checked_sub(columns)? << self.shift);
        let is_swapped = |offset: &u64| self.parity == 1 && offset & SWAPPED_BIT != 0;
        let behind_parity = offset(self.parity).filter(|offset| !is_swapped(offset));
        let before_parity = offset(0).filter(is_swapped);
        behind_parity.into_iter().chain(before_parity).collect()
    }
}

impl ScannedLeaf {
    /// Returns the possible vdev offsets of a block whose first data sector is at `at` on this
    /// leaf.
    fn offsets(&self, top: &Top, at: u64) -> Vec<u64> {
        match self.place {
            LeafPlace::Whole => vec![at],
            LeafPlace::Raidz(place) => place.offsets(at),
            LeafPlace::Draid(child) => {
                top.draid_block_at(child, VdevOffset::new(at)).map(VdevOffset::get).into_iter().collect()
            }
        }
    }
}

/// Returns the leaves of a vdev that must be read: one leaf of a mirror, all leaves of a raidz or of
/// a draid.
fn scanned_leaves(top: &Top) -> impl Iterator<Item = ScannedLeaf> {
    let shift = u32::from(top.ashift().get());
    // The guessed sector size of a vdev without parity may be too large.
    let step = if has_children(top) { 1_usize << shift } else { SECTOR_BYTES as usize };
    let count = match top.kind() {
        NodeKind::Leaf | NodeKind::Mirror => 1,
        _ if has_children(top) => top.leaves().len(),
        _ => 0,
    };
    let place = |child: usize| match top.kind() {
        NodeKind::Raidz { parity } => {
            let children = top.leaves().len() as u64;
            LeafPlace::Raidz(RaidzPlace { child: child as u64, children, parity: parity.into(), shift })
        }
        NodeKind::Draid(_) => LeafPlace::Draid(child),
        _ => LeafPlace::Whole,
    };
    let usable = top.leaves().iter().enumerate().filter(|(_, leaf)| leaf.is_usable()).take(count);
    let scanned = usable.filter_map(|(child, leaf)| {
        let end = top.asize_of_leaf().min(vdev::leaf_asize(leaf.psize()));
        Some(ScannedLeaf { device: leaf.device()?, end, step, place: place(child) })
    });
    scanned.collect::<Vec<_>>().into_iter()
}

/// True if each leaf is a child of a raidz or draid. While a device is being replaced or a spare
/// stands in, the indices of the leaves are not those of the children.
fn has_children(top: &Top) -> bool {
    matches!(top.kind(), NodeKind::Raidz { .. } | NodeKind::Draid(_))
        && top.leaves().len() == top.node().children().len()
}

/// Reads a piece of a leaf. If the piece cannot be read at once, it is read in parts, and
/// unreadable parts are zero.
async fn read_piece(device: &Arc<dyn Device>, start: u64, len: u64) -> Option<IoBuf> {
    const PART_BYTES: u64 = 64 << 10;
    let at = VdevOffset::new(start).on_leaf()?;
    if let Ok(bytes) = device.read(at, usize::try_from(len).ok()?).await {
        return Some(bytes);
    }
    let mut whole = IoBuf::zeroed(usize::try_from(len).ok()?);
    for (number, part) in (0..).zip(whole.chunks_mut(usize::try_from(PART_BYTES).ok()?)) {
        let place = LeafOffset::new(at.get() + number * PART_BYTES);
        if let Ok(bytes) = device.read(place, part.len()).await {
            part.copy_from_slice(&bytes);
        }
    }
    Some(whole)
}

/// How the block that may begin at an offset is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StoredAs {
    /// Uncompressed.
    Plain,
    /// As lz4 with this number of bytes.
    Lz4(u64),
    Lzjb,
}

impl StoredAs {
    /// Returns the possible sizes of the block in bytes.
    fn sizes(self) -> Vec<u64> {
        match self {
            Self::Lz4(bytes) => vec![bytes.next_multiple_of(SECTOR_BYTES)],
            Self::Plain => OBJSET_SIZES.map(|size| size as u64).to_vec(),
            Self::Lzjb => (1..=4).map(|sectors| sectors * SECTOR_BYTES).collect(),
        }
    }

    fn kind(self) -> CompressionKind {
        match self {
            Self::Plain => CompressionKind::Off,
            Self::Lz4(_) => CompressionKind::Lz4,
            Self::Lzjb => CompressionKind::Lzjb,
        }
    }
}

/// Returns the offsets in a piece at which objsets may begin.
fn heads(piece: &[u8], step: usize) -> impl Iterator<Item = (u64, StoredAs)> + '_ {
    let sectors = piece.chunks_exact(step).enumerate();
    sectors.filter_map(move |(number, sector)| {
        let head = sector.first_chunk::<HEAD_BYTES>()?;
        Some(((number * step) as u64, packing_of(head)?))
    })
}

/// Checks whether an objset may begin with these bytes. They are the first bytes of the meta-dnode,
/// plain or after the header of a compressor. (The first four bytes of an lzjb or lz4 stream are
/// literals, because there is no earlier data to repeat.)
#[inline]
fn packing_of(head: &[u8; HEAD_BYTES]) -> Option<StoredAs> {
    let begins = |at: usize| {
        head[at] == ObjectType::DNODE.raw()
            && (10..=24).contains(&head[at + 1])
            && (1..=12).contains(&head[at + 2])
            && (1..=3).contains(&head[at + 3])
    };
    if head[0] == 0 {
        if head[1] == 0 {
            let length = u64::from(u16::from_be_bytes([head[2], head[3]]));
            let literals = if head[4] >> 4 == 15 { 6 } else { 5 };
            let fits = length > 0 && length <= OBJSET_BYTES_V3 as u64;
            return (fits && begins(literals)).then_some(StoredAs::Lz4(length + 4));
        }
        return begins(1).then_some(StoredAs::Lzjb);
    }
    if head[0] & 0x0f == 0 && begins(1) {
        return Some(StoredAs::Lzjb);
    }
    begins(0).then_some(StoredAs::Plain)
}

/// Returns the decompressed objset, its size and the birth txg of the youngest block below it.
/// `None` if the objset is invalid.
fn unpacked(stored: &[u8], packing: StoredAs) -> Option<(usize, ObjsetPhys, u64)> {
    let is_possible = |size: &&usize| match packing {
        StoredAs::Plain => **size == stored.len(),
        StoredAs::Lz4(_) | StoredAs::Lzjb => **size >= stored.len(),
    };
    OBJSET_SIZES.iter().filter(is_possible).find_map(|&size| {
        let block = codec::decompress(packing.kind(), stored, size).ok()?;
        let objset = ObjsetPhys::decode(&block).ok()?;
        objset.kind().ok().filter(|kind| *kind != ObjsetType::None)?;
        let meta = ObjsetPhys::dnode(&objset.meta_dnode).ok()??;
        let is_table =
            meta.object_type == ObjectType::DNODE && meta.data_block_bytes() == DNODE_BLOCK_BYTES as u64;
        let txg = meta.blkptrs.iter().filter(|bp| !bp.is_hole()).map(|bp| bp.birth().get()).max()?;
        let are_sound = meta.blkptrs.iter().all(|bp| bp.check().is_ok() && bp.birth().get() <= txg);
        (is_table && are_sound && txg > 0).then_some((size, objset, txg))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leaf(child: u64, children: u64, parity: u64) -> Vec<u64> {
        RaidzPlace { child, children, parity, shift: 12 }.offsets(8 << 12)
    }

    #[test]
    fn data_on_a_raidz_lies_behind_its_parity() {
        // Row 8 of three children: sectors 24 to 26.
        assert_eq!(leaf(1, 3, 1), [24 << 12]);
        assert_eq!(leaf(1, 3, 2), [23 << 12]);
        assert_eq!(leaf(0, 3, 3), [21 << 12]);
    }

    #[test]
    fn heads_of_objsets_are_known_by_their_first_bytes() {
        let plain = [10, 17, 3, 3, 0, 0, 0, 0, 32, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(packing_of(&plain), Some(StoredAs::Plain));
        let lz4 = [0, 0, 1, 0x40, 0x85, 10, 17, 3, 3, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(packing_of(&lz4), Some(StoredAs::Lz4(0x144)));
        let long = [0, 0, 1, 0x40, 0xf5, 3, 10, 17, 3, 3, 0, 0, 0, 0, 0, 0];
        assert_eq!(packing_of(&long), Some(StoredAs::Lz4(0x144)));
        let lzjb = [0x40, 10, 14, 6, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(packing_of(&lzjb), Some(StoredAs::Lzjb));
        assert_eq!(packing_of(&[0; HEAD_BYTES]), None);
    }
}
