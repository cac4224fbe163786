//! Additional attributes: flags (immutable, hidden, archive, ...), time of creation, project.
//!
//! In the log a bitmap says which are meant, another gives the flags' values; the rest has places
//! of its own. A scan stamp and a project share one.
//! (test: `additional_attributes_survive_the_log`)

use ondisk::zil::record::LrAttr;
use ondisk::zil::record::body::xattr_bits as xat;

use crate::flags;
use crate::sa::{SaImage, ZplAttr};
use crate::time::Timestamp;

/// Words of a record's bitmap, as OpenZFS writes it.
const BITMAP_WORDS: usize = 3;
/// Bytes of a virus scanner's stamp.
pub(crate) const SCANSTAMP_BYTES: usize = 32;

/// Which flag each bit stands for.
const FLAGS: [(u32, u64); 15] = [
    (xat::ARCHIVE, flags::ARCHIVE),
    (xat::SYSTEM, flags::SYSTEM),
    (xat::READONLY, flags::READONLY),
    (xat::HIDDEN, flags::HIDDEN),
    (xat::NOUNLINK, flags::NOUNLINK),
    (xat::IMMUTABLE, flags::IMMUTABLE),
    (xat::APPENDONLY, flags::APPENDONLY),
    (xat::NODUMP, flags::NODUMP),
    (xat::OPAQUE, flags::OPAQUE),
    (xat::AV_QUARANTINED, flags::AV_QUARANTINED),
    (xat::AV_MODIFIED, flags::AV_MODIFIED),
    (xat::REPARSE, flags::REPARSE),
    (xat::OFFLINE, flags::OFFLINE),
    (xat::SPARSE, flags::SPARSE),
    (xat::PROJINHERIT, flags::PROJINHERIT),
];

/// Flags that may be set and cleared by name.
pub const SETTABLE_FLAGS: u64 = flags::ARCHIVE
    | flags::SYSTEM
    | flags::READONLY
    | flags::HIDDEN
    | flags::NOUNLINK
    | flags::IMMUTABLE
    | flags::APPENDONLY
    | flags::NODUMP
    | flags::OFFLINE
    | flags::SPARSE
    | flags::PROJINHERIT;

/// Additional attributes to set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Extra {
    /// Flags to set.
    pub set: u64,
    /// Flags to clear.
    pub clear: u64,
    /// Time of creation.
    pub crtime: Option<Timestamp>,
    /// Project.
    pub project: Option<u64>,
    /// A virus scanner's stamp.
    pub scanstamp: Option<[u8; SCANSTAMP_BYTES]>,
}

impl Extra {
    /// From a log record.
    pub fn of_log(lr: &LrAttr) -> Self {
        let asked = lr.bitmap.first().copied().unwrap_or(0);
        let mut extra = Self::default();
        for (bit, flag) in FLAGS {
            match (asked & bit != 0, lr.attrs & u64::from(bit) != 0) {
                (true, true) => extra.set |= flag,
                (true, false) => extra.clear |= flag,
                (false, _) => {}
            }
        }
        extra.crtime = (asked & xat::CREATETIME != 0).then(|| lr.crtime.into());
        extra.scanstamp = (asked & xat::AV_SCANSTAMP != 0).then_some(lr.scanstamp);
        let project = lr.scanstamp.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
        extra.project = (asked & xat::PROJID != 0 && extra.scanstamp.is_none()).then_some(project);
        extra
    }

    /// Sets what has a place in `image`; project and stamp are given one before.
    pub fn apply(&self, image: &mut SaImage) {
        image.set_word(ZplAttr::Flags, image.word(ZplAttr::Flags) & !self.clear | self.set);
        if let Some(crtime) = self.crtime {
            image.set_time(ZplAttr::Crtime, crtime);
        }
        if let Some(project) = self.project.filter(|_| image.get(ZplAttr::Projid).is_some()) {
            image.set_word(ZplAttr::Projid, project);
        }
        if let Some(stamp) = &self.scanstamp {
            assert!(image.patch(ZplAttr::Scanstamp, stamp), "a place was made for the stamp");
        }
    }

    /// For a log record.
    pub fn to_log(self) -> LrAttr {
        let mut asked = 0;
        let mut attrs = 0;
        for (bit, flag) in FLAGS {
            if (self.set | self.clear) & flag != 0 {
                asked |= bit;
            }
            if self.set & flag != 0 {
                attrs |= u64::from(bit);
            }
        }
        let mut lr = LrAttr { attrs, ..LrAttr::default() };
        if let Some(crtime) = self.crtime {
            asked |= xat::CREATETIME;
            lr.crtime = crtime.into();
        }
        match (self.scanstamp, self.project) {
            (Some(stamp), _) => {
                asked |= xat::AV_SCANSTAMP;
                lr.scanstamp = stamp;
            }
            (None, Some(project)) => {
                asked |= xat::PROJID;
                lr.scanstamp[..8].copy_from_slice(&project.to_le_bytes());
            }
            (None, None) => {}
        }
        lr.bitmap = vec![0; BITMAP_WORDS];
        lr.bitmap[0] = asked;
        lr
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn additional_attributes_survive_the_log() {
        for (bit, flag) in FLAGS {
            let set = Extra { set: flag, ..Extra::default() };
            assert_eq!(Extra::of_log(&set.to_log()), set);
            assert_eq!((set.to_log().bitmap, set.to_log().attrs), (vec![bit, 0, 0], u64::from(bit)));
            let clear = Extra { clear: flag, ..Extra::default() };
            assert_eq!(Extra::of_log(&clear.to_log()), clear);
        }
        let crtime = Some(Timestamp { secs: 5, nanos: 6 });
        let project = Extra { project: Some(77), crtime, ..Extra::default() };
        assert_eq!(Extra::of_log(&project.to_log()), project);
        let stamp = Extra { scanstamp: Some([9; 32]), ..Extra::default() };
        assert_eq!(Extra::of_log(&stamp.to_log()), stamp);
    }
}
