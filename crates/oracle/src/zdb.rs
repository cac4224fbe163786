//! Runs `zdb` on a pool that nobody holds open, and judges what it says.
//!
//! Its exit status alone will not do: it goes on after much of what it dislikes, and says so in a
//! line among thousands. So every line that has a word of complaint counts as damage, but for the
//! few that a sound pool gives rise to.
//! (tests: `each_complaint_is_heard`, `a_sound_pool_gives_no_offence`)

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// What `zdb` found wrong, or why it could not be asked.
#[derive(Debug, thiserror::Error)]
pub enum ZdbError {
    /// `zdb` cannot be run.
    #[error("cannot run zdb: {0}")]
    Missing(#[from] std::io::Error),
    /// `zdb` ended with an error, or one of its lines names damage.
    #[error("{command}: {verdict}\n{output}")]
    Unhappy {
        /// What was run.
        command: String,
        /// The exit status, or the first line that tells of damage.
        verdict: String,
        /// What it printed around that line, else at the end.
        output: String,
    },
}

/// `zdb` on the files in one directory.
#[derive(Clone, Debug)]
pub struct Zdb {
    dir: PathBuf,
    pool: String,
}

/// Longer than this and it hangs.
const TIME_LIMIT_SECS: &str = "100";
/// How much faster than ours its clock goes. Before it ends it waits, at the full cost of a processor, until what it has
/// read ahead has been in its cache for six seconds (2.3.2): most of the time of the tests went there.
const CLOCK_SPEED: &str = "FAKETIME=+0 x100";

/// Every block is read and accounted for. `-y` goes through all that space maps and their logs say in turn: nothing is
/// allocated or freed twice, and what is on the list of a clone that is being destroyed was not freed before.
const SPACE: &str = "-bccy";
/// Lines shown before and after one that tells of damage.
const CONTEXT_LINES: usize = 30;
/// What `zdb` says of an object of numbers before their words.
const LINES_OF_OBJECT: usize = 3;

/// Words of complaint, in lower case. Some stand in lines that do not change the exit status:
/// a file's attributes that make no sense, a block pointer of another type, a dataset that cannot be held.
const DAMAGE: &[&str] = &[
    "assert",
    "bad ",
    "block traversal size",
    "can't",
    "cannot",
    "corrupt",
    "damage",
    "dmu_object_next",
    "does not match",
    "double-free",
    "error",
    "fail",
    "incorrect",
    "invalid",
    "leak",
    "mismatch",
    "no such",
    "not found",
    "panic",
    "referenced but not allocated",
    "unable",
    "unknown",
    "unmatched",
];

/// What `zdb` prints about sound pools though it has one of these words.
const HARMLESS: &[&str] = &[
    "verify nothing leaked",
    "No leaks (block sum matches space maps exactly)",
    // Descriptions of features, in the meta-objset.
    "Support for per-dataset on-disk error logs.",
    "persistent error log",
    "Errors are logged by dataset.",
    // Where the last scrub or resilver of errors is noted, in the object directory.
    "error_scrub = ",
    // A property of the pool.
    "\t\tfailmode = ",
    // A file that lost the last of several names it was given: its parent is then one that it was
    // in earlier, with OpenZFS as well. Where there are no such files it is damage ([`Zdb::check_owned`]).
    NO_PATH,
    "potentially leaked objects detected",
];

/// A file whose parent has no name for it.
const NO_PATH: &str = "path not found, possibly leaked";

impl Zdb {
    /// Asks about `pool`, whose vdevs are files in `dir`.
    #[must_use]
    pub fn new(dir: &Path, pool: &str) -> Self {
        Self { dir: dir.to_owned(), pool: pool.to_owned() }
    }

    /// Reads every block with its checksum and accounts for every allocated sector, and for every change of space.
    ///
    /// # Errors
    /// When a block is bad, a sector leaked, something was allocated or freed twice, or `zdb` stopped.
    pub fn check_blocks(&self) -> Result<String, ZdbError> {
        self.run(&[SPACE], &[])
    }

    /// Shows every object.
    ///
    /// # Errors
    /// When one of them makes no sense to `zdb`.
    pub fn check_objects(&self) -> Result<String, ZdbError> {
        self.run(&["-dddd"], &[])
    }

    /// Both [`Self::check_blocks`] and [`Self::check_objects`].
    ///
    /// # Errors
    /// When either finds damage.
    pub fn check(&self) -> Result<(), ZdbError> {
        self.run(&[SPACE, "-dddd"], &[]).map(drop)
    }

    /// As [`Self::check`], and every file and directory has a name where it says that it has one: for pools in which no
    /// file had several names. Slow where directories are large, for `zdb` searches each file's path.
    ///
    /// # Errors
    /// When there is damage, or an object that nobody has.
    pub fn check_owned(&self) -> Result<(), ZdbError> {
        let said = self.run(&[SPACE, "-ddddd"], &[])?;
        let lines: Vec<&str> = said.lines().collect();
        match lines.iter().position(|line| line.contains(NO_PATH)) {
            None => Ok(()),
            Some(at) => Err(ZdbError::Unhappy {
                command: "zdb -bcc -ddddd".to_owned(),
                verdict: lines[at].to_owned(),
                output: around(&lines, Some(at)),
            }),
        }
    }

