//! All that the four labels of a device say.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use env::{Device, IoBuf, boxed};
use futures::future::join_all;
use ondisk::label::{
    CONFIG_BYTES, CONFIG_OFFSET, LABELS, UBERBLOCK_RING_BYTES, UBERBLOCK_RING_OFFSET, UBERBLOCK_SHIFT_MAX,
    UBERBLOCK_SHIFT_MIN, VdevPhys, label_offset, label_verifier, uberblock_slot_bytes, uberblock_slots,
};
use ondisk::{NvList, UberblockPhys};
use units::{Ashift, Guid, LeafOffset, Txg};

use crate::config::key;
use crate::label::{best_config, best_uberblock, verify_part};

/// An uberblock and where it was.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FoundUberblock {
    /// Label, 0 to 3.
    pub label: usize,
    /// Slot in that label's ring.
    pub slot: u64,
    /// The uberblock.
    pub uberblock: UberblockPhys,
}

/// How a label names a device that is one of several in a top-level vdev.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NameBelow {
    /// The guid of the top-level vdev.
    pub(crate) top: Guid,
    /// The guid of the leaf.
    pub(crate) guid: Guid,
    /// Where the leaf was last opened.
    pub(crate) path: PathBuf,
}

impl NameBelow {
    /// What a label says; nothing of a device that is a top-level vdev by itself, or that was only about to join.
    fn of(label: &NvList) -> Option<Self> {
        label.get_u64(key::POOL_TXG).filter(|txg| *txg > 0)?;
        let (top, guid) = (label.get_u64(key::TOP_GUID)?, label.get_u64(key::GUID)?);
        let path = path_below(label.get_nvlist(key::VDEV_TREE)?, guid)?;
        Some(Self { top: Guid::new(top), guid: Guid::new(guid), path: path.into() })
    }
}

/// The path of the leaf of a guid somewhere below `vdev`.
fn path_below(vdev: &NvList, guid: u64) -> Option<&str> {
    let mut children = vdev.get_nvlist_array(key::CHILDREN)?.iter();
    children.find_map(|child| match child.get_u64(key::GUID) == Some(guid) {
        true => child.get_str(key::PATH),
        false => path_below(child, guid),
    })
}

/// All that the four labels of a device say. What cannot be read or does not verify is absent.
#[derive(Clone, Debug, Default)]
pub struct LeafLabels {
    /// The configuration in each label.
    pub configs: [Option<NvList>; LABELS],
    /// All uberblocks, by label and slot.
    pub uberblocks: Vec<FoundUberblock>,
}

impl LeafLabels {
    /// Reads all four labels.
    #[boxed]
    pub async fn read(device: &Arc<dyn Device>) -> Self {
        let configs = join_all((0..LABELS).map(|label| read_config(device, label))).await;
        let mut out = Self::default();
        for (slot, config) in out.configs.iter_mut().zip(configs) {
            *slot = config;
        }
        let shifts = out.ring_shifts();
        let rings = join_all((0..LABELS).map(|label| read_ring(device, label))).await;
        for (label, ring) in rings.into_iter().enumerate() {
            let Some((at, bytes)) = ring else { continue };
            for ashift in shifts.clone() {
                out.uberblocks.extend(parse_ring(&bytes, at, Ashift::new(ashift), label));
            }
        }
        out
    }

    /// The slot sizes to try: the vdev's, or all when no label tells.
    fn ring_shifts(&self) -> std::ops::RangeInclusive<u8> {
        let known = self.config(None).and_then(|config| {
            let ashift = config.get_nvlist(key::VDEV_TREE)?.get_u64(key::ASHIFT)?;
            u8::try_from(ashift).ok()
        });
        match known {
            Some(ashift) => {
                let shift = ashift.clamp(UBERBLOCK_SHIFT_MIN, UBERBLOCK_SHIFT_MAX);
                shift..=shift
            }
            None => UBERBLOCK_SHIFT_MIN..=UBERBLOCK_SHIFT_MAX,
        }
    }

    /// The configuration that counts, of those not after `max`.
    #[must_use]
    pub fn config(&self, max: Option<Txg>) -> Option<&NvList> {
        best_config(self.configs.iter().flatten(), max)
    }

    /// The configuration that counts of those that name this pool and are not after `max`.
    #[must_use]
    pub fn config_of(&self, pool: Guid, max: Option<Txg>) -> Option<&NvList> {
        let names_it = |config: &&NvList| config.get_u64(key::POOL_GUID) == Some(pool.get());
        best_config(self.configs.iter().flatten().filter(names_it), max)
    }

    /// The uberblock that counts, of those not after `max`.
    #[must_use]
    pub fn uberblock(&self, max: Option<Txg>) -> Option<&UberblockPhys> {
        best_uberblock(self.uberblocks.iter().map(|found| &found.uberblock), max)
    }

    /// The txg of the newest label; zero when there is none.
    #[must_use]
    pub fn txg(&self) -> Txg {
        Txg::new(self.config(None).and_then(|config| config.get_u64(key::POOL_TXG)).unwrap_or(0))
    }

