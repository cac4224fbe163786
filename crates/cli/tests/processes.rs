//! Each pool in a process of its own: what ends one process costs its pool a moment, and no other pool anything.
//!
//! ```text
//!  this program ─┬─ as the daemon ─► this program as the process of "tank", over devices that end it on order
//!                │                └► this program as the process of "other"
//!                └─ the tests: a writer on "other" measures the time of each fsync, and so does PostgreSQL
//! ```
#![forbid(unsafe_code)]

mod database;
mod fragile;
mod mounted;
#[path = "programs/shell.rs"]
mod shell;

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use control::{Client, RunPaths};
use daemon::Wanted;
use database::PostgresServer;
use fragile::{DISKS, DeviceOrder, FragileDisks};
use mounted::{POOL, World};
use oracle::program::{self, Test};
use rustix::process::{Pid, Signal, kill_process};

/// Tells this program that it is to be the daemon, and where.
const DAEMON: &str = "SAWMILL_TEST_DAEMON";
/// The daemon's own variable for the processes of its pools.
const NUMBER: &str = "SAWMILL_POOL_NUMBER";
const MEMORY_BYTES: u64 = 256 << 20;
const PATIENCE: Duration = Duration::from_secs(60);
const FILE_BYTES: usize = 300_000;
/// The disks are files with holes.
const DISK_BYTES: u64 = 1 << 30;
/// A commit of another pool, or a transaction of a database there, that takes longer was held up.
const COMMIT_MAX: Duration = Duration::from_secs(2);

/// The tests, for a `main` that leaves the first thread to the process of a pool.
const TESTS: &[Test] = oracle::tests![
    a_pool_whose_process_ends_loses_nothing_and_no_other_pool_notices,
    an_import_that_ends_its_process_is_refused_and_no_other_pool_notices,
    a_pool_whose_processes_end_again_and_again_stays_closed,
    a_pool_that_was_missing_and_got_another_name_is_brought_back_once,
    a_process_is_the_program_of_its_daemon_whatever_is_on_disk_by_now,
    a_process_that_does_not_answer_keeps_no_other_pool_from_use,
    no_process_of_a_pool_outlives_its_daemon,
    two_pools_of_one_name_are_not_open_at_once,
    a_process_of_a_pool_has_no_rights,
    a_device_that_was_missing_at_an_import_comes_back,
    no_pool_is_mounted_over_a_pool_below,
];

fn main() -> ExitCode {
    match std::env::var_os(DAEMON) {
        None => program::run(TESTS),
        Some(run_dir) => {
            let paths = RunPaths::under(run_dir);
            daemon::init_log();
            match std::env::var_os(NUMBER) {
                None => be_the_daemon(&paths),
                Some(_) => be_the_process_of_a_pool(&paths),
            }
            ExitCode::SUCCESS
        }
    }
}

fn be_the_daemon(paths: &RunPaths) {
    let pool_program = Some(daemon::pool_program(&[]));
    let wanted = Wanted { memory_bytes: MEMORY_BYTES, web: None, kstats: None, pool_program };
    daemon::serve(paths, wanted).expect("it serves");
}

fn be_the_process_of_a_pool(paths: &RunPaths) {
    let disks = FragileDisks::of_environment();
    daemon::serve_pool(paths, |opener| disks.env(opener), MEMORY_BYTES).expect("it serves");
}

/// A world with the pools "tank" and "other", and the daemon that holds them.
struct Pools {
    world: World,
    daemon: Child,
}

impl Pools {
    fn new() -> Option<Self> {
        let world = World::new("a log l", 96)?;
        for (name, mountpoint) in [("other", "other"), ("third", "mnt/third")] {
            create(&world, name, &dir(&world).join(mountpoint));
        }
        world.kill_daemon();
        let daemon = start(&world);
        let pools = Self { world, daemon };
        pools.within("the daemon answers", |pools| pools.client().answers().then_some(()));
        Some(pools)
    }

    fn client(&self) -> Client {
        Client::new(RunPaths::under(dir(&self.world).join("run")).socket())
    }

