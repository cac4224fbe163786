//! What mounting, unmounting and mount flags promise.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

use oracle::needs::{Need, lack_of_fuse_rings};
use rustix::fs::{CWD, OFlags, RenameFlags, renameat_with};
use rustix::process::{Signal, kill_process};

use crate::mounted::{POOL, World, bounded, can_mount, kernel_mounts};
use crate::shell::{ok, sh, until};

const MIB: usize = 1 << 20;
/// Threads that a daemon may have beside one for each processor: workers, those that serve commands, and for a moment
/// one for each device that is opened, and one for a loop that waits. It is fewer than the mounts and writers of the test.
const THREADS_MAX: usize = 18;

fn noise(len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    let filled =
        File::open("/dev/urandom").and_then(|mut dice| std::io::Read::read_exact(&mut dice, &mut bytes));
    filled.expect("random bytes");
    bytes
}

/// The line of the kernel's table for a mount point: options of the mount, type, source, options of the
/// file system.
fn kernel_line(at: &Path) -> Option<[String; 4]> {
    let table = kernel_mounts("/proc/self/mountinfo");
    let line =
        table.lines().rev().find(|line| line.split(' ').nth(4).is_some_and(|dir| Path::new(dir) == at))?;
    let (mount, fs) = line.split_once(" - ")?;
    let mut fs = fs.split(' ').map(str::to_owned);
    Some([mount.split(' ').nth(5)?.to_owned(), fs.next()?, fs.next()?, fs.next()?])
}

fn has_flag(at: &Path, flag: &str) -> bool {
    kernel_line(at).expect("it is mounted")[0].split(',').any(|word| word == flag)
}

/// Descriptors through which mounts are served.
fn fuse_descriptors(world: &World) -> usize {
    let all = fs::read_dir(world.server_proc().join("fd")).expect("a daemon");
    let target = |entry: std::io::Result<fs::DirEntry>| fs::read_link(entry.ok()?.path()).ok();
    all.filter_map(target).filter(|path| path == Path::new("/dev/fuse")).count()
}

/// The names of the threads of the process that serves the mounts, without those that the kernel lends to its rings.
fn threads(world: &World) -> Vec<String> {
    let all = fs::read_dir(world.server_proc().join("task")).expect("a daemon");
    let name =
        |entry: std::io::Result<fs::DirEntry>| fs::read_to_string(entry.ok()?.path().join("comm")).ok();
    all.filter_map(name).filter(|name| !name.starts_with("iou-wrk")).collect()
}

#[test]
fn what_was_written_before_an_unmount_survives_a_kill_after_it() {
    let Some(world) = crate::world(&[]) else { return };
    keeps_what_was_written_before_an_unmount(&world);
    world.finish();
}

pub fn keeps_what_was_written_before_an_unmount(world: &World) {
    let path = world.root().join("big");
    for sync in ["standard", "disabled"] {
        world.zfs(&format!("set sync={sync} {POOL}"));
        let wanted = noise(20 * MIB);
        fs::write(&path, &wanted).expect("written");
        world.zfs(&format!("unmount {POOL}"));
        world.kill_daemon();
        world.restart();
        assert!(fs::read(&path).expect("it is there") == wanted, "sync={sync}");
    }
}

#[test]
fn after_umount_a_dataset_is_mounted_nowhere_and_its_data_are_stable() {
    let Some(world) = crate::world(&["umount"]) else { return };
    let path = world.root().join("big");
    let wanted = noise(8 * MIB);
    fs::write(&path, &wanted).expect("written");
    assert_eq!(fuse_descriptors(&world), 1);
    sh(&format!("umount {}", world.root().display()), Path::new("/"));
    until(|| world.zfs_prints("mount").is_empty(), "it is mounted nowhere");
    assert_eq!(world.zfs_prints(&format!("get -Ho value mounted {POOL}")), "no\n");
    until(|| fuse_descriptors(&world) == 0, "nothing of the mount is left");
    world.kill_daemon();
    world.restart();
    assert!(fs::read(&path).expect("it is there") == wanted);
    // At once, while the daemon may still be about to make data stable.
    fs::write(&path, &wanted[MIB..]).expect("written");
    sh(&format!("umount {}", world.root().display()), Path::new("/"));
    world.zfs(&format!("mount {POOL}"));
    assert!(fs::read(&path).expect("it is there") == wanted[MIB..]);
    world.finish();
}

