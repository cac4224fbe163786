//! A broker and its desk, in one process: what is granted is done, and nothing else.
#![forbid(unsafe_code)]

use std::fs::{self, File};
use std::io::Write;
use std::mem::MaybeUninit;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use broker::{
    Beginning, Broker, Desk, DeskParts, Grants, Neighbours, ProcessCacheFiles, Search, socket_pair,
};
use device::{FileOpener, Options, RealEnv, RealMachine};
use engine::{CacheFileTable, MountError, MountOptions};
use env::{BufSlice, DeviceError, Durability, Env, IoBuf, Machine, OpenMode, Readers};
use front_fuse::Mounter;
use ondisk::NvList;
use rustix::fs::{CWD, Mode, inotify, mkfifoat};
use units::LeafOffset;

const DEVICE_BYTES: u64 = 1 << 20;
/// An answer that takes longer waits for something.
const SOON: Duration = Duration::from_secs(60);

/// Nobody else has mounts.
struct NoNeighbours;

impl Neighbours for NoNeighbours {
    fn step_aside(&self, _: &Path) -> Result<Box<dyn FnOnce() + Send>, MountError> {
        Ok(Box::new(|| ()))
    }
}

struct World {
    dir: tempfile::TempDir,
    grants: Arc<Grants>,
    broker: Broker,
    desk: Arc<Desk>,
}

impl World {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let own = dir.path().join("own");
        fs::create_dir(&own).expect("made");
        let grants = Arc::new(Grants::new(own.clone()));
        let listener = UnixListener::bind(own.join("socket")).expect("a socket");
        let lock = File::create(own.join("lock")).expect("a file");
        let table = Arc::new(CacheFileTable::new(Arc::new(RealMachine::default())));
        let desk = Desk::new(DeskParts {
            grants: Arc::clone(&grants),
            beginning: beginning(),
            listener,
            lock,
            last_words: own.join("pools.panic"),
            neighbours: Arc::new(NoNeighbours),
            cache_files: ProcessCacheFiles { table, holder: 1 },
        });
        let (ours, theirs) = socket_pair().expect("sockets");
        desk.open(ours).expect("a thread");
        Self { dir, grants, broker: Broker::new(theirs), desk }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn device(&self, name: &str) -> PathBuf {
        let path = self.path(name);
        File::create(&path).and_then(|file| file.set_len(DEVICE_BYTES)).expect("a device");
        path
    }

    fn open(&self, path: &Path, mode: OpenMode) -> Result<(), DeviceError> {
        self.broker.open(path, mode).map(drop)
    }
}

fn beginning() -> Beginning {
    Beginning { host_id: 7, host_name: "host".to_owned(), owner: (1, 2), cache_file: None }
}

#[test]
fn a_process_begins_once_and_leaves_its_last_words() {
    let world = World::new();
    let begun = world.broker.begin().expect("begun");
    assert_eq!(begun.beginning, beginning());
    begun.lock.try_lock().expect("its lock");
    assert!(world.broker.begin().is_err());
    world.broker.leave_last_words("a panic").expect("left");
    let kept = || fs::read_to_string(world.path("own/pools.panic")).expect("kept");
    assert_eq!(kept(), "a panic");
    world.broker.leave_last_words(&"\x1b[2Jmuch\n".repeat(10_000)).expect("left");
    assert!(kept().starts_with("[2Jmuch[2Jmuch") && kept().len() == 4096);
    assert!(std::os::unix::net::UnixStream::connect(world.path("own/socket")).is_ok());
    drop(begun);
    world.desk.close();
    assert!(std::os::unix::net::UnixStream::connect(world.path("own/socket")).is_err());
}

