//! `sawmill bench destroy`.

use bench::destroy::{self, Plan};
use bench::{Refusal, failed};

use super::words::Words;
use super::{CACHE, JSON, LOG, MAIN, environment, outcome, print_report};
use crate::args::{Flag, Spec};
use crate::program::Command;

pub(super) const DESTROY: Command = Command::new(
    Spec {
        name: "destroy",
        alias: None,
        about: "measures what writers see while a large clone and its origin are destroyed",
        flags: &[
            MAIN,
            LOG,
            Flag::long_value(
                "size",
                "bytes",
                "of the origin, before compression (4g); takes a thirtieth of it",
            ),
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
        size: words.bytes("size", 4 << 30)?,
        cache: words.bytes("cache", daemon::memory::default_bytes())?,
    };
    if plan.main.is_empty() || plan.size < 1 << 20 {
        return Err(Refusal::Usage("--main FILE is needed, and a --size of 1m or more".into()));
    }
    let report = destroy::run(&environment()?, &plan).map_err(failed)?;
    print_report(words, &report, report.text());
    Ok(0)
}

#[cfg(test)]
mod tests {
    use crate::bench::tests::code;

    #[test]
    fn a_clone_and_its_origin_are_destroyed() {
        let dir = tempfile::tempdir().expect("a directory");
        let device = dir.path().join("device");
        std::fs::File::create(&device).and_then(|file| file.set_len(512 << 20)).expect("room");
        let device = device.display();
        assert_eq!(code(&format!("destroy --main {device} --size 16m")), 0);
        for words in ["destroy".to_owned(), format!("destroy --main {device} --size 1k")] {
            assert_eq!(code(&words), 2, "{words}");
        }
    }
}
