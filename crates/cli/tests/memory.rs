//! Control groups: a daemon in a group with little memory, as in a container, where the daemon and what works on its
//! mount get by; and a group for the process of each pool.
//!
//! `SAWMILL_MEMORY_MIB` is the group's limit, `SAWMILL_MEMORY_SCALE` the percentage of the full work: 2 GB
//! written and read, 100,000 files. `cargo xtask memory` does all of it in 256 MiB.
#![forbid(unsafe_code)]

mod mounted;
#[path = "programs/shell.rs"]
mod shell;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use mounted::{POOL, World};
use oracle::lane::number;
use oracle::needs::Need;
use rustix::process::{Signal, kill_process};
use shell::until;

const LIMIT_MIB: u64 = 192;
const SCALE_PERCENT: u64 = 20;
/// All of the work.
const WRITTEN_MIB: u64 = 2048;
const FILES: u64 = 100_000;

/// A group below this process's own, with a limit; gone with the value.
struct Group(PathBuf);

impl Group {
    /// `None` where groups cannot be made and that may be so.
    fn new(limit_bytes: u64) -> Option<Self> {
        match Self::try_new(limit_bytes) {
            Ok(group) => Some(group),
            Err(lack) => {
                Need::MemoryGroup.is_missing(&format!("no control group can be made: {lack}"));
                None
            }
        }
    }

    fn try_new(limit_bytes: u64) -> std::io::Result<Self> {
        let own = fs::read_to_string("/proc/self/cgroup")?;
        let first = own.lines().find_map(|line| line.split_once(":memory:").map(|(_, path)| path));
        let (top, path, file) = match first {
            Some(path) => ("/sys/fs/cgroup/memory", path, "memory.limit_in_bytes"),
            None => {
                let path = own.lines().find_map(|line| line.strip_prefix("0::")).unwrap_or("/");
                ("/sys/fs/cgroup", path, "memory.max")
            }
        };
        let own = Path::new(top).join(path.trim_start_matches('/'));
        let above = if own.is_dir() { own } else { PathBuf::from(top) };
        let group = Self(above.join(format!("sawmill-{}", std::process::id())));
        fs::create_dir(&group.0)?;
        fs::write(group.0.join(file), limit_bytes.to_string())?;
        Ok(group)
    }

    fn read(&self, files: &[&str]) -> Option<u64> {
        files.iter().find_map(|file| fs::read_to_string(self.0.join(file)).ok()?.trim().parse().ok())
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // What is left in it keeps it.
        _ = fs::remove_dir(self.0.join(POOL));
        _ = fs::remove_dir(&self.0);
    }
}

/// Runs a script in the group; it must succeed, and the daemon live on.
fn work(world: &World, what: &str, script: &str) {
    let begun = Instant::now();
    let processes = world.processes();
    let output = world.script(script).output().expect("sh runs");
    let peak = world.processes_kib("VmHWM").unwrap_or(0) >> 10;
    eprintln!("{what}: {:.1} s, the peak of its processes so far {peak} MiB", begun.elapsed().as_secs_f64());
    assert!(output.status.success(), "{what}: {}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(world.processes(), processes, "{what}: a process is another one");
}

#[test]
fn in_little_memory_much_is_written_and_read_and_scrubbed() {
    let limit = number("SAWMILL_MEMORY_MIB", LIMIT_MIB) << 20;
    let scale = number("SAWMILL_MEMORY_SCALE", SCALE_PERCENT);
    let Some(group) = Group::new(limit) else { return };
    let (mib, files) = (WRITTEN_MIB * scale / 100, FILES * scale / 100);
    let Some(world) = World::in_group("a", mib * 3 / 2 + 1024, Some(group.0.clone())) else { return };
    // Noise, so that nothing gets smaller on the way.
    let noise = "openssl enc -aes-128-ctr -pass pass:sawmill -nosalt -in /dev/zero 2>/dev/null";
    work(&world, "write", &format!("{noise} | dd of=big bs=1M count={mib} iflag=fullblock status=none"));
    work(&world, "read", &format!("{noise} | head -c {} | cmp - big", mib << 20));
    work(&world, "files", &format!("mkdir d; cd d; seq {files} | xargs touch"));
    work(&world, "list", &format!("test $(ls -U d | wc -l) = {files}; ls -lR . > /dev/null"));
    work(&world, "small writes", "dd if=/dev/zero of=small bs=4k count=50000 status=none; sync small");
    world.zpool(&format!("scrub -w {POOL}"));
    work(&world, "scrub", "true");
    let status = world.zpool(&format!("status {POOL}"));
    assert!(status.contains("with 0 errors"), "{status}");
    work(&world, "remove", "rm -rf d big small");
    let group_peak = group.read(&["memory.max_usage_in_bytes", "memory.peak"]).unwrap_or(0);
    let (peak, limit) = (world.processes_kib("VmHWM").expect("it lives") >> 10, limit >> 20);
    println!("limit {limit} MiB: the peak of its processes {peak} MiB, the group's {} MiB", group_peak >> 20);
    assert!(peak < limit, "{peak} MiB of {limit}");
    world.finish();
}

#[test]
fn the_process_of_a_pool_is_in_the_group_of_the_pool() {
    let Some(group) = Group::new(1 << 30) else { return };
    let Some(world) = World::new("a", 256) else { return };
    world.stop_daemon();
    world.link("sawmill");
    let nowhere = world.run("sawmill", "daemon start --pool-groups /proc");
    assert_eq!(nowhere.status.code(), Some(2), "{nowhere:?}");
    let started = world.run("sawmill", &format!("daemon start --pool-groups {}", group.0.display()));
    assert!(started.status.success(), "{started:?}");
    let members = || fs::read_to_string(group.0.join(POOL).join("cgroup.procs")).unwrap_or_default();
    let is_in_group = || members() == format!("{}\n", world.server_pid());
    until(is_in_group, "the process of the pool is in the group");
    let first = world.server();
    kill_process(first, Signal::KILL).expect("it lives");
    until(|| world.processes().len() == 2 && world.server() != first, "another process has the pool");
    until(is_in_group, "that process is in the group");
    world.export();
    until(|| members().is_empty(), "nobody is in the group");
    world.import();
    until(is_in_group, "the process of an import is in the group");
    world.finish();
}
