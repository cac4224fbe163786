//! What is told of a run: failures at once and again at the end, progress, and where the time went.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::case::{Case, Outcome, Verdict};

/// Longer ones are told when they end.
const SLOW: Duration = Duration::from_secs(10);
/// Progress is told this often.
const NEWS: Duration = Duration::from_secs(60);
/// Names a file to which the time of each test is written.
const TIMES: &str = "SAWMILL_TEST_TIMES";
/// So many of the longest are told at the end.
const LONGEST: usize = 25;

pub struct Report {
    begun: Instant,
    news: Instant,
    cases: usize,
    passed: usize,
    failed: Vec<(String, String)>,
    times: Vec<(Duration, Duration, String)>,
}

impl Report {
    pub fn new(cases: usize) -> Self {
        let now = Instant::now();
        Self { begun: now, news: now, cases, passed: 0, failed: Vec::new(), times: Vec::new() }
    }

    pub fn add(&mut self, case: Case, outcome: Outcome) {
        let name = case.name;
        match outcome.verdict {
            Verdict::Passed => self.passed += 1,
            Verdict::Failed(why) => {
                println!("\n-- {name} printed:\n{}\n-- FAILED: {name}: {why}\n", outcome.printed.trim_end());
                self.failed.push((name.clone(), why));
            }
        }
        if !outcome.leftovers.is_empty() {
            println!("{name} left behind: {}", outcome.leftovers.summary());
        }
        if outcome.took > SLOW {
            println!("{:4} s  {name}", outcome.took.as_secs());
        }
        self.times.push((outcome.took, outcome.busy, name));
        if self.news.elapsed() > NEWS {
            self.news = Instant::now();
            println!("{} of {} tests, {} s", self.times.len(), self.cases, self.begun.elapsed().as_secs());
        }
    }

    /// Whether all passed.
    pub fn finish(mut self) -> bool {
        self.times.sort_by(|a, b| b.cmp(a));
        println!("\nthe longest, in seconds, and those of processors in it (daemons not counted):");
        for (took, busy, name) in self.times.iter().take(LONGEST) {
            println!("{:7.1} {:7.1}  {name}", took.as_secs_f64(), busy.as_secs_f64());
        }
        println!("\nthe programs, in seconds that all their tests took one by one, and their tests:");
        for (took, count, program) in self.programs().into_iter().take(LONGEST) {
            println!("{:7.0} {count:7}  {program}", took.as_secs_f64());
        }
        if let Err(error) = self.write_times() {
            println!("the file that {TIMES} names cannot be written: {error}");
        }
        let sum =
            |of: fn(&(Duration, Duration, String)) -> Duration| self.times.iter().map(of).sum::<Duration>();
        let (took, busy) = (sum(|time| time.0).as_secs(), sum(|time| time.1).as_secs());
        let begun = self.begun.elapsed().as_secs();
        println!("\n{begun} s; one by one {took} s, of processors {busy} s");
        for (name, why) in &self.failed {
            println!("FAILED: {name}: {why}");
        }
        println!("{} passed, {} failed", self.passed, self.failed.len());
        self.failed.is_empty() && self.passed == self.cases
    }

    /// Writes a line for each test: its seconds, those of processors in it, its name.
    fn write_times(&self) -> std::io::Result<()> {
        let Some(file) = std::env::var_os(TIMES) else { return Ok(()) };
        let line = |(took, busy, name): &(Duration, Duration, String)| {
            format!("{:.3}\t{:.3}\t{name}\n", took.as_secs_f64(), busy.as_secs_f64())
        };
        std::fs::write(file, self.times.iter().map(line).collect::<String>())
    }

    /// Returns the programs of the tests that have ended. The program whose tests took longest comes first.
    fn programs(&self) -> Vec<(Duration, usize, &str)> {
        let mut sums: BTreeMap<&str, (Duration, usize)> = BTreeMap::new();
        for (took, _, name) in &self.times {
            let program = name.split(' ').next().unwrap_or_default();
            let (sum, count) = sums.entry(program).or_default();
            (*sum, *count) = (*sum + *took, *count + 1);
        }
        let mut programs: Vec<_> =
            sums.into_iter().map(|(program, (sum, count))| (sum, count, program)).collect();
        programs.sort_by(|a, b| b.cmp(a));
        programs
    }
}
