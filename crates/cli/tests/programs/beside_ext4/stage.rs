//! A file system of a pool and one of ext4, side by side in a mount namespace.
//!
//! ```text
//!  test ─► pool, image of ext4 ─► itself in a mount namespace, as root: mounts the image, compares
//! ```

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use oracle::needs::Need;

use crate::shell::{ok, sh};

/// Environment of the process in the namespace: the directory of the test, and the mount of the pool.
const INSIDE: &str = "SAWMILL_TEST_DIRECTORY";
const MOUNT: &str = "SAWMILL_TEST_MOUNT";
/// A copy of this program, which every user can start.
const PROGRAM: &str = "probe";

/// The mount of the pool and the mount of ext4 in the namespace.
pub struct Ext4Stage {
    pub ours: PathBuf,
    pub ext4: PathBuf,
    program: PathBuf,
}

impl Ext4Stage {
    /// In the namespace: mounts the image of ext4. `None` outside.
    pub fn inside() -> Option<Self> {
        let dir = PathBuf::from(std::env::var_os(INSIDE)?);
        let ext4 = dir.join("ext4");
        ok(Command::new("mount").args(["-o", "loop"]).arg(dir.join("image")).arg(&ext4));
        Some(Self { ours: std::env::var_os(MOUNT)?.into(), ext4, program: dir.join(PROGRAM) })
    }

    /// Makes the pool and the image, and runs the test `name` inside. `programs` are what the test needs.
    pub fn around(name: &str, programs: &[&'static str]) {
        let needs = [&["mkfs.ext4", "losetup", "setpriv", "unshare"], programs].concat();
        let Some(world) = crate::world(&needs) else { return };
        world.zfs("create -o acltype=posix tank/fs");
        let dir = tempfile::tempdir().expect("a directory");
        fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).expect("permissions");
        sh("truncate -s 512M image; mkfs.ext4 -q -F -I 256 -N 100000 image; mkdir ext4", dir.path());
        // A user cannot start a program in a directory of root's.
        let program = dir.path().join(PROGRAM);
        fs::copy(std::env::current_exe().expect("this program"), &program).expect("a copy");
        if !can_loop() {
            return Need::Loop.is_missing("no loop device can be set up");
        }
        let mut inside = Command::new("unshare");
        inside.args(["--mount", "--", &program.display().to_string(), "--exact", name, "--nocapture"]);
        inside.env(INSIDE, dir.path()).env(MOUNT, world.root().join("fs"));
        let output = inside.output().expect("unshare runs");
        let [out, err] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
        assert!(output.status.success() && out.contains("1 passed"), "{}\n{out}{err}", output.status);
        print!("{out}");
        world.finish();
    }

    /// Adds to `command`, which runs a program as somebody, the test `name` of this program. The test does not find
    /// itself inside.
    pub fn run_test(&self, command: &mut Command, name: &str) {
        command.arg(&self.program).args(["--exact", name, "--nocapture", "--test-threads=1"]);
        command.env_remove(INSIDE).current_dir("/");
    }
}

fn can_loop() -> bool {
    Path::new("/dev/loop-control").exists()
        && Command::new("losetup").arg("--find").output().is_ok_and(|output| output.status.success())
}
