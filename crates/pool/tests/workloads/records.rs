//! Log records of every type, as OpenZFS reads them: each field that `zdb` shows is what was meant.
//!
//! Most are written by operations on files. Those that only other systems write (ACLs, attributes
//! that come with a create, clones) are put into the log as they would be there.

use ondisk::acl::{Ace, ace_mask, ace_type, encode_old, trivial};
use ondisk::zil::record::body::{LrAclBody, attr_mask, xattr_bits};
use ondisk::zil::record::{
    LrAcl, LrAclV0, LrAttr, LrCloneRange, LrCreate, LrCreateAcl, LrLink, LrRemove, LrRename,
    LrRenameWhiteout, LrSetSaXattr, LrSetattr, LrTruncate, LrWrite, Timestamp,
};
use ondisk::zil::{LogRecord, TxType};
use units::{BlockId, ObjectId};
use zil::{Itx, Record, Scope};
use zpl::{
    Allocate, Attributes, Cred, NewNode, Place, RenameMode, SetAttributes, SetTime, WriteFlags, XattrMode,
    XattrPolicy, Zfs,
};

use crate::world::{Layout, World};

const WITH_LOG: Layout = Layout { device_mib: 64, ..Layout::new(&[&["a"]], &[&["l"]], 12) };
const WITHOUT_LOG: Layout = Layout { device_mib: 64, ..Layout::new(&[&["a"]], &[], 12) };
const RECORD_BYTES: usize = 128 << 10;
const CRED: Cred = Cred { uid: 7, gid: 8, umask: 0 };
/// Numbers of objects that only the log knows.
const LOGGED: u64 = 500;
const BORN: Timestamp = Timestamp { seconds: 1_000_000_000, nanos: 5 };

/// Records in the order in which they were meant.
#[derive(Default)]
struct Meant(Vec<LogRecord>);

impl Meant {
    fn made(&mut self, dir: ObjectId, name: &str, node: NewNode<'_>, of: &Attributes) {
        let kind: u64 = match node {
            NewNode::Directory => 0o040_000,
            NewNode::Symlink(_) => 0o120_000,
            _ => 0o100_000,
        };
        let create = LrCreate {
            dir,
            object: of.object,
            slots: 1,
            mode: kind | u64::from(of.permissions),
            uid: of.uid.into(),
            gid: of.gid.into(),
            generation: of.generation,
            name: name.into(),
            ..LrCreate::default()
        };
        self.0.push(match node {
            NewNode::Directory => LogRecord::Mkdir(create),
            NewNode::Symlink(target) => {
                LogRecord::Symlink(LrCreate { target: Some(target.to_vec()), ..create })
            }
            _ => LogRecord::Create(create),
        });
    }
}

async fn make(zfs: &Zfs, meant: &mut Meant, name: &str, node: NewNode<'_>) -> ObjectId {
    let made = zfs.create(zfs.root(), name.as_bytes(), node, 0o644, CRED).await.unwrap();
    meant.made(zfs.root(), name, node, &made);
    made.object
}

