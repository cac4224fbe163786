//! Snapshots, clones and bookmarks in memory: the engine's rules, and names that come and go.

use super::{Done, FakeService, State, fact};
use control::*;
use engine::lineage::{Lineage, Snapshot};
use engine::props::{Prop, Source};
use engine::{bookmarks, clones, destruction, holds, names, receive, rollback, send, snapshots};
use futures::io::{AsyncReadExt, AsyncWriteExt};

/// When everything was made.
const CREATION: u64 = 1_795_287_300;
/// What every row of snapshots would give back.
const RECLAIMED_BYTES: u64 = 1536;

impl State {
    /// A dataset of any kind.
    pub fn open(&mut self, name: &str) -> Done {
        if name.contains('#') && self.datasets.contains_key(names::head_of(name)) {
            return self.dataset(name).map(|_| ()).map_err(|_| bookmarks::no_such_bookmark(name));
        }
        self.dataset(name).map(|_| ())
    }

    fn lineage(&self) -> Lineage {
        let mut lineage = Lineage::default();
        for dataset in self.datasets.values() {
            let origin = match dataset.props.get("origin").map(|prop| &prop.value) {
                Some(Value::Text(origin)) => Some(origin.as_str()),
                _ => None,
            };
            match dataset.kind {
                DatasetKind::Snapshot => lineage.add_snapshot(&dataset.name, dataset.createtxg),
                DatasetKind::Bookmark => {}
                _ => lineage.add_head(&dataset.name, origin),
            }
        }
        lineage
    }

    fn marks(&self, head: &str) -> Vec<Snapshot> {
        let all = self.datasets.values().filter(|dataset| dataset.kind == DatasetKind::Bookmark);
        let own = all.filter(|mark| names::head_of(&mark.name) == head);
        own.map(|mark| Snapshot { name: mark.name.clone(), createtxg: mark.createtxg }).collect()
    }

    fn held(&self, names: Vec<String>) -> Vec<HeldSnapshot> {
        let holds = |name: &str| self.holds.get(name).cloned().unwrap_or_default();
        names.into_iter().map(|name| HeldSnapshot { holds: holds(&name), name }).collect()
    }

    fn refuse_held(&self, going: &[String]) -> Done {
        let is_held = |name: &&String| self.holds.get(*name).is_some_and(|holds| !holds.is_empty());
        let line = |name| format!("cannot destroy snapshot {name}: dataset is busy");
        let refusals = going.iter().filter(is_held).map(|name| Failure::new(FailureKind::Busy, line(name)));
        destruction::together(refusals).map_or(Ok(()), Err)
    }

    fn drop_all(&mut self, going: &[String]) {
        let is_going = |name: &str| going.iter().any(|other| other == names::head_of(name) || other == name);
        self.datasets.retain(|name, _| !is_going(name) || self.pools.contains_key(name));
        self.mounts.retain(|mount| !is_going(&mount.dataset));
    }

    fn put(&mut self, name: &str, kind: DatasetKind, change: impl FnOnce(&mut DatasetInfo)) {
        let mut info = self.dataset_info(name, kind);
        info.props.insert("creation".into(), fact(CREATION));
        change(&mut info);
        self.datasets.insert(name.to_owned(), info);
    }
}

impl FakeService {
    /// Each snapshot's stream is its name; one called `@broken` breaks off in the middle.
    pub async fn send(&self, call: &DatasetSend, sink: &mut ByteSink) -> Done {
        let parts = self.parts(call)?;
        for part in parts {
            let written = sink.write_all(format!("{}\n", part.snapshot).as_bytes()).await;
            written.map_err(|error| Failure::new(FailureKind::Other, error.to_string()))?;
            if part.snapshot.ends_with("@broken") {
                let line = format!("warning: cannot send '{}': Input/output error", part.snapshot);
                return Err(Failure::new(FailureKind::Other, line));
            }
        }
        Ok(())
    }

