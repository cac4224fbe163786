//! Goes through all objects of a pool.

use std::collections::BTreeMap;

use ondisk::sa::{SaAttr, SaHeader, ZplAttr};
use ondisk::space_map::{self, SpaceMapEntry};
use ondisk::zap::{self, LeafChunk, LeafHeaderPhys, LeafLayout, ZapHeaderPhys, ZapKind};
use ondisk::{
    Blkptr, BpobjPhys, DnodeImage, DslDatasetPhys, DslDeadlistPhys, DslDirPhys, HistoryPhys, NvList,
    ObjectType, SpaceMapPhys, acl, history, znode,
};
use zerocopy::IntoBytes;

use oracle::image::Image;

/// How many of each structure were seen.
pub type Seen = BTreeMap<&'static str, usize>;

/// Decodes everything that can be, and checks that it encodes to the same bytes.
pub fn walk(name: &str, image: &Image) -> Seen {
    let mut seen = Seen::new();
    let mut objsets = vec![image.uberblock.rootbp];
    let mut visited = 0;
    while let Some(bp) = objsets.pop() {
        visited += 1;
        let objects = decode_all(name, image, &bp, &mut seen);
        let layouts = sa_layouts(image, &objects);
        for (number, dnode) in &objects {
            bonus(dnode, &mut seen, &mut objsets);
            contents(name, *number, image, dnode, &mut seen);
            attributes(name, image, dnode, &layouts, &mut seen);
        }
    }
    assert!(visited > 2, "{name} has file systems");
    seen
}

/// What a pool with OpenZFS's features must have shown.
pub fn check_seen(name: &str, seen: &Seen) {
    for what in ["dnode", "micro zap", "space map", "history record", "dsl directory", "dsl dataset", "bpobj"]
    {
        assert!(seen.get(what).is_some_and(|count| *count > 0), "{name}: no {what} in {seen:?}");
    }
    if name == "g11-many" {
        assert!(seen["sa header"] > 20_000 && seen["leaf entry"] > 20_000, "{seen:?}");
        assert!(seen["spill"] > 0 && seen["dxattr"] > 0 && seen["large dnode"] > 0, "{seen:?}");
    }
    if name != "g19-encrypted" && name != "g12-zvol" {
        assert!(seen["trivial acl"] > 0, "{name}: {seen:?}");
    }
}

fn count(seen: &mut Seen, what: &'static str) {
    *seen.entry(what).or_default() += 1;
}

fn decode_all(name: &str, image: &Image, bp: &Blkptr, seen: &mut Seen) -> BTreeMap<u64, DnodeImage> {
    let mut objects = BTreeMap::new();
    for (number, slots) in image.objects(bp) {
        let dnode =
            DnodeImage::decode(&slots).unwrap_or_else(|error| panic!("{name} object {number}: {error}"));
        let mut again = vec![0xff; slots.len()];
        dnode.encode(&mut again);
        assert!(again == slots, "{name} object {number}: {dnode:?}");
        count(seen, if dnode.extra_slots > 0 { "large dnode" } else { "dnode" });
        objects.insert(number, dnode);
    }
    objects
}

/// Bonuses of the MOS are their structures, byte for byte.
fn bonus(dnode: &DnodeImage, seen: &mut Seen, objsets: &mut Vec<Blkptr>) {
    let bytes = &dnode.bonus[..];
    match dnode.bonus_type {
        ObjectType::DSL_DIR => {
            let dir = DslDirPhys::decode(bytes).expect("OpenZFS wrote it");
            assert_eq!(dir.as_bytes(), bytes);
            count(seen, "dsl directory");
        }
        ObjectType::DSL_DATASET => {
            let dataset = DslDatasetPhys::decode(bytes).expect("OpenZFS wrote it");
            assert_eq!(dataset.as_bytes(), bytes);
            assert!(!dataset.is_snapshot() || dataset.snapshot_names.get() == 0);
            if !dataset.bp.is_hole() {
                objsets.push(dataset.bp);
            }
            count(seen, "dsl dataset");
        }
        ObjectType::DEADLIST_HDR => {
            let deadlist = DslDeadlistPhys::decode(bytes).expect("OpenZFS wrote it");
            assert_eq!(deadlist.as_bytes(), bytes);
            count(seen, "deadlist");
        }
        ObjectType::BPOBJ_HDR => {
            let bpobj = BpobjPhys::decode(bytes).expect("OpenZFS wrote it");
            assert_eq!(&bpobj.as_bytes()[..bytes.len()], bytes);
            count(seen, "bpobj");
        }
        _ => {}
    }
}

