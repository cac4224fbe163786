//! `sawmill bench snapshots`.

use bench::snapshots::{self, Plan};
use bench::{Refusal, failed};

use super::words::Words;
use super::{CACHE, JSON, LOG, MAIN, SPAN, environment, outcome, print_report};
use crate::args::{Flag, Spec};
use crate::program::Command;

pub(super) const SNAPSHOTS: Command = Command::new(
    Spec {
        name: "snapshots",
        alias: None,
        about: "measures snapshots of a file system that is being written: made, listed, destroyed all at once",
        flags: &[
            MAIN,
            LOG,
            Flag::long_value("snapshots", "number", "how many (1000)"),
            Flag { help: "bytes of the file that is written to (64m)", ..SPAN },
            CACHE,
            JSON,
        ],
        operands: "",
    },
    |_, args| outcome(args, run),
);

fn run(words: &Words<'_>) -> Result<u8, Refusal> {
    let plan = Plan {
        main: words.paths("main"),
        log: words.paths("log"),
        snapshots: words.number("snapshots", 1000)?,
        span: words.bytes("span", 64 << 20)?,
        cache: words.bytes("cache", daemon::memory::default_bytes())?,
    };
    if plan.main.is_empty() || plan.snapshots == 0 || plan.span < 1 << 20 {
        return Err(Refusal::Usage(
            "--main FILE is needed, --snapshots above 0, --span of 1m or more".into(),
        ));
    }
    let report = snapshots::run(&environment()?, &plan).map_err(failed)?;
    print_report(words, &report, report.text());
    Ok(0)
}

#[cfg(test)]
mod tests {
    use crate::bench::tests::code;

    #[test]
    fn snapshots_are_made_and_destroyed() {
        let dir = tempfile::tempdir().expect("a directory");
        let device = dir.path().join("device");
        std::fs::File::create(&device).and_then(|file| file.set_len(256 << 20)).expect("room");
        let device = device.display();
        let some = format!("snapshots --main {device} --snapshots 5 --span 2m");
        assert_eq!(code(&some), 0);
        assert_eq!(code(&format!("{some} --json")), 0);
        for words in ["snapshots".to_owned(), format!("snapshots --main {device} --snapshots 0")] {
            assert_eq!(code(&words), 2, "{words}");
        }
    }
}
