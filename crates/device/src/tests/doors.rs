//! Opening and closing where a server does not answer.

use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use env::{Device, Durability, Env, OpenMode};
use futures::future::BoxFuture;
use oracle::fuse_disk::{FuseDisk, HeldDisk};
use parking_lot::Mutex;

use super::{BELOW_BYTES, at, filled, holds};
use crate::{Options, RealEnv};

/// What is done at once is done by then, on any machine.
const SOON: Duration = Duration::from_secs(20);

struct World {
    below: FuseDisk,
    env: Arc<RealEnv>,
    held: Mutex<Option<HeldDisk>>,
}

impl World {
    /// `None` where nothing can be mounted and that may be so.
    fn new() -> Option<Arc<Self>> {
        let below = FuseDisk::mount(BELOW_BYTES)?;
        // One worker: what holds it up holds up every task.
        let env = RealEnv::new(Options { workers: 1, ..Options::default() });
        Some(Arc::new(Self { below, env, held: Mutex::default() }))
    }

    fn hold(&self) {
        *self.held.lock() = Some(self.below.hold());
    }

    /// Whether a task comes to its end soon.
    fn ends_soon(self: &Arc<Self>, task: impl FnOnce(Arc<Self>) -> BoxFuture<'static, ()>) -> bool {
        let (tell, told) = mpsc::channel();
        let task = task(Arc::clone(self));
        self.env.spawn(
            "does something",
            Box::pin(async move {
                task.await;
                let _ = tell.send(());
            }),
        );
        told.recv_timeout(SOON).is_ok()
    }

    /// Opens the device when nobody has it any more.
    fn open_once_closed(&self) -> Arc<dyn Device> {
        loop {
            match self.env.block_on(self.env.open(&self.below.path(), OpenMode::ReadWrite)) {
                Ok(device) => return device,
                Err(_still_being_closed) => std::thread::sleep(Duration::from_millis(10)),
            }
        }
    }

    /// Looks whether tasks go on while the server does not, lets it go on, and ends.
    fn check(self: &Arc<Self>, was_at_once: bool) {
        let others_go_on = self.ends_soon(|_| Box::pin(async {}));
        *self.held.lock() = None;
        // A process that ends with a file of its own server open waits for itself.
        assert!(self.ends_soon(|_| Box::pin(async {})), "they go on with the server");
        assert!(was_at_once && others_go_on, "at once: {was_at_once}, others go on: {others_go_on}");
    }
}

#[test]
fn a_device_whose_server_does_not_answer_is_let_go_at_once() {
    let Some(world) = World::new() else { return };
    let was_at_once = world.ends_soon(|world| {
        Box::pin(async move {
            let device = world.env.open(&world.below.path(), OpenMode::ReadWrite).await.expect("opened");
            device.write(at(0), filled(3, 4096), Durability::Stable).await.expect("written");
            world.hold();
            drop(device);
        })
    });
    world.check(was_at_once);
    assert!(world.env.block_on(holds(&*world.open_once_closed(), 0, 4096, 3)));
}

#[test]
fn a_device_that_does_not_open_holds_up_no_tasks() {
    let Some(world) = World::new() else { return };
    world.hold();
    let path = world.below.path();
    let (tell, told) = mpsc::channel();
    let env = Arc::clone(&world.env);
    let open = async move {
        let _ = tell.send(env.open(&path, OpenMode::ReadWrite).await.map(|device| device.info().size_bytes));
    };
    world.env.spawn("opens", Box::pin(open));
    world.check(true);
    let size = told.recv_timeout(SOON).expect("it opened once it could").expect("opened");
    assert_eq!(size, BELOW_BYTES as u64);
    // Nothing can be unmounted while a file is open on it.
    drop(world.open_once_closed());
}
