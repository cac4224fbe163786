//! `zfs diff`: what is different between a snapshot and a later state of its file system.
//!
//! ```text
//!  blocks of dnodes written since ─► objects ─► what each was in the one, and is in the other ─► lines
//! ```
//! The lines are in the order of object numbers, and have OpenZFS's form. A file leads to its newest name only. Where
//! that name is gone and older names are left, the file is looked for in all directories, and its line comes last. The
//! present state of the file
//! system is read from a snapshot that is made for the comparison. A temporary hold keeps the
//! snapshot. The snapshot is destroyed with the hold, after the comparison or at the next import.

use crate::{Held, Holder, names, refusal};
use control::{ByteSink, DatasetDiff, Failure, FailureKind};
use futures::AsyncWriteExt;
use pool::PoolError;
use std::collections::BTreeSet;
use std::io::Write;
use std::ops::ControlFlow;
use std::sync::{Arc, Weak};
use std::time::Duration;
use units::{ObjectId, Txg};
use zpl::{FileKind, Glimpse, ObjectPath, Zfs, ZplError};

/// Lines are sent on when there are so many bytes of them.
const SEND_BYTES: usize = 64 << 10;
/// The time after which the release of a snapshot that is being read is tried again.
const TRY_AGAIN_AFTER: Duration = Duration::from_secs(1);

impl Holder {
    pub(super) async fn diff(&self, call: &DatasetDiff, mut sink: ByteSink) -> Result<(), Failure> {
        let held = self.pool_of(&call.dataset)?;
        let form = Form { call, root: self.root_of(&held, &call.dataset).await? };
        if let Some(to) = &call.to {
            return self.compare(&held, &form, to, &mut sink).await;
        }
        let maker = format!("zfs-diff-{}", call.process);
        // The system reuses process numbers, and the snapshot of an earlier process may still be read.
        let now = format!("{}@{maker}-{:016x}", call.dataset, self.env.random_u64());
        let tag = format!("%{maker}");
        let cannot = |error| {
            let (kind, reason) = refusal::kind_and_reason(&error);
            let line = format!("Cannot create just-in-time snapshot of '{}': {reason}", call.dataset);
            Failure::new(kind, line)
        };
        held.pool.temporary_snapshot(&now, &tag).await.map_err(cannot)?;
        let snapshot = now.clone();
        let mut taken = ReleasedLater(Some(JustInTime { holder: Weak::clone(&self.own), snapshot, tag }));
        let compared = self.compare(&held, &form, &now, &mut sink).await;
        // When the command ends, the snapshot is gone unless another program reads the snapshot.
        if let Some(first_try) = &taken.0
            && first_try.release().await.is_break()
        {
            taken.0 = None;
        }
        compared
    }

    /// Where the file system is mounted, or would be: what paths begin with.
    async fn root_of(&self, held: &Held, dataset: &str) -> Result<String, Failure> {
        let place = match self.mounts.place_of(dataset) {
            Some(place) => Some(place),
            None => self.mountpoint(held, dataset).await?.filter(|path| path.starts_with('/')),
        };
        Ok(place.filter(|path| path != "/").unwrap_or_default())
    }

