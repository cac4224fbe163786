//! Records that other systems write, replayed here: ACLs, additional attributes, foreign owners.

use std::sync::Arc;

use ondisk::Blkptr;
use ondisk::acl::{Ace, ace_flags, ace_mask, ace_type, decode, encode_old, trivial};
use ondisk::zil::record::body::{LrAclBody, attr_mask, xattr_bits};
use ondisk::zil::record::{LrAcl, LrAclV0, LrAttr, LrCloneRange, LrCreate, LrCreateAcl, LrSetattr, LrWrite};
use ondisk::zil::{LogRecord, TxType};
use units::ObjectId;

use super::basics::{CRED, contents, file};
use super::world::{World, run, run_with};
use crate::sa::ZplAttr;
use crate::*;
use journal::Origin;

const GENERATION: u64 = 3;

/// A log's first commit waits for the group whose header names it; what comes later is in the log.
pub(super) async fn prime(zfs: &Zfs) {
    file(zfs, zfs.root(), "prime").await;
    zfs.sync().await.unwrap();
}

/// Puts a record into the log that nothing here would have written, and makes it stable.
async fn log(zfs: &Zfs, record: LogRecord) {
    {
        let plan = zfs.plan().await.unwrap();
        let told = plan.apply_with(|txg| match record.object() {
            Some(object) => zfs.journal.object(Origin::Client, txg, true, object, || record),
            None => zfs.journal.names(Origin::Client, txg, true, || record),
        });
        told.unwrap();
    }
    zfs.sync().await.unwrap();
}

fn create(object: u64, name: &str, mode: u64) -> LrCreate {
    LrCreate {
        dir: ObjectId::new(0),
        object: ObjectId::new(object),
        slots: 1,
        mode,
        uid: 7,
        gid: 8,
        generation: GENERATION,
        crtime: Timestamp { secs: 1_000_000_000, nanos: 5 }.into(),
        name: name.into(),
        ..LrCreate::default()
    }
}

/// Hidden, not archived, born earlier.
fn attr() -> LrAttr {
    LrAttr {
        bitmap: vec![xattr_bits::HIDDEN | xattr_bits::ARCHIVE | xattr_bits::CREATETIME, 0, 0],
        attrs: xattr_bits::HIDDEN.into(),
        crtime: Timestamp { secs: 900_000_000, nanos: 1 }.into(),
        scanstamp: [0; 32],
    }
}

fn acl(aces: &[Ace]) -> LrAclBody {
    LrAclBody { aces: aces.len() as u64, bytes: encode_old(aces), ..LrAclBody::default() }
}

/// Mode 0640, and user 1000 may read.
fn aces(is_directory: bool) -> Vec<Ace> {
    let mut aces = trivial(0o640, is_directory);
    let mask = ace_mask::READ_DATA;
    aces.insert(0, Ace { ace_type: ace_type::ALLOW, flags: 0, mask, who: Some(1000), object: None });
    aces
}

async fn look(zfs: &Zfs, name: &str) -> Attributes {
    zfs.lookup(zfs.root(), name.as_bytes()).await.unwrap()
}

async fn stored_aces(zfs: &Zfs, object: ObjectId) -> Vec<Ace> {
    let znode = zfs.znode(object).await.unwrap();
    let aces = decode(&znode.bytes(ZplAttr::DaclAces).unwrap()).unwrap();
    assert_eq!(znode.word(ZplAttr::DaclCount), aces.len() as u64);
    aces
}