    /// Whether some label says that it is this leaf.
    #[must_use]
    pub fn names(&self, leaf: Guid) -> bool {
        self.configs.iter().flatten().any(|config| config.get_u64(key::GUID) == Some(leaf.get()))
    }

    /// How labels name this device, as far as they know it as one of several in a top-level vdev.
    pub(crate) fn names_below(&self) -> impl Iterator<Item = NameBelow> + '_ {
        self.configs.iter().flatten().filter_map(NameBelow::of)
    }

    /// The guid that the device had in the top-level vdev `top` when it was one of several there and was called
    /// `path`: all others may have been taken out since, and then it has the guid `top`. The path tells it from
    /// those others, whose old labels have the same `top`.
    pub(crate) fn guid_below(&self, top: Guid, path: &Path) -> Option<Guid> {
        self.names_below().find(|name| name.top == top && name.path == path).map(|name| name.guid)
    }

    /// The leaf's guid, as the newest label has it.
    #[must_use]
    pub fn guid(&self) -> Option<Guid> {
        self.config(None)?.get_u64(key::GUID).map(Guid::new)
    }

    /// Returns the path of the leaf according to its newest label.
    #[must_use]
    pub fn own_path(&self) -> Option<&Path> {
        let config = self.config(None)?;
        let guid = config.get_u64(key::GUID)?;
        // A hot spare's label has no vdev.
        let Some(vdev) = config.get_nvlist(key::VDEV_TREE) else {
            return config.get_str(key::PATH).map(Path::new);
        };
        let path = match vdev.get_u64(key::GUID) == Some(guid) {
            true => vdev.get_str(key::PATH),
            false => path_below(vdev, guid),
        };
        path.map(Path::new)
    }

    /// The pool's guid, as the newest label has it.
    #[must_use]
    pub fn pool_guid(&self) -> Option<Guid> {
        self.pool_guid_at(None)
    }

    /// The pool's guid, as the newest label has it of those not after `max`.
    #[must_use]
    pub fn pool_guid_at(&self, max: Option<Txg>) -> Option<Guid> {
        self.config(max)?.get_u64(key::POOL_GUID).map(Guid::new)
    }

    /// Whether it is a leaf of that pool: the newest label may be of a txg that never happened, in which the pool was to
    /// get another guid, or the last one that this leaf took part in may be of before that.
    #[must_use]
    pub fn is_of_pool(&self, guid: Guid) -> bool {
        let taken_part = self.uberblock(None).map(UberblockPhys::txg);
        [None, taken_part].into_iter().any(|max| self.pool_guid_at(max) == Some(guid))
    }
}

/// Where a part of a label lies on the device.
pub(super) fn part_offset(device_bytes: u64, label: usize, within: u64) -> Option<LeafOffset> {
    let start = label_offset(device_bytes, label)?;
    Some(LeafOffset::new(start.get() + within))
}

async fn read_config(device: &Arc<dyn Device>, label: usize) -> Option<NvList> {
    let at = part_offset(device.info().size_bytes, label, CONFIG_OFFSET)?;
    let read = device.read(at, CONFIG_BYTES).await;
    let part = read.inspect_err(|error| tracing::warn!(label, %error, "label not read")).ok()?;
    verify_part(&part, label_verifier(at)).then(|| VdevPhys::decode(&part).ok())?
}

/// The ring of one label. When it cannot be read at once, each 8 KiB of it is tried alone, and
/// those that fail stay zero.
async fn read_ring(device: &Arc<dyn Device>, label: usize) -> Option<(LeafOffset, IoBuf)> {
    const PIECE_BYTES: usize = 8 << 10;
    let at = part_offset(device.info().size_bytes, label, UBERBLOCK_RING_OFFSET)?;
    let ring_bytes = usize::try_from(UBERBLOCK_RING_BYTES).ok()?;
    if let Ok(ring) = device.read(at, ring_bytes).await {
        return Some((at, ring));
    }
    let mut ring = IoBuf::zeroed(ring_bytes);
    for piece in ring.chunks_mut(PIECE_BYTES).enumerate() {
        let offset = LeafOffset::new(at.get() + (piece.0 * PIECE_BYTES) as u64);
        if let Ok(bytes) = device.read(offset, PIECE_BYTES).await {
            piece.1.copy_from_slice(&bytes);
        }
    }
    Some((at, ring))
}

fn parse_ring(
    ring: &IoBuf,
    at: LeafOffset,
    ashift: Ashift,
    label: usize,
) -> impl Iterator<Item = FoundUberblock> + '_ {
    let slot_bytes = uberblock_slot_bytes(ashift);
    (0..uberblock_slots(ashift)).filter_map(move |slot| {
        let start = usize::try_from(slot * slot_bytes).ok()?;
        let bytes = ring.get(start..start + usize::try_from(slot_bytes).ok()?)?;
        let uberblock = UberblockPhys::decode(bytes).ok()?;
        let place = LeafOffset::new(at.get() + slot * slot_bytes);
        verify_part(bytes, label_verifier(place)).then_some(FoundUberblock { label, slot, uberblock })
    })
}
