//! A pool's vdevs as commands see them.

use crate::sweep;
use control::{IoCounters, VdevAux, VdevClass, VdevInfo, VdevKind, VdevState, VdevStats};
use metaslab::{Class, SpaceFigures};
use ondisk::dsl::scan::{func, state};
use pool::{Auxiliary, Pool};
use std::collections::BTreeSet;
use std::sync::Arc;
use vdev::{Bias, Leaf, LeafKind, Node, NodeKind, Shape, StatsSnapshot, Top};

/// Labels and boot area: what a device is larger by than its space.
const LABELS_BYTES: u64 = units::LABEL_START_BYTES + units::LABEL_END_BYTES;

/// The root with everything below it.
pub fn root(pool: &Pool) -> VdevInfo {
    let mut children: Vec<VdevInfo> = pool.vdevs().all_tops().iter().map(|top| top_info(pool, top)).collect();
    if is_resilvering(pool) {
        // As in OpenZFS, once something has been written to them.
        let has_some = |leaf: &Leaf| leaf.stats().snapshot().healed_bytes > 0;
        let is_behind = |leaf: &Arc<Leaf>| leaf.is_usable() && leaf.is_stale() && has_some(leaf);
        let leaves = pool.vdevs().leaves().into_iter().filter(is_behind);
        let behind: BTreeSet<u64> = leaves.map(|leaf| leaf.guid().get()).collect();
        children.iter_mut().for_each(|child| note_resilvering(child, &behind));
    }
    let mut root = VdevInfo::new(VdevKind::Root, 0, pool.guid().get(), VdevClass::Normal);
    let (state, aux) = pool.vdevs().state();
    (root.state, root.aux) = (state_of(state), aux_of(aux));
    let classes = [Class::Normal, Class::Special, Class::Dedup];
    let space = pool.zio().with_allocator(|a| {
        let raw: SpaceFigures = classes.into_iter().map(|class| a.space(class)).sum();
        let deflated: SpaceFigures = classes.into_iter().map(|class| a.deflated_space(class)).sum();
        (raw, a.fragmentation_percent(Class::Normal), deflated)
    });
    root.stats.allocated_bytes = in_use(&space.0);
    root.stats.space_bytes = space.0.capacity.get();
    root.stats.deflated_bytes = space.2.capacity.get();
    root.stats.fragmentation = space.1.map(u64::from);
    let growing = children.iter().filter(|top| top.class == VdevClass::Normal);
    root.stats.expand_bytes = growing.map(|top| top.stats.expand_bytes).sum();
    root.stats.io = io_of(&children);
    root.children = children;
    root
}

fn is_resilvering(pool: &Pool) -> bool {
    pool.scan().is_some_and(|scan| {
        (scan.phys.func.get(), scan.phys.state.get()) == (func::RESILVER, state::SCANNING)
    })
}

fn note_resilvering(vdev: &mut VdevInfo, behind: &BTreeSet<u64>) {
    vdev.resilvering = vdev.kind.is_leaf() && behind.contains(&vdev.guid);
    vdev.children.iter_mut().for_each(|child| note_resilvering(child, behind));
}

/// What a group's devices did together: its row shows all that reached them, every copy and all parity, as in OpenZFS.
fn io_of(children: &[VdevInfo]) -> IoCounters {
    children.iter().fold(IoCounters::default(), |sum, child| add(sum, child.stats.io))
}

fn add(a: IoCounters, b: IoCounters) -> IoCounters {
    IoCounters {
        reads: a.reads + b.reads,
        writes: a.writes + b.writes,
        read_bytes: a.read_bytes + b.read_bytes,
        written_bytes: a.written_bytes + b.written_bytes,
    }
}

fn top_info(pool: &Pool, top: &Arc<Top>) -> VdevInfo {
    let id = u64::from(top.id().get());
    let class = class_of(top.config().bias);
    let mut info = match top.node() {
        Node::Hole => return VdevInfo::new(VdevKind::Hole, id, top.guid().get(), VdevClass::Normal),
        Node::Indirect(_) => return VdevInfo::new(VdevKind::Indirect, id, top.guid().get(), class),
        Node::Leaf(leaf) => leaf_info(pool, leaf, id, class),
        group @ Node::Group(_) => {
            let mut info = group_info(pool, group, id, class);
            let io = info.stats.io;
            // Errors are those of what was asked of it.
            info.stats = VdevStats { io, ..counters(&top.stats().snapshot()) };
            info
        }
    };
    info.ashift = u64::from(top.ashift().get());
    info.removing = top.config().leaving.is_some();
    info.non_allocating = top.config().non_allocating;
    put_space(pool, top, &mut info);
    info
}

