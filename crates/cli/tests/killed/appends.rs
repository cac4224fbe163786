//! Appending and `fsync`: like a log.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

use crate::client::Client;
use crate::dice::{Dice, word};

const RECORD_MAX_BYTES: u64 = 6_000;
/// A longer file is begun anew.
const FILE_MAX_BYTES: u64 = 2 << 20;

/// A client with a file of its own that only grows.
pub struct Appends {
    number: u64,
    /// How often the file was begun anew.
    epoch: u64,
    /// Length that an `fsync` returned for.
    stable: u64,
    /// Length with the write that was begun.
    begun: u64,
    dice: Dice,
    file: Option<File>,
}

impl Appends {
    pub fn new(number: u64, dice: Dice) -> Self {
        Self { number, epoch: 0, stable: 0, begun: 0, dice, file: None }
    }

    fn name(&self) -> String {
        format!("appended-{}-{}", self.number, self.epoch)
    }

    fn content(&self, from: u64, until: u64) -> Vec<u8> {
        let words = from / 8..until.div_ceil(8);
        let bytes: Vec<u8> = words.flat_map(|at| word(self.number, self.epoch, at)).collect();
        let skip = (from % 8) as usize;
        bytes[skip..skip + (until - from) as usize].to_vec()
    }
}

impl Client for Appends {
    fn prepare(&mut self, root: &Path) -> io::Result<()> {
        if self.stable > FILE_MAX_BYTES {
            std::fs::remove_file(root.join(self.name()))?;
            (self.epoch, self.stable, self.begun) = (self.epoch + 1, 0, 0);
        }
        let mut options = OpenOptions::new();
        self.file = Some(options.append(true).create(true).open(root.join(self.name()))?);
        Ok(())
    }

    fn step(&mut self, _root: &Path) -> io::Result<()> {
        self.begun = self.stable + 1 + self.dice.below(RECORD_MAX_BYTES);
        let record = self.content(self.stable, self.begun);
        let file = self.file.as_mut().expect("prepared");
        file.write_all(&record)?;
        match self.dice.below(2) {
            0 => file.sync_data()?,
            _ => file.sync_all()?,
        }
        self.stable = self.begun;
        Ok(())
    }

    fn check(&mut self, root: &Path) -> Result<(), String> {
        self.file = None;
        let name = self.name();
        // Not even its name had to be there before the first `fsync`.
        let found = match std::fs::read(root.join(&name)) {
            Ok(found) => found,
            Err(_) if self.stable == 0 => Vec::new(),
            Err(error) => return Err(format!("{name}: {error}")),
        };
        let len = found.len() as u64;
        if len < self.stable || len > self.begun {
            return Err(format!("{name}: {len} bytes, of stable {}, begun {}", self.stable, self.begun));
        }
        if let Some(at) = found.iter().zip(self.content(0, len)).position(|(is, was)| *is != was) {
            return Err(format!(
                "{name}: byte {at} of {len} is not what was written (stable: {})",
                self.stable
            ));
        }
        (self.stable, self.begun) = (len, len);
        Ok(())
    }
}
