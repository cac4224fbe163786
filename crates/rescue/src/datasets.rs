//! The datasets of one state of a pool, read in spite of damage.
//!
//! Datasets are found by scanning all objects of the meta-objset, not by following names, so a lost
//! name costs only the name. A component that stands for a lost name begins with `%`, which no
//! dataset name may contain.

use std::collections::BTreeMap;

use ondisk::dsl::{DslDatasetPhys, DslDirPhys};
use ondisk::{Blkptr, DnodeImage, ObjectType};

use crate::names::read_names;
use crate::objects::{ObjectSlot, ObjectTable, TablePart};

/// The deepest nesting of datasets that is followed.
const DEPTH_MAX: usize = 128;

/// A file system, volume or snapshot.
#[derive(Clone, Debug, PartialEq)]
pub struct FoundDataset {
    /// Its full name.
    pub name: String,
    /// Its object number in the meta-objset.
    pub object: u64,
    /// The pointer to its objset.
    pub root: Blkptr,
    /// The time of creation, in seconds since 1970.
    pub created_secs: u64,
    /// The bytes that it refers to, before compression.
    pub bytes: u64,
}

impl FoundDataset {
    /// True if nothing can be read without a key.
    #[must_use]
    pub fn is_encrypted(&self) -> bool {
        self.root.uses_crypt()
    }

    /// True for a snapshot.
    #[must_use]
    pub fn is_snapshot(&self) -> bool {
        self.name.contains('@')
    }
}

/// The datasets that were found.
#[derive(Clone, Debug, Default)]
pub struct FoundDatasets {
    /// The datasets, sorted by name.
    pub datasets: Vec<FoundDataset>,
    /// The number of objects in the meta-objset whose dnodes are lost. Some of them may be
    /// datasets.
    pub lost_objects: u64,
}

/// The dirs and datasets in the meta-objset.
#[derive(Default)]
struct Records {
    dirs: BTreeMap<u64, DslDirPhys>,
    datasets: BTreeMap<u64, DslDatasetPhys>,
    /// The component of each dir whose name is known.
    components: BTreeMap<u64, String>,
    /// The part after the `@` of each snapshot whose name is known.
    snapshots: BTreeMap<u64, String>,
}

/// Finds all datasets in the meta-objset `mos` of a pool with the name `pool`.
pub(crate) async fn find_datasets(mos: &ObjectTable<'_>, pool: &str) -> FoundDatasets {
    let mut found = FoundDatasets::default();
    let mut records = Records::default();
    let mut block = 0;
    while let Some((part, next)) = mos.part_at(block).await {
        match part {
            TablePart::Lost(objects) => found.lost_objects += objects.end - objects.start,
            TablePart::Objects(objects) => {
                objects.iter().for_each(|(object, image)| records.take(*object, image))
            }
        }
        block = next;
    }
    records.name_all(mos).await;
    found.datasets =
        records.datasets.iter().filter_map(|(object, phys)| records.dataset(*object, phys, pool)).collect();
    found.datasets.sort_by(|a, b| a.name.cmp(&b.name));
    found
}

impl Records {
    fn take(&mut self, object: u64, image: &DnodeImage) {
        if image.bonus_type == ObjectType::DSL_DIR {
            self.dirs.extend(DslDirPhys::decode(&image.bonus).ok().map(|phys| (object, phys)));
        } else if image.bonus_type == ObjectType::DSL_DATASET {
            self.datasets.extend(DslDatasetPhys::decode(&image.bonus).ok().map(|phys| (object, phys)));
        }
    }

    async fn name_all(&mut self, mos: &ObjectTable<'_>) {
        let children: Vec<u64> = self.dirs.values().map(|dir| dir.child_dirs.get()).collect();
        for table in children {
            self.components.extend(named(mos, table).await);
        }
        let snapshots: Vec<u64> = self.datasets.values().map(|phys| phys.snapshot_names.get()).collect();
        for table in snapshots {
            self.snapshots.extend(named(mos, table).await);
        }
    }

    fn dataset(&self, object: u64, phys: &DslDatasetPhys, pool: &str) -> Option<FoundDataset> {
        let dir = phys.dir.get();
        let path = self.path_of(dir, pool)?;
        let is_head = self.dirs.get(&dir).is_some_and(|dir| dir.head_dataset.get() == object);
        let name = match self.snapshots.get(&object) {
            Some(snapshot) => format!("{path}@{snapshot}"),
            None if is_head || !phys.is_snapshot() => path,
            None => format!("{path}@%snapshot-{object}"),
        };
        Some(FoundDataset {
            name,
            object,
            root: phys.bp,
            created_secs: phys.creation_time.get(),
            bytes: phys.uncompressed_bytes.get(),
        })
    }

    /// Returns the name of a dir. `None` for a hidden dir.
    fn path_of(&self, dir: u64, pool: &str) -> Option<String> {
        let mut components = Vec::new();
        let mut at = dir;
        for _ in 0..DEPTH_MAX {
            let Some(phys) = self.dirs.get(&at) else {
                components.push(format!("%dir-{at}"));
                break;
            };
            if phys.parent.get() == 0 {
                break;
            }
            let component = self.components.get(&at).cloned().unwrap_or_else(|| format!("%dir-{at}"));
            if component.starts_with('$') {
                return None;
            }
            components.push(component);
            at = phys.parent.get();
        }
        components.push(pool.to_owned());
        components.reverse();
        Some(components.join("/"))
    }
}

/// Returns the objects that a ZAP names, with their names.
async fn named(mos: &ObjectTable<'_>, table: u64) -> Vec<(u64, String)> {
    if table == 0 {
        return Vec::new();
    }
    let ObjectSlot::Found(image) = mos.get(table).await else { return Vec::new() };
    let names = read_names(&mos.tree(table, &image)).await;
    names.values.iter().filter_map(|value| Some((value.word()?, component(&value.name)))).collect()
}

/// Returns a component of a dataset name, or the name of a snapshot, with invalid bytes replaced,
/// because names are printed and become directories.
pub(crate) fn component(name: &[u8]) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.: %$".contains(&byte);
    let is_only_dots = name.iter().all(|&byte| byte == b'.');
    let mut out = String::new();
    for &byte in name {
        match is_plain(byte) && !is_only_dots {
            true => out.push(byte.into()),
            false => out.push_str(&format!("%{byte:02x}")),
        }
    }
    if out.is_empty() { "%".to_owned() } else { out }
}

#[cfg(test)]
mod tests {
    use super::component;

    #[test]
    fn components_are_single_printable_names() {
        assert_eq!(component(b"home-2.a b"), "home-2.a b");
        assert_eq!(component(b".."), "%2e%2e");
        assert_eq!(component(b"../x@y"), "..%2fx%40y");
        assert_eq!(component(b"\x1b"), "%1b");
        assert_eq!(component(b""), "%");
    }
}