/// One or more of each record that operations write.
async fn operate(zfs: &Zfs, meant: &mut Meant) {
    let root = zfs.root();
    let place = |name: &'static str| Place { dir: root, name: name.as_bytes() };
    let rename = |source: &str, target: &str| LrRename {
        source_dir: root,
        target_dir: root,
        source: source.into(),
        target: target.into(),
    };
    let remove = |name: &str| LrRemove { dir: root, name: name.into() };
    let file = make(zfs, meant, "file", NewNode::File).await;
    make(zfs, meant, "directory", NewNode::Directory).await;
    make(zfs, meant, "symlink", NewNode::Symlink(b"to somewhere")).await;
    zfs.write(file, 300, &[b'm'; 1000], WriteFlags::default()).await.unwrap();
    let data = Some(vec![b'm'; 1000]);
    meant.0.push(LogRecord::Write(LrWrite {
        object: file,
        offset: 300,
        length: 1000,
        data,
        ..LrWrite::default()
    }));
    zfs.link(file, root, b"second").await.unwrap();
    meant.0.push(LogRecord::Link(LrLink { dir: root, object: file, name: b"second".to_vec() }));
    zfs.rename(place("second"), place("third"), RenameMode::NoReplace).await.unwrap();
    meant.0.push(LogRecord::Rename(rename("second", "third")));
    zfs.rename(place("third"), place("symlink"), RenameMode::Exchange).await.unwrap();
    meant.0.push(LogRecord::RenameExchange(rename("third", "symlink")));
    zfs.rename_leaving_whiteout(place("third"), place("fourth"), CRED).await.unwrap();
    let white = zfs.lookup(root, b"third").await.unwrap();
    meant.0.push(LogRecord::RenameWhiteout(LrRenameWhiteout {
        rename: rename("third", "fourth"),
        object: white.object,
        ..LrRenameWhiteout::default()
    }));
    zfs.unlink(root, b"fourth").await.unwrap();
    meant.0.push(LogRecord::Remove(remove("fourth")));
    zfs.rmdir(root, b"directory").await.unwrap();
    meant.0.push(LogRecord::Rmdir(remove("directory")));
    set_attributes(zfs, meant, file).await;
    zfs.allocate_range(file, 320, 64, Allocate::PunchHole).await.unwrap();
    meant.0.push(LogRecord::Truncate(LrTruncate { object: file, offset: 320, length: 64 }));
    for value in [&b"value of it"[..], b""] {
        let name = b"user.a".to_vec();
        match value {
            [] => zfs.remove_xattr(file, &name).await.unwrap(),
            _ => zfs.set_xattr(file, &name, value, XattrMode::Set).await.unwrap(),
        }
        meant.0.push(LogRecord::SetSaXattr(LrSetSaXattr { object: file, name, value: value.to_vec() }));
    }
}

async fn set_attributes(zfs: &Zfs, meant: &mut Meant, object: ObjectId) {
    let time = |seconds| Timestamp { seconds, nanos: 12 };
    let at = |seconds| Some(SetTime::To(time(seconds).into()));
    let set = SetAttributes {
        permissions: Some(0o751),
        uid: Some(70),
        gid: Some(80),
        atime: at(1_100_000_000),
        mtime: at(1_200_000_000),
        ..SetAttributes::default()
    };
    zfs.set_attributes(object, set).await.unwrap();
    use attr_mask::{ATIME, CTIME, GID, MODE, MTIME, UID};
    meant.0.push(LogRecord::Setattr(LrSetattr {
        object,
        mask: MODE | UID | GID | ATIME | MTIME | CTIME,
        ..LrSetattr::default()
    }));
}

/// A hidden directory of attributes, and a file in it.
async fn hide(zfs: &Zfs, meant: &mut Meant) {
    let file = make(zfs, meant, "with a hidden one", NewNode::File).await;
    let plain = zfs.options();
    zfs.set_options(zpl::ZfsOptions { xattr: XattrPolicy::Directory, ..plain });
    zfs.set_xattr(file, b"user.hidden", b"in a file", XattrMode::Set).await.unwrap();
    zfs.set_options(plain);
    meant.0.push(LogRecord::Mkxattr(LrCreate { dir: file, ..LrCreate::default() }));
}

fn acl(permissions: u64, is_directory: bool) -> LrAclBody {
    let mut aces = trivial(permissions, is_directory);
    let mask = ace_mask::READ_DATA;
    aces.insert(0, Ace { ace_type: ace_type::ALLOW, flags: 0, mask, who: Some(1000), object: None });
    LrAclBody { aces: aces.len() as u64, bytes: encode_old(&aces), ..LrAclBody::default() }
}