    /// A stream is lines, each the name that a snapshot was sent with; behind one called `@broken` nothing is read.
    pub async fn receive(
        &self,
        call: &DatasetReceive,
        mut source: ByteSource,
    ) -> Done<Vec<ReceivedSnapshot>> {
        let other = |line: String| Failure::new(FailureKind::Other, line);
        let mut received = Vec::new();
        let mut line = String::new();
        let mut byte = [0];
        while source.read(&mut byte).await.map_err(|error| other(error.to_string()))? == 1 {
            if byte[0] != b'\n' {
                line.push(byte[0].into());
                continue;
            }
            if line.ends_with("@broken") {
                return Err(other("cannot receive new filesystem stream: checksum mismatch".to_owned()));
            }
            let snapshot = receive::destination(call, &line, None).map_err(other)?;
            if !call.dry_run {
                self.state().put(&snapshot, DatasetKind::Snapshot, |_| {});
            }
            let sent_as = std::mem::take(&mut line);
            received.push(ReceivedSnapshot { sent_as, snapshot, ..ReceivedSnapshot::default() });
        }
        Ok(received)
    }

    pub fn send_size(&self, call: &DatasetSend) -> Done<Vec<SendSize>> {
        let size = |part: send::Part| {
            let bytes = part.snapshot.len() as u64 + 1;
            SendSize { snapshot: part.snapshot, from: part.from, bytes }
        };
        Ok(self.parts(call)?.into_iter().map(size).collect())
    }

    fn parts(&self, call: &DatasetSend) -> Done<Vec<send::Part>> {
        let state = self.state();
        let marks = call.from.as_deref().map_or_else(Vec::new, |from| state.marks(names::head_of(from)));
        send::plan(&state.lineage(), &marks, call)
    }

    pub fn destroy_dataset(&self, call: &DatasetDestroy) -> Done<Vec<String>> {
        let mut state = self.state();
        let kind = state.dataset(&call.name)?.kind;
        let going = destruction::of_dataset(&state.lineage(), kind, call)?;
        if !call.dry_run {
            state.refuse_held(&going)?;
            state.drop_all(&going);
        }
        Ok(going)
    }

    pub fn create_snapshots(&self, call: &SnapshotCreate) -> Done {
        let mut state = self.state();
        let lineage = state.lineage();
        let of = |name: &String| {
            let (root, last) = name.split_once('@').expect("the command looked for it");
            let heads = lineage.heads(root, call.recursive).into_iter();
            heads.map(|head| format!("{head}@{last}")).collect::<Vec<_>>()
        };
        let names = snapshots::check_new(&call.pool, call.names.iter().flat_map(of).collect())?;
        snapshots::check_props(&call.props)?;
        let taken = names.iter().filter(|name| lineage.has(name)).map(|name| {
            Failure::cannot(FailureKind::Exists, "create snapshot", name, "dataset already exists")
        });
        if let Some(refusal) = destruction::together(taken) {
            return Err(refusal);
        }
        for name in names {
            state.put(&name, DatasetKind::Snapshot, |info| {
                for (name, value) in &call.props {
                    let prop = Prop { value: value.as_str().into(), source: Source::Local };
                    info.props.insert(name.clone(), prop);
                }
            });
        }
        Ok(())
    }

    pub fn destroy_snapshots(&self, call: &SnapshotDestroy) -> Done<SnapshotsGoing> {
        let mut state = self.state();
        let lineage = state.lineage();
        let by_head = destruction::of_snapshots(&lineage, call)?;
        let rows: usize =
            by_head.iter().map(|(head, going)| destruction::runs(&lineage, head, going).len()).sum();
        let snapshots: Vec<String> = by_head.into_iter().flat_map(|(_, snapshots)| snapshots).collect();
        let clones = if call.clones { destruction::clones_of(&lineage, &snapshots) } else { Vec::new() };
        if !call.dry_run {
            if !call.defer {
                state.refuse_held(&snapshots)?;
            }
            state.drop_all(&clones);
            state.drop_all(&snapshots);
        }
        Ok(SnapshotsGoing { snapshots, clones, reclaimed_bytes: RECLAIMED_BYTES * rows as u64 })
    }

