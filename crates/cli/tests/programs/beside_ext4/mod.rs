//! Rights and attributes beside those of ext4: the same operations by the same users on both, with the
//! same results.
//!
//! ```text
//!  test ─► pool, image of ext4 ─► itself in a mount namespace, as root: mounts the image
//!                                   │ for each file system: makes the directories of all probes
//!                                   ├─► itself as each user: does that user's probes, prints results
//!                                   └─ reads what the probes have left behind, and compares
//! ```
//! Each difference that is accepted stands in [`ACCEPTED`] with its reason, and in
//! `docs/mounting.md`.

mod probes;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, Permissions};
use std::io::Write;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use oracle::needs::Need;
use rustix::fs::Mode;

use crate::mounted::bounded;
use crate::shell::{ok, sh};
use probes::{IDENTITIES, Identity, OLD_SECS, Probe, SET_SECS};

const NAME: &str = "beside_ext4::rights_and_attributes_are_those_of_ext4";
/// Of the process in the namespace: the directory of the test, and the pool's mount.
const INSIDE: &str = "SAWMILL_TEST_DIRECTORY";
const MOUNT: &str = "SAWMILL_TEST_MOUNT";
/// Of a process that does probes: the file system, and whose probes.
const PROBED: &str = "SAWMILL_TEST_PROBED";
const AS: &str = "SAWMILL_TEST_AS";
/// In front of a line with the result of a probe.
const RESULT: &str = "probe ";
/// No fewer probes than this are worth the name of a comparison.
const PROBES_MIN: usize = 214;
const DOCUMENT: &str = include_str!("../../../../../docs/mounting.md");

/// A difference that is accepted: all these operations on all these subjects by all these identities
/// differ. No operations, subjects or identities stand for all.
struct Accepted {
    operations: &'static [&'static str],
    subjects: &'static [&'static str],
    identities: &'static [&'static str],
    /// Words of `docs/mounting.md`, in lines of whatever length.
    document: &'static str,
}

/// Operations that change the contents of a file. The kernel checks the rights of who does them.
const CHANGES: &[&str] = &[
    "write",
    "append",
    "write, O_SYNC",
    "write, O_DSYNC",
    "write, O_DIRECT",
    "truncate",
    "ftruncate, shorter",
    "ftruncate, longer",
    "open, O_TRUNC",
    "open, O_RDONLY|O_TRUNC",
    "fallocate",
    "fallocate, PUNCH_HOLE",
    "fallocate, ZERO_RANGE",
    "copy_file_range",
];
/// Those whose request does not say whether the caller may keep set-id bits.
const SILENT: &[&str] = &["fallocate", "fallocate, PUNCH_HOLE", "fallocate, ZERO_RANGE", "copy_file_range"];
/// Files that lose set-id bits whoever changes them.
const SET_ID: &[&str] = &["04755", "02755", "04666", "06777", "02775 with an ACL", "06777 with capabilities"];
/// Identities that are neither in the group of the file nor allowed to keep its set-group-id bit.
const OUTSIDE: &[&str] = &["owner outside", "other", "other+fowner", "other+chown"];
const MANDATORY: &str = "Set-group-id without execution by the group stays";
const NOTHING: &str = "`chown` with neither an owner nor a group leaves set-id bits in place";
const GIVEN: &str = "CAP_CHOWN alone gives away a file with set-id bits";
const KEPT: &str = "clear set-id bits, even for root";
const RESERVED: &str =
    "`fallocate` with FALLOC_FL_KEEP_SIZE that only reserves space leaves the modification time";
const SAME: &str = "An extended attribute or ACL that is set to the value that it has changes the ctime";

