//! What an object is and where, for who compares two states of a file system.

use std::sync::Arc;

use units::ObjectId;

use super::basics::{CRED, file};
use super::world::{World, run};
use crate::*;

fn at(path: &str) -> ObjectPath {
    ObjectPath::At(path.into())
}

#[test]
fn an_object_is_where_the_directory_that_it_names_has_it() {
    run(async |_: Arc<World>, zfs| {
        let root = zfs.root();
        let dir = zfs.create(root, b"d", NewNode::Directory, 0o755, CRED).await.unwrap().object;
        let object = file(&zfs, dir, "f").await;
        let place = async |object: ObjectId| zfs.glimpse(object).await.unwrap().map(|seen| seen.place);
        assert_eq!(place(root).await, Some(at("/")));
        assert_eq!(place(dir).await, Some(at("/d")));
        let seen = zfs.glimpse(object).await.unwrap().unwrap();
        assert_eq!((seen.kind, seen.links, seen.place), (FileKind::File, 1, at("/d/f")));
        assert_eq!(zfs.path_of(object).await.unwrap(), b"/d/f");
        // The name that it got last is gone: nobody says where the other one is.
        zfs.link(object, root, b"g").await.unwrap();
        assert_eq!(place(object).await, Some(at("/g")));
        zfs.unlink(root, b"g").await.unwrap();
        assert_eq!(place(object).await, Some(ObjectPath::Unknown));
        assert!(matches!(zfs.path_of(object).await, Err(ZplError::NotFound)));
        zfs.open_object(object).await.unwrap();
        zfs.unlink(dir, b"f").await.unwrap();
        assert_eq!(place(object).await, Some(ObjectPath::DeleteQueue));
        zfs.close(object).await.unwrap();
        assert_eq!(place(object).await, None);
        assert_eq!(place(MASTER_NODE).await, None);
        assert_eq!(zfs.shares().await.unwrap(), None);
    });
}
