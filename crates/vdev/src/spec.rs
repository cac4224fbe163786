//! New vdevs: from what an administrator asks for to opened leaves and sizes.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use env::{DeviceInfo, Env, OpenMode, boxed};
use units::{Ashift, Guid, Spread, VdevId};

use crate::label::{Waiting, init_auxiliary, shared_spare};
use crate::leaf::{LeafConfig, LeafId};
use crate::node::GroupConfig;
use crate::open::open_once_free;
use crate::size::{DEVICE_MIN_BYTES, leaf_ashift, leaf_asize, metaslab_shift};
use crate::top::{TopConfig, TopId};
use crate::{Bias, Leaf, LeafKind, Node, NodeKind, Shape, Top, VdevError, VdevTree};

/// A top-level vdev to be made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NewVdev {
    /// One path makes a leaf; several make a mirror, with parity a raidz, and with columns of data a draid.
    pub paths: Vec<PathBuf>,
    /// How many devices of a raidz or draid may be lost: 1 to 3; 0 for anything else.
    pub parity: u8,
    /// Data columns of each group of a draid; 0 for anything else.
    pub data: u8,
    /// Sector size; `None` for that of the devices.
    pub ashift: Option<Ashift>,
    /// What it is for.
    pub bias: Bias,
    /// The group that it joins in.
    pub create_txg: u64,
}

impl NewVdev {
    /// Opens the devices for writing and draws guids. Nothing is written.
    ///
    /// # Errors
    /// When a device cannot be opened, is too small, or cannot have the sector size.
    pub(crate) async fn build(&self, env: &Arc<dyn Env>, id: VdevId) -> Result<Top, VdevError> {
        let mut ashift = Ashift::MIN;
        let mut asize = u64::MAX;
        let mut leaves = Vec::with_capacity(self.paths.len());
        for path in &self.paths {
            let (leaf, info) = open_new(env, id, path, self.create_txg).await?;
            if leaf.psize() < DEVICE_MIN_BYTES {
                return Err(VdevError::TooSmall { path: path.clone(), size_bytes: info.size_bytes });
            }
            ashift = ashift.max(leaf_ashift(path, &info, self.ashift)?);
            asize = asize.min(leaf_asize(leaf.psize()));
            leaves.push(Arc::new(leaf));
        }
        let (kind, guid) = match (leaves.as_slice(), self.parity) {
            ([], _) => return Err(VdevError::BadConfig { what: "a vdev needs a device".into() }),
            ([only], 0) => (NodeKind::Leaf, only.guid()),
            (_, 0) => (NodeKind::Mirror, draw_guid(env)),
            (leaves, parity) if self.data > 0 => (draid(leaves.len(), self.data, parity)?, draw_guid(env)),
            (leaves, parity) => (raidz(leaves.len(), parity)?, draw_guid(env)),
        };
        match kind {
            NodeKind::Raidz { .. } => asize *= leaves.len() as u64,
            NodeKind::Draid(shape) => asize = shape.asize(asize),
            _ => {}
        }
        // OpenZFS opens no vdev that is smaller than the smallest device.
        if let Some(leaf) = leaves.first().filter(|_| asize < leaf_asize(DEVICE_MIN_BYTES)) {
            return Err(VdevError::TooSmall { path: leaf.config().path, size_bytes: leaf.psize() });
        }
        let config = TopConfig {
            metaslab_shift: metaslab_shift(asize).into(),
            asize,
            bias: self.bias,
            create_txg: self.create_txg,
            ..Default::default()
        };
        let mut children: Vec<_> = leaves.into_iter().map(Node::Leaf).collect();
        let node = match kind {
            NodeKind::Leaf => children.swap_remove(0),
            kind => {
                let config = GroupConfig { guid, create_txg: self.create_txg, whole_disk: None };
                Node::group(kind, config, children)
            }
        };
        Ok(Top::new(env.clone(), TopId { id, guid, ashift }, config, node))
    }
}

/// A device that is to join a vdev that there is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NewLeaf {
    /// Where it is.
    pub path: PathBuf,
    /// Its sector size as asked for; `None` for the vdev's.
    pub ashift: Option<Ashift>,
    /// The group that it joins in, or that of the device whose place it takes.
    pub create_txg: u64,
    /// The guid of a hot spare that is put to work.
    pub spare: Option<Guid>,
}

/// A hot spare that waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewSpare {
    /// Where it is.
    pub path: PathBuf,
    /// Its guid, the same in all pools that share it.
    pub guid: Guid,
    /// What it is.
    pub kind: LeafKind,
    /// Its sector size.
    pub ashift: Ashift,
}