fn contents(name: &str, number: u64, image: &Image, dnode: &DnodeImage, seen: &mut Seen) {
    match dnode.object_type {
        ObjectType::SPACE_MAP => space_map_object(name, image, dnode, seen),
        ObjectType::SPA_HISTORY => history_object(image, dnode, seen),
        ObjectType::PACKED_NVLIST => {
            let words: [u8; 8] = dnode.bonus[..8].try_into().expect("8 bytes");
            let bytes = image.contents(dnode, u64::from_le_bytes(words));
            let list = NvList::decode(&bytes).expect("OpenZFS wrote it");
            let again = list.encode();
            assert_eq!(again, bytes[..again.len()], "{name} object {number}");
            assert_eq!(again.len() as u64, u64::from_le_bytes(words));
            count(seen, "packed nvlist");
        }
        kind if kind.props().is_some_and(|props| props.byte_swap == ondisk::ByteSwap::Zap) => {
            zap_object(name, number, image, dnode, seen);
        }
        _ => {}
    }
}

fn space_map_object(name: &str, image: &Image, dnode: &DnodeImage, seen: &mut Seen) {
    let phys = SpaceMapPhys::decode(&dnode.bonus).expect("OpenZFS wrote it");
    assert_eq!(&phys.as_bytes()[..dnode.bonus.len()], &dnode.bonus[..]);
    let bytes = image.contents(dnode, phys.length.get());
    let used = &bytes[..usize::try_from(phys.length.get()).expect("small")];
    let mut encoder = space_map::Encoder::new(0, dnode.data_block_bytes(), true);
    let (mut units, mut has_vdevs) = (0_i64, false);
    for entry in space_map::decode(used) {
        match entry.expect("OpenZFS wrote it") {
            SpaceMapEntry::Debug { action, sync_pass, txg } => encoder.debug(action, sync_pass, txg),
            SpaceMapEntry::Pad => {}
            SpaceMapEntry::Run(run) => {
                encoder.run(&run);
                has_vdevs |= run.vdev.is_some();
                let length = i64::try_from(run.length).expect("small");
                units += if run.map_type == space_map::MapType::Alloc { length } else { -length };
            }
        }
    }
    assert_eq!(encoder.finish(), used, "{name}");
    // A map of one vdev adds up to what its bonus says; one of all vdevs is a log without a sum.
    if !has_vdevs {
        assert_eq!(units * 512, phys.allocated.get(), "{name}");
    }
    count(seen, "space map");
}

fn history_object(image: &Image, dnode: &DnodeImage, seen: &mut Seen) {
    let phys = HistoryPhys::decode(&dnode.bonus).expect("OpenZFS wrote it");
    assert_eq!(phys.records_lost.get(), 0, "no golden pool is that old");
    let bytes = image.contents(dnode, phys.eof.get());
    let mut at = 0;
    while (at as u64) < phys.eof.get() {
        let (record, len) = history::decode_record(&bytes[at..]).expect("OpenZFS wrote it");
        assert_eq!(history::encode_record(&record), bytes[at..at + len]);
        assert!(record.get_u64(history::names::TIME).is_some());
        at += len;
        count(seen, "history record");
    }
    assert_eq!(at as u64, phys.eof.get());
}

