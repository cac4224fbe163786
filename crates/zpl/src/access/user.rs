//! Who asks.

/// What of root's a user may do: the capabilities of Linux that matter to files (capabilities(7)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Powers(u16);

impl Powers {
    /// None.
    pub const NONE: Self = Self(0);
    /// Read, write and search whatever the mode says (`CAP_DAC_OVERRIDE`).
    pub const DAC_OVERRIDE: Self = Self(1);
    /// Read, and search directories (`CAP_DAC_READ_SEARCH`).
    pub const DAC_READ_SEARCH: Self = Self(1 << 1);
    /// What only an owner may (`CAP_FOWNER`).
    pub const FOWNER: Self = Self(1 << 2);
    /// Give files to others (`CAP_CHOWN`).
    pub const CHOWN: Self = Self(1 << 3);
    /// Keep set-id bits (`CAP_FSETID`).
    pub const FSETID: Self = Self(1 << 4);
    /// Make devices (`CAP_MKNOD`).
    pub const MKNOD: Self = Self(1 << 5);
    /// Change the flags immutable and append-only (`CAP_LINUX_IMMUTABLE`).
    pub const IMMUTABLE: Self = Self(1 << 6);
    /// Attributes of administrators (`CAP_SYS_ADMIN`).
    pub const ADMIN: Self = Self(1 << 7);
    /// All: root.
    pub const ALL: Self = Self(0xff);

    /// These and those.
    #[must_use]
    pub const fn with(self, more: Self) -> Self {
        Self(self.0 | more.0)
    }

    /// Whether all of `which` are there.
    #[must_use]
    pub const fn has(self, which: Self) -> bool {
        self.0 & which.0 == which.0
    }
}

/// A user with his groups, as a front has authenticated him.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// His number.
    pub uid: u32,
    /// His group: what he makes belongs to it.
    pub gid: u32,
    /// His other groups.
    pub groups: Vec<u32>,
    /// What he may beyond the rules.
    pub powers: Powers,
}

impl User {
    /// A user with what his number brings: number 0 is root, who may do everything.
    #[must_use]
    pub fn new(uid: u32, gid: u32, groups: Vec<u32>) -> Self {
        let powers = if uid == 0 { Powers::ALL } else { Powers::NONE };
        Self { uid, gid, groups, powers }
    }

    pub(crate) fn is_in(&self, gid: u32) -> bool {
        self.gid == gid || self.groups.contains(&gid)
    }
}

/// On whose behalf a handle on a file system is used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asker {
    /// Whoever has the pool open: the engine itself, the library, commands. Nothing is asked.
    Engine,
    /// Users whom the kernel has checked before it passed their requests on: a mount with
    /// `default_permissions`. Nothing is asked again.
    Kernel,
    /// The same with a kernel that keeps what programs write (a mount with writeback), and how long files are and when they
    /// changed with it: what it hands over are whole pages, and times as attributes. Nothing else changes the times
    /// of a file's content then.
    Cache,
    /// This user, whom nobody has checked: every operation asks the rules.
    User(User),
}
