//! Records to bytes.

use units::ObjectId;
use zerocopy::IntoBytes;
use zerocopy::little_endian::{U32, U64};

use super::body::{LrAclBody, Timestamp, attr_mask};
use super::phys::{
    ALIGN, AclSizesPhys, AttrEndPhys, BITMAP_WORDS_MAX, CloneRangePhys, CreatePhys, LrCommon, OBJECT,
    PairPhys, RenamePhys, SLOTS, SetattrPhys, TimePhys, TruncatePhys, WRITE_HEADER_BYTES, WhiteoutPhys,
    WritePhys,
};
use super::{
    CASE_INSENSITIVE, LogRecord, LrAttr, LrCloneRange, LrCreate, LrCreateAcl, LrRename, LrRenameWhiteout,
    LrSetattr, LrWrite, RecordHead, TxType,
};
use crate::bits;

impl LogRecord {
    /// Encodes the record, padded to 8 bytes.
    ///
    /// # Panics
    /// When the record contradicts itself: a name with a NUL in it, an `Attr` type without
    /// attributes, data of another length than `length`.
    #[must_use]
    pub fn encode(&self, head: &RecordHead) -> Vec<u8> {
        let mut out = vec![0; size_of::<LrCommon>()];
        encode_body(self, &mut out);
        out.resize(out.len().next_multiple_of(ALIGN), 0);
        let common = common(self.tx_type(), head, out.len());
        common.write_to_prefix(&mut out).expect("room was left for it");
        out
    }
}

impl LrWrite {
    /// The 192 bytes that precede the data of a write record, so that the data need not be copied
    /// to build one: these, then `length` bytes of data, then zeroes to a multiple of 8.
    /// `inline` says that data follow; `self.data` is not looked at.
    #[must_use]
    pub fn encode_header(&self, head: &RecordHead, inline: bool) -> [u8; WRITE_HEADER_BYTES] {
        let data = if inline { usize::try_from(self.length).expect("data fit memory") } else { 0 };
        let reclen = WRITE_HEADER_BYTES.saturating_add(data).next_multiple_of(ALIGN);
        let mut out = [0; WRITE_HEADER_BYTES];
        let (common_bytes, body) = out.split_at_mut(size_of::<LrCommon>());
        common(TxType::Write, head, reclen).write_to(common_bytes).expect("sizes agree");
        write_phys(self).write_to(body).expect("sizes agree");
        out
    }

    /// Bytes of the record when its data are in it.
    #[must_use]
    pub fn inline_record_bytes(length: u64) -> u64 {
        (WRITE_HEADER_BYTES as u64).saturating_add(length).next_multiple_of(ALIGN as u64)
    }
}

fn common(tx_type: TxType, head: &RecordHead, reclen: usize) -> LrCommon {
    let case = if head.case_insensitive { CASE_INSENSITIVE } else { 0 };
    LrCommon {
        txtype: U64::new(tx_type.raw() | case),
        reclen: U64::new(reclen as u64),
        txg: U64::new(head.txg.get()),
        seq: U64::new(head.seq.get()),
    }
}

