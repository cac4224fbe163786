//! What a top-level vdev is for.

/// The blocks that a vdev was added for. OpenZFS's word is the allocation bias; these are its names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Bias {
    /// Data and metadata.
    #[default]
    None,
    /// Intent logs.
    Log,
    /// Metadata, and small blocks of data where a dataset wants that.
    Special,
    /// Tables of deduplicated blocks.
    Dedup,
}

impl Bias {
    /// Its name in the vdev's ZAP; none for a vdev of no bias.
    #[must_use]
    pub const fn name(self) -> Option<&'static str> {
        match self {
            Self::None => None,
            Self::Log => Some("log"),
            Self::Special => Some("special"),
            Self::Dedup => Some("dedup"),
        }
    }

    /// The bias of a name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Log, Self::Special, Self::Dedup].into_iter().find(|bias| bias.name() == Some(name))
    }

    /// That of a log vdev, or of one for data.
    #[must_use]
    pub const fn log(is_log: bool) -> Self {
        if is_log { Self::Log } else { Self::None }
    }
}
