//! Properties of datasets, in the order of `zfs get all`. Numbers of choices are the
//! format's (include/sys/fs/zfs.h, include/sys/zio.h, include/sys/zio_compress.h).

use super::{Access, Applies, Choice, Kind, PropDef};

const ALL: Applies = Applies { filesystem: true, volume: true, snapshot: true };
const LIVE: Applies = Applies { filesystem: true, volume: true, snapshot: false };
const FS: Applies = Applies { filesystem: true, volume: false, snapshot: false };
const FS_SNAP: Applies = Applies { filesystem: true, volume: false, snapshot: true };
const SNAP: Applies = Applies { filesystem: false, volume: false, snapshot: true };
const VOL: Applies = Applies { filesystem: false, volume: true, snapshot: false };

const SIZE: Kind = Kind::Size { none_is_zero: false };
const AMOUNT: Kind = Kind::Amount;
const LIMIT: Kind = Kind::Size { none_is_zero: true };

const fn choice(help: &'static str, words: &'static [Choice]) -> Kind {
    Kind::Choice { help, words }
}
const SWITCH: Kind = choice("on | off", &[("off", 0), ("on", 1)]);

const CHECKSUM: &[Choice] = &[
    ("on", 1),
    ("off", 2),
    ("fletcher2", 6),
    ("fletcher4", 7),
    ("sha256", 8),
    ("noparity", 10),
    ("sha512", 11),
    ("skein", 12),
    ("edonr", 13),
    ("blake3", 14),
];

/// Deduplication names a checksum; this bit asks for a comparison of the bytes, too.
const VERIFY: u64 = 1 << 8;
const DEDUP: &[Choice] = &[
    ("off", 2),
    ("on", 1),
    ("verify", 1 | VERIFY),
    ("sha256", 8),
    ("sha256,verify", 8 | VERIFY),
    ("sha512", 11),
    ("sha512,verify", 11 | VERIFY),
    ("skein", 12),
    ("skein,verify", 12 | VERIFY),
    ("edonr,verify", 13 | VERIFY),
    ("blake3", 14),
    ("blake3,verify", 14 | VERIFY),
];

