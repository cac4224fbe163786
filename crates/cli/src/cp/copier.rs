//! One copy: sources below a target, depth first.

use super::progress::Progress;
use super::side::{CopySource, CopyTarget, Meta, New, Trouble, join};
use rescue::{LostRanges, check_name};
use std::collections::HashMap;
use zpl::FileKind;

/// Bytes copied at a time.
const STEP_BYTES: usize = 1 << 20;
/// What files and directories get that do not keep their modes.
const UMASKED: u32 = 0o777;

/// How to copy.
#[derive(Clone, Copy, Debug)]
pub struct How {
    /// Directories, with all below them.
    pub recursive: bool,
    /// Modes, owners, times, extended attributes.
    pub preserve: bool,
    /// Names of one file stay names of one file.
    pub links: bool,
    /// Copies the readable parts of files that are damaged.
    pub partial: bool,
    /// Bits that new files do not get, unless modes are kept.
    pub umask: u32,
}

/// From one side to the other.
pub struct Copier<'a, S: CopySource, T: CopyTarget> {
    pub from: &'a S,
    pub to: &'a T,
    pub how: How,
    pub progress: Progress,
    /// Where files with several names were copied to.
    seen: HashMap<(u64, u64), Vec<u8>>,
    /// What went wrong, and what befell it.
    pub troubles: Vec<(String, Trouble)>,
}

impl<'a, S: CopySource, T: CopyTarget> Copier<'a, S, T> {
    pub fn new(from: &'a S, to: &'a T, how: How, progress: Progress) -> Self {
        Self { from, to, how, progress, seen: HashMap::new(), troubles: Vec::new() }
    }

    /// Bytes that are to be copied from a path: the size of a progress bar.
    pub fn measure(&self, source: &[u8]) -> u64 {
        let Ok(Some(meta)) = self.from.meta(source, !self.how.recursive) else { return 0 };
        match meta.kind {
            FileKind::File => meta.size,
            FileKind::Directory if self.how.recursive => {
                let names = self.from.list(source).unwrap_or_default();
                names.iter().map(|name| self.measure(&join(source, name))).sum()
            }
            _ => 0,
        }
    }

    /// Copies what stands at `source` so that it stands at `target`. Goes on after troubles.
    pub fn copy(&mut self, source: &[u8], target: &[u8]) {
        if let Err(trouble) = self.try_copy(source, target) {
            self.trouble(source, trouble);
        }
    }

    fn trouble(&mut self, path: &[u8], trouble: Trouble) {
        self.troubles.push((String::from_utf8_lossy(path).into_owned(), trouble));
    }

    fn try_copy(&mut self, source: &[u8], target: &[u8]) -> Result<(), Trouble> {
        let meta = self.from.meta(source, !self.how.recursive)?;
        let meta = meta.ok_or("No such file or directory")?;
        if meta.kind == FileKind::Directory && !self.how.recursive {
            return Err("-r not specified; omitting directory".into());
        }
        if self.is_second_name(&meta, target)? {
            return Ok(());
        }
        match meta.kind {
            FileKind::Directory => self.directory(source, target, &meta)?,
            FileKind::File => self.file(source, target, &meta)?,
            FileKind::Symlink => {
                self.make_room(target)?;
                self.to.make(target, New::Symlink(&self.from.read_link(source)?), UMASKED)?;
            }
            kind => {
                self.make_room(target)?;
                self.to.make(target, New::Special(kind, meta.device), self.permissions(&meta))?;
            }
        }
        if self.how.preserve { self.keep(source, target, &meta) } else { Ok(()) }
    }

    /// Of a file that was copied under another name, makes a link.
    fn is_second_name(&mut self, meta: &Meta, target: &[u8]) -> Result<bool, Trouble> {
        if !self.how.links || meta.links < 2 || meta.kind == FileKind::Directory {
            return Ok(false);
        }
        let Some(first) = self.seen.insert(meta.identity, target.to_vec()) else { return Ok(false) };
        self.make_room(target)?;
        self.to.link(&first, target)?;
        self.progress.add(if meta.kind == FileKind::File { meta.size } else { 0 });
        Ok(true)
    }

