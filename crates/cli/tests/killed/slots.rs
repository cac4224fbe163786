//! Writes in place through `O_DSYNC`: like a database with pages of one size.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::OFlags;

use crate::client::Client;
use crate::dice::{Dice, word};

/// A write that was under way may be torn between sectors, never inside one.
const SECTOR_BYTES: usize = 512;

/// A client with pages of its own, in a file it may share with others.
pub struct Slots {
    number: u64,
    file_name: String,
    /// Where its part of the file begins.
    base: u64,
    slot_bytes: usize,
    slots: Vec<Slot>,
    dice: Dice,
    file: Option<File>,
}

/// Versions of one page. Zero: never written.
#[derive(Clone, Default)]
struct Slot {
    /// The last that returned.
    stable: u64,
    /// The last that was begun.
    begun: u64,
    /// The last number used: one that was lost is never used again.
    used: u64,
}

impl Slots {
    pub fn new(number: u64, file_name: &str, base: u64, slot_bytes: usize, slots: usize, dice: Dice) -> Self {
        let slots = vec![Slot::default(); slots];
        Self { number, file_name: file_name.to_owned(), base, slot_bytes, slots, dice, file: None }
    }

    fn offset(&self, at: usize) -> u64 {
        self.base + (at * self.slot_bytes) as u64
    }

    fn page(&self, at: usize, version: u64) -> Vec<u8> {
        (0..self.slot_bytes / SECTOR_BYTES).flat_map(|sector| self.sector(at, sector, version)).collect()
    }

    /// The version, then bytes that follow from all its coordinates.
    fn sector(&self, at: usize, sector: usize, version: u64) -> Vec<u8> {
        let place = self.offset(at) + sector as u64;
        let body = word(self.number, place, version).repeat(SECTOR_BYTES / 8 - 1);
        version.to_le_bytes().into_iter().chain(body).collect()
    }

    /// The version that a sector as found has.
    fn version(&self, at: usize, sector: usize, found: &[u8]) -> Result<u64, String> {
        if found.iter().all(|byte| *byte == 0) {
            return Ok(0);
        }
        let version = u64::from_le_bytes(found[..8].try_into().expect("eight bytes"));
        if found == self.sector(at, sector, version) {
            return Ok(version);
        }
        Err(format!("{}: page {at} sector {sector} is of no version: {:?}", self.file_name, &found[..16]))
    }
}

impl Client for Slots {
    fn prepare(&mut self, root: &Path) -> io::Result<()> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        options.custom_flags(OFlags::DSYNC.bits() as i32);
        self.file = Some(options.open(root.join(&self.file_name))?);
        Ok(())
    }

    fn step(&mut self, _root: &Path) -> io::Result<()> {
        let at = self.dice.below(self.slots.len() as u64) as usize;
        let version = self.slots[at].used + 1;
        let page = self.page(at, version);
        let offset = self.offset(at);
        let slot = &mut self.slots[at];
        (slot.used, slot.begun) = (version, version);
        self.file.as_ref().expect("prepared").write_all_at(&page, offset)?;
        slot.stable = version;
        Ok(())
    }

    fn check(&mut self, root: &Path) -> Result<(), String> {
        self.file = None;
        let bytes =
            std::fs::read(root.join(&self.file_name)).map_err(|e| format!("{}: {e}", self.file_name))?;
        for at in 0..self.slots.len() {
            let mut page = vec![0; self.slot_bytes];
            let start = bytes.len().min(self.offset(at) as usize);
            let end = bytes.len().min(start + self.slot_bytes);
            page[..end - start].copy_from_slice(&bytes[start..end]);
            let sectors = page.chunks(SECTOR_BYTES).enumerate();
            let found: Vec<u64> =
                sectors.map(|(sector, bytes)| self.version(at, sector, bytes)).collect::<Result<_, _>>()?;
            let slot = &mut self.slots[at];
            let (oldest, newest) = (*found.iter().min().unwrap_or(&0), *found.iter().max().unwrap_or(&0));
            if oldest < slot.stable || newest > slot.begun {
                let (name, Slot { stable, begun, .. }) = (&self.file_name, slot);
                return Err(format!(
                    "{name}: page {at} has versions {found:?}, of stable {stable}, begun {begun}"
                ));
            }
            (slot.stable, slot.begun) = (oldest, newest);
        }
        Ok(())
    }
}
