//! The last event that was handled, in a file, so that a `zed` that starts again handles no event twice.

use control::EventsSeen;
use std::io;
use std::path::Path;

/// `Handled` names the last event that was handled, by the run of the daemon and the number of the event in that run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Handled(EventsSeen);

impl Handled {
    /// Reads the file. Without a file, or with other contents, no event counts as handled.
    pub fn load(path: &Path) -> Self {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        Self::parse(&text).unwrap_or_default()
    }

    fn parse(text: &str) -> Option<Self> {
        let (run, eid) = text.trim_end().split_once(' ')?;
        Some(Self(EventsSeen { run: run.parse().ok()?, eid: eid.parse().ok()? }))
    }

    fn text(self) -> String {
        format!("{} {}\n", self.0.run, self.0.eid)
    }

    /// Writes the file whole or not at all.
    pub fn store(self, path: &Path) -> io::Result<()> {
        let new = path.with_extension("new");
        std::fs::write(&new, self.text())?;
        std::fs::rename(new, path)
    }

    /// Returns the event behind which the next question for events begins.
    pub fn seen(self) -> EventsSeen {
        self.0
    }

    /// Goes on to `seen`; returns whether that is another event.
    pub fn advance(&mut self, seen: EventsSeen) -> bool {
        let is_other = self.0 != seen;
        self.0 = seen;
        is_other
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_gives_back_what_was_stored() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("zed.state");
        assert_eq!(Handled::load(&path), Handled::default());
        let handled = Handled(EventsSeen { run: 7, eid: 12 });
        handled.store(&path).expect("written");
        assert_eq!(Handled::load(&path), handled);
        for text in ["", "7", "7 x", "OpenZFS"] {
            std::fs::write(&path, text).expect("written");
            assert_eq!(Handled::load(&path), Handled::default(), "{text}");
        }
    }
}
