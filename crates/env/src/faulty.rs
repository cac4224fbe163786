//! A device that fails when told to: for tests of everything above, in either world.

use std::ops::Range;
use std::sync::Arc;

use parking_lot::Mutex;
use units::LeafOffset;

use crate::{BoxFuture, BufSlice, Device, DeviceError, DeviceInfo, Durability, IoBuf};

/// The error number of failures on order: `EIO`.
const EIO: i32 = 5;

/// What may be made to fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultOp {
    /// Reads.
    Read,
    /// Writes, cached and stable.
    Write,
    /// Flushes.
    Flush,
    /// Discards.
    Discard,
}

impl FaultOp {
    /// The name of the operation in errors.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Flush => "flush",
            Self::Discard => "discard",
        }
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Rule {
    /// Operations seen so far.
    seen: u64,
    /// The count from which on operations fail, and how many of them.
    fails: Option<(u64, u64)>,
}

impl Rule {
    fn next_fails(&mut self) -> bool {
        self.seen += 1;
        self.fails.is_some_and(|(from, count)| self.seen >= from && self.seen - from < count)
    }
}

#[derive(Debug, Default)]
struct Plan {
    read: Rule,
    write: Rule,
    flush: Rule,
    discard: Rule,
    /// Byte ranges, and the operations that always fail there.
    bad: Vec<(FaultOp, Range<u64>)>,
    /// Operations within these bytes are not counted, and fail only if the whole device is gone.
    spared: Option<Range<u64>>,
    is_gone: bool,
    /// Requests until it goes, if that is on order: the last of these fails already.
    goes_in: Option<u64>,
}

impl Plan {
    fn rule(&mut self, op: FaultOp) -> &mut Rule {
        match op {
            FaultOp::Read => &mut self.read,
            FaultOp::Write => &mut self.write,
            FaultOp::Flush => &mut self.flush,
            FaultOp::Discard => &mut self.discard,
        }
    }

    fn is_spared(&self, offset: LeafOffset, len: u64) -> bool {
        let (start, end) = (offset.get(), offset.get().saturating_add(len));
        self.spared.as_ref().is_some_and(|spared| spared.start <= start && end <= spared.end)
    }

    fn is_bad(&self, op: FaultOp, offset: LeafOffset, len: u64) -> bool {
        let end = offset.get().saturating_add(len);
        self.bad.iter().any(|(of, bytes)| *of == op && bytes.start < end && offset.get() < bytes.end)
    }
}

/// The handle by which a test makes a device fail. Clones share the orders.
#[derive(Clone, Debug, Default)]
pub struct Faults(Arc<Mutex<Plan>>);

impl Faults {
    /// No failures on order.
    #[must_use]
    pub fn none() -> Self {
        Self::default()
    }

    /// Lets the `nth` operation of this kind from now fail: 1 is the next one.
    pub fn fail_nth(&self, op: FaultOp, nth: u64) {
        self.fail_range(op, nth, 1);
    }

    /// Lets all operations of this kind fail from now on.
    pub fn fail_all(&self, op: FaultOp) {
        self.fail_range(op, 1, u64::MAX);
    }

    /// Lets `count` operations of this kind fail, beginning with the `nth` from now.
    pub fn fail_range(&self, op: FaultOp, nth: u64, count: u64) {
        assert!(nth > 0, "operations are counted from 1");
        let mut plan = self.0.lock();
        let rule = plan.rule(op);
        rule.fails = Some((rule.seen.saturating_add(nth), count));
    }

    /// Makes all operations of this kind that touch one of these bytes fail from now on, as on a
    /// medium with bad sectors.
    pub fn fail_within(&self, op: FaultOp, bytes: Range<u64>) {
        self.0.lock().bad.push((op, bytes));
    }

    /// From now on, operations within these bytes are not counted. They fail only if the whole device
    /// is gone.
    pub fn spare(&self, bytes: Range<u64>) {
        self.0.lock().spared = Some(bytes);
    }