#[test]
fn every_way_to_create_is_replayed_with_its_acl_and_attributes() {
    run(async |world: Arc<World>, zfs| {
        prime(&zfs).await;
        let root = zfs.root();
        let at = |lr: LrCreate| LrCreate { dir: root, ..lr };
        let with_attr = |lr: LrCreate| LrCreate { attr: Some(attr()), ..lr };
        let (f, d) = (0o100_666, 0o040_777);
        let acl_of = |create, is_directory| LrCreateAcl { create, acl: acl(&aces(is_directory)) };
        for record in [
            LogRecord::CreateAttr(with_attr(at(create(300, "fattr", f)))),
            LogRecord::MkdirAttr(with_attr(at(create(301, "dattr", d)))),
            LogRecord::CreateAcl(acl_of(at(create(302, "facl", f)), false)),
            LogRecord::MkdirAcl(acl_of(at(create(303, "dacl", d)), true)),
            LogRecord::CreateAclAttr(acl_of(with_attr(at(create(304, "fboth", f))), false)),
            LogRecord::MkdirAclAttr(acl_of(with_attr(at(create(305, "dboth", d))), true)),
        ] {
            log(&zfs, record).await;
        }
        let (zfs, report) = world.crash(zfs).await;
        assert_eq!(report.applied, 6);
        let zfs = world.remount(zfs).await;
        for (name, has_attr, has_acl) in [
            ("fattr", true, false),
            ("dattr", true, false),
            ("facl", false, true),
            ("dacl", false, true),
            ("fboth", true, true),
            ("dboth", true, true),
        ] {
            let is_directory = name.starts_with('d');
            let made = look(&zfs, name).await;
            assert_eq!((made.uid, made.gid, made.generation), (7, 8, GENERATION), "{name}");
            let mode = if has_acl {
                0o640
            } else if is_directory {
                0o777
            } else {
                0o666
            };
            assert_eq!(made.permissions, mode, "{name}");
            let expected = if has_acl { aces(is_directory) } else { trivial(mode.into(), is_directory) };
            assert_eq!(stored_aces(&zfs, made.object).await, expected, "{name}");
            assert_eq!(made.flags & flags::ACL_TRIVIAL == 0, has_acl, "{name}");
            assert_eq!(made.flags & flags::HIDDEN != 0, has_attr, "{name}");
            assert_eq!(made.flags & flags::ARCHIVE == 0, has_attr, "{name}");
            assert_eq!(made.crtime.secs, if has_attr { 900_000_000 } else { 1_000_000_000 }, "{name}");
        }
    });
}

#[test]
fn acls_set_elsewhere_are_replayed_and_the_mode_follows() {
    run(async |world: Arc<World>, zfs| {
        prime(&zfs).await;
        let (new, old) = (file(&zfs, zfs.root(), "new").await, file(&zfs, zfs.root(), "old").await);
        log(&zfs, LogRecord::Acl(LrAcl { object: new, acl: acl(&aces(false)) })).await;
        let entries = encode_old(&trivial(0o604, false));
        let aces_v0 = entries.as_chunks::<12>().0.to_vec();
        log(&zfs, LogRecord::AclV0(LrAclV0 { object: old, aces: aces_v0 })).await;
        let (zfs, report) = world.crash(zfs).await;
        assert_eq!(report.applied, 4);
        let zfs = world.remount(zfs).await;
        let attributes = look(&zfs, "new").await;
        assert_eq!((attributes.permissions, attributes.flags & flags::ACL_TRIVIAL), (0o640, 0));
        assert_eq!(stored_aces(&zfs, new).await, aces(false));
        assert_eq!(look(&zfs, "old").await.permissions, 0o604);
        assert_eq!(stored_aces(&zfs, old).await.len(), 5);
        // A change of mode leaves an ACL of its own alone, and replaces one that said the mode.
        for object in [new, old] {
            let set = SetAttributes { permissions: Some(0o600), ..SetAttributes::default() };
            zfs.set_attributes(object, set).await.unwrap();
        }
        assert_eq!(stored_aces(&zfs, new).await, aces(false));
        assert_eq!(stored_aces(&zfs, old).await, trivial(0o600, false));
    });
}

#[test]
fn an_acl_that_makes_no_sense_stops_the_replay_of_its_record() {
    run(async |_, zfs| {
        let object = file(&zfs, zfs.root(), "f").await;
        let both = Ace {
            ace_type: ace_type::ALLOW,
            flags: ace_flags::OWNER | ace_flags::GROUP,
            mask: 1,
            who: Some(0),
            object: None,
        };
        assert!(crate::acl::Acl::of_log(&acl(&[both])).is_err());
        assert!(crate::acl::Acl::of_log(&LrAclBody { aces: 3, ..LrAclBody::default() }).is_err());
        assert_eq!(zfs.attributes(object).await.unwrap().permissions, 0o644);
    });
}