    async fn compare(
        &self,
        held: &Held,
        form: &Form<'_>,
        to: &str,
        sink: &mut ByteSink,
    ) -> Result<(), Failure> {
        let since = self.creation_of_earlier(held, &form.call.from, to).await?;
        let open = async |name: &str| {
            let opened = held.pool.snapshot_filesystem(name).await;
            opened.map_err(|error| refusal::pool("open", name, &error))
        };
        let (from_fs, to_fs) = (open(&form.call.from).await?, open(to).await?);
        let states = States { from: Arc::clone(&from_fs.zfs), to: Arc::clone(&to_fs.zfs) };
        let unreadable = |error: ZplError| {
            let reason = refusal::chain(&error);
            Failure::new(FailureKind::Other, format!("Unable to obtain diffs: {reason}"))
        };
        let changed = states.to.objset().changed_since(since).await;
        let shares = states.to.shares().await.map_err(unreadable)?;
        let (mut lines, mut lost) = (Vec::new(), Vec::new());
        for range in changed.map_err(|error| unreadable(error.into()))? {
            let mut next = *range.objects.start();
            while let Some(object) =
                states.next(next, *range.objects.end(), range.in_use).await.map_err(unreadable)?
            {
                next = object.get() + 1;
                if Some(object) != shares {
                    let seen = states.look_at(object, range.in_use).await.map_err(unreadable)?;
                    if seen.is_lost() {
                        lost.push(seen);
                    } else {
                        seen.changes().iter().for_each(|change| form.write(change, &mut lines));
                    }
                }
                if lines.len() >= SEND_BYTES {
                    sink.write_all(&lines).await.map_err(|_| broken())?;
                    lines.clear();
                }
            }
        }
        for seen in states.find_lost(lost).await.map_err(unreadable)? {
            seen.changes().iter().for_each(|change| form.write(change, &mut lines));
        }
        sink.write_all(&lines).await.map_err(|_| broken())
    }

    /// The transaction group of a snapshot that comes before another of the same file system, or of one that it is a
    /// clone of.
    async fn creation_of_earlier(&self, held: &Held, from: &str, to: &str) -> Result<Txg, Failure> {
        let lineage = self.lineage(held).await?;
        let find = |name| lineage.snapshot(name).ok_or_else(|| Failure::no_such_dataset(name));
        let (source, target) = (find(from)?, find(to)?);
        let (head, other) = (names::head_of(to), names::head_of(from));
        if !lineage.is_history_of(head, other, source.createtxg) && head != other {
            let line = "Not an earlier snapshot from the same fs: invalid name";
            return Err(Failure::new(FailureKind::Invalid, line));
        }
        if source.createtxg >= target.createtxg {
            let line = "Unable to obtain diffs: ";
            let failure = Failure::new(FailureKind::Invalid, line);
            return Err(failure.and("   Not an earlier snapshot from the same fs"));
        }
        Ok(Txg::new(source.createtxg))
    }
}

/// The snapshot of a comparison, which a temporary hold keeps.
struct JustInTime {
    holder: Weak<Holder>,
    snapshot: String,
    tag: String,
}

impl JustInTime {
    /// Releases the hold, which destroys the snapshot. Returns `Continue` if another program reads the
    /// snapshot: the caller must try again.
    async fn release(&self) -> ControlFlow<()> {
        let Some(holder) = self.holder.upgrade() else { return ControlFlow::Break(()) };
        let Ok(held) = holder.pool_of(&self.snapshot) else { return ControlFlow::Break(()) };
        let names = [self.snapshot.clone()];
        // Programs that scan all snapshots may have opened this snapshot too.
        let _nobody_opens_it = holder.let_go_of(&held, &names).await;
        match held.pool.release(self.tag.clone(), names.into()).await {
            Err(PoolError::Busy { .. }) => return ControlFlow::Continue(()),
            Err(error) => tracing::warn!(snapshot = self.snapshot, %error, "stays until the next import"),
            Ok(()) => {}
        }
        ControlFlow::Break(())
    }

    async fn release_in_the_end(self) {
        while self.release().await.is_continue() {
            let Some(holder) = self.holder.upgrade() else { return };
            let rest = holder.env.sleep(TRY_AGAIN_AFTER);
            drop(holder);
            rest.await;
        }
    }
}

/// Releases the hold in the background when the comparison is dropped.
struct ReleasedLater(Option<JustInTime>);

impl Drop for ReleasedLater {
    fn drop(&mut self) {
        let Some(taken) = self.0.take() else { return };
        if let Some(holder) = taken.holder.upgrade() {
            holder.env.spawn("diff", Box::pin(taken.release_in_the_end()));
        }
    }
}

fn broken() -> Failure {
    Failure::new(FailureKind::Other, "Unable to obtain diffs: Broken pipe")
}

/// A file system before and after.
struct States {
    from: Arc<Zfs>,
    to: Arc<Zfs>,
}

