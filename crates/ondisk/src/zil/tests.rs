use proptest::collection::vec;
use proptest::prelude::*;
use units::{Lsize, ObjectId, ObjsetId, Txg, ZilSeq};
use zerocopy::IntoBytes;

use super::record::body::{LrAclBody, attr_mask};
use super::record::{
    LrAcl, LrAclV0, LrAttr, LrCloneRange, LrCreate, LrCreateAcl, LrLink, LrRemove, LrRename,
    LrRenameWhiteout, LrSetSaXattr, LrSetattr, LrTruncate, LrWrite, Timestamp, WRITE_HEADER_BYTES, records,
};
use super::*;
use crate::blkptr::{Blkptr, ByteOrder};
use crate::object_type::ObjectType;

fn name() -> impl Strategy<Value = Vec<u8>> {
    vec(1_u8.., 1..40)
}

fn object() -> impl Strategy<Value = ObjectId> {
    (0_u64..1 << 48).prop_map(ObjectId::new)
}

fn time() -> impl Strategy<Value = Timestamp> {
    (any::<i64>(), any::<u64>()).prop_map(|(seconds, nanos)| Timestamp { seconds, nanos })
}

fn attr() -> impl Strategy<Value = LrAttr> {
    (vec(any::<u32>(), 0..4), any::<u64>(), time(), any::<[u8; 32]>())
        .prop_map(|(bitmap, attrs, crtime, scanstamp)| LrAttr { bitmap, attrs, crtime, scanstamp })
}

/// Owner and group with the domains that their upper halves ask for.
fn ids() -> impl Strategy<Value = (u64, u64, Vec<Vec<u8>>)> {
    (0_u64..3, 0_u64..3, any::<u32>(), any::<u32>(), name(), name()).prop_map(|(u, g, uid, gid, a, b)| {
        let needed = usize::from(u != 0) + usize::from(g != 0 && g != u);
        let domains = [a, b].into_iter().take(needed).collect();
        (u << 32 | u64::from(uid), g << 32 | u64::from(gid), domains)
    })
}

fn create(has_attr: bool, has_target: bool, has_domains: bool) -> impl Strategy<Value = LrCreate> {
    let numbers = (object(), object(), 1_u8..=32, any::<u64>(), any::<u64>(), any::<u64>());
    let attr = if has_attr { attr().prop_map(Some).boxed() } else { Just(None).boxed() };
    let target = if has_target { name().prop_map(Some).boxed() } else { Just(None).boxed() };
    (numbers, ids(), time(), attr, name(), target).prop_map(move |(n, ids, crtime, attr, name, target)| {
        LrCreate {
            dir: n.0,
            object: n.1,
            slots: n.2,
            mode: n.3,
            uid: ids.0,
            gid: ids.1,
            generation: n.4,
            crtime,
            rdev: n.5,
            attr,
            domains: if has_domains { ids.2 } else { Vec::new() },
            name,
            target,
        }
    })
}

fn acl() -> impl Strategy<Value = LrAclBody> {
    (any::<u64>(), any::<u64>(), vec(any::<u8>(), 0..40), vec(any::<u64>(), 0..3), vec(name(), 0..3))
        .prop_map(|(aces, flags, bytes, fuids, domains)| LrAclBody { aces, flags, bytes, fuids, domains })
}

fn create_acl(has_attr: bool) -> impl Strategy<Value = LrCreateAcl> {
    (create(has_attr, false, false), acl()).prop_map(|(create, acl)| LrCreateAcl { create, acl })
}

fn rename() -> impl Strategy<Value = LrRename> {
    (object(), object(), name(), name()).prop_map(|(source_dir, target_dir, source, target)| LrRename {
        source_dir,
        target_dir,
        source,
        target,
    })
}

fn whiteout() -> impl Strategy<Value = LrRenameWhiteout> {
    (rename(), create(false, false, false)).prop_map(|(rename, c)| LrRenameWhiteout {
        rename,
        object: c.object,
        slots: c.slots,
        mode: c.mode,
        uid: c.uid,
        gid: c.gid,
        generation: c.generation,
        crtime: c.crtime,
        rdev: c.rdev,
    })
}

fn blkptr() -> impl Strategy<Value = Blkptr> {
    any::<u64>().prop_map(|txg| {
        Blkptr::hole_with(
            Lsize::new(4096),
            ObjectType::PLAIN_FILE_CONTENTS,
            units::Level::new(0),
            Txg::new(txg),
        )
    })
}