#[test]
fn foreign_owners_become_nobodys_number_and_read_as_their_own() {
    run(async |world: Arc<World>, zfs| {
        prime(&zfs).await;
        let foreign = LrCreate {
            dir: zfs.root(),
            uid: 1 << 32 | 1105,
            domains: vec![b"S-1-5-21".to_vec()],
            ..create(300, "theirs", 0o100_644)
        };
        log(&zfs, LogRecord::Create(foreign)).await;
        let object = file(&zfs, zfs.root(), "f").await;
        zfs.sync().await.unwrap();
        let (uid, domains) = (2 << 32 | 9, vec![b"S-1-5-22".to_vec()]);
        let set = LrSetattr { object, mask: attr_mask::UID, uid, domains, ..LrSetattr::default() };
        log(&zfs, LogRecord::Setattr(set)).await;
        let (zfs, report) = world.crash(zfs).await;
        assert_eq!(report.applied, 3);
        assert_eq!((look(&zfs, "theirs").await.uid, look(&zfs, "f").await.uid), (u32::MAX, u32::MAX));
        // As a pool from elsewhere has it: an index into the table of domains above the number.
        let znode = zfs.znode(object).await.unwrap();
        {
            let plan = zfs.plan().await.unwrap();
            let mut image = znode.image();
            image.set_word(ZplAttr::Uid, 3 << 32 | 1105);
            znode.store(&plan, image).unwrap();
            plan.apply().unwrap();
        }
        assert_eq!(zfs.attributes(object).await.unwrap().uid, 1105);
        let set = SetAttributes { permissions: Some(0o600), ..SetAttributes::default() };
        zfs.set_attributes(object, set).await.unwrap();
        let zfs = world.remount(zfs).await;
        let znode = zfs.znode(object).await.unwrap();
        assert_eq!(znode.word(ZplAttr::Uid), 3 << 32 | 1105, "kept where nobody gives it away");
    });
}

#[test]
fn flags_and_projects_are_logged_and_replayed() {
    run(async |world: Arc<World>, zfs| {
        prime(&zfs).await;
        let (f, link) = (file(&zfs, zfs.root(), "f").await, b"l");
        let link = zfs.create(zfs.root(), link, NewNode::Symlink(b"f"), 0, CRED).await.unwrap().object;
        zfs.write(f, 0, b"data", WriteFlags::default()).await.unwrap();
        world.sync(&zfs).await;
        let set = SetAttributes {
            set_flags: flags::NODUMP | flags::PROJINHERIT,
            clear_flags: flags::ARCHIVE,
            project: Some(42),
            ..SetAttributes::default()
        };
        zfs.set_attributes(f, set).await.unwrap();
        // A link has had no place for a project so far.
        zfs.set_attributes(link, SetAttributes { project: Some(43), ..SetAttributes::default() })
            .await
            .unwrap();
        zfs.fsync(f, false).await.unwrap();
        zfs.fsync(link, false).await.unwrap();
        let (zfs, report) = world.crash(zfs).await;
        assert_eq!(report.applied, 2);
        world.sync(&zfs).await;
        let os = zfs.objset();
        assert_eq!(os.accounts().await.unwrap(), os.recount().await.unwrap());
        let zfs = world.remount(zfs).await;
        let got = zfs.attributes(f).await.unwrap().flags;
        assert_eq!(
            got & (flags::NODUMP | flags::PROJINHERIT | flags::ARCHIVE),
            flags::NODUMP | flags::PROJINHERIT
        );
        assert_eq!(zfs.znode(f).await.unwrap().word(ZplAttr::Projid), 42);
        let znode = zfs.znode(link).await.unwrap();
        assert_eq!(
            (znode.word(ZplAttr::Projid), znode.word(ZplAttr::Flags) & flags::PROJID),
            (43, flags::PROJID)
        );
        assert_eq!(contents(&zfs, f).await, b"data");
        let unsettable = SetAttributes { set_flags: flags::XATTR, ..SetAttributes::default() };
        assert!(matches!(zfs.set_attributes(f, unsettable).await, Err(ZplError::Invalid(_))));
    });
}

