//! A machine with a pool, its daemon, a brick on its mount, and glusterd.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use rustix::process::Pid;

use crate::mounted::{Namespaces, POOL, World};
use crate::network::{address, connect};
use crate::shell::{kill, ok, until};

const VDEVS: &str = "main log log0";
const DISK_MIB: u64 = 512;
/// Where glusterd, its bricks and its clients keep what they know, sockets and logs.
pub const PRIVATE: &[&str] = &["/run", "/var/lib/glusterd", "/var/log/glusterfs"];
const LOG_LINES: usize = 15;

/// One of three.
pub struct Node {
    /// From 1.
    pub number: usize,
    pub world: World,
}

impl Node {
    pub fn new(number: usize, client: &Namespaces) -> Self {
        let namespaces = Namespaces::new(PRIVATE);
        connect(client, &namespaces, number);
        let world = World::inside(VDEVS, DISK_MIB, namespaces).expect("it can be mounted");
        world.link("zinject");
        world.zfs(&format!("create -o xattr=sa -o acltype=posix -o recordsize=16K {POOL}/brick"));
        let node = Self { number, world };
        let mut glusterd = node.namespaces().command("glusterd");
        let started = glusterd.stdout(Stdio::null()).status().expect("it runs");
        assert!(started.success(), "glusterd: {started}");
        until(|| node.try_gluster("pool list"), "glusterd answers");
        node
    }

    pub fn address(&self) -> String {
        address(self.number)
    }

    fn namespaces(&self) -> &Namespaces {
        self.world.namespaces().expect("a node has its own")
    }

    /// A directory of the mounted file system and not its root: where nothing is mounted, it is not there.
    pub fn brick(&self) -> PathBuf {
        self.world.root().join("brick/data")
    }

    /// A file on the brick, as it is reached from outside.
    pub fn on_brick(&self, name: &str) -> PathBuf {
        self.namespaces().seen(&self.brick().join(name))
    }

    /// Runs `gluster` with these words, which must succeed; gives what it printed.
    pub fn gluster(&self, line: &str) -> String {
        let mut command = self.namespaces().command("gluster");
        ok(command.arg("--mode=script").args(line.split_whitespace()))
    }

    /// Runs `gluster` with these words; whether it succeeded.
    pub fn try_gluster(&self, line: &str) -> bool {
        let mut command = self.namespaces().command("gluster");
        command.arg("--mode=script").args(line.split_whitespace());
        command.output().expect("it runs").status.success()
    }

    /// The process that serves the brick, if there is one.
    pub fn brick_process(&self) -> Option<Pid> {
        let dir = self.namespaces().seen(Path::new("/run/gluster/vols/vol"));
        let mut files = fs::read_dir(dir).ok()?.filter_map(|entry| Some(entry.ok()?.path()));
        let file = files.find(|path| path.extension().is_some_and(|end| end == "pid"))?;
        let number = fs::read_to_string(file).ok()?.trim().parse().ok()?;
        self.namespaces().process(number)
    }

    /// After the daemon has come back: the process that serves the brick has files open that are gone with the old one.
    pub fn restart_brick(&self) {
        kill(&self.brick_process().into_iter().collect::<Vec<_>>());
        self.gluster("volume start vol force");
    }

    pub fn status(&self) -> String {
        self.world.zpool(&format!("status {POOL}"))
    }

    /// Every request to the log fails from now on, and it cannot be opened.
    pub fn lose_log(&self) {
        self.zinject(&format!("-q -d {} {POOL}", self.log()));
        self.zinject(&format!("-d {} -e nxio {POOL}", self.log()));
    }

    pub fn give_log_back(&self) {
        self.zinject("-c all");
        self.world.zpool(&format!("online {POOL} {}", self.log()));
        until(|| self.status().contains(" state: ONLINE"), "the log is used again");
    }

    fn log(&self) -> String {
        self.world.disks().join("log0").display().to_string()
    }

    fn zinject(&self, line: &str) {
        let output = self.world.run("zinject", line);
        assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    }

    /// Has the brick, by itself, what was acknowledged?
    pub fn check(&self, acks: &Path) {
        check(self.namespaces(), &self.brick().join(crate::volume::STABLE), acks);
    }

    /// Changes a byte in a file behind glusterfs's back.
    pub fn spoil(&self, name: &str) {
        let path = self.on_brick(name);
        let file = fs::File::options().read(true).write(true).open(path).expect("a file");
        let (mut byte, at) = ([0], 4_000_000);
        file.read_exact_at(&mut byte, at).and_then(|()| file.write_all_at(&[!byte[0]], at)).expect("changed");
    }
}

/// Has a file everything that was acknowledged?
pub fn check(inside: &Namespaces, path: &Path, acks: &Path) {
    let mut command = inside.command(env!("CARGO_BIN_EXE_sawmill"));
    ok(command.args(["bench", "check", "--path"]).arg(path).arg("--acks").arg(acks));
}

impl Drop for Node {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            return;
        }
        eprintln!("node {}:", self.number);
        tell_logs(&self.namespaces().seen(Path::new("/var/log/glusterfs")));
    }
}

/// What glusterfs's programs say of errors.
pub fn tell_logs(dir: &Path) {
    let files = [dir.to_path_buf(), dir.join("bricks")].into_iter().filter_map(|dir| fs::read_dir(dir).ok());
    for file in files.flatten().flatten().map(|entry| entry.path()) {
        let text = fs::read_to_string(&file).unwrap_or_default();
        let errors: Vec<&str> = text.lines().filter(|line| line.contains("] E [")).collect();
        if !errors.is_empty() {
            let last = errors.len().saturating_sub(LOG_LINES);
            eprintln!("{}:\n{}", file.display(), errors[last..].join("\n"));
        }
    }
}
