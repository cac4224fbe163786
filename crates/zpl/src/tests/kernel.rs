//! The rules of permission against the kernel's own.
//!
//! ```text
//!  one case: two directories, a file or directory in each, owners, modes, ACLs ─┬─► on the machine's file system, as root
//!                                                                             └─► here, by the engine
//!  one user, one operation ─┬─► this thread, with that user's ids and groups ─► errno ─┐
//!                           └─► a handle asked by that user ──────────────────► error ─┴─► the same, or the rules are wrong
//! ```

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{CWD, Gid, Timespec, Timestamps, Uid, XattrFlags, utimensat};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};
use tempfile::TempDir;
use units::ObjectId;

use super::world::{World, run_with};
use crate::*;

const CASES: u64 = 4000;
const OPTIONS: fn() -> ZfsOptions = || ZfsOptions { posix_acls: true, ..ZfsOptions::default() };
const ACCESS: &str = "system.posix_acl_access";
const LATER: i64 = 12_345;
const EPERM: i32 = 1;
const EACCES: i32 = 13;

/// Numbers that depend on a case alone.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ mixed >> 31) % bound
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    fn uid(&mut self) -> u32 {
        1001 + self.below(3) as u32
    }

    fn gid(&mut self) -> u32 {
        2001 + self.below(4) as u32
    }

    fn user(&mut self) -> User {
        let mut groups: Vec<u32> = (2001..2005).collect();
        groups.retain(|_| self.one_in(3));
        let uid = if self.one_in(8) { 0 } else { self.uid() };
        User::new(uid, self.gid(), groups)
    }
}

/// Something to be made on both sides.
struct Thing {
    is_directory: bool,
    uid: u32,
    gid: u32,
    mode: u32,
    acl: Option<Vec<u8>>,
}

impl Thing {
    fn new(dice: &mut Dice, is_directory: bool) -> Self {
        // Bits that let most operations come through, and all others.
        let generous = if is_directory && dice.one_in(2) { 0o777 } else { 0 };
        let mode = (dice.below(0o10000) as u32 | generous) & !if dice.one_in(2) { 0o1000 } else { 0 };
        let acl = dice.one_in(3).then(|| acl(dice));
        Self { is_directory, uid: dice.uid(), gid: dice.gid(), mode, acl }
    }

    fn put(&self, path: &Path) {
        if self.is_directory {
            fs::create_dir(path).expect("made");
        } else {
            fs::write(path, b"text").expect("made");
            rustix::fs::setxattr(path, "user.a", b"v", XattrFlags::empty()).expect("attributes of users");
        }
        chown(path, Some(self.uid), Some(self.gid)).expect("given away");
        fs::set_permissions(path, fs::Permissions::from_mode(self.mode)).expect("a mode");
        if let Some(acl) = &self.acl {
            rustix::fs::setxattr(path, ACCESS, acl, XattrFlags::empty()).expect("POSIX ACLs");
        }
    }

    async fn make(&self, zfs: &Zfs, dir: ObjectId, name: &[u8]) -> ObjectId {
        let node = if self.is_directory { NewNode::Directory } else { NewNode::File };
        let cred = Cred { uid: self.uid, gid: self.gid, umask: 0 };
        let object = zfs.create(dir, name, node, self.mode, cred).await.expect("made").object;
        if !self.is_directory {
            zfs.write(object, 0, b"text", WriteFlags::default()).await.expect("written");
            zfs.set_xattr(object, b"user.a", b"v", XattrMode::Set).await.expect("set");
        }
        let set = SetAttributes {
            permissions: Some(self.mode),
            uid: Some(self.uid),
            gid: Some(self.gid),
            ..SetAttributes::default()
        };
        zfs.set_attributes(object, set).await.expect("set");
        if let Some(acl) = &self.acl {
            zfs.set_xattr(object, ACCESS.as_bytes(), acl, XattrMode::Set).await.expect("set");
        }
        object
    }
}

