//! A pool on files, held by a daemon of its own and mounted by the kernel.
//!
//! ```text
//!  world ─┬─ bin/    zpool, zfs: links to the program under test
//!         ├─ run/    the daemon's socket, lock and log (SAWMILL_RUN)
//!         ├─ disks/  sparse files, one a device
//!         └─ mnt/    the pool's root file system
//! ```
//! Nothing outside that directory is touched, and nothing of it is left: a daemon that does not
//! end when asked is killed by its number, and what it had mounted is detached.
#![allow(dead_code, reason = "each test program uses a part of it")]

#[path = "../daemon_processes/mod.rs"]
mod daemon_processes;
mod namespaces;

use std::fs::{self, File};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output};
use std::time::{Duration, Instant};

use oracle::needs::{Need, lack_of_fuse, lack_of_fuse_rings};
use oracle::zdb::Zdb;
use rustix::mount::{UnmountFlags, unmount};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

pub use namespaces::Namespaces;

/// The pool of every world; each has its own daemon.
pub const POOL: &str = "tank";
/// How long a command may take, and a daemon to die, on a machine that is busy otherwise.
const PATIENCE_SECS: u64 = 120;
const POLL: Duration = Duration::from_millis(2);
/// How long a patient daemon waits for a log: longer than any step of a test takes.
const LOG_DEADMAN_SECS: &str = "60";
/// Words in the description of a pool that name no device.
const KEYWORDS: &[&str] = &["mirror", "log"];
const LOG_LINES: usize = 40;

/// Reads a table of mounts of the kernel's. Other tests mount at names that are not UTF-8.
pub fn kernel_mounts(table: impl AsRef<Path>) -> String {
    let table = fs::read(table).expect("the table of mounts");
    String::from_utf8_lossy(&table).into_owned()
}

/// One pool, its devices, its daemon.
pub struct World {
    dir: TempDir,
    setting: Setting,
}

/// See [`World::forbid_starts`].
pub struct ForbiddenStarts(PathBuf);

impl Drop for ForbiddenStarts {
    fn drop(&mut self) {
        fs::remove_dir(&self.0).expect("an empty directory");
    }
}

/// In what a world's commands run, and so its daemon.
#[derive(Default)]
struct Setting {
    /// The control group.
    group: Option<PathBuf>,
    /// Whether mounts get their requests over io_uring.
    over_rings: bool,
    /// Whether logs that do not answer are waited for.
    patient: bool,
    /// Whether the daemon holds the pool itself.
    is_one_process: bool,
    /// The budget of the daemon's caches; otherwise the daemon chooses one by the machine's memory.
    memory_mib: Option<u64>,
    /// Namespaces of their own.
    inside: Option<Namespaces>,
}

impl World {
    /// Makes a pool. `vdevs` as for `zpool create`, devices by short names: `mirror a b log c`.
    ///
    /// `None` where the kernel cannot mount it and that may be so.
    pub fn new(vdevs: &str, disk_mib: u64) -> Option<Self> {
        Self::made(vdevs, disk_mib, Setting::default(), |_| {})
    }

    /// The same with mounts that get their requests over io_uring. `None` also where the kernel has that not, and
    /// that may be so.
    pub fn over_rings(vdevs: &str, disk_mib: u64) -> Option<Self> {
        Self::with(vdevs, disk_mib, Setting { over_rings: true, ..Setting::default() })
    }

    /// The same, either way, with a daemon that does not give up a log while a test looks at those who wait for it.
    #[allow(dead_code, reason = "each test program uses a part of it")]
    pub fn patient(vdevs: &str, disk_mib: u64, over_rings: bool) -> Option<Self> {
        Self::with(vdevs, disk_mib, Setting { over_rings, patient: true, ..Setting::default() })
    }

    /// The same with a daemon that holds all pools itself.
    pub fn in_one_process(vdevs: &str, disk_mib: u64) -> Option<Self> {
        Self::made(vdevs, disk_mib, Setting { is_one_process: true, ..Setting::default() }, |_| {})
    }

    /// The same with a daemon whose caches have a budget of so many MiB.
    pub fn with_memory(vdevs: &str, disk_mib: u64, memory_mib: u64) -> Option<Self> {
        Self::made(vdevs, disk_mib, Setting { memory_mib: Some(memory_mib), ..Setting::default() }, |_| {})
    }

    fn with(vdevs: &str, disk_mib: u64, setting: Setting) -> Option<Self> {
        // Where nothing can be mounted, that is what is missing.
        if let (true, None, Some(lack)) = (setting.over_rings, lack(), lack_of_fuse_rings()) {
            Need::FuseRings.is_missing(lack);
            return None;
        }
        Self::made(vdevs, disk_mib, setting, |_| {})
    }