#[test]
fn a_process_gets_its_devices_and_no_others() {
    let world = World::new();
    let [own, found, other] = ["own.img", "found/img", "other.img"].map(|name| {
        fs::create_dir_all(world.path(name).parent().expect("one")).expect("made");
        world.device(name)
    });
    let link = world.path("link");
    std::os::unix::fs::symlink(&other, &link).expect("a link");
    world.grants.add_devices([own.clone()]);
    world.grants.set_searches(vec![Search::Place(world.path("found"))]);
    for mode in [OpenMode::ReadOnly, OpenMode::ReadWrite] {
        world.open(&own, mode).expect("granted");
        for path in [&other, &link, &world.path("own/../other.img"), Path::new("/etc/passwd")] {
            let refused = world.open(path, mode).expect_err("not granted");
            assert!(matches!(&refused, DeviceError::Missing { path: named } if named == path), "{refused}");
        }
    }
    world.open(&found, OpenMode::ReadOnly).expect("found");
    world.open(&found, OpenMode::ReadWrite).expect_err("it is only looked at");
    let new = world.grants.add_devices([own.clone(), other.clone()]);
    assert_eq!(new, std::slice::from_ref(&other));
    world.open(&link, OpenMode::ReadWrite).expect("granted by another path");
    world.grants.take_back_devices(&new);
    world.open(&other, OpenMode::ReadWrite).expect_err("taken back");
}

/// An open for writing takes a disk from other programs, also if the open is undone at once.
#[test]
fn a_device_is_compared_with_the_grants_before_it_is_opened() {
    let world = World::new();
    fs::create_dir(world.path("found")).expect("made");
    let found = world.device("found/img");
    world.grants.set_searches(vec![Search::Place(world.path("found"))]);
    let watch = inotify::init(inotify::CreateFlags::NONBLOCK).expect("an inotify instance");
    inotify::add_watch(&watch, &found, inotify::WatchFlags::OPEN).expect("a watch");
    let is_opened = || {
        let mut events = [MaybeUninit::uninit(); 256];
        inotify::Reader::new(&watch, &mut events).next().is_ok()
    };
    for mode in [OpenMode::ReadWrite, OpenMode::Hold] {
        world.open(&found, mode).expect_err("it is only looked at");
        assert!(!is_opened(), "{mode:?}");
    }
    world.open(&found, OpenMode::ReadOnly).expect("found");
    assert!(is_opened(), "the watch sees an open");
}

#[test]
fn a_device_that_was_handed_over_is_one_as_any_other() {
    let world = World::new();
    let path = world.device("img");
    world.grants.add_devices([path.clone()]);
    for uring in [true, false] {
        let env = RealEnv::over(Options { uring, ..Options::default() }, Arc::new(world.broker.clone()));
        let work = async {
            let device = env.open(&path, OpenMode::ReadWrite).await.expect("opened");
            assert_eq!(device.info().size_bytes, DEVICE_BYTES);
            let bytes = BufSlice::from(IoBuf::copy_of(&[7; 8192]));
            device.write(LeafOffset::new(4096), vec![bytes], Durability::Stable).await.expect("written");
            device.flush().await.expect("flushed");
            let held = env.open(&path, OpenMode::ReadWrite).await.err();
            assert!(matches!(held, Some(DeviceError::InUse { .. })), "{held:?}");
            let read = device.read(LeafOffset::new(8192), 4096).await.expect("read");
            assert!(read.iter().all(|byte| *byte == 7));
        };
        env.block_on(work);
    }
    assert_eq!(fs::read(&path).expect("read")[4096..12288], [7; 8192]);
}