fn write() -> impl Strategy<Value = LrWrite> {
    let data = proptest::option::of(vec(any::<u8>(), 1..300));
    (object(), any::<u64>(), any::<u64>(), blkptr(), data).prop_map(
        |(object, offset, length, blkptr, data)| {
            let length = data.as_ref().map_or(length, |data| data.len() as u64);
            LrWrite { object, offset, length, blkoff: 0, blkptr, data }
        },
    )
}

fn setattr() -> impl Strategy<Value = LrSetattr> {
    let numbers = (object(), any::<u64>(), any::<u64>(), any::<u64>());
    (numbers, ids(), time(), time(), proptest::option::of(attr())).prop_map(|(n, ids, atime, mtime, attr)| {
        let asks = if attr.is_some() { attr_mask::XVATTR } else { 0 };
        LrSetattr {
            object: n.0,
            mask: (n.1 & !attr_mask::XVATTR) | asks,
            mode: n.2,
            uid: ids.0,
            gid: ids.1,
            size: n.3,
            atime,
            mtime,
            attr,
            domains: ids.2,
        }
    })
}

fn record() -> impl Strategy<Value = LogRecord> {
    let names = prop_oneof![
        create(false, false, true).prop_map(LogRecord::Create),
        create(false, false, true).prop_map(LogRecord::Mkdir),
        create(false, false, true).prop_map(LogRecord::Mkxattr),
        create(false, true, false).prop_map(LogRecord::Symlink),
        (object(), name()).prop_map(|(dir, name)| LogRecord::Remove(LrRemove { dir, name })),
        (object(), name()).prop_map(|(dir, name)| LogRecord::Rmdir(LrRemove { dir, name })),
        (object(), object(), name()).prop_map(|(dir, object, name)| LogRecord::Link(LrLink {
            dir,
            object,
            name
        })),
        rename().prop_map(LogRecord::Rename),
        rename().prop_map(LogRecord::RenameExchange),
        whiteout().prop_map(LogRecord::RenameWhiteout),
    ];
    let contents = prop_oneof![
        write().prop_map(LogRecord::Write),
        write().prop_map(LogRecord::Write2),
        (object(), any::<u64>(), any::<u64>())
            .prop_map(|(object, offset, length)| LogRecord::Truncate(LrTruncate { object, offset, length })),
        setattr().prop_map(LogRecord::Setattr),
        (object(), name(), vec(any::<u8>(), 0..50))
            .prop_map(|(object, name, value)| LogRecord::SetSaXattr(LrSetSaXattr { object, name, value })),
        (object(), vec(blkptr(), 0..4)).prop_map(|(object, blkptrs)| {
            LogRecord::CloneRange(LrCloneRange { object, offset: 1, length: 2, block_bytes: 3, blkptrs })
        }),
    ];
    let acls = prop_oneof![
        (object(), vec(any::<[u8; 12]>(), 0..4))
            .prop_map(|(object, aces)| LogRecord::AclV0(LrAclV0 { object, aces })),
        (object(), acl()).prop_map(|(object, acl)| LogRecord::Acl(LrAcl { object, acl })),
        create_acl(false).prop_map(LogRecord::CreateAcl),
        create_acl(true).prop_map(LogRecord::CreateAclAttr),
        create_acl(false).prop_map(LogRecord::MkdirAcl),
        create_acl(true).prop_map(LogRecord::MkdirAclAttr),
        create(true, false, true).prop_map(LogRecord::CreateAttr),
        create(true, false, true).prop_map(LogRecord::MkdirAttr),
    ];
    prop_oneof![names, contents, acls]
}

fn head() -> impl Strategy<Value = RecordHead> {
    (any::<u64>(), any::<u64>(), any::<bool>()).prop_map(|(txg, seq, case_insensitive)| RecordHead {
        txg: Txg::new(txg),
        seq: ZilSeq::new(seq),
        case_insensitive,
    })
}

