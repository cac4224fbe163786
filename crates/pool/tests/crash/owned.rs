//! Whether every object of a file system is somebody's.
//!
//! ```text
//!   master node ─┬─ ROOT ─► directory ─► names ─► directories, files …
//!                ├─ DELETE_QUEUE ─► what lost its last name
//!                └─ SA_ATTRS, FUID, … ─► tables
//! ```
//! A check of blocks is not enough: the blocks of a file that is in no directory are reachable from
//! its dnode, and their space adds up. (test: `a_planted_object_without_a_name_is_found`) Files
//! whose attributes are directories of their own are not among those that the lanes create.

use std::collections::BTreeSet;
use std::error::Error;
use std::sync::Arc;

use dmu::Objset;
use dmu::zap::Zap;
use ondisk::ObjectType;
use ondisk::dirent::Dirent;
use ondisk::objset::ObjsetType;
use ondisk::znode::{MASTER_NODE, master};
use units::ObjectId;

/// Entries of the master node that are no objects.
const NUMBERS: [&str; 5] =
    [master::VERSION, master::FSID, master::NORMALIZATION, master::UTF8ONLY, master::CASESENSITIVITY];

/// Walks the file system in an objset; panics for an object that nobody has, or a name that leads to none.
pub async fn check(objset: &Arc<Objset>) -> Result<(), Box<dyn Error>> {
    if objset.kind() != ObjsetType::Zfs {
        return Ok(());
    }
    let mut owned = BTreeSet::from([MASTER_NODE]);
    for entry in Zap::hold(objset, MASTER_NODE).await?.all().await? {
        let name = String::from_utf8_lossy(&entry.name).into_owned();
        let Some(object) = entry.value.as_u64().filter(|_| !NUMBERS.contains(&name.as_str())) else {
            continue;
        };
        owned.insert(ObjectId::new(object));
        match name.as_str() {
            master::ROOT => tree(objset, ObjectId::new(object), &mut owned).await?,
            master::DELETE_QUEUE | master::SA_ATTRS => {
                owned.extend(numbers(objset, ObjectId::new(object)).await?);
            }
            _ => {}
        }
    }
    assert_eq!(objects(objset).await?, owned, "objects that there are, and those that somebody has");
    Ok(())
}

/// What is in a ZAP of objects.
async fn numbers(objset: &Arc<Objset>, zap: ObjectId) -> Result<Vec<ObjectId>, Box<dyn Error>> {
    let entries = Zap::hold(objset, zap).await?.all().await?;
    Ok(entries.iter().filter_map(|entry| entry.value.as_u64()).map(ObjectId::new).collect())
}

async fn tree(
    objset: &Arc<Objset>,
    root: ObjectId,
    owned: &mut BTreeSet<ObjectId>,
) -> Result<(), Box<dyn Error>> {
    let mut todo = vec![root];
    while let Some(dir) = todo.pop() {
        for word in numbers(objset, dir).await? {
            let object = Dirent::from_word(word.get()).object;
            let is_new = owned.insert(object);
            if is_new && objset.hold(object).await?.object_type() == ObjectType::DIRECTORY_CONTENTS {
                todo.push(object);
            }
        }
    }
    Ok(())
}

async fn objects(objset: &Objset) -> Result<BTreeSet<ObjectId>, Box<dyn Error>> {
    let (mut all, mut at) = (BTreeSet::new(), ObjectId::new(0));
    while let Some(object) = objset.next_object(at).await? {
        all.insert(object);
        at = object;
    }
    Ok(all)
}