    /// The number of the process of a pool, by the lock file that the process holds.
    fn process_of(&self, pool: &str) -> Pid {
        let of_pool = |number: u64| {
            let paths = RunPaths::under(dir(&self.world).join("run")).of_pool(number);
            let list = fs::read_to_string(paths.pool_cache()).ok()?;
            list.contains(&format!("\"{pool}\"")).then_some(paths.daemon_lock())
        };
        self.within("a process has the pool", |_| {
            let lock = fs::read_to_string((1..9).find_map(of_pool)?).ok()?;
            Pid::from_raw(lock.trim().parse().ok()?)
        })
    }

    /// Kills the daemon, does something while no process has the pools, and starts the daemon again.
    fn restart_after(&mut self, work: impl FnOnce(&World)) {
        self.world.kill_daemon();
        self.daemon.wait().expect("a child of ours");
        work(&self.world);
        self.daemon = start(&self.world);
        self.within("the daemon answers", |pools| pools.client().answers().then_some(()));
    }

    /// Waits until a pool is open and mounted by another process than `before`.
    fn until_open_again(&self, pool: &str, before: Pid, root: &Path) {
        self.within("the pool is open again", |pools| {
            let is_open = pools.world.may_fail(&format!("status {pool}"));
            (is_open && pools.process_of(pool) != before && is_mounted(root)).then_some(())
        });
    }

