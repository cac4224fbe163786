//! The port of the page: a bounded number of connections, and none that is kept by a client that does not speak.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::serve::Listener;
use control::{Pace, Patient};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Connections at the same time. A browser has six, and keeps them.
const CONNECTIONS: usize = 64;

/// The longest time between two bytes of a connection. The page asks once a second.
const PATIENCE: Duration = Duration::from_secs(30);

/// A listening port.
pub(crate) struct Port {
    listener: TcpListener,
    places: Arc<Semaphore>,
    patience: Duration,
}

impl Port {
    pub fn new(listener: TcpListener) -> Self {
        Self { listener, places: Arc::new(Semaphore::new(CONNECTIONS)), patience: PATIENCE }
    }
}

/// The place that a connection has among [`CONNECTIONS`].
pub(crate) struct Place {
    _place: Option<OwnedSemaphorePermit>,
}

impl Pace for Place {
    fn expects_bytes(&self) -> bool {
        true
    }

    fn expects_room(&self) -> bool {
        true
    }
}

impl Listener for Port {
    type Io = Patient<TcpStream, Place>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        let place = Place { _place: Arc::clone(&self.places).acquire_owned().await.ok() };
        let (stream, address) = Listener::accept(&mut self.listener).await;
        (Patient::new(stream, place, self.patience), address)
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        self.listener.local_addr()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::task::Poll;

    fn run(work: impl Future<Output = ()>) {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        builder.enable_all().build().expect("a runtime").block_on(work);
    }

    #[test]
    fn clients_that_say_nothing_make_room_for_others() {
        run(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
            let address = listener.local_addr().expect("an address");
            let connect = || std::net::TcpStream::connect(address).expect("the system accepts");
            let mut port = Port { patience: Duration::from_millis(50), ..Port::new(listener) };
            let _silent: Vec<_> = (0..=CONNECTIONS).map(|_| connect()).collect();
            let mut accepted = Vec::new();
            for _ in 0..CONNECTIONS {
                accepted.push(port.accept().await.0);
            }
            assert!(polled(&mut port).is_pending(), "there is no place for one more");
            let late = tokio::io::AsyncReadExt::read(&mut accepted[0], &mut [0]).await;
            let late = late.expect_err("nothing comes");
            assert_eq!(late.kind(), io::ErrorKind::TimedOut);
            drop(accepted.remove(0));
            port.accept().await;
        });
    }

    /// Polls once for the next connection.
    fn polled(port: &mut Port) -> Poll<()> {
        let accept = std::pin::pin!(port.accept());
        accept.poll(&mut std::task::Context::from_waker(std::task::Waker::noop())).map(|_| ())
    }
}
