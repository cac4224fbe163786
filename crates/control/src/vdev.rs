//! One vdev as commands see it: a typed tree, not text.

use crate::{SweepInfo, VdevAux, VdevClass, VdevState};
use serde::{Deserialize, Serialize};

/// What a vdev is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum VdevKind {
    /// The pool itself.
    Root,
    /// Copies on every child.
    Mirror,
    /// Parity over the children; 1 to 3.
    Raidz {
        /// How many children may fail.
        parity: u8,
    },
    /// Parity over some of the children, and room for spares on all.
    Draid {
        /// How many children may fail; 1 to 3.
        parity: u8,
        /// Data columns of a stripe.
        data: u8,
        /// Children.
        children: u8,
        /// How many children's room is left for spares.
        spares: u8,
    },
    /// A mirror while one child takes over from another.
    Replacing,
    /// A mirror while a hot spare stands in.
    Spare,
    /// A plain file.
    File,
    /// A block device.
    Disk,
    /// A top-level vdev known only by its number.
    Missing,
    /// Where a removed log was; keeps the numbers of later vdevs.
    Hole,
    /// Where a removed data vdev was.
    Indirect,
}

impl VdevKind {
    /// The format's name for it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Root => "root",
            Self::Mirror => "mirror",
            Self::Raidz { .. } => "raidz",
            Self::Draid { .. } => "draid",
            Self::Replacing => "replacing",
            Self::Spare => "spare",
            Self::File => "file",
            Self::Disk => "disk",
            Self::Missing => "missing",
            Self::Hole => "hole",
            Self::Indirect => "indirect",
        }
    }

    /// A file or a disk.
    pub fn is_leaf(self) -> bool {
        matches!(self, Self::File | Self::Disk)
    }
}

/// Operations and bytes since the pool was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct IoCounters {
    /// Reads done.
    pub reads: u64,
    /// Writes done.
    pub writes: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
}

impl IoCounters {
    /// What was added since `earlier`; counters that went back count as new.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        Self {
            reads: self.reads.saturating_sub(earlier.reads),
            writes: self.writes.saturating_sub(earlier.writes),
            read_bytes: self.read_bytes.saturating_sub(earlier.read_bytes),
            written_bytes: self.written_bytes.saturating_sub(earlier.written_bytes),
        }
    }
}

/// Sizes, errors and I/O of one vdev; sizes in bytes, 0 where it has none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct VdevStats {
    /// Allocated, in the vdev's own space (top-level vdevs and the root).
    pub allocated_bytes: u64,
    /// Allocatable space (top-level vdevs and the root).
    pub space_bytes: u64,
    /// The same without parity.
    pub deflated_bytes: u64,
    /// Of what is allocated, kept for the pool's checkpoint alone (top-level vdevs).
    pub checkpoint_bytes: u64,
    /// The smallest device that could replace it.
    pub replace_bytes: u64,
    /// Space that growing the device would bring.
    pub expand_bytes: u64,
    /// Size of the device.
    pub physical_bytes: u64,
    /// How scattered free space is, 0 to 100; none where unknown.
    pub fragmentation: Option<u64>,
    /// Reads that failed.
    pub read_errors: u64,
    /// Writes that failed.
    pub write_errors: u64,
    /// Blocks that did not match their checksum.
    pub checksum_errors: u64,
    /// Operations slower than 30 seconds.
    pub slow_ios: u64,
    /// Operations and bytes.
    pub io: IoCounters,
}

/// One vdev and its children.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VdevInfo {
    /// What it is made of.
    pub kind: VdevKind,
    /// Its place among its parent's children; holes count.
    pub id: u64,
    /// Its lasting name.
    pub guid: u64,
    /// Of a leaf: where it was last seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Of a disk: the pool owns the whole of it, partition table and all.
    #[serde(default)]
    pub whole_disk: bool,
    /// What it is used for.
    pub class: VdevClass,
    /// State.
    pub state: VdevState,
    /// Why it is in that state.
    #[serde(default)]
    pub aux: VdevAux,
    /// Of a hot spare that is at work for another pool: the name of that pool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub works_for: Option<String>,
    /// The device was not there at import: shown by guid, `was PATH`.
    #[serde(default)]
    pub not_present: bool,
    /// A leaf that is being brought up to date.
    #[serde(default)]
    pub resilvering: bool,
    /// Of a leaf: how far it is initialized.
    #[serde(default)]
    pub initialize: SweepInfo,
    /// Of a leaf: how far it is trimmed.
    #[serde(default)]
    pub trim: SweepInfo,
    /// A leaf that cannot forget what it has free.
    #[serde(default)]
    pub cannot_trim: bool,
    /// A top-level vdev that is being emptied, to be taken out.
    #[serde(default)]
    pub removing: bool,
    /// A top-level vdev where no more blocks are to go.
    #[serde(default)]
    pub non_allocating: bool,
    /// Alignment of its blocks, as a power of two; 0 where unknown.
    #[serde(default)]
    pub ashift: u64,
    /// Sizes, errors, I/O.
    #[serde(default)]
    pub stats: VdevStats,
    /// Children, holes included.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub children: Vec<VdevInfo>,
}

impl VdevInfo {
    /// A healthy vdev without children.
    pub fn new(kind: VdevKind, id: u64, guid: u64, class: VdevClass) -> Self {
        Self {
            kind,
            id,
            guid,
            path: None,
            whole_disk: false,
            class,
            state: VdevState::Online,
            aux: VdevAux::None,
            works_for: None,
            not_present: false,
            resilvering: false,
            initialize: SweepInfo::default(),
            trim: SweepInfo::default(),
            cannot_trim: false,
            removing: false,
            non_allocating: false,
            ashift: 0,
            stats: VdevStats::default(),
            children: Vec::new(),
        }
    }

    /// Neither hole, nor missing, nor removed: something to show.
    pub fn is_shown(&self) -> bool {
        !matches!(self.kind, VdevKind::Hole | VdevKind::Indirect)
    }

    /// Children without holes.
    pub fn shown_children(&self) -> impl Iterator<Item = &VdevInfo> + '_ {
        self.children.iter().filter(|c| c.is_shown())
    }

    /// This vdev and all below it, parents first.
    pub fn walk(&self) -> Box<dyn Iterator<Item = &VdevInfo> + '_> {
        Box::new(std::iter::once(self).chain(self.children.iter().flat_map(VdevInfo::walk)))
    }

    /// The leaves below (or this one).
    pub fn leaves(&self) -> impl Iterator<Item = &VdevInfo> + '_ {
        self.walk().filter(|v| v.kind.is_leaf())
    }
}

/// One top-level vdev (or cache, or spare) to make.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VdevSpec {
    /// What it is for.
    pub class: VdevClass,
    /// How its devices are put together.
    pub layout: Layout,
    /// Full paths of its devices; exactly one for [`Layout::Single`].
    pub devices: Vec<String>,
}

/// How devices are put together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Layout {
    /// One device.
    Single,
    /// Copies on all.
    Mirror,
    /// Parity, 1 to 3.
    Raidz {
        /// How many devices may fail.
        parity: u8,
    },
    /// Groups with parity, dealt out over all devices.
    Draid {
        /// How many devices may fail, 1 to 3.
        parity: u8,
        /// Columns of data in each group.
        data: u8,
    },
}
