//! A file system that programs write to is sent to another daemon, snapshot by snapshot, while both daemons are killed.
//!
//! ```text
//!  writer ─► tank/data@1 @2 @3 ...  ── zfs send ─► pv ─► zfs receive -s ──► tank/copy@1 @2 @3 ...
//!            daemon, killed                                                 daemon, killed
//! ```
//! After a kill the stream goes on where its receiver's token says, if it has one. In the end both have the same snapshots
//! with the same files, and `zdb` finds nothing wrong with either pool.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::mounted::World;
use crate::shell::sh;

/// Snapshots that are sent; the daemons are killed in turn while two of three are.
const ROUNDS: usize = 7;
/// A stream is no faster, so that it is under way when somebody is killed.
const BYTES_A_SECOND: usize = 12 << 20;
/// How long after its start a stream is under way.
pub const UNDER_WAY: Duration = Duration::from_millis(300);
const FILE_BYTES: usize = 400_000;
/// Files that are written over and over.
const FILES: usize = 24;

fn rounds() -> usize {
    std::env::var("SAWMILL_KILL_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(ROUNDS)
}

/// Writes files over and over, also when there is nobody to write to for a while.
fn write_on(dir: &Path, is_over: &AtomicBool) {
    for turn in 0.. {
        if is_over.load(Ordering::SeqCst) {
            return;
        }
        let bytes: Vec<u8> = (0..FILE_BYTES).map(|at| ((at * (turn + 7)) ^ (at >> 7)) as u8).collect();
        let new = dir.join("new");
        let written =
            fs::write(&new, bytes).and_then(|()| fs::rename(&new, dir.join(format!("f{}", turn % FILES))));
        let pause = if written.is_ok() { 10 } else { 50 };
        std::thread::sleep(Duration::from_millis(pause));
    }
}

/// `tank/data` of one daemon, which is sent to a copy that the same daemon or another one has.
pub struct Pair<'a> {
    pub from: &'a World,
    pub to: &'a World,
    /// The copy's name.
    pub copy: &'a str,
    /// The option of `zfs send` before the snapshot that the copy has: `-I` sends the snapshots
    /// between, too, and `-i` does not.
    pub since: &'a str,
}

impl Pair<'_> {
    fn zfs(world: &World) -> String {
        let run = world.run_dir();
        format!("SAWMILL_RUN={} {}", run.display(), run.with_file_name("bin").join("zfs").display())
    }

    /// What is sent next: the rest of what broke off, or what is new since the last snapshot that the other has.
    pub fn next(&self, wanted: usize) -> Option<String> {
        let said = self.to.run("zfs", &format!("get -Ho value receive_resume_token {}", self.copy));
        let token = String::from_utf8_lossy(&said.stdout).trim().to_owned();
        if token.starts_with("1-") {
            return Some(format!("-t {token}"));
        }
        let said = self.to.run("zfs", &format!("list -Ho name -t snapshot {}", self.copy));
        let names = String::from_utf8_lossy(&said.stdout).into_owned();
        let has = names.lines().filter_map(|name| name.split('@').nth(1)?.parse::<usize>().ok()).max();
        match has {
            Some(last) if last >= wanted => None,
            Some(last) => Some(format!("{} @{last} tank/data@{wanted}", self.since)),
            None => Some(format!("tank/data@{wanted}")),
        }
    }

    /// The shell's line that sends something, through a filter (`| PROGRAM`) or through nothing.
    pub fn line(&self, what: &str, filter: &str) -> String {
        let (from, to) = (Self::zfs(self.from), Self::zfs(self.to));
        format!("{from} send {what} {filter} | {to} receive -s -u -F {}", self.copy)
    }

    /// Sends something; something else happens meanwhile, by which the stream may break off.
    pub fn send(&self, what: &str, meanwhile: impl FnOnce()) {
        let script = self.line(what, &format!("| pv -q -L {BYTES_A_SECOND}"));
        let mut command = crate::mounted::bounded(Path::new("bash"));
        command.args(["-c", &script]).stderr(std::process::Stdio::null());
        let mut child = command.spawn().expect("bash runs");
        meanwhile();
        child.wait().expect("it ends");
    }

    fn root(world: &World, name: &str) -> PathBuf {
        world.root().join(name)
    }
}

#[test]
fn replicas_of_a_busy_file_system_outlive_kills_of_both_daemons() {
    let Some(from) = crate::world(&["pv", "bash"]) else { return };
    let Some(to) = crate::world(&["pv"]) else { return };
    let pair = Pair { from: &from, to: &to, copy: "tank/copy", since: "-I" };
    pair.from.zfs("create -o compression=off tank/data");
    let (data, is_over) = (Pair::root(pair.from, "data"), AtomicBool::new(false));
    let (mut resumed, mut kills) = (0, 0);
    std::thread::scope(|scope| {
        scope.spawn(|| write_on(&data, &is_over));
        for round in 1..=rounds() {
            std::thread::sleep(Duration::from_millis(600));
            pair.from.zfs(&format!("snapshot tank/data@{round}"));
            let mut killed = match round % 3 {
                0 => None,
                1 => Some(pair.from),
                _ => Some(pair.to),
            };
            while let Some(what) = pair.next(round) {
                resumed += usize::from(what.starts_with("-t"));
                kills += usize::from(killed.is_some());
                let killed = killed.take();
                pair.send(&what, || {
                    std::thread::sleep(UNDER_WAY);
                    killed.into_iter().for_each(World::kill_daemon);
                });
                killed.into_iter().for_each(World::restart);
            }
        }
        is_over.store(true, Ordering::SeqCst);
    });
    let last = rounds() + 1;
    pair.from.zfs(&format!("snapshot tank/data@{last}"));
    while let Some(what) = pair.next(last) {
        pair.send(&what, || {});
    }
    println!("{kills} kills, {resumed} streams gone on with");
    assert!(resumed > 0 && kills > 3, "{kills} kills, {resumed} streams gone on with");
    let guids = |world: &World, name: &str| {
        world.zfs_prints(&format!("get -Hpr -t snapshot -o name,value guid {name}")).replace(name, "")
    };
    assert_eq!(guids(pair.from, "tank/data"), guids(pair.to, "tank/copy"));
    // A daemon that was brought back has mounted it by itself.
    _ = pair.to.run("zfs", "mount tank/copy");
    let copy = Pair::root(pair.to, "copy");
    sh(&format!("diff -r {} {}", data.display(), copy.display()), Path::new("/"));
    for snapshot in [1, last / 2] {
        let at = |dir: &Path| dir.join(format!(".zfs/snapshot/{snapshot}"));
        sh(&format!("diff -r {} {}", at(&data).display(), at(&copy).display()), Path::new("/"));
    }
    from.finish();
    to.finish();
}