/// Makes a device a hot spare: it gets labels that say so, and name no pool. One that has such labels keeps them, for
/// another pool has it on its list, too.
///
/// # Errors
/// When it cannot be opened or written to, or is too small.
#[boxed]
pub async fn make_spare(env: &Arc<dyn Env>, path: &Path, version: u64) -> Result<NewSpare, VdevError> {
    let (leaf, info) = open_new(env, VdevId::new(0), path, 0).await?;
    if leaf.psize() < DEVICE_MIN_BYTES {
        return Err(VdevError::TooSmall { path: path.to_owned(), size_bytes: info.size_bytes });
    }
    let ashift = leaf_ashift(path, &info, None)?;
    let guid = match shared_spare(&leaf).await {
        Some(guid) => guid,
        None => {
            init_auxiliary(&leaf, version, Waiting::Spare).await?;
            leaf.guid()
        }
    };
    leaf.close();
    Ok(NewSpare { path: path.to_owned(), guid, kind: leaf.kind(), ashift })
}

impl VdevTree {
    /// Opens a device that is to be put beside one of a vdev's ([`VdevTree::put_beside`]). Nothing is written,
    /// and the vdev is as it was.
    ///
    /// # Errors
    /// When it cannot be opened, is smaller than the vdev needs ([`VdevError::TooSmall`]), or has larger
    /// sectors ([`VdevError::BadAshift`]).
    #[boxed]
    pub async fn plan_leaf(&self, vdev: VdevId, new: &NewLeaf) -> Result<Arc<Leaf>, VdevError> {
        if self.mode() == OpenMode::ReadOnly {
            return Err(VdevError::ReadOnly);
        }
        let top = self.top(vdev)?;
        let (leaf, info) = open_new(self.env(), vdev, &new.path, new.create_txg).await?;
        if let Some(spare) = new.spare {
            leaf.take_guid(spare);
            leaf.set_config(|config| config.is_spare = true);
        }
        if leaf_asize(leaf.psize()) < top.min_asize_of_leaf() {
            return Err(VdevError::TooSmall { path: new.path.clone(), size_bytes: info.size_bytes });
        }
        let ashift = leaf_ashift(&new.path, &info, new.ashift.or(Some(top.ashift())))?;
        if ashift > top.ashift() {
            return Err(VdevError::BadAshift { path: new.path.clone(), ashift: ashift.get() });
        }
        Ok(Arc::new(leaf))
    }
}

/// A new leaf with its device open for writing. The device may just have been detached.
pub(crate) async fn open_new(
    env: &Arc<dyn Env>,
    vdev: VdevId,
    path: &Path,
    create_txg: u64,
) -> Result<(Leaf, DeviceInfo), VdevError> {
    let opened = open_once_free(env, path, OpenMode::ReadWrite).await;
    let device = opened.map_err(|source| VdevError::Open { path: path.to_owned(), source })?;
    let info = device.info();
    let kind = if info.is_block_device { LeafKind::Disk } else { LeafKind::File };
    let config = LeafConfig { path: path.to_owned(), create_txg, ..Default::default() };
    let leaf = Leaf::closed(env.clone(), LeafId { vdev, guid: draw_guid(env), kind }, config);
    leaf.attach(path, device);
    Ok((leaf, info))
}

/// A raidz of so many children.
///
/// # Errors
/// [`VdevError::BadConfig`] for one that cannot be.
pub(crate) fn raidz(children: usize, parity: u8) -> Result<NodeKind, VdevError> {
    match Spread::raidz(children, parity) {
        Some(_) => Ok(NodeKind::Raidz { parity }),
        None => Err(VdevError::BadConfig { what: format!("{children} devices with parity {parity}") }),
    }
}

/// A draid of so many children, in groups of so many columns of data.
///
/// # Errors
/// [`VdevError::BadConfig`] for one that cannot be.
fn draid(children: usize, data: u8, parity: u8) -> Result<NodeKind, VdevError> {
    let shape = Shape::of_new(children as u64, data.into(), parity.into(), 0);
    shape.map(NodeKind::Draid).ok_or_else(|| VdevError::BadConfig {
        what: format!("{children} devices in groups of {data} with parity {parity}"),
    })
}

/// A guid that is not zero, which means "none".
pub(crate) fn draw_guid(env: &Arc<dyn Env>) -> Guid {
    loop {
        let raw = env.random_u64();
        if raw != 0 {
            return Guid::new(raw);
        }
    }
}