/// What other systems put into logs.
async fn foreign(zfs: &Zfs, donor: ObjectId) -> Vec<LogRecord> {
    let generation = zfs.objset().txgs().open_txg().get();
    let create = |number: u64, name: &str, mode: u64| LrCreate {
        dir: zfs.root(),
        object: ObjectId::new(LOGGED + number),
        slots: 1,
        mode,
        uid: 9,
        gid: 10,
        generation,
        crtime: BORN,
        name: name.into(),
        ..LrCreate::default()
    };
    let attr = Some(LrAttr {
        bitmap: vec![xattr_bits::ARCHIVE | xattr_bits::CREATETIME, 0, 0],
        attrs: xattr_bits::ARCHIVE.into(),
        crtime: Timestamp { seconds: 900_000_000, nanos: 1 },
        ..LrAttr::default()
    });
    let (file, directory) = (0o100_640, 0o040_750);
    let with_acl = |create: LrCreate, is_directory| {
        let permissions = create.mode & 0o777;
        LrCreateAcl { create, acl: acl(permissions, is_directory) }
    };
    let with_attr = |create: LrCreate| LrCreate { attr: attr.clone(), ..create };
    let object = |number| ObjectId::new(LOGGED + number);
    let old = encode_old(&trivial(0o604, false)).as_chunks::<12>().0.to_vec();
    let block = zfs.objset().hold(donor).await.unwrap().synced_blkptr(BlockId::new(0)).await.unwrap();
    let write2 = LrWrite { object: object(1), offset: 4096, length: 100, ..LrWrite::default() };
    let clone = LrCloneRange {
        object: object(6),
        offset: 0,
        length: RECORD_BYTES as u64,
        block_bytes: RECORD_BYTES as u64,
        blkptrs: vec![block],
    };
    vec![
        LogRecord::CreateAcl(with_acl(create(0, "f acl", file), false)),
        LogRecord::CreateAttr(with_attr(create(1, "f attr", file))),
        LogRecord::CreateAclAttr(with_acl(with_attr(create(2, "f both", file)), false)),
        LogRecord::MkdirAcl(with_acl(create(3, "d acl", directory), true)),
        LogRecord::MkdirAttr(with_attr(create(4, "d attr", directory))),
        LogRecord::MkdirAclAttr(with_acl(with_attr(create(5, "d both", directory)), true)),
        LogRecord::Create(create(6, "clone", file)),
        LogRecord::Acl(LrAcl { object: object(0), acl: acl(0o600, false) }),
        LogRecord::AclV0(LrAclV0 { object: object(2), aces: old }),
        LogRecord::Write2(write2),
        LogRecord::CloneRange(clone),
    ]
}

async fn log(zfs: &Zfs, record: LogRecord) {
    let tx = zfs.objset().txgs().join().unwrap();
    let scope = record.object().map_or(Scope::Namespace, Scope::Object);
    zfs.log().unwrap().assign(tx.txg(), Itx { scope, record: Record::Plain(record) });
}

/// A pool with all of that in its log, as a power cut leaves it; what the log should hold.
fn crashed(layout: Layout) -> (World, Vec<LogRecord>, u64) {
    let world = World::new(layout);
    let pool = world.create();
    let zfs = world.zfs(&pool, "whirl");
    let mut meant = Meant::default();
    let txg = world.run(async {
        let donor = zfs.create(zfs.root(), b"donor", NewNode::File, 0o644, CRED).await.unwrap().object;
        zfs.write(donor, 0, &donated(), WriteFlags::default()).await.unwrap();
        pool.sync_now().await.unwrap();
        operate(&zfs, &mut meant).await;
        hide(&zfs, &mut meant).await;
        for record in foreign(&zfs, donor).await {
            log(&zfs, record.clone()).await;
            meant.0.push(record);
        }
        zfs.sync().await.unwrap();
        pool.txgs().open_txg().get()
    });
    (world.copy(), meant.0, txg)
}

/// Bytes that do not compress.
fn donated() -> Vec<u8> {
    let mut dice = fastrand::Rng::with_seed(12);
    (0..RECORD_BYTES).map(|_| dice.u8(..)).collect()
}

/// A record as `zdb` shows it.
#[derive(Debug)]
struct Shown {
    kind: String,
    txg: u64,
    seq: u64,
    lines: Vec<String>,
}

/// The records in what `zdb -iiii` said. It ends no line after an attribute's value.
fn shown(said: &str) -> Vec<Shown> {
    let said = said.replace("\t\tTX_", "\n\t\tTX_").replace("\tBlock seqno", "\n\tBlock seqno");
    let mut all: Vec<Shown> = Vec::new();
    for line in said.lines().filter(|line| !line.trim().is_empty()) {
        if let Some(line) = line.strip_prefix("\t\t\t") {
            all.last_mut().expect("a line about a record").lines.push(line.trim_end().to_owned());
        } else if let Some((head, numbers)) = line.split_once(" len ") {
            let number = |name: &str| {
                let (_, rest) = numbers.split_once(name).unwrap_or_else(|| panic!("{line:?}"));
                rest.trim_start_matches(' ').split([',', ' ']).next().unwrap().parse().unwrap()
            };
            let kind = head.trim().to_owned();
            all.push(Shown { kind, txg: number("txg "), seq: number("seq "), lines: Vec::new() });
        }
    }
    all
}

