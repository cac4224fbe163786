//! Files put in place by renaming, as programs do that never want to be seen with half a file.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::client::Client;
use crate::dice::{Dice, word};

const TARGETS: u64 = 8;
const FILE_MAX_WORDS: u64 = 600;
/// One step in so many takes a file away.
const REMOVALS: u64 = 4;

/// What a name leads to: nothing, or the file of a generation.
type State = Option<u64>;

/// A client with two directories: one in which files are made, one in which they are put.
pub struct Names {
    number: u64,
    generation: u64,
    stable: BTreeMap<u64, State>,
    /// What was begun and did not return.
    begun: Option<(u64, State)>,
    dice: Dice,
}

impl Names {
    pub fn new(number: u64, dice: Dice) -> Self {
        let stable = (0..TARGETS).map(|target| (target, None)).collect();
        Self { number, generation: 0, stable, begun: None, dice }
    }

    fn placed(&self, root: &Path) -> PathBuf {
        root.join(format!("names-{}", self.number))
    }

    fn making(&self, root: &Path) -> PathBuf {
        self.placed(root).join("making")
    }

    fn content(&self, generation: u64) -> Vec<u8> {
        let words = Dice::new(self.number, generation).below(FILE_MAX_WORDS);
        let body = (0..words).flat_map(|at| word(self.number, generation, at));
        generation.to_le_bytes().into_iter().chain(body).collect()
    }

    fn put(&mut self, root: &Path, target: u64) -> io::Result<()> {
        let made = self.making(root).join(self.generation.to_string());
        let mut file = File::create_new(&made)?;
        file.write_all(&self.content(self.generation))?;
        // Renaming takes the content along: whoever makes the directory stable gets both.
        if self.dice.below(2) == 0 {
            file.sync_all()?;
        }
        fs::rename(&made, self.placed(root).join(target.to_string()))
    }

    fn state(&self, path: &Path) -> Result<State, String> {
        let found = match fs::read(path) {
            Ok(found) => found,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(format!("{}: {error}", path.display())),
        };
        let generation = found.first_chunk().map(|first| u64::from_le_bytes(*first));
        match generation {
            Some(generation) if found == self.content(generation) => Ok(Some(generation)),
            _ => Err(format!("{}: {} bytes of no generation", path.display(), found.len())),
        }
    }

    /// Only the file being made may be there, in any state.
    fn clear_making(&self, root: &Path) -> Result<(), String> {
        let making = self.making(root);
        let entries = fs::read_dir(&making).map_err(|e| format!("{}: {e}", making.display()))?;
        for entry in entries {
            let entry = entry.map_err(|e| format!("{}: {e}", making.display()))?;
            let under_way = self.begun.and_then(|(_, state)| state).map(|generation| generation.to_string());
            if under_way.as_deref() != entry.file_name().to_str() {
                return Err(format!("{} was renamed, and is back", entry.path().display()));
            }
            fs::remove_file(entry.path()).map_err(|e| format!("{}: {e}", entry.path().display()))?;
        }
        Ok(())
    }
}

impl Client for Names {
    fn prepare(&mut self, root: &Path) -> io::Result<()> {
        fs::create_dir_all(self.making(root))?;
        File::open(self.making(root))?.sync_all()
    }

    fn step(&mut self, root: &Path) -> io::Result<()> {
        let target = self.dice.below(TARGETS);
        let remove = self.stable[&target].is_some() && self.dice.below(REMOVALS) == 0;
        self.generation += 1;
        let state = if remove { None } else { Some(self.generation) };
        self.begun = Some((target, state));
        if remove {
            fs::remove_file(self.placed(root).join(target.to_string()))?;
        } else {
            self.put(root, target)?;
        }
        File::open(self.placed(root))?.sync_all()?;
        self.stable.insert(target, state);
        self.begun = None;
        Ok(())
    }

    fn check(&mut self, root: &Path) -> Result<(), String> {
        for target in 0..TARGETS {
            let path = self.placed(root).join(target.to_string());
            let (found, stable) = (self.state(&path)?, self.stable[&target]);
            let begun = self.begun.filter(|(of, _)| *of == target).map(|(_, state)| state);
            if found != stable && Some(found) != begun {
                let path = path.display();
                return Err(format!("{path}: generation {found:?}, of stable {stable:?}, begun {begun:?}"));
            }
            self.stable.insert(target, found);
        }
        self.clear_making(root)?;
        self.begun = None;
        Ok(())
    }
}