/// Who goes by the path of the lower one meets the upper one.
#[test]
fn what_is_mounted_over_another_is_in_its_way() {
    let Some(world) = crate::world(&[]) else { return };
    let place = world.root().join("both");
    let both = place.display();
    for name in ["lower", "upper"] {
        world.zfs(&format!("create -o mountpoint={both} {POOL}/{name}"));
        fs::write(place.join(name), name).expect("written");
    }
    let mut file = File::create(place.join("open")).expect("a file of the upper one");
    let refused = world.zfs_refuses(&format!("unmount {POOL}/lower")).expect("it is covered");
    assert_eq!(refused, format!("cannot unmount '{both}': pool or dataset is busy\n"));
    file.write_all(b"it is there still").expect("nobody has unmounted it");
    world.zpool(&format!("sync {POOL}"));
    drop(file);
    world.zfs(&format!("unmount {POOL}/upper"));
    assert_eq!(fs::read(place.join("lower")).expect("it is there"), b"lower");
    world.zfs(&format!("unmount {POOL}/lower"));
    world.zfs("mount -a");
    assert_eq!(fs::read(place.join("upper")).expect("it is there"), b"upper");
    world.finish();
}

#[test]
fn a_mount_shows_what_it_is() {
    let Some(world) = crate::world(&["mount"]) else { return };
    let root = world.root();
    let [_, kind, source, _] = kernel_line(&root).expect("it is mounted");
    assert_eq!((kind.as_str(), source.as_str()), ("fuse.sawmill", POOL));
    // As mount(8) changes it, without a helper and with ours.
    let helper = world.link("mount.fuse.sawmill");
    let by_helper = |options: &str| format!("{} {POOL} {} -o {options}", helper.display(), root.display());
    let by_mount = |options: &str| format!("mount -i -o {options} {}", root.display());
    for change in [&by_helper as &dyn Fn(&str) -> String, &by_mount] {
        sh(&change("remount,ro"), Path::new("/"));
        assert!(has_flag(&root, "ro"));
        let refused = File::create(root.join("new")).expect_err("read only");
        assert_eq!(refused.kind(), std::io::ErrorKind::ReadOnlyFilesystem);
        sh(&change("remount,rw"), Path::new("/"));
        File::create(root.join("new")).expect("writable again");
    }
    world.finish();
}

#[test]
fn what_was_changed_in_mapped_pages_is_kept_when_readonly_is_set() {
    let Some(world) = crate::world(&["python3"]) else { return };
    std::fs::write(world.root().join("mapped"), [b'.'; 10_000]).expect("writes");
    // The pages stay mapped, and so not written, until the program ends.
    let change = "import mmap; f = open('mapped', 'r+b'); m = mmap.mmap(f.fileno(), 0); f.close(); \
                  m[:5] = b'later'; print('changed', flush=True); input()";
    let mut program = Command::new("python3");
    let program = program.args(["-c", change]).current_dir(world.root());
    let mut program = program.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("python3 runs");
    let mut said = String::new();
    BufReader::new(program.stdout.take().expect("piped")).read_line(&mut said).expect("it talks");
    assert_eq!(said, "changed\n");
    // The mount itself stays writable while a file is open for that.
    _ = world.zfs_refuses(&format!("set readonly=on {POOL}"));
    drop(program.stdin.take());
    program.wait().expect("it ends");
    world.zfs(&format!("unmount {POOL}"));
    world.zfs(&format!("mount {POOL}"));
    let read = std::fs::read(world.root().join("mapped")).expect("reads");
    assert_eq!(&read[..8], b"later...");
    world.finish();
}