impl States {
    /// The next object to look at, of some that are in use now or were before.
    async fn next(&self, first: u64, last: u64, in_use: bool) -> zpl::Result<Option<ObjectId>> {
        if first > last {
            return Ok(None);
        }
        if in_use {
            return Ok(Some(ObjectId::new(first)));
        }
        let found = self.from.objset().next_object(ObjectId::new(first.saturating_sub(1))).await?;
        Ok(found.filter(|object| object.get() <= last))
    }

    /// What an object was, and is. An object that has lost its newest name is looked for in the directory that the
    /// object had in the other state.
    async fn look_at(&self, object: ObjectId, in_use: bool) -> zpl::Result<Seen> {
        let from = self.from.glimpse(object).await?;
        if !in_use {
            return Ok(Seen { object, from, to: None, in_use });
        }
        let to = self.to.glimpse(object).await?;
        let (old_dir, new_dir) = (from.as_ref().map(|from| from.parent), to.as_ref().map(|to| to.parent));
        let from = look_again(&self.from, object, from, new_dir).await?;
        let to = look_again(&self.to, object, to, old_dir).await?;
        Ok(Seen { object, from, to, in_use })
    }

    /// Looks for the names of objects in all directories.
    async fn find_lost(&self, mut lost: Vec<Seen>) -> zpl::Result<Vec<Seen>> {
        search(&self.from, &mut lost, |seen| seen.from.as_mut()).await?;
        search(&self.to, &mut lost, |seen| seen.to.as_mut()).await?;
        Ok(lost)
    }
}

/// If an object has lost its newest name, the function looks for the object in a directory.
async fn look_again(
    zfs: &Zfs,
    object: ObjectId,
    seen: Option<Glimpse>,
    dir: Option<ObjectId>,
) -> zpl::Result<Option<Glimpse>> {
    let Some((mut seen, dir)) = seen.clone().filter(Glimpse::is_lost).zip(dir) else { return Ok(seen) };
    if let Some(path) = zfs.path_in(dir, object).await? {
        seen.place = ObjectPath::At(path);
    }
    Ok(Some(seen))
}

/// Gives those objects of one state their paths that have names there.
async fn search(
    zfs: &Zfs,
    all: &mut [Seen],
    state: impl Fn(&mut Seen) -> Option<&mut Glimpse>,
) -> zpl::Result<()> {
    let is_lost = |seen: &mut Seen| state(seen).is_some_and(|glimpse| glimpse.is_lost());
    let lost: BTreeSet<ObjectId> =
        all.iter_mut().filter_map(|seen| is_lost(seen).then_some(seen.object)).collect();
    let mut found = zfs.search_paths(&lost).await?;
    for seen in all {
        let object = seen.object;
        if let Some(glimpse) = state(seen).filter(|glimpse| glimpse.is_lost())
            && let Some(path) = found.remove(&object)
        {
            glimpse.place = ObjectPath::At(path);
        }
    }
    Ok(())
}

/// An object in both states.
struct Seen {
    object: ObjectId,
    from: Option<Glimpse>,
    to: Option<Glimpse>,
    /// The number is in use in the later state.
    in_use: bool,
}

impl Seen {
    fn is_lost(&self) -> bool {
        self.from.iter().chain(&self.to).any(Glimpse::is_lost)
    }

    fn changes(self) -> Vec<Change> {
        if self.in_use { changes(self.from, self.to) } else { removed(self.from).into_iter().collect() }
    }
}

/// What became of an object.
#[derive(Debug, PartialEq, Eq)]
enum Change {
    Added(Glimpse),
    Removed(Glimpse),
    Modified(Glimpse),
    /// It had that path before.
    Renamed(Vec<u8>, Glimpse),
    /// So many names more, or less; that path is one of those that it had or has.
    Links(i64, Vec<u8>, Glimpse),
}

/// Of an object that is not there any more; what waited for its last close was gone before.
fn removed(from: Option<Glimpse>) -> Option<Change> {
    from.filter(|from| matches!(from.place, ObjectPath::At(_))).map(Change::Removed)
}