    pub fn rename_snapshots(&self, call: &DatasetRename) -> Done {
        let mut state = self.state();
        for (old, new) in snapshots::renames(&state.lineage(), call)? {
            let mut info = state.datasets.remove(&old).expect("it is there");
            info.name.clone_from(&new);
            state.datasets.insert(new, info);
        }
        Ok(())
    }

    pub fn hold(&self, call: &SnapshotHold) -> Done {
        let mut state = self.state();
        let there = state.held(state.lineage().namesakes(&call.name, call.recursive));
        holds::check_hold(call, &there)?;
        for snapshot in there {
            let hold = HoldInfo { tag: call.tag.clone(), since_secs: CREATION };
            state.holds.entry(snapshot.name).or_default().push(hold);
        }
        Ok(())
    }

    pub fn release(&self, call: &SnapshotRelease) -> Done {
        let mut state = self.state();
        let lineage = state.lineage();
        let there = state.held(lineage.namesakes(&call.name, call.recursive));
        for name in holds::to_release(&lineage, call, &there)? {
            state.holds.entry(name).or_default().retain(|hold| hold.tag != call.tag);
        }
        Ok(())
    }

    pub fn holds(&self, call: &SnapshotHolds) -> Done<Vec<HeldSnapshot>> {
        let state = self.state();
        let lineage = state.lineage();
        holds::check_shown(&lineage, call)?;
        Ok(state.held(lineage.namesakes(&call.name, call.recursive)))
    }

    pub fn rollback(&self, call: &DatasetRollback) -> Done {
        let mut state = self.state();
        let marks = state.marks(names::head_of(&call.snapshot));
        let plan = rollback::plan(&state.lineage(), &marks, call)?;
        state.refuse_held(&plan.going)?;
        state.drop_all(&plan.going);
        state.drop_all(&plan.bookmarks);
        Ok(())
    }

    pub fn clone_dataset(&self, call: DatasetClone) -> Done {
        if names::pool_of(&call.snapshot) != names::pool_of(&call.name) {
            let reason = "source and target pools differ";
            return Err(Failure::cannot(FailureKind::Invalid, "create", &call.name, reason));
        }
        if call.parents && self.state().datasets.contains_key(&call.name) {
            return Ok(());
        }
        let (name, props) = (call.name.clone(), call.props);
        self.create_dataset(DatasetCreate { name, props, ..DatasetCreate::default() })?;
        let origin = fact(call.snapshot.as_str());
        self.state().dataset(&call.name)?.props.insert("origin".into(), origin);
        Ok(())
    }

    pub fn promote(&self, call: &DatasetPromote) -> Done {
        let mut state = self.state();
        clones::check_promotion(&state.lineage(), &call.name)?;
        state.dataset(&call.name)?.props.remove("origin");
        Ok(())
    }

    pub fn create_bookmark(&self, call: &BookmarkCreate) -> Done {
        let mut state = self.state();
        let mut marks = state.marks(names::head_of(&call.name));
        marks.extend(state.marks(names::head_of(&call.source)));
        bookmarks::check_new(&state.lineage(), &marks, call)?;
        let createtxg = state.dataset(&call.source)?.createtxg;
        state.put(&call.name, DatasetKind::Bookmark, |info| {
            info.createtxg = createtxg;
            info.props.retain(|name, _| matches!(name.as_str(), "type" | "creation"));
        });
        Ok(())
    }

    pub fn destroy_bookmark(&self, call: &BookmarkDestroy) -> Done {
        let gone = self.state().datasets.remove(&call.name);
        let line = format!("bookmark '{}' does not exist.", call.name);
        gone.map(|_| ()).ok_or_else(|| Failure::new(FailureKind::NoSuchDataset, line))
    }
}