fn node_info(pool: &Pool, node: &Node, id: u64, class: VdevClass) -> VdevInfo {
    match node {
        Node::Leaf(leaf) => leaf_info(pool, leaf, id, class),
        Node::Hole | Node::Indirect(_) | Node::Group(_) => group_info(pool, node, id, class),
    }
}

fn group_info(pool: &Pool, node: &Node, id: u64, class: VdevClass) -> VdevInfo {
    let kind = match node.kind() {
        NodeKind::Raidz { parity } => VdevKind::Raidz { parity },
        NodeKind::Draid(shape) => draid(&shape),
        NodeKind::Indirect => VdevKind::Indirect,
        NodeKind::Replacing => VdevKind::Replacing,
        NodeKind::Spare => VdevKind::Spare,
        NodeKind::Leaf | NodeKind::Mirror | NodeKind::Hole => VdevKind::Mirror,
    };
    let mut info = VdevInfo::new(kind, id, node.guid().get(), class);
    let children = node.children().iter().zip(0..);
    info.children = children.map(|(child, place)| node_info(pool, child, place, class)).collect();
    let (state, aux) = node.state();
    (info.state, info.aux) = (state_of(state), aux_of(aux));
    info.stats.io = io_of(&info.children);
    info
}

/// Hot spares: those that wait, and those that are at work as a leaf, too.
pub fn spares(pool: &Pool) -> Vec<VdevInfo> {
    let leaves = pool.vdevs().leaves();
    let is_at_work = |guid| leaves.iter().any(|leaf| leaf.guid() == guid && leaf.config().is_spare);
    let spares = pool.spares().into_iter().zip(0..).map(|(spare, place)| {
        let mut info = auxiliary_info(&spare, place, VdevClass::Spare);
        if is_at_work(spare.guid) {
            info.aux = VdevAux::Spared;
        }
        info
    });
    spares.collect()
}

/// Cache devices, and how full each is.
pub fn caches(pool: &Pool) -> Vec<VdevInfo> {
    let leaves = pool.cache_leaves().into_iter().zip(0..);
    let caches = leaves.map(|(leaf, place)| {
        let mut info = leaf_info(pool, &leaf, place, VdevClass::Cache);
        // It is listed with its path, whether it was there at the import or not.
        info.not_present = false;
        if let Some((room, used)) = pool.cache_room(leaf.guid()) {
            (info.stats.space_bytes, info.stats.allocated_bytes) = (room, used);
        }
        info
    });
    caches.collect()
}

fn auxiliary_info(auxiliary: &Auxiliary, place: u64, class: VdevClass) -> VdevInfo {
    let kind = if auxiliary.is_disk { VdevKind::Disk } else { VdevKind::File };
    let mut info = VdevInfo::new(kind, place, auxiliary.guid.get(), class);
    info.path = Some(auxiliary.path.to_string_lossy().into_owned());
    info.whole_disk = auxiliary.whole_disk;
    if !auxiliary.is_there {
        (info.state, info.aux) = (VdevState::CantOpen, VdevAux::OpenFailed);
    }
    info
}

fn draid(shape: &Shape) -> VdevKind {
    let small = |number: usize| u8::try_from(number).unwrap_or(u8::MAX);
    VdevKind::Draid {
        parity: small(shape.parity()),
        data: small(shape.data()),
        children: small(shape.children()),
        spares: small(shape.spares()),
    }
}

fn class_of(bias: Bias) -> VdevClass {
    match bias {
        Bias::None => VdevClass::Normal,
        Bias::Log => VdevClass::Log,
        Bias::Special => VdevClass::Special,
        Bias::Dedup => VdevClass::Dedup,
    }
}