proptest! {
    #[test]
    fn every_record_type_survives(head in head(), record in record()) {
        let bytes = record.encode(&head);
        prop_assert_eq!(bytes.len() % 8, 0);
        let (head_read, record_read, len) = LogRecord::decode(&bytes).expect("our own record");
        prop_assert_eq!(len, bytes.len());
        prop_assert_eq!(head_read, head);
        prop_assert_eq!(record_read.tx_type(), record.tx_type());
        prop_assert_eq!(record_read, record);
    }

    #[test]
    fn a_record_swapped_twice_is_as_before(head in head(), record in record()) {
        let ours = record.encode(&head);
        let mut theirs = ours.clone();
        super::record::swap_record(&mut theirs, ByteOrder::Little)?;
        prop_assert_eq!(&theirs[8..16], &(ours.len() as u64).to_be_bytes()[..]);
        super::record::swap_record(&mut theirs, ByteOrder::Big)?;
        prop_assert_eq!(theirs, ours);
    }

    #[test]
    fn any_record_swaps_or_is_refused(kind in 0_u64..30, body in vec(any::<u8>(), 0..300)) {
        for order in [ByteOrder::Little, ByteOrder::Big] {
            let mut bytes = if order == ByteOrder::Big { kind.to_be_bytes() } else { kind.to_le_bytes() }.to_vec();
            bytes.extend(&body);
            let _ = super::record::swap_record(&mut bytes, order);
        }
    }

    #[test]
    fn a_block_of_records_reads_in_order(all in vec((head(), record()), 0..6)) {
        let bytes: Vec<u8> = all.iter().flat_map(|(head, record)| record.encode(head)).collect();
        let read: Vec<_> = records(&bytes).map(|record| record.expect("our own record")).collect();
        prop_assert_eq!(read, all);
    }

    #[test]
    fn hostile_records_are_errors(kind in 0_u64..30, body in vec(any::<u8>(), 0..300), declared in any::<u64>()) {
        let mut bytes = kind.to_le_bytes().to_vec();
        bytes.extend((32 + body.len() as u64 / 8 * 8).to_le_bytes());
        bytes.extend([0; 16]);
        bytes.extend(&body);
        let _ = LogRecord::decode(&bytes);
        bytes[8..16].copy_from_slice(&declared.to_le_bytes());
        let decoded = LogRecord::decode(&bytes);
        prop_assert!(decoded.is_err() || usize::try_from(declared).is_ok_and(|len| len <= bytes.len()));
    }

    #[test]
    fn one_flipped_byte_is_an_error_or_another_record(head in head(), record in record(), at in any::<prop::sample::Index>()) {
        let mut bytes = record.encode(&head);
        let at = at.index(bytes.len());
        bytes[at] ^= 0x55;
        let _ = LogRecord::decode(&bytes);
    }

    #[test]
    fn a_write_header_before_data_is_the_whole_record(head in head(), write in write()) {
        let whole = LogRecord::Write(write.clone()).encode(&head);
        let mut gathered = write.encode_header(&head, write.data.is_some()).to_vec();
        gathered.extend(write.data.iter().flatten());
        gathered.resize(gathered.len().next_multiple_of(8), 0);
        prop_assert_eq!(&gathered, &whole);
        if let Some(data) = &write.data {
            prop_assert_eq!(LrWrite::inline_record_bytes(data.len() as u64), whole.len() as u64);
        }
    }

    #[test]
    fn any_block_decodes_or_is_refused(bytes in vec(any::<u8>(), 0..600), used in any::<u16>()) {
        for form in [ChainForm::Slim, ChainForm::Trailer] {
            let _ = ZilChain::decode(form, &bytes);
            let mut block = bytes.clone();
            block.resize(1024, 0);
            let chain = ZilChain::new(Blkptr::HOLE, used.into(), [0; 4]);
            let at = if form == ChainForm::Slim { 0 } else { 1024 - ZIL_CHAIN_BYTES };
            block[at..at + ZIL_CHAIN_BYTES].copy_from_slice(chain.as_bytes());
            if let Ok((read, bytes)) = ZilChain::decode(form, &block) {
                prop_assert_eq!(read, chain);
                prop_assert!(bytes.len() <= 1024 - ZIL_CHAIN_BYTES);
                prop_assert!(records(bytes).count() <= bytes.len());
            }
        }
    }
}

#[test]
fn records_have_the_sizes_of_the_format() {
    let head = RecordHead::default();
    let len = |record: LogRecord| record.encode(&head).len();
    let named = |name: &[u8]| LrCreate { slots: 1, name: name.to_vec(), ..LrCreate::default() };
    assert_eq!(len(LogRecord::Create(named(b"1234567"))), 104 + 8);
    assert_eq!(len(LogRecord::Create(named(b"12345678"))), 104 + 16);
    assert_eq!(len(LogRecord::Write(LrWrite::default())), WRITE_HEADER_BYTES);
    assert_eq!(len(LogRecord::Truncate(LrTruncate::default())), 56);
    assert_eq!(len(LogRecord::Setattr(LrSetattr::default())), 112);
    assert_eq!(len(LogRecord::Remove(LrRemove { name: b"a".to_vec(), ..LrRemove::default() })), 48);
    let attr = LrAttr { bitmap: vec![0; 3], ..LrAttr::default() };
    let create = LrCreate { attr: Some(attr), ..named(b"1234567") };
    assert_eq!(len(LogRecord::CreateAttr(create.clone())), 104 + 72 + 8);
    let acl = LrAclBody { bytes: vec![1; 9], ..LrAclBody::default() };
    assert_eq!(len(LogRecord::CreateAclAttr(LrCreateAcl { create, acl })), 144 + 72 + 16 + 8);
}

