//! What is not there, gathered.

use ondisk::send::TO_THE_END;

/// A run of things that are not there, which grows while neighbours come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FreeRun {
    /// Bytes of an object.
    Bytes { object: u64, offset: u64, length: u64 },
    /// Numbers without objects.
    Objects { first: u64, objects: u64 },
    /// Bytes of an object that are left out on purpose.
    Redacted { object: u64, offset: u64, length: u64 },
}

impl FreeRun {
    /// Both in one, if `next` goes on where this one ends.
    pub fn joined(self, next: Self) -> Option<Self> {
        match (self, next) {
            (
                Self::Bytes { object, offset, length },
                Self::Bytes { object: next_object, offset: next_offset, length: more },
            ) if object == next_object && offset.checked_add(length) == Some(next_offset) => {
                let length = match next_offset.checked_add(more) {
                    Some(_) if more != TO_THE_END => length + more,
                    _ => TO_THE_END,
                };
                Some(Self::Bytes { object, offset, length })
            }
            (
                Self::Redacted { object, offset, length },
                Self::Redacted { object: next_object, offset: next_offset, length: more },
            ) if object == next_object && offset.checked_add(length) == Some(next_offset) => {
                Some(Self::Redacted { object, offset, length: length.saturating_add(more) })
            }
            (Self::Objects { first, objects }, Self::Objects { first: next_first, objects: more })
                if first + objects == next_first =>
            {
                Some(Self::Objects { first, objects: objects + more })
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn bytes(object: u64, offset: u64, length: u64) -> FreeRun {
        FreeRun::Bytes { object, offset, length }
    }

    #[test]
    fn neighbours_become_one_run() {
        assert_eq!(bytes(1, 0, 512).joined(bytes(1, 512, 512)), Some(bytes(1, 0, 1024)));
        assert_eq!(bytes(1, 0, 512).joined(bytes(1, 512, TO_THE_END)), Some(bytes(1, 0, TO_THE_END)));
        assert_eq!(bytes(1, 0, 512).joined(bytes(1, 512, u64::MAX - 511)), Some(bytes(1, 0, TO_THE_END)));
        let objects = |first, objects| FreeRun::Objects { first, objects };
        assert_eq!(objects(3, 1).joined(objects(4, 28)), Some(objects(3, 29)));
    }

    #[test]
    fn others_stay_apart() {
        assert_eq!(bytes(1, 0, 512).joined(bytes(1, 1024, 512)), None);
        assert_eq!(bytes(1, 0, 512).joined(bytes(2, 512, 512)), None);
        assert_eq!(bytes(1, 512, TO_THE_END).joined(bytes(1, 511, 512)), None);
        let objects = FreeRun::Objects { first: 3, objects: 1 };
        assert_eq!(objects.joined(objects), None);
        assert_eq!(objects.joined(bytes(4, 0, 512)), None);
    }
}