fn encode_body(record: &LogRecord, out: &mut Vec<u8>) {
    match record {
        LogRecord::Create(r) | LogRecord::Mkdir(r) | LogRecord::Mkxattr(r) => {
            encode_create(r, false, false, out);
        }
        LogRecord::Symlink(r) => encode_create(r, false, true, out),
        LogRecord::CreateAttr(r) | LogRecord::MkdirAttr(r) => encode_create(r, true, false, out),
        LogRecord::CreateAcl(r) | LogRecord::MkdirAcl(r) => encode_create_acl(r, false, out),
        LogRecord::CreateAclAttr(r) | LogRecord::MkdirAclAttr(r) => encode_create_acl(r, true, out),
        LogRecord::Remove(r) | LogRecord::Rmdir(r) => {
            put(out, &U64::new(r.dir.get()));
            put_text(out, &r.name);
        }
        LogRecord::Link(r) => {
            put(out, &pair(r.dir.get(), r.object.get()));
            put_text(out, &r.name);
        }
        LogRecord::Rename(r) | LogRecord::RenameExchange(r) => {
            put(out, &rename_phys(r));
            put_names(out, r);
        }
        LogRecord::RenameWhiteout(r) => encode_whiteout(r, out),
        LogRecord::Write(r) | LogRecord::Write2(r) => encode_write(r, out),
        LogRecord::Truncate(r) => {
            let (offset, length) = (U64::new(r.offset), U64::new(r.length));
            put(out, &TruncatePhys { foid: U64::new(r.object.get()), offset, length });
        }
        LogRecord::Setattr(r) => encode_setattr(r, out),
        LogRecord::SetSaXattr(r) => {
            put(out, &pair(r.object.get(), r.value.len() as u64));
            put_text(out, &r.name);
            out.extend_from_slice(&r.value);
        }
        LogRecord::AclV0(r) => {
            put(out, &pair(r.object.get(), r.aces.len() as u64));
            r.aces.iter().for_each(|ace| out.extend_from_slice(ace));
        }
        LogRecord::Acl(r) => {
            put(out, &U64::new(r.object.get()));
            put(out, &acl_sizes(&r.acl));
            put_acl(out, &r.acl);
        }
        LogRecord::CloneRange(r) => encode_clone_range(r, out),
    }
}

fn put(out: &mut Vec<u8>, value: &(impl IntoBytes + zerocopy::Immutable)) {
    out.extend_from_slice(value.as_bytes());
}

fn put_text(out: &mut Vec<u8>, text: &[u8]) {
    assert!(!text.contains(&0), "a name holds no NUL");
    out.extend_from_slice(text);
    out.push(0);
}

fn pair(first: u64, second: u64) -> PairPhys {
    PairPhys { first: U64::new(first), second: U64::new(second) }
}

fn time_phys(time: Timestamp) -> TimePhys {
    [U64::new(time.seconds.cast_unsigned()), U64::new(time.nanos)]
}

fn with_slots(object: ObjectId, slots: u8) -> U64 {
    let extra = slots.checked_sub(1).expect("a dnode takes a slot");
    let raw = bits::set(0, OBJECT.0, OBJECT.1, object.get());
    U64::new(bits::set(raw, SLOTS.0, SLOTS.1, extra.into()))
}

fn create_phys(r: &LrCreate) -> CreatePhys {
    CreatePhys {
        doid: U64::new(r.dir.get()),
        foid: with_slots(r.object, r.slots),
        mode: U64::new(r.mode),
        uid: U64::new(r.uid),
        gid: U64::new(r.gid),
        generation: U64::new(r.generation),
        crtime: time_phys(r.crtime),
        rdev: U64::new(r.rdev),
    }
}

fn encode_create(r: &LrCreate, has_attr: bool, has_target: bool, out: &mut Vec<u8>) {
    assert_eq!(r.attr.is_some(), has_attr, "attributes are there just in Attr types");
    assert_eq!(r.target.is_some(), has_target, "a target is there just in symlinks");
    put(out, &create_phys(r));
    r.attr.iter().for_each(|attr| put_attr(out, attr));
    r.domains.iter().for_each(|domain| put_text(out, domain));
    put_text(out, &r.name);
    r.target.iter().for_each(|target| put_text(out, target));
}

fn encode_create_acl(r: &LrCreateAcl, has_attr: bool, out: &mut Vec<u8>) {
    assert_eq!(r.create.attr.is_some(), has_attr, "attributes are there just in Attr types");
    put(out, &create_phys(&r.create));
    put(out, &acl_sizes(&r.acl));
    r.create.attr.iter().for_each(|attr| put_attr(out, attr));
    put_acl(out, &r.acl);
    put_text(out, &r.create.name);
}

