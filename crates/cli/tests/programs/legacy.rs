//! `mount -t zfs`, /etc/fstab and `mountpoint=legacy`.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use rustix::fs::StatVfsMountFlags;
use rustix::process::{Signal, kill_process};

use crate::mounted::{World, kernel_mounts};
use crate::shell::until;

/// Runs `mount` with these words where /sbin has the helper for the type `zfs`.
fn mount(world: &World, words: &str) -> Output {
    let work = world.run_dir().with_file_name("sbin");
    fs::create_dir_all(&work).expect("a directory");
    // The daemon mounts in its own mount namespace; only /sbin is private here.
    let script = format!(
        "mount -t tmpfs tmpfs {work} && mkdir {work}/upper {work}/work && \
         mount -t overlay overlay -o lowerdir=/usr/sbin,upperdir={work}/upper,workdir={work}/work /usr/sbin && \
         ln -sf {helper} /sbin/mount.zfs && exec mount {words}",
        work = work.display(),
        helper = env!("CARGO_BIN_EXE_sawmill"),
    );
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private", "sh", "-ec", &script]);
    command.env("SAWMILL_RUN", world.run_dir()).output().expect("unshare runs")
}

fn mounts(world: &World, words: &str) {
    let output = mount(world, words);
    assert!(output.status.success(), "mount {words}: {}", String::from_utf8_lossy(&output.stderr));
}

