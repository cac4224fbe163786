//! `git`: a clone is whole, and commits that it made stable outlive a killed daemon.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::shell::{ok, sh, until};

const COMMITS: usize = 200;
const FILES: usize = 300;
const WRITE_TIME: Duration = Duration::from_millis(1_500);
/// Makes every object and reference stable, and asks nobody for a name.
const STABLE: &str =
    "git -c core.fsync=all -c core.fsyncMethod=fsync -c user.name=n -c user.email=e@x -c gc.auto=0";

#[test]
fn git_clones_are_whole_and_commits_outlive_a_kill() {
    let Some(world) = crate::world(&["git"]) else { return };
    let beside = tempfile::tempdir().expect("a directory");
    make_repository(beside.path());
    let url = format!("file://{}/origin", beside.path().display());
    sh(&format!("{STABLE} clone -q --no-local {url} clone"), &world.root());
    let clone = world.root().join("clone");
    check(&clone);
    assert_eq!(
        sh("git rev-parse HEAD^{tree}", &clone),
        sh("git rev-parse main^{tree}", &beside.path().join("origin"))
    );
    assert_eq!(sh("git status --porcelain", &clone), "", "the working tree is as committed");

    let begun = AtomicUsize::new(0);
    let commits = std::thread::scope(|scope| {
        let begin = |number| {
            begun.store(number, Ordering::SeqCst);
            commit(&clone, number)
        };
        let made = scope.spawn(move || (0..).map_while(begin).collect::<Vec<_>>());
        std::thread::sleep(WRITE_TIME);
        until(|| begun.load(Ordering::SeqCst) > 0, "something is committed");
        world.kill_daemon();
        made.join().expect("commits fail only by the kill")
    });
    world.restart();
    // What was under way may have left its lock.
    sh("rm -f .git/*.lock .git/refs/heads/*.lock", &clone);
    check(&clone);
    for commit in &commits {
        sh(&format!("git cat-file -e {commit}^{{tree}}"), &clone);
    }
    // A reference is renamed into place, and nobody asks for its directory to be stable: the last
    // one, or the one under way, may be the one that holds.
    let head = sh("git rev-parse HEAD", &clone);
    let back = sh(&format!("git rev-list --count {}..{}", head.trim(), commits[commits.len() - 1]), &clone);
    assert!(back.trim().parse::<usize>().expect("a number") <= 1, "HEAD is {back} commits back");
    world.finish();
}

fn check(repository: &Path) {
    sh("git fsck --full --strict --no-dangling", repository);
}

/// One commit, by its name when git says that it is made.
fn commit(clone: &Path, number: usize) -> Option<String> {
    let script = format!(
        "echo {number} > counter && {STABLE} add counter && {STABLE} commit -q -m {number} && git rev-parse HEAD"
    );
    let output =
        Command::new("bash").args(["-c", &script]).current_dir(clone).stderr(Stdio::null()).output().ok()?;
    let name = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| name.trim().to_owned())
}

/// Some hundred files, each changed in several of the commits.
fn make_repository(dir: &Path) {
    ok(Command::new("git").args(["init", "-q", "--bare", "-b", "main", "origin"]).current_dir(dir));
    let mut import = Command::new("git");
    import.args(["fast-import", "--quiet"]).current_dir(dir.join("origin")).stdin(Stdio::piped());
    let mut import = import.spawn().expect("git runs");
    let mut stream = import.stdin.take().expect("a pipe");
    let mut told = Vec::new();
    for commit in 0..COMMITS {
        let message = format!("commit {commit}");
        let head = "commit refs/heads/main\ncommitter n <e@x>";
        writeln!(told, "{head} {} +0000\ndata {}\n{message}", 1_700_000_000 + commit, message.len())
            .expect("fits");
        for step in 0..10 {
            let file = (commit * 7 + step * 31) % FILES;
            let text = format!("file {file} of commit {commit}\n").repeat(1 + file % 90);
            write!(told, "M 100644 inline d{}/f{file}\ndata {}\n{text}\n", file % 17, text.len())
                .expect("fits");
        }
    }
    stream.write_all(&told).expect("git reads it");
    drop(stream);
    assert!(import.wait().expect("it is ours").success());
}
