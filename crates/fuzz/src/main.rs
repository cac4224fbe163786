//! A long run of one decoder: `sawmill-fuzz TARGET SECONDS [FIRST_SEED]`.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use fuzz::{Corpus, TARGETS, run};

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let target = words.first().and_then(|name| TARGETS.iter().find(|target| target.name == name));
    let seconds = words.get(1).and_then(|word| word.parse().ok());
    let (Some(target), Some(seconds)) = (target, seconds) else {
        let names: Vec<_> = TARGETS.iter().map(|target| target.name).collect();
        eprintln!("usage: sawmill-fuzz TARGET SECONDS [FIRST_SEED]\ntargets: {}", names.join(" "));
        return ExitCode::from(2);
    };
    let first_seed = words.get(2).and_then(|word| word.parse().ok()).unwrap_or(1);
    let end = Instant::now() + Duration::from_secs(seconds);
    match run(target, &Corpus::golden(), first_seed, |_| Instant::now() > end) {
        Ok(cases) => {
            println!(
                "{}: {cases} cases from seed {first_seed}, none of which it could not answer",
                target.name
            );
            ExitCode::SUCCESS
        }
        Err(failure) => {
            println!("{failure:#?}");
            ExitCode::FAILURE
        }
    }
}