/// All differences that are accepted.
const ACCEPTED: &[Accepted] = &[
    // The kernel sends one flag for set-user-id and set-group-id, and does not say who is in the group.
    // Without execution by the group, the kernel gives nobody the group.
    Accepted { operations: CHANGES, subjects: &["02767"], identities: OUTSIDE, document: MANDATORY },
    Accepted {
        operations: &["chown, to oneself", "chgrp, to one's own", "chgrp, as it is"],
        subjects: &["02767"],
        identities: &["owner outside"],
        document: MANDATORY,
    },
    // The request looks as one that anybody may make, and that changes nothing.
    Accepted { operations: &["chown, nothing"], subjects: SET_ID, identities: &[], document: NOTHING },
    Accepted {
        operations: &["chown, nothing"],
        subjects: &["02767"],
        identities: OUTSIDE,
        document: NOTHING,
    },
    // ext4 removes the bits as a change of the mode, which needs CAP_FOWNER too.
    Accepted {
        operations: &[
            "chown, to oneself",
            "chown, to a stranger",
            "chgrp, to one's own",
            "chgrp, as it is",
            "chgrp, to a stranger's",
        ],
        subjects: &[
            "02767",
            "04755",
            "02755",
            "04666",
            "06777",
            "02775 with an ACL",
            "06777 with capabilities",
        ],
        identities: &["other+chown"],
        document: GIVEN,
    },
    Accepted { operations: SILENT, subjects: SET_ID, identities: &["root"], document: KEPT },
    Accepted {
        operations: SILENT,
        subjects: &["04666", "06777", "02775 with an ACL", "06777 with capabilities"],
        identities: &["other+fsetid"],
        document: KEPT,
    },
    // Nothing is written, as in OpenZFS.
    Accepted {
        operations: &["fallocate, KEEP_SIZE"],
        subjects: &["04755", "02755", "0644 with capabilities"],
        identities: &["owner", "owner outside", "root"],
        document: RESERVED,
    },
    Accepted {
        operations: &["fallocate, KEEP_SIZE"],
        subjects: &[
            "02767",
            "04666",
            "06777",
            "02775 with an ACL",
            "0777 with capabilities",
            "06777 with capabilities",
        ],
        identities: &[],
        document: RESERVED,
    },
    // ext4 compares the values.
    Accepted {
        operations: &["set an ACL that a mode says"],
        subjects: &["04755"],
        identities: &["owner", "owner outside", "other+fowner", "root"],
        document: SAME,
    },
    Accepted {
        operations: &["set an ACL that a mode says"],
        subjects: &["02755"],
        identities: &["owner", "root"],
        document: SAME,
    },
    Accepted {
        operations: &["set an ACL"],
        subjects: &["directory 02777 with ACLs"],
        identities: &["owner", "root"],
        document: SAME,
    },
    Accepted {
        operations: &["set capabilities"],
        subjects: &["0644 with capabilities", "0777 with capabilities", "06777 with capabilities"],
        identities: &["root"],
        document: SAME,
    },
];

impl Accepted {
    fn has(&self, probe: &Probe) -> bool {
        let is_one = |names: &[&str], name| names.is_empty() || names.contains(&name);
        is_one(self.operations, probe.operation.name)
            && is_one(self.subjects, probe.subject.name)
            && is_one(self.identities, probe.identity.name)
    }
}

#[test]
fn rights_and_attributes_are_those_of_ext4() {
    if let (Some(root), Some(identity)) = (std::env::var_os(PROBED), std::env::var_os(AS)) {
        return probe_as(
            Path::new(&root),
            IDENTITIES.iter().find(|one| identity == one.name).expect("known"),
        );
    }
    if let (Some(dir), Some(mount)) = (std::env::var_os(INSIDE), std::env::var_os(MOUNT)) {
        return compare(Path::new(&dir), Path::new(&mount));
    }
    let Some(world) = crate::world(&["mkfs.ext4", "losetup", "setpriv", "unshare", "python3"]) else {
        return;
    };
    world.zfs("create -o acltype=posix tank/fs");
    let dir = tempfile::tempdir().expect("a directory");
    fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).expect("permissions");
    sh("truncate -s 512M image; mkfs.ext4 -q -F -I 256 -N 100000 image; mkdir ext4", dir.path());
    // A user cannot start a program in a directory of root's.
    let this = std::env::current_exe().expect("this program");
    fs::copy(this, dir.path().join("probe")).expect("a copy");
    if !can_loop() {
        return Need::Loop.is_missing("no loop device can be set up");
    }
    let mut inside = bounded(Path::new("unshare"));
    inside.args(["--mount", "--", &dir.path().join("probe").display().to_string()]);
    inside.args(["--exact", NAME, "--nocapture"]);
    inside.env(INSIDE, dir.path()).env(MOUNT, world.root().join("fs"));
    let output = inside.output().expect("unshare runs");
    let [out, err] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    assert!(output.status.success() && out.contains("1 passed"), "{}\n{out}{err}", output.status);
    world.finish();
}

fn can_loop() -> bool {
    Path::new("/dev/loop-control").exists()
        && Command::new("losetup").arg("--find").output().is_ok_and(|output| output.status.success())
}