/// An ACL that names users and groups of the test.
fn acl(dice: &mut Dice) -> Vec<u8> {
    let rights = |dice: &mut Dice| dice.below(8) as u16;
    let mut entries: Vec<(u16, u16, u32)> = vec![(0x01, rights(dice), u32::MAX)];
    for uid in 1001..1004 {
        if dice.one_in(2) {
            entries.push((0x02, rights(dice), uid));
        }
    }
    entries.push((0x04, rights(dice), u32::MAX));
    for gid in 2001..2005 {
        if dice.one_in(2) {
            entries.push((0x08, rights(dice), gid));
        }
    }
    let mask = if dice.one_in(4) { 0 } else { rights(dice) };
    entries.extend([(0x10, mask, u32::MAX), (0x20, rights(dice), u32::MAX)]);
    let mut bytes = 2_u32.to_le_bytes().to_vec();
    for (tag, rights, id) in entries {
        bytes.extend([tag.to_le_bytes(), rights.to_le_bytes()].as_flattened());
        bytes.extend(id.to_le_bytes());
    }
    bytes
}

/// What a user tries.
#[derive(Clone, Copy, Debug)]
enum Op {
    Look,
    Read,
    Write,
    Cut,
    List,
    MakeFile(u32),
    MakeDirectory(u32),
    Remove,
    Move,
    Chmod(u32),
    Chown(u32),
    Chgrp(u32),
    TouchNow,
    TouchLater,
    SetXattr,
    GetXattr,
    SetAcl,
}

impl Op {
    fn new(dice: &mut Dice) -> Self {
        let mode = dice.below(0o10000) as u32;
        match dice.below(17) {
            0 => Self::Look,
            1 => Self::Read,
            2 => Self::Write,
            3 => Self::Cut,
            4 => Self::List,
            5 => Self::MakeFile(mode),
            6 => Self::MakeDirectory(mode & 0o1777),
            7 => Self::Remove,
            8 | 9 => Self::Move,
            10 => Self::Chmod(mode),
            11 => Self::Chown(dice.uid()),
            12 => Self::Chgrp(dice.gid()),
            13 => Self::TouchNow,
            14 => Self::TouchLater,
            15 => Self::SetXattr,
            16 if dice.one_in(2) => Self::GetXattr,
            _ => Self::SetAcl,
        }
    }

    /// Whether it is for files alone.
    fn needs_file(self) -> bool {
        matches!(self, Self::Read | Self::Write | Self::Cut | Self::GetXattr)
    }

