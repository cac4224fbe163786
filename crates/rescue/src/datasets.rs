//! The datasets of one state of a pool, read in spite of damage.
//!
//! Datasets are found by going over all objects of the meta-objset, and not by following names: a
//! name that is lost costs the name. A component that stands for a lost name begins with `%`, which
//! no name of a dataset may.

use std::collections::BTreeMap;

use ondisk::dsl::{DslDatasetPhys, DslDirPhys};
use ondisk::{Blkptr, DnodeImage, ObjectType};

use crate::names::read_names;
use crate::objects::{ObjectSlot, ObjectTable, TablePart};

/// Deepest nesting of datasets that is followed.
const DEPTH_MAX: usize = 128;

/// A file system, volume or snapshot.
#[derive(Clone, Debug, PartialEq)]
pub struct FoundDataset {
    /// Its full name.
    pub name: String,
    /// Its number: the object in the meta-objset.
    pub object: u64,
    /// Where its objects are.
    pub root: Blkptr,
    /// When it was made, in seconds since 1970.
    pub created_secs: u64,
    /// Bytes that it refers to, before compression.
    pub bytes: u64,
}

impl FoundDataset {
    /// Whether nothing can be read without a key.
    #[must_use]
    pub fn is_encrypted(&self) -> bool {
        self.root.uses_crypt()
    }

    /// Whether it is a snapshot.
    #[must_use]
    pub fn is_snapshot(&self) -> bool {
        self.name.contains('@')
    }
}

/// All datasets that were found.
#[derive(Clone, Debug, Default)]
pub struct FoundDatasets {
    /// By name.
    pub datasets: Vec<FoundDataset>,
    /// Objects of the meta-objset whose dnodes are lost: datasets may be among them.
    pub lost_objects: u64,
}

/// What the meta-objset holds of datasets.
#[derive(Default)]
struct Records {
    dirs: BTreeMap<u64, DslDirPhys>,
    datasets: BTreeMap<u64, DslDatasetPhys>,
    /// Component and parent of each dir whose name is known.
    components: BTreeMap<u64, String>,
    /// The part behind the `@` of each snapshot whose name is known.
    snapshots: BTreeMap<u64, String>,
}

/// All datasets in the meta-objset `mos` of a pool called `pool`.
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

    /// The name of a dir; none if people do not see it.
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

/// The objects that a ZAP names, with their names.
async fn named(mos: &ObjectTable<'_>, table: u64) -> Vec<(u64, String)> {
    if table == 0 {
        return Vec::new();
    }
    let ObjectSlot::Found(image) = mos.get(table).await else { return Vec::new() };
    let names = read_names(&mos.tree(table, &image)).await;
    names.values.iter().filter_map(|value| Some((value.word()?, component(&value.name)))).collect()
}

/// A component of a name, or the name of a snapshot, without bytes that no such name may have:
/// names are printed, and become directories.
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
