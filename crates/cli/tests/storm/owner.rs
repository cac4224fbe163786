//! A program that owns a family of datasets, and knows the possible contents of each.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use fastrand::Rng;

use crate::contents::{FileChanges, NameState};
use crate::family::{DatasetFamily, FileSystemModel, PendingStep};
use crate::mounted::POOL;
use crate::run::{CommandOutcome, Round};

/// The unit of requests of the kernel, in bytes.
const PAGE: usize = 4096;
const MEMBERS_MAX: usize = 4;
const SNAPSHOTS_MAX: usize = 4;
const FILES_MAX: usize = 8;
const FILE_MAX: usize = 160 << 10;
/// The kernel makes one request, or a few, of a write of this size.
const WRITE_MAX: usize = 48 << 10;
/// The number of steps with files for each command.
const FILE_STEPS: u32 = 12;

pub struct FamilyOwner {
    pub number: u64,
    pub family: DatasetFamily,
    /// The step that was under way when the daemon was killed.
    pub pending: Option<PendingStep>,
    names: u64,
    rng: Rng,
}

impl FamilyOwner {
    pub fn new(number: u64, seed: u64) -> Self {
        let rng = Rng::with_seed(seed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        Self { number, family: DatasetFamily::default(), pending: None, names: 0, rng }
    }

    /// Returns the name of the dataset above all others of the family.
    pub fn top(&self) -> String {
        format!("{POOL}/owner{}", self.number)
    }

    /// Takes steps until the daemon is killed.
    pub fn work(&mut self, round: &Round<'_>) {
        while !round.is_over() && self.pending.is_none() {
            if self.family.members.is_empty() || self.rng.u32(..=FILE_STEPS) == 0 {
                self.command(round);
            } else {
                self.file_step(round);
            }
        }
    }

    fn fresh(&mut self, prefix: &str) -> String {
        self.names += 1;
        format!("{prefix}{}", self.names)
    }

    fn any_member(&mut self) -> Option<String> {
        self.rng.choice(self.family.members.keys()).cloned()
    }

    /// Runs one command and updates the model: to the last of `families` if the command succeeded.
    fn change(&mut self, round: &Round<'_>, line: &str, families: Vec<DatasetFamily>) {
        match round.must("zfs", line) {
            CommandOutcome::Done(_) => self.family = families.into_iter().last().expect("an outcome"),
            CommandOutcome::Killed => self.pending = Some(PendingStep::Families(families)),
            CommandOutcome::Busy => {}
        }
    }

    fn command(&mut self, round: &Round<'_>) {
        let Some(name) = self.any_member() else { return self.create(round) };
        match self.rng.u32(..10) {
            0 if self.family.members.len() < MEMBERS_MAX => self.create(round),
            1 | 2 => self.snapshot(round, &name),
            3 => self.destroy_snapshot(round, &name),
            4 => self.clone_snapshot(round, &name),
            5 => self.promote(round, &name),
            6 => self.rename(round, &name),
            7 => self.roll_back(round, &name),
            8 => self.destroy(round, &name),
            _ => self.send(round, &name),
        }
    }

    fn create(&mut self, round: &Round<'_>) {
        let name = self.fresh("fs");
        let mut after = self.family.clone();
        after.members.insert(name.clone(), FileSystemModel::default());
        let recordsize = self.rng.choice(["4k", "16k", "128k"]).unwrap_or("128k");
        self.change(round, &format!("create -o recordsize={recordsize} {}/{name}", self.top()), vec![after]);
    }

    fn snapshot(&mut self, round: &Round<'_>, name: &str) {
        if self.family.members[name].snapshots.len() >= SNAPSHOTS_MAX {
            return self.destroy_snapshot(round, name);
        }
        let snapshot = self.fresh("s");
        let after = self.family.with_snapshot(name, &snapshot);
        self.change(round, &format!("snapshot {}/{name}@{snapshot}", self.top()), vec![after]);
    }

    /// Destroys a snapshot that has no clone.
    fn destroy_snapshot(&mut self, round: &Round<'_>, name: &str) {
        let kept: Vec<&String> = self.family.clones_of(name).map(|(_, snapshot)| snapshot).collect();
        let free = self.family.members[name].snapshots.iter().filter(|it| !kept.contains(&&it.name));
        let Some(snapshot) = self.rng.choice(free.map(|it| it.name.clone()).collect::<Vec<_>>()) else {
            return;
        };
        let after = self.family.without_snapshot(name, &snapshot);
        self.change(round, &format!("destroy {}/{name}@{snapshot}", self.top()), vec![after]);
    }

    fn any_snapshot(&mut self, name: &str) -> Option<String> {
        self.rng.choice(&self.family.members[name].snapshots).map(|it| it.name.clone())
    }

    fn clone_snapshot(&mut self, round: &Round<'_>, name: &str) {
        let Some(snapshot) = self.any_snapshot(name) else { return };
        if self.family.members.len() >= MEMBERS_MAX {
            return;
        }
        let clone = self.fresh("clone");
        let after = self.family.with_clone(name, &snapshot, &clone);
        let top = self.top();
        self.change(round, &format!("clone {top}/{name}@{snapshot} {top}/{clone}"), vec![after]);
    }

    fn promote(&mut self, round: &Round<'_>, name: &str) {
        if self.family.members[name].origin.is_none() {
            return;
        }
        let after = self.family.promoted(name);
        self.change(round, &format!("promote {}/{name}", self.top()), vec![after]);
    }

    fn rename(&mut self, round: &Round<'_>, name: &str) {
        let new = self.fresh("fs");
        let after = self.family.renamed(name, &new);
        let top = self.top();
        self.change(round, &format!("rename {top}/{name} {top}/{new}"), vec![after]);
    }

    fn roll_back(&mut self, round: &Round<'_>, name: &str) {
        let Some(newest) = self.family.members[name].snapshots.last().map(|it| it.name.clone()) else {
            return;
        };
        let after = self.family.rolled_back(name);
        // The operator's snapshots may be newer.
        self.change(round, &format!("rollback -r {}/{name}@{newest}", self.top()), vec![after]);
    }

    fn destroy(&mut self, round: &Round<'_>, name: &str) {
        if self.family.clones_of(name).next().is_some() {
            return;
        }
        let families = self.family.without(name);
        self.change(round, &format!("destroy -r {}/{name}", self.top()), families);
    }

    fn send(&mut self, round: &Round<'_>, name: &str) {
        let Some(snapshot) = self.any_snapshot(name) else { return };
        if self.family.members.len() >= MEMBERS_MAX {
            return;
        }
        let copy = self.fresh("copy");
        let after = self.family.with_copy(name, &snapshot, &copy);
        let zfs = round.world.run_dir().with_file_name("bin").join("zfs");
        let (zfs, top) = (zfs.display(), self.top());
        let script = format!("{zfs} send {top}/{name}@{snapshot} | {zfs} receive {top}/{copy}");
        let (is_done, err) = round.pipe(&script);
        if is_done {
            self.family = after;
        } else if round.is_over() {
            self.pending = Some(PendingStep::Families(vec![after]));
        } else {
            assert!(Round::is_busy(&err), "{script}: {err}");
        }
    }

    fn at(&self, round: &Round<'_>, name: &str) -> PathBuf {
        round.world.root().join(format!("owner{}", self.number)).join(name)
    }

    /// Changes one file, or makes it stable.
    fn file_step(&mut self, round: &Round<'_>) {
        let Some(member) = self.any_member() else { return };
        let at = self.at(round, &member);
        let tree = self.family.members[&member].contents.newest();
        let name = self.rng.choice(tree.keys()).cloned();
        let (step, name) = match (self.rng.u32(..10), name) {
            (0, _) | (_, None) if tree.len() < FILES_MAX => (FileStep::Create, self.fresh("f")),
            (_, None) => return,
            (0..=5, Some(name)) => (self.write_step(tree[&name].len()), name),
            (6, Some(name)) => (FileStep::Truncate(self.rng.usize(..=tree[&name].len())), name),
            (7, Some(name)) => (FileStep::Rename(self.fresh("f")), name),
            (8, Some(name)) => (FileStep::Unlink, name),
            (_, Some(name)) if tree.len() < FILES_MAX => (FileStep::Clone(self.fresh("f")), name),
            (_, Some(name)) => (FileStep::Sync, name),
        };
        let old = tree.get(&name).cloned().unwrap_or_else(|| Arc::from([]));
        let changes = step.changes(&name, &old);
        let is_promised = step.is_promised() || self.rng.bool();
        round.counts.files.fetch_add(1, Ordering::Relaxed);
        let done =
            step.make(&at, &name).and_then(|()| if is_promised { step.promise(&at, &name) } else { Ok(()) });
        match done {
            Ok(()) => {
                let contents = &mut self.family.members.get_mut(&member).expect("a member").contents;
                let Some(change) = changes.last() else { return contents.promise(&name) };
                changes.iter().for_each(|change| contents.apply(change));
                if is_promised {
                    change.iter().for_each(|(name, _)| contents.promise(name));
                }
            }
            Err(_) if round.is_over() => self.pending = Some(PendingStep::Files { member, changes }),
            Err(error) => panic!("{}: {name}: {step:?}: {error}", at.display()),
        }
    }

    fn write_step(&mut self, len: usize) -> FileStep {
        let count = self.rng.usize(1..=WRITE_MAX);
        let offset = self.rng.usize(..=len).min(FILE_MAX - count);
        let seed = self.rng.u64(..);
        FileStep::Write { offset, count, seed }
    }
}

/// A step with one file.
#[derive(Debug)]
enum FileStep {
    Create,
    Write { offset: usize, count: usize, seed: u64 },
    Truncate(usize),
    Rename(String),
    Unlink,
    Clone(String),
    Sync,
}

impl FileStep {
    /// Returns the states that an interrupted step may leave. The last is the state after the
    /// complete step. Empty if the step changes nothing.
    fn changes(&self, name: &str, old: &Arc<[u8]>) -> Vec<FileChanges> {
        let file = |bytes: Vec<u8>| -> NameState { Some(bytes.into()) };
        let one = |state: NameState| vec![vec![(name.to_owned(), state)]];
        match self {
            Self::Create => one(file(Vec::new())),
            Self::Write { offset, .. } => {
                // The kernel may make several requests of a write, each of whole pages but for the
                // first and the last. What was not synced may be stable in part.
                let (new, end) = (self.bytes(), offset + self.bytes().len());
                let whole_pages = (offset / PAGE + 1..).map(|page| page * PAGE).take_while(|&at| at < end);
                let until = |at: usize| {
                    let mut bytes = old.to_vec();
                    bytes.resize(bytes.len().max(at), 0);
                    bytes[*offset..at].copy_from_slice(&new[..at - offset]);
                    vec![(name.to_owned(), file(bytes))]
                };
                whole_pages.chain([end]).map(until).collect()
            }
            Self::Truncate(len) => one(file(old[..*len].to_vec())),
            Self::Rename(new) => {
                vec![vec![(name.to_owned(), None), (new.clone(), Some(old.clone()))]]
            }
            Self::Unlink => one(None),
            Self::Clone(new) => {
                let made = |state| vec![(new.clone(), state)];
                vec![made(file(Vec::new())), made(Some(old.clone()))]
            }
            Self::Sync => Vec::new(),
        }
    }

