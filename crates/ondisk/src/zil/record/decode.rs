//! Bytes to records.

use units::{ObjectId, Txg, ZilSeq};
use zerocopy::little_endian::{U32, U64};

use super::body::{LrAclBody, Timestamp, attr_mask};
use super::phys::{
    ALIGN, AclSizesPhys, AttrEndPhys, BITMAP_WORDS_MAX, CloneRangePhys, CreatePhys, LrCommon, OBJECT,
    PairPhys, RenamePhys, SLOTS, SetattrPhys, TimePhys, TruncatePhys, WhiteoutPhys, WritePhys,
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

fn text(from: &mut Reader<'_>) -> Result<Vec<u8>, OndiskError> {
    from.c_string().map(<[u8]>::to_vec)
}

fn texts(from: &mut Reader<'_>, count: u64) -> Result<Vec<Vec<u8>>, OndiskError> {
    (0..count).map(|_| text(from)).collect()
}

fn time(phys: TimePhys) -> Timestamp {
    let [seconds, nanos] = phys;
    Timestamp { seconds: seconds.get().cast_signed(), nanos: nanos.get() }
}

fn object_and_slots(raw: u64) -> (ObjectId, u8) {
    let slots = bits::get(raw, SLOTS.0, SLOTS.1).saturating_add(1);
    (ObjectId::new(bits::get(raw, OBJECT.0, OBJECT.1)), u8::try_from(slots).unwrap_or(u8::MAX))
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

fn decode_attr(from: &mut Reader<'_>) -> Result<LrAttr, OndiskError> {
    let words = from.read::<U32>()?.get();
    if words > BITMAP_WORDS_MAX {
        return Err(bad(WHAT, "attribute bitmap words", words));
    }
    let bitmap = (0..words).map(|_| from.read::<U32>().map(U32::get)).collect::<Result<_, _>>()?;
    let end: AttrEndPhys = from.read()?;
    Ok(LrAttr { bitmap, attrs: end.attrs.get(), crtime: time(end.crtime), scanstamp: end.scanstamp })
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

fn decode_remove(from: &mut Reader<'_>) -> Result<LrRemove, OndiskError> {
    Ok(LrRemove { dir: ObjectId::new(from.read::<U64>()?.get()), name: text(from)? })
}

fn decode_link(from: &mut Reader<'_>) -> Result<LrLink, OndiskError> {
    let phys: PairPhys = from.read()?;
    let (dir, object) = (ObjectId::new(phys.first.get()), ObjectId::new(phys.second.get()));
    Ok(LrLink { dir, object, name: text(from)? })
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