fn path(of: &Glimpse) -> Vec<u8> {
    match &of.place {
        ObjectPath::At(path) => path.clone(),
        ObjectPath::DeleteQueue => b"(on_delete_queue)".to_vec(),
        ObjectPath::Unknown => Vec::new(),
    }
}

/// What has no path that anybody knows counts as not there, but for the number of its names.
fn changes(from: Option<Glimpse>, to: Option<Glimpse>) -> Vec<Change> {
    let is_found = |of: &Option<Glimpse>| of.as_ref().is_some_and(|of| of.place != ObjectPath::Unknown);
    let links = |of: &Option<Glimpse>| of.as_ref().map_or(0, |of| of.links as i64);
    let is_directory = |of: &Option<Glimpse>| of.as_ref().is_some_and(|of| of.kind == FileKind::Directory);
    let no_names = is_directory(&from) || is_directory(&to) || links(&from) == 0 || links(&to) == 0;
    let more = if no_names { 0 } else { links(&to) - links(&from) };
    match (is_found(&from), is_found(&to), from, to) {
        (true, true, Some(from), Some(to)) => compared(from, to, more),
        (false, true, _, Some(to)) if more != 0 => vec![Change::Links(more, path(&to), to)],
        (false, true, _, Some(to)) => vec![Change::Added(to)],
        (true, false, Some(from), _) if more != 0 => vec![Change::Links(more, path(&from), from)],
        (true, false, Some(from), _) => vec![Change::Removed(from)],
        _ => Vec::new(),
    }
}

fn compared(from: Glimpse, to: Glimpse, more: i64) -> Vec<Change> {
    if from.generation != to.generation || from.kind != to.kind {
        return vec![Change::Removed(from), Change::Added(to)];
    }
    if from.ctime == to.ctime {
        return Vec::new();
    }
    let (old, new) = (path(&from), path(&to));
    vec![match more {
        0 if old == new => Change::Modified(to),
        0 => Change::Renamed(old, to),
        1.. => Change::Links(more, old, to),
        _ => Change::Links(more, new, to),
    }]
}

/// How changes are told.
struct Form<'a> {
    call: &'a DatasetDiff,
    /// Where the file system is.
    root: String,
}

impl Form<'_> {
    fn write(&self, change: &Change, lines: &mut Vec<u8>) {
        let (mark, of) = match change {
            Change::Added(of) => ('+', of),
            Change::Removed(of) => ('-', of),
            Change::Modified(of) | Change::Links(_, _, of) => ('M', of),
            Change::Renamed(_, of) => ('R', of),
        };
        let mut put = |text: String| lines.extend_from_slice(text.as_bytes());
        if self.call.times {
            put(format!("{:>10}.{:09}\t", of.ctime.secs, of.ctime.nanos));
        }
        put(format!("{mark}\t"));
        if self.call.kinds {
            put(format!("{}\t", letter(of.kind)));
        }
        match change {
            Change::Added(of) | Change::Removed(of) | Change::Modified(of) => self.put_path(&path(of), lines),
            Change::Links(more, path, _) => {
                self.put_path(path, lines);
                _ = write!(lines, "\t({more:+})");
            }
            Change::Renamed(old, of) => {
                self.put_path(old, lines);
                lines.extend_from_slice(if self.call.scripted { b"\t" } else { b" -> " });
                self.put_path(&path(of), lines);
            }
        }
        lines.push(b'\n');
    }

    fn put_path(&self, path: &[u8], lines: &mut Vec<u8>) {
        for &byte in self.root.as_bytes().iter().chain(path) {
            let is_plain = (b'!'..=b'~').contains(&byte) && byte != b'\\';
            match is_plain || self.call.unescaped {
                true => lines.push(byte),
                false => _ = write!(lines, "\\{byte:04o}"),
            }
        }
    }
}

