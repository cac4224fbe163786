//! Rollbacks and receives of file systems that programs use: open files, mappings, working
//! directories.
//!
//! ```text
//!  a program: files open, one mapped, its working directory ─ reports them ──► reports them again
//!  the dataset: @1 ─► changed ─► (dirty pages) ── rollback, or receive of @2 ──►
//! ```

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use crate::mounted::{World, kernel_mounts};
use crate::shell::sh;

/// A Python process that evaluates expressions, in a directory of the mount.
struct PythonProgram {
    child: Child,
    answers: BufReader<ChildStdout>,
}

/// Reads expressions, one a line, and prints the value of each or the name of the error.
const LOOP: &str = r#"
import errno, mmap, os, sys
v = {}
for line in sys.stdin:
    try:
        print(repr(eval(line, globals(), v)), flush=True)
    except OSError as e:
        print(errno.errorcode[e.errno], flush=True)
"#;

impl PythonProgram {
    fn start(dir: &Path) -> Self {
        let mut python = Command::new("python3");
        let python = python.args(["-c", LOOP]).current_dir(dir);
        let mut child = python.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("python3 runs");
        let answers = BufReader::new(child.stdout.take().expect("piped"));
        Self { child, answers }
    }

    fn ask(&mut self, expression: &str) -> String {
        let stdin = self.child.stdin.as_mut().expect("piped");
        writeln!(stdin, "{expression}").and_then(|()| stdin.flush()).expect("it listens");
        let mut answer = String::new();
        self.answers.read_line(&mut answer).expect("it answers");
        answer.trim_end().to_owned()
    }

    /// Evaluates several expressions and compares each result with the expected one.
    fn sees(&mut self, when: &str, all: &[(&str, &str)]) {
        for (expression, wanted) in all {
            assert_eq!(self.ask(expression), *wanted, "{when}: {expression}");
        }
    }
}

impl Drop for PythonProgram {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        // The process ends when its input is closed.
        _ = self.child.wait();
    }
}

/// Returns the kernel's id of the mount at a path.
fn mount_number(at: &Path) -> String {
    let table = kernel_mounts("/proc/self/mountinfo");
    let line = table.lines().find(|line| line.split(' ').nth(4).is_some_and(|dir| Path::new(dir) == at));
    line.expect("it is mounted").split(' ').next().expect("a number").to_owned()
}

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(dir)
        .expect("a directory")
        .map(|entry| entry.expect("an entry").file_name().into_string().expect("text"))
        .collect();
    names.sort();
    names
}

#[test]
fn open_files_go_on_with_what_a_rollback_brought_back() {
    let Some(world) = crate::world(&["python3"]) else { return };
    goes_on_over_a_rollback(&world);
    world.finish();
}

#[test]
fn open_files_go_on_over_io_uring_too() {
    let Some(world) = crate::world_over_rings(&["python3"]) else { return };
    goes_on_over_a_rollback(&world);
    world.finish();
}

