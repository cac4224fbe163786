//! `zfs project`: which project files are part of, and whether directories hand theirs on.

use crate::args::{Args, Flag, Spec};
use crate::program::Command;
use crate::session::{Outcome, Session, Stop, usage};
use device::{Fsxattr, XFLAG_PROJINHERIT};
use engine::refusal::words;
use std::collections::VecDeque;
use std::fs::{File, FileType, Metadata};
use std::io;
use std::path::{Path, PathBuf};

pub const COMMAND: Command = Command::new(
    Spec {
        name: "project",
        alias: None,
        about: "shows or changes which project files are part of",
        flags: &[
            Flag::switch('0', "with -c: names with a zero byte behind each"),
            Flag::switch('C', "take files out of their projects"),
            Flag::switch('c', "tell of files that are not part of the project"),
            Flag::switch('d', "the directory itself, not what is in it"),
            Flag::switch('k', "with -C: only hand the project on no more"),
            Flag::switch('r', "and all below"),
            Flag::switch('s', "hand the project on to what is made in directories"),
            Flag::value('p', "id", "the number of the project"),
        ],
        operands: "<directory|file ...>",
    },
    run,
);

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Task {
    /// Show projects.
    List,
    /// Tell of what is not part of the project, or does not hand it on.
    Check {
        /// With a zero byte behind names, and nothing else.
        zero: bool,
    },
    /// Take out of projects.
    Clear {
        /// Only hand them on no more.
        keep: bool,
    },
    /// Make part of a project.
    Set {
        /// And hand it on.
        hand_on: bool,
    },
}

/// What is to be done, and with what below a directory.
#[derive(Clone, Copy, Debug)]
struct Job {
    task: Task,
    /// The project; none: that of what is named.
    project: Option<u32>,
    only_itself: bool,
    recursive: bool,
}

/// Why the rest of what is named is left alone.
enum GivenUp {
    /// Something failed, and that was told.
    Told,
    /// Nobody reads what is printed.
    Closed,
}

impl From<Stop> for GivenUp {
    fn from(_: Stop) -> Self {
        Self::Closed
    }
}

fn run(session: &mut Session, args: &Args) -> Outcome {
    let job = read(args)?;
    if args.operands.is_empty() {
        return usage("missing file or directory target(s)");
    }
    let mut code = 0;
    for name in &args.operands {
        match job.work_on(session, Path::new(name)) {
            Ok(()) => {}
            Err(GivenUp::Told) => code = 255,
            Err(GivenUp::Closed) => return Err(Stop::Closed),
        }
    }
    Ok(code)
}

fn read(args: &Args) -> Result<Job, Stop> {
    if ['C', 'c', 's'].iter().filter(|flag| args.has(**flag)).count() > 1 {
        return usage("cannot specify '-C' '-c' '-s' together");
    }
    let project = args.value('p').map(parse_project).transpose()?;
    let task = match (args.has('C'), args.has('c'), args.has('s') || project.is_some()) {
        (true, ..) => Task::Clear { keep: args.has('k') },
        (_, true, _) => Task::Check { zero: args.has('0') },
        (.., true) => Task::Set { hand_on: args.has('s') },
        _ => Task::List,
    };
    // Of both the last one counts.
    let last = args.in_order().filter(|(flag, _)| matches!(flag, 'd' | 'r')).last().map(|(flag, _)| flag);
    let is_last = |flag| args.has(flag) && last.is_none_or(|last| last == flag);
    let job = Job { task, project, only_itself: is_last('d') && !is_last('r'), recursive: is_last('r') };
    match task {
        Task::Clear { .. } if job.only_itself => usage("'-d' is useless together with '-C'"),
        Task::Set { .. } if job.only_itself => {
            usage("'-d' is useless for set project ID and/or inherit flag")
        }
        Task::Clear { .. } if args.has('0') => usage("'-0' is only valid together with '-c'"),
        Task::Clear { .. } if project.is_some() => usage("'-p' is useless together with '-C'"),
        Task::List | Task::Check { .. } | Task::Set { .. } if args.has('k') => {
            usage("'-k' is only valid together with '-C'")
        }
        Task::List | Task::Set { .. } if args.has('0') => usage("'-0' is only valid together with '-c'"),
        _ => Ok(job),
    }
}