fn put_attr(out: &mut Vec<u8>, attr: &LrAttr) {
    let words = u32::try_from(attr.bitmap.len()).expect("a bitmap has few words");
    assert!(words <= BITMAP_WORDS_MAX, "a bitmap has few words");
    put(out, &U32::new(words));
    attr.bitmap.iter().for_each(|word| put(out, &U32::new(*word)));
    let (attrs, crtime) = (U64::new(attr.attrs), time_phys(attr.crtime));
    put(out, &AttrEndPhys { attrs, crtime, scanstamp: attr.scanstamp });
}

fn acl_sizes(acl: &LrAclBody) -> AclSizesPhys {
    AclSizesPhys {
        aces: U64::new(acl.aces),
        domains: U64::new(acl.domains.len() as u64),
        fuids: U64::new(acl.fuids.len() as u64),
        acl_bytes: U64::new(acl.bytes.len() as u64),
        acl_flags: U64::new(acl.flags),
    }
}

fn put_acl(out: &mut Vec<u8>, acl: &LrAclBody) {
    out.extend_from_slice(&acl.bytes);
    let pad = acl.bytes.len().next_multiple_of(ALIGN).saturating_sub(acl.bytes.len());
    out.resize(out.len().saturating_add(pad), 0);
    acl.fuids.iter().for_each(|fuid| put(out, &U64::new(*fuid)));
    acl.domains.iter().for_each(|domain| put_text(out, domain));
}

fn rename_phys(r: &LrRename) -> RenamePhys {
    RenamePhys { source_dir: U64::new(r.source_dir.get()), target_dir: U64::new(r.target_dir.get()) }
}

fn put_names(out: &mut Vec<u8>, r: &LrRename) {
    put_text(out, &r.source);
    put_text(out, &r.target);
}

fn encode_whiteout(r: &LrRenameWhiteout, out: &mut Vec<u8>) {
    put(out, &rename_phys(&r.rename));
    put(
        out,
        &WhiteoutPhys {
            foid: with_slots(r.object, r.slots),
            mode: U64::new(r.mode),
            uid: U64::new(r.uid),
            gid: U64::new(r.gid),
            generation: U64::new(r.generation),
            crtime: time_phys(r.crtime),
            rdev: U64::new(r.rdev),
        },
    );
    put_names(out, &r.rename);
}

fn write_phys(r: &LrWrite) -> WritePhys {
    WritePhys {
        foid: U64::new(r.object.get()),
        offset: U64::new(r.offset),
        length: U64::new(r.length),
        blkoff: U64::new(r.blkoff),
        blkptr: r.blkptr,
    }
}

fn encode_write(r: &LrWrite, out: &mut Vec<u8>) {
    put(out, &write_phys(r));
    if let Some(data) = &r.data {
        assert_eq!(data.len() as u64, r.length, "a write's data are as long as it says");
        assert!(!data.is_empty(), "an empty write is not logged");
        out.extend_from_slice(data);
    }
}

fn encode_setattr(r: &LrSetattr, out: &mut Vec<u8>) {
    let asks = r.mask & attr_mask::XVATTR != 0;
    assert_eq!(r.attr.is_some(), asks, "attributes are there just when the mask says so");
    put(
        out,
        &SetattrPhys {
            foid: U64::new(r.object.get()),
            mask: U64::new(r.mask),
            mode: U64::new(r.mode),
            uid: U64::new(r.uid),
            gid: U64::new(r.gid),
            size: U64::new(r.size),
            atime: time_phys(r.atime),
            mtime: time_phys(r.mtime),
        },
    );
    r.attr.iter().for_each(|attr| put_attr(out, attr));
    r.domains.iter().for_each(|domain| put_text(out, domain));
}

fn encode_clone_range(r: &LrCloneRange, out: &mut Vec<u8>) {
    put(
        out,
        &CloneRangePhys {
            foid: U64::new(r.object.get()),
            offset: U64::new(r.offset),
            length: U64::new(r.length),
            block_bytes: U64::new(r.block_bytes),
            blkptrs: U64::new(r.blkptrs.len() as u64),
        },
    );
    r.blkptrs.iter().for_each(|bp| put(out, bp));
}