    fn by_kernel(self, place: &Path, is_directory: bool) -> std::io::Result<()> {
        let (of, new) = (place.join("d/f"), place.join("d/new"));
        let times = |at: Timespec| Timestamps { last_access: at, last_modification: at };
        let touch = |at| utimensat(CWD, &of, &times(at), rustix::fs::AtFlags::empty());
        match self {
            Self::Look => fs::symlink_metadata(of).map(drop),
            Self::Read => File::open(of)?.read(&mut [0; 4]).map(drop),
            Self::Write => OpenOptions::new().write(true).open(of)?.write_all(b"x"),
            Self::Cut => OpenOptions::new().write(true).truncate(true).open(of).map(drop),
            Self::List => fs::read_dir(place.join("d")).map(|entries| assert!(entries.count() < 10)),
            Self::MakeFile(mode) => {
                let flags = rustix::fs::OFlags::CREATE | rustix::fs::OFlags::EXCL;
                rustix::fs::open(new, flags, mode.into())?;
                Ok(())
            }
            Self::MakeDirectory(mode) => Ok(rustix::fs::mkdir(new, mode.into())?),
            Self::Remove if is_directory => fs::remove_dir(of),
            Self::Remove => fs::remove_file(of),
            Self::Move => fs::rename(of, place.join("e/g")),
            Self::Chmod(mode) => fs::set_permissions(of, fs::Permissions::from_mode(mode)),
            Self::Chown(uid) => chown(of, Some(uid), None),
            Self::Chgrp(gid) => chown(of, None, Some(gid)),
            Self::TouchNow => Ok(touch(Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_NOW })?),
            Self::TouchLater => Ok(touch(Timespec { tv_sec: LATER, tv_nsec: 0 })?),
            Self::SetXattr => Ok(rustix::fs::setxattr(of, "user.b", b"w", XattrFlags::empty())?),
            Self::GetXattr => Ok(rustix::fs::getxattr(of, "user.a", &mut [0_u8; 8]).map(drop)?),
            Self::SetAcl => Ok(rustix::fs::setxattr(of, ACCESS, &acl(&mut Dice(3)), XattrFlags::empty())?),
        }
    }

    /// The same as a front would have it, which comes to a name through its directory.
    async fn by_rules(
        self,
        zfs: &Zfs,
        d: ObjectId,
        e: ObjectId,
        user: &User,
        is_directory: bool,
    ) -> Result<()> {
        let cred = Cred { uid: user.uid, gid: user.gid, umask: 0 };
        let plain = SetAttributes::default();
        let set = async |set: SetAttributes| {
            let object = zfs.lookup(d, b"f").await?.object;
            zfs.set_attributes(object, set).await.map(drop)
        };
        match self {
            Self::Look => zfs.lookup(d, b"f").await.map(drop),
            Self::Read => zfs.read(zfs.lookup(d, b"f").await?.object, 0, &mut [0; 4]).await.map(drop),
            Self::Write => {
                let object = zfs.lookup(d, b"f").await?.object;
                zfs.write(object, 0, b"x", WriteFlags::default()).await.map(drop)
            }
            Self::Cut => set(SetAttributes { size: Some(0), ..plain }).await,
            Self::List => zfs.list(d, 0, 10).await.map(drop),
            Self::MakeFile(mode) => zfs.create(d, b"new", NewNode::File, mode, cred).await.map(drop),
            Self::MakeDirectory(mode) => {
                zfs.create(d, b"new", NewNode::Directory, mode, cred).await.map(drop)
            }
            Self::Remove if is_directory => zfs.rmdir(d, b"f").await,
            Self::Remove => zfs.unlink(d, b"f").await,
            Self::Move => {
                for (dir, name) in [(d, b"f"), (e, b"g")] {
                    match zfs.lookup(dir, name).await {
                        Ok(_) | Err(ZplError::NotFound) => {}
                        Err(error) => return Err(error),
                    }
                }
                let (from, to) = (Place { dir: d, name: b"f" }, Place { dir: e, name: b"g" });
                zfs.rename(from, to, RenameMode::Replace).await
            }
            Self::Chmod(mode) => set(SetAttributes { permissions: Some(mode), ..plain }).await,
            Self::Chown(uid) => set(SetAttributes { uid: Some(uid), ..plain }).await,
            Self::Chgrp(gid) => set(SetAttributes { gid: Some(gid), ..plain }).await,
            Self::TouchNow => {
                let now = Some(SetTime::Now);
                set(SetAttributes { atime: now, mtime: now, ..plain }).await
            }
            Self::TouchLater => {
                let at = Some(SetTime::To(Timestamp { secs: LATER, nanos: 0 }));
                set(SetAttributes { atime: at, mtime: at, ..plain }).await
            }
            Self::SetXattr => {
                let object = zfs.lookup(d, b"f").await?.object;
                zfs.set_xattr(object, b"user.b", b"w", XattrMode::Set).await
            }
            Self::GetXattr => zfs.xattr(zfs.lookup(d, b"f").await?.object, b"user.a").await.map(drop),
            Self::SetAcl => {
                let object = zfs.lookup(d, b"f").await?.object;
                zfs.set_xattr(object, ACCESS.as_bytes(), &acl(&mut Dice(3)), XattrMode::Set).await
            }
        }
    }
}

/// This thread has a user's ids until dropped. Linux has them by thread; the process stays root's.
struct Disguise;

impl Disguise {
    fn of(user: &User) -> Self {
        let groups: Vec<Gid> = user.groups.iter().map(|&gid| Gid::from_raw(gid)).collect();
        set_thread_groups(&groups).expect("root");
        set_thread_res_gid(None, Some(Gid::from_raw(user.gid)), None).expect("root");
        set_thread_res_uid(None, Some(Uid::from_raw(user.uid)), None).expect("root");
        Self
    }
}

impl Drop for Disguise {
    fn drop(&mut self) {
        set_thread_res_uid(None, Some(Uid::ROOT), None).expect("it was root");
        set_thread_res_gid(None, Some(Gid::ROOT), None).expect("it was root");
        set_thread_groups(&[]).expect("it is root");
    }
}

fn errno_of(result: &Result<()>) -> Option<i32> {
    match result {
        Ok(()) => None,
        Err(ZplError::AccessDenied) => Some(EACCES),
        Err(ZplError::NotPermitted(_)) => Some(EPERM),
        Err(other) => panic!("not about permission: {other}"),
    }
}

/// What both sides have under a name: type and permission bits, owner, group.
fn seen_by_kernel(path: PathBuf) -> Option<(u32, u32, u32)> {
    let found = fs::symlink_metadata(path).ok()?;
    Some((found.mode() & 0o7777, found.uid(), found.gid()))
}

