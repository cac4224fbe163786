//! The intent log's structures in words.

use units::ObjectId;

use super::record::body::LrAclBody;
use super::{LogRecord, ZilHeader};
use crate::Blkptr;
use crate::describe::{Describe, Field, field, nested};
use crate::zil::record::{LrAttr, LrCreate, LrRename, LrSetattr, LrWrite, Timestamp};

impl Describe for ZilHeader {
    fn describe(&self) -> Vec<Field> {
        vec![
            field(
                "claim_txg",
                self.claim_txg.get(),
                "group in which an import took the log's blocks; 0: not yet",
            ),
            field("replay_seq", self.replay_seq.get(), "records up to this number have been replayed"),
            nested("log", &self.log, "the log's first block"),
            field(
                "claim_blk_seq",
                self.claim_blk_seq.get(),
                "number of the last block that the import found",
            ),
            field(
                "flags",
                format!("{:#x}", self.flags.get()),
                "1: records wait for replay; 2: claim_lr_seq counts",
            ),
            field("claim_lr_seq", self.claim_lr_seq.get(), "number of the last record that the import found"),
        ]
    }
}

impl Describe for LogRecord {
    fn describe(&self) -> Vec<Field> {
        match self {
            Self::Create(r)
            | Self::Mkdir(r)
            | Self::Mkxattr(r)
            | Self::Symlink(r)
            | Self::CreateAttr(r)
            | Self::MkdirAttr(r) => create(r),
            Self::CreateAcl(r) | Self::CreateAclAttr(r) | Self::MkdirAcl(r) | Self::MkdirAclAttr(r) => {
                [create(&r.create), acl(&r.acl)].concat()
            }
            Self::Remove(r) | Self::Rmdir(r) => {
                vec![object("dir", r.dir, "directory"), name("name", &r.name, "what was removed from it")]
            }
            Self::Link(r) => vec![
                object("dir", r.dir, "directory"),
                object("object", r.object, "the file"),
                name("name", &r.name, "its further name"),
            ],
            Self::Rename(r) | Self::RenameExchange(r) => rename(r),
            Self::RenameWhiteout(r) => {
                [rename(&r.rename), vec![object("object", r.object, "the whiteout left behind")]].concat()
            }
            Self::Write(r) | Self::Write2(r) => write(r),
            Self::Truncate(r) => vec![
                object("object", r.object, "file"),
                field("offset", r.offset, "where the range begins that was freed"),
                field("length", r.length, "bytes of it; 0: to the end, which is here now"),
            ],
            Self::Setattr(r) => setattr(r),
            Self::AclV0(r) => vec![
                object("object", r.object, "file"),
                field("aces", r.aces.len() as u64, "entries of the ACL"),
            ],
            Self::Acl(r) => [vec![object("object", r.object, "file")], acl(&r.acl)].concat(),
            Self::SetSaXattr(r) => vec![
                object("object", r.object, "file"),
                name("name", &r.name, "extended attribute"),
                field("length", r.value.len() as u64, "bytes of its value; 0: removed"),
            ],
            Self::CloneRange(r) => {
                let holes = r.blkptrs.iter().filter(|bp| bp.is_hole()).count() as u64;
                vec![
                    object("object", r.object, "file that blocks were cloned into"),
                    field("offset", r.offset, "where in it"),
                    field("length", r.length, "bytes"),
                    field("block_bytes", r.block_bytes, "the file's block size"),
                    field("blocks", r.blkptrs.len() as u64, "blocks cloned"),
                    field("holes", holes, "of which there is nothing in"),
                ]
            }
        }
    }
}

fn object(name: &'static str, id: ObjectId, about: &'static str) -> Field {
    field(name, id.get(), about)
}

fn name(field_name: &'static str, bytes: &[u8], about: &'static str) -> Field {
    field(field_name, String::from_utf8_lossy(bytes).into_owned(), about)
}

fn time(name: &'static str, time: Timestamp, about: &'static str) -> Field {
    field(name, format!("{}.{:09}", time.seconds, time.nanos), about)
}

fn create(r: &LrCreate) -> Vec<Field> {
    let mut fields = vec![
        object("dir", r.dir, "directory"),
        object("object", r.object, "the new object's number"),
        field("slots", u64::from(r.slots), "slots of 512 bytes that its dnode takes"),
        name("name", &r.name, "its name"),
        field("mode", format!("{:o}", r.mode), "permissions and type, octal"),
        field("uid", r.uid, "owner"),
        field("gid", r.gid, "group"),
        field("generation", r.generation, "group in which it was made"),
        time("crtime", r.crtime, "when: seconds since 1970, UTC"),
        field("rdev", r.rdev, "device number, of device files"),
    ];
    fields.extend(r.target.iter().map(|text| name("target", text, "what the symbolic link says")));
    fields.extend(r.attr.iter().map(attr));
    fields
}

fn attr(attr: &LrAttr) -> Field {
    let bitmap: Vec<String> = attr.bitmap.iter().map(|word| format!("{word:#x}")).collect();
    let text = format!("bitmap {}, attributes {:#x}", bitmap.join(" "), attr.attrs);
    field("attr", text, "further attributes: which of them, and flags")
}

fn acl(acl: &LrAclBody) -> Vec<Field> {
    vec![
        field("aces", acl.aces, "entries of the ACL"),
        field("acl_flags", format!("{:#x}", acl.flags), "flags of the whole ACL"),
        field("acl_bytes", acl.bytes.len() as u64, "bytes of the entries"),
    ]
}

fn rename(r: &LrRename) -> Vec<Field> {
    vec![
        object("source_dir", r.source_dir, "directory it was in"),
        name("source", &r.source, "its name there"),
        object("target_dir", r.target_dir, "directory it is in now"),
        name("target", &r.target, "its name now"),
    ]
}

fn write(r: &LrWrite) -> Vec<Field> {
    let mut fields = vec![
        object("object", r.object, "file or volume"),
        field("offset", r.offset, "where in it"),
        field("length", r.length, "bytes"),
    ];
    fields.push(match (&r.data, r.blkptr == Blkptr::HOLE) {
        (Some(_), _) => field("data", "in the record".to_owned(), "where the bytes are"),
        (None, true) => field("data", "a hole".to_owned(), "the bytes are zeros"),
        (None, false) => nested("blkptr", &r.blkptr, "the bytes are in this block of the pool"),
    });
    fields
}

fn setattr(r: &LrSetattr) -> Vec<Field> {
    use super::record::body::attr_mask as bit;
    let mut fields = vec![
        object("object", r.object, "file"),
        field("mask", format!("{:#x}", r.mask), "which attributes were set"),
    ];
    let mut set = |mask, value: Field| {
        if r.mask & mask != 0 {
            fields.push(value);
        }
    };
    set(bit::MODE, field("mode", format!("{:o}", r.mode), "permissions and type, octal"));
    set(bit::UID, field("uid", r.uid, "owner"));
    set(bit::GID, field("gid", r.gid, "group"));
    set(bit::SIZE, field("size", r.size, "length"));
    set(bit::ATIME, time("atime", r.atime, "last access: seconds since 1970, UTC"));
    set(bit::MTIME, time("mtime", r.mtime, "last change: seconds since 1970, UTC"));
    fields.extend(r.attr.iter().map(attr));
    fields
}
