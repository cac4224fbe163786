//! Determines which device is which part of the pool.
//!
//! ```text
//!  a label is readable  the tree of its top-level vdev; devices by guid, then by elimination
//!  no label             one device: itself; several: by the options, else mirror, stripe, raidz
//!                       (a draid needs options)
//!  then                 the root is read, and the configuration in the meta-objset replaces both
//! ```
//! A guess counts only if the root of a state verifies, so a wrong guess costs only time.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use ondisk::NvList;
use ondisk::config::{self as key, vdev_type};
use units::Guid;
use vdev::{FoundLeaf, Shape, candidates, leaf_asize, leaf_psize};

use crate::RescueError;
use crate::states::DeviceLabels;

/// The guid of the first leaf in a tree without labels. The next leaves get the following numbers.
const GUESSED_GUID: u64 = 1;
/// The sector sizes that are tried, as base-2 logarithms, most frequent first.
const ASHIFTS: [u8; 5] = [12, 9, 13, 14, 16];
/// The highest parity of a raidz.
const PARITY_MAX: u8 = 3;

/// The layout of a draid, which cannot be guessed.
#[derive(Clone, Copy, Debug)]
pub struct DraidHint {
    /// The number of parity columns of a stripe.
    pub parity: u8,
    /// The number of data columns of a stripe.
    pub data: u64,
    /// The number of distributed spares.
    pub spares: u64,
}

/// The options for devices without labels.
#[derive(Clone, Debug, Default)]
pub struct LayoutHint {
    /// The parity, if the devices are a raidz.
    pub raidz: Option<u8>,
    /// The layout, if the devices are a draid.
    pub draid: Option<DraidHint>,
    /// The devices in the order of the pool's configuration. `None` stands for a missing device.
    pub children: Vec<Option<PathBuf>>,
    /// The base-2 logarithm of the sector size.
    pub ashift: Option<u8>,
    /// The name or guid of the pool, if the devices belong to several pools.
    pub pool: Option<String>,
}

/// The vdevs of a pool and the paths of their leaves.
#[derive(Clone, Debug)]
pub struct Geometry {
    /// The vdev tree, as in a configuration.
    pub tree: NvList,
    /// The path of each leaf, by guid.
    pub paths: BTreeMap<Guid, PathBuf>,
    /// The name of the pool, if a label has it.
    pub pool: Option<String>,
    /// All devices, with the guids in their labels.
    devices: Vec<(PathBuf, Option<Guid>)>,
}

impl Geometry {
    /// Returns all arrangements to try, the most likely first.
    ///
    /// # Errors
    /// [`RescueError::Ambiguous`].
    pub fn possible(devices: &[DeviceLabels], hint: &LayoutHint) -> Result<Vec<Self>, RescueError> {
        let mut possible = Vec::new();
        if hint.raidz.is_none() && hint.draid.is_none() && hint.children.is_empty() {
            possible.extend(of_labels(devices, hint)?);
        }
        possible.extend(Guess { devices, hint }.all());
        Ok(possible)
    }

    /// Returns the arrangement according to the configuration in the meta-objset. `None` if that
    /// has no vdevs.
    pub(crate) fn refined(&self, config: &NvList) -> Option<Self> {
        let tree = config.get_nvlist(key::VDEV_TREE)?;
        if *tree == self.tree {
            return None;
        }
        let mut refined = Self { tree: tree.clone(), paths: BTreeMap::new(), ..self.clone() };
        refined.assign_by_guid();
        refined.assign_as_in(self);
        refined.assign_rest();
        Some(refined)
    }

    /// Assigns each device to the leaf that its label names.
    fn assign_by_guid(&mut self) {
        let leaves: BTreeSet<Guid> = self.leaves().into_iter().map(|leaf| leaf.guid).collect();
        for (path, guid) in &self.devices {
            if let Some(guid) = guid.filter(|guid| leaves.contains(guid)) {
                self.paths.entry(guid).or_insert_with(|| path.clone());
            }
        }
    }

    /// Assigns each device to the leaf at its position in `earlier`, if the top-level vdev has the
    /// same number of leaves.
    fn assign_as_in(&mut self, earlier: &Self) {
        let (old, new) = (earlier.leaves(), self.leaves());
        let width =
            |leaves: &[TreeLeaf], top: usize| leaves.iter().filter(|leaf| leaf.place.0 == top).count();
        for leaf in &new {
            let same = old.iter().find(|old| old.place == leaf.place);
            let same = same.filter(|_| width(&old, leaf.place.0) == width(&new, leaf.place.0));
            if let Some(path) = same.and_then(|same| earlier.paths.get(&same.guid)) {
                self.assign(leaf.guid, path);
            }
        }
    }