#[test]
fn readonly_exec_setuid_and_devices_are_heeded_by_the_kernel() {
    let Some(world) = crate::world(&["setpriv", "id", "mknod"]) else { return };
    world.zfs(&format!("create {POOL}/below"));
    let (root, below) = (world.root(), world.root().join("below"));
    sh("cp $(command -v id) who; chmod 4755 who; mknod null c 1 3; chmod 666 null", &below);
    let who = || sh("setpriv --reuid=65534 --clear-groups ./who -u 2>&1 || echo refused", &below);
    let is_device = || sh("(echo x > null) 2>/dev/null && echo yes || echo no", &below) == "yes\n";
    let set = |what: &str| world.zfs(&format!("{what} {POOL}"));
    assert_eq!((who().as_str(), is_device()), ("0\n", true), "its owner is root");
    set("set setuid=off");
    assert_eq!(who(), "65534\n");
    set("set exec=off");
    assert!(who().ends_with("refused\n"), "{}", who());
    set("set devices=off");
    assert!(!is_device());
    set("set readonly=on");
    for at in [&root, &below] {
        for flag in ["ro", "nosuid", "noexec", "nodev"] {
            assert!(has_flag(at, flag), "{flag} of {}: {:?}", at.display(), kernel_line(at));
        }
    }
    ["readonly", "devices", "exec", "setuid"].iter().for_each(|name| set(&format!("inherit {name}")));
    assert_eq!((who().as_str(), is_device()), ("0\n", true), "as before");
    set("set exec=off");
    set("set atime=off");
    // The same from the first moment, and for one mount alone.
    world.zfs(&format!("unmount {POOL}/below"));
    world.zfs(&format!("mount {POOL}/below"));
    assert!(has_flag(&below, "noexec") && has_flag(&below, "noatime"));
    world.zfs(&format!("unmount {POOL}/below"));
    world.zfs(&format!("mount -o ro,exec {POOL}/below"));
    assert!(has_flag(&below, "ro") && !has_flag(&below, "noexec"));
    set("set setuid=off");
    assert!(has_flag(&below, "ro") && has_flag(&below, "nosuid"), "what was said stays");
    world.finish();
}

