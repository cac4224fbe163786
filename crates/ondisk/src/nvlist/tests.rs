use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

fn text() -> impl Strategy<Value = String> {
    "[a-zA-Z0-9:_/ äß日-]{0,20}"
}

fn leaf() -> BoxedStrategy<NvValue> {
    prop_oneof![
        Just(NvValue::Flag),
        any::<u8>().prop_map(NvValue::Byte),
        any::<i16>().prop_map(NvValue::I16),
        any::<u16>().prop_map(NvValue::U16),
        any::<i32>().prop_map(NvValue::I32),
        any::<u32>().prop_map(NvValue::U32),
        any::<i64>().prop_map(NvValue::I64),
        any::<u64>().prop_map(NvValue::U64),
        text().prop_map(NvValue::Str),
        vec(any::<u8>(), 0..20).prop_map(NvValue::ByteArray),
        vec(any::<i16>(), 0..9).prop_map(NvValue::I16Array),
        vec(any::<u16>(), 0..9).prop_map(NvValue::U16Array),
        vec(any::<i32>(), 0..9).prop_map(NvValue::I32Array),
        vec(any::<u32>(), 0..9).prop_map(NvValue::U32Array),
        vec(any::<i64>(), 0..9).prop_map(NvValue::I64Array),
        vec(any::<u64>(), 0..9).prop_map(NvValue::U64Array),
        vec(text(), 0..4).prop_map(NvValue::StrArray),
        any::<i64>().prop_map(NvValue::HrTime),
        any::<bool>().prop_map(NvValue::Bool),
        any::<i8>().prop_map(NvValue::I8),
        any::<u8>().prop_map(NvValue::U8),
        vec(any::<bool>(), 0..9).prop_map(NvValue::BoolArray),
        vec(any::<i8>(), 0..20).prop_map(NvValue::I8Array),
        vec(any::<u8>(), 0..20).prop_map(NvValue::U8Array),
        any::<u64>().prop_map(NvValue::Double),
    ]
    .boxed()
}

fn list_of(value: BoxedStrategy<NvValue>) -> BoxedStrategy<NvList> {
    let pairs = vec((text(), value), 0..6);
    pairs
        .prop_map(|pairs| {
            let mut list = NvList::new();
            pairs.into_iter().for_each(|(name, value)| {
                list.add(&name, value);
            });
            list
        })
        .boxed()
}

fn list() -> BoxedStrategy<NvList> {
    let value = leaf().prop_recursive(3, 40, 4, |inner| {
        prop_oneof![
            list_of(inner.clone()).prop_map(NvValue::List),
            vec(list_of(inner), 0..3).prop_map(NvValue::ListArray),
        ]
        .boxed()
    });
    list_of(value.boxed())
}

proptest! {
    #[test]
    fn every_type_survives_xdr(list in list()) {
        let bytes = list.encode();
        prop_assert_eq!(bytes.len() % 4, 0);
        prop_assert_eq!(NvList::decode(&bytes), Ok(list));
    }

    #[test]
    fn every_type_survives_the_native_encoding(list in list()) {
        prop_assert_eq!(NvList::decode(&list.encode_native()), Ok(list));
    }

    #[test]
    fn any_bytes_decode_or_are_refused(bytes in vec(any::<u8>(), 0..200), native in any::<bool>()) {
        let mut packed = vec![u8::from(!native), 1, 0, 0, 0, 0, 0, 0];
        packed.extend_from_slice(&bytes);
        let _ = NvList::decode(&packed);
        let _ = NvList::decode(&bytes);
    }

    #[test]
    fn one_flipped_byte_is_an_error_or_another_list(list in list(), at in any::<prop::sample::Index>(), bit in 0..8) {
        for mut bytes in [list.encode(), list.encode_native()] {
            let at = at.index(bytes.len());
            bytes[at] ^= 1_u8 << bit;
            let _ = NvList::decode(&bytes);
        }
    }

    #[test]
    fn a_list_that_breaks_off_is_an_error(list in list(), keep in any::<prop::sample::Index>()) {
        for bytes in [list.encode(), list.encode_native()] {
            prop_assert!(NvList::decode(&bytes[..keep.index(bytes.len())]).is_err());
        }
    }
}

/// The bytes of `{ version: 5000 }` as the format has them.
#[test]
fn a_small_list_has_the_formats_bytes() {
    let mut list = NvList::new();
    list.add_u64("version", 5000);
    let mut expected = vec![1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
    expected.extend([0, 0, 0, 36, 0, 0, 0, 32, 0, 0, 0, 7]);
    expected.extend(*b"version\0");
    expected.extend([0, 0, 0, 8, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0x13, 0x88]);
    expected.extend([0; 8]);
    assert_eq!(list.encode(), expected);
}

#[test]
fn names_are_unique_and_keep_their_place() {
    let mut list = NvList::new();
    list.add_u64("a", 1).add_str("b", "x").add_u64("a", 2);
    let names: Vec<_> = list.iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["a", "b"]);
    assert_eq!(list.lookup_u64("a"), Ok(2));
    assert_eq!(list.remove("a"), Some(NvValue::U64(2)));
    assert_eq!(list.get_u64("a"), None);
}

#[test]
fn a_missing_name_and_a_wrong_type_are_told_apart() {
    let mut list = NvList::new();
    list.add_str("name", "whirl");
    assert!(matches!(list.lookup_u64("name"), Err(OndiskError::WrongType { .. })));
    assert!(matches!(list.lookup_u64("nobody"), Err(OndiskError::Missing { .. })));
    assert_eq!(list.lookup_str("name"), Ok("whirl"));
}

#[test]
fn hostile_counts_and_nesting_are_errors() {
    // An array of 2^32 - 1 lists, in a pair of 100 bytes.
    let mut bytes = vec![1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
    bytes.extend([0, 0, 0, 100, 0, 0, 0, 100, 0, 0, 0, 1, b'a', 0, 0, 0]);
    bytes.extend([0, 0, 0, 20, 0xff, 0xff, 0xff, 0xff]);
    bytes.resize(200, 0);
    assert!(NvList::decode(&bytes).is_err());

    let mut list = NvList::new();
    for _ in 0..xdr::DEPTH_MAX - 1 {
        let mut outer = NvList::new();
        outer.add_nvlist("in", list);
        list = outer;
    }
    let deepest = list.encode();
    assert!(NvList::decode(&deepest).is_ok());
    // One more around it, put together by hand: the encoder would assert.
    let mut deeper = vec![1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
    let len = u32::try_from(deepest.len() - 4 + 24).expect("short");
    deeper.extend(len.to_be_bytes());
    deeper.extend([0, 0, 0, 48, 0, 0, 0, 2, b'i', b'n', 0, 0, 0, 0, 0, 19, 0, 0, 0, 1]);
    deeper.extend(&deepest[4..]);
    deeper.extend([0; 8]);
    assert!(matches!(NvList::decode(&deeper), Err(OndiskError::TooDeep { .. })));
}

#[test]
fn a_native_list_of_a_big_endian_host_is_refused_by_name() {
    let bytes = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0];
    assert!(matches!(NvList::decode(&bytes), Err(OndiskError::ForeignByteOrder { .. })));
}

#[test]
fn a_text_with_a_nul_in_it_is_an_error() {
    let mut list = NvList::new();
    list.add_str("comment", "a b");
    let mut bytes = list.encode();
    let at = bytes.iter().rposition(|byte| *byte == b' ').expect("the blank");
    bytes[at] = 0;
    assert!(matches!(NvList::decode(&bytes), Err(OndiskError::BadText { .. })));
}
