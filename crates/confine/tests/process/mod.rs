//! This program, started again: confines itself if it is to, makes probes, and prints what came of
//! each.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::net::UnixListener;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use confine::{ConfineError, Confined, Confinement, PoolUser};
use nix::errno::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::{
    CapabilitySet, CapabilitySets, Gid, Uid, capabilities, configure_capability_in_ambient_set,
    set_capabilities, set_thread_groups, set_thread_res_gid, set_thread_res_uid,
};

use crate::world::{NUMBER, World};
use crate::{reach, work};

/// Has the process run probes, and tells it which.
const PROBES: &str = "SAWMILL_TEST_PROBES";
const KIND: &str = "SAWMILL_TEST_KIND";
const DIR: &str = "SAWMILL_TEST_DIR";
const PORT: &str = "SAWMILL_TEST_PORT";
/// Stands before each line of an answer.
const MARK: &str = "answer| ";

/// The ordinary user, and the user's group.
pub const ORDINARY: u32 = 12_007;

/// What becomes of the process before it makes probes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartKind {
    /// Nothing.
    Free,
    Confined,
    /// Confined with a second thread, which is refused.
    TwoThreads,
    /// Confined as a user without rights, which is refused.
    User,
    /// Confined without the rights that a container or a unit of systemd may lack.
    FewRights,
    /// Confined as the process of an ordinary user's daemon is, by that user.
    OrdinaryUser,
}

const KINDS: [StartKind; 6] = [
    StartKind::Free,
    StartKind::Confined,
    StartKind::TwoThreads,
    StartKind::User,
    StartKind::FewRights,
    StartKind::OrdinaryUser,
];

/// What came of each probe: `ok`, or the name of an error.
pub type Answers = BTreeMap<String, String>;

/// A probe: what is tried.
pub type Probe = (&'static str, fn(&Place) -> io::Result<()>);

/// What a process knows of the world, and what it was given before it was confined.
pub struct Place {
    pub dir: PathBuf,
    pub port: u16,
    pub file: File,
    pub listener: UnixListener,
    /// A process of the ordinary user. It ends when its standard input does.
    pub kin: Child,
}

/// Runs probes in a process of their own.
pub fn answers_of(world: &World, kind: StartKind, probes: &str) -> Answers {
    world.renew();
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.env(PROBES, probes).env(KIND, format!("{kind:?}"));
    command.env(DIR, world.dir()).env(PORT, world.port().to_string());
    let output = command.output().expect("it starts");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let lines = text.lines().filter_map(|line| line.split_once(MARK)?.1.split_once(": = "));
    let answers: Answers = lines.map(|(name, answer)| (name.to_owned(), answer.to_owned())).collect();
    assert!(answers.contains_key("end"), "{kind:?}: {text}{}", String::from_utf8_lossy(&output.stderr));
    answers
}

fn tell(name: &str, answer: impl std::fmt::Display) {
    println!("{MARK}{name}: = {answer}");
}

/// The body of the process. False if this process runs the tests.
pub fn run_if_started() -> bool {
    let Some(probes) = std::env::var_os(PROBES) else { return false };
    let place = Place::new();
    take_much();
    match confined_as(kind()) {
        Err(error) => tell("confine", error),
        Ok(confined) => {
            confined.iter().for_each(tell_walls);
            probe(probes, &place);
        }
    }
    tell("end", "");
    true
}

/// Takes groups and inheritable capabilities, of which root has none by itself.
fn take_much() {
    set_thread_groups(&[Gid::from_raw(4), Gid::from_raw(6)]).expect("root's right");
    let own = capabilities(None).expect("read");
    set_capabilities(None, CapabilitySets { inheritable: CapabilitySet::CHOWN, ..own })
        .expect("root's right");
    configure_capability_in_ambient_set(CapabilitySet::CHOWN, true).expect("root's right");
}

fn kind() -> StartKind {
    let name = std::env::var(KIND).expect("a kind");
    KINDS.into_iter().find(|kind| format!("{kind:?}") == name).expect("one of them")
}

fn confined_as(kind: StartKind) -> Result<Option<Confined>, ConfineError> {
    let user = PoolUser::nth(NUMBER).expect("a user");
    let readable = vec!["/proc".into(), "/sys".into(), std::env::current_exe().expect("this program")];
    let user = (kind != StartKind::OrdinaryUser).then_some(user);
    let confinement = Confinement { user, readable };
    let another = (kind == StartKind::TwoThreads).then(|| std::thread::spawn(std::thread::park));
    match kind {
        StartKind::Free => return Ok(None),
        StartKind::User => set_capabilities(None, sets(CapabilitySet::empty())).expect("given up"),
        StartKind::FewRights => {
            setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) })
                .expect("anybody's right");
            set_capabilities(None, sets(few_rights())).expect("given up");
        }
        StartKind::OrdinaryUser => become_ordinary(),
        StartKind::Confined | StartKind::TwoThreads => {}
    }
    let confined = confine::confine(&confinement).map(Some);
    drop(another);
    confined
}

