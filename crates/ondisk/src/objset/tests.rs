use proptest::prelude::*;

use super::*;
use crate::object_type::ObjectType;

#[test]
fn an_objset_of_each_size_survives() {
    for bytes in [OBJSET_BYTES_V1, OBJSET_BYTES_V2, OBJSET_BYTES_V3] {
        let block: Vec<u8> = (0..bytes).map(|i| (i % 251) as u8).collect();
        let objset = ObjsetPhys::decode(&block).expect("one of the sizes");
        assert_eq!(objset.encode(bytes), block);
        assert!(objset.as_bytes()[bytes..].iter().all(|byte| *byte == 0));
    }
    assert!(ObjsetPhys::decode(&[0; 512]).is_err());
    assert!(ObjsetPhys::decode(&[0; 8192]).is_err());
}

#[test]
fn dnodes_that_an_old_objset_lacks_are_free() {
    let mut block = vec![0; OBJSET_BYTES_V1];
    DnodeImage::new(ObjectType::DNODE, 32, 3).encode(&mut block[..DNODE_SLOT_BYTES]);
    block[704] = 2;
    let objset = ObjsetPhys::decode(&block).expect("1024 bytes");
    assert_eq!(objset.kind(), Ok(ObjsetType::Zfs));
    let meta = ObjsetPhys::dnode(&objset.meta_dnode).expect("a dnode").expect("allocated");
    assert_eq!(meta.object_type, ObjectType::DNODE);
    assert_eq!(ObjsetPhys::dnode(&objset.userused_dnode), Ok(None));
}

proptest! {
    #[test]
    fn any_bytes_decode_or_are_refused(bytes in proptest::collection::vec(any::<u8>(), OBJSET_BYTES_V1)) {
        let objset = ObjsetPhys::decode(&bytes).expect("the size is right");
        let _ = (objset.kind(), ObjsetPhys::dnode(&objset.meta_dnode), format!("{objset:?}"));
    }
}