/// As `ls -F` has them, and more.
fn letter(kind: FileKind) -> char {
    match kind {
        FileKind::File => 'F',
        FileKind::Directory => '/',
        FileKind::Symlink => '@',
        FileKind::Fifo => '|',
        FileKind::Socket => '=',
        FileKind::CharDevice => 'C',
        FileKind::BlockDevice => 'B',
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zpl::Timestamp;

    fn at(path: &str, generation: u64, links: u64, secs: i64) -> Glimpse {
        let place = match path {
            "" => ObjectPath::Unknown,
            "queue" => ObjectPath::DeleteQueue,
            path => ObjectPath::At(path.into()),
        };
        let ctime = Timestamp { secs, nanos: 5 };
        Glimpse { kind: FileKind::File, generation, links, parent: ObjectId::new(1), ctime, place }
    }

    fn told(from: Option<Glimpse>, to: Option<Glimpse>, call: &DatasetDiff) -> String {
        let form = Form { call, root: "/p".into() };
        let mut lines = Vec::new();
        changes(from, to).iter().for_each(|change| form.write(change, &mut lines));
        String::from_utf8(lines).expect("text")
    }

    #[test]
    fn changes_are_told_as_openzfs_tells_them() {
        let plain = |from, to| told(from, to, &DatasetDiff::default());
        assert_eq!(plain(None, Some(at("/a", 1, 1, 1))), "+\t/p/a\n");
        assert_eq!(plain(Some(at("/a", 1, 1, 1)), None), "-\t/p/a\n");
        assert_eq!(plain(Some(at("/a", 1, 1, 1)), Some(at("/a", 1, 1, 2))), "M\t/p/a\n");
        assert_eq!(plain(Some(at("/a", 1, 1, 1)), Some(at("/a", 1, 1, 1))), "");
        assert_eq!(plain(Some(at("/a", 1, 1, 1)), Some(at("/b c", 1, 1, 2))), "R\t/p/a -> /p/b\\0040c\n");
        assert_eq!(plain(Some(at("/a", 1, 1, 1)), Some(at("/b", 1, 3, 2))), "M\t/p/a\t(+2)\n");
        assert_eq!(plain(Some(at("/a", 1, 2, 1)), Some(at("/b", 1, 1, 2))), "M\t/p/b\t(-1)\n");
        assert_eq!(plain(Some(at("/a", 1, 2, 1)), Some(at("", 1, 1, 2))), "M\t/p/a\t(-1)\n");
        assert_eq!(plain(Some(at("", 1, 1, 1)), Some(at("/a", 1, 1, 2))), "+\t/p/a\n");
        assert_eq!(plain(Some(at("/a", 1, 1, 1)), Some(at("/b", 2, 1, 2))), "-\t/p/a\n+\t/p/b\n");
        assert_eq!(
            plain(Some(at("/a", 1, 1, 1)), Some(at("queue", 1, 0, 2))),
            "R\t/p/a -> /p(on_delete_queue)\n"
        );
        assert_eq!(plain(None, None), "");
    }

    #[test]
    fn kinds_times_and_names_are_told_as_asked_for() {
        let all = DatasetDiff { kinds: true, times: true, scripted: true, ..DatasetDiff::default() };
        let renamed = || (Some(at("/a", 1, 1, 1)), Some(at("/\\\u{e4}", 1, 1, 1_700_000_000)));
        let (from, to) = renamed();
        assert_eq!(told(from, to, &all), "1700000000.000000005\tR\tF\t/p/a\t/p/\\0134\\0303\\0244\n");
        let raw = DatasetDiff { unescaped: true, ..DatasetDiff::default() };
        let (from, to) = renamed();
        assert_eq!(told(from, to, &raw), "R\t/p/a -> /p/\\\u{e4}\n");
    }

    #[test]
    fn what_waited_for_its_last_close_was_gone_before() {
        assert_eq!(removed(Some(at("queue", 1, 0, 1))), None);
        assert_eq!(removed(Some(at("", 1, 1, 1))), None);
        assert!(removed(Some(at("/a", 1, 1, 1))).is_some());
    }
}