    fn within<T>(&self, what: &str, mut look: impl FnMut(&Self) -> Option<T>) -> T {
        let begun = Instant::now();
        loop {
            match look(self) {
                Some(found) => return found,
                None => assert!(begun.elapsed() < PATIENCE, "{what}:\n{}", log(&self.world)),
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn finish(mut self) {
        let names = self.world.zpool("list -Ho name");
        // "third" is mounted below "tank", and goes first.
        for name in names.lines().rev().filter(|name| *name != POOL) {
            self.world.zpool(&format!("destroy {name}"));
        }
        self.world.export();
        self.world.stop_daemon();
        self.daemon.wait().expect("a child of ours");
        oracle::zdb::Zdb::new(&self.world.disks(), POOL).check().unwrap_or_else(|damage| panic!("{damage}"));
    }
}

fn dir(world: &World) -> PathBuf {
    world.disks().parent().expect("the world's directory").to_owned()
}

fn disk(world: &World, name: &str) -> PathBuf {
    world.disks().join(name)
}

/// Makes a pool on a disk of its name.
fn create(world: &World, name: &str, at: &Path) {
    let disk = disk(world, name);
    File::create(&disk).and_then(|disk| disk.set_len(DISK_BYTES)).expect("a disk");
    world.zpool(&format!("create -f -m {} {name} {}", at.display(), disk.display()));
}

fn log(world: &World) -> String {
    fs::read_to_string(dir(world).join("run/daemon.log")).unwrap_or_default()
}

/// Starts this program for a world whose daemon is gone.
fn start(world: &World) -> Child {
    let run_dir = dir(world).join("run");
    let log = OpenOptions::new().append(true).open(run_dir.join("daemon.log")).expect("it has a log");
    let disks: Vec<OsString> = ["a", "l"].map(|name| disk(world, name).into()).into();
    let mut command = Command::new(std::env::current_exe().expect("a program"));
    command.env(DAEMON, &run_dir).env("SAWMILL_RUN", &run_dir);
    command.env(DISKS, std::env::join_paths(disks).expect("plain paths"));
    command.stdout(log.try_clone().expect("another")).stderr(log).spawn().expect("it starts")
}

fn is_mounted(at: &Path) -> bool {
    let table = mounted::kernel_mounts("/proc/self/mountinfo");
    let found = table.lines().filter_map(|line| line.split(' ').nth(4)).any(|place| Path::new(place) == at);
    // A mount whose process has ended is still in the table, and the kernel remembers attributes of its files. The
    // kernel always asks the process for the space.
    found && rustix::fs::statvfs(at).is_ok()
}

fn write_synced(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// Writes and syncs a file again and again until it is told to stop. Returns how often, and the longest time of
/// one.
fn commits(at: &Path, is_over: &AtomicBool) -> (usize, Duration) {
    let mut file = File::create(at.join("commits")).expect("a file");
    let (mut count, mut longest) = (0, Duration::ZERO);
    while !is_over.load(Ordering::Relaxed) {
        let begun = Instant::now();
        file.write_all(&[7; 8192]).and_then(|()| file.sync_data()).expect("the other pool is not touched");
        longest = longest.max(begun.elapsed());
        count += 1;
    }
    (count, longest)
}

/// Has a writer commit to the pool "other" while `work` is done. Returns how long the longest commit took.
fn beside_commits(world: &World, work: impl FnOnce()) -> Duration {
    let is_over = AtomicBool::new(false);
    let at = dir(world).join("other");
    std::thread::scope(|scope| {
        let (at, is_over) = (&at, &is_over);
        let writer = scope.spawn(move || commits(at, is_over));
        let worked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
        is_over.store(true, Ordering::Relaxed);
        let (count, longest) = writer.join().expect("no commit of the other pool fails");
        worked.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        // On a busy machine, the work can be as short as a few commits. The second commit began
        // during the work.
        assert!(count > 2, "{count} commits");
        longest
    })
}

/// PostgreSQL on the pool "other", with clients at work.
struct BusyDatabase {
    database: PostgresServer,
    clients: Child,
}

impl BusyDatabase {
    /// `None` if PostgreSQL is not installed and that may be so.
    fn beside(world: &World) -> Option<Self> {
        let data = dir(world).join("other/data");
        fs::create_dir(&data).expect("a directory");
        let database = PostgresServer::new(data)?;
        let clients = database.start_clients(0);
        Some(Self { database, clients })
    }

    /// Its clients have seen no error and no long transaction, and what they saw committed is there.
    fn finish(mut self) {
        assert!(self.clients.try_wait().expect("a child of ours").is_none(), "a client has seen an error");
        self.database.kill(self.clients);
        let (seen, longest) = (self.database.seen(0), self.database.longest(0));
        println!(
            "PostgreSQL: {} commits, the longest transaction took {longest:?}",
            seen.iter().sum::<usize>()
        );
        assert!(seen.iter().all(|commits| *commits > 10), "{seen:?}");
        assert!(longest < COMMIT_MAX, "{longest:?}");
        self.database.forget_killed();
        self.database.start();
        self.database.check(0, &seen);
        self.database.stop();
    }
}

/// What ends the process of "tank", and how the test meets that.
#[derive(Clone, Copy, Debug)]
enum End {
    /// A panic while a transaction group is written.
    Sync,
    /// A panic while a commit is written to the log device.
    Commit,
    /// A panic while blocks are read.
    Read,
    /// A panic while freed space is written down.
    Free,
    /// A wild write while a transaction group is written.
    Fault,
    /// `kill -9`.
    Kill,
}

impl End {
    const ALL: [Self; 6] = [Self::Sync, Self::Commit, Self::Read, Self::Free, Self::Fault, Self::Kill];

    fn order(self) -> Option<(DeviceOrder, &'static str)> {
        match self {
            Self::Sync | Self::Free => Some((DeviceOrder::PanicInWrite, "a")),
            Self::Commit => Some((DeviceOrder::PanicInWrite, "l")),
            Self::Read => Some((DeviceOrder::PanicInRead, "a")),
            Self::Fault => Some((DeviceOrder::FaultInWrite, "a")),
            Self::Kill => None,
        }
    }

    /// Does what meets the order. Nobody says that it was done.
    fn meet(self, pools: &Pools, process: Pid) {
        let world = &pools.world;
        let is_refused = |line: &str| assert!(!world.may_fail(line), "{self:?}: {line}");
        match self {
            Self::Sync | Self::Fault => is_refused("sync tank"),
            Self::Commit => {
                write_synced(&world.root().join("lost"), b"never promised").expect_err("it was not promised");
            }
            // A scrub reads what no cache has.
            Self::Read => drop(world.may_fail("scrub -w tank")),
            Self::Free => {
                // The file was synced in an earlier transaction group.
                _ = fs::remove_file(world.root().join("kept0"));
                is_refused("sync tank");
            }
            Self::Kill => kill_process(process, Signal::KILL).expect("it lives"),
        }
    }
}

fn a_pool_whose_process_ends_loses_nothing_and_no_other_pool_notices() {
    let Some(pools) = Pools::new() else { return };
    let world = &pools.world;
    let daemon = world.daemon_pid();
    let Some(database) = BusyDatabase::beside(world) else { return };
    for (nth, end) in End::ALL.into_iter().enumerate() {
        let (file, bytes) = (world.root().join(format!("kept{nth}")), vec![nth as u8 + 1; FILE_BYTES]);
        write_synced(&file, &bytes).expect("it is promised");
        let process = pools.process_of(POOL);
        let longest = beside_commits(world, || {
            if let Some((order, name)) = end.order() {
                order.give(&disk(world, name));
            }
            end.meet(&pools, process);
            pools.within("the process ends", |_| (!is_alive(process)).then_some(()));
            if let Some((_, name)) = end.order() {
                DeviceOrder::take_back(&disk(world, name));
            }
            pools.until_open_again(POOL, process, &world.root());
        });
        // The mount of "third" went with the directory that it was in.
        let third = world.root().join("third");
        pools.within("a pool below is mounted again", |_| is_mounted(&third).then_some(()));
        write_synced(&third.join("file"), b"of third").expect("it can be used");
        println!("{end:?}: the longest commit of the other pool took {longest:?}");
        assert!(longest < COMMIT_MAX, "{end:?}: {longest:?}");
        assert_eq!(fs::read(&file).expect("it is there"), bytes, "{end:?}");
        assert_eq!(world.daemon_pid(), daemon, "{end:?}: the daemon goes on");
        // The fourth end in ten minutes would keep the pool closed.
        if nth % 3 == 2 {
            world.zpool("destroy third");
            world.zpool("export tank");
            world.zpool(&format!("import -d {} tank", world.disks().display()));
            create(world, "third", &world.root().join("third"));
        }
    }
    database.finish();
    let log = log(world);
    for words in ["this panic belongs to a test", "the process of the pool has ended"] {
        assert!(log.contains(words), "{words}: {log}");
    }
    pools.finish();
}

fn is_alive(process: Pid) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", process.as_raw_nonzero())).unwrap_or_default();
    // A process that nobody has waited for yet is a zombie.
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with('Z'))
}

fn an_import_that_ends_its_process_is_refused_and_no_other_pool_notices() {
    let Some(pools) = Pools::new() else { return };
    let world = &pools.world;
    let daemon = world.daemon_pid();
    let Some(database) = BusyDatabase::beside(world) else { return };
    // It is mounted below "tank".
    world.zpool("destroy third");
    write_synced(&world.root().join("kept"), &[5; FILE_BYTES]).expect("it is promised");
    let longest = beside_commits(world, || end_each_replay(&pools));
    println!("replay: the longest commit of the other pool took {longest:?}");
    assert!(longest < COMMIT_MAX, "replay: {longest:?}");
    world.import();
    assert_eq!(fs::read(world.root().join("kept")).expect("it was replayed"), [5; FILE_BYTES]);
    world.zpool("export tank");
    for order in [DeviceOrder::PanicInRead, DeviceOrder::PanicInWrite, DeviceOrder::FaultInWrite] {
        order.give(&disk(world, "a"));
        let import = format!("import -d {} tank", world.disks().display());
        let longest = beside_commits(world, || {
            let why = world.refused(&import);
            assert!(why.contains("the process that worked on the request has ended"), "{order:?}: {why}");
            let is_panic = order != DeviceOrder::FaultInWrite;
            assert_eq!(why.contains("this panic belongs to a test"), is_panic, "{order:?}: {why}");
        });
        println!("import, {order:?}: the longest commit of the other pool took {longest:?}");
        assert!(longest < COMMIT_MAX, "{order:?}: {longest:?}");
        DeviceOrder::take_back(&disk(world, "a"));
        assert_eq!(world.zpool("list -Ho name"), "other\n");
    }
    assert_eq!(world.daemon_pid(), daemon, "the daemon goes on");
    world.import();
    assert_eq!(fs::read(world.root().join("kept")).expect("it is there"), [5; FILE_BYTES]);
    database.finish();
    pools.finish();
}

/// Ends the process of "tank", and each process that replays the log of "tank", until the pool stays closed.
fn end_each_replay(pools: &Pools) {
    let disk = disk(&pools.world, "a");
    DeviceOrder::PanicInWrite.give(&disk);
    kill_process(pools.process_of(POOL), Signal::KILL).expect("it lives");
    let why = pools.within("the pool stays closed", |pools| {
        let why = pools.world.run("zpool", "scrub tank");
        let why = String::from_utf8_lossy(&why.stderr).into_owned();
        why.contains("try again").then_some(why)
    });
    assert!(why.contains("this panic belongs to a test"), "{why}");
    DeviceOrder::take_back(&disk);
}

/// Kills the processes of "tank" until the pool stays closed. Returns what commands say of the pool.
fn close_for_good(pools: &Pools) -> String {
    for end in 1..=4 {
        let process = pools.process_of(POOL);
        kill_process(process, Signal::KILL).expect("it lives");
        if end < 4 {
            pools.until_open_again(POOL, process, &pools.world.root());
        }
    }
    pools.within("the pool stays closed", |pools| {
        let why = pools.world.run("zpool", "scrub tank");
        let why = String::from_utf8_lossy(&why.stderr).into_owned();
        why.contains("ended again and again").then_some(why)
    })
}

fn a_pool_whose_processes_end_again_and_again_stays_closed() {
    let Some(pools) = Pools::new() else { return };
    let world = &pools.world;
    let guid = world.zpool("get -Hpo value guid tank");
    let why = close_for_good(&pools);
    assert!(why.contains("cannot open 'tank': its process has ended\n"), "{why}");
    assert!(why.contains("use 'zpool import tank' to try again\n"), "{why}");
    let listed = world.zpool("list -Ho name,health");
    assert_eq!(listed, "other\tONLINE\ntank\tUNAVAIL\nthird\tONLINE\n");
    let status = world.zpool("status tank");
    assert!(status.contains("\tits processes ended again and again\n"), "{status}");
    // A pool that nobody has open cannot be destroyed.
    let why = world.refused("destroy tank");
    assert!(why.contains("cannot open 'tank': its process has ended\n"), "{why}");
    world.zpool(&format!("import -d {} {}", world.disks().display(), guid.trim()));
    assert_eq!(world.zpool("list -Ho name"), "other\ntank\nthird\n");
    close_for_good(&pools);
    world.import();
    close_for_good(&pools);
    // The daemon forgets the pool, and an import finds the pool on its devices.
    world.zpool("export tank");
    assert!(world.refused("status tank").contains("cannot open 'tank': no such pool"));
    world.import();
    pools.finish();
}

fn a_pool_that_was_missing_and_got_another_name_is_brought_back_once() {
    let Some(mut pools) = Pools::new() else { return };
    let (here, away) = (disk(&pools.world, "other"), dir(&pools.world).join("away"));
    pools.restart_after(|_| fs::rename(&here, &away).expect("moved"));
    let listed = pools.world.zpool("list -Ho name,health");
    assert_eq!(listed, "other\tUNAVAIL\ntank\tONLINE\nthird\tONLINE\n");
    assert!(pools.world.refused("scrub other").contains("cannot open 'other': no such pool"));
    fs::rename(&away, &here).expect("moved back");
    pools.world.zpool(&format!("import -d {} other renamed", pools.world.disks().display()));
    pools.restart_after(|_| {});
    assert_eq!(pools.world.zpool("list -Ho name"), "renamed\ntank\nthird\n");
    pools.finish();
}

fn a_process_is_the_program_of_its_daemon_whatever_is_on_disk_by_now() {
    if !mounted::can_mount() {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let (program, run) = (dir.path().join("sawmill"), dir.path().join("run"));
    let call = |program: &Path, words: &str| {
        let mut command = Command::new(program);
        command.args(words.split(' ')).env("SAWMILL_RUN", &run).env("SAWMILL_MEMORY", "64m");
        let output = command.output().expect("it runs");
        assert!(output.status.success(), "{words}: {}", String::from_utf8_lossy(&output.stderr));
    };
    fs::copy(env!("CARGO_BIN_EXE_sawmill"), &program).expect("copied");
    call(&program, "daemon start");
    fs::remove_file(&program).expect("removed");
    let disk = dir.path().join("disk");
    File::create(&disk).and_then(|disk| disk.set_len(96 << 20)).expect("a disk");
    let present = Path::new(env!("CARGO_BIN_EXE_sawmill"));
    call(present, &format!("zpool create -m none tank {}", disk.display()));
    call(present, "zpool destroy tank");
    call(present, "daemon stop");
}

fn a_process_that_does_not_answer_keeps_no_other_pool_from_use() {
    let Some(pools) = Pools::new() else { return };
    let world = &pools.world;
    let process = pools.process_of(POOL);
    kill_process(process, Signal::STOP).expect("it lives");
    let begun = Instant::now();
    assert_eq!(world.zpool("list -Ho name"), "other\nthird\n");
    assert!(begun.elapsed() < Duration::from_secs(45), "{:?}", begun.elapsed());
    world.zfs("create other/new");
    let line = format!("its process (pid {}) does not answer", process.as_raw_nonzero());
    let sawmill = world.link("sawmill");
    let status =
        Command::new(sawmill).args(["daemon", "status"]).env("SAWMILL_RUN", world.run_dir()).output();
    let status = String::from_utf8_lossy(&status.expect("it runs").stdout).into_owned();
    assert!(status.contains(&line), "{status}");
    kill_process(process, Signal::CONT).expect("it lives");
    assert_eq!(world.zpool("list -Ho name"), "other\ntank\nthird\n");
    // Who looks at all mounts of the machine has waited in "tank", and is in "third" for a moment now.
    pools.within("a pool can be exported", |pools| pools.world.may_fail("export third").then_some(()));
    pools.finish();
}

fn no_process_of_a_pool_outlives_its_daemon() {
    let Some(mut pools) = Pools::new() else { return };
    let processes = ["other", POOL, "third"].map(|pool| pools.process_of(pool));
    write_synced(&pools.world.root().join("kept"), &[5; FILE_BYTES]).expect("it is promised");
    // A process that heeds nothing.
    kill_process(processes[0], Signal::STOP).expect("it lives");
    pools.world.kill_daemon();
    pools.daemon.wait().expect("a child of ours");
    pools.within("they end", |_| processes.iter().all(|process| !is_alive(*process)).then_some(()));
    // The next command starts a daemon that holds all pools itself.
    pools.world.restart();
    assert_eq!(pools.world.zpool("list -Ho name"), "other\ntank\nthird\n");
    assert_eq!(fs::read(pools.world.root().join("kept")).expect("it is there"), [5; FILE_BYTES]);
    // "third" is mounted in a directory of "tank".
    assert!(is_mounted(&pools.world.root().join("third")));
    // And back again.
    pools.restart_after(|_| {});
    assert_eq!(pools.world.zpool("list -Ho name"), "other\ntank\nthird\n");
    assert!(is_mounted(&pools.world.root().join("third")));
    pools.finish();
}

fn two_pools_of_one_name_are_not_open_at_once() {
    let Some(pools) = Pools::new() else { return };
    let world = &pools.world;
    let more = disk(world, "more");
    File::create(&more).and_then(|disk| disk.set_len(96 << 20)).expect("a disk");
    let why = world.refused(&format!("create tank {}", more.display()));
    assert!(why.contains("cannot create 'tank': pool already exists"), "{why}");
    let why = world.refused(&format!("create -f more {}", disk(world, "a").display()));
    assert!(why.contains("is part of active pool 'tank'"), "{why}");
    let spare = disk(world, "spare");
    File::create(&spare).and_then(|disk| disk.set_len(96 << 20)).expect("a disk");
    world.zpool(&format!("add other spare {}", spare.display()));
    let why = world.refused(&format!("create -f more {}", spare.display()));
    assert!(why.contains("is reserved as a hot spare for pool other"), "{why}");
    let why = world.refused(&format!("add -f third {}", disk(world, "a").display()));
    assert!(why.contains("is part of active pool 'tank'"), "{why}");
    let side = disk(world, "side");
    File::create(&side).and_then(|disk| disk.set_len(96 << 20)).expect("a disk");
    world.zpool(&format!("create -m none more mirror {} {}", more.display(), side.display()));
    let why = world.refused("split more other");
    assert!(why.contains("pool already exists"), "{why}");
    let guid = world.zpool("get -Hpo value guid more");
    world.zpool("export more");
    let why = world.refused(&format!("import -d {} {} tank", world.disks().display(), guid.trim()));
    assert!(why.contains("a pool with that name already exists"), "{why}");
    world.zpool(&format!("import -d {} {}", world.disks().display(), guid.trim()));
    assert_eq!(world.zpool("list -Ho name"), "more\nother\ntank\nthird\n");
    world.zpool("destroy more");
    pools.finish();
}

fn a_process_of_a_pool_has_no_rights() {
    let Some(pools) = Pools::new() else { return };
    let status_of = |process: Pid| {
        let file = format!("/proc/{}/status", process.as_raw_nonzero());
        let status = fs::read_to_string(file).expect("it lives");
        move |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            line.expect("a line of the kernel").split_whitespace().collect::<Vec<_>>().join(" ")
        }
    };
    let [tank, other] = [POOL, "other"].map(|pool| status_of(pools.process_of(pool)));
    assert_ne!(tank("Uid"), other("Uid"), "each has a user of its own");
    for status in [&tank, &other] {
        let user = status("Uid");
        assert!(!user.split(' ').any(|id| id == "0"), "{user}");
        assert_eq!(status("Groups"), "");
        for set in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
            assert_eq!(status(set), "0000000000000000", "{set}");
        }
        assert_eq!((status("NoNewPrivs").as_str(), status("Seccomp").as_str()), ("1", "2"));
    }
    let network = |process: &str| fs::read_link(format!("/proc/{process}/ns/net")).expect("it lives");
    let process = pools.process_of(POOL).as_raw_nonzero().to_string();
    assert_ne!(network(&process), network(&pools.world.daemon_pid()), "it has no network");
    // Files are root's, whatever user the process is.
    pools.world.zfs("create tank/new");
    let owner = fs::metadata(pools.world.root().join("new")).expect("mounted").uid();
    assert_eq!(owner, 0);
    pools.finish();
}

fn a_device_that_was_missing_at_an_import_comes_back() {
    let Some(mut pools) = Pools::new() else { return };
    let [p, q] = ["p", "q"].map(|name| disk(&pools.world, name));
    for path in [&p, &q] {
        File::create(path).and_then(|disk| disk.set_len(96 << 20)).expect("a disk");
    }
    let (altroot, at) = (dir(&pools.world).join("altroot"), dir(&pools.world).join("at"));
    let below_altroot = altroot.join(at.strip_prefix("/").expect("absolute"));
    pools.world.zpool(&format!("create -m {} pair mirror {} {}", at.display(), p.display(), q.display()));
    pools.world.zpool("export pair");
    let away = dir(&pools.world).join("away");
    fs::rename(&q, &away).expect("moved");
    let import = format!("import -d {} pair", pools.world.disks().display());
    pools.world.zpool(&import.replace("import", &format!("import -R {}", altroot.display())));
    assert!(is_mounted(&below_altroot) && !is_mounted(&at));
    write_synced(&below_altroot.join("file"), b"synced").expect("a degraded pool");
    assert!(pools.world.zpool("status pair").contains("state: DEGRADED"));
    fs::rename(&away, &q).expect("moved back");
    pools.world.zpool(&format!("online pair {}", q.display()));
    pools.within("the mirror is whole", |pools| {
        pools.world.zpool("status pair").contains("state: ONLINE").then_some(())
    });
    pools.world.zpool("export pair");
    pools.world.zpool(&import);
    // The next process has both devices.
    pools.restart_after(|_| {});
    assert!(pools.world.zpool("status pair").contains("state: ONLINE"));
    assert_eq!(fs::read(at.join("file")).expect("mounted again"), b"synced");
    pools.finish();
}

fn no_pool_is_mounted_over_a_pool_below() {
    let Some(pools) = Pools::new() else { return };
    let world = &pools.world;
    // "third" is mounted in a directory of "tank".
    let third = world.root().join("third");
    write_synced(&third.join("whose"), b"third").expect("mounted");
    world.zfs("unmount third");
    world.zfs("unmount tank");
    world.zfs("mount third");
    world.zfs("mount tank");
    assert_eq!(fs::read(third.join("whose")).expect("on top"), b"third");
    world.zfs("unmount third");
    world.zfs("unmount tank");
    world.zfs("mount third");
    let open = File::open(third.join("whose")).expect("on top");
    let why = world.run("zfs", "mount tank");
    let why = String::from_utf8_lossy(&why.stderr).into_owned();
    assert!(why.starts_with("cannot mount 'tank': it would hide what is mounted below"), "{why}");
    assert_eq!(fs::read(third.join("whose")).expect("still there"), b"third");
    drop(open);
    world.zfs("mount tank");
    assert_eq!(fs::read(third.join("whose")).expect("on top"), b"third");
    pools.finish();
}