#[test]
fn neither_mounts_nor_busy_writers_add_threads() {
    let Some(world) = crate::world(&[]) else { return };
    let few = THREADS_MAX + available_parallelism().map_or(1, usize::from);
    // What the commands needed goes after a while.
    let at_rest = |what: &str| until(|| threads(&world).len() <= few, what);
    at_rest("few threads serve one mount");
    (0..32).for_each(|n| world.zfs(&format!("create {POOL}/d{n}")));
    at_rest("few threads serve 33 mounts");
    let writers = 32;
    let barrier = Barrier::new(writers);
    let done = AtomicUsize::new(0);
    let most = std::thread::scope(|scope| {
        for writer in 0..writers {
            let (barrier, done, path) = (&barrier, &done, world.root().join(format!("d{writer}/f")));
            scope.spawn(move || {
                let mut options = File::options();
                let options = options.write(true).create(true).custom_flags(OFlags::DSYNC.bits() as i32);
                let mut file = options.open(path).expect("a file");
                barrier.wait();
                for _ in 0..100 {
                    file.write_all(&[7; 4096]).expect("stable");
                }
                done.fetch_add(1, SeqCst);
            });
        }
        let mut most = Vec::new();
        while done.load(SeqCst) < writers {
            let now = threads(&world);
            if now.len() > most.len() {
                most = now;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        most
    });
    assert!(most.len() <= few, "{} threads, {few} are allowed: {most:?}", most.len());
    assert_eq!(fs::read(world.root().join("d31/f")).expect("it is there").len(), 100 * 4096);
    world.finish();
}

/// The most memory that the daemon and the process of its pool had, in MiB.
fn most_memory(world: &World) -> u64 {
    world.processes_kib("VmHWM").expect("a daemon") >> 10
}

#[test]
fn a_thousand_processes_at_once_are_served() {
    let Some(world) = crate::world(&[]) else { return };
    serves_a_thousand_processes(&world);
    world.finish();
}

pub fn serves_a_thousand_processes(world: &World) {
    let before = most_memory(world);
    let work = "i=0; while [ $i -lt 1000 ]; do i=$((i + 1)); \
                (echo $i > f$i; read n < f$i; [ $n = $i ]; mv f$i g$i; ls g$i; rm g$i) || touch failed & \
                done; wait; ls";
    let (root, is_over) = (world.root(), AtomicBool::new(false));
    let slowest = std::thread::scope(|scope| {
        let asks = scope.spawn(|| {
            let mut slowest = Duration::ZERO;
            while !is_over.load(SeqCst) {
                let begun = Instant::now();
                fs::metadata(root.join("nothing")).expect_err("not there");
                slowest = slowest.max(begun.elapsed());
                std::thread::sleep(Duration::from_millis(5));
            }
            slowest
        });
        let left = sh(work, &root);
        is_over.store(true, SeqCst);
        assert_eq!(left.lines().filter(|name| !name.starts_with('g')).count(), 0, "{left}");
        assert_eq!(left.lines().count(), 1000, "each saw its file, and nothing is left");
        asks.join().expect("it asked")
    });
    assert!(slowest < Duration::from_secs(10), "somebody else waited {slowest:?}");
    let grown = most_memory(world) - before;
    assert!(grown < 128, "{grown} MiB more");
}

/// Nothing ends a process sooner than a thread or a descriptor that it does not get. Only a process of the same user has
/// its limits set without CAP_SYS_RESOURCE, and the process of a pool is another user's.
#[test]
fn a_mount_that_could_end_the_daemon_is_refused() {
    if !crate::are_there(&["prlimit"]) {
        return;
    }
    let Some(world) = World::in_one_process(crate::VDEVS, crate::DISK_MIB) else { return };
    let soft_is_hard = "[ $(prlimit --pid PID --nofile -o SOFT --noheadings) = $(prlimit --pid PID --nofile -o HARD --noheadings) ]";
    let pid = world.server_pid();
    sh(&soft_is_hard.replace("PID", &pid), Path::new("/"));
    let datasets: Vec<String> = (0..12).map(|n| format!("{POOL}/d{n}")).collect();
    datasets.iter().for_each(|name| world.zfs(&format!("create -u {name}")));
    let open = fs::read_dir(world.server_proc().join("fd")).expect("a daemon").count();
    sh(&format!("prlimit --pid {pid} --nofile={}:", open + 104), Path::new("/"));
    let refused: Vec<String> =
        datasets.iter().filter_map(|name| world.zfs_refuses(&format!("mount {name}"))).collect();
    assert!((1..12).contains(&refused.len()), "{refused:?}");
    let wanted = "not enough file descriptors left";
    assert!(
        refused.iter().all(|line| line.contains("cannot mount 'tank/d") && line.contains(wanted)),
        "{refused:?}"
    );
    sh(&format!("prlimit --pid {pid} --nofile={}:", open + 4096), Path::new("/"));
    world.zfs("mount -a");
    assert_eq!(world.zfs_prints("mount").lines().count(), 13);
    world.finish();
}

#[test]
fn a_mount_that_could_take_the_last_thread_is_refused() {
    let Some(world) = crate::world(&[]) else { return };
    let Some(group) = PidsGroup::make() else { return };
    group.set("cgroup.procs", &world.server_pid());
    // Room for what commands need, and not for what the work at hand may need.
    group.set("pids.max", &(threads(&world).len() + 16).to_string());
    let datasets: Vec<String> = (0..8).map(|n| format!("{POOL}/d{n}")).collect();
    datasets.iter().for_each(|name| world.zfs(&format!("create -u {name}")));
    let refused: Vec<String> =
        datasets.iter().filter_map(|name| world.zfs_refuses(&format!("mount {name}"))).collect();
    assert_eq!(refused.len(), datasets.len(), "{refused:?}");
    assert!(refused.iter().all(|line| line.contains("not enough threads left")), "{refused:?}");
    assert_eq!(world.zfs_prints("mount").lines().count(), 1);
    fs::write(world.root().join("f"), b"alive").expect("the daemon lives");
    group.set("pids.max", "max");
    world.zfs("mount -a");
    assert_eq!(world.zfs_prints("mount").lines().count(), 9);
    world.finish();
}

/// A control group that counts threads.
struct PidsGroup(PathBuf);

impl PidsGroup {
    /// `None` where the system has none to give, which is told.
    fn make() -> Option<Self> {
        let name = format!("sawmill-test-{}", std::process::id());
        let made =
            ["/sys/fs/cgroup/pids", "/sys/fs/cgroup"].map(|root| Path::new(root).join(&name)).into_iter();
        let made = made.filter(|dir| fs::create_dir(dir).is_ok()).find(|dir| dir.join("pids.max").exists());
        if made.is_none() {
            Need::Program("cgroup").is_missing("no control group for threads can be made");
        }
        made.map(Self)
    }

    fn set(&self, file: &str, value: &str) {
        fs::write(self.0.join(file), value).expect("a control group");
    }
}

impl Drop for PidsGroup {
    fn drop(&mut self) {
        // The daemon goes back to where it came from.
        let parent = self.0.parent().expect("a parent");
        for pid in fs::read_to_string(self.0.join("cgroup.procs")).unwrap_or_default().lines() {
            _ = fs::write(parent.join("cgroup.procs"), pid);
        }
        _ = fs::remove_dir(&self.0);
    }
}

#[test]
fn an_overlay_keeps_its_changes_on_a_mount() {
    let Some(world) = crate::world(&["mount", "umount", "unshare"]) else { return };
    let script = r#"
mkdir lower upper work merged lower/dir lower/gone
echo one > lower/dir/one; echo two > lower/two; echo three > lower/three; echo x > lower/gone/x
mount -t overlay overlay -o lowerdir=lower,upperdir=upper,workdir=work OPTIONS merged
rm merged/two; mv merged/three merged/renamed; echo changed >> merged/dir/one
rm -r merged/gone; mkdir merged/gone; echo new > merged/gone/new
[ "$(ls merged merged/gone)" = "$(printf 'merged:\ndir\ngone\nrenamed\n\nmerged/gone:\nnew')" ]
[ "$(cat merged/dir/one)" = "$(printf 'one\nchanged')" ]
[ -c upper/two ] && [ -c upper/three ] && [ "$(stat -c %t,%T upper/two)" = 0,0 ]
umount merged
mount -t overlay overlay -o lowerdir=lower,upperdir=upper,workdir=work OPTIONS merged
[ ! -e merged/two ] && [ "$(cat merged/renamed)" = three ] && [ "$(ls merged/gone)" = new ]
umount merged
"#;
    for (name, options) in [("trusted", ""), ("user", "-o userxattr")] {
        let dir = world.root().join(name);
        fs::create_dir(&dir).expect("a directory");
        // A mount namespace of its own, so that nothing stays mounted whatever happens.
        fs::write(dir.join("script"), script.replace("OPTIONS", options)).expect("a script");
        sh("unshare -m bash -euo pipefail script", &dir);
    }
    world.finish();
}

#[test]
fn whiteouts_take_the_place_of_what_was_renamed() {
    let Some(world) = crate::world(&[]) else { return };
    let (old, new) = (world.root().join("old"), world.root().join("new"));
    fs::write(&old, b"contents").expect("written");
    renameat_with(CWD, &old, CWD, &new, RenameFlags::WHITEOUT).expect("renamed");
    assert_eq!(fs::read(&new).expect("it is there"), b"contents");
    let left = fs::symlink_metadata(&old).expect("a whiteout");
    assert!(left.file_type().is_char_device());
    assert_eq!(left.rdev(), 0);
    world.finish();
}

#[test]
fn file_flags_are_set_shown_and_heeded() {
    let Some(world) = crate::world(&["lsattr", "chattr"]) else { return };
    let root = world.root();
    sh("echo x > f; mkdir d; chattr +i f; chattr +a d", &root);
    assert!(sh("lsattr f", &root).starts_with("----i---"));
    assert!(sh("lsattr -d d", &root).starts_with("-----a--"));
    sh(
        "! rm -f f 2>/dev/null; ! sh -c 'echo y > f' 2>/dev/null; ! chattr +c f 2>/dev/null; chattr -i f; rm f; chattr -a d",
        &root,
    );
    world.finish();
}

#[test]
fn copies_within_a_mount_need_no_way_through_the_program() {
    let Some(world) = crate::world(&[]) else { return };
    let (from, to) = (world.root().join("from"), world.root().join("to"));
    let wanted = noise(20 * MIB + 12_345);
    fs::write(&from, &wanted).expect("written");
    let (from, target) = (File::open(&from).expect("opens"), File::create(&to).expect("a file"));
    let mut copied = 0;
    while copied < wanted.len() {
        let len = rustix::fs::copy_file_range(&from, None, &target, None, wanted.len()).expect("copied");
        assert!(len > 0, "the source is longer");
        copied += len;
    }
    assert!(fs::read(&to).expect("it is there") == wanted);
    drop((from, target));
    world.finish();
}

#[test]
fn listing_attributes_names_only_what_can_be_read() {
    let Some(world) = crate::world(&["setfacl", "getfattr", "setfattr"]) else { return };
    let root = world.root();
    world.zfs(&format!("set acltype=posix {POOL}"));
    world.export();
    world.import();
    sh("echo x > f; setfacl -m u:1234:r f; setfattr -n user.a -v b f", &root);
    world.zfs(&format!("set acltype=off {POOL}"));
    world.export();
    world.import();
    let listed = sh("getfattr -m - -d f 2>&1", &root);
    assert!(listed.contains("user.a=\"b\"") && !listed.contains("posix_acl"), "{listed}");
    world.finish();
}

/// The kernel believes attributes for long: what changes them must be seen all the same.
#[test]
fn attributes_are_right_whoever_changes_them() {
    let Some(world) = crate::world(&["setpriv", "head"]) else { return };
    let root = world.root();
    let blocks = |name: &str| fs::metadata(root.join(name)).expect("it is there").blocks();
    // Space, once a txg has written what was dirty.
    sh("head -c 4000000 /dev/zero | tr '\\0' x > squeezed", &root);
    let dirty = blocks("squeezed");
    world.zpool("sync");
    std::thread::sleep(Duration::from_millis(1_100));
    assert!(blocks("squeezed") < dirty / 4, "{} of {dirty} blocks", blocks("squeezed"));
    // Links, by another name; a file without a name.
    sh("echo x > one; ln one two; stat one two > /dev/null; rm two", &root);
    assert_eq!(fs::metadata(root.join("one")).expect("it is there").nlink(), 1);
    let open = File::open(root.join("one")).expect("opens");
    fs::remove_file(root.join("one")).expect("removed");
    assert_eq!(open.metadata().expect("open").nlink(), 0);
    drop(open);
    // A name that was looked up in vain.
    assert!(!root.join("later").exists());
    sh("echo x > other; mv other later", &root);
    assert!(root.join("later").exists());
    // Set-id bits go with a write by somebody else.
    sh("cp /bin/true prog; chmod 6777 prog; stat prog > /dev/null", &root);
    sh("setpriv --reuid=65534 --clear-groups sh -c 'echo x >> prog'", &root);
    assert_eq!(fs::metadata(root.join("prog")).expect("it is there").mode() & 0o7777, 0o777);
    // Access times, by reading.
    world.zfs(&format!("set relatime=off {POOL}"));
    sh("touch empty", &root);
    // The second time, the kernel has the contents in its cache.
    for (name, flags) in
        [("later", "iflag=direct"), ("later", ""), ("later", ""), ("empty", ""), ("empty", "")]
    {
        let atime =
            || fs::metadata(root.join(name)).map(|found| (found.atime(), found.atime_nsec())).expect("there");
        let before = atime();
        std::thread::sleep(Duration::from_millis(20));
        sh(&format!("dd if={name} {flags} of=/dev/null status=none"), &root);
        assert!(atime() > before, "{name} {flags}");
    }
    world.finish();
}

#[test]
fn a_server_that_does_nothing_is_measured_and_gone() {
    if !can_mount() {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let ways = if lack_of_fuse_rings().is_some() { &["device"][..] } else { &["device", "io-uring"] };
    for way in ways {
        let bench = |line: &str, path: &Path| {
            let mut command = bounded(Path::new(env!("CARGO_BIN_EXE_sawmill")));
            command.arg("bench").args(line.split(' ')).args(["--floor", way, "--json", "--path"]).arg(path);
            let report = ok(&mut command);
            assert!(
                std::fs::read_dir(dir.path()).expect("a directory").next().is_none(),
                "it is mounted no more"
            );
            serde_json::from_str::<serde_json::Value>(&report).expect("a report")
        };
        let names = bench("names --files 50", dir.path());
        assert_eq!(names["files"], 50, "{names}");
        let file = bench("file --threads 3 --size 8k --span 1m --seconds 1", &dir.path().join("file"));
        assert!(file["acknowledged"].as_u64().is_some_and(|count| count > 100), "{file}");
        assert!(file["ended_by"].is_null(), "{file}");
    }
    let _in_the_way = File::create(dir.path().join("file")).expect("a file");
    let mut command = bounded(Path::new(env!("CARGO_BIN_EXE_sawmill")));
    command.args(["bench", "names", "--floor", "device", "--path"]).arg(dir.path());
    let refused = command.output().expect("it runs");
    let why = format!("cannot mount '{}': directory is not empty\n", dir.path().display());
    assert_eq!((refused.status.code(), String::from_utf8_lossy(&refused.stderr)), (Some(1), why.into()));
}

#[test]
fn what_was_looked_at_is_seen_again_without_asking_the_daemon() {
    let Some(world) = crate::world(&[]) else { return };
    let root = world.root();
    sh("for d in 1 2 3; do mkdir $d; touch $d/a $d/b $d/c; done", &root);
    // Until then attributes are not believed for long.
    world.zpool(&format!("sync {POOL}"));
    let seen = || Command::new("timeout").args(["-s", "KILL", "10", "ls", "-1R"]).current_dir(&root).output();
    let [first, second] = [seen(), seen()].map(|output| output.expect("it runs").stdout);
    let server = world.server();
    kill_process(server, Signal::STOP).expect("it lives");
    let without = seen();
    kill_process(server, Signal::CONT).expect("it lives");
    assert_eq!((&second, &without.expect("it runs").stdout), (&first, &first));
    // What has changed is seen.
    sh("rm 1/a; mv 2/b 3/d; ls -1R", &root);
    assert_eq!(sh("ls 1 2 3", &root), "1:\nb\nc\n\n2:\na\nc\n\n3:\na\nb\nc\nd\n");
    world.finish();
}

/// Options of `zfs mount -a` are those of every mount that it makes.
#[test]
fn all_are_mounted_with_the_options_that_are_asked_for() {
    let Some(world) = crate::world(&[]) else { return };
    world.zfs("create tank/fs");
    let file = world.root().join("fs/file");
    fs::write(&file, "x").expect("written");
    world.zfs("unmount -a");
    assert!(!file.exists());
    world.zfs("mount -a -o ro");
    assert_eq!(fs::read(&file).expect("mounted"), b"x");
    let refused = fs::write(&file, "y").expect_err("it is read only");
    assert_eq!(refused.kind(), std::io::ErrorKind::ReadOnlyFilesystem);
    world.zfs("unmount -a");
    let refused = world.zfs_refuses("mount -a -o nonsense").expect("refused");
    assert_eq!(refused, "mount option 'nonsense' is not supported\n");
    // Below one that is named.
    world.zfs("create -u tank/fs/below");
    world.zfs("create -u tank/other");
    world.zfs("unmount -a");
    world.zfs("mount -R tank/fs");
    let mounted = world.zfs_prints("mount");
    let names: Vec<&str> = mounted.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(names, ["tank/fs", "tank/fs/below"]);
    fs::write(&file, "y").expect("written");
    // Only the property changes.
    world.zfs("set -u mountpoint=/nowhere tank/fs");
    assert_eq!(fs::read(&file).expect("mounted as before"), b"y");
    assert_eq!(world.zfs_prints("get -Ho value mountpoint tank/fs"), "/nowhere\n");
    world.zfs("inherit mountpoint tank/fs");
    world.zfs("mount -a");
    world.finish();
}

#[test]
fn what_a_mount_overrides_is_temporary_and_a_path_is_a_name() {
    let Some(world) = crate::world(&[]) else { return };
    world.zfs("create -o atime=on tank/fs");
    let shown =
        |name: &str| world.zfs_prints(&format!("get -H -o property,value,source readonly,atime,exec {name}"));
    assert_eq!(shown("tank/fs"), "readonly\toff\tdefault\natime\ton\tlocal\nexec\ton\tdefault\n");
    world.zfs("unmount tank/fs");
    world.zfs("mount -o ro,noatime tank/fs");
    assert_eq!(shown("tank/fs"), "readonly\ton\ttemporary\natime\toff\ttemporary\nexec\ton\tdefault\n");
    world.zfs("unmount tank/fs");
    assert_eq!(shown("tank/fs"), "readonly\toff\tdefault\natime\ton\tlocal\nexec\ton\tdefault\n");
    world.zfs("mount tank/fs");
    let inside = world.root().join("fs/deep");
    fs::create_dir(&inside).expect("a directory");
    for place in [&inside, &world.root().join("fs")] {
        assert_eq!(world.zfs_prints(&format!("list -H -o name {}", place.display())), "tank/fs\n");
        assert_eq!(world.zfs_prints(&format!("get -H -o value type {}", place.display())), "filesystem\n");
    }
    let told = world.zfs_refuses("list /proc").expect("it is no file system of a pool");
    assert_eq!(told, "'/proc': not a ZFS filesystem\n");
    let told = world.zfs_refuses("list /there/is/none").expect("there is no such path");
    assert_eq!(told, "cannot open '/there/is/none': No such file or directory\n");
    world.export();
    world.zpool(&format!("import -o readonly=on -d {} {POOL}", world.disks().display()));
    assert_eq!(shown("tank/fs"), "readonly\ton\ttemporary\natime\ton\tlocal\nexec\ton\tdefault\n");
    world.finish();
}