    /// The same in a control group, which is there already.
    #[allow(dead_code, reason = "each test program uses a part of it")]
    pub fn in_group(vdevs: &str, disk_mib: u64, group: Option<PathBuf>) -> Option<Self> {
        Self::made(vdevs, disk_mib, Setting { group, ..Setting::default() }, |_| {})
    }

    /// The same in namespaces of its own, where alone the pool is mounted.
    pub fn inside(vdevs: &str, disk_mib: u64, inside: Namespaces) -> Option<Self> {
        Self::made(vdevs, disk_mib, Setting { inside: Some(inside), ..Setting::default() }, |_| {})
    }

    /// The same; `prepare` is given the directory for the devices before they are made.
    #[allow(dead_code, reason = "each test program uses a part of it")]
    pub fn prepared(vdevs: &str, disk_mib: u64, prepare: impl FnOnce(&Path)) -> Option<Self> {
        Self::made(vdevs, disk_mib, Setting::default(), prepare)
    }

    fn made(vdevs: &str, disk_mib: u64, setting: Setting, prepare: impl FnOnce(&Path)) -> Option<Self> {
        if !can_mount() {
            return None;
        }
        let dir = TempDir::new().expect("a directory");
        // Programs that run as another user reach the mount through it.
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).expect("permissions");
        let world = Self { dir, setting };
        for below in ["bin", "run", "disks"] {
            fs::create_dir(world.path(below)).expect("a directory");
        }
        for name in ["zpool", "zfs"] {
            symlink(env!("CARGO_BIN_EXE_sawmill"), world.path("bin").join(name)).expect("a link");
        }
        prepare(&world.disks());
        let words: Vec<String> =
            vdevs.split_whitespace().map(|word| world.vdev_word(word, disk_mib)).collect();
        let root = world.root();
        world.zpool(&format!("create -m {} {POOL} {}", root.display(), words.join(" ")));
        assert!(world.is_mounted(), "a new pool is mounted");
        Some(world)
    }

    fn vdev_word(&self, word: &str, disk_mib: u64) -> String {
        if KEYWORDS.contains(&word) {
            return word.to_owned();
        }
        let path = self.disks().join(word);
        File::create(&path).and_then(|disk| disk.set_len(disk_mib << 20)).expect("a disk");
        path.display().to_string()
    }

    fn path(&self, below: &str) -> PathBuf {
        self.dir.path().join(below)
    }

    /// The directory of its daemon.
    pub fn run_dir(&self) -> PathBuf {
        self.path("run")
    }

    /// Where the pool's root file system is mounted.
    pub fn root(&self) -> PathBuf {
        self.path("mnt")
    }

    /// Runs `zpool` with these words; it must succeed. Gives what it printed.
    pub fn zpool(&self, line: &str) -> String {
        let output = self.try_zpool(line);
        let err = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "zpool {line}: {}: {err}", output.status);
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Runs `zpool` with these words; it must fail, in the time that a command may take. Gives what it
    /// told on standard error.
    #[allow(dead_code, reason = "each test program uses a part of it")]
    pub fn refused(&self, line: &str) -> String {
        let output = self.try_zpool(line);
        // 124 and 137: it was ended from outside.
        assert!(matches!(output.status.code(), Some(1..=123 | 255)), "zpool {line}: {}", output.status);
        String::from_utf8_lossy(&output.stderr).into_owned()
    }

    /// Has the daemon end, as `sawmill daemon stop` does it.
    #[allow(dead_code, reason = "each test program uses a part of it")]
    pub fn stop_daemon(&self) {
        let daemon = self.daemon().expect("its lock file tells its number");
        let output = self.run_program(Path::new(env!("CARGO_BIN_EXE_sawmill")), "daemon stop");
        assert!(output.status.success(), "daemon stop: {}", output.status);
        self.wait_until_dead(daemon);
    }

    /// Runs `zfs` with these words; it must succeed.
    pub fn zfs(&self, line: &str) {
        let output = self.run("zfs", line);
        let err = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "zfs {line}: {}: {err}", output.status);
    }

    /// Runs `zfs` with these words; it must succeed. Gives what it printed.
    #[allow(dead_code, reason = "each test program uses a part of it")]
    pub fn zfs_prints(&self, line: &str) -> String {
        let output = self.run("zfs", line);
        assert!(output.status.success(), "zfs {line}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Runs `zfs` with these words; what it said if it failed.
    #[allow(dead_code, reason = "each test program uses a part of it")]
    pub fn zfs_refuses(&self, line: &str) -> Option<String> {
        let output = self.run("zfs", line);
        (!output.status.success()).then(|| String::from_utf8_lossy(&output.stderr).into_owned())
    }

    /// The program under a name of its own.
    #[allow(dead_code, reason = "each test program uses a part of it")]
    pub fn link(&self, name: &str) -> PathBuf {
        let link = self.path("bin").join(name);
        symlink(env!("CARGO_BIN_EXE_sawmill"), &link).expect("a link");
        link
    }

    /// The daemon's number.
    #[allow(dead_code, reason = "each test program uses a part of it")]
    pub fn daemon_pid(&self) -> String {
        self.daemon().expect("its lock file tells its number").as_raw_nonzero().to_string()
    }

    /// The process that serves the pool's mounts: the daemon, or the process of the pool.
    pub fn server(&self) -> Pid {
        *self.processes().last().expect("lock files name its number")
    }

    /// The number of that process.
    pub fn server_pid(&self) -> String {
        self.server().as_raw_nonzero().to_string()
    }

    /// What the kernel tells of that process.
    pub fn server_proc(&self) -> PathBuf {
        Path::new("/proc").join(self.server_pid())
    }

    /// The daemon, and the process of each pool if the daemon has such processes.
    pub fn processes(&self) -> Vec<Pid> {
        daemon_processes::numbers(&self.run_dir())
            .into_iter()
            .filter_map(|number| self.process(number))
            .collect()
    }

    /// A figure in KiB of the daemon and of the processes of its pools together, by the figure's name in
    /// `/proc/PID/status`; none when one of them does not live.
    pub fn processes_kib(&self, name: &str) -> Option<u64> {
        let of = |process: &Pid| daemon_processes::kib(process.as_raw_nonzero().get(), name);
        self.processes().iter().map(of).sum()
    }

    /// Runs `zpool` with these words; whether it succeeded.
    #[allow(dead_code, reason = "each test program uses a part of it")]
    pub fn may_fail(&self, line: &str) -> bool {
        self.try_zpool(line).status.success()
    }

    fn try_zpool(&self, line: &str) -> Output {
        self.run("zpool", line)
    }

    /// Runs a program of ours, which `bin/` has a link to, with these words.
    pub fn run(&self, program: &str, line: &str) -> Output {
        self.run_program(&self.path("bin").join(program), line)
    }

    /// Starts a program of ours with these words, and does not wait for it.
    #[allow(dead_code, reason = "each test program uses a part of it")]
    pub fn start(&self, program: &str, line: &str) -> Child {
        self.command(&self.path("bin").join(program), line).spawn().expect("the program runs")
    }

    fn run_program(&self, program: &Path, line: &str) -> Output {
        self.command(program, line).output().expect("the program runs")
    }

    fn command(&self, program: &Path, line: &str) -> Command {
        let mut command = self.placed(bounded(program));
        command.args(line.split_whitespace()).env("SAWMILL_RUN", self.path("run"));
        if self.setting.over_rings {
            command.env("SAWMILL_FUSE_URING", "1");
        }
        if self.setting.patient {
            command.env("SAWMILL_LOG_DEADMAN", LOG_DEADMAN_SECS);
        }
        if self.setting.is_one_process {
            command.env("SAWMILL_ONE_PROCESS", "1");
        }
        if let Some(mib) = self.setting.memory_mib {
            command.env("SAWMILL_MEMORY", format!("{mib}m"));
        }
        command
    }

    /// A command that runs where the world's daemon does.
    fn placed(&self, command: Command) -> Command {
        match &self.setting.inside {
            Some(namespaces) => namespaces.enter(&command),
            None => self.grouped(command),
        }
    }

    /// A command that runs in the world's group.
    fn grouped(&self, command: Command) -> Command {
        let Some(group) = &self.setting.group else { return command };
        let mut grouped = Command::new("sh");
        grouped.args(["-c", r#"echo $$ > "$0" && exec "$@""#]).arg(group.join("cgroup.procs"));
        grouped.arg(command.get_program()).args(command.get_args());
        grouped
    }

    /// A script of the shell in the world's group and root directory, which takes as long as it takes.
    pub fn script(&self, script: &str) -> Command {
        let mut shell = Command::new("sh");
        shell.args(["-ec", script]);
        let mut grouped = self.grouped(shell);
        grouped.current_dir(self.root());
        grouped
    }

    /// The daemon's process, if it lives.
    pub fn daemon(&self) -> Option<Pid> {
        let text = fs::read_to_string(self.path("run/daemon.lock")).ok()?;
        self.process(text.trim().parse().ok()?)
    }

    /// The process that has this number where the daemon runs.
    fn process(&self, number: i32) -> Option<Pid> {
        match &self.setting.inside {
            Some(namespaces) => namespaces.process(number),
            None => Pid::from_raw(number),
        }
    }

    /// The world's own namespaces, if it has some.
    pub fn namespaces(&self) -> Option<&Namespaces> {
        self.setting.inside.as_ref()
    }

    /// No command starts a daemon while the result lives: a command that finds none fails.
    #[allow(dead_code, reason = "each test program uses a part of it")]
    pub fn forbid_starts(&self) -> ForbiddenStarts {
        // Who starts a daemon locks this file, and nobody can open a directory so.
        let lock = self.path("run/start.lock");
        fs::remove_file(&lock).expect("the daemon was started");
        fs::create_dir(&lock).expect("a directory in its place");
        ForbiddenStarts(lock)
    }

    /// `kill -9`; returns when it is gone. A command that is under way may have started the next one by then.
    pub fn kill_daemon(&self) {
        let daemon = self.daemon().expect("its lock file tells its number");
        kill_process(daemon, Signal::KILL).expect("it lives until here");
        self.wait_until_dead(daemon);
    }

    fn wait_until_dead(&self, daemon: Pid) {
        let Ok(lock) = File::open(self.path("run/daemon.lock")) else { return };
        let begun = Instant::now();
        while lock.try_lock_shared().is_err() && self.daemon() == Some(daemon) {
            assert!(begun.elapsed().as_secs() < PATIENCE_SECS, "the daemon does not die");
            std::thread::sleep(POLL);
        }
    }

    /// The next command after the daemon was killed: it starts a new one, which brings the pool
    /// back, replays its logs and mounts it.
    pub fn restart(&self) {
        let status = self.restart_degraded();
        assert!(status.contains(" state: ONLINE\n"), "{status}");
    }

    /// The same where devices may be offline or have failed. Returns what `zpool status` prints.
    pub fn restart_degraded(&self) -> String {
        let status = self.zpool(&format!("status {POOL}"));
        let works = [" state: ONLINE\n", " state: DEGRADED\n"].iter().any(|state| status.contains(state));
        assert!(works, "{status}");
        assert!(self.is_mounted(), "mounted again:\n{}", self.daemon_log());
        status
    }

    /// Where the devices are, and nothing else.
    pub fn disks(&self) -> PathBuf {
        self.path("disks")
    }

    /// Closes the pool.
    pub fn export(&self) {
        self.zpool(&format!("export {POOL}"));
        assert!(!self.is_mounted(), "an exported pool is mounted nowhere");
    }

    /// Opens the pool again.
    pub fn import(&self) {
        self.zpool(&format!("import -d {} {POOL}", self.disks().display()));
        assert!(self.is_mounted(), "an imported pool is mounted");
    }

    /// Closes the pool for good, and has `zdb` look at every block and object.
    pub fn finish(&self) {
        self.export();
        Zdb::new(&self.disks(), POOL).check().unwrap_or_else(|damage| panic!("{damage}"));
    }

    fn is_mounted(&self) -> bool {
        let table = self.namespaces().map_or_else(|| "/proc/self/mountinfo".into(), Namespaces::mounts);
        let table = kernel_mounts(table);
        let root = self.root();
        table.lines().filter_map(|line| line.split(' ').nth(4)).any(|at| Path::new(at) == root)
    }

    fn daemon_log(&self) -> String {
        let log = fs::read_to_string(self.path("run/daemon.log")).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        let panics =
            lines.windows(2).filter(|pair| pair[0].contains("panicked at")).map(|pair| pair.join("\n"));
        let panics: String = panics.map(|panic| panic + "\n").collect();
        panics + &lines[lines.len().saturating_sub(LOG_LINES)..].join("\n")
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the daemon's log ends:\n{}", self.daemon_log());
        }
        if let Some(daemon) = self.daemon() {
            // Fails when it has ended by itself.
            _ = kill_process(daemon, Signal::KILL);
            self.wait_until_dead(daemon);
        }
        if self.setting.inside.is_some() {
            // Its mounts end with the namespaces.
            return;
        }
        while self.is_mounted() && unmount(self.root(), UnmountFlags::DETACH).is_ok() {}
        // Only where a test has put a file system of its own there.
        _ = unmount(self.disks(), UnmountFlags::DETACH);
    }
}

/// A command that ends some time, whatever happens to it.
pub fn bounded(program: &Path) -> Command {
    let mut command = Command::new("timeout");
    command.args(["-k", "5", &PATIENCE_SECS.to_string()]).arg(program);
    command
}

/// `false` where the kernel cannot mount what these tests mount and that may be so.
pub fn can_mount() -> bool {
    let lack = lack();
    lack.into_iter().for_each(|lack| Need::Fuse.is_missing(lack));
    lack.is_none()
}

fn lack() -> Option<&'static str> {
    let is_root = rustix::process::geteuid().is_root();
    lack_of_fuse().or((!is_root).then_some("only root can do all that these tests do"))
}