fn zap_object(name: &str, number: u64, image: &Image, dnode: &DnodeImage, seen: &mut Seen) {
    let mut header = None;
    let mut entries = 0;
    image.blocks(dnode, &mut |index, bp| {
        let Ok(block) = image.read(bp) else { return };
        let first_word = u64::from_le_bytes(block[..8].try_into().expect("8 bytes"));
        if index == 0 {
            match ZapKind::of(&block).unwrap_or_else(|error| panic!("{name} object {number}: {error}")) {
                ZapKind::Micro => {
                    assert!(zap::entries(&block).all(|entry| entry.is_used() || entry.value.get() == 0));
                    count(seen, "micro zap");
                }
                ZapKind::Fat => {
                    header = Some(ZapHeaderPhys::decode(&block).expect("OpenZFS wrote it"));
                    count(seen, "fat zap");
                }
            }
        } else if first_word == zap::BLOCK_LEAF {
            entries += leaf(&block, seen);
        }
    });
    if let Some(header) = header {
        assert_eq!(header.entries.get(), entries, "{name} object {number}");
    }
}

/// Counts a leaf's chunks against its header, and gives its entries.
fn leaf(block: &[u8], seen: &mut Seen) -> u64 {
    let layout = LeafLayout::new(block.len().ilog2()).expect("OpenZFS wrote it");
    let header = LeafHeaderPhys::decode(block, layout).expect("OpenZFS wrote it");
    let (mut entries, mut free) = (0, 0);
    for index in 0..u16::try_from(layout.chunks()).expect("16 bits") {
        let chunk = layout.chunk(block, index).expect("within the leaf");
        match LeafChunk::decode(chunk).expect("OpenZFS wrote it") {
            LeafChunk::Entry(entry) => {
                entries += 1;
                assert_eq!(
                    entry.hash.get()
                        >> (64 - header.prefix_len.get().max(1))
                        >> u16::from(header.prefix_len.get() == 0),
                    header.prefix.get()
                );
                count(seen, "leaf entry");
            }
            LeafChunk::Array(_) => {}
            LeafChunk::Free(_) => free += 1,
        }
    }
    assert_eq!((header.entries.get(), header.free_chunks.get()), (entries, free));
    entries.into()
}

/// Attribute numbers by layout, and registered attributes by number.
#[derive(Default)]
struct Layouts {
    layouts: BTreeMap<u16, Vec<u16>>,
    attrs: BTreeMap<u16, SaAttr>,
}

/// Micro or fat, the entries of a ZAP as (name, value bytes); values big-endian in fat ones.
fn zap_entries(image: &Image, dnode: &DnodeImage) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    image.blocks(dnode, &mut |_, bp| {
        let Ok(block) = image.read(bp) else { return };
        match u64::from_le_bytes(block[..8].try_into().expect("8 bytes")) {
            zap::BLOCK_MICRO => {
                for entry in zap::entries(&block).filter(zap::MzapEntryPhys::is_used) {
                    let name = String::from_utf8_lossy(entry.name()).into_owned();
                    found.push((name, entry.value.get().to_be_bytes().to_vec()));
                }
            }
            zap::BLOCK_LEAF => {
                let layout = LeafLayout::new(block.len().ilog2()).expect("OpenZFS wrote it");
                for index in 0..u16::try_from(layout.chunks()).expect("16 bits") {
                    let chunk = layout.chunk(&block, index).expect("within the leaf");
                    let Ok(LeafChunk::Entry(entry)) = LeafChunk::decode(chunk) else { continue };
                    let name = chain(&block, layout, entry.name_chunk.get(), entry.name_ints.get().into());
                    let bytes = usize::from(entry.value_ints.get()) * usize::from(entry.value_int_bytes);
                    let value = chain(&block, layout, entry.value_chunk.get(), bytes);
                    found.push((String::from_utf8_lossy(&name[..name.len() - 1]).into_owned(), value));
                }
            }
            _ => {}
        }
    });
    found
}

fn chain(block: &[u8], layout: LeafLayout, first: u16, bytes: usize) -> Vec<u8> {
    let (mut all, mut next) = (Vec::new(), first);
    while all.len() < bytes {
        let chunk = layout.chunk(block, next).expect("within the leaf");
        let Ok(LeafChunk::Array(array)) = LeafChunk::decode(chunk) else { panic!("a chain of arrays") };
        all.extend(array.bytes);
        next = array.next.get();
    }
    assert_eq!(next, zap::CHAIN_END);
    all.truncate(bytes);
    all
}