    /// Assigns devices without labels to leaves without devices: first by file name, then the last
    /// device to the last leaf.
    fn assign_rest(&mut self) {
        for leaf in self.leaves() {
            let is_it = |path: &Path| path.file_name().is_some() && path.file_name() == leaf.path.file_name();
            let named = self.unassigned().into_iter().filter(|path| is_it(path)).collect::<Vec<_>>();
            if let [path] = named.as_slice() {
                self.assign(leaf.guid, path);
            }
        }
        let free: Vec<Guid> = self
            .leaves()
            .iter()
            .map(|leaf| leaf.guid)
            .filter(|guid| !self.paths.contains_key(guid))
            .collect();
        if let (&[guid], [path]) = (free.as_slice(), self.unassigned().as_slice()) {
            self.assign(guid, path);
        }
    }

    fn assign(&mut self, guid: Guid, path: &Path) {
        if !self.paths.contains_key(&guid) && !self.paths.values().any(|taken| taken == path) {
            self.paths.insert(guid, path.to_owned());
        }
    }

    /// Returns the devices that are assigned to no leaf and whose labels name none.
    fn unassigned(&self) -> Vec<PathBuf> {
        let is_free = |path: &PathBuf| !self.paths.values().any(|taken| taken == path);
        let unnamed = self.devices.iter().filter(|(_, guid)| guid.is_none()).map(|(path, _)| path);
        unnamed.filter(|path| is_free(path)).cloned().collect()
    }

    fn leaves(&self) -> Vec<TreeLeaf> {
        let tops = self.tree.get_nvlist_array(key::CHILDREN).unwrap_or_default();
        let mut leaves = Vec::new();
        for (index, top) in tops.iter().enumerate() {
            let mut count = 0;
            collect_leaves(top, index, &mut count, &mut leaves);
        }
        leaves
    }
}

/// A leaf of a tree.
struct TreeLeaf {
    guid: Guid,
    path: PathBuf,
    /// The index of its top-level vdev, and its own index among the leaves of that vdev.
    place: (usize, usize),
}

fn collect_leaves(vdev: &NvList, top: usize, count: &mut usize, into: &mut Vec<TreeLeaf>) {
    match (vdev.get_nvlist_array(key::CHILDREN), vdev.get_str(key::TYPE)) {
        (Some(children), _) => children.iter().for_each(|child| collect_leaves(child, top, count, into)),
        (None, Some(vdev_type::FILE | vdev_type::DISK)) => {
            let guid = Guid::new(vdev.get_u64(key::GUID).unwrap_or(0));
            let path = PathBuf::from(vdev.get_str(key::PATH).unwrap_or_default());
            into.push(TreeLeaf { guid, path, place: (top, *count) });
            *count += 1;
        }
        _ => {}
    }
}

/// Returns the arrangement according to the labels, if there are any.
fn of_labels(devices: &[DeviceLabels], hint: &LayoutHint) -> Result<Option<Geometry>, RescueError> {
    let with_labels = devices.iter().filter(|device| device.labels.config(None).is_some());
    let found: Vec<_> = with_labels
        .map(|device| FoundLeaf { path: device.path.clone(), labels: device.labels.clone() })
        .collect();
    let mut pools = candidates(&found);
    if let Some(wanted) = &hint.pool {
        pools.retain(|pool| pool.pool.name == *wanted || pool.guid.get().to_string() == *wanted);
    }
    if pools.len() > 1 {
        let names: Vec<_> = pools.iter().map(|pool| format!("{} ({})", pool.pool.name, pool.guid)).collect();
        return Err(RescueError::Ambiguous { names: names.join(", ") });
    }
    let Some(pool) = pools.pop() else { return Ok(None) };
    let mut geometry = Geometry {
        paths: pool.paths_in(&pool.vdev_tree),
        tree: pool.vdev_tree,
        pool: Some(pool.pool.name),
        devices: devices.iter().map(|device| (device.path.clone(), device.labels.guid())).collect(),
    };
    geometry.assign_rest();
    Ok(Some(geometry))
}

/// Arrangements of devices without labels.
struct Guess<'a> {
    devices: &'a [DeviceLabels],
    hint: &'a LayoutHint,
}

