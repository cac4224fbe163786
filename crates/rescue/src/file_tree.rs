//! The files of one dataset, read in spite of damage.

use ondisk::sa::{LAYOUTS, REGISTRY, SaAttr};
use ondisk::znode::master;
use ondisk::{Dirent, DnodeImage, NvList, NvValue, ObjectType};
use units::ObjectId;
use zpl::{FileKind, MASTER_NODE, SaTables};

use crate::attributes::FileAttributes;
use crate::contents::read_whole;
use crate::names::{ReadNames, read_names};
use crate::objects::{ObjectSlot, ObjectTable, TablePart};
use crate::tree::BlockTree;

/// The largest extended attribute or link text, because Linux accepts no larger one.
const VALUE_BYTES_MAX: u64 = 64 << 10;

/// A file that was found.
#[derive(Clone, Debug)]
pub struct FoundFile {
    /// Its object number.
    pub object: u64,
    /// Its dnode.
    pub image: DnodeImage,
    /// Its attributes.
    pub attributes: FileAttributes,
    /// Why its attributes are made up, if the real ones are lost.
    pub lost_attributes: Option<String>,
}

/// The result of the search for a file.
#[derive(Debug)]
pub enum FileSlot {
    /// The file.
    Found(Box<FoundFile>),
    /// There is no such object, or the object is not a file.
    None,
    /// The dnode of the object is lost.
    Lost(String),
}

/// The readable extended attributes of a file, and the lost ones.
#[derive(Debug, Default)]
pub struct FoundXattrs {
    /// Names and values.
    pub values: Vec<(Vec<u8>, Vec<u8>)>,
    /// Descriptions of the lost parts.
    pub lost: Vec<String>,
}

/// The files of one dataset.
pub struct FileTree<'a> {
    table: ObjectTable<'a>,
    tables: SaTables,
    /// The root directory. `None` if the master node is lost.
    root: Option<u64>,
    /// A hidden directory of the format.
    shares: Option<u64>,
    /// Lost parts that affect all files.
    pub lost: Vec<String>,
}

impl<'a> FileTree<'a> {
    /// Opens the file system in these objects.
    pub async fn open(table: ObjectTable<'a>) -> Self {
        let mut lost = Vec::new();
        let names = names_at(&table, MASTER_NODE.get(), "the master node", &mut lost).await;
        let sa = named_or_of_type(&table, &names, master::SA_ATTRS, ObjectType::SA_MASTER_NODE).await;
        let tables = match sa {
            Some(object) => attribute_tables(&table, object, &mut lost).await,
            None => SaTables::new(&[], &[]),
        };
        let (root, shares) = (names.word(master::ROOT), names.word(master::SHARES));
        Self { table, tables, root, shares, lost }
    }

    /// Returns the objects of the dataset.
    pub fn table(&self) -> &ObjectTable<'a> {
        &self.table
    }

    /// Returns the root directory. `None` if the master node is lost.
    pub fn root(&self) -> Option<u64> {
        self.root
    }

    /// True if an object is a hidden directory of the format.
    pub fn is_own(&self, object: u64) -> bool {
        self.shares == Some(object)
    }

    /// Returns the file with this object number.
    pub async fn file(&self, object: u64) -> FileSlot {
        match self.table.get(object).await {
            ObjectSlot::Free => FileSlot::None,
            ObjectSlot::Lost(why) => FileSlot::Lost(why),
            ObjectSlot::Found(image) => match self.file_of(object, *image).await {
                Some(file) => FileSlot::Found(Box::new(file)),
                None => FileSlot::None,
            },
        }
    }

    /// Returns the file of a dnode. `None` if the dnode does not belong to a file.
    pub async fn file_of(&self, object: u64, image: DnodeImage) -> Option<FoundFile> {
        let is_file = [ObjectType::PLAIN_FILE_CONTENTS, ObjectType::DIRECTORY_CONTENTS];
        if !is_file.contains(&image.object_type) {
            return None;
        }
        let read = match self.spill(object, &image).await {
            Ok(spill) => FileAttributes::read(&self.tables, &image, spill),
            Err(why) => Err(why),
        };
        let (attributes, lost_attributes) = match read {
            Ok(attributes) => (attributes, None),
            // Some attributes may be readable without the spill block.
            Err(why) => match FileAttributes::read(&self.tables, &image, None) {
                Ok(attributes) => (attributes, Some(why)),
                Err(_) => (FileAttributes::unknown(&image), Some(why)),
            },
        };
        Some(FoundFile { object, image, attributes, lost_attributes })
    }

    async fn spill(&self, object: u64, image: &DnodeImage) -> Result<Option<Vec<u8>>, String> {
        let Some(bp) = image.spill.filter(|bp| !bp.is_hole()) else { return Ok(None) };
        let tree = self.table.tree(object, image);
        Ok(Some(tree.read(u64::MAX, &bp).await?.to_vec()))
    }

    /// Returns the block tree of a file.
    pub fn blocks<'b>(&self, file: &'b FoundFile) -> BlockTree<'b>
    where
        'a: 'b,
    {
        self.table.tree(file.object, &file.image)
    }

    /// Returns the entries of a directory (name and object), sorted by name, and the number of lost
    /// blocks of the directory.
    pub async fn entries(&self, directory: &FoundFile) -> (Vec<(Vec<u8>, u64)>, u64) {
        let names = read_names(&self.blocks(directory)).await;
        let entry = |value: &crate::names::NamedValue| {
            Some((value.name.clone(), Dirent::from_word(value.word()?).object.get()))
        };
        (names.values.iter().filter_map(entry).collect(), names.lost_blocks)
    }

    /// Returns the text of a symbolic link. `None` if the text is lost.
    pub async fn target(&self, link: &FoundFile) -> Option<Vec<u8>> {
        match &link.attributes.target {
            Some(target) => Some(target.clone()),
            None => read_whole(&self.blocks(link), value_len(link.attributes.size)?).await,
        }
    }

    /// Returns all extended attributes of a file.
    pub async fn xattrs(&self, file: &FoundFile) -> FoundXattrs {
        let mut found = FoundXattrs::default();
        if let Some(packed) = &file.attributes.packed_xattrs {
            match NvList::decode(packed) {
                Ok(list) => found.values.extend(list.iter().filter_map(|(name, value)| match value {
                    NvValue::ByteArray(value) => Some((name.as_bytes().to_vec(), value.clone())),
                    _ => None,
                })),
                Err(error) => found.lost.push(error.to_string()),
            }
        }
        if file.attributes.xattr_dir != 0 {
            self.xattr_files(file.attributes.xattr_dir, &mut found).await;
        }
        found
    }

    /// Reads the extended attributes that are files in a hidden directory.
    async fn xattr_files(&self, directory: u64, into: &mut FoundXattrs) {
        let directory = match self.file(directory).await {
            FileSlot::Found(file) if file.attributes.kind == FileKind::Directory => file,
            FileSlot::Found(_) | FileSlot::None => {
                return into.lost.push("no directory of attributes".into());
            }
            FileSlot::Lost(why) => return into.lost.push(why),
        };
        let (entries, lost_blocks) = self.entries(&directory).await;
        if lost_blocks > 0 {
            into.lost.push("names of attributes".into());
        }
        for (name, object) in entries {
            match self.xattr_file(object).await {
                Some(value) => into.values.push((name, value)),
                None => into.lost.push(String::from_utf8_lossy(&name).into_owned()),
            }
        }
    }

    async fn xattr_file(&self, object: u64) -> Option<Vec<u8>> {
        let FileSlot::Found(file) = self.file(object).await else { return None };
        if file.lost_attributes.is_some() {
            return None;
        }
        read_whole(&self.blocks(&file), value_len(file.attributes.size)?).await
    }
}