#[test]
fn a_process_reads_and_changes_its_own_files_only() {
    let world = World::new();
    let machine = world.broker.machine();
    let list = world.path("own/pools.cache");
    assert_eq!(machine.read(&list).expect_err("none").kind(), std::io::ErrorKind::NotFound);
    machine.replace(&list, b"a list", Readers::Owner).expect("replaced");
    assert_eq!(machine.read(&list).expect("read"), b"a list");
    machine.rename(&list, &world.path("own/pools.damaged")).expect("renamed");
    machine.remove(&world.path("own/pools.damaged")).expect("removed");
    let other = world.path("other");
    fs::write(&other, "of others").expect("written");
    let denied = |error: std::io::Error| assert_eq!(error.kind(), std::io::ErrorKind::PermissionDenied);
    for path in [&other, &world.path("own/../other"), &world.path("own/lock"), Path::new("/etc/passwd")] {
        denied(machine.read(path).map(drop).expect_err("not its own"));
        denied(machine.replace(path, b"x", Readers::Owner).expect_err("not its own"));
        denied(machine.remove(path).expect_err("not its own"));
        denied(machine.rename(path, &list).expect_err("not its own"));
        denied(machine.rename(&list, path).expect_err("not its own"));
    }
    denied(machine.names_in(world.dir.path()).map(drop).expect_err("not its own"));
    assert_eq!((machine.identity(&other), machine.is_directory(world.dir.path())), (None, false));
    // What the kernel says, this process reads itself, also after the daemon has ended.
    world.desk.close();
    assert!(!machine.names_in(Path::new("/sys/class/block")).expect("listed").is_empty());
    machine.read(Path::new("/sys/devices/system/cpu/possible")).expect("read");
    // What a request names.
    world.grants.add_file(other.clone());
    let cache_file = |key: &str, name: &str| {
        let (mut pool, mut pools) = (NvList::new(), NvList::new());
        pool.add_str("name", name);
        pools.add_nvlist(key, pool);
        pools.encode()
    };
    fs::write(&other, cache_file("foreign", "foreign")).expect("written");
    machine.replace(&other, &cache_file("tank", "tank"), Readers::Anybody).expect("granted");
    let names = || {
        let pools = NvList::decode(&fs::read(&other).expect("a file")).expect("an nvlist");
        pools.iter().map(|(name, _)| name.to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(names(), ["foreign", "tank"], "a process changes its own pools");
    machine.replace(&other, b"no nvlist", Readers::Anybody).expect_err("it makes no sense");
    machine.replace(&other, &cache_file("tank", "dozer"), Readers::Anybody).expect_err("two names");
    assert_eq!(names(), ["foreign", "tank"]);
    machine.remove(&other).expect("granted");
    assert_eq!(names(), ["foreign"]);
    assert!(machine.is_directory(world.dir.path()) && machine.identity(&other).is_some());
    world.grants.set_listed(vec![world.dir.path().into()]);
    assert!(machine.names_in(world.dir.path()).expect("listed").contains(&"own".into()));
    world.open(&other, OpenMode::ReadOnly).expect_err("a name is no device");
}

#[test]
fn a_process_mounts_below_its_altroot_only() {
    let world = World::new();
    let altroot = world.path("altroot");
    world.grants.set_altroot(Some(altroot.clone()));
    let elsewhere = world.path("elsewhere");
    for said in [None, Some(altroot), Some(world.dir.path().into())] {
        let options = MountOptions { source: "tank".into(), altroot: said, ..MountOptions::default() };
        match world.broker.attach(&elsewhere, &options).map(drop) {
            Err(MountError::Refused { source, .. }) => {
                assert_eq!(source.kind(), std::io::ErrorKind::PermissionDenied);
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(!elsewhere.exists(), "nothing was made");
    fs::create_dir(&elsewhere).expect("made");
    world.broker.remove(&elsewhere).expect_err("it was never a mount point");
    assert!(elsewhere.exists());
}

#[test]
fn an_errand_that_waits_holds_up_no_other() {
    let world = World::new();
    let (pipe, text) = (world.path("pipe"), world.path("text"));
    mkfifoat(CWD, &pipe, Mode::from(0o600)).expect("a pipe");
    fs::write(&text, "text").expect("written");
    for path in [&pipe, &text] {
        world.grants.add_text(path.clone());
    }
    let (tell, told) = mpsc::channel();
    let (machine, waiting) = (world.broker.machine(), pipe.clone());
    std::thread::spawn(move || _ = tell.send(machine.read(&waiting).expect("read")));
    assert_eq!(world.broker.machine().read(&text).expect("read"), b"text");
    assert!(told.try_recv().is_err(), "the pipe has no writer");
    File::options().write(true).open(&pipe).and_then(|mut pipe| pipe.write_all(b"at last")).expect("written");
    assert_eq!(told.recv_timeout(SOON).expect("it ends"), b"at last");
}

#[test]
fn a_list_that_is_too_long_is_not_kept() {
    let world = World::new();
    let (machine, list) = (world.broker.machine(), world.path("own/pools.cache"));
    machine.replace(&list, b"a list", Readers::Owner).expect("replaced");
    machine.replace(&list, &vec![b'x'; 8 << 20], Readers::Owner).expect_err("too long");
    assert_eq!(machine.read(&list).expect("read"), b"a list");
}

#[test]
fn an_errand_that_makes_no_sense_is_dropped() {
    let (ours, theirs) = socket_pair().expect("sockets");
    let world = World::new();
    world.desk.open(ours).expect("a thread");
    for _ in 0..3 {
        rustix::net::send(&theirs, b"no stream", rustix::net::SendFlags::empty()).expect("sent");
    }
    let broker = Broker::new(theirs);
    assert!(broker.begin().is_ok());
}