async fn seen_here(zfs: &Zfs, dir: ObjectId, name: &[u8]) -> Option<(u32, u32, u32)> {
    let found = zfs.lookup(dir, name).await.ok()?;
    Some((found.permissions, found.uid, found.gid))
}

/// One case; whether it was allowed.
async fn compare(zfs: &Arc<Zfs>, place: &Path, case: u64) -> bool {
    let mut dice = Dice(case << 20);
    let (d, e) = (Thing::new(&mut dice, true), Thing::new(&mut dice, true));
    let op = Op::new(&mut dice);
    let is_directory = !op.needs_file() && dice.one_in(4);
    let f = Thing::new(&mut dice, is_directory);
    let g = dice.one_in(2).then(|| Thing::new(&mut dice, is_directory));
    let user = dice.user();
    fs::create_dir(place).expect("made");
    fs::set_permissions(place, fs::Permissions::from_mode(0o755)).expect("open");
    let here = zfs
        .create(zfs.root(), b"case", NewNode::Directory, 0o755, Cred::default())
        .await
        .expect("made")
        .object;
    let (d_here, e_here) = (d.make(zfs, here, b"d").await, e.make(zfs, here, b"e").await);
    f.make(zfs, d_here, b"f").await;
    d.put(&place.join("d"));
    e.put(&place.join("e"));
    f.put(&place.join("d/f"));
    if let Some(g) = &g {
        g.make(zfs, e_here, b"g").await;
        g.put(&place.join("e/g"));
    }
    let told = {
        let _as_user = Disguise::of(&user);
        op.by_kernel(place, is_directory)
    };
    let asked = zfs.asked_by(Asker::User(user.clone()));
    let ours = op.by_rules(&asked, d_here, e_here, &user, is_directory).await;
    let theirs = told.as_ref().err().map(|error| error.raw_os_error().expect("of the kernel"));
    let words = || {
        format!(
            "case {case}: {user:?} {op:?} in {:o} of {}:{}, {:o} of {}:{}",
            d.mode, d.uid, d.gid, f.mode, f.uid, f.gid
        )
    };
    assert_eq!(errno_of(&ours), theirs, "{}", words());
    // What a write takes of set-id bits is another rule.
    if !matches!(op, Op::Write | Op::Cut | Op::Chown(_) | Op::Chgrp(_)) {
        for (dir, path, name) in [(d_here, "d/f", "f"), (d_here, "d/new", "new"), (e_here, "e/g", "g")] {
            let both = (seen_here(zfs, dir, name.as_bytes()).await, seen_by_kernel(place.join(path)));
            assert_eq!(both.0, both.1, "{path} after {}", words());
        }
    }
    fs::remove_dir_all(place).expect("removed");
    for (dir, name) in [(d_here, b"f".as_slice()), (d_here, b"new"), (e_here, b"g")] {
        let Ok(found) = zfs.lookup(dir, name).await else { continue };
        match found.kind {
            FileKind::Directory => zfs.rmdir(dir, name).await.expect("removed"),
            _ => zfs.unlink(dir, name).await.expect("removed"),
        }
    }
    for name in [b"d", b"e"] {
        zfs.rmdir(here, name).await.expect("removed");
    }
    zfs.rmdir(zfs.root(), b"case").await.expect("removed");
    theirs.is_none()
}

#[test]
fn every_answer_is_that_of_the_linux_kernel() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("SKIPPED: only root can ask the kernel on behalf of others");
        return;
    }
    let dir = TempDir::new().expect("a directory");
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).expect("open");
    if rustix::fs::setxattr(dir.path(), ACCESS, &acl(&mut Dice(3)), XattrFlags::empty()).is_err() {
        eprintln!("SKIPPED: {} has no POSIX ACLs", dir.path().display());
        return;
    }
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).expect("open");
    rustix::fs::removexattr(dir.path(), ACCESS).expect("no ACL again");
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).expect("open");
    let before = rustix::process::umask(rustix::fs::Mode::empty());
    run_with(OPTIONS(), async |_: Arc<World>, zfs| {
        let mut allowed = 0;
        for case in 0..CASES {
            allowed += u64::from(compare(&zfs, &dir.path().join(case.to_string()), case).await);
        }
        println!("{CASES} cases as the kernel has them: {allowed} allowed, {} denied", CASES - allowed);
        assert!(allowed > CASES / 10 && CASES - allowed > CASES / 10, "both kinds of answers");
    });
    rustix::process::umask(before);
}