/// What `zdb` must show of a record, its times and unreadable names left out.
fn lines(record: &LogRecord) -> Vec<String> {
    use LogRecord as R;
    let made = |lr: &LrCreate| {
        let ids = format!("doid {}, foid {}, slots {}, mode {:o}", lr.dir, lr.object, lr.slots, lr.mode);
        let owner = format!("uid {}, gid {}, gen {}, rdev 0x{:x}", lr.uid, lr.gid, lr.generation, lr.rdev);
        vec![ids, owner]
    };
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let named = |lr: &LrCreate| [vec![text(&lr.name)], made(lr)].concat();
    let renamed = |lr: &LrRename| {
        vec![
            format!("sdoid {}, tdoid {}", lr.source_dir, lr.target_dir),
            format!("src {} tgt {}", text(&lr.source), text(&lr.target)),
        ]
    };
    match record {
        R::Create(lr) | R::Mkdir(lr) | R::CreateAttr(lr) | R::MkdirAttr(lr) => named(lr),
        R::Symlink(lr) => {
            let line = format!("{} -> {}", text(&lr.name), text(lr.target.as_deref().unwrap()));
            [vec![line], made(lr)].concat()
        }
        R::CreateAcl(lr) | R::CreateAclAttr(lr) | R::MkdirAcl(lr) | R::MkdirAclAttr(lr) => made(&lr.create),
        R::Mkxattr(lr) => vec![format!("doid {}, foid ", lr.dir)],
        R::Remove(lr) | R::Rmdir(lr) => vec![format!("doid {}, name {}", lr.dir, text(&lr.name))],
        R::Link(lr) => vec![format!("doid {}, link_obj {}, name {}", lr.dir, lr.object, text(&lr.name))],
        R::Rename(lr) => renamed(lr),
        R::RenameExchange(lr) => [renamed(lr), vec!["flags RENAME_EXCHANGE".into()]].concat(),
        // It looks for these names where the whiteout's attributes are.
        R::RenameWhiteout(lr) => {
            let dirs = format!("sdoid {}, tdoid {}", lr.rename.source_dir, lr.rename.target_dir);
            vec![dirs, "flags RENAME_WHITEOUT".into()]
        }
        R::Write(lr) | R::Write2(lr) => {
            vec![format!("foid {}, offset {:x}, length {:x}", lr.object, lr.offset, lr.length)]
        }
        R::Truncate(lr) => {
            vec![format!("foid {}, offset 0x{:x}, length 0x{:x}", lr.object, lr.offset, lr.length)]
        }
        R::Setattr(lr) => vec![format!("foid {}, mask 0x{:x}", lr.object, lr.mask)],
        R::AclV0(lr) => vec![format!("foid {}, aclcnt {}", lr.object, lr.aces.len())],
        R::Acl(lr) => vec![format!("foid {}, aclcnt {}", lr.object, lr.acl.aces)],
        R::SetSaXattr(lr) => {
            let value = if lr.value.is_empty() { "NULL".into() } else { text(&lr.value) };
            vec![
                format!("foid {}", lr.object),
                format!("XAT_NAME  {}", text(&lr.name)),
                format!("XAT_VALUE  {value}"),
            ]
        }
        R::CloneRange(lr) => {
            let head = format!(
                "foid {}, offset {:x}, length {:x}, blksize {:x}",
                lr.object, lr.offset, lr.length, lr.block_bytes
            );
            let dva = lr.blkptrs[0].dva(0);
            vec![head, format!("<{}:{:x}:{:x}>", dva.vdev, dva.offset.get(), dva.asize.get())]
        }
    }
}

/// Whether one of the lines shown is `line`, or has it in it where `zdb` adds what is not compared.
fn has_line(shown: &Shown, line: &str) -> bool {
    let is_part = line.starts_with('<') || line.ends_with("foid ");
    shown.lines.iter().any(|is| is == line || is_part && is.contains(line))
}

