//! Reads blocks ahead of whoever wants them, in order and with bounded memory.
//!
//! ```text
//!  found:  5 4 ─► │ 3  2  1 │ ─► 0       at most so many, and so many bytes; the first that is wanted always
//!                  being read
//! ```
//! (tests: `small_blocks_are_read_several_at_a_time`, `what_is_ahead_is_bounded_in_bytes`)

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll};

use env::BoxFuture;
use futures::stream::{FuturesOrdered, Stream, StreamExt};

use crate::SendError;

/// Bytes that are being read, or were and wait for their turn.
const AHEAD_BYTES: usize = 16 << 20;
/// Things found, with data or without.
const AHEAD_MAX: usize = 64;

/// What is still to be read, and how many bytes that will be.
pub(crate) struct Pending<T> {
    pub bytes: usize,
    pub read: BoxFuture<'static, Result<T, SendError>>,
}

/// See the module.
pub(crate) struct Ahead<S, T> {
    source: Option<S>,
    reads: FuturesOrdered<BoxFuture<'static, Result<T, SendError>>>,
    /// Bytes of each of those, in order.
    sizes: VecDeque<usize>,
    bytes: usize,
}

impl<S, T> Ahead<S, T>
where
    S: Stream<Item = Result<Pending<T>, SendError>> + Unpin,
    T: Send + 'static,
{
    pub fn new(source: S) -> Self {
        Self { source: Some(source), reads: FuturesOrdered::new(), sizes: VecDeque::new(), bytes: 0 }
    }

    fn has_room(&self) -> bool {
        self.sizes.len() < AHEAD_MAX && self.bytes < AHEAD_BYTES
    }

    fn push(&mut self, pending: Pending<T>) {
        self.bytes += pending.bytes;
        self.sizes.push_back(pending.bytes);
        self.reads.push_back(pending.read);
    }

    /// Takes from the source while there is room, and it has something.
    fn take_in(&mut self, cx: &mut Context<'_>) {
        while self.has_room() {
            let Some(source) = &mut self.source else { return };
            match source.poll_next_unpin(cx) {
                Poll::Pending => return,
                Poll::Ready(Some(Ok(pending))) => self.push(pending),
                // Told when all before it was.
                Poll::Ready(Some(Err(error))) => {
                    self.source = None;
                    self.push(Pending { bytes: 0, read: Box::pin(std::future::ready(Err(error))) });
                }
                Poll::Ready(None) => self.source = None,
            }
        }
    }
}

impl<S, T> Stream for Ahead<S, T>
where
    S: Stream<Item = Result<Pending<T>, SendError>> + Unpin,
    T: Send + Unpin + 'static,
{
    type Item = Result<T, SendError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.take_in(cx);
        match self.reads.poll_next_unpin(cx) {
            Poll::Ready(Some(read)) => {
                self.bytes -= self.sizes.pop_front().expect("one for each read");
                Poll::Ready(Some(read))
            }
            Poll::Ready(None) if self.source.is_none() => Poll::Ready(None),
            _ => Poll::Pending,
        }
    }
}

#[cfg(test)]
mod tests;
