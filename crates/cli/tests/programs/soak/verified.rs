//! fio on one file after another. A file that fio has written and verified to the end is synced and
//! kept for a while.

use std::collections::VecDeque;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::Ordering;

use super::progress::SoakProgress;
use super::run::Round;
use crate::exerciser::{ACCUSATIONS, direct, said};
use crate::mounted::{World, bounded};

const SECONDS: u32 = 3;
const KEPT: usize = 4;

pub struct VerifiedFiles {
    seed: u64,
    number: u64,
    /// Files that were synced, and what `sha256sum` printed then.
    kept: VecDeque<(PathBuf, String)>,
}

impl VerifiedFiles {
    pub fn new(seed: u64) -> Self {
        Self { seed, number: 0, kept: VecDeque::new() }
    }

    pub fn work(&mut self, round: &Round<'_>, progress: &SoakProgress) {
        while !round.is_over() {
            self.step(round, progress);
        }
    }

    fn step(&mut self, round: &Round<'_>, progress: &SoakProgress) {
        self.number += 1;
        let file = directory(round.world).join(format!("f{}", self.number));
        let mut fio = direct(&file, SECONDS, self.seed.wrapping_add(self.number));
        let output = fio.stdin(Stdio::null()).output().expect("fio runs");
        let said = said(&output);
        // A kill makes requests fail. No kill makes fio read what it did not write.
        for accusation in ACCUSATIONS {
            assert!(!said.contains(accusation), "{}: {said}", file.display());
        }
        if !output.status.success() {
            assert!(round.is_over(), "{}: {said}", file.display());
            return;
        }
        match synced_sum(&file) {
            Ok(sum) => self.kept.push_back((file, sum)),
            Err(_) if round.is_over() => return,
            Err(error) => panic!("{error}"),
        }
        progress.verified.fetch_add(1, Ordering::Relaxed);
        round.counts.files.fetch_add(1, Ordering::Relaxed);
        while self.kept.len() > KEPT {
            let Some((oldest, _)) = self.kept.pop_front() else { return };
            let removed = fs::remove_file(&oldest);
            assert!(removed.is_ok() || round.is_over(), "{}: {removed:?}", oldest.display());
        }
    }

    /// Compares the files that were synced, and removes all others, which a kill cut off.
    pub fn judge(&self, world: &World) {
        for (file, sum) in &self.kept {
            assert_eq!(synced_sum(file).as_ref(), Ok(sum), "{}", file.display());
        }
        for entry in fs::read_dir(directory(world)).expect("a directory") {
            let path = entry.expect("an entry").path();
            if !self.kept.iter().any(|(file, _)| *file == path) {
                fs::remove_file(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            }
        }
    }
}

fn directory(world: &World) -> PathBuf {
    world.root().join("files")
}

fn synced_sum(file: &Path) -> Result<String, String> {
    let mut bash = bounded(Path::new("bash"));
    bash.args(["-c", r#"sync "$0" && sha256sum "$0""#]).arg(file);
    let output = bash.output().expect("bash runs");
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        Err(said(&output))
    }
}