#[test]
fn a_rename_that_leaves_a_whiteout_is_one_record_and_one_transaction() {
    run(async |world: Arc<World>, zfs| {
        prime(&zfs).await;
        let object = file(&zfs, zfs.root(), "a").await;
        let dir = zfs.create(zfs.root(), b"d", NewNode::Directory, 0o755, CRED).await.unwrap().object;
        world.sync(&zfs).await;
        let (from, to) = (Place { dir: zfs.root(), name: b"a" }, Place { dir, name: b"b" });
        zfs.rename_leaving_whiteout(from, to, CRED).await.unwrap();
        zfs.sync().await.unwrap();
        let size = zfs.attributes(zfs.root()).await.unwrap().size;
        let (zfs, report) = world.crash(zfs).await;
        assert_eq!(report.applied, 1, "{:?}", TxType::RenameWhiteout);
        let zfs = world.remount(zfs).await;
        let whiteout = look(&zfs, "a").await;
        assert_eq!((whiteout.kind, whiteout.device), (FileKind::CharDevice, DeviceNumber::default()));
        assert_eq!((whiteout.permissions, whiteout.uid), (0, CRED.uid));
        assert_eq!(zfs.lookup(dir, b"b").await.unwrap().object, object);
        assert_eq!(zfs.attributes(zfs.root()).await.unwrap().size, size);
    });
}

/// Bytes that do not compress.
pub(super) fn noise(len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let roll = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    };
    std::iter::repeat_with(roll).flatten().take(len).collect()
}

const SYNC: WriteFlags = WriteFlags { append: false, sync: true, drop_setid: false };

async fn write_sync(zfs: &Zfs, file: ObjectId, offset: u64, bytes: &[u8]) {
    zfs.write(file, offset, bytes, SYNC).await.unwrap();
}

/// What the log has got: copied, read back, named; bytes of data.
fn kinds(zfs: &Zfs) -> [u64; 3] {
    let stats = zfs.log().unwrap().stats();
    [stats.copied_bytes, stats.fetched_bytes, stats.indirect_bytes]
}

/// The same of what `work` does.
async fn kinds_of(zfs: &Zfs, work: impl Future<Output = ()>) -> [u64; 3] {
    let before = kinds(zfs);
    work.await;
    let after = kinds(zfs);
    std::array::from_fn(|kind| after[kind] - before[kind])
}

#[test]
fn large_writes_are_logged_in_place_without_a_log_device() {
    run(async |world: Arc<World>, zfs| {
        prime(&zfs).await;
        let mut expected = Vec::new();
        let file = file(&zfs, zfs.root(), "f").await;
        let sync_write = async |offset: usize, len: usize, expected: &mut Vec<u8>| {
            let bytes = noise(len, offset as u64 + 1);
            expected.resize(expected.len().max(offset + len), 0);
            expected[offset..offset + len].copy_from_slice(&bytes);
            kinds_of(&zfs, write_sync(&zfs, file, offset as u64, &bytes)).await
        };
        // The file's only block, which is just so large.
        assert_eq!(sync_write(0, 40 << 10, &mut expected).await, [0, 0, 40 << 10]);
        assert_eq!(sync_write(5000, 32 << 10, &mut expected).await, [32 << 10, 0, 0], "where the file ends");
        assert_eq!(sync_write(6000, (32 << 10) - 1, &mut expected).await, [(32 << 10) - 1, 0, 0], "short");
        // Parts of two records, whole records, half of one and less.
        assert_eq!(sync_write(100_000, 200 << 10, &mut expected).await, [0, 0, 200 << 10]);
        assert_eq!(sync_write(0, 1 << 20, &mut expected).await, [0, 0, 1 << 20]);
        assert_eq!(sync_write(3 << 17, 64 << 10, &mut expected).await, [0, 0, 64 << 10]);
        assert_eq!(sync_write(4 << 17, 63 << 10, &mut expected).await, [63 << 10, 0, 0], "may come again");
        // Nobody waits for it at first.
        let bytes = noise(40 << 10, 77);
        zfs.write(file, 700_000, &bytes, WriteFlags::default()).await.unwrap();
        expected[700_000..700_000 + bytes.len()].copy_from_slice(&bytes);
        let fsync = kinds_of(&zfs, async { zfs.fsync(file, false).await.unwrap() }).await;
        assert_eq!(fsync, [0, 0, 40 << 10]);
        // Zeros, and what fits a pointer, have nothing to be written.
        let placed = zfs.log().unwrap().stats().placed_bytes;
        for byte in [0, 9] {
            let bytes = vec![byte; 128 << 10];
            let at = (2 + usize::from(byte)) << 17;
            expected.resize(expected.len().max(at + bytes.len()), 0);
            expected[at..at + bytes.len()].copy_from_slice(&bytes);
            zfs.write(file, at as u64, &bytes, SYNC).await.unwrap();
        }
        assert!(zfs.log().unwrap().stats().placed_bytes - placed <= 4096);
        let (zfs, _) = world.crash(zfs).await;
        assert!(contents(&zfs, file).await == expected, "replayed");
        let zfs = world.remount(zfs).await;
        assert!(contents(&zfs, file).await == expected, "stored");
        // What is taken over reads back too.
        let bytes = noise(1 << 20, 78);
        zfs.write(file, 0, &bytes, SYNC).await.unwrap();
        expected[..1 << 20].copy_from_slice(&bytes);
        let zfs = world.remount(zfs).await;
        assert!(contents(&zfs, file).await == expected, "taken over");
    });
}

