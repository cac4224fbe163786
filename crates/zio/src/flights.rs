//! Blocks that are being read ahead: whoever wants one meanwhile waits instead of reading it twice.
//!
//! Only tasks that run by themselves are waited for. An ordinary read is polled by its caller, who may
//! be waiting for that very block in another future.

use std::collections::HashMap;
use std::sync::Arc;

use event_listener::{Event, EventListener};
use ondisk::Blkptr;
use parking_lot::Mutex;

use crate::Ahead;
use crate::cache::Key;

/// What is under way.
#[derive(Default)]
pub(crate) struct Flights(Mutex<HashMap<Key, (Ahead, Arc<Event>)>>);

impl Flights {
    /// Begins to read a block ahead; `None` when somebody has begun already.
    pub(crate) fn begin(&self, bp: &Blkptr, ahead: Ahead) -> Option<Flight<'_>> {
        let key = Key::of(bp);
        let mut flights = self.0.lock();
        if flights.contains_key(&key) {
            return None;
        }
        flights.insert(key, (ahead, Arc::default()));
        Some(Flight { flights: self, key })
    }

    /// Why a block is being read, and the end of that, if it is under way.
    pub(crate) fn end_of(&self, bp: &Blkptr) -> Option<(Ahead, EventListener)> {
        self.0.lock().get(&Key::of(bp)).map(|(ahead, landed)| (*ahead, landed.listen()))
    }

    /// How many blocks are being read ahead now.
    pub(crate) fn len(&self) -> usize {
        self.0.lock().len()
    }
}

/// One block on its way. Ends when it is dropped, and so also when its task is.
pub(crate) struct Flight<'a> {
    flights: &'a Flights,
    key: Key,
}

impl Drop for Flight<'_> {
    fn drop(&mut self) {
        if let Some((_, landed)) = self.flights.0.lock().remove(&self.key) {
            landed.notify(usize::MAX);
        }
    }
}
