//! The volume: three bricks, and where the client has it mounted.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::mounted::Namespaces;
use crate::network::{bridge, cut, mend};
use crate::node::{Node, PRIVATE, check, tell_logs};
use crate::shell::{ok, until};

/// How long glusterfs waits for a brick that does not answer.
pub const PING_SECONDS: u64 = 5;
/// A file that `write_stably` writes.
pub const STABLE: &str = "stable";
const WRITE_SECONDS: &str = "2";
/// 64 MiB take a few seconds, on a machine that is busy otherwise more.
const HEAL: Duration = Duration::from_secs(120);
const HEAL_POLL: Duration = Duration::from_millis(500);

/// Dropped in this order: the client first.
pub struct Volume {
    pub client: Namespaces,
    pub nodes: Vec<Node>,
    dir: TempDir,
}

impl Volume {
    pub fn new() -> Self {
        let client = Namespaces::new(PRIVATE);
        bridge(&client);
        let nodes = (1..=3).map(|number| Node::new(number, &client)).collect();
        let dir = TempDir::new().expect("a directory");
        fs::create_dir(dir.path().join("mnt")).expect("a directory");
        let volume = Self { client, nodes, dir };
        volume.create();
        volume.mount();
        volume
    }

    fn create(&self) {
        let first = &self.nodes[0];
        for node in &self.nodes[1..] {
            first.gluster(&format!("peer probe {}", node.address()));
        }
        let connected = |node: &Node| node.gluster("peer status").matches("(Connected)").count() == 2;
        until(|| self.nodes.iter().all(connected), "each knows the others");
        let bricks = self.nodes.iter().map(|node| format!("{}:{}", node.address(), node.brick().display()));
        let bricks = bricks.collect::<Vec<_>>().join(" ");
        first.gluster(&format!("volume create vol replica 3 {bricks}"));
        first.gluster(&format!("volume set vol network.ping-timeout {PING_SECONDS}"));
        // A node that was cut off knows as soon as the client that their connection is none, and lets go of its locks.
        first.gluster(&format!("volume set vol server.tcp-user-timeout {PING_SECONDS}"));
        first.gluster("volume start vol");
    }

    /// Where the client sees it; nobody else does.
    pub fn root(&self) -> PathBuf {
        self.dir.path().join("mnt")
    }

    /// A place beside it.
    pub fn beside(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn mount(&self) {
        let mut command = self.client.command("glusterfs");
        command.arg(format!("--volfile-server={}", self.nodes[0].address())).arg("--volfile-id=vol");
        let mounted = command.arg(self.root()).stdout(Stdio::null()).status().expect("it runs");
        assert!(mounted.success(), "{mounted}");
        self.wait_until_connected();
    }

    /// What the client's kernel and glusterfs remember is gone with that.
    pub fn mount_again(&self) {
        self.unmount();
        self.mount();
    }

    fn unmount(&self) {
        ok(self.client.command("umount").arg(self.root()));
    }

    /// Pulls the plug of a node for longer than a client waits for it.
    pub fn cut_off(&self, node: &Node) {
        cut(&self.client, node.number);
        thread::sleep(Duration::from_secs(2 * PING_SECONDS + 3));
        mend(&self.client, node.number);
    }

    /// Until the client speaks with every brick: writes are on all of them from then on.
    pub fn wait_until_connected(&self) {
        let graph = self.client.seen(&self.root()).join(".meta/graphs/active");
        let is_connected = |number: usize| {
            let told = fs::read_to_string(graph.join(format!("vol-client-{number}/private")));
            told.is_ok_and(|told| told.lines().any(|line| line == "connected = 1"))
        };
        until(|| (0..self.nodes.len()).all(is_connected), "the client speaks with every brick");
    }

    /// Until no brick lacks anything that another has for it, under load, too.
    pub fn wait_until_nothing_is_pending(&self) {
        self.wait_until_all_say("heal pending: 0");
    }

    /// The same, and nothing is being written.
    pub fn wait_until_healed(&self) {
        self.wait_until_all_say("Total Number of entries: 0");
    }

    fn wait_until_all_say(&self, line: &str) {
        let begun = Instant::now();
        loop {
            // By itself it looks every ten minutes, and when it sees a brick come back: one that was cut off it may not
            // have missed.
            self.nodes[0].try_gluster("volume heal vol");
            let told = self.nodes[0].gluster("volume heal vol info summary");
            if told.matches(line).count() == self.nodes.len() {
                return;
            }
            assert!(begun.elapsed() < HEAL, "not healed in time: {told}");
            thread::sleep(HEAL_POLL);
        }
    }

    /// The numbers of nodes that have something else in this file than the client sees.
    pub fn bricks_that_differ(&self, name: &str) -> Vec<usize> {
        let read = |path: PathBuf| fs::read(path).expect("it can be read");
        let whole = read(self.client.seen(&self.root().join(name)));
        let numbered = (1..).zip(&self.nodes);
        numbered.filter(|(_, node)| read(node.on_brick(name)) != whole).map(|(number, _)| number).collect()
    }

    /// Eight writers of 8 KiB each, `O_DSYNC`, until a moment ago; the file of what was acknowledged.
    pub fn write_stably(&self) -> PathBuf {
        let acks = self.beside("acks");
        let mut command = self.client.command(env!("CARGO_BIN_EXE_sawmill"));
        command.args(["bench", "file", "--threads", "8", "--size", "8k", "--span", "16m", "--json"]);
        command.args(["--seconds", WRITE_SECONDS, "--path"]).arg(self.root().join(STABLE));
        let report = ok(command.arg("--acks").arg(&acks));
        let report: serde_json::Value = serde_json::from_str(&report).expect("it tells what was written");
        println!("{report}");
        assert!(report["acknowledged"].as_u64().is_some_and(|count| count > 20), "{report}");
        assert!(report["ended_by"].is_null(), "{report}");
        acks
    }

    /// Has the volume what was acknowledged?
    pub fn check(&self, acks: &Path) {
        check(&self.client, &self.root().join(STABLE), acks);
    }

    /// Does a stable write fail?
    pub fn refuses_writes(&self) -> bool {
        let mut command = self.client.command("dd");
        command.args(["if=/dev/zero", "bs=8k", "count=1", "oflag=dsync", "conv=notrunc", "status=none"]);
        let written = command.arg(format!("of={}", self.root().join("refused").display())).status();
        !written.expect("dd runs").success()
    }

    /// Ends all of it in good order, and has `zdb` look through each pool.
    pub fn finish(self) {
        self.unmount();
        self.nodes[0].gluster("volume stop vol force");
        thread::scope(|scope| {
            for node in &self.nodes {
                scope.spawn(|| {
                    until(|| node.brick_process().is_none(), "nobody serves the brick");
                    node.world.finish();
                });
            }
        });
    }
}

impl Drop for Volume {
    fn drop(&mut self) {
        if std::thread::panicking() {
            tell_logs(&self.client.seen(Path::new("/var/log/glusterfs")));
        }
    }
}
