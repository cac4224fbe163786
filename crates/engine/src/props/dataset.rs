//! Properties of datasets, in the order of `zfs get all`. Words of choices and their numbers are the
//! format's: [`ondisk::props`].

use super::{Access, Applies, Choice, Kind, PropDef};

const ANY: Applies = Applies { filesystem: true, volume: true, snapshot: true, bookmark: true };
const ALL: Applies = Applies { filesystem: true, volume: true, snapshot: true, bookmark: false };
const LIVE: Applies = Applies { filesystem: true, volume: true, snapshot: false, bookmark: false };
const FS: Applies = Applies { filesystem: true, volume: false, snapshot: false, bookmark: false };
const FS_SNAP: Applies = Applies { filesystem: true, volume: false, snapshot: true, bookmark: false };
const SNAP: Applies = Applies { filesystem: false, volume: false, snapshot: true, bookmark: false };
const VOL: Applies = Applies { filesystem: false, volume: true, snapshot: false, bookmark: false };

const SIZE: Kind = Kind::Size { none_is_zero: false };
const AMOUNT: Kind = Kind::Amount;
const LIMIT: Kind = Kind::Size { none_is_zero: true };

const fn choice(help: &'static str, words: &'static [Choice]) -> Kind {
    Kind::Choice { help, words }
}
const SWITCH: Kind = choice("on | off", ondisk::props::BOOLEAN);

/// What the property `name` can be set to, as the format has it.
const fn index(name: &str, help: &'static str) -> Kind {
    choice(help, ondisk::props::dataset_values(name))
}

const COMPRESSION_HELP: &str = "on | off | lzjb | gzip | gzip-[1-9] | zle | lz4 | zstd | zstd-[1-19] | \
     zstd-fast | zstd-fast-[1-10,20,30,40,50,60,70,80,90,100,500,1000]";

const fn ro(name: &'static str, column: &'static str, kind: Kind, applies: Applies) -> PropDef {
    PropDef { name, column, kind, access: Access::ReadOnly, applies, default: "" }
}
const fn inherit(
    name: &'static str,
    column: &'static str,
    kind: Kind,
    applies: Applies,
    default: &'static str,
) -> PropDef {
    PropDef { name, column, kind, access: Access::Inherit, applies, default }
}
const fn own(
    name: &'static str,
    column: &'static str,
    kind: Kind,
    applies: Applies,
    default: &'static str,
) -> PropDef {
    PropDef { name, column, kind, access: Access::Set, applies, default }
}
const fn once(
    name: &'static str,
    column: &'static str,
    kind: Kind,
    applies: Applies,
    default: &'static str,
) -> PropDef {
    PropDef { name, column, kind, access: Access::AtCreation, applies, default }
}

