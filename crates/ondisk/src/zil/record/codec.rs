//! Records to bytes and back.

use units::{ObjectId, Txg, ZilSeq};
use zerocopy::IntoBytes;
use zerocopy::little_endian::{U32, U64};

use super::body::{LrAclBody, Timestamp, attr_mask};
use super::phys::{
    AclSizesPhys, AttrEndPhys, CloneRangePhys, CreatePhys, LrCommon, PairPhys, RenamePhys, SetattrPhys,
    TimePhys, TruncatePhys, WhiteoutPhys, WritePhys,
};
use super::{
    CASE_INSENSITIVE, LogRecord, LrAcl, LrAclV0, LrAttr, LrCloneRange, LrCreate, LrCreateAcl, LrLink,
    LrRemove, LrRename, LrRenameWhiteout, LrSetSaXattr, LrSetattr, LrTruncate, LrWrite, RecordHead, TxType,
};
use crate::bits;
use crate::blkptr::BLKPTR_BYTES;
use crate::error::{OndiskError, bad};
use crate::reader::Reader;

const WHAT: &str = "log record";
/// Records are padded to this.
const ALIGN: usize = 8;
/// Bytes of [`LrCommon`] and [`WritePhys`]: a write record without data.
pub const WRITE_HEADER_BYTES: usize = size_of::<LrCommon>() + size_of::<WritePhys>();
/// Words of an attribute bitmap that we read: OpenZFS has three.
const BITMAP_WORDS_MAX: u32 = 64;