    /// True for steps that change names, because the model keeps no order between unstable names.
    fn is_promised(&self) -> bool {
        !matches!(self, Self::Write { .. } | Self::Truncate(_))
    }

    fn bytes(&self) -> Vec<u8> {
        let Self::Write { count, seed, .. } = self else { return Vec::new() };
        let mut bytes = vec![0; *count];
        Rng::with_seed(*seed).fill(&mut bytes);
        bytes
    }

    fn make(&self, at: &Path, name: &str) -> io::Result<()> {
        let path = at.join(name);
        match self {
            Self::Create => File::create_new(path).map(drop),
            Self::Write { offset, .. } => {
                let file = OpenOptions::new().write(true).open(path)?;
                let written = file.write_at(&self.bytes(), *offset as u64)?;
                // The kernel makes a request of each page. A kill may come between two of them.
                if written == self.bytes().len() { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
            }
            Self::Truncate(len) => OpenOptions::new().write(true).open(path)?.set_len(*len as u64),
            Self::Rename(new) => {
                // The model keeps no versions of a file under its next name.
                File::open(&path)?.sync_all()?;
                fs::rename(path, at.join(new))
            }
            Self::Unlink => fs::remove_file(path),
            Self::Clone(new) => clone_file(&path, &at.join(new)),
            Self::Sync => Ok(()),
        }
    }

    /// Makes the step stable.
    fn promise(&self, at: &Path, name: &str) -> io::Result<()> {
        match self {
            Self::Clone(new) => File::open(at.join(new))?.sync_all()?,
            Self::Unlink | Self::Rename(_) => {}
            _ => File::open(at.join(name))?.sync_all()?,
        }
        if self.is_promised() { File::open(at)?.sync_all() } else { Ok(()) }
    }
}

/// Copies a file with one call, which shares blocks where possible.
fn clone_file(from: &Path, to: &Path) -> io::Result<()> {
    let (from, to) = (File::open(from)?, File::create_new(to)?);
    let len = from.metadata()?.len() as usize;
    let mut copied = 0;
    while copied < len {
        let more = rustix::fs::copy_file_range(from.as_fd(), None, to.as_fd(), None, len - copied)?;
        assert_ne!(more, 0, "a short copy");
        copied += more;
    }
    Ok(())
}
