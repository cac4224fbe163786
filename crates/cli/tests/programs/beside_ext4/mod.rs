//! Rights and attributes beside those of ext4: the same operations by the same users on both, with the
//! same results.
//!
//! ```text
//!  test ─► stage, as root: for each file system, makes the directories of all probes
//!           ├─► itself as each user: does that user's probes, prints results
//!           └─ reads what the probes have left behind, and compares
//! ```
//! Each difference that is accepted stands in [`ACCEPTED`] with its reason, and in
//! `docs/mounting.md`.

mod probes;
mod stage;
mod strangers;
mod tree;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::fs::Mode;

use crate::mounted::bounded;
use crate::shell::ok;
use probes::{IDENTITIES, Identity, OLD_SECS, Probe, SET_SECS};
use stage::Ext4Stage;

const NAME: &str = "beside_ext4::rights_and_attributes_are_those_of_ext4";
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
    match Ext4Stage::inside() {
        Some(stage) => compare(&stage),
        None => Ext4Stage::around(NAME, &["python3"]),
    }
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

fn compare(stage: &Ext4Stage) {
    let probes = Probe::all();
    assert!(probes.len() >= PROBES_MIN, "{} probes", probes.len());
    let [ours, theirs] = [&stage.ours, &stage.ext4].map(|root| outcomes(stage, root, &probes));
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
fn outcomes(stage: &Ext4Stage, root: &Path, probes: &[Probe]) -> Vec<String> {
    probes.iter().for_each(|probe| probe.prepare(root));
    let before: Vec<_> = probes.iter().map(|probe| changed(&probe.place(root))).collect();
    let mut results = BTreeMap::new();
    for identity in IDENTITIES {
        let mut command = as_identity(identity);
        stage.run_test(&mut command, NAME);
        command.env(PROBED, root).env(AS, identity.name);
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

/// When each was changed last.
fn changed(place: &Path) -> BTreeMap<String, (i64, i64)> {
    let time = |path: &Path| {
        let found = fs::symlink_metadata(path).expect("it is there");
        (found.ctime(), found.ctime_nsec())
    };
    tree::all(place).into_iter().map(|(name, path)| (name, time(&path))).collect()
}

/// What a probe has left behind.
fn left(place: &Path, before: &BTreeMap<String, (i64, i64)>) -> String {
    let mut text = String::new();
    for (name, path) in tree::all(place) {
        let found = fs::symlink_metadata(&path).expect("it is there");
        let mtime = match found.mtime() {
            OLD_SECS => "old",
            SET_SECS => "set",
            _ => "new",
        };
        let is_same = before.get(&name) == Some(&(found.ctime(), found.ctime_nsec()));
        let ctime = if is_same { "same" } else { "changed" };
        let (rights, kind) = (tree::rights(&found), tree::kind(&path, &found));
        text += &format!("\n    {name} {rights} {kind} {mtime} {ctime}");
        if !found.is_symlink() {
            text += &tree::attributes(&path);
        }
    }
    text
}
