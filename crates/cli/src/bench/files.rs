//! `sawmill bench files`.

use bench::files::{self, Place, Plan};
use bench::{Refusal, failed};

use super::words::Words;
use super::{CACHE, JSON, LOG, MAIN, THREADS, environment, outcome, print_report};
use crate::args::{Flag, Spec};
use crate::program::Command;

pub(super) const FILES: Command = Command::new(
    Spec {
        name: "files",
        alias: None,
        about: "measures small files made, synced, changed and synced again, in process or in a directory of any file system",
        flags: &[
            Flag {
                help: "devices of a pool, which is made anew on them: needed, unless --path is given",
                ..MAIN
            },
            LOG,
            Flag::long_value("path", "directory", "where, in place of a pool"),
            Flag::long_value("files", "number", "how many, by all threads together (5000)"),
            Flag::long_value("size", "size", "bytes of each (8k)"),
            Flag { help: "how many do so at once, each in a directory of its own (1)", ..THREADS },
            CACHE,
            JSON,
        ],
        operands: "",
    },
    |_, args| outcome(args, run),
);

fn run(words: &Words<'_>) -> Result<u8, Refusal> {
    let plan = Plan {
        place: place(words)?,
        files: words.number("files", 5_000)?,
        size: words.bytes("size", 8 << 10)? as usize,
        threads: words.number("threads", 1)?,
    };
    if [plan.files, plan.size, plan.threads].contains(&0) {
        return Err(Refusal::Usage("--files, --size and --threads above 0".into()));
    }
    let report = files::run(&environment()?, &plan).map_err(failed)?;
    print_report(words, &report, report.text());
    Ok(0)
}

fn place(words: &Words<'_>) -> Result<Place, Refusal> {
    let (main, log) = (words.paths("main"), words.paths("log"));
    match (words.one("path"), main.is_empty()) {
        (Some(path), true) if log.is_empty() => Ok(Place::Directory(path.into())),
        (None, false) => {
            let cache = words.bytes("cache", daemon::memory::default_bytes())?;
            Ok(Place::Pool { main, log, cache })
        }
        _ => Err(Refusal::Usage("either --path DIRECTORY, or --main FILE and perhaps --log".into())),
    }
}

#[cfg(test)]
mod tests {
    use crate::bench::tests::code;

    #[test]
    fn files_are_made_in_a_pool_or_in_a_directory() {
        let dir = tempfile::tempdir().expect("a directory");
        let device = dir.path().join("device");
        std::fs::File::create(&device).and_then(|file| file.set_len(128 << 20)).expect("room");
        let (dir, device) = (dir.path().display(), device.display());
        for words in [
            format!("--path {dir} --files 5 --threads 2"),
            format!("--path {dir} --files 5 --size 100 --json"),
            format!("--main {device} --files 5"),
        ] {
            assert_eq!(code(&format!("files {words}")), 0, "{words}");
        }
        for words in [
            "--files 5".to_owned(),
            format!("--path {dir} --main {device}"),
            format!("--path {dir} --log {device}"),
            format!("--path {dir} --files 0"),
            format!("--path {dir} --threads 0"),
            format!("--path {dir} --size bogus"),
        ] {
            assert_eq!(code(&format!("files {words}")), 2, "{words}");
        }
        assert_eq!(code(&format!("files --path {dir}/none --files 5")), 1);
    }
}