#[test]
fn two_writes_to_one_block_are_one_block_written_and_two_records() {
    run(async |world: Arc<World>, zfs| {
        prime(&zfs).await;
        let file = file(&zfs, zfs.root(), "f").await;
        let bytes = noise(256 << 10, 5);
        for half in 0..4 {
            let range = half << 16..(half + 1) << 16;
            zfs.write(file, range.start as u64, &bytes[range], WriteFlags::default()).await.unwrap();
        }
        zfs.fsync(file, false).await.unwrap();
        let stats = zfs.log().unwrap().stats();
        assert_eq!((stats.indirect_bytes, stats.placed_bytes), (256 << 10, 256 << 10));
        let (zfs, _) = world.crash(zfs).await;
        assert!(contents(&zfs, file).await == bytes);
    });
}

/// One after the other without a commit, then an fsync, and what a crash leaves.
fn replayed_of(steps: &[(u64, usize, Option<u64>)]) {
    run(async |world: Arc<World>, zfs| {
        prime(&zfs).await;
        let file = file(&zfs, zfs.root(), "f").await;
        for (number, &(offset, len, size)) in (1..).zip(steps) {
            zfs.write(file, offset, &noise(len, number), WriteFlags::default()).await.unwrap();
            if let Some(size) = size {
                let set = SetAttributes { size: Some(size), ..SetAttributes::default() };
                zfs.set_attributes(file, set).await.unwrap();
            }
        }
        let expected = contents(&zfs, file).await;
        zfs.fsync(file, false).await.unwrap();
        let (zfs, _) = world.crash(zfs).await;
        assert!(contents(&zfs, file).await == expected, "{steps:?}");
    });
}

#[test]
fn a_small_write_between_two_large_ones_does_not_outlast_them() {
    const LARGE: usize = 40 << 10;
    replayed_of(&[(0, LARGE, None), (50, 100, None), (0, LARGE, None)]);
    replayed_of(&[(0, LARGE, None), (0, 30_000, None), (0, LARGE, None), (7, 8, None), (0, LARGE, None)]);
    // What was cut off in between, and written again.
    replayed_of(&[(0, LARGE, Some(5000)), (0, LARGE, None)]);
    replayed_of(&[(0, LARGE, None), (0, LARGE, Some(0)), (100, LARGE, None), (0, LARGE, None)]);
}

