//! Streams that OpenZFS sent, received into a pool of ours.
//!
//! ```text
//!  full.zstream ... ─► Pool::receive ─► tank/fs@1 ═ whirl/fs@1 of the golden pool, file by file
//!                                         └─ stream::send ═ the records that came in
//! ```

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use device::{Options, RealEnv};
use env::Env;
use futures::executor::block_on;
use ondisk::send::{DrrBody, HeaderType};
use oracle::golden;
use oracle::zdb::Zdb;
use pool::{ImportSpec, Pool, PoolError, PoolSpec, ReceiveOrder, ReceiveRefusal, Sealed, Tuning};
use stream::{Form, Reader, Resume, StreamRecord};
use tempfile::TempDir;
use vdev::{Bias, NewVdev, PoolState};
use zpl::{Cred, NewNode, WriteFlags};

use crate::contents::{File, contents};
use crate::streams;

const GOLDEN: &str = "g30-streams";
const POOL_BYTES: u64 = 512 << 20;

/// The golden pool, and one of ours that streams are received into.
pub struct Receiving {
    pub env: Arc<RealEnv>,
    pub dir: TempDir,
    pub theirs: Arc<Pool>,
    pub ours: Arc<Pool>,
}

pub fn stream_called(name: &str) -> Vec<u8> {
    std::fs::read(golden::path(GOLDEN).join(format!("{name}.zstream"))).expect("a golden stream")
}

pub fn records(stream: &[u8]) -> Vec<StreamRecord> {
    block_on(async {
        let mut reader = Reader::new(stream);
        let mut records = Vec::new();
        while let Some(record) = reader.next_record().await.expect("a sound stream") {
            records.push(record);
        }
        records
    })
}

/// The substreams of a compound stream, each by itself.
fn substreams(stream: &[u8]) -> Vec<Vec<u8>> {
    let mut found: Vec<Vec<u8>> = Vec::new();
    let mut start = None;
    for StreamRecord { offset, record, payload } in records(stream) {
        let end = offset as usize + ondisk::send::RECORD_BYTES + payload.len();
        match record.body {
            DrrBody::Begin(begin) if begin.header_type() == Ok(HeaderType::Substream) => {
                start = Some(offset as usize);
            }
            DrrBody::End(_) => found.extend(start.take().map(|start| stream[start..end].to_vec())),
            _ => {}
        }
    }
    found
}

/// What records say, without what only the sender's blocks have: their checksums.
fn said(stream: &[u8]) -> Vec<(DrrBody, Vec<u8>)> {
    let is_said = |record: &StreamRecord| !matches!(record.record.body, DrrBody::Begin(_) | DrrBody::End(_));
    let plain = |body| match body {
        DrrBody::Write(write) => {
            DrrBody::Write(ondisk::send::DrrWrite { checksum: 0, flags: 0, key: Default::default(), ..write })
        }
        other => other,
    };
    let said = records(stream).into_iter().filter(is_said);
    said.map(|record| (plain(record.record.body), record.payload.to_vec())).collect()
}

/// Fails with the first record that says something else.
fn assert_says(what: &str, ours: &[u8], theirs: &[u8]) {
    let (ours, theirs) = (said(ours), said(theirs));
    for (at, (our, their)) in ours.iter().zip(&theirs).enumerate() {
        assert_eq!(our.0, their.0, "{what}: record {at}");
        assert!(our.1 == their.1, "{what}: payload of record {at}, {:?}", our.0);
    }
    assert_eq!(ours.len(), theirs.len(), "{what}");
}

impl Receiving {
    pub fn new() -> Self {
        let dir = TempDir::new_in("/dev/shm").or_else(|_| TempDir::new()).expect("a directory");
        let file = dir.path().join("a.img");
        std::fs::File::create(&file).and_then(|file| file.set_len(POOL_BYTES)).expect("a file");
        let env = RealEnv::new(Options::default());
        let images = golden::images(GOLDEN).into_iter();
        let spec = ImportSpec {
            paths: images.filter(|path| path.extension().is_some_and(|ext| ext == "img")).collect(),
            name: Some("whirl".into()),
            read_only: true,
            force: true,
            ..ImportSpec::default()
        };
        let dynamic: Arc<dyn Env> = env.clone();
        let theirs = env.block_on(Pool::import(Arc::clone(&dynamic), &spec, Tuning::default()));
        let vdev = NewVdev {
            paths: vec![file],
            ashift: None,
            bias: Bias::None,
            create_txg: 4,
            parity: 0,
            ..NewVdev::default()
        };
        let spec = PoolSpec {
            name: "tank".into(),
            stored_name: None,
            vdevs: vec![vdev],
            root_props: Vec::new(),
            comment: None,
            force: false,
        };
        let ours = env.block_on(Pool::create(dynamic, spec, tuning())).expect("a pool");
        Self { env, dir, theirs: theirs.expect("a sound pool"), ours }
    }