fn sa_layouts(image: &Image, objects: &BTreeMap<u64, DnodeImage>) -> Layouts {
    let mut found = Layouts::default();
    for dnode in objects.values() {
        match dnode.object_type {
            ObjectType::SA_ATTR_REGISTRATION => {
                for (name, value) in zap_entries(image, dnode) {
                    let word = u64::from_be_bytes(value.try_into().expect("a word"));
                    let attr = SaAttr::from_word(word).expect("OpenZFS wrote it");
                    let known = ZplAttr::ALL.iter().find(|known| known.name() == name).expect("known");
                    assert_eq!(known.registration(attr.number), attr, "{name}");
                    found.attrs.insert(attr.number, attr);
                }
            }
            ObjectType::SA_ATTR_LAYOUTS => {
                for (name, value) in zap_entries(image, dnode) {
                    let numbers = value.chunks(2).map(|pair| u16::from_be_bytes([pair[0], pair[1]]));
                    found.layouts.insert(name.parse().expect("a number"), numbers.collect());
                }
            }
            _ => {}
        }
    }
    found
}

/// Takes a file's attributes apart, and checks those that have a structure of their own.
fn attributes(name: &str, image: &Image, dnode: &DnodeImage, layouts: &Layouts, seen: &mut Seen) {
    if dnode.bonus_type != ObjectType::SA || dnode.bonus.is_empty() || layouts.layouts.is_empty() {
        return;
    }
    let mut found = BTreeMap::new();
    buffer(&dnode.bonus, layouts, &mut found, seen);
    if let Some(Ok(spill)) = dnode.spill.map(|bp| image.read(&bp)) {
        buffer(&spill, layouts, &mut found, seen);
        count(seen, "spill");
    }
    let word = |attr: ZplAttr| {
        found.get(&(attr as u16)).map(|bytes| u64::from_le_bytes(bytes[..8].try_into().expect("8 bytes")))
    };
    let (Some(mode), Some(flags)) = (word(ZplAttr::Mode), word(ZplAttr::Flags)) else { return };
    if let Some(bytes) = found.get(&(ZplAttr::DaclAces as u16)) {
        let aces = acl::decode(bytes).expect("OpenZFS wrote it");
        assert_eq!(acl::encode(&aces), *bytes);
        assert_eq!(word(ZplAttr::DaclCount), Some(aces.len() as u64));
        if flags & znode::flags::ACL_TRIVIAL != 0 {
            let is_dir = mode & 0o170_000 == 0o040_000;
            // With acltype=posix (the pools left out) the umask changes the mode but not the ACL.
            let posix = ["g11-many", "g14-dirty-zil-slog", "g15-dirty-zil-nolog"].contains(&name);
            assert!(posix || aces == acl::trivial(mode, is_dir), "{name}: {mode:o} has {aces:?}");
            count(seen, "trivial acl");
        }
    }
    if let Some(bytes) = found.get(&(ZplAttr::Dxattr as u16)) {
        let list = NvList::decode(bytes).expect("OpenZFS wrote it");
        assert_eq!(list.encode(), *bytes);
        count(seen, "dxattr");
    }
}

fn buffer(bytes: &[u8], layouts: &Layouts, found: &mut BTreeMap<u16, Vec<u8>>, seen: &mut Seen) {
    let (header, mut at) = SaHeader::decode(bytes).expect("OpenZFS wrote it");
    let layout = &layouts.layouts[&header.layout];
    let variable = layout.iter().filter(|number| layouts.attrs[number].length == 0).count();
    let exact = SaHeader {
        layout: header.layout,
        lengths: header.lengths[..variable.min(header.lengths.len())].to_vec(),
    };
    assert_eq!(exact.encode(), bytes[..at]);
    let mut lengths = header.lengths.iter();
    for number in layout {
        let length = match layouts.attrs[number].length {
            0 => usize::from(*lengths.next().expect("a length for each variable attribute")),
            fixed => usize::from(fixed),
        };
        found.insert(*number, bytes[at..at + length].to_vec());
        at += length.next_multiple_of(8);
    }
    count(seen, "sa header");
}