    /// As [`Self::check`], and shows each block pointer, which must be of its object's type and
    /// level; gives how many records of each kind (`TX_CREATE`, …) the intent logs hold. Slow
    /// where directories are large, for `zdb` searches each file's path.
    ///
    /// # Errors
    /// When there is damage.
    pub fn check_closely(&self) -> Result<BTreeMap<String, usize>, ZdbError> {
        self.run(&[SPACE, "-ddddd", "-iiii"], &[]).map(|said| log_records(&said))
    }

    /// How many records of each kind the intent logs of all datasets hold.
    ///
    /// # Errors
    /// When `zdb` stopped or found damage.
    pub fn log_records(&self) -> Result<BTreeMap<String, usize>, ZdbError> {
        self.run(&["-iiii"], &[]).map(|said| log_records(&said))
    }

    /// Runs `zdb -e -p DIR FLAGS POOL REST`, and gives what it printed on standard output.
    ///
    /// # Errors
    /// When it cannot be run, or its status or words tell of damage.
    pub fn run(&self, flags: &[&str], rest: &[&str]) -> Result<String, ZdbError> {
        // After some assertions it hangs instead of ending.
        let mut command = Command::new("timeout");
        command
            .args(["--kill-after=1", TIME_LIMIT_SECS, "env"])
            .args(fast_clock())
            .args(["zdb", "-e", "-U", NO_CACHE_FILE])
            .arg("-p")
            .arg(&self.dir)
            .args(flags)
            .arg(&self.pool)
            .args(rest);
        let shown = format!("{command:?}");
        judge(shown, &command.output()?)
    }
}

/// Without a cache file, `zdb` would read that of the host, and refuse a pool whose name is there.
const NO_CACHE_FILE: &str = "/nonexistent/zpool.cache";

/// What `env` gives `zdb`, and not the program that limits its time, a faster clock with: nothing where there is no
/// libfaketime (Debian's), and then it takes longer.
fn fast_clock() -> Vec<String> {
    let library = format!("/usr/lib/{}-linux-gnu/faketime/libfaketimeMT.so.1", std::env::consts::ARCH);
    match Path::new(&library).exists() {
        true => vec![format!("LD_PRELOAD={library}"), CLOCK_SPEED.to_owned()],
        false => Vec::new(),
    }
}

/// A record's line says its kind, then its length.
fn log_records(said: &str) -> BTreeMap<String, usize> {
    let mut records = BTreeMap::new();
    for line in said.lines() {
        let mut words = line.split_whitespace();
        if let (Some(kind), Some("len")) = (words.next(), words.next()) {
            *records.entry(kind.to_owned()).or_default() += 1;
        }
    }
    records
}

fn judge(command: String, output: &Output) -> Result<String, ZdbError> {
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    let stderr = String::from_utf8_lossy(&output.stderr);
    let lines: Vec<&str> = stdout.lines().chain(stderr.lines()).collect();
    let tells = |at: &usize| tells_of_damage(lines[*at]) && !is_of_counts(&lines[..=*at]);
    let damage = (0..lines.len()).find(tells);
    let verdict = match damage {
        Some(at) => lines[at].to_owned(),
        None if !output.status.success() => output.status.to_string(),
        None => return Ok(stdout),
    };
    Err(ZdbError::Unhappy { command, verdict, output: around(&lines, damage) })
}

/// What stands around a line, else at the end.
fn around(lines: &[&str], at: Option<usize>) -> String {
    let until = at.map_or(lines.len(), |at| lines.len().min(at + CONTEXT_LINES));
    lines[until.saturating_sub(2 * CONTEXT_LINES)..until].join("\n")
}

fn tells_of_damage(line: &str) -> bool {
    // So far in stand the details of log records, among them what was written to files.
    if line.starts_with("\t\t\t") {
        return false;
    }
    if is_zap_number(line) || names_a_file(line) {
        return false;
    }
    let lower = line.to_lowercase();
    DAMAGE.iter().any(|word| lower.contains(word)) && !HARMLESS.iter().any(|known| line.contains(known))
}

/// Whether the last of the lines is what `zdb` says of an object of type `uint32`, for which it has no words: obsolete
/// bytes of each run of a removed vdev. The object's type ends the first line about it, two or three lines before.
fn is_of_counts(lines: &[&str]) -> bool {
    let before = lines.iter().rev().skip(1).take(LINES_OF_OBJECT);
    lines.last().is_some_and(|line| line.trim() == "UNKNOWN OBJECT TYPE")
        && before.filter(|line| !line.starts_with('\t')).any(|line| line.ends_with("  uint32"))
}

/// An entry of a directory, or the path of a file: what users call their files says nothing.
fn names_a_file(line: &str) -> bool {
    let is_entry =
        line.starts_with("\t\t") && line.contains(" = ") && line.ends_with(')') && line.contains(" (type: ");
    is_entry || line.starts_with("\tpath\t/")
}

/// `NAME = NUMBER`, an entry of a ZAP: accounts are named by numbers in hex, such as `968b6bad`.
fn is_zap_number(line: &str) -> bool {
    let entry = line.strip_prefix("\t\t").and_then(|line| line.trim_end().split_once(" = "));
    entry.is_some_and(|(name, number)| {
        let id = name.strip_prefix("obj-").unwrap_or(name);
        id.bytes().all(|byte| byte.is_ascii_hexdigit()) && number.bytes().all(|byte| byte.is_ascii_digit())
    })
}

#[cfg(test)]
mod tests;