    pub fn run<T>(&self, future: impl Future<Output = T>) -> T {
        self.env.block_on(future)
    }

    /// Receives a stream of one snapshot.
    pub fn receive_as(
        &self,
        stream: &[u8],
        snapshot: &str,
        change: impl FnOnce(&mut ReceiveOrder),
    ) -> Result<(), PoolError> {
        self.run(streams::receive(&self.ours, stream, snapshot, change))
    }

    pub fn receive(&self, stream: &[u8], snapshot: &str) -> Result<(), PoolError> {
        self.receive_as(stream, snapshot, |_| {})
    }

    pub fn contents(&self, pool: &Arc<Pool>, name: &str) -> BTreeMap<String, File> {
        let opened = match name.contains('@') {
            true => self.run(pool.snapshot_filesystem(name)),
            false => self.run(pool.filesystem(name)),
        };
        let fs = opened.unwrap_or_else(|error| panic!("{name}: {error}"));
        self.run(contents(&fs.zfs))
    }

    /// What was received is what was sent: files, guid, time, accounts.
    pub fn assert_same(&self, theirs: &str, ours: &str) {
        let (their_files, our_files) = (self.contents(&self.theirs, theirs), self.contents(&self.ours, ours));
        assert!(their_files.len() > 5, "{theirs} has files");
        assert_eq!(our_files, their_files, "{ours}");
        self.run(async {
            let phys = async |pool: &Arc<Pool>, name: &str| {
                let dataset = pool.dsl().resolve(name).await.expect("there").dataset;
                pool.dsl().dataset(dataset).await.expect("readable")
            };
            let (their, our) = (phys(&self.theirs, theirs).await, phys(&self.ours, ours).await);
            assert_eq!((our.guid, our.creation_time), (their.guid, their.creation_time), "{ours}");
            assert_eq!(our.flags.get() & ondisk::dsl::dataset_flags::INCONSISTENT, 0, "{ours}");
            let objset = self.ours.frozen_objset(ours).await.expect("readable").expect("has contents");
            let (counted, kept) = (objset.recount().await.expect("readable"), objset.accounts().await);
            assert_eq!(kept.expect("readable"), counted, "accounts of {ours}");
        });
    }

    /// Sends from one of the pools; `from` is a snapshot's name.
    pub fn send(&self, pool: &Arc<Pool>, name: &str, from: Option<&str>, form: Form) -> Vec<u8> {
        self.send_from(pool, name, from, form, None)
    }

    /// The same from somewhere in the stream on.
    pub fn send_from(
        &self,
        pool: &Arc<Pool>,
        name: &str,
        from: Option<&str>,
        form: Form,
        resume: Option<Resume>,
    ) -> Vec<u8> {
        self.run(streams::sent(pool, name, from, form, resume))
    }

    pub fn names(&self) -> Vec<String> {
        self.run(async {
            let mut names = Vec::new();
            for head in self.ours.dsl().list("tank").await.expect("readable") {
                assert_eq!(self.ours.dsl().receiving_below(&head).await.expect("readable"), None);
                names.extend(
                    self.ours.dsl().snapshots(&head).await.expect("readable").into_iter().map(|s| s.name),
                );
                names.push(head.name);
            }
            names.sort();
            names
        })
    }

    /// `zdb` finds nothing wrong, and nothing leaked.
    pub fn check(self) {
        self.run(async {
            for _ in 0..3 {
                self.ours.sync_now().await.expect("syncs");
            }
            self.ours.close(PoolState::Exported).await.expect("closes");
        });
        Zdb::new(self.dir.path(), "tank").check().unwrap_or_else(|error| panic!("{error}"));
    }
}

/// Txgs sync when somebody waits.
pub fn tuning() -> Tuning {
    Tuning { txg_timeout: Duration::from_secs(3600), ..Tuning::default() }
}