/// All properties of datasets.
pub const DATASET_PROPS: &[PropDef] = &[
    ro("type", "TYPE", Kind::Text, ANY),
    ro("creation", "CREATION", Kind::Time, ANY),
    ro("used", "USED", SIZE, ALL),
    ro("available", "AVAIL", SIZE, LIVE),
    ro("referenced", "REFER", SIZE, ANY),
    ro("compressratio", "RATIO", Kind::Ratio, ANY),
    ro("mounted", "MOUNTED", choice("yes | no", &[("no", 0), ("yes", 1)]), FS),
    ro("origin", "ORIGIN", Kind::Text, LIVE),
    own("quota", "QUOTA", LIMIT, FS, "0"),
    own("reservation", "RESERV", LIMIT, LIVE, "0"),
    own("volsize", "VOLSIZE", SIZE, VOL, ""),
    once("volblocksize", "VOLBLOCK", SIZE, VOL, "16384"),
    inherit("recordsize", "RECSIZE", SIZE, FS, "131072"),
    inherit("mountpoint", "MOUNTPOINT", Kind::Mountpoint, FS, ""),
    inherit("sharenfs", "SHARENFS", Kind::Text, FS, "off"),
    inherit(
        "checksum",
        "CHECKSUM",
        index("checksum", "on | off | fletcher2 | fletcher4 | sha256 | sha512 | skein | edonr | blake3"),
        LIVE,
        "on",
    ),
    inherit("compression", "COMPRESS", index("compression", COMPRESSION_HELP), LIVE, "on"),
    inherit("atime", "ATIME", SWITCH, FS, "on"),
    inherit("devices", "DEVICES", SWITCH, FS_SNAP, "on"),
    inherit("exec", "EXEC", SWITCH, FS_SNAP, "on"),
    inherit("setuid", "SETUID", SWITCH, FS_SNAP, "on"),
    inherit("readonly", "RDONLY", SWITCH, LIVE, "off"),
    inherit("zoned", "ZONED", SWITCH, FS, "off"),
    inherit("snapdir", "SNAPDIR", index("snapdir", "disabled | hidden | visible"), FS, "hidden"),
    inherit(
        "aclmode",
        "ACLMODE",
        index("aclmode", "discard | groupmask | passthrough | restricted"),
        FS,
        "discard",
    ),
    inherit(
        "aclinherit",
        "ACLINHERIT",
        index("aclinherit", "discard | noallow | restricted | passthrough | passthrough-x"),
        FS,
        "restricted",
    ),
    ro("createtxg", "CREATETXG", Kind::Id, ANY),
    own("canmount", "CANMOUNT", index("canmount", "on | off | noauto"), FS, "on"),
    inherit("xattr", "XATTR", index("xattr", "on | off | dir | sa"), FS_SNAP, "on"),
    inherit("copies", "COPIES", index("copies", "1 | 2 | 3"), LIVE, "1"),
    once(
        "version",
        "VERSION",
        choice(
            "1 | 2 | 3 | 4 | 5 | current",
            &[("1", 1), ("2", 2), ("3", 3), ("4", 4), ("5", 5), ("current", 5)],
        ),
        FS_SNAP,
        "5",
    ),
    once("utf8only", "UTF8ONLY", SWITCH, FS_SNAP, "off"),
    once(
        "normalization",
        "NORMALIZATION",
        index("normalization", "none | formC | formD | formKC | formKD"),
        FS_SNAP,
        "none",
    ),
    once(
        "casesensitivity",
        "CASE",
        index("casesensitivity", "sensitive | insensitive | mixed"),
        FS_SNAP,
        "sensitive",
    ),
    inherit("vscan", "VSCAN", SWITCH, FS, "off"),
    inherit("nbmand", "NBMAND", SWITCH, FS_SNAP, "off"),
    inherit("sharesmb", "SHARESMB", Kind::Text, FS, "off"),
    own("refquota", "REFQUOTA", LIMIT, FS, "0"),
    own("refreservation", "REFRESERV", LIMIT, LIVE, "0"),
    ro("guid", "GUID", Kind::Id, ANY),
    inherit("primarycache", "PRIMARYCACHE", index("primarycache", "all | none | metadata"), ALL, "all"),
    inherit("secondarycache", "SECONDARYCACHE", index("secondarycache", "all | none | metadata"), ALL, "all"),
    ro("usedbysnapshots", "USEDSNAP", SIZE, LIVE),
    ro("usedbydataset", "USEDDS", SIZE, LIVE),
    ro("usedbychildren", "USEDCHILD", SIZE, LIVE),
    ro("usedbyrefreservation", "USEDREFRESERV", SIZE, LIVE),
    ro("defer_destroy", "DEFER_DESTROY", SWITCH, SNAP),
    ro("userrefs", "USERREFS", Kind::Id, SNAP),
    inherit("logbias", "LOGBIAS", index("logbias", "latency | throughput"), LIVE, "latency"),
    ro("objsetid", "OBJSETID", Kind::Id, ALL),
    inherit(
        "dedup",
        "DEDUP",
        index(
            "dedup",
            "on | off | verify | sha256[,verify] | sha512[,verify] | skein[,verify] | edonr,verify | \
             blake3[,verify]",
        ),
        LIVE,
        "off",
    ),
    inherit("mlslabel", "MLSLABEL", Kind::Text, ALL, "none"),
    inherit("sync", "SYNC", index("sync", "standard | always | disabled"), LIVE, "standard"),
    inherit(
        "dnodesize",
        "DNSIZE",
        index("dnodesize", "legacy | auto | 1k | 2k | 4k | 8k | 16k"),
        FS,
        "legacy",
    ),
    ro("refcompressratio", "REFRATIO", Kind::Ratio, ALL),
    ro("written", "WRITTEN", AMOUNT, ALL),
    ro("clones", "CLONES", Kind::Text, SNAP),
    ro("logicalused", "LUSED", AMOUNT, LIVE),
    ro("logicalreferenced", "LREFER", AMOUNT, ANY),
    inherit("volmode", "VOLMODE", index("volmode", "default | full | geom | dev | none"), LIVE, "default"),
    own("filesystem_limit", "FSLIMIT", Kind::Count, FS, "none"),
    own("snapshot_limit", "SSLIMIT", Kind::Count, LIVE, "none"),
    ro("filesystem_count", "FSCOUNT", Kind::Count, FS),
    ro("snapshot_count", "SSCOUNT", Kind::Count, LIVE),
    inherit("snapdev", "SNAPDEV", index("snapdev", "hidden | visible"), LIVE, "hidden"),
    inherit("acltype", "ACLTYPE", index("acltype", "off | nfsv4 | posix"), FS_SNAP, "off"),
    own("context", "CONTEXT", Kind::Text, ALL, "none"),
    own("fscontext", "FSCONTEXT", Kind::Text, ALL, "none"),
    own("defcontext", "DEFCONTEXT", Kind::Text, ALL, "none"),
    own("rootcontext", "ROOTCONTEXT", Kind::Text, ALL, "none"),
    inherit("relatime", "RELATIME", SWITCH, FS, "on"),
    inherit(
        "redundant_metadata",
        "REDUND_MD",
        index("redundant_metadata", "all | most | some | none"),
        LIVE,
        "all",
    ),
    inherit("overlay", "OVERLAY", SWITCH, FS, "on"),
    ro("receive_resume_token", "RESUMETOK", Kind::Text, LIVE),
    once(
        "encryption",
        "ENCRYPTION",
        index(
            "encryption",
            "on | off | aes-128-ccm | aes-192-ccm | aes-256-ccm | aes-128-gcm | aes-192-gcm | aes-256-gcm",
        ),
        ALL,
        "off",
    ),
    own("keylocation", "KEYLOCATION", Kind::Text, LIVE, "none"),
    once("keyformat", "KEYFORMAT", index("keyformat", "none | raw | hex | passphrase"), LIVE, "none"),
    once("pbkdf2iters", "PBKDF2ITERS", Kind::Id, LIVE, "0"),
    inherit("special_small_blocks", "SPECIAL_SMALL_BLOCKS", AMOUNT, FS, "0"),
    ro("snapshots_changed", "SNAPSHOTS_CHANGED", Kind::Moment, LIVE),
    inherit("prefetch", "PREFETCH", index("prefetch", "none | metadata | all"), ALL, "all"),
    inherit("direct", "DIRECT", index("direct", "disabled | standard | always"), FS, "standard"),
    inherit("longname", "LONGNAME", SWITCH, FS, "off"),
];