fn become_ordinary() {
    let (user, group) = (Uid::from_raw(ORDINARY), Gid::from_raw(ORDINARY));
    set_thread_groups(&[]).expect("root's right");
    set_thread_res_gid(group, group, group).expect("root's right");
    set_thread_res_uid(user, user, user).expect("root's right");
}

fn few_rights() -> CapabilitySet {
    let lacking = CapabilitySet::SYS_ADMIN | CapabilitySet::SYS_RESOURCE | CapabilitySet::SETPCAP;
    capabilities(None).expect("read").effective - lacking
}

fn sets(all: CapabilitySet) -> CapabilitySets {
    CapabilitySets { effective: all, permitted: all, inheritable: CapabilitySet::empty() }
}

fn tell_walls(confined: &Confined) {
    tell("network", format!("{:?}", confined.network));
    tell("files", format!("{:?}", confined.files));
    tell("words", confined);
    for (step, took) in &confined.took {
        tell(&format!("took {step}"), format!("{took:?}"));
    }
}

fn probe(probes: OsString, place: &Place) {
    let list: &[Probe] = match probes.to_str() {
        Some("reach") => reach::PROBES,
        Some("reach, one thread") => reach::PROBES_OF_ONE_THREAD,
        Some("open") => reach::OPEN,
        Some("work") => work::PROBES,
        _ => return tell_status(),
    };
    for (name, probe) in list {
        match probe(place) {
            Ok(()) => tell(name, "ok"),
            Err(error) => tell(name, words(&error)),
        }
    }
}

fn words(error: &io::Error) -> String {
    error.raw_os_error().map_or(error.to_string(), |number| format!("{:?}", Errno::from_raw(number)))
}

/// What the kernel says of this process.
fn tell_status() {
    let status = fs::read_to_string("/proc/self/status").expect("readable");
    for line in status.lines() {
        let (name, value) = line.split_once(':').expect("a name");
        tell(name, value.split_whitespace().collect::<Vec<_>>().join(" "));
    }
    let core = getrlimit(Resource::Core);
    let number = |limit: Option<u64>| limit.map_or("unlimited".to_owned(), |limit| limit.to_string());
    tell("core", format!("{} {}", number(core.current), number(core.maximum)));
    for namespace in ["net", "ipc"] {
        let link = fs::read_link(format!("/proc/self/ns/{namespace}")).expect("its own");
        tell(namespace, link.display());
    }
}

fn kin() -> Child {
    let mut command = Command::new("cat");
    command.uid(ORDINARY).gid(ORDINARY).current_dir("/").stdin(Stdio::piped()).stdout(Stdio::null());
    command.spawn().expect("it starts")
}

impl Place {
    fn new() -> Self {
        let dir = PathBuf::from(std::env::var_os(DIR).expect("a directory"));
        let name = dir.join(format!("own-{}", std::process::id()));
        Self {
            port: std::env::var(PORT).expect("a port").parse().expect("a number"),
            file: OpenOptions::new().read(true).write(true).open(dir.join("handed-over")).expect("opened"),
            listener: UnixListener::bind(name).expect("bound"),
            kin: kin(),
            dir,
        }
    }
}
