//! Claims on block devices that nobody writes to yet, such as hot spares that wait.
//!
//! The kernel lets one descriptor have a block device with `O_EXCL`. Mounts, `mkfs` and other pools respect that. A
//! claim is such a descriptor in a table of this process. Whoever opens the device so as to write, through this
//! process, takes the place of the claim, because pools may share a spare. A later claim takes the device back when
//! nobody writes any more.
//! (test: `a_claim_keeps_others_away_and_yields_to_a_writer_of_this_process`)

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;

use parking_lot::Mutex;
use rustix::io::Errno;

/// Claimed block devices by their numbers.
static CLAIMED: Mutex<BTreeMap<u64, Claimed>> = Mutex::new(BTreeMap::new());

#[derive(Default)]
struct Claimed {
    claims: usize,
    /// This descriptor keeps other programs away. There is none while a pool writes to the device.
    file: Option<OwnedFd>,
}

/// A claim on a block device. Other programs cannot take the device as long as the claim lives.
#[derive(Debug)]
pub(super) struct DeviceClaim {
    device: u64,
}

impl DeviceClaim {
    /// Claims the block device with this number. `open` opens the device with `O_EXCL`.
    ///
    /// # Errors
    /// When the device is in use.
    pub fn new(device: u64, open: impl FnOnce() -> Result<OwnedFd, Errno>) -> Result<Self, Errno> {
        let mut claimed = CLAIMED.lock();
        let one = claimed.entry(device).or_default();
        if one.file.is_none() {
            match open() {
                Ok(file) => one.file = Some(file),
                Err(errno) => {
                    if one.claims == 0 {
                        claimed.remove(&device);
                    }
                    return Err(errno);
                }
            }
        }
        one.claims += 1;
        Ok(Self { device })
    }
}

impl Drop for DeviceClaim {
    fn drop(&mut self) {
        let mut claimed = CLAIMED.lock();
        let Some(one) = claimed.get_mut(&self.device) else { return };
        one.claims -= 1;
        if one.claims == 0 {
            claimed.remove(&self.device);
        }
    }
}

/// Opens the block device with this number so as to write. A claim on the device yields, and no other claim is made
/// before `open` returns.
pub(super) fn instead_of_a_claim<T>(device: u64, open: impl FnOnce() -> T) -> T {
    let mut claimed = CLAIMED.lock();
    match claimed.get_mut(&device) {
        Some(one) => {
            drop(one.file.take());
            open()
        }
        None => {
            drop(claimed);
            open()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    fn descriptor() -> Result<OwnedFd, Errno> {
        Ok(std::fs::File::open("/dev/null").expect("it is there").into())
    }

    fn is_claimed(device: u64) -> bool {
        CLAIMED.lock().get(&device).is_some_and(|one| one.file.is_some())
    }

    #[test]
    fn a_device_is_claimed_until_the_last_claim_ends() {
        let [first, second] = [(); 2].map(|()| DeviceClaim::new(1, descriptor).expect("free"));
        drop(first);
        assert!(is_claimed(1));
        drop(second);
        assert!(!CLAIMED.lock().contains_key(&1));
        assert_eq!(DeviceClaim::new(1, || Err(Errno::BUSY)).expect_err("in use"), Errno::BUSY);
        assert!(!CLAIMED.lock().contains_key(&1));
    }

    #[test]
    fn a_writer_takes_the_place_of_a_claim_and_a_later_claim_takes_it_back() {
        let claim = DeviceClaim::new(2, descriptor).expect("free");
        let seen = Cell::new(true);
        instead_of_a_claim(2, || seen.set(false));
        assert!(!seen.get() && !is_claimed(2));
        assert_eq!(DeviceClaim::new(2, || Err(Errno::BUSY)).expect_err("somebody writes"), Errno::BUSY);
        let again = DeviceClaim::new(2, descriptor).expect("nobody writes any more");
        drop(claim);
        assert!(is_claimed(2));
        drop(again);
        assert!(!is_claimed(2));
    }
}