/// `zdb` shows each record as it was meant, in that order; gives what it said of blocks.
fn check_shown(world: &World, meant: &[LogRecord], txg: u64) -> usize {
    let said = world.zdb().run(&["-iiii"], &[]).unwrap();
    let shown = shown(&said);
    assert!(shown.iter().zip(1..).all(|(record, seq)| record.txg == txg && record.seq == seq), "{said}");
    let mut rest = shown.iter();
    for record in meant {
        let (kind, lines) = (record.tx_type().name(), lines(record));
        let fits = |is: &&Shown| is.kind == kind && lines.iter().all(|line| has_line(is, line));
        assert!(rest.find(fits).is_some(), "no {kind} with {lines:?} where it should be in\n{said}");
    }
    let all: Vec<&str> = TxType::ALL.iter().map(|kind| kind.name()).collect();
    for kind in &all {
        assert!(shown.iter().any(|record| record.kind == *kind), "no {kind} in\n{said}");
    }
    assert!(shown.iter().all(|record| all.contains(&&*record.kind)), "{said}");
    shown.len()
}

/// What the records say is so.
async fn check_contents(zfs: &Zfs) {
    let look = async |name: &str| zfs.lookup(zfs.root(), name.as_bytes()).await.unwrap();
    let file = look("file").await;
    assert_eq!((file.size, file.links, file.permissions, file.uid, file.gid), (1300, 2, 0o751, 70, 80));
    let mut bytes = vec![0; 1300];
    zfs.read(file.object, 0, &mut bytes).await.unwrap();
    let is_data = |at: usize| at >= 300 && !(320..384).contains(&at);
    assert!(bytes.iter().enumerate().all(|(at, &byte)| byte == if is_data(at) { b'm' } else { 0 }));
    assert_eq!(zfs.xattr_names(file.object).await.unwrap(), Vec::<Vec<u8>>::new());
    assert_eq!(
        zfs.xattr(look("with a hidden one").await.object, b"user.hidden").await.unwrap(),
        b"in a file"
    );
    for (name, permissions) in [
        ("f acl", 0o600),
        ("f attr", 0o640),
        ("f both", 0o604),
        ("d acl", 0o750),
        ("d attr", 0o750),
        ("d both", 0o750),
    ] {
        let made = look(name).await;
        assert_eq!((made.permissions, made.uid, made.gid), (permissions, 9, 10), "{name}");
    }
    assert_eq!(look("f attr").await.size, 4196, "which a write that came otherwise reached");
    let clone = look("clone").await;
    let mut bytes = vec![0; RECORD_BYTES];
    assert_eq!(zfs.read(clone.object, 0, &mut bytes).await.unwrap(), RECORD_BYTES);
    assert!(bytes == donated());
    assert_eq!(look("third").await.size, 0);
    for gone in [&b"second"[..], b"fourth", b"directory"] {
        assert!(zfs.lookup(zfs.root(), gone).await.is_err());
    }
}

fn lives_through_it_all(layout: Layout) {
    let (world, meant, txg) = crashed(layout);
    let count = check_shown(&world, &meant, txg);
    let before = world.copy().check_aside("before any import");
    // Claimed, never used, and the power goes again.
    drop(world.import());
    let claimed = world.copy();
    assert_eq!(check_shown(&claimed, &meant, txg), count);
    let after_claim = claimed.copy().check_aside("claimed");
    let pool = claimed.import();
    let zfs = claimed.zfs(&pool, "whirl");
    claimed.run(async {
        check_contents(&zfs).await;
        pool.sync_now().await.unwrap();
    });
    let after_replay = claimed.copy().check_aside("replayed");
    let replayed = claimed.copy();
    drop(zfs);
    let pool = replayed.import();
    let zfs = replayed.zfs(&pool, "whirl");
    replayed.run(check_contents(&zfs));
    drop(zfs);
    replayed.export(&pool);
    assert!(replayed.check("exported").is_empty());
    assert_eq!(before.wait(), after_claim.wait());
    after_replay.wait();
}

#[test]
fn every_record_in_a_log_device_is_shown_as_meant_and_nothing_leaks() {
    lives_through_it_all(WITH_LOG);
}

#[test]
fn every_record_in_the_main_pool_is_shown_as_meant_and_nothing_leaks() {
    lives_through_it_all(WITHOUT_LOG);
}