impl Guess<'_> {
    fn all(&self) -> Vec<Geometry> {
        let children = self.children();
        let width = children.len();
        let mut all = Vec::new();
        for ashift in self.hint.ashift.map_or_else(|| ASHIFTS.to_vec(), |ashift| vec![ashift]) {
            match (self.hint.raidz, self.hint.draid) {
                (_, Some(draid)) => all.extend(self.draid(draid, &children, ashift)),
                (Some(parity), None) => all.push(self.raidz(parity, &children, ashift)),
                (None, None) if width == 1 => all.push(self.stripe(&children, ashift)),
                (None, None) => {
                    all.push(self.mirror(&children, ashift));
                    all.push(self.stripe(&children, ashift));
                    let parities = (1..=PARITY_MAX).filter(|parity| usize::from(*parity) < width);
                    all.extend(parities.map(|parity| self.raidz(parity, &children, ashift)));
                }
            }
        }
        all
    }

    fn children(&self) -> Vec<Option<&DeviceLabels>> {
        if self.hint.children.is_empty() {
            return self.devices.iter().map(Some).collect();
        }
        let of_path = |path: &PathBuf| self.devices.iter().find(|device| device.path == *path);
        self.hint.children.iter().map(|path| path.as_ref().and_then(of_path)).collect()
    }

    fn geometry(&self, tops: Vec<NvList>, children: &[Option<&DeviceLabels>]) -> Geometry {
        let mut tree = NvList::new();
        tree.add_str(key::TYPE, vdev_type::ROOT).add_u64(key::ID, 0).add_u64(key::GUID, 0);
        tree.add_nvlist_array(key::CHILDREN, tops);
        let paths = (GUESSED_GUID..).zip(children);
        let paths = paths.filter_map(|(guid, child)| Some((Guid::new(guid), (*child)?.path.clone())));
        Geometry {
            tree,
            paths: paths.collect(),
            pool: None,
            devices: self.devices.iter().map(|device| (device.path.clone(), device.labels.guid())).collect(),
        }
    }

    fn stripe(&self, children: &[Option<&DeviceLabels>], ashift: u8) -> Geometry {
        let tops = children.iter().enumerate().map(|(id, child)| {
            let mut top = leaf(GUESSED_GUID + id as u64, *child);
            finish_top(&mut top, id as u64, ashift, asize(*child));
            top
        });
        self.geometry(tops.collect(), children)
    }

    fn mirror(&self, children: &[Option<&DeviceLabels>], ashift: u8) -> Geometry {
        let mut top = group(vdev_type::MIRROR, children);
        finish_top(&mut top, 0, ashift, smallest_asize(children));
        self.geometry(vec![top], children)
    }

    /// Returns `None` if no such draid is possible.
    fn draid(&self, hint: DraidHint, children: &[Option<&DeviceLabels>], ashift: u8) -> Option<Geometry> {
        let count = children.len() as u64;
        let shape = Shape::of_new(count, hint.data, hint.parity.into(), hint.spares)?;
        let mut top = group(vdev_type::DRAID, children);
        top.add_u64(key::NPARITY, hint.parity.into()).add_u64(key::DRAID_NDATA, hint.data);
        top.add_u64(key::DRAID_NSPARES, hint.spares).add_u64(key::DRAID_NGROUPS, shape.groups());
        finish_top(&mut top, 0, ashift, shape.asize(smallest_asize(children)));
        Some(self.geometry(vec![top], children))
    }

    fn raidz(&self, parity: u8, children: &[Option<&DeviceLabels>], ashift: u8) -> Geometry {
        let mut top = group(vdev_type::RAIDZ, children);
        top.add_u64(key::NPARITY, parity.into());
        finish_top(&mut top, 0, ashift, smallest_asize(children).saturating_mul(children.len() as u64));
        self.geometry(vec![top], children)
    }
}

fn smallest_asize(children: &[Option<&DeviceLabels>]) -> u64 {
    children.iter().flatten().map(|child| asize(Some(child))).min().unwrap_or(0)
}

fn asize(child: Option<&DeviceLabels>) -> u64 {
    child.map_or(0, |child| leaf_asize(leaf_psize(child.size_bytes)))
}

fn leaf(guid: u64, child: Option<&DeviceLabels>) -> NvList {
    let mut leaf = NvList::new();
    let kind =
        if child.is_some_and(|child| child.is_block_device) { vdev_type::DISK } else { vdev_type::FILE };
    let path = child.map_or_else(String::new, |child| child.path.display().to_string());
    leaf.add_str(key::TYPE, kind).add_u64(key::GUID, guid).add_str(key::PATH, path);
    leaf
}

fn group(kind: &str, children: &[Option<&DeviceLabels>]) -> NvList {
    let mut top = NvList::new();
    top.add_str(key::TYPE, kind).add_u64(key::GUID, GUESSED_GUID + children.len() as u64);
    let below = children.iter().enumerate().map(|(id, child)| {
        let mut below = leaf(GUESSED_GUID + id as u64, *child);
        below.add_u64(key::ID, id as u64);
        below
    });
    top.add_nvlist_array(key::CHILDREN, below.collect());
    top
}

/// Sets the values that every top-level vdev has.
fn finish_top(top: &mut NvList, id: u64, ashift: u8, asize: u64) {
    top.add_u64(key::ID, id).add_u64(key::ASHIFT, ashift.into()).add_u64(key::ASIZE, asize);
    top.add_u64(key::METASLAB_ARRAY, 0).add_u64(key::METASLAB_SHIFT, 0).add_u64(key::IS_LOG, 0);
}