fn goes_on_over_a_rollback(world: &World) {
    world.zfs("create tank/fs");
    world.zfs("create tank/fs/below");
    let fs_dir = world.root().join("fs");
    sh(
        "mkdir dir; echo one > dir/kept; echo back > dir/removed; echo moved > dir/old; echo x > gone",
        &fs_dir,
    );
    world.zfs("snapshot tank/fs@1");
    sh("cd dir; echo two and more > kept; rm removed; mv old moved; echo new > new; mkdir later", &fs_dir);
    sh("rm gone; mkdir fresh; echo f > fresh/f", &fs_dir);
    world.zfs("snapshot tank/fs@2");
    let number = mount_number(&fs_dir);
    let mut program = PythonProgram::start(&fs_dir.join("dir"));
    let mut later = PythonProgram::start(&fs_dir.join("dir/later"));
    // Until the first answer, Python may still search the directory for its modules.
    later.sees("before", &[("os.listdir('.')", "[]")]);
    program.sees(
        "before",
        &[
            ("v.update(kept=os.open('kept', os.O_RDWR), new=os.open('new', os.O_RDWR), old=os.open('moved', 0))", "None"),
            ("v.update(map=mmap.mmap(v['kept'], 0))", "None"),
            ("v['map'][:3]", "b'two'"),
            ("os.pread(v['kept'], 100, 0)", r"b'two and more\n'"),
            ("os.pread(v['new'], 100, 0)", r"b'new\n'"),
            ("os.path.exists('removed'), os.path.exists('old'), os.path.exists('moved')", "(False, False, True)"),
            ("os.fstat(v['kept']).st_size", "13"),
        ],
    );
    world.zfs("rollback -r tank/fs@1");
    assert_eq!(mount_number(&fs_dir), number, "it was never unmounted");
    program.sees(
        "after",
        &[
            ("os.pread(v['kept'], 100, 0)", r"b'one\n'"),
            ("v['map'][:3]", "b'one'"),
            ("os.fstat(v['kept']).st_size", "4"),
            ("os.pread(v['new'], 100, 0) in (b'',)", "ESTALE"),
            ("os.write(v['new'], b'x')", "ESTALE"),
            ("os.fstat(v['new']).st_size", "ESTALE"),
            ("os.pread(v['old'], 100, 0)", r"b'moved\n'"),
            ("sorted(os.listdir('.'))", "['kept', 'old', 'removed']"),
            (
                "os.path.exists('removed'), os.path.exists('old'), os.path.exists('moved')",
                "(True, True, False)",
            ),
            (
                "os.path.exists('new'), os.path.exists('later'), open('removed').read()",
                r"(False, False, 'back\n')",
            ),
            // The files that remain can be written as before, in each of the three ways.
            ("os.pwrite(v['kept'], b'ONE', 0)", "3"),
            ("open('kept').read()", r"'ONE\n'"),
            ("v['map'][:3]", "b'ONE'"),
            ("v['map'].__setitem__(slice(0, 3), b'MAP'), v['map'].flush() is None or True", "(None, True)"),
            ("os.pread(v['kept'], 100, 0), open('kept').read()", r"(b'MAP\n', 'MAP\n')"),
            ("os.close(v['new'])", "None"),
            ("os.fsync(v['kept'])", "None"),
        ],
    );
    // A working directory that does not exist any more.
    later.sees("after", &[("os.listdir('.')", "ESTALE"), ("os.open('x', os.O_CREAT)", "ESTALE")]);
    assert_eq!(names(&fs_dir), ["below", "dir", "gone"]);
    assert_eq!(names(&fs_dir.join("below")), Vec::<String>::new(), "what is mounted below stays");
    fs::write(fs_dir.join("below/file"), "x").expect("it is writable");
    drop(later);
    // A second rollback to the same snapshot discards the later writes.
    world.zfs("rollback tank/fs@1");
    program.sees("again", &[("os.pread(v['kept'], 9, 0), v['map'][:3]", r"(b'one\n', b'one')")]);
    drop(program);
    world.zfs("unmount tank/fs");
    world.zfs("mount -a");
    assert_eq!(sh("cat dir/kept dir/old dir/removed gone below/file", &fs_dir), "one\nmoved\nback\nx\nx");
}

#[test]
fn pages_that_were_changed_before_a_rollback_are_not_written_after_it() {
    let Some(world) = crate::world(&["python3"]) else { return };
    world.zfs("create tank/fs");
    let dir = world.root().join("fs");
    fs::write(dir.join("mapped"), vec![b'.'; 64 << 10]).expect("written");
    world.zfs("snapshot tank/fs@1");
    let mut program = PythonProgram::start(&dir);
    program.sees(
        "before",
        &[
            ("v.update(f=open('mapped', 'r+b'))", "None"),
            ("v.update(m=mmap.mmap(v['f'].fileno(), 0))", "None"),
        ],
    );
    for round in 1..=3 {
        let change = format!(
            "[v['m'].__setitem__(slice(at, at + 5), b'dirty') for at in range(0, 1 << 16, 4096)][:{round}]"
        );
        program.ask(&change);
        world.zfs("rollback tank/fs@1");
        program.sees("after", &[("v['m'][:5], v['m'][61440:61445]", "(b'.....', b'.....')")]);
    }
    program.sees("later", &[("v['m'].__setitem__(slice(4096, 4101), b'later')", "None")]);
    drop(program);
    world.zfs("unmount tank/fs");
    world.zfs("mount tank/fs");
    let read = fs::read(dir.join("mapped")).expect("it is there");
    let changed: Vec<usize> = (0..read.len()).filter(|&at| read[at] != b'.').collect();
    assert_eq!(
        changed,
        (4096..4101).collect::<Vec<_>>(),
        "what was changed after the last rollback, and nothing else"
    );
    world.finish();
}

/// With the writeback cache, the kernel also keeps sizes and times and ignores those of the file
/// system.
#[test]
fn with_writeback_open_files_keep_a_rollback_away_and_a_working_directory_does_not() {
    let Some(world) = crate::world(&["python3"]) else { return };
    world.zfs("create tank/fs");
    let dir = world.root().join("fs");
    world.zfs("unmount tank/fs");
    world.zfs("mount -o writeback tank/fs");
    fs::write(dir.join("file"), "one").expect("written");
    world.zfs("snapshot tank/fs@1");
    fs::write(dir.join("file"), "two and more").expect("written");
    let mut program = PythonProgram::start(&dir);
    program.sees("before", &[("v.update(f=os.open('file', os.O_RDWR))", "None")]);
    let refused = world.zfs_refuses("rollback tank/fs@1").expect("a file is open");
    assert!(refused.contains("busy"), "{refused}");
    program.sees("before", &[("os.pread(v['f'], 100, 0), os.close(v['f'])", "(b'two and more', None)")]);
    world.zfs("rollback tank/fs@1");
    program.sees("after", &[("os.stat('file').st_size, open('file').read()", "(3, 'one')")]);
    drop(program);
    assert_eq!(fs::metadata(dir.join("file")).expect("it is there").size(), 3);
    world.finish();
}