/// Does the probes of one identity, and prints their results.
fn probe_as(root: &Path, identity: &Identity) {
    rustix::process::umask(Mode::from_raw_mode(0o022));
    for probe in Probe::all() {
        if probe.identity.name == identity.name && !probe.is_mapping() {
            let result = match probe.perform(root) {
                Ok(told) => format!("done {told}"),
                Err(error) => format!("{error}"),
            };
            println!("{RESULT}{} {result}", probe.number);
        }
    }
}

/// Runs in a mount namespace of its own.
fn compare(dir: &Path, mount: &Path) {
    let ext4 = dir.join("ext4");
    ok(Command::new("mount").args(["-o", "loop"]).arg(dir.join("image")).arg(&ext4));
    let probes = Probe::all();
    assert!(probes.len() >= PROBES_MIN, "{} probes", probes.len());
    let [ours, theirs] = [mount, &ext4].map(|root| outcomes(dir, root, &probes));
    let mut unknown = Vec::new();
    let mut differing = BTreeSet::new();
    for (probe, (ours, theirs)) in probes.iter().zip(ours.iter().zip(&theirs)) {
        if ours != theirs {
            differing.insert(probe.number);
            if !ACCEPTED.iter().any(|accepted| accepted.has(probe)) {
                let Probe { identity, subject, operation, .. } = probe;
                let what = format!("{}; {}; {}", operation.name, subject.name, identity.name);
                unknown.push(format!("{what}\n  here: {ours}\n  ext4: {theirs}"));
            }
        }
    }
    println!("{} probes, {} differences", probes.len(), differing.len());
    assert!(unknown.is_empty(), "{} differences:\n{}", unknown.len(), unknown.join("\n"));
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    for accepted in ACCEPTED {
        let meant = || probes.iter().filter(|probe| accepted.has(probe));
        assert!(meant().count() > 0, "no probe is meant by '{}'", accepted.document);
        let same: Vec<_> = meant().filter(|probe| !differing.contains(&probe.number)).collect();
        let same: Vec<_> = same
            .iter()
            .map(|probe| format!("{}; {}; {}", probe.operation.name, probe.subject.name, probe.identity.name))
            .collect();
        assert!(same.is_empty(), "no difference any more ('{}'):\n{}", accepted.document, same.join("\n"));
        assert!(
            words(DOCUMENT).contains(&words(accepted.document)),
            "docs/mounting.md: '{}'",
            accepted.document
        );
    }
}

/// What each probe came to on a file system: the result, and what is left.
fn outcomes(dir: &Path, root: &Path, probes: &[Probe]) -> Vec<String> {
    probes.iter().for_each(|probe| probe.prepare(root));
    let before: Vec<_> = probes.iter().map(|probe| changed(&probe.place(root))).collect();
    let mut results = BTreeMap::new();
    for identity in IDENTITIES {
        let mut command = as_identity(identity);
        command.arg(dir.join("probe")).args(["--exact", NAME, "--nocapture", "--test-threads=1"]);
        command.env_remove(INSIDE).env(PROBED, root).env(AS, identity.name).current_dir("/");
        read_results(&ok(&mut command), &mut results);
    }
    map_files(root, probes, &mut results);
    let after = probes.iter().zip(&before).map(|(probe, before)| {
        let result = results.remove(&probe.number);
        let result = result.unwrap_or_else(|| panic!("probe {} has no result", probe.number));
        format!("{result}{}", left(&probe.place(root), before))
    });
    after.collect()
}

fn read_results(printed: &str, into: &mut BTreeMap<usize, String>) {
    for line in printed.lines() {
        // The test's own line may precede the first.
        let Some((_, line)) = line.split_once(RESULT) else { continue };
        let (number, result) = line.split_once(' ').expect("a result");
        into.insert(number.parse().expect("a number"), result.trim_end().to_owned());
    }
}

/// A command that runs as the identity.
fn as_identity(identity: &Identity) -> Command {
    let mut command = Command::new("setpriv");
    if identity.uid == 0 {
        command.arg("--clear-groups");
        return command;
    }
    let uid = identity.uid.to_string();
    command.args(["--reuid", &uid, "--regid", &uid]);
    match identity.in_group {
        true => command.args(["--groups", &probes::GROUP.to_string()]),
        false => command.arg("--clear-groups"),
    };
    let capabilities = identity.capability.map_or("-all".to_owned(), |one| format!("-all,+{one}"));
    command.args(["--inh-caps", &capabilities, "--ambient-caps", &capabilities]);
    command
}