fn refused(world: &World, words: &str) -> String {
    let output = mount(world, words);
    assert_eq!(output.status.code(), Some(32), "mount {words}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The line of the table of mounts for a mount point.
fn line(at: &Path) -> Option<String> {
    let table = kernel_mounts("/proc/self/mountinfo");
    table
        .lines()
        .find(|line| line.split(' ').nth(4).is_some_and(|place| Path::new(place) == at))
        .map(str::to_owned)
}

fn world() -> Option<(World, PathBuf)> {
    let world = crate::world(&["mount", "umount", "unshare"])?;
    let place = world.root().with_file_name("legacy");
    fs::create_dir(&place).expect("a directory");
    Some((world, place))
}

#[test]
fn mount_of_a_legacy_file_system_takes_any_directory() {
    let Some((world, place)) = world() else { return };
    world.zfs("create -o mountpoint=legacy tank/a");
    assert!(line(&place).is_none());
    let at = place.display();
    mounts(&world, &format!("-t zfs -o noexec,nofail,x-systemd.automount tank/a {at}"));
    let shown = line(&place).expect("it is mounted");
    assert!(shown.contains(" - fuse.sawmill tank/a ") && shown.contains("noexec"), "{shown}");
    assert_eq!(world.zfs_prints("get -H -o value mounted tank/a"), "yes\n");
    fs::write(place.join("file"), "x").expect("written");
    assert!(refused(&world, &format!("-t zfs tank/a {at}")).contains("filesystem already mounted"));
    // A renamed file system stays where mount(8) has put it.
    world.zfs("rename tank/a tank/b");
    assert!(line(&place).expect("it is mounted").contains(" - fuse.sawmill tank/b "));
    assert_eq!(fs::read_to_string(place.join("file")).expect("kept"), "x");
    let output = Command::new("umount").arg(&place).output().expect("umount runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(line(&place).is_none());
    let said = world.zfs_refuses("mount tank/b").expect("mount(8) chooses the place");
    assert_eq!(said, "cannot mount 'tank/b': legacy mountpoint\nuse mount(8) to mount this filesystem\n");
    // By a line of fstab.
    let fstab = world.run_dir().with_file_name("fstab");
    fs::write(&fstab, format!("tank/b {at} zfs defaults,ro 0 0\n")).expect("written");
    mounts(&world, &format!("--fstab {} {at}", fstab.display()));
    assert!(fs::write(place.join("more"), "x").is_err(), "it is read only");
    let said = world.zfs_refuses("unmount tank/b").expect("umount(8) is meant for it");
    assert_eq!(
        said,
        "cannot unmount 'tank/b': legacy mountpoint\nuse umount(8) to unmount this filesystem\n"
    );
    // It is no obstacle for an export.
    world.finish();
}

#[test]
fn mount_leaves_file_systems_with_a_mount_point_to_zfs() {
    let Some((world, place)) = world() else { return };
    let at = place.display();
    world.zfs("create tank/a");
    world.zfs("unmount tank/a");
    let wanted = "filesystem 'tank/a' cannot be mounted using 'mount'.\n\
                  Use 'zfs set mountpoint=legacy' or 'zfs mount tank/a'.\n\
                  See zfs(8) for more information.\n";
    assert_eq!(refused(&world, &format!("-t zfs tank/a {at}")), wanted);
    mounts(&world, &format!("-t zfs -o zfsutil tank/a {at}"));
    assert!(line(&place).is_some());
    world.zfs("unmount tank/a");
    world.zfs("set mountpoint=legacy tank/a");
    let said = refused(&world, &format!("-t zfs -o zfsutil tank/a {at}"));
    assert!(said.starts_with("filesystem 'tank/a' cannot be mounted using 'zfs mount'.\n"), "{said}");
    assert!(refused(&world, &format!("-t zfs tank/none {at}")).contains("dataset does not exist"));
    // mount(8) itself refuses a missing directory. Other programs call the helper without mount(8).
    let helper = |place: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sawmill"));
        std::os::unix::process::CommandExt::arg0(&mut command, "mount.zfs");
        let output =
            command.args(["tank/a", place]).env("SAWMILL_RUN", world.run_dir()).output().expect("it runs");
        assert_eq!(output.status.code(), Some(32), "{place}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    assert!(helper("/dev/null").contains("cannot be mounted at '/dev/null': Not a directory"));
    assert!(helper("/no/where").contains("cannot be mounted at '/no/where': No such file or directory"));
    assert!(!Path::new("/no").exists());
    assert!(refused(&world, &format!("-t zfs -o bogus tank/a {at}")).contains("'bogus' is not supported"));
    world.finish();
}

#[test]
fn a_mounted_file_system_is_remounted_by_its_name() {
    let Some((world, _)) = world() else { return };
    world.zfs("create tank/r");
    let file = world.root().join("r/file");
    world.zfs("mount -o remount,ro tank/r");
    assert_eq!(fs::write(&file, "x").expect_err("read only").kind(), std::io::ErrorKind::ReadOnlyFilesystem);
    world.zfs("mount -o remount,rw tank/r");
    fs::write(&file, "x").expect("written");
    world.zfs("unmount tank/r");
    assert!(
        world
            .zfs_refuses("mount -o remount,ro tank/r")
            .is_some_and(|said| said.contains("not currently mounted"))
    );
    world.finish();
}

/// A server that is killed leaves mounts that answer no request. The next server mounts each file
/// system at its former place.
#[test]
fn unmounting_all_leaves_what_was_mounted_by_name() {
    let Some((world, place)) = world() else { return };
    let noauto = place.with_file_name("noauto");
    world.zfs("create -o mountpoint=legacy tank/a");
    world.zfs(&format!("create -o canmount=noauto -o mountpoint={} tank/b", noauto.display()));
    world.zfs("create tank/c");
    mounts(&world, &format!("-t zfs tank/a {}", place.display()));
    world.zfs("mount tank/b");
    for all in ["unmount -a", "unmount -f -a"] {
        world.zfs(all);
        let mut left: Vec<_> =
            [("tank/a", &place), ("tank/b", &noauto)].map(|(name, at)| line_of(name, at)).into();
        left.sort();
        let mut shown: Vec<_> = world.zfs_prints("mount").lines().map(str::to_owned).collect();
        shown.sort();
        assert_eq!(shown, left, "{all}");
    }
    world.zfs("unmount tank/b");
    world.finish();
}

/// Returns the line of `zfs mount` for a mount.
fn line_of(dataset: &str, at: &Path) -> String {
    format!("{dataset:30}  {}", at.display())
}

#[test]
fn what_was_mounted_is_mounted_again_after_a_kill() {
    let Some((world, place)) = world() else { return };
    let [noauto, given] = ["b", "c"].map(|name| world.root().join(name));
    let unmounted = place.with_file_name("unmounted");
    fs::create_dir(&unmounted).expect("a directory");
    for options in
        ["mountpoint=legacy tank/a", "canmount=noauto tank/b", "exec=on tank/c", "mountpoint=legacy tank/d"]
    {
        world.zfs(&format!("create -o {options}"));
    }
    mounts(&world, &format!("-t zfs -o noexec tank/a {}", place.display()));
    mounts(&world, &format!("-t zfs tank/d {}", unmounted.display()));
    let output = Command::new("umount").arg(&unmounted).output().expect("umount runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    world.zfs("mount tank/b");
    world.zfs("unmount tank/c");
    world.zfs("mount -o ro tank/c");
    for root in [&place, &noauto] {
        let mut file = File::create(root.join("file")).expect("made");
        file.write_all(b"x").and_then(|()| file.sync_all()).expect("written");
    }
    for is_of_daemon in [true, false] {
        if is_of_daemon {
            world.kill_daemon();
            world.restart();
        } else {
            kill_process(world.server(), Signal::KILL).expect("it lives");
        }
        let is_back = |root: &PathBuf| fs::read_to_string(root.join("file")).is_ok_and(|text| text == "x");
        until(|| is_back(&place) && is_back(&noauto), "both are mounted again");
        let is_read_only =
            || rustix::fs::statvfs(&given).is_ok_and(|at| at.f_flag.contains(StatVfsMountFlags::RDONLY));
        until(is_read_only, "the third is mounted again");
        let written = fs::write(given.join("file"), "x").expect_err("it is read only");
        assert_eq!(written.kind(), std::io::ErrorKind::ReadOnlyFilesystem);
        assert_eq!(world.zfs_prints("get -Ho value,source readonly tank/c"), "on\ttemporary\n");
        assert!(line(&place).is_some_and(|line| line.contains("noexec")));
        assert!(line(&unmounted).is_none(), "somebody has unmounted this one");
        let table = kernel_mounts("/proc/self/mountinfo");
        for root in [&place, &noauto, &given] {
            let at = |line: &&str| line.split(' ').nth(4).is_some_and(|place| Path::new(place) == root);
            assert_eq!(table.lines().filter(at).count(), 1, "no dead mount is below {}", root.display());
        }
    }
    let said = world.zfs_refuses("unmount tank/a").expect("umount(8) is meant for it");
    assert!(said.contains("legacy mountpoint"), "{said}");
    world.finish();
}
