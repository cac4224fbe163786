//! One event: its class, and what it tells.
//!
//! ```text
//!   sysevent.fs.zfs.scrub_start        something was done
//!   resource.fs.zfs.statechange        a device is in another state
//!   ereport.fs.zfs.checksum            something went wrong: `ena`, and a `detector` that names pool and vdev
//! ```

use ondisk::{NvList, NvValue};

/// Names of what events tell, as OpenZFS has them.
pub mod names {
    /// Of every event: what it is.
    pub const CLASS: &str = "class";
    /// Of every event: when, seconds since 1970 and nanoseconds.
    pub const TIME: &str = "time";
    /// Of every event: its number.
    pub const EID: &str = "eid";
    /// Of a pool.
    pub const POOL: &str = "pool";
    /// Of a pool.
    pub const POOL_GUID: &str = "pool_guid";
    /// Of a pool: 0 in use, 1 exported, 2 destroyed.
    pub const POOL_STATE: &str = "pool_state";
    /// Of a pool: whether it is being opened.
    pub const POOL_CONTEXT: &str = "pool_context";
    /// Of a pool: what it does when its devices fail.
    pub const POOL_FAILMODE: &str = "pool_failmode";
    /// Of a vdev.
    pub const VDEV_GUID: &str = "vdev_guid";
    /// Of a vdev.
    pub const VDEV_TYPE: &str = "vdev_type";
    /// Of a vdev.
    pub const VDEV_PATH: &str = "vdev_path";
    /// Of a vdev: its state.
    pub const VDEV_STATE: &str = "vdev_state";
    /// Of a vdev: its state before that.
    pub const VDEV_LASTSTATE: &str = "vdev_laststate";
    /// Of a vdev: the power of two of its sectors.
    pub const VDEV_ASHIFT: &str = "vdev_ashift";
    /// Of a vdev.
    pub const VDEV_READ_ERRORS: &str = "vdev_read_errors";
    /// Of a vdev.
    pub const VDEV_WRITE_ERRORS: &str = "vdev_write_errors";
    /// Of a vdev.
    pub const VDEV_CKSUM_ERRORS: &str = "vdev_cksum_errors";
    /// Of a vdev: requests that were slow.
    pub const VDEV_DELAYS: &str = "vdev_delays";
    /// Of a pool: its hot spares.
    pub const SPARE_PATHS: &str = "vdev_spare_paths";
    /// Of a pool: its hot spares.
    pub const SPARE_GUIDS: &str = "vdev_spare_guids";
    /// Of a vdev's parent.
    pub const PARENT_GUID: &str = "parent_guid";
    /// Of a vdev's parent.
    pub const PARENT_TYPE: &str = "parent_type";
    /// Of a vdev: its state before it could not be opened.
    pub const PREV_STATE: &str = "prev_state";
    /// Of a request: the system's error number.
    pub const ZIO_ERR: &str = "zio_err";
    /// Of a request: 1 read, 2 write, 5 flush.
    pub const ZIO_TYPE: &str = "zio_type";
    /// Of a request: where on the device.
    pub const ZIO_OFFSET: &str = "zio_offset";
    /// Of a request: how many bytes.
    pub const ZIO_SIZE: &str = "zio_size";
    /// Of a request: how long it took, or has been waited for, in nanoseconds.
    pub const ZIO_DELTA: &str = "zio_delta";
    /// Of a block.
    pub const ZIO_OBJSET: &str = "zio_objset";
    /// Of a block.
    pub const ZIO_OBJECT: &str = "zio_object";
    /// Of a block.
    pub const ZIO_LEVEL: &str = "zio_level";
    /// Of a block.
    pub const ZIO_BLKID: &str = "zio_blkid";
}

/// The format's version of what is no error report.
const VERSION: u8 = 0;

/// An event that is being put together.
#[derive(Clone, Debug, PartialEq)]
pub struct Event(NvList);

impl Event {
    /// Something was done.
    #[must_use]
    pub fn done(name: &str) -> Self {
        Self::versioned("sysevent", name)
    }

    /// Something is in another state.
    #[must_use]
    pub fn resource(name: &str) -> Self {
        Self::versioned("resource", name)
    }

    fn versioned(kind: &str, name: &str) -> Self {
        let mut payload = NvList::new();
        payload.add("version", NvValue::U8(VERSION));
        payload.add_str(names::CLASS, format!("{kind}.fs.zfs.{name}"));
        Self(payload)
    }

    /// Something went wrong in the pool of a guid, or on its vdev. `ena` tells reports apart that have another cause.
    #[must_use]
    pub fn error(name: &str, ena: u64, pool: u64, vdev: Option<u64>) -> Self {
        let mut detector = NvList::new();
        detector.add("version", NvValue::U8(VERSION)).add_str("scheme", "zfs").add_u64("pool", pool);
        vdev.into_iter().for_each(|guid| _ = detector.add_u64("vdev", guid));
        let mut payload = NvList::new();
        payload.add_str(names::CLASS, format!("ereport.fs.zfs.{name}"));
        payload.add_u64("ena", ena).add_nvlist("detector", detector);
        Self(payload)
    }

    /// All that it tells, to tell more.
    pub fn payload(&mut self) -> &mut NvList {
        &mut self.0
    }

    /// All that it tells.
    #[must_use]
    pub fn into_payload(self) -> NvList {
        self.0
    }
}
