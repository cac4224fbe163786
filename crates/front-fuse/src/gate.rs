//! Holds requests back while the file system behind a mount is exchanged.
//!
//! ```text
//!  open ─ close ─► draining ─ no name request left ─► shut ─ no request left ─► exchanged ─► open
//!   ▲                 │ page requests are admitted, because others may wait for them  │
//!   └─────────────────┴──────────────── DRAIN_MAX has passed ─────────────────────────┘
//! ```
//! A request that is under way may make the kernel release pages. It then waits until the kernel
//! has read or written these pages. Page requests wait for no other requests. So they are admitted
//! until no other request is under way, and are held back after that.
//!
//! Invariants
//! - No request is under way while the gate is shut. (test: `a_shut_gate_has_let_everything_out`)
//! - The shutting of the gate waits for [`DRAIN_MAX`] at most.

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use env::Env;
use event_listener::Event;
use futures::future::{Either, select};

/// How long requests may be under way after the gate was closed to new ones. No request to a
/// working device needs longer.
pub(crate) const DRAIN_MAX: Duration = Duration::from_secs(20);

const NAMES: u64 = 1;
const PAGES: u64 = 1 << 30;
const COUNT: u64 = PAGES - 1;
/// Requests other than page requests wait.
const DRAINING: u64 = 1 << 62;
/// All requests wait.
const SHUT: u64 = 1 << 63;

/// The type of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Traffic {
    /// A request for pages of the kernel's cache. The kernel may wait for it during another
    /// request.
    Pages,
    /// Any other request.
    Names,
}

impl Traffic {
    const fn one(self) -> u64 {
        match self {
            Self::Pages => PAGES,
            Self::Names => NAMES,
        }
    }

    const fn is_held(self, word: u64) -> bool {
        match self {
            Self::Pages => word & SHUT != 0,
            Self::Names => word & (SHUT | DRAINING) != 0,
        }
    }

    const fn is_under_way(self, word: u64) -> bool {
        let count = match self {
            Self::Pages => word / PAGES,
            Self::Names => word,
        };
        count & COUNT != 0
    }
}

/// See the module.
#[derive(Default)]
pub(crate) struct RequestGate {
    word: AtomicU64,
    /// Signals that the gate is open again.
    opened: Event,
    /// Signals that a request has ended while the gate was not open.
    left: Event,
}

/// A request that was admitted.
pub(crate) struct GatePass<'a> {
    gate: &'a RequestGate,
    traffic: Traffic,
}

impl Drop for GatePass<'_> {
    fn drop(&mut self) {
        self.gate.leave(self.traffic);
    }
}

impl RequestGate {
    /// Admits a request as soon as the gate is open to it.
    pub async fn enter(&self, traffic: Traffic) -> GatePass<'_> {
        while traffic.is_held(self.word.fetch_add(traffic.one(), Ordering::AcqRel)) {
            self.leave(traffic);
            let opened = self.opened.listen();
            if traffic.is_held(self.word.load(Ordering::Acquire)) {
                opened.await;
            }
        }
        GatePass { gate: self, traffic }
    }

    fn leave(&self, traffic: Traffic) {
        let before = self.word.fetch_sub(traffic.one(), Ordering::AcqRel);
        if before & (DRAINING | SHUT) != 0 {
            self.left.notify(usize::MAX);
        }
    }

    /// Shuts the gate. Returns false if requests were under way for too long; the gate is then open
    /// as before. Only one caller at a time may shut the gate.
    pub async fn shut(&self, env: &dyn Env) -> bool {
        self.word.fetch_or(DRAINING, Ordering::AcqRel);
        let drained = async {
            self.wait_without(Traffic::Names).await;
            self.word.fetch_or(SHUT, Ordering::AcqRel);
            self.wait_without(Traffic::Names).await;
            self.wait_without(Traffic::Pages).await;
        };
        let in_time = is_in_time(drained, env, DRAIN_MAX).await;
        if !in_time {
            self.open();
        }
        in_time
    }

    async fn wait_without(&self, traffic: Traffic) {
        loop {
            let left = self.left.listen();
            if !traffic.is_under_way(self.word.load(Ordering::Acquire)) {
                return;
            }
            left.await;
        }
    }

    /// Opens the gate.
    pub fn open(&self) {
        self.word.fetch_and(!(DRAINING | SHUT), Ordering::AcqRel);
        self.opened.notify(usize::MAX);
    }
}

/// Runs `work` for no longer than `limit`. Returns true if it has ended.
pub(crate) async fn is_in_time(work: impl Future<Output = ()>, env: &dyn Env, limit: Duration) -> bool {
    matches!(select(pin!(work), env.sleep(limit)).await, Either::Left(_))
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;
    use sim::Sim;

    #[test]
    fn a_shut_gate_has_let_everything_out() {
        let sim = Sim::seed(1);
        let (gate, env) = (RequestGate::default(), sim.env());
        let name = gate.enter(Traffic::Names).now_or_never().expect("it is open");
        let mut shut = Box::pin(gate.shut(&*env));
        assert!((&mut shut).now_or_never().is_none(), "a request is under way");
        assert!(gate.enter(Traffic::Names).now_or_never().is_none());
        // The request that is under way may wait for pages.
        let page = gate.enter(Traffic::Pages).now_or_never().expect("pages are let in");
        drop(name);
        assert!((&mut shut).now_or_never().is_none(), "a page is under way");
        let mut late = Box::pin(gate.enter(Traffic::Pages));
        assert!((&mut late).now_or_never().is_none());
        drop(page);
        assert_eq!(shut.now_or_never(), Some(true));
        assert!((&mut late).now_or_never().is_none());
        gate.open();
        drop(late.now_or_never().expect("it is open"));
        drop(gate.enter(Traffic::Names).now_or_never().expect("it is open"));
        assert_eq!(gate.word.load(Ordering::Acquire), 0);
    }

    #[test]
    fn a_request_that_does_not_end_keeps_the_gate_open() {
        let sim = Sim::seed(1);
        let (gate, env) = (RequestGate::default(), sim.env());
        sim.run_until(async {
            let _stuck = gate.enter(Traffic::Names).await;
            let begun = env.now();
            assert!(!gate.shut(&*env).await);
            assert_eq!(env.now() - begun, DRAIN_MAX);
            drop(gate.enter(Traffic::Names).await);
        });
    }
}
