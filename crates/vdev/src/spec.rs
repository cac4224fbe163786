//! New vdevs: from what an administrator asks for to opened leaves and sizes.

use std::path::PathBuf;
use std::sync::Arc;

use device::{Env, OpenMode};
use units::{Ashift, Guid, Spread, VdevId};

use crate::leaf::{LeafConfig, LeafId};
use crate::size::{DEVICE_MIN_BYTES, leaf_ashift, leaf_asize, leaf_psize, metaslab_shift};
use crate::top::{TopConfig, TopId};
use crate::{Bias, Leaf, LeafKind, Top, TopKind, VdevError};

/// A top-level vdev to be made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NewVdev {
    /// One path makes a leaf; several make a mirror, or with parity a raidz.
    pub paths: Vec<PathBuf>,
    /// How many devices of a raidz may be lost: 1 to 3; 0 for anything else.
    pub parity: u8,
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
            let device = env
                .open(path, OpenMode::ReadWrite)
                .await
                .map_err(|source| VdevError::Open { path: path.clone(), source })?;
            let info = device.info();
            if leaf_psize(info.size_bytes) < DEVICE_MIN_BYTES {
                return Err(VdevError::TooSmall { path: path.clone(), size_bytes: info.size_bytes });
            }
            ashift = ashift.max(leaf_ashift(path, &info, self.ashift)?);
            asize = asize.min(leaf_asize(leaf_psize(info.size_bytes)));
            let kind = if info.is_block_device { LeafKind::Disk } else { LeafKind::File };
            let config = LeafConfig { path: path.clone(), create_txg: self.create_txg, ..Default::default() };
            let leaf = Leaf::closed(env.clone(), LeafId { vdev: id, guid: draw_guid(env), kind }, config);
            leaf.attach(path, device);
            leaves.push(Arc::new(leaf));
        }
        let (kind, guid) = match (leaves.as_slice(), self.parity) {
            ([], _) => return Err(VdevError::BadConfig { what: "a vdev needs a device".into() }),
            ([only], 0) => (TopKind::Leaf, only.guid()),
            (_, 0) => (TopKind::Mirror, draw_guid(env)),
            (leaves, parity) => (raidz(leaves.len(), parity)?, draw_guid(env)),
        };
        if let TopKind::Raidz { .. } = kind {
            asize *= leaves.len() as u64;
        }
        let config = TopConfig {
            metaslab_shift: metaslab_shift(asize).into(),
            asize,
            bias: self.bias,
            create_txg: self.create_txg,
            ..Default::default()
        };
        Ok(Top::new(env.clone(), TopId { id, guid, kind, ashift }, config, leaves))
    }
}

/// A raidz of so many leaves.
///
/// # Errors
/// [`VdevError::BadConfig`] for one that cannot be.
pub(crate) fn raidz(leaves: usize, parity: u8) -> Result<TopKind, VdevError> {
    match Spread::raidz(leaves, parity) {
        Some(_) => Ok(TopKind::Raidz { parity }),
        None => Err(VdevError::BadConfig { what: format!("{leaves} devices with parity {parity}") }),
    }
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
