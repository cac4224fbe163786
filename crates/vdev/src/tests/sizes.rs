use std::path::Path;

use env::DeviceInfo;
use units::Ashift;

use crate::*;

#[test]
fn sizes_are_those_of_openzfs() {
    let psize = leaf_psize((128 << 20) + 1000);
    assert_eq!(psize, 128 << 20);
    assert_eq!(leaf_asize(psize), 129_499_136, "as zdb shows for a 128 MiB file");
    assert_eq!(leaf_asize(1 << 20), 0);
}

#[test]
fn metaslabs_are_as_large_as_openzfs_makes_them() {
    let table = [
        (64 << 20, 24),
        (129_499_136, 24),
        (1 << 30, 27),
        (8 << 30, 29),
        (100 << 30, 29),
        (1 << 40, 33),
        (100 << 40, 34),
        (3 << 50, 35),
    ];
    for (asize, shift) in table {
        assert_eq!(metaslab_shift(asize), shift, "{asize} bytes");
    }
}

#[test]
fn sectors_are_the_devices_unless_asked_for() {
    let info = |logical, physical| DeviceInfo {
        size_bytes: 1 << 30,
        logical_sector_bytes: logical,
        physical_sector_bytes: physical,
        is_block_device: true,
        has_volatile_cache: true,
        can_discard: false,
    };
    let ashift = |info: &DeviceInfo, wish: Option<u8>| {
        leaf_ashift(Path::new("d"), info, wish.map(Ashift::new)).map(Ashift::get).ok()
    };
    assert_eq!(ashift(&info(512, 512), None), Some(9));
    assert_eq!(ashift(&info(512, 4096), None), Some(12));
    assert_eq!(ashift(&info(512, 1 << 20), None), Some(14), "not beyond 16 KiB by itself");
    assert_eq!(ashift(&info(512, 4096), Some(9)), Some(9));
    assert_eq!(ashift(&info(4096, 4096), Some(9)), Some(12), "the device cannot");
    assert_eq!(ashift(&info(512, 512), Some(16)), Some(16));
    assert_eq!(ashift(&info(512, 512), Some(17)), None);
    assert_eq!(ashift(&info(512, 512), Some(8)), None);
}