/// A number as C reads it: decimal, octal behind `0`, hexadecimal behind `0x`.
fn parse_project(text: &str) -> Result<u32, Stop> {
    let number = match (text.strip_prefix("0x"), text.strip_prefix('0')) {
        (Some(digits), _) => u64::from_str_radix(digits, 16),
        (None, Some(digits)) if !digits.is_empty() => u64::from_str_radix(digits, 8),
        _ => text.parse(),
    };
    match number.map(u32::try_from) {
        Err(_) => usage(format!("project ID must be less than {}", u32::MAX)),
        Ok(Ok(project)) if project != u32::MAX => Ok(project),
        Ok(_) => usage("invalid project ID"),
    }
}

/// Tells of something that failed; what is named is given up for that.
fn failed<T>(what: &str, path: &Path, error: &io::Error) -> Result<T, GivenUp> {
    eprintln!("failed to {what} {}: {}", path.display(), words(error));
    Err(GivenUp::Told)
}

impl Job {
    /// Works on what is named, and what is below it as far as that is meant.
    fn work_on(mut self, session: &mut Session, path: &Path) -> Result<(), GivenUp> {
        let found = self.check(path)?;
        if self.project.is_none() && matches!(self.task, Task::Check { .. } | Task::Set { .. }) {
            self.project = Some(project_of(path)?);
        }
        self.one(session, path, false)?;
        let looks = matches!(self.task, Task::List | Task::Check { .. });
        if !found.is_dir() || self.only_itself || !(self.recursive || looks) {
            return Ok(());
        }
        let mut directories = VecDeque::from([path.to_owned()]);
        while let Some(directory) = directories.pop_front() {
            for (path, kind) in entries(&directory)? {
                // A link leads elsewhere, and what is neither file nor directory has no project.
                if kind.is_dir() || kind.is_file() {
                    self.one(session, &path, true)?;
                }
                if self.recursive && kind.is_dir() {
                    directories.push_back(path);
                }
            }
        }
        Ok(())
    }

    fn check(&self, path: &Path) -> Result<Metadata, GivenUp> {
        let found = std::fs::metadata(path).or_else(|error| failed("stat", path, &error))?;
        if !found.is_file() && !found.is_dir() {
            eprintln!("only support project quota on regular file or directory");
            return Err(GivenUp::Told);
        }
        for (is_asked, flag) in [(self.only_itself, 'd'), (self.recursive, 'r')] {
            if is_asked && !found.is_dir() {
                eprintln!("'-{flag}' option on non-dir target {}", path.display());
                return Err(GivenUp::Told);
            }
        }
        Ok(found)
    }

    /// Works on one file; `may_be_gone`: nobody has named it.
    fn one(&self, session: &mut Session, path: &Path, may_be_gone: bool) -> Result<(), GivenUp> {
        let file = match File::open(path) {
            Err(error) if may_be_gone && error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return failed("open", path, &error),
            Ok(file) => file,
        };
        let now = Fsxattr::of(&file).or_else(|error| failed("get xattr for", path, &error.into()))?;
        match self.task {
            Task::List => {
                let mark = if hands_on(now) { 'P' } else { '-' };
                writeln!(session.out(), "{:5} {mark} {}", now.projid, path.display()).map_err(Stop::from)?;
            }
            Task::Check { zero } => {
                for line in self.complaints(now, path) {
                    let end = if zero { '\0' } else { '\n' };
                    write!(session.out(), "{line}{end}").map_err(Stop::from)?;
                }
            }
            Task::Clear { .. } | Task::Set { .. } => {
                let wanted = self.wanted(now);
                if wanted != now {
                    let set = wanted.set_on(&file);
                    set.or_else(|error| failed("set xattr for", path, &error.into()))?;
                }
            }
        }
        Ok(())
    }

