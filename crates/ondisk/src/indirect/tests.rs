use proptest::prelude::*;
use units::{Asize, SECTOR_BYTES, VdevId, VdevOffset};
use zerocopy::IntoBytes;

use super::*;

fn entry() -> impl Strategy<Value = Entry> {
    (0..1u64 << 54, 0..1u32 << 24, 0..1u64 << 54, 1..1u64 << 24).prop_map(|(source, vdev, target, len)| {
        Entry {
            source: VdevOffset::new(source * SECTOR_BYTES),
            target: Dva {
                vdev: VdevId::new(vdev),
                offset: VdevOffset::new(target * SECTOR_BYTES),
                asize: Asize::new(len * SECTOR_BYTES),
                gang: false,
            },
        }
    })
}

proptest! {
    #[test]
    fn an_entry_survives_encoding(entry in entry()) {
        let phys = entry.encode();
        prop_assert_eq!(phys.decode(), Ok(entry));
        let marked = EntryPhys { source_word: U64::new(phys.source_word.get() | 1 << 63), ..phys };
        prop_assert_eq!(marked.decode(), Ok(entry), "the mark is not part of the offset");
    }

    #[test]
    fn no_bytes_make_a_decoder_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        for entry in entries(&bytes).flatten() {
            prop_assert!(entry.target.is_valid());
        }
        let _ = MappingPhys::decode(&bytes);
        let words: Vec<u64> = bytes.iter().map(|&byte| byte.into()).collect();
        prop_assert_eq!(RemovingPhys::decode(&words).is_ok(), words.len() >= 7);
    }
}

#[test]
fn a_run_of_no_length_is_damage() {
    assert!(EntryPhys::default().decode().is_err());
    let far = EntryPhys { source_word: U64::new(u64::MAX), ..EntryPhys::default() };
    assert!(far.decode().is_err());
}

#[test]
fn an_old_mapping_has_no_counts() {
    let new =
        MappingPhys { end: 1.into(), bytes_mapped: 2.into(), entries: 3.into(), counts_object: 4.into() };
    assert_eq!(MappingPhys::decode(new.as_bytes()), Ok(new));
    let old = MappingPhys::decode(&new.as_bytes()[..MAPPING_BYTES_V0]);
    assert_eq!(old, Ok(MappingPhys { counts_object: 0.into(), ..new }));
    assert!(MappingPhys::decode(&new.as_bytes()[..MAPPING_BYTES_V0 - 1]).is_err());
}