impl LogRecord {
    /// Decodes the record at the start of `bytes`; gives its length too.
    ///
    /// # Errors
    /// When its length makes no sense, or its contents do not fit its length.
    pub fn decode(bytes: &[u8]) -> Result<(RecordHead, Self, usize), OndiskError> {
        let common: LrCommon = crate::reader::prefix(WHAT, bytes)?;
        let reclen = common.reclen.get();
        let len = usize::try_from(reclen).unwrap_or(usize::MAX);
        let whole = bytes.get(..len).filter(|_| len.is_multiple_of(ALIGN));
        let body = whole.and_then(|record| record.get(size_of::<LrCommon>()..));
        let body = body.ok_or_else(|| bad(WHAT, "length", reclen))?;
        let raw = common.txtype.get();
        let tx_type = TxType::from_raw(raw & !CASE_INSENSITIVE)?;
        let head = RecordHead {
            txg: Txg::new(common.txg.get()),
            seq: ZilSeq::new(common.seq.get()),
            case_insensitive: raw & CASE_INSENSITIVE != 0,
        };
        Ok((head, decode_body(tx_type, &mut Reader::new(tx_type.name(), body))?, len))
    }

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

fn decode_body(tx_type: TxType, from: &mut Reader<'_>) -> Result<LogRecord, OndiskError> {
    Ok(match tx_type {
        TxType::Create => LogRecord::Create(decode_create(from, false, false)?),
        TxType::Mkdir => LogRecord::Mkdir(decode_create(from, false, false)?),
        TxType::Mkxattr => LogRecord::Mkxattr(decode_create(from, false, false)?),
        TxType::Symlink => LogRecord::Symlink(decode_create(from, false, true)?),
        TxType::CreateAttr => LogRecord::CreateAttr(decode_create(from, true, false)?),
        TxType::MkdirAttr => LogRecord::MkdirAttr(decode_create(from, true, false)?),
        TxType::CreateAcl => LogRecord::CreateAcl(decode_create_acl(from, false)?),
        TxType::MkdirAcl => LogRecord::MkdirAcl(decode_create_acl(from, false)?),
        TxType::CreateAclAttr => LogRecord::CreateAclAttr(decode_create_acl(from, true)?),
        TxType::MkdirAclAttr => LogRecord::MkdirAclAttr(decode_create_acl(from, true)?),
        TxType::Remove => LogRecord::Remove(decode_remove(from)?),
        TxType::Rmdir => LogRecord::Rmdir(decode_remove(from)?),
        TxType::Link => LogRecord::Link(decode_link(from)?),
        TxType::Rename => LogRecord::Rename(decode_rename(from)?),
        TxType::RenameExchange => LogRecord::RenameExchange(decode_rename(from)?),
        TxType::RenameWhiteout => LogRecord::RenameWhiteout(decode_whiteout(from)?),
        TxType::Write => LogRecord::Write(decode_write(from)?),
        TxType::Write2 => LogRecord::Write2(decode_write(from)?),
        TxType::Truncate => LogRecord::Truncate(decode_truncate(from)?),
        TxType::Setattr => LogRecord::Setattr(decode_setattr(from)?),
        TxType::SetSaXattr => LogRecord::SetSaXattr(decode_set_sa_xattr(from)?),
        TxType::AclV0 => LogRecord::AclV0(decode_acl_v0(from)?),
        TxType::Acl => LogRecord::Acl(decode_acl(from)?),
        TxType::CloneRange => LogRecord::CloneRange(decode_clone_range(from)?),
    })
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

// Pieces that several records share.

fn put(out: &mut Vec<u8>, value: &(impl IntoBytes + zerocopy::Immutable)) {
    out.extend_from_slice(value.as_bytes());
}

fn put_text(out: &mut Vec<u8>, text: &[u8]) {
    assert!(!text.contains(&0), "a name holds no NUL");
    out.extend_from_slice(text);
    out.push(0);
}

fn text(from: &mut Reader<'_>) -> Result<Vec<u8>, OndiskError> {
    from.c_string().map(<[u8]>::to_vec)
}

fn texts(from: &mut Reader<'_>, count: u64) -> Result<Vec<Vec<u8>>, OndiskError> {
    (0..count).map(|_| text(from)).collect()
}

fn pair(first: u64, second: u64) -> PairPhys {
    PairPhys { first: U64::new(first), second: U64::new(second) }
}

fn time(phys: TimePhys) -> Timestamp {
    let [seconds, nanos] = phys;
    Timestamp { seconds: seconds.get().cast_signed(), nanos: nanos.get() }
}

fn time_phys(time: Timestamp) -> TimePhys {
    [U64::new(time.seconds.cast_unsigned()), U64::new(time.nanos)]
}

/// Position of the slot count in an object number, and the number's own bits.
const SLOTS: (u32, u32) = (56, 8);
const OBJECT: (u32, u32) = (0, 48);

fn object_and_slots(raw: u64) -> (ObjectId, u8) {
    let slots = bits::get(raw, SLOTS.0, SLOTS.1).saturating_add(1);
    (ObjectId::new(bits::get(raw, OBJECT.0, OBJECT.1)), u8::try_from(slots).unwrap_or(u8::MAX))
}

fn with_slots(object: ObjectId, slots: u8) -> U64 {
    let extra = slots.checked_sub(1).expect("a dnode takes a slot");
    let raw = bits::set(0, OBJECT.0, OBJECT.1, object.get());
    U64::new(bits::set(raw, SLOTS.0, SLOTS.1, extra.into()))
}

// Creates.

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

fn create_of(phys: &CreatePhys) -> LrCreate {
    let (object, slots) = object_and_slots(phys.foid.get());
    LrCreate {
        dir: ObjectId::new(phys.doid.get()),
        object,
        slots,
        mode: phys.mode.get(),
        uid: phys.uid.get(),
        gid: phys.gid.get(),
        generation: phys.generation.get(),
        crtime: time(phys.crtime),
        rdev: phys.rdev.get(),
        ..LrCreate::default()
    }
}

/// How many domain names owner and group need: one for each index other than 0 in the upper
/// halves, one for both if it is the same.
fn domains_of(uid: u64, gid: u64) -> u64 {
    let (owner, group) = (bits::get(uid, 32, 32), bits::get(gid, 32, 32));
    let needs_group = group != 0 && group != owner;
    u64::from(owner != 0).saturating_add(u64::from(needs_group))
}

fn decode_create(from: &mut Reader<'_>, has_attr: bool, has_target: bool) -> Result<LrCreate, OndiskError> {
    let mut create = create_of(&from.read()?);
    if has_attr {
        create.attr = Some(decode_attr(from)?);
    }
    if !has_target {
        create.domains = texts(from, domains_of(create.uid, create.gid))?;
    }
    create.name = text(from)?;
    if has_target {
        create.target = Some(text(from)?);
    }
    Ok(create)
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

fn decode_create_acl(from: &mut Reader<'_>, has_attr: bool) -> Result<LrCreateAcl, OndiskError> {
    let mut create = create_of(&from.read()?);
    let sizes: AclSizesPhys = from.read()?;
    if has_attr {
        create.attr = Some(decode_attr(from)?);
    }
    let acl = decode_acl_body(from, &sizes)?;
    create.name = text(from)?;
    Ok(LrCreateAcl { create, acl })
}

fn encode_create_acl(r: &LrCreateAcl, has_attr: bool, out: &mut Vec<u8>) {
    assert_eq!(r.create.attr.is_some(), has_attr, "attributes are there just in Attr types");
    put(out, &create_phys(&r.create));
    put(out, &acl_sizes(&r.acl));
    r.create.attr.iter().for_each(|attr| put_attr(out, attr));
    put_acl(out, &r.acl);
    put_text(out, &r.create.name);
}

fn decode_attr(from: &mut Reader<'_>) -> Result<LrAttr, OndiskError> {
    let words = from.read::<U32>()?.get();
    if words > BITMAP_WORDS_MAX {
        return Err(bad(WHAT, "attribute bitmap words", words));
    }
    let bitmap = (0..words).map(|_| from.read::<U32>().map(U32::get)).collect::<Result<_, _>>()?;
    let end: AttrEndPhys = from.read()?;
    Ok(LrAttr { bitmap, attrs: end.attrs.get(), crtime: time(end.crtime), scanstamp: end.scanstamp })
}

fn put_attr(out: &mut Vec<u8>, attr: &LrAttr) {
    let words = u32::try_from(attr.bitmap.len()).expect("a bitmap has few words");
    assert!(words <= BITMAP_WORDS_MAX, "a bitmap has few words");
    put(out, &U32::new(words));
    attr.bitmap.iter().for_each(|word| put(out, &U32::new(*word)));
    let (attrs, crtime) = (U64::new(attr.attrs), time_phys(attr.crtime));
    put(out, &AttrEndPhys { attrs, crtime, scanstamp: attr.scanstamp });
}

// ACLs.

fn acl_sizes(acl: &LrAclBody) -> AclSizesPhys {
    AclSizesPhys {
        aces: U64::new(acl.aces),
        domains: U64::new(acl.domains.len() as u64),
        fuids: U64::new(acl.fuids.len() as u64),
        acl_bytes: U64::new(acl.bytes.len() as u64),
        acl_flags: U64::new(acl.flags),
    }
}

fn decode_acl_body(from: &mut Reader<'_>, sizes: &AclSizesPhys) -> Result<LrAclBody, OndiskError> {
    let len = usize::try_from(sizes.acl_bytes.get()).ok();
    let padded = len.and_then(|len| len.checked_next_multiple_of(ALIGN));
    let padded = padded.ok_or_else(|| bad(WHAT, "acl bytes", sizes.acl_bytes.get()))?;
    let bytes = from.take(padded)?.get(..len.unwrap_or(0)).unwrap_or_default().to_vec();
    let fuids = (0..sizes.fuids.get()).map(|_| from.read::<U64>().map(U64::get)).collect::<Result<_, _>>()?;
    let domains = texts(from, sizes.domains.get())?;
    Ok(LrAclBody { aces: sizes.aces.get(), flags: sizes.acl_flags.get(), bytes, fuids, domains })
}

fn put_acl(out: &mut Vec<u8>, acl: &LrAclBody) {
    out.extend_from_slice(&acl.bytes);
    let pad = acl.bytes.len().next_multiple_of(ALIGN).saturating_sub(acl.bytes.len());
    out.resize(out.len().saturating_add(pad), 0);
    acl.fuids.iter().for_each(|fuid| put(out, &U64::new(*fuid)));
    acl.domains.iter().for_each(|domain| put_text(out, domain));
}

fn decode_acl_v0(from: &mut Reader<'_>) -> Result<LrAclV0, OndiskError> {
    let phys: PairPhys = from.read()?;
    let aces = (0..phys.second.get()).map(|_| from.read::<[u8; 12]>()).collect::<Result<_, _>>()?;
    Ok(LrAclV0 { object: ObjectId::new(phys.first.get()), aces })
}

fn decode_acl(from: &mut Reader<'_>) -> Result<LrAcl, OndiskError> {
    let object = ObjectId::new(from.read::<U64>()?.get());
    let sizes = from.read()?;
    Ok(LrAcl { object, acl: decode_acl_body(from, &sizes)? })
}

// Names.

fn decode_remove(from: &mut Reader<'_>) -> Result<LrRemove, OndiskError> {
    Ok(LrRemove { dir: ObjectId::new(from.read::<U64>()?.get()), name: text(from)? })
}

fn decode_link(from: &mut Reader<'_>) -> Result<LrLink, OndiskError> {
    let phys: PairPhys = from.read()?;
    let (dir, object) = (ObjectId::new(phys.first.get()), ObjectId::new(phys.second.get()));
    Ok(LrLink { dir, object, name: text(from)? })
}

fn rename_phys(r: &LrRename) -> RenamePhys {
    RenamePhys { source_dir: U64::new(r.source_dir.get()), target_dir: U64::new(r.target_dir.get()) }
}

fn put_names(out: &mut Vec<u8>, r: &LrRename) {
    put_text(out, &r.source);
    put_text(out, &r.target);
}

fn rename_of(phys: &RenamePhys, from: &mut Reader<'_>) -> Result<LrRename, OndiskError> {
    Ok(LrRename {
        source_dir: ObjectId::new(phys.source_dir.get()),
        target_dir: ObjectId::new(phys.target_dir.get()),
        source: text(from)?,
        target: text(from)?,
    })
}

fn decode_rename(from: &mut Reader<'_>) -> Result<LrRename, OndiskError> {
    let phys = from.read()?;
    rename_of(&phys, from)
}

fn decode_whiteout(from: &mut Reader<'_>) -> Result<LrRenameWhiteout, OndiskError> {
    let (rename, phys): (RenamePhys, WhiteoutPhys) = (from.read()?, from.read()?);
    let (object, slots) = object_and_slots(phys.foid.get());
    Ok(LrRenameWhiteout {
        rename: rename_of(&rename, from)?,
        object,
        slots,
        mode: phys.mode.get(),
        uid: phys.uid.get(),
        gid: phys.gid.get(),
        generation: phys.generation.get(),
        crtime: time(phys.crtime),
        rdev: phys.rdev.get(),
    })
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

// Contents.

fn write_phys(r: &LrWrite) -> WritePhys {
    WritePhys {
        foid: U64::new(r.object.get()),
        offset: U64::new(r.offset),
        length: U64::new(r.length),
        blkoff: U64::new(r.blkoff),
        blkptr: r.blkptr,
    }
}

fn decode_write(from: &mut Reader<'_>) -> Result<LrWrite, OndiskError> {
    let phys: WritePhys = from.read()?;
    let data = if from.is_empty() {
        None
    } else {
        let len = usize::try_from(phys.length.get()).map_err(|_| bad(WHAT, "length", phys.length.get()))?;
        Some(from.take(len)?.to_vec())
    };
    Ok(LrWrite {
        object: ObjectId::new(phys.foid.get()),
        offset: phys.offset.get(),
        length: phys.length.get(),
        blkoff: phys.blkoff.get(),
        blkptr: phys.blkptr,
        data,
    })
}

fn encode_write(r: &LrWrite, out: &mut Vec<u8>) {
    put(out, &write_phys(r));
    if let Some(data) = &r.data {
        assert_eq!(data.len() as u64, r.length, "a write's data are as long as it says");
        assert!(!data.is_empty(), "an empty write is not logged");
        out.extend_from_slice(data);
    }
}

fn decode_truncate(from: &mut Reader<'_>) -> Result<LrTruncate, OndiskError> {
    let phys: TruncatePhys = from.read()?;
    let object = ObjectId::new(phys.foid.get());
    Ok(LrTruncate { object, offset: phys.offset.get(), length: phys.length.get() })
}

fn decode_setattr(from: &mut Reader<'_>) -> Result<LrSetattr, OndiskError> {
    let phys: SetattrPhys = from.read()?;
    let (mask, uid, gid) = (phys.mask.get(), phys.uid.get(), phys.gid.get());
    let attr = if mask & attr_mask::XVATTR != 0 { Some(decode_attr(from)?) } else { None };
    Ok(LrSetattr {
        object: ObjectId::new(phys.foid.get()),
        mask,
        mode: phys.mode.get(),
        uid,
        gid,
        size: phys.size.get(),
        atime: time(phys.atime),
        mtime: time(phys.mtime),
        attr,
        domains: texts(from, domains_of(uid, gid))?,
    })
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

fn decode_set_sa_xattr(from: &mut Reader<'_>) -> Result<LrSetSaXattr, OndiskError> {
    let phys: PairPhys = from.read()?;
    let name = text(from)?;
    let len = usize::try_from(phys.second.get()).map_err(|_| bad(WHAT, "size", phys.second.get()))?;
    Ok(LrSetSaXattr { object: ObjectId::new(phys.first.get()), name, value: from.take(len)?.to_vec() })
}

fn decode_clone_range(from: &mut Reader<'_>) -> Result<LrCloneRange, OndiskError> {
    let phys: CloneRangePhys = from.read()?;
    let count = phys.blkptrs.get();
    let fits = u64::try_from(from.rest().len() / BLKPTR_BYTES).is_ok_and(|room| count <= room);
    if !fits {
        return Err(bad(WHAT, "blkptrs", count));
    }
    Ok(LrCloneRange {
        object: ObjectId::new(phys.foid.get()),
        offset: phys.offset.get(),
        length: phys.length.get(),
        block_bytes: phys.block_bytes.get(),
        blkptrs: (0..count).map(|_| from.read()).collect::<Result<_, _>>()?,
    })
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