fn put_space(pool: &Pool, top: &Top, info: &mut VdevInfo) {
    let (figures, fragmentation) =
        pool.zio().with_allocator(|a| (a.vdev_space(top.id()), a.vdev_fragmentation_percent(top.id())));
    // A vdev that could not be opened still has the size its configuration tells.
    let space = figures.map_or(top.config().asize, |figures| figures.capacity.get());
    info.stats.allocated_bytes = figures.as_ref().map_or(0, in_use);
    info.stats.checkpoint_bytes = figures.map_or(0, |figures| figures.kept.get());
    info.stats.space_bytes = space;
    info.stats.deflated_bytes = top.deflated(units::Asize::new(space)).get();
    info.stats.replace_bytes = if info.kind.is_leaf() { space + LABELS_BYTES } else { space };
    info.stats.fragmentation = fragmentation.map(u64::from);
    info.stats.expand_bytes = expand_bytes(top);
}

/// What the pool needs, for its checkpoint too.
fn in_use(figures: &SpaceFigures) -> u64 {
    figures.allocated.get() + figures.kept.get()
}

/// By how much its devices have become larger, in whole metaslabs.
fn expand_bytes(top: &Top) -> u64 {
    let config = top.config();
    let more = top.possible_asize().map_or(0, |asize| asize.saturating_sub(config.asize));
    let shift = u32::try_from(config.metaslab_shift).unwrap_or(u32::MAX);
    let metaslabs = more.checked_shr(shift).unwrap_or(0);
    metaslabs.checked_shl(shift).unwrap_or(0)
}

fn leaf_info(pool: &Pool, leaf: &Arc<Leaf>, id: u64, class: VdevClass) -> VdevInfo {
    let kind = match leaf.kind() {
        LeafKind::File => VdevKind::File,
        LeafKind::Disk => VdevKind::Disk,
    };
    let mut info = VdevInfo::new(kind, id, leaf.guid().get(), class);
    let config = leaf.config();
    info.path = Some(config.path.to_string_lossy().into_owned());
    info.whole_disk = config.whole_disk == Some(1);
    let (state, aux) = leaf.state();
    (info.state, info.aux) = (state_of(state), aux_of(aux));
    // A device that could not be opened is shown by its guid. A device that was opened and has another
    // history is shown by its path.
    info.not_present = info.state == VdevState::CantOpen && aux != vdev::VdevAux::Elsewhere;
    info.stats = counters(&leaf.stats().snapshot());
    info.stats.physical_bytes = leaf.psize();
    info.stats.replace_bytes = info.stats.physical_bytes;
    sweep::put(&mut info, pool, leaf);
    info
}

fn counters(stats: &StatsSnapshot) -> VdevStats {
    VdevStats {
        read_errors: stats.read_errors,
        write_errors: stats.write_errors,
        checksum_errors: stats.checksum_errors,
        io: IoCounters {
            reads: stats.read.ops,
            writes: stats.write.ops,
            read_bytes: stats.read.bytes,
            written_bytes: stats.write.bytes,
        },
        ..VdevStats::default()
    }
}

/// The same state in the words of the protocol.
pub fn state_of(state: vdev::VdevState) -> VdevState {
    match state {
        vdev::VdevState::Closed => VdevState::Closed,
        vdev::VdevState::Offline => VdevState::Offline,
        vdev::VdevState::Removed => VdevState::Removed,
        vdev::VdevState::Unavail => VdevState::CantOpen,
        vdev::VdevState::Faulted => VdevState::Faulted,
        vdev::VdevState::Degraded => VdevState::Degraded,
        vdev::VdevState::Online => VdevState::Online,
    }
}

fn aux_of(aux: vdev::VdevAux) -> VdevAux {
    match aux {
        vdev::VdevAux::None => VdevAux::None,
        vdev::VdevAux::OpenFailed => VdevAux::OpenFailed,
        vdev::VdevAux::CorruptData => VdevAux::CorruptData,
        vdev::VdevAux::NoReplicas => VdevAux::NoReplicas,
        vdev::VdevAux::TooSmall => VdevAux::TooSmall,
        vdev::VdevAux::BadLabel => VdevAux::BadLabel,
        vdev::VdevAux::ErrExceeded => VdevAux::ErrExceeded,
        vdev::VdevAux::IoFailure => VdevAux::IoFailure,
        vdev::VdevAux::External => VdevAux::External,
        vdev::VdevAux::SplitPool => VdevAux::SplitPool,
        vdev::VdevAux::Elsewhere => VdevAux::Elsewhere,
    }
}