pub fn refusal(result: Result<(), PoolError>) -> ReceiveRefusal {
    match result {
        Err(PoolError::Receive(refusal)) => refusal,
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_is_received_is_what_was_sent() {
    let world = Receiving::new();
    let (full, incr) = (stream_called("full"), stream_called("incr"));
    let all = substreams(&stream_called("incr-all"));
    world.receive(&full, "tank/fs@1").expect("a full stream");
    world.assert_same("whirl/fs@1", "tank/fs@1");
    world.receive(&incr, "tank/fs@2").expect("an incremental stream");
    world.receive(&all[1], "tank/fs@3").expect("the next one");
    for snapshot in ["fs@1", "fs@2", "fs@3"] {
        world.assert_same(&format!("whirl/{snapshot}"), &format!("tank/{snapshot}"));
    }
    assert_eq!(world.contents(&world.ours, "tank/fs"), world.contents(&world.ours, "tank/fs@3"));
    let clone = stream_called("clone");
    world
        .receive_as(&clone, "tank/clone@c", |order| order.origin = Some("tank/fs@2".into()))
        .expect("a clone");
    world.assert_same("whirl/clone@c", "tank/clone@c");
    assert_eq!(
        world.names(),
        ["tank", "tank/clone", "tank/clone@c", "tank/fs", "tank/fs@1", "tank/fs@2", "tank/fs@3"]
    );
    world.check();
}

#[test]
fn blocks_in_other_forms_are_received() {
    let world = Receiving::new();
    world.receive(&stream_called("full-cLe"), "tank/whole@1").expect("large, compressed, embedded");
    world.assert_same("whirl/fs@1", "tank/whole@1");
    let incr = stream_called("incr");
    assert_eq!(refusal(world.receive(&incr, "tank/whole@2")), ReceiveRefusal::NoLargeBlocks);
    let all = Form { large_blocks: true, embedded: true, compressed: true };
    let whole = world.send(&world.theirs, "whirl/fs@2", Some("whirl/fs@1"), all);
    world.receive(&whole, "tank/whole@2").expect("what comes after it");
    world.assert_same("whirl/fs@2", "tank/whole@2");
    // What is sent again says the same. A file of one odd block that came in pieces would have grown by that.
    let form = Form { large_blocks: true, ..Form::default() };
    for (snapshot, from) in [("@1", None), ("@2", Some("@1"))] {
        let sent = |pool, head: &str| {
            let from = from.map(|from| format!("{head}{from}"));
            world.send(pool, &format!("{head}{snapshot}"), from.as_deref(), form)
        };
        assert_says(snapshot, &sent(&world.ours, "tank/whole"), &sent(&world.theirs, "whirl/fs"));
    }
    // Files that came in pieces go on in pieces.
    world.receive(&stream_called("full"), "tank/pieces@1").expect("pieces");
    world.receive(&whole, "tank/pieces@2").expect("whole blocks after pieces");
    world.assert_same("whirl/fs@2", "tank/pieces@2");
    world.receive(&stream_called("vol"), "tank/vol@r").expect("a volume");
    let bytes = |pool: &Arc<Pool>, name: &str| {
        world.run(async {
            let volume = pool.volume(name).await.expect("a volume");
            let mut bytes = vec![0; volume.size_bytes() as usize];
            volume.read(0, &mut bytes).await.expect("readable");
            bytes
        })
    };
    assert!(bytes(&world.ours, "tank/vol@r") == bytes(&world.theirs, "whirl/fs/vol@r"));
    let sent = world.send(&world.ours, "tank/vol@r", None, Form::default());
    assert_says("a volume", &sent, &stream_called("vol"));
    world.check();
}

#[test]
fn a_stream_that_breaks_off_leaves_nothing() {
    let world = Receiving::new();
    let (full, incr) = (stream_called("full"), stream_called("incr"));
    world.receive(&full, "tank/fs@1").expect("a full stream");
    let before = world.names();
    for (stream, snapshot) in [(&full, "tank/new@1"), (&incr, "tank/fs@2")] {
        for part in [1, 2, 5, 9] {
            let at = stream.len() * part / 10;
            let cut = world.receive(&stream[..at], snapshot);
            assert!(matches!(cut, Err(PoolError::Stream(_))), "cut at {at}: {cut:?}");
            let mut damaged = stream.clone();
            damaged[at] ^= 4;
            let damaged = world.receive(&damaged, snapshot);
            assert!(matches!(damaged, Err(PoolError::Stream(_))), "damaged at {at}: {damaged:?}");
            assert_eq!(world.names(), before);
        }
    }
    world.receive(&incr, "tank/fs@2").expect("what is whole");
    world.assert_same("whirl/fs@2", "tank/fs@2");
    world.check();
}

#[test]
fn what_a_crash_leaves_goes_with_the_next_import() {
    let mut world = Receiving::new();
    world.receive(&stream_called("full"), "tank/fs@1").expect("a full stream");
    for (name, snapshot) in [("full", "tank/new@1"), ("incr", "tank/fs@2")] {
        let stream = stream_called(name);
        world.run(async {
            let mut reader = Reader::new(stream.as_slice());
            let first = reader.next_record().await.expect("sound").expect("a record");
            let DrrBody::Begin(begin) = first.record.body else { panic!("no BEGIN") };
            // Neither finished nor given up.
            drop(world.ours.receive(streams::order(begin, snapshot), &mut reader).await.expect("received"));
        });
    }
    let sealed = |name: &str| world.run(world.ours.sealed(name)).expect("there");
    assert_eq!(sealed("tank/new"), Some(Sealed::HalfReceived));
    assert_eq!(sealed("tank/fs/%recv"), Some(Sealed::HalfReceived));
    assert!(matches!(world.run(world.ours.filesystem("tank/new")), Err(PoolError::HalfReceived { .. })));
    let again = world.receive(&stream_called("incr"), "tank/fs@2");
    assert_eq!(refusal(again), ReceiveRefusal::Busy);
    world.run(world.ours.close(PoolState::Exported)).expect("closes");
    let spec = ImportSpec {
        paths: vec![PathBuf::from(world.dir.path()).join("a.img")],
        name: Some("tank".into()),
        ..ImportSpec::default()
    };
    let env: Arc<dyn Env> = world.env.clone();
    world.ours = world.run(Pool::import(env, &spec, tuning())).expect("imports");
    assert_eq!(world.names(), ["tank", "tank/fs", "tank/fs@1"]);
    world.receive(&stream_called("incr"), "tank/fs@2").expect("there is room for it now");
    world.check();
}

/// Changes a file of a dataset.
fn change(world: &Receiving, name: &str) {
    world.run(async {
        let fs = world.ours.filesystem(name).await.expect("opens");
        let made = fs.zfs.create(fs.zfs.root(), b"changed", NewNode::File, 0o644, Cred::default()).await;
        let object = made.expect("room").object;
        fs.zfs.write(object, 0, &[7; 300_000], WriteFlags::default()).await.expect("room");
        drop(fs);
        world.ours.sync_now().await.expect("syncs");
    });
}

#[test]
fn only_what_fits_is_received_and_by_force_what_came_since_goes() {
    let world = Receiving::new();
    let (full, incr) = (stream_called("full"), stream_called("incr"));
    assert_eq!(refusal(world.receive(&incr, "tank/fs@2")), ReceiveRefusal::NoDestination);
    world.receive(&full, "tank/fs@1").expect("a full stream");
    assert_eq!(refusal(world.receive(&full, "tank/fs@9")), ReceiveRefusal::Exists);
    let last = &substreams(&stream_called("incr-all"))[1];
    assert_eq!(refusal(world.receive(last, "tank/fs@3")), ReceiveRefusal::NoSource);
    let refused = refusal(world.receive(&stream_called("raw"), "tank/other@1"));
    assert!(matches!(refused, ReceiveRefusal::Unsupported { .. }), "{refused:?}");
    change(&world, "tank/fs");
    assert_eq!(refusal(world.receive(&incr, "tank/fs@2")), ReceiveRefusal::Modified);
    let force = |order: &mut ReceiveOrder| order.force = true;
    world.receive_as(&incr, "tank/fs@2", force).expect("by force");
    world.assert_same("whirl/fs@2", "tank/fs@2");
    assert_eq!(world.contents(&world.ours, "tank/fs"), world.contents(&world.ours, "tank/fs@2"));
    // Snapshots since go, too, and blocks that only they had.
    change(&world, "tank/fs");
    world.run(world.ours.snapshot(vec!["tank/fs@mine".into()], Vec::new())).expect("a snapshot");
    change_again(&world);
    assert_eq!(refusal(world.receive(last, "tank/fs@3")), ReceiveRefusal::NotLatest);
    world.receive_as(last, "tank/fs@3", force).expect("by force");
    world.assert_same("whirl/fs@3", "tank/fs@3");
    // What has no snapshots can be replaced as a whole.
    assert_eq!(refusal(world.receive_as(&full, "tank/fs@9", force)), ReceiveRefusal::HasSnapshots);
    world.run(world.ours.create_filesystem("tank/old", Vec::new())).expect("made");
    change(&world, "tank/old");
    world.receive_as(&full, "tank/old@1", force).expect("by force");
    world.assert_same("whirl/fs@1", "tank/old@1");
    assert_eq!(
        world.names(),
        ["tank", "tank/fs", "tank/fs@1", "tank/fs@2", "tank/fs@3", "tank/old", "tank/old@1"]
    );
    world.check();
}

fn change_again(world: &Receiving) {
    world.run(async {
        let fs = world.ours.filesystem("tank/fs").await.expect("opens");
        fs.zfs.unlink(fs.zfs.root(), b"changed").await.expect("there");
        world.ours.sync_now().await.expect("syncs");
    });
}
