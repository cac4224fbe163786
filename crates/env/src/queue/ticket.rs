//! Waiting for one's turn, and sharing an I/O with one's neighbours.

use std::future::{Future, poll_fn};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use units::LeafOffset;

use super::class::IoClass;
use super::lanes::{Job, Request};
use super::queued::{Inner, Place};
use crate::sync::Mutex;
use crate::{BoxFuture, DeviceError, Durability, IoBuf, Shared};

/// The answer to a group: its bytes if it was a read, empty otherwise.
type Answer<T> = Result<T, DeviceError>;

/// An I/O on behalf of one or more requests.
enum Group {
    Alone(BoxFuture<'static, Answer<IoBuf>>),
    /// Any of them may drive it, and it ends although some no longer care.
    Merged {
        io: Shared<Answer<Arc<IoBuf>>>,
        start: LeafOffset,
    },
}

/// What a waiting request and the queue share.
#[derive(Clone, Default)]
pub(super) struct Seat(Arc<Mutex<Turn>>);

enum Turn {
    Waiting(Option<Waker>),
    Called(Group),
    Gone,
}

impl Default for Turn {
    fn default() -> Self {
        Self::Waiting(None)
    }
}

/// Makes one I/O of the requests' and calls them up.
pub(super) fn merged(place: Place, group: Vec<(Request, Seat)>, wakers: &mut Vec<Waker>) {
    let (requests, seats): (Vec<_>, Vec<_>) = group.into_iter().unzip();
    let start = requests[0].offset;
    let io = run(place, requests);
    let mut call = |seat: Seat, group| {
        if let Turn::Waiting(Some(waker)) = std::mem::replace(&mut *seat.0.lock(), Turn::Called(group)) {
            wakers.push(waker);
        }
    };
    match <[Seat; 1]>::try_from(seats) {
        Ok([seat]) => call(seat, Group::Alone(Box::pin(io))),
        Err(seats) => {
            let io = Shared::new(async { io.await.map(Arc::new) });
            seats.into_iter().for_each(|seat| call(seat, Group::Merged { io: io.clone(), start }));
        }
    }
}

async fn run(place: Place, requests: Vec<Request>) -> Answer<IoBuf> {
    let place = place.taken_up();
    let (start, count) = (requests[0].offset, requests.len());
    let bytes = requests.last().map_or(0, Request::end) - start.get();
    let device = Arc::clone(&place.queue.device);
    let durability = match requests[0].job {
        Job::Write(_, durability) => durability,
        Job::Discard(len) => {
            return place.counted(count, len, device.discard(start, len)).await.map(|()| IoBuf::zeroed(0));
        }
        Job::Read(_) => {
            let len = usize::try_from(bytes).unwrap_or(usize::MAX);
            return place.counted(count, bytes, device.read(start, len)).await;
        }
    };
    let slices = requests.into_iter().flat_map(|request| match request.job {
        Job::Write(slices, _) => slices,
        Job::Read(_) | Job::Discard(_) => unreachable!("only what is of one kind goes together"),
    });
    let io = device.write(start, slices.collect(), durability);
    place.counted(count, bytes, io).await.map(|()| IoBuf::zeroed(0))
}

/// A request's claim to a place later.
pub(super) struct Ticket {
    pub queue: Arc<Inner>,
    pub class: IoClass,
    pub serial: u64,
    pub seat: Seat,
    pub request: Request,
}

impl Ticket {
    /// The bytes read.
    pub async fn read(self) -> Result<IoBuf, DeviceError> {
        let len = usize::try_from(self.request.len()).unwrap_or(usize::MAX);
        let offset = self.request.offset;
        let (io, start) = match self.turn().await {
            Group::Alone(io) => return io.await,
            Group::Merged { io, start } => (io, start),
        };
        match io.await {
            Ok(whole) => {
                let from = (offset.get() - start.get()) as usize;
                Ok(IoBuf::copy_of(&whole[from..from + len]))
            }
            Err(_) => self.queue.device.read(offset, len).await,
        }
    }

    /// Writes. If a merged cached write fails, this part is written once more alone, because the
    /// fault may be in a neighbour. A stable write is not repeated, because its failure may mean
    /// that earlier writes are lost, and a success of the second try would hide that.
    pub async fn write(mut self) -> Result<(), DeviceError> {
        let io = match self.turn().await {
            Group::Alone(io) => return io.await.map(drop),
            Group::Merged { io, .. } => io,
        };
        match (io.await, std::mem::replace(&mut self.request.job, Job::Read(0))) {
            (Err(_), Job::Write(slices, Durability::Cached)) => {
                self.queue.device.write(self.request.offset, slices, Durability::Cached).await
            }
            (answer, _) => answer.map(drop),
        }
    }

    /// Discards.
    pub async fn discard(self) -> Result<(), DeviceError> {
        match self.turn().await {
            Group::Alone(io) => io.await.map(drop),
            Group::Merged { .. } => unreachable!("discards go alone"),
        }
    }

    /// Waits until called up.
    fn turn(&self) -> impl Future<Output = Group> {
        poll_fn(|cx| self.poll_turn(cx))
    }

    fn poll_turn(&self, cx: &mut Context<'_>) -> Poll<Group> {
        let mut turn = self.seat.0.lock();
        if let Turn::Waiting(waker) = &mut *turn {
            *waker = Some(cx.waker().clone());
            return Poll::Pending;
        }
        match std::mem::replace(&mut *turn, Turn::Gone) {
            Turn::Called(group) => Poll::Ready(group),
            Turn::Waiting(_) | Turn::Gone => unreachable!("called up once"),
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        // The seat's lock is let go before the queue's is taken.
        if matches!(*self.seat.0.lock(), Turn::Waiting(_)) {
            self.queue.lanes.lock().forget(self.class, self.serial);
        }
    }
}