/// What a big-endian machine's setattr with a project, and its create with an ACL, look like.
#[test]
fn numbers_of_foreign_records_are_turned_by_their_width() {
    let attr = LrAttr { bitmap: vec![0x4_0000, 0, 0], ..LrAttr::default() };
    let mut attr = LrAttr { attrs: 0x20, ..attr };
    attr.scanstamp[0] = 77;
    let setattr = LrSetattr { mask: attr_mask::XVATTR, attr: Some(attr.clone()), ..LrSetattr::default() };
    let mut bytes = LogRecord::Setattr(setattr).encode(&RecordHead::default());
    record::swap_record(&mut bytes, ByteOrder::Little).unwrap();
    assert_eq!(bytes[112..120], [0, 0, 0, 3, 0, 4, 0, 0], "bitmap: 32 bits each");
    assert_eq!(bytes[128..136], 0x20_u64.to_be_bytes(), "flags");
    assert_eq!(bytes[152..160], 77_u64.to_be_bytes(), "project");
    let aces = crate::acl::encode_old(&crate::acl::trivial(0o644, false));
    let acl = LrAclBody {
        aces: 3,
        bytes: aces,
        fuids: vec![9],
        domains: vec![b"S-1".to_vec()],
        ..LrAclBody::default()
    };
    let create = LrCreate { slots: 1, name: b"name".to_vec(), ..LrCreate::default() };
    let mut bytes = LogRecord::CreateAcl(LrCreateAcl { create, acl }).encode(&RecordHead::default());
    record::swap_record(&mut bytes, ByteOrder::Little).unwrap();
    assert_eq!(bytes[104..112], 3_u64.to_be_bytes(), "entries");
    assert_eq!(bytes[152..156], [0x10, 0, 0, 0], "flags and type of the first: 16 bits each");
    assert_eq!(bytes[184..192], 9_u64.to_be_bytes(), "foreign ids");
    assert_eq!(bytes[192..201], *b"S-1\0name\0", "text");
}

#[test]
fn type_numbers_are_one_to_twenty_four() {
    for (raw, kind) in (1_u64..).zip(TxType::ALL) {
        assert_eq!((kind.raw(), TxType::from_raw(raw)), (raw, Ok(kind)));
    }
    assert!(TxType::from_raw(0).is_err() && TxType::from_raw(25).is_err());
}

#[test]
fn a_slim_block_is_hashed_only_as_far_as_it_is_used() {
    let used = |used| ZilChain::new(Blkptr::HOLE, used, [0; 4]);
    assert_eq!(used(184).hashed_bytes(ChainForm::Slim, 131_072), Some(4096));
    assert_eq!(used(4097).hashed_bytes(ChainForm::Slim, 131_072), Some(8192));
    assert_eq!(used(4097).hashed_bytes(ChainForm::Slim, 4096), None);
    assert_eq!(used(u64::MAX).hashed_bytes(ChainForm::Slim, 4096), None);
    assert_eq!(used(8).hashed_bytes(ChainForm::Trailer, 131_072), Some(131_072));
}

#[test]
fn a_chains_seed_counts_up_by_block() {
    let seed = ChainSeed { guid: [7, 8], objset: ObjsetId::new(54), seq: ZilSeq::new(1) };
    let bp = Blkptr::HOLE.with_checksum(seed.words());
    assert_eq!(ChainSeed::of(&bp), seed);
    assert_eq!(ZilChain::new(bp, 0, [0; 4]).next_seed().next().seq, ZilSeq::new(2));
    assert_eq!(seed.next().words(), [7, 8, 54, 2]);
}

#[test]
fn a_header_lies_as_the_format_says() {
    let header = ZilHeader { claim_txg: 1.into(), claim_lr_seq: 2.into(), ..ZilHeader::default() };
    let bytes = header.as_bytes();
    assert_eq!((bytes.len(), bytes[0], bytes[160]), (192, 1, 2));
}

#[test]
#[should_panic(expected = "a name holds no NUL")]
fn a_name_with_a_nul_is_asserted() {
    let _ = LogRecord::Remove(LrRemove { name: b"a\0b".to_vec(), ..LrRemove::default() })
        .encode(&RecordHead::default());
}