#[test]
fn logbias_throughput_puts_all_data_in_place() {
    let options = ZfsOptions { log_bias: LogBias::Throughput, ..ZfsOptions::default() };
    run_with(options, async |world: Arc<World>, zfs| {
        prime(&zfs).await;
        let file = file(&zfs, zfs.root(), "f").await;
        let bytes = noise(300_000, 3);
        zfs.write(file, 0, &bytes, WriteFlags::default()).await.unwrap();
        zfs.fsync(file, false).await.unwrap();
        let short = kinds_of(&zfs, write_sync(&zfs, file, 1000, &[7; 100]));
        assert_eq!(short.await, [0, 0, 100]);
        let (zfs, _) = world.crash(zfs).await;
        let mut expected = bytes;
        expected[1000..1100].fill(7);
        assert!(contents(&zfs, file).await == expected);
    });
}

#[test]
fn how_long_is_long_can_be_told() {
    let options = ZfsOptions { immediate_write_bytes: u64::MAX, ..ZfsOptions::default() };
    run_with(options, async |_, zfs| {
        prime(&zfs).await;
        let file = file(&zfs, zfs.root(), "f").await;
        let bytes = noise(1 << 20, 3);
        assert_eq!(kinds_of(&zfs, write_sync(&zfs, file, 0, &bytes)).await, [1 << 20, 0, 0]);
        zfs.set_options(ZfsOptions { immediate_write_bytes: 512, ..zfs.options() });
        let bytes = noise(128 << 10, 4);
        assert_eq!(kinds_of(&zfs, write_sync(&zfs, file, 0, &bytes)).await, [0, 0, 128 << 10]);
    });
}

#[test]
fn lengths_in_a_log_that_no_file_can_have_stop_its_replay() {
    let write2 =
        |object, length| LogRecord::Write2(LrWrite { object, offset: 1 << 20, length, ..LrWrite::default() });
    let clone = |object, block_bytes| {
        let blkptrs = vec![Blkptr::HOLE];
        let lr = LrCloneRange { object, offset: 0, length: u64::MAX, block_bytes, blkptrs };
        LogRecord::CloneRange(lr)
    };
    let records: [&dyn Fn(ObjectId) -> LogRecord; 4] = [
        &|object| write2(object, u64::MAX),
        &|object| write2(object, i64::MAX as u64),
        &|object| clone(object, u64::MAX),
        &|object| clone(object, 1 << 40),
    ];
    for record in records {
        run(async |world: Arc<World>, zfs| {
            prime(&zfs).await;
            let file = file(&zfs, zfs.root(), "f").await;
            log(&zfs, record(file)).await;
            let crashed = world.cut_off(zfs).await;
            crashed.zfs.replay(crashed.log).await.map(drop).expect_err("nobody wrote that");
        });
    }
}

#[test]
fn names_of_a_directory_that_is_mutable_again_are_replayed() {
    run(async |world: Arc<World>, zfs| {
        let flag =
            |set_flags, clear_flags| SetAttributes { set_flags, clear_flags, ..SetAttributes::default() };
        let dir = zfs.create(zfs.root(), b"d", NewNode::Directory, 0o755, CRED).await.unwrap().object;
        for name in ["kept", "removed", "moved", "linked"] {
            file(&zfs, dir, name).await;
        }
        let linked = zfs.lookup(dir, b"linked").await.unwrap().object;
        prime(&zfs).await;
        world.sync(&zfs).await;
        for object in [dir, linked] {
            zfs.set_attributes(object, flag(flags::IMMUTABLE, 0)).await.unwrap();
            zfs.fsync(object, false).await.unwrap();
            // Only a commit of the object itself includes this record.
            zfs.set_attributes(object, flag(0, flags::IMMUTABLE)).await.unwrap();
        }
        let new = file(&zfs, dir, "new").await;
        zfs.unlink(dir, b"removed").await.unwrap();
        zfs.rename(Place { dir, name: b"moved" }, Place { dir, name: b"here" }, RenameMode::Replace)
            .await
            .unwrap();
        zfs.link(linked, dir, b"link").await.unwrap();
        zfs.fsync(new, false).await.unwrap();
        let (zfs, _) = world.crash(zfs).await;
        let list = zfs.list(dir, 0, 100).await.unwrap();
        let mut names: Vec<_> =
            list.into_iter().map(|entry| String::from_utf8(entry.name).unwrap()).collect();
        names.sort();
        assert_eq!(names, [".", "..", "here", "kept", "link", "linked", "new"]);
    });
}