fn value_len(size: u64) -> Option<usize> {
    usize::try_from(size).ok().filter(|_| size <= VALUE_BYTES_MAX)
}

/// Returns the entries of a ZAP that affects all files.
async fn names_at(table: &ObjectTable<'_>, object: u64, what: &str, lost: &mut Vec<String>) -> ReadNames {
    let names = match table.get(object).await {
        ObjectSlot::Found(image) => read_names(&table.tree(object, &image)).await,
        ObjectSlot::Free | ObjectSlot::Lost(_) => ReadNames { values: Vec::new(), lost_blocks: 1 },
    };
    if names.lost_blocks > 0 {
        lost.push(format!("{what} (object {object})"));
    }
    names
}

/// Returns the object with this name. If names are lost, returns the first object of the required
/// type.
async fn named_or_of_type(
    table: &ObjectTable<'_>,
    names: &ReadNames,
    name: &str,
    kind: ObjectType,
) -> Option<u64> {
    if names.lost_blocks == 0 || names.get(name).is_some() {
        return names.word(name);
    }
    let mut block = 0;
    while let Some((part, next)) = table.part_at(block).await {
        if let TablePart::Objects(objects) = part
            && let Some((object, _)) = objects.iter().find(|(_, image)| image.object_type == kind)
        {
            return Some(*object);
        }
        block = next;
    }
    None
}

/// Reads the tables that describe the layout of system attributes.
async fn attribute_tables(table: &ObjectTable<'_>, object: u64, lost: &mut Vec<String>) -> SaTables {
    let names = names_at(table, object, "the tables of attributes", lost).await;
    let registry = named_or_of_type(table, &names, REGISTRY, ObjectType::SA_ATTR_REGISTRATION).await;
    let layouts = named_or_of_type(table, &names, LAYOUTS, ObjectType::SA_ATTR_LAYOUTS).await;
    let registry = match registry {
        Some(object) => names_at(table, object, "the registry of attributes", lost).await,
        None => ReadNames::default(),
    };
    let layouts = match layouts {
        Some(object) => names_at(table, object, "the layouts of attributes", lost).await,
        None => ReadNames::default(),
    };
    let registry: Vec<_> = registry
        .values
        .iter()
        .filter_map(|value| Some((value.text()?.to_owned(), SaAttr::from_word(value.word()?).ok()?)))
        .collect();
    let layouts: Vec<_> = layouts
        .values
        .iter()
        .filter_map(|value| Some((value.text()?.parse().ok()?, value.halves()?)))
        .collect();
    SaTables::new(&registry, &layouts)
}

/// Returns the size of a volume in bytes. If the size is lost, all blocks count.
pub async fn volume_size(table: &ObjectTable<'_>, data: &DnodeImage) -> u64 {
    const FACTS: ObjectId = ObjectId::new(2);
    let all = data.max_block_id.get().saturating_add(1).saturating_mul(data.data_block_bytes());
    match table.get(FACTS.get()).await {
        ObjectSlot::Found(image) => {
            read_names(&table.tree(FACTS.get(), &image)).await.word("size").unwrap_or(all)
        }
        ObjectSlot::Free | ObjectSlot::Lost(_) => all,
    }
}
