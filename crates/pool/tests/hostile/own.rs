//! Blocks whose checksum stands in themselves: labels, gang headers, log blocks. Nothing above them changes with them.

use ondisk::label::{
    CONFIG_BYTES, CONFIG_OFFSET, LABELS, UBERBLOCK_RING_BYTES, UBERBLOCK_RING_OFFSET, ZioEck, label_offset,
    label_verifier,
};
use ondisk::zil::{ChainForm, ZIL_CHAIN_BYTES, ZilChain};
use ondisk::{ByteOrder, ChecksumKind, UberblockPhys};
use units::LeafOffset;

use crate::disks::Disks;

/// A place of such a block, and with what its checksum begins.
#[derive(Clone, Copy)]
pub struct Own {
    pub disk: usize,
    pub at: u64,
    pub seed: [u64; 4],
    pub sum: ChecksumKind,
}

impl Own {
    /// A part of a label.
    fn of_label(disk: usize, at: u64) -> Self {
        Self { disk, at, seed: label_verifier(LeafOffset::new(at)), sum: ChecksumKind::Label }
    }

    /// The block with a checksum that is right there; none where that is not to be had.
    pub fn sealed(&self, mut data: Vec<u8>) -> Option<Vec<u8>> {
        let (eck_until, hashed) = match self.sum {
            ChecksumKind::Zilog2 => {
                let chain = ZilChain::read(ChainForm::Slim, &data).ok()?;
                let hashed = chain.hashed_bytes(ChainForm::Slim, data.len() as u64)?;
                (ZIL_CHAIN_BYTES, hashed as usize)
            }
            _ => (data.len(), data.len()),
        };
        ZioEck::seeded(self.seed).put(&mut data[..eck_until]);
        let sum = codec::checksum_of(ByteOrder::Little, self.sum, &data[..hashed], None).ok()?;
        ZioEck::seeded(sum).put(&mut data[..eck_until]);
        Some(data)
    }

    fn is_sound(&self, data: &[u8]) -> bool {
        self.sealed(data.to_vec()).is_some_and(|sealed| sealed == data)
    }
}

/// The newest uberblock, and all its places.
pub fn newest_uberblock(disks: &Disks<'_>) -> (Vec<Own>, Vec<u8>) {
    let mut found: Vec<(u64, Own, Vec<u8>)> = Vec::new();
    for (disk, label) in disks.numbers().flat_map(|disk| (0..LABELS).map(move |label| (disk, label))) {
        let start = label_offset(disks.bytes, label).expect("there is room").get() + UBERBLOCK_RING_OFFSET;
        for at in (start..start + UBERBLOCK_RING_BYTES).step_by(1024) {
            let own = Own::of_label(disk, at);
            let slots = [1024, 2048, 4096, 8192].map(|len| disks.peek(disk, at, len));
            let sound = slots.into_iter().find(|slot| own.is_sound(slot));
            if let Some((slot, uberblock)) =
                sound.and_then(|slot| UberblockPhys::decode(&slot).ok().map(|uberblock| (slot, uberblock)))
            {
                found.push((uberblock.txg().get(), own, slot));
            }
        }
    }
    let txg = found.iter().map(|(txg, ..)| *txg).max().expect("a pool has uberblocks");
    found.retain(|(of, ..)| *of == txg);
    (found.iter().map(|(_, own, _)| *own).collect(), found.swap_remove(0).2)
}

/// The configuration in a disk's labels, and its places.
pub fn label_config(disks: &Disks<'_>, disk: usize) -> (Vec<Own>, Vec<u8>) {
    let at = |label| label_offset(disks.bytes, label).expect("there is room").get() + CONFIG_OFFSET;
    let data = disks.peek(disk, at(0), CONFIG_BYTES);
    let places: Vec<Own> = (0..LABELS).map(|label| Own::of_label(disk, at(label))).collect();
    assert!(places[0].is_sound(&data), "a disk has labels");
    (places, data)
}

/// A block that somebody else wrote, if it is one.
pub fn sound(disks: &Disks<'_>, places: Vec<Own>, len: usize) -> Option<(Vec<Own>, Vec<u8>)> {
    let first = places.first()?;
    let data = disks.peek(first.disk, first.at, len);
    first.is_sound(&data).then_some((places, data))
}