    /// Takes the device away: everything fails with [`DeviceError::Gone`].
    pub fn disappear(&self) {
        self.0.lock().is_gone = true;
    }

    /// Takes the device away at its `nth` request from now, of whatever kind: 1 is the next one.
    pub fn disappear_at(&self, nth: u64) {
        assert!(nth > 0, "requests are counted from 1");
        self.0.lock().goes_in = Some(nth);
    }

    /// Whether the device has been taken away.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        self.0.lock().is_gone
    }

    /// Ends all failures, and brings the device back.
    pub fn heal(&self) {
        let mut plan = self.0.lock();
        (plan.is_gone, plan.goes_in) = (false, None);
        plan.bad.clear();
        for op in [FaultOp::Read, FaultOp::Write, FaultOp::Flush, FaultOp::Discard] {
            plan.rule(op).fails = None;
        }
    }

    /// How many operations of this kind were asked for, failed ones included.
    #[must_use]
    pub fn seen(&self, op: FaultOp) -> u64 {
        self.0.lock().rule(op).seen
    }

    /// Counts one operation; the error it is to end with, if any.
    ///
    /// # Errors
    /// [`DeviceError::Io`] or [`DeviceError::Gone`], as ordered.
    pub fn check(&self, op: FaultOp, offset: LeafOffset, len: u64) -> Result<(), DeviceError> {
        let mut plan = self.0.lock();
        let fails =
            !plan.is_spared(offset, len) && (plan.rule(op).next_fails() || plan.is_bad(op, offset, len));
        plan.goes_in = plan.goes_in.map(|left| left.saturating_sub(1));
        plan.is_gone |= plan.goes_in == Some(0);
        if plan.is_gone {
            return Err(DeviceError::Gone);
        }
        if fails { Err(DeviceError::Io { op: op.name(), offset, len, errno: EIO }) } else { Ok(()) }
    }
}

/// A device whose operations fail as [`Faults`] says; a failed operation does nothing.
pub struct Faulty {
    device: Arc<dyn Device>,
    faults: Faults,
}

impl Faulty {
    /// Puts `device` under the orders of `faults`.
    #[must_use]
    pub fn new(device: Arc<dyn Device>, faults: Faults) -> Self {
        Self { device, faults }
    }

    fn unless_failing<T: Send + 'static>(
        &self,
        (op, offset, len): (FaultOp, LeafOffset, u64),
        work: BoxFuture<'static, Result<T, DeviceError>>,
    ) -> BoxFuture<'static, Result<T, DeviceError>> {
        let faults = self.faults.clone();
        Box::pin(async move {
            faults.check(op, offset, len)?;
            work.await
        })
    }
}

impl Device for Faulty {
    fn info(&self) -> DeviceInfo {
        self.device.info()
    }

    fn look_again(&self) {
        self.device.look_again();
    }

    fn read(&self, offset: LeafOffset, len: usize) -> BoxFuture<'static, Result<IoBuf, DeviceError>> {
        self.unless_failing((FaultOp::Read, offset, len as u64), self.device.read(offset, len))
    }

    fn write(
        &self,
        offset: LeafOffset,
        slices: Vec<BufSlice>,
        durability: Durability,
    ) -> BoxFuture<'static, Result<(), DeviceError>> {
        let len = slices.iter().map(|slice| slice.bytes().len() as u64).sum();
        let work = self.device.write(offset, slices, durability);
        self.unless_failing((FaultOp::Write, offset, len), work)
    }

    fn flush(&self) -> BoxFuture<'static, Result<(), DeviceError>> {
        self.unless_failing((FaultOp::Flush, LeafOffset::new(0), 0), self.device.flush())
    }

    fn discard(&self, offset: LeafOffset, len: u64) -> BoxFuture<'static, Result<(), DeviceError>> {
        self.unless_failing((FaultOp::Discard, offset, len), self.device.discard(offset, len))
    }
}