    /// What is to be told of a file that is not as it should be.
    fn complaints(&self, now: Fsxattr, path: &Path) -> Vec<String> {
        let expected = self.project.unwrap_or_default();
        let path = path.display();
        let is_other = (now.projid != expected)
            .then(|| format!("{path} - project ID is not set properly ({}/{expected})", now.projid));
        let keeps = (!hands_on(now)).then(|| format!("{path} - project inherit flag is not set"));
        let all: Vec<String> = is_other.into_iter().chain(keeps).collect();
        match self.task {
            Task::Check { zero: true } if !all.is_empty() => vec![path.to_string()],
            _ => all,
        }
    }

    fn wanted(&self, now: Fsxattr) -> Fsxattr {
        match self.task {
            Task::Clear { keep } => {
                let projid = if keep { now.projid } else { 0 };
                now.with(now.xflags & !XFLAG_PROJINHERIT, projid)
            }
            Task::Set { hand_on } => {
                let flag = if hand_on { XFLAG_PROJINHERIT } else { 0 };
                now.with(now.xflags | flag, self.project.unwrap_or(now.projid))
            }
            Task::List | Task::Check { .. } => now,
        }
    }
}

fn hands_on(file: Fsxattr) -> bool {
    file.xflags & XFLAG_PROJINHERIT != 0
}

fn project_of(path: &Path) -> Result<u32, GivenUp> {
    let file = File::open(path).or_else(|error| failed("open", path, &error))?;
    let found = Fsxattr::of(&file).or_else(|error| failed("get xattr for", path, &error.into()))?;
    Ok(found.projid)
}

/// What is in a directory, in its order.
fn entries(directory: &Path) -> Result<Vec<(PathBuf, FileType)>, GivenUp> {
    let listed = match std::fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        listed => listed.or_else(|error| failed("opendir", directory, &error))?,
    };
    let entry = |entry: io::Result<std::fs::DirEntry>| {
        let entry = entry?;
        Ok((entry.path(), entry.file_type()?))
    };
    listed.map(entry).collect::<io::Result<_>>().or_else(|error| failed("readdir", directory, &error))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(words: &[&str]) -> Result<Job, String> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        match read(&COMMAND.spec.parse(&words).expect("flags of the command")) {
            Ok(job) => Ok(job),
            Err(Stop::Usage(reason)) => Err(reason),
            Err(stop) => panic!("{stop:?}"),
        }
    }

    #[test]
    fn flags_say_what_is_to_be_done() {
        let task = |words: &[&str]| job(words).map(|job| job.task);
        assert_eq!(task(&["x"]), Ok(Task::List));
        assert_eq!(task(&["-p", "7", "x"]), Ok(Task::Set { hand_on: false }));
        assert_eq!(task(&["-s", "x"]), Ok(Task::Set { hand_on: true }));
        assert_eq!(task(&["-c", "-0", "x"]), Ok(Task::Check { zero: true }));
        assert_eq!(task(&["-Ck", "x"]), Ok(Task::Clear { keep: true }));
        assert_eq!(job(&["-p", "0x1f", "x"]).map(|job| job.project), Ok(Some(31)));
        for (words, reason) in [
            (&["-C", "-c", "x"][..], "cannot specify '-C' '-c' '-s' together"),
            (&["-p", "many", "x"], "project ID must be less than 4294967295"),
            (&["-p", "4294967295", "x"], "invalid project ID"),
            (&["-C", "-d", "x"], "'-d' is useless together with '-C'"),
            (&["-C", "-p", "1", "x"], "'-p' is useless together with '-C'"),
            (&["-s", "-d", "x"], "'-d' is useless for set project ID and/or inherit flag"),
            (&["-k", "x"], "'-k' is only valid together with '-C'"),
            (&["-0", "x"], "'-0' is only valid together with '-c'"),
        ] {
            assert_eq!(job(words).map(|_| ()), Err(reason.to_owned()), "{words:?}");
        }
    }
}