/// A zstd level rides above the seven bits of the algorithm's number; fast levels count
/// from 103 on.
const fn zstd(level: u64) -> u64 {
    16 | level << 7
}
const COMPRESSION: &[Choice] = &[
    ("on", 1),
    ("off", 2),
    ("lzjb", 3),
    ("gzip", 10),
    ("gzip-1", 5),
    ("gzip-2", 6),
    ("gzip-3", 7),
    ("gzip-4", 8),
    ("gzip-5", 9),
    ("gzip-6", 10),
    ("gzip-7", 11),
    ("gzip-8", 12),
    ("gzip-9", 13),
    ("zle", 14),
    ("lz4", 15),
    ("zstd", 16),
    ("zstd-1", zstd(1)),
    ("zstd-2", zstd(2)),
    ("zstd-3", zstd(3)),
    ("zstd-4", zstd(4)),
    ("zstd-5", zstd(5)),
    ("zstd-6", zstd(6)),
    ("zstd-7", zstd(7)),
    ("zstd-8", zstd(8)),
    ("zstd-9", zstd(9)),
    ("zstd-10", zstd(10)),
    ("zstd-11", zstd(11)),
    ("zstd-12", zstd(12)),
    ("zstd-13", zstd(13)),
    ("zstd-14", zstd(14)),
    ("zstd-15", zstd(15)),
    ("zstd-16", zstd(16)),
    ("zstd-17", zstd(17)),
    ("zstd-18", zstd(18)),
    ("zstd-19", zstd(19)),
    ("zstd-fast", zstd(103)),
    ("zstd-fast-1", zstd(103)),
    ("zstd-fast-2", zstd(104)),
    ("zstd-fast-3", zstd(105)),
    ("zstd-fast-4", zstd(106)),
    ("zstd-fast-5", zstd(107)),
    ("zstd-fast-6", zstd(108)),
    ("zstd-fast-7", zstd(109)),
    ("zstd-fast-8", zstd(110)),
    ("zstd-fast-9", zstd(111)),
    ("zstd-fast-10", zstd(112)),
    ("zstd-fast-20", zstd(113)),
    ("zstd-fast-30", zstd(114)),
    ("zstd-fast-40", zstd(115)),
    ("zstd-fast-50", zstd(116)),
    ("zstd-fast-60", zstd(117)),
    ("zstd-fast-70", zstd(118)),
    ("zstd-fast-80", zstd(119)),
    ("zstd-fast-90", zstd(120)),
    ("zstd-fast-100", zstd(121)),
    ("zstd-fast-500", zstd(122)),
    ("zstd-fast-1000", zstd(123)),
];
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
    ro("type", "TYPE", Kind::Text, ALL),
    ro("creation", "CREATION", Kind::Time, ALL),
    ro("used", "USED", SIZE, ALL),
    ro("available", "AVAIL", SIZE, LIVE),
    ro("referenced", "REFER", SIZE, ALL),
    ro("compressratio", "RATIO", Kind::Ratio, ALL),
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
        choice("on | off | fletcher2 | fletcher4 | sha256 | sha512 | skein | edonr | blake3", CHECKSUM),
        LIVE,
        "on",
    ),
    inherit("compression", "COMPRESS", choice(COMPRESSION_HELP, COMPRESSION), LIVE, "on"),
    inherit("atime", "ATIME", SWITCH, FS, "on"),
    inherit("devices", "DEVICES", SWITCH, FS_SNAP, "on"),
    inherit("exec", "EXEC", SWITCH, FS_SNAP, "on"),
    inherit("setuid", "SETUID", SWITCH, FS_SNAP, "on"),
    inherit("readonly", "RDONLY", SWITCH, LIVE, "off"),
    inherit("zoned", "ZONED", SWITCH, FS, "off"),
    inherit(
        "snapdir",
        "SNAPDIR",
        choice("disabled | hidden | visible", &[("hidden", 0), ("visible", 1), ("disabled", 2)]),
        FS,
        "hidden",
    ),
    inherit(
        "aclmode",
        "ACLMODE",
        choice(
            "discard | groupmask | passthrough | restricted",
            &[("discard", 0), ("groupmask", 2), ("passthrough", 3), ("restricted", 4)],
        ),
        FS,
        "discard",
    ),
    inherit(
        "aclinherit",
        "ACLINHERIT",
        choice(
            "discard | noallow | restricted | passthrough | passthrough-x",
            &[
                ("discard", 0),
                ("noallow", 1),
                ("restricted", 4),
                ("passthrough", 3),
                ("secure", 4),
                ("passthrough-x", 5),
            ],
        ),
        FS,
        "restricted",
    ),
    ro("createtxg", "CREATETXG", Kind::Id, ALL),
    own(
        "canmount",
        "CANMOUNT",
        choice("on | off | noauto", &[("off", 0), ("on", 1), ("noauto", 2)]),
        FS,
        "on",
    ),
    inherit(
        "xattr",
        "XATTR",
        choice("on | off | dir | sa", &[("off", 0), ("on", 2), ("sa", 2), ("dir", 1)]),
        FS_SNAP,
        "on",
    ),
    inherit("copies", "COPIES", choice("1 | 2 | 3", &[("1", 1), ("2", 2), ("3", 3)]), LIVE, "1"),
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
        choice(
            "none | formC | formD | formKC | formKD",
            &[("none", 0), ("formD", 0x10), ("formKC", 0x60), ("formC", 0x50), ("formKD", 0x20)],
        ),
        FS_SNAP,
        "none",
    ),
    once(
        "casesensitivity",
        "CASE",
        choice("sensitive | insensitive | mixed", &[("sensitive", 0), ("insensitive", 1), ("mixed", 2)]),
        FS_SNAP,
        "sensitive",
    ),
    inherit("vscan", "VSCAN", SWITCH, FS, "off"),
    inherit("nbmand", "NBMAND", SWITCH, FS_SNAP, "off"),
    inherit("sharesmb", "SHARESMB", Kind::Text, FS, "off"),
    own("refquota", "REFQUOTA", LIMIT, FS, "0"),
    own("refreservation", "REFRESERV", LIMIT, LIVE, "0"),
    ro("guid", "GUID", Kind::Id, ALL),
    inherit("primarycache", "PRIMARYCACHE", choice("all | none | metadata", CACHE), ALL, "all"),
    inherit("secondarycache", "SECONDARYCACHE", choice("all | none | metadata", CACHE), ALL, "all"),
    ro("usedbysnapshots", "USEDSNAP", SIZE, LIVE),
    ro("usedbydataset", "USEDDS", SIZE, LIVE),
    ro("usedbychildren", "USEDCHILD", SIZE, LIVE),
    ro("usedbyrefreservation", "USEDREFRESERV", SIZE, LIVE),
    ro("defer_destroy", "DEFER_DESTROY", SWITCH, SNAP),
    ro("userrefs", "USERREFS", Kind::Id, SNAP),
    inherit(
        "logbias",
        "LOGBIAS",
        choice("latency | throughput", &[("latency", 0), ("throughput", 1)]),
        LIVE,
        "latency",
    ),
    ro("objsetid", "OBJSETID", Kind::Id, ALL),
    inherit(
        "dedup",
        "DEDUP",
        choice(
            "on | off | verify | sha256[,verify] | sha512[,verify] | skein[,verify] | edonr,verify | \
             blake3[,verify]",
            DEDUP,
        ),
        LIVE,
        "off",
    ),
    inherit("mlslabel", "MLSLABEL", Kind::Text, ALL, "none"),
    inherit(
        "sync",
        "SYNC",
        choice("standard | always | disabled", &[("standard", 0), ("always", 1), ("disabled", 2)]),
        LIVE,
        "standard",
    ),
    inherit(
        "dnodesize",
        "DNSIZE",
        choice(
            "legacy | auto | 1k | 2k | 4k | 8k | 16k",
            &[
                ("legacy", 0),
                ("auto", 1),
                ("1k", 1024),
                ("2k", 2048),
                ("4k", 4096),
                ("8k", 8192),
                ("16k", 16384),
            ],
        ),
        FS,
        "legacy",
    ),
    ro("refcompressratio", "REFRATIO", Kind::Ratio, ALL),
    ro("written", "WRITTEN", AMOUNT, ALL),
    ro("logicalused", "LUSED", AMOUNT, LIVE),
    ro("logicalreferenced", "LREFER", AMOUNT, ALL),
    inherit(
        "volmode",
        "VOLMODE",
        choice(
            "default | full | geom | dev | none",
            &[("default", 0), ("full", 1), ("geom", 1), ("dev", 2), ("none", 3)],
        ),
        LIVE,
        "default",
    ),
    own("filesystem_limit", "FSLIMIT", Kind::Count, FS, "none"),
    own("snapshot_limit", "SSLIMIT", Kind::Count, LIVE, "none"),
    ro("filesystem_count", "FSCOUNT", Kind::Count, FS),
    ro("snapshot_count", "SSCOUNT", Kind::Count, LIVE),
    inherit(
        "snapdev",
        "SNAPDEV",
        choice("hidden | visible", &[("hidden", 0), ("visible", 1)]),
        LIVE,
        "hidden",
    ),
    inherit(
        "acltype",
        "ACLTYPE",
        choice(
            "off | nfsv4 | posix",
            &[("off", 0), ("posix", 1), ("nfsv4", 2), ("disabled", 0), ("noacl", 0), ("posixacl", 1)],
        ),
        FS_SNAP,
        "off",
    ),
    own("context", "CONTEXT", Kind::Text, ALL, "none"),
    own("fscontext", "FSCONTEXT", Kind::Text, ALL, "none"),
    own("defcontext", "DEFCONTEXT", Kind::Text, ALL, "none"),
    own("rootcontext", "ROOTCONTEXT", Kind::Text, ALL, "none"),
    inherit("relatime", "RELATIME", SWITCH, FS, "on"),
    inherit(
        "redundant_metadata",
        "REDUND_MD",
        choice("all | most | some | none", &[("all", 0), ("most", 1), ("some", 2), ("none", 3)]),
        LIVE,
        "all",
    ),
    inherit("overlay", "OVERLAY", SWITCH, FS, "on"),
    once(
        "encryption",
        "ENCRYPTION",
        choice(
            "on | off | aes-128-ccm | aes-192-ccm | aes-256-ccm | aes-128-gcm | aes-192-gcm | aes-256-gcm",
            &[
                ("on", 1),
                ("off", 2),
                ("aes-128-ccm", 3),
                ("aes-192-ccm", 4),
                ("aes-256-ccm", 5),
                ("aes-128-gcm", 6),
                ("aes-192-gcm", 7),
                ("aes-256-gcm", 8),
            ],
        ),
        ALL,
        "off",
    ),
    own("keylocation", "KEYLOCATION", Kind::Text, LIVE, "none"),
    once(
        "keyformat",
        "KEYFORMAT",
        choice("none | raw | hex | passphrase", &[("none", 0), ("raw", 1), ("hex", 2), ("passphrase", 3)]),
        LIVE,
        "none",
    ),
    once("pbkdf2iters", "PBKDF2ITERS", Kind::Id, LIVE, "0"),
    inherit("special_small_blocks", "SPECIAL_SMALL_BLOCKS", AMOUNT, FS, "0"),
    inherit("prefetch", "PREFETCH", choice("none | metadata | all", CACHE), ALL, "all"),
    inherit(
        "direct",
        "DIRECT",
        choice("disabled | standard | always", &[("disabled", 0), ("standard", 1), ("always", 2)]),
        FS,
        "standard",
    ),
    inherit("longname", "LONGNAME", SWITCH, FS, "off"),
];

const CACHE: &[Choice] = &[("none", 0), ("metadata", 1), ("all", 2)];
