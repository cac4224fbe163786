//! How a leaf stands, as its ZAP has it.
//!
//! ```text
//!   initialize  com.delphix:      next_offset_to_initialize, vdev_initialize_state, vdev_initialize_action_time
//!   trim        org.zfsonlinux:   next_offset_to_trim, vdev_trim_state, vdev_trim_action_time, vdev_trim_rate, vdev_trim_partial,
//!                                 vdev_trim_secure
//! ```
//! Each is one word; what is not there is 0. Places are those of the device, labels included, up to which all is done.

use std::sync::Arc;

use dmu::zap::{Zap, ZapError};
use dmu::{Objset, Tx};
use env::boxed;
use ondisk::mos::vdev_zap;
use units::{LeafOffset, ObjectId};

/// What is done to free space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A pattern is written.
    Initialize,
    /// The device is told to forget.
    Trim,
}

impl Kind {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Initialize, Self::Trim];

    /// What the history calls it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Initialize => "initialize",
            Self::Trim => "trim",
        }
    }

    /// Names of the place, the state and its time.
    const fn names(self) -> [&'static str; 3] {
        match self {
            Self::Initialize => [
                vdev_zap::INITIALIZE_LAST_OFFSET,
                vdev_zap::INITIALIZE_STATE,
                vdev_zap::INITIALIZE_ACTION_TIME,
            ],
            Self::Trim => [vdev_zap::TRIM_LAST_OFFSET, vdev_zap::TRIM_STATE, vdev_zap::TRIM_ACTION_TIME],
        }
    }

    /// Names of how it was asked for.
    const fn option_names(self) -> &'static [&'static str] {
        match self {
            Self::Initialize => &[],
            Self::Trim => &[vdev_zap::TRIM_RATE, vdev_zap::TRIM_PARTIAL, vdev_zap::TRIM_SECURE],
        }
    }
}

/// Whether a leaf is swept, or was. The numbers are the format's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum State {
    /// Never, as far as is known.
    #[default]
    None = 0,
    /// It is, or will be once it is in use again.
    Active = 1,
    /// It was not to its end.
    Canceled = 2,
    /// It will be when somebody says so.
    Suspended = 3,
    /// It was.
    Complete = 4,
}

impl State {
    /// A number that makes no sense counts as none: nothing but progress is lost.
    fn from_word(word: u64) -> Self {
        let all = [Self::None, Self::Active, Self::Canceled, Self::Suspended, Self::Complete];
        all.into_iter().find(|state| *state as u64 == word).unwrap_or_default()
    }
}

/// What a leaf's ZAP has of a sweep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// How it stands.
    pub state: State,
    /// The place on the device up to which all is done.
    pub offset: LeafOffset,
    /// When it began, or when it ended, in seconds since 1970.
    pub changed_secs: u64,
    /// Bytes a second at most; 0 for as many as can be.
    pub rate: u64,
    /// Only metaslabs that were ever used were to be swept. Here all are.
    pub partial: bool,
    /// What is forgotten is to be gone for good.
    pub secure: bool,
}

impl Record {
    /// Reads it.
    ///
    /// # Errors
    /// Those of reading the ZAP.
    #[boxed]
    pub async fn load(mos: &Arc<Objset>, zap: ObjectId, kind: Kind) -> Result<Self, ZapError> {
        let zap = Zap::hold(mos, zap).await?;
        let word = async |name: &str| Ok::<_, ZapError>(zap.lookup_u64(name.as_bytes()).await?.unwrap_or(0));
        let [offset, state, changed] = kind.names();
        let mut options = [0; 3];
        for (option, name) in options.iter_mut().zip(kind.option_names()) {
            *option = word(name).await?;
        }
        Ok(Self {
            state: State::from_word(word(state).await?),
            offset: LeafOffset::new(word(offset).await?),
            changed_secs: word(changed).await?,
            rate: options[0],
            partial: options[1] != 0,
            secure: options[2] != 0,
        })
    }

    /// Writes it.
    ///
    /// # Errors
    /// Those of changing the ZAP.
    #[boxed]
    pub async fn store(&self, mos: &Arc<Objset>, tx: &Tx, zap: ObjectId, kind: Kind) -> Result<(), ZapError> {
        let zap = Zap::hold(mos, zap).await?;
        let words = [self.offset.get(), self.state as u64, self.changed_secs];
        for (name, word) in kind.names().into_iter().zip(words) {
            zap.update_u64(tx, name.as_bytes(), word).await?;
        }
        let options = [self.rate, self.partial.into(), self.secure.into()];
        for (name, word) in kind.option_names().iter().zip(options) {
            zap.update_u64(tx, name.as_bytes(), word).await?;
        }
        Ok(())
    }

    /// Takes all of it away.
    ///
    /// # Errors
    /// Those of changing the ZAP.
    #[boxed]
    pub async fn forget(mos: &Arc<Objset>, tx: &Tx, zap: ObjectId, kind: Kind) -> Result<(), ZapError> {
        let zap = Zap::hold(mos, zap).await?;
        for name in kind.names().iter().chain(kind.option_names()) {
            if zap.lookup(name.as_bytes()).await?.is_some() {
                zap.remove(tx, name.as_bytes()).await?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::State;

    #[test]
    fn states_have_the_numbers_of_openzfs() {
        let states = [State::None, State::Active, State::Canceled, State::Suspended, State::Complete];
        assert!(states.iter().zip(0..).all(|(state, word)| State::from_word(word) == *state));
        assert_eq!(State::from_word(77), State::None);
    }
}