    fn make_room(&self, target: &[u8]) -> Result<(), Trouble> {
        match self.to.there(target, false)? {
            None => Ok(()),
            Some(FileKind::Directory) => Err("cannot overwrite directory with non-directory".into()),
            Some(_) => self.to.remove(target),
        }
    }

    fn permissions(&self, meta: &Meta) -> u32 {
        meta.permissions & UMASKED & !self.how.umask
    }

    fn directory(&mut self, source: &[u8], target: &[u8], meta: &Meta) -> Result<(), Trouble> {
        match self.to.there(target, true)? {
            // Must be writable until all is in it.
            None => self.to.make(target, New::Directory, self.permissions(meta) | 0o700)?,
            Some(FileKind::Directory) => {}
            Some(_) => return Err("cannot overwrite non-directory with directory".into()),
        }
        for name in self.from.list(source)? {
            if let Err(why) = check_name(&name) {
                self.trouble(&join(source, &name), why.to_owned());
                continue;
            }
            self.copy(&join(source, &name), &join(target, &name));
        }
        Ok(())
    }

    fn file(&mut self, source: &[u8], target: &[u8], meta: &Meta) -> Result<(), Trouble> {
        if self.to.there(target, true)? == Some(FileKind::Directory) {
            return Err("cannot overwrite directory with non-directory".into());
        }
        let input = self.from.open(source)?;
        let output = self.to.create(target, self.permissions(meta))?;
        if self.how.partial {
            return self.salvage(source, &input, &output, meta.size);
        }
        let mut step = vec![0; STEP_BYTES];
        let mut at = 0;
        while let Some((start, end)) = self.from.data(&input, at, meta.size)? {
            self.progress.add(start - at);
            at = start;
            while at < end {
                let room = usize::try_from(end - at).map_or(STEP_BYTES, |left| left.min(STEP_BYTES));
                let count = self.from.read(&input, at, &mut step[..room])?;
                if count == 0 {
                    return Err("file shrank while it was copied".into());
                }
                self.to.write(&output, at, &step[..count])?;
                at += count as u64;
                self.progress.add(count as u64);
            }
        }
        self.progress.add(meta.size.saturating_sub(at));
        self.to.set_size(&output, meta.size)
    }

    /// Copies the readable parts of a file. Lost parts stay holes.
    fn salvage(
        &mut self,
        source: &[u8],
        input: &S::Input,
        output: &T::Output,
        size: u64,
    ) -> Result<(), Trouble> {
        let lost = self.from.salvage(input, size, &mut |at, bytes| {
            self.progress.add(bytes.len() as u64);
            self.to.write(output, at, bytes)
        })?;
        self.to.set_size(output, size)?;
        if !lost.ranges.is_empty() {
            self.trouble(source, lost_words(&lost));
        }
        Ok(())
    }

    /// Attributes that cannot be kept are told, and no reason to stop.
    fn keep(&mut self, source: &[u8], target: &[u8], meta: &Meta) -> Result<(), Trouble> {
        for xattr in self.from.xattrs(source)? {
            if let Err(trouble) = self.to.set_xattr(target, &xattr) {
                let name = String::from_utf8_lossy(&xattr.0).into_owned();
                self.trouble(source, format!("extended attribute '{name}' not kept: {trouble}"));
            }
        }
        self.to.set_meta(target, meta)
    }
}

/// The number of byte ranges that a message lists.
const RANGES_SHOWN: usize = 8;

/// Describes the lost ranges of a file.
pub fn lost_words(lost: &LostRanges) -> Trouble {
    let ranges =
        lost.ranges.iter().take(RANGES_SHOWN).map(|range| format!("{}-{}", range.start, range.end - 1));
    let mut ranges = ranges.collect::<Vec<_>>().join(", ");
    if lost.ranges.len() > RANGES_SHOWN {
        ranges.push_str(&format!(" and {} other ranges", lost.ranges.len() - RANGES_SHOWN));
    }
    format!("{} bytes are lost, and holes in the copy: {ranges}", lost.bytes())
}