/// Maps files and changes them. Safe Rust has no way to do that.
const MAP: &str = r#"
import mmap, os, sys
for line in sys.stdin:
    number, path, uid, group = line.split()
    child = os.fork()
    if child == 0:
        uid, group = int(uid), int(group)
        if uid:
            os.setgroups([group] if group else [])
            os.setresgid(uid, uid, uid)
            os.setresuid(uid, uid, uid)
        try:
            file = os.open(path, os.O_RDWR)
            mapped = mmap.mmap(file, 4096)
            mapped[0:1] = b"m"
            mapped.flush()
            mapped.close()
            os.close(file)
        except OSError as error:
            os._exit(error.errno)
        os._exit(0)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    print("probe", number, status)
"#;

fn map_files(root: &Path, probes: &[Probe], results: &mut BTreeMap<usize, String>) {
    let mut command = bounded(Path::new("python3"));
    command.args(["-c", MAP]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("python3 runs");
    let mut lines = String::new();
    for probe in probes.iter().filter(|probe| probe.is_mapping()) {
        let group = if probe.identity.in_group { probes::GROUP } else { 0 };
        let path = probe.place(root).join("f");
        lines += &format!("{} {} {} {group}\n", probe.number, path.display(), probe.identity.uid);
    }
    let mut stdin = child.stdin.take().expect("a pipe");
    stdin.write_all(lines.as_bytes()).expect("it reads");
    drop(stdin);
    let output = child.wait_with_output().expect("it ends");
    read_results(&crate::shell::text("python3", &output), results);
}

/// All below a directory, and the directory, by their paths.
fn all(place: &Path) -> BTreeMap<String, PathBuf> {
    let mut found = BTreeMap::from([(String::from("."), place.to_owned())]);
    let mut dirs = vec![place.to_owned()];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(&dir).expect("a directory") {
            let path = entry.expect("an entry").path();
            let is_directory = fs::symlink_metadata(&path).expect("it is there").is_dir();
            dirs.extend(is_directory.then(|| path.clone()));
            let name = path.strip_prefix(place).expect("below").display().to_string();
            found.insert(name, path);
        }
    }
    found
}

/// When each was changed last.
fn changed(place: &Path) -> BTreeMap<String, (i64, i64)> {
    let time = |path: &Path| {
        let found = fs::symlink_metadata(path).expect("it is there");
        (found.ctime(), found.ctime_nsec())
    };
    all(place).into_iter().map(|(name, path)| (name, time(&path))).collect()
}

/// What a probe has left behind. Directories have sizes of their own on each file system.
fn left(place: &Path, before: &BTreeMap<String, (i64, i64)>) -> String {
    let mut text = String::new();
    for (name, path) in all(place) {
        let found = fs::symlink_metadata(&path).expect("it is there");
        let kind = found.file_type();
        let what = if kind.is_symlink() {
            format!("-> {}", fs::read_link(&path).expect("a link").display())
        } else if kind.is_char_device() {
            format!("device {}", found.rdev())
        } else if kind.is_file() {
            format!("{} bytes", found.len())
        } else {
            String::new()
        };
        let mtime = match found.mtime() {
            OLD_SECS => "old",
            SET_SECS => "set",
            _ => "new",
        };
        let is_same = before.get(&name) == Some(&(found.ctime(), found.ctime_nsec()));
        let ctime = if is_same { "same" } else { "changed" };
        let (mode, links) = (found.mode(), found.nlink());
        let owners = format!("{}:{}", found.uid(), found.gid());
        text += &format!("\n    {name} {mode:o} {owners} {links} {what} {mtime} {ctime}");
        if !kind.is_symlink() {
            text += &attributes(&path);
        }
    }
    text
}

fn attributes(path: &Path) -> String {
    let mut names = vec![0_u8; 4096];
    let len = rustix::fs::listxattr(path, &mut names).expect("names");
    let names: BTreeSet<&[u8]> =
        names[..len].split(|byte| *byte == 0).filter(|name| !name.is_empty()).collect();
    let mut text = String::new();
    for name in names {
        let mut value = [0_u8; 256];
        let len = rustix::fs::getxattr(path, name, &mut value).expect("a value");
        text += &format!(" {}={}", name.escape_ascii(), value[..len].escape_ascii());
    }
    text
}
