//! Mounts that a bind mount or another mount namespace shows too, as containers have them.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::mount::{UnmountFlags, mount_bind, unmount};

use crate::mounted::{World, kernel_mounts};
use crate::shell::until;

/// How long a command may take that waits for nobody.
const PROMPT: Duration = Duration::from_secs(4);
/// How long a command may take that ends what others do, or gives up.
const BOUND: Duration = Duration::from_secs(15);

/// A process in a mount namespace of its own, which has a copy of every mount.
struct Container {
    child: Child,
}

impl Container {
    fn start() -> Self {
        let mut command = Command::new("unshare");
        command.args(["--mount", "--propagation", "private", "sh", "-c", "echo ready; read -r end"]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("unshare runs");
        let mut line = String::new();
        let out = child.stdout.take().expect("a pipe");
        BufReader::new(out).read_line(&mut line).expect("a line");
        assert_eq!(line, "ready\n");
        Self { child }
    }

    /// What shows the mount at `place`, in the words of messages.
    fn words(&self, place: &Path) -> String {
        format!("the mount namespace of process {} (sh) at '{}'", self.child.id(), place.display())
    }

    /// The path by which everybody reaches a path inside.
    fn inside(&self, path: &Path) -> PathBuf {
        let rest = path.strip_prefix("/").expect("an absolute path");
        Path::new(&format!("/proc/{}/root", self.child.id())).join(rest)
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        self.child.kill().expect("killed");
        self.child.wait().expect("ended");
    }
}

fn within<T>(limit: Duration, what: &str, work: impl FnOnce() -> T) -> T {
    let begun = Instant::now();
    let done = work();
    assert!(begun.elapsed() < limit, "{what} took {:?}", begun.elapsed());
    done
}

fn is_mounted(at: &Path) -> bool {
    let table = kernel_mounts("/proc/self/mountinfo");
    table.lines().filter_map(|line| line.split(' ').nth(4)).any(|place| Path::new(place) == at)
}

/// A world with the file system `tank/a`, and its mount point.
fn world_with_child() -> Option<(World, PathBuf)> {
    let world = crate::world(&["unshare", "mount", "umount"])?;
    world.zfs("create tank/a");
    let place = world.root().join("a");
    fs::write(place.join("before"), "x").expect("written");
    Some((world, place))
}

#[test]
fn an_unmount_leaves_what_a_container_sees() {
    let Some((world, place)) = world_with_child() else { return };
    let container = Container::start();
    within(PROMPT, "an unmount", || world.zfs("unmount tank/a"));
    assert!(!is_mounted(&place));
    assert_eq!(world.zfs_prints("get -H -o value mounted tank/a"), "no\n");
    fs::write(container.inside(&place).join("after"), "y").expect("the container goes on");
    let refused = world.zfs_refuses("mount tank/a").expect("a second session would have a second cache");
    let shown = container.words(&place);
    let wanted = format!(
        "cannot mount 'tank/a': {shown} still shows the filesystem; 'zfs unmount -f tank/a' ends that\n"
    );
    assert_eq!(refused, wanted);
    let refused = world.zfs_refuses("unmount tank/a").expect("it is not mounted here");
    assert_eq!(refused, "cannot unmount 'tank/a': not currently mounted\n");
    drop(container);
    until(|| world.zfs_refuses("mount tank/a").is_none(), "it is mounted again");
    assert_eq!(fs::read_to_string(place.join("after")).expect("kept"), "y");
    world.finish();
}

#[test]
fn what_a_container_sees_keeps_pools_and_datasets_from_going() {
    let Some((world, place)) = world_with_child() else { return };
    let container = Container::start();
    let refused = |line: &str| within(BOUND, line, || world.refused(line));
    let root = world.root();
    let said = refused("export tank");
    let wanted = format!(
        "cannot export 'tank': pool is busy\n{} still shows what is mounted at '{}'; 'zpool export -f tank' ends that\n",
        container.words(&root),
        root.display()
    );
    assert_eq!(said, wanted);
    assert!(refused("destroy tank").starts_with("cannot destroy 'tank': pool is busy\n"));
    let said = within(BOUND, "a destroy", || world.zfs_refuses("destroy tank/a")).expect("refused");
    let wanted = format!(
        "cannot destroy 'tank/a': dataset is busy\n{} still shows what is mounted at '{}'; 'zfs destroy -f tank/a' ends that\n",
        container.words(&place),
        place.display()
    );
    assert_eq!(said, wanted);
    // Others do not wait meanwhile, and all is mounted as before.
    assert!(is_mounted(&root) && is_mounted(&place));
    fs::write(place.join("still"), "z").expect("served");
    // By force, the container gets errors, also after the pool has come back.
    within(BOUND, "an export by force", || world.zpool("export -f tank"));
    fs::write(container.inside(&place).join("lost"), "x").expect_err("nobody serves it");
    world.import();
    fs::write(container.inside(&place).join("lost"), "x").expect_err("nobody serves it");
    assert_eq!(fs::read_to_string(place.join("still")).expect("kept"), "z");
    assert!(!place.join("lost").exists());
    drop(container);
    world.finish();
}

#[test]
fn a_container_that_starts_keeps_no_pool_from_an_export() {
    let Some((world, _)) = world_with_child() else { return };
    let container = Container::start();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            std::thread::sleep(Duration::from_secs(1));
            drop(container);
        });
        within(BOUND, "an export", || world.export());
    });
    world.import();
    world.finish();
}

#[test]
fn an_unmount_leaves_a_bind_mount() {
    let Some((world, place)) = world_with_child() else { return };
    let copy = world.root().with_file_name("copy");
    fs::create_dir(&copy).expect("a directory");
    mount_bind(&place, &copy).expect("a bind mount");
    within(PROMPT, "an unmount", || world.zfs("unmount tank/a"));
    assert!(!is_mounted(&place) && is_mounted(&copy));
    fs::write(copy.join("after"), "y").expect("the bind mount goes on");
    let refused = within(BOUND, "an export", || world.refused("export tank"));
    let by = format!("a bind mount at '{}' still shows what is mounted at", copy.display());
    assert!(
        refused.starts_with("cannot export 'tank': pool is busy\n") && refused.contains(&by),
        "{refused}"
    );
    let refused = world.zfs_refuses("mount tank/a").expect("a second session would have a second cache");
    assert!(refused.contains("a bind mount at"), "{refused}");
    within(BOUND, "an unmount by force", || world.zfs("unmount -f tank/a"));
    fs::write(copy.join("lost"), "x").expect_err("nobody serves it");
    world.zfs("mount tank/a");
    assert_eq!(fs::read_to_string(place.join("after")).expect("kept"), "y");
    unmount(&copy, UnmountFlags::DETACH).expect("unmounted");
    world.finish();
}
