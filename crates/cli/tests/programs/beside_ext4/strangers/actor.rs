//! Actors: each actor is a process that runs as one user, does one deed for each line that the process reads, and
//! reports the result.
//!
//! ```text
//!  driver ── "SCENE SEED NUMBER" ──► process of an actor ── result ──► driver
//! ```

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use super::deed::{HeldDescriptors, StrangerDeed};
use super::{GUEST, MEMBER_GROUP, NAME};
use crate::beside_ext4::probes::{GROUP, OTHER, OWNER};
use crate::beside_ext4::stage::Ext4Stage;

/// In the environment of a process of an actor: the directories of the scenes, separated by colons.
const SCENES: &str = "SAWMILL_TEST_SCENES";
/// In front of a line with a result.
const RESULT: &str = "deed ";
/// In front of the error of a deed that failed.
pub const REFUSED: &str = "refused: ";
/// The capabilities that the programs that run containers leave to root of a container (`docker run` without options).
const OF_CONTAINERS: &str = "-all,+chown,+dac_override,+fowner,+fsetid,+kill,+setgid,+setuid,+setpcap,\
     +net_bind_service,+net_raw,+sys_chroot,+mknod,+audit_write,+setfcap";

/// Who an actor is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    /// A user in a group of their own, and in the group that is shared.
    Owner,
    /// Another user in the group that is shared.
    Member,
    /// The same user outside of the group.
    Other,
    /// Root of a container in the user namespace of the host.
    ContainerRoot,
    /// Root of a user namespace that an ordinary user has made.
    NamespaceRoot,
    /// Root of the host.
    Root,
}

impl Who {
    /// All but root of the host.
    pub const STRANGERS: [Self; 5] =
        [Self::Owner, Self::Member, Self::Other, Self::ContainerRoot, Self::NamespaceRoot];

    /// True if the actor keeps set-id bits of what it writes.
    pub fn keeps_set_id(self) -> bool {
        matches!(self, Self::ContainerRoot | Self::NamespaceRoot | Self::Root)
    }

    fn command(self) -> Command {
        let mut command = Command::new("setpriv");
        let user = |command: &mut Command, uid: u32, groups: &[u32]| {
            let groups: Vec<String> = groups.iter().map(u32::to_string).collect();
            command.args(["--reuid", &uid.to_string(), "--regid", &uid.to_string()]);
            match groups.is_empty() {
                true => command.arg("--clear-groups"),
                false => command.args(["--groups", &groups.join(",")]),
            };
        };
        match self {
            Self::Owner => user(&mut command, OWNER, &[GROUP, MEMBER_GROUP]),
            Self::Member => user(&mut command, OTHER, &[GROUP]),
            Self::Other => user(&mut command, OTHER, &[]),
            Self::NamespaceRoot => {
                user(&mut command, GUEST, &[]);
                command.args(["unshare", "--user", "--map-root-user"]);
            }
            Self::ContainerRoot => {
                command.args(["--clear-groups", "--bounding-set", OF_CONTAINERS, "--inh-caps=-all"]);
            }
            Self::Root => {
                command.arg("--clear-groups");
            }
        }
        command
    }
}

/// A process of an actor. The process ends when this is dropped.
pub struct Actor {
    process: Child,
    asked: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Actor {
    /// Starts a process as `who`, for the scenes in these directories.
    pub fn start(stage: &Ext4Stage, who: Who, scenes: &[PathBuf]) -> Self {
        let mut command = who.command();
        stage.run_test(&mut command, NAME);
        command.env(SCENES, std::env::join_paths(scenes).expect("no colons"));
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().expect("setpriv runs");
        let asked = process.stdin.take();
        let answers = BufReader::new(process.stdout.take().expect("a pipe"));
        Self { process, asked, answers }
    }

    /// Has a deed done in a scene, and returns the result.
    pub fn perform(&mut self, scene: usize, seed: u64, number: u64) -> String {
        let asked = self.asked.as_mut().expect("it is open");
        writeln!(asked, "{scene} {seed} {number}").expect("the process reads");
        let mut line = String::new();
        loop {
            line.clear();
            assert_ne!(
                self.answers.read_line(&mut line).expect("the process answers"),
                0,
                "the process has ended"
            );
            // The test harness may have printed the start of this line.
            if let Some((_, result)) = line.split_once(RESULT) {
                return result.trim_end().to_owned();
            }
        }
    }
}

impl Drop for Actor {
    fn drop(&mut self) {
        drop(self.asked.take());
        // The process ends when its standard input does.
        let _ended = self.process.wait();
    }
}

/// Does what the driver asks for, if this process is one of an actor. Returns false in any other process.
pub fn is_actor() -> bool {
    let Some(scenes) = std::env::var_os(SCENES) else { return false };
    rustix::process::umask(rustix::fs::Mode::empty());
    let scenes: Vec<PathBuf> = std::env::split_paths(&scenes).collect();
    let mut held: Vec<(u64, HeldDescriptors)> =
        scenes.iter().map(|_| (0, HeldDescriptors::default())).collect();
    for line in std::io::stdin().lines() {
        let line = line.expect("text");
        let mut numbers = line.split(' ').map(|number| number.parse::<u64>().expect("a number"));
        let mut next = || numbers.next().expect("three numbers");
        let (scene, seed, number) = (next() as usize, next(), next());
        // A scene begins with nothing held.
        if held[scene].0 != seed {
            held[scene] = (seed, HeldDescriptors::default());
        }
        let root = scenes[scene].join(seed.to_string());
        let result = StrangerDeed::of(seed, number).perform(&root, &mut held[scene].1);
        println!("{RESULT}{}", result.unwrap_or_else(|errno| format!("{REFUSED}{errno}")));
    }
    true
}