#[test]
fn a_receive_goes_on_beneath_open_files_and_fails_without_a_trace() {
    let Some(world) = crate::world(&["python3", "bash"]) else { return };
    let zfs = world.run_dir().with_file_name("bin").join("zfs");
    let bash = |script: &str| {
        let script = format!("export SAWMILL_RUN={}; {script}", world.run_dir().display());
        sh(&script.replace("zfs ", &format!("{} ", zfs.display())), Path::new("/"))
    };
    world.zfs("create tank/from");
    let from = world.root().join("from");
    sh("mkdir dir; echo one > dir/kept; echo gone > dir/gone", &from);
    world.zfs("snapshot tank/from@1");
    sh("echo two > dir/kept; rm dir/gone; head -c 3000000 /dev/urandom > dir/more", &from);
    world.zfs("snapshot tank/from@2");
    bash("zfs send tank/from@1 | zfs receive tank/to");
    let to = world.root().join("to");
    let number = mount_number(&to);
    let mut program = PythonProgram::start(&to.join("dir"));
    program.sees(
        "before",
        &[
            ("v.update(kept=os.open('kept', os.O_RDWR), gone=os.open('gone', 0))", "None"),
            ("v.update(map=mmap.mmap(v['kept'], 0, prot=mmap.PROT_READ))", "None"),
            ("os.pread(v['kept'], 9, 0), v['map'][:3]", r"(b'one\n', b'one')"),
        ],
    );
    // The file system changes while the stream is received, so the stream is refused at its end.
    // Everything then is as before, including the file without a name.
    let stream = world.run_dir().join("stream");
    bash(&format!("zfs send -i @1 tank/from@2 > {}", stream.display()));
    let run = format!(
        "(head -c 1000000 {0}; while ! [ -e {1} ]; do sleep 0.02; done; tail -c +1000001 {0}) | zfs receive tank/to 2>&1 || true",
        stream.display(),
        to.join("dir/changed").display()
    );
    let refused = std::thread::scope(|scope| {
        let receive = scope.spawn(|| bash(&run));
        std::thread::sleep(std::time::Duration::from_millis(700));
        program.sees(
            "meanwhile",
            &[(
                "v.update(lost=os.open('lost', os.O_CREAT | os.O_RDWR)), os.write(v['lost'], b'lost')",
                "(None, 4)",
            )],
        );
        program.sees(
            "meanwhile",
            &[("os.unlink('lost'), os.close(os.open('changed', os.O_CREAT))", "(None, None)")],
        );
        receive.join().expect("it ends")
    });
    assert!(refused.contains("has been modified"), "{refused}");
    program.sees(
        "refused",
        &[
            ("os.pread(v['kept'], 9, 0), v['map'][:3]", r"(b'one\n', b'one')"),
            ("os.pread(v['lost'], 9, 0), os.fstat(v['lost']).st_nlink", "(b'lost', 0)"),
            ("sorted(os.listdir('.'))", "['changed', 'gone', 'kept']"),
            ("os.close(v['lost'])", "None"),
        ],
    );
    bash(&format!("zfs receive -F tank/to < {}", stream.display()));
    assert_eq!(mount_number(&to), number, "it was never unmounted");
    program.sees(
        "received",
        &[
            ("os.pread(v['kept'], 9, 0), v['map'][:3]", r"(b'two\n', b'two')"),
            ("os.pread(v['gone'], 9, 0)", "ESTALE"),
            ("sorted(os.listdir('.'))", "['kept', 'more']"),
        ],
    );
    drop(program);
    sh(&format!("diff -r {} {}", from.display(), to.display()), Path::new("/"));
    world.finish();
}

/// A change that is refused while requests wait leaves everything as before.
#[test]
fn a_rollback_that_is_refused_lets_open_files_go_on() {
    let Some(world) = crate::world(&["python3"]) else { return };
    world.zfs("create tank/fs");
    let dir = world.root().join("fs");
    fs::write(dir.join("file"), "one").expect("written");
    for name in ["1", "2"] {
        world.zfs(&format!("snapshot tank/fs@{name}"));
        fs::write(dir.join("file"), "two").expect("written");
    }
    world.zfs("hold keep tank/fs@2");
    let mut program = PythonProgram::start(&dir);
    program.sees(
        "before",
        &[("v.update(f=os.open('file', os.O_RDWR))", "None"), ("os.pread(v['f'], 9, 0)", "b'two'")],
    );
    let refused = world.zfs_refuses("rollback -r tank/fs@1").expect("a snapshot is held");
    assert!(refused.contains("tank/fs@2: it's being held. "), "{refused}");
    program.sees("refused", &[("os.pread(v['f'], 9, 0), os.pwrite(v['f'], b'new', 0)", "(b'two', 3)")]);
    world.zfs("release keep tank/fs@2");
    world.zfs("rollback -r tank/fs@1");
    program.sees("done", &[("os.pread(v['f'], 9, 0)", "b'one'")]);
    drop(program);
    world.finish();
}
