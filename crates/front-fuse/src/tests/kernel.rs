//! The kernel's side of a session, played by a test.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Weak};
use std::time::Duration;

use device::{Options, RealEnv};
use dsl::PropValue;
use engine::Snapdir;
use env::{BoxFuture, BufSlice, Device, DeviceError, DeviceInfo, Durability, Env, IoBuf, RamDevice};
use event_listener::Event;
use pool::{Pool, PoolSpec, Tuning};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socketpair};
use rustix::thread::gettid;
use units::LeafOffset;
use vdev::{Bias, NewVdev, PoolState};
use zerocopy::{FromBytes, IntoBytes};
use zpl::Asker;

use super::snapshots::PoolSnapshots;
use crate::abi::{InHeader, NOTIFY_INVAL_INODE, NotifyInvalInodeOut, OutHeader};
use crate::ctldir::Ctldir;
use crate::handshake::Agreed;
use crate::mount::OwnMounter;
use crate::notifier::Notifier;
use crate::session::{Ended, Session};
use crate::syncs::Syncs;
use crate::tree::Tree;
use crate::views::{Common, Views};

const DISK_BYTES: u64 = 256 << 20;
/// Longer answers are not agreed upon.
const ANSWER_BYTES: usize = (1 << 20) + 4096;
/// Until an answer must have come, on a busy machine.
const PATIENCE: Timespec = Timespec { tv_sec: 60, tv_nsec: 0 };

/// A request's answer.
#[derive(Debug)]
pub struct Answer {
    pub unique: u64,
    /// Positive, or 0.
    pub errno: i32,
    pub body: Vec<u8>,
}

/// A session over an empty file system, and what speaks to it.
pub struct Kernel {
    socket: OwnedFd,
    ended: Arc<Ended>,
    next: u64,
    pool: Arc<Pool>,
    env: Arc<RealEnv>,
    gate: Arc<Gate>,
    ctldir: Weak<Ctldir>,
}

/// Writes to the pool's device wait for it while it is shut.
#[derive(Default)]
struct Gate {
    is_shut: AtomicBool,
    opens: Event,
}

impl Gate {
    async fn pass(&self) {
        while self.is_shut.load(SeqCst) {
            let opens = self.opens.listen();
            if self.is_shut.load(SeqCst) {
                opens.await;
            }
        }
    }
}

struct Gated {
    ram: RamDevice,
    gate: Arc<Gate>,
}

impl Device for Gated {
    fn info(&self) -> DeviceInfo {
        self.ram.info()
    }

    fn read(&self, offset: LeafOffset, len: usize) -> BoxFuture<'static, Result<IoBuf, DeviceError>> {
        self.ram.read(offset, len)
    }

    fn write(
        &self,
        offset: LeafOffset,
        slices: Vec<BufSlice>,
        durability: Durability,
    ) -> BoxFuture<'static, Result<(), DeviceError>> {
        let (ram, gate) = (self.ram.clone(), Arc::clone(&self.gate));
        Box::pin(async move {
            gate.pass().await;
            ram.write(offset, slices, durability).await
        })
    }

    fn flush(&self) -> BoxFuture<'static, Result<(), DeviceError>> {
        self.ram.flush()
    }
}

impl Kernel {
    pub fn new() -> Self {
        Self::with(false, Agreed::default())
    }

    /// One with this agreement.
    pub fn agreeing(agreed: Agreed) -> Self {
        Self::with(false, agreed)
    }

    /// One whose session counts on queues, which a socket has not.
    pub fn without_queues() -> Self {
        Self::with(true, Agreed::default())
    }

    fn with(has_rings: bool, agreed: Agreed) -> Self {
        let env = RealEnv::new(Options::default());
        let gate = Arc::<Gate>::default();
        let ram = RamDevice::new(DISK_BYTES);
        env.register("ram:a", Arc::new(Gated { ram, gate: Arc::clone(&gate) }));
        let vdev = NewVdev {
            paths: vec!["ram:a".into()],
            ashift: None,
            bias: Bias::log(false),
            create_txg: 4,
            parity: 0,
            ..NewVdev::default()
        };
        let root_props = vec![("mountpoint".to_owned(), PropValue::Text("none".into()))];
        let spec = PoolSpec {
            name: "tank".into(),
            stored_name: None,
            vdevs: vec![vdev],
            root_props,
            comment: None,
            force: false,
        };
        let world = Arc::clone(&env) as Arc<dyn Env>;
        let pool = env.block_on(Pool::create(world, spec, Tuning::default())).expect("a pool in memory");
        let fs = env.block_on(pool.filesystem("tank")).expect("it opens");
        let (socket, device) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
                .expect("a pair");
        let device = Arc::new(device);
        let zfs = Arc::new(fs.zfs.asked_by(Asker::Kernel));
        let common = Common {
            notifier: Notifier::new(&device),
            agreed,
            syncs: Arc::new(Syncs::new(Arc::clone(&env))),
            writers: Arc::default(),
            mounter: Arc::new(OwnMounter),
        };
        let snapshots = Arc::new(PoolSnapshots(Arc::downgrade(&pool)));
        let (tree, parts) = Tree::new(Arc::clone(&env), zfs, snapshots, common, Snapdir::Hidden);
        let ended = Session::start(Arc::clone(&env), device, tree, has_rings).expect("loops");
        Self { socket, ended, next: 1, pool, env, gate, ctldir: parts.ctldir }
    }

    /// Whether the session ends by itself.
    pub fn is_left(&self) -> bool {
        self.ended.wait(Duration::from_secs(30))
    }

    /// Sends a request of the calling thread, and returns the number of the request.
    pub fn ask(&mut self, opcode: u32, nodeid: u64, body: &[u8]) -> u64 {
        let len = (size_of::<InHeader>() + body.len()) as u32;
        let pid = gettid().as_raw_pid() as u32;
        self.ask_with(InHeader { len, opcode, nodeid, pid, ..InHeader::default() }, body)
    }

    /// The same with a header of the caller's, all but the number.
    pub fn ask_with(&mut self, header: InHeader, body: &[u8]) -> u64 {
        self.send(header, body, SendFlags::empty()).expect("it is taken")
    }

    /// Asks if the session takes it, or there is room for it on the way; whether it was.
    pub fn is_asked(&mut self, opcode: u32, nodeid: u64, body: &[u8]) -> bool {
        let len = (size_of::<InHeader>() + body.len()) as u32;
        let header = InHeader { len, opcode, nodeid, ..InHeader::default() };
        self.send(header, body, SendFlags::DONTWAIT).is_ok()
    }

    fn send(&mut self, header: InHeader, body: &[u8], how: SendFlags) -> Result<u64, Errno> {
        let unique = self.next;
        let header = InHeader { unique, ..header };
        let message = [header.as_bytes(), body].concat();
        send(&self.socket, &message, how)?;
        self.next += 1;
        Ok(unique)
    }

    /// Lets writes to the pool's device wait, or wait no more.
    pub fn hold(&self, hold: bool) {
        self.gate.is_shut.store(hold, SeqCst);
        self.gate.opens.notify(usize::MAX);
    }

    /// The next answer. What tells the kernel something unasked is passed over.
    pub fn answer(&self) -> Answer {
        self.answer_after().0
    }

    /// Returns the next answer, and the drops of cached inodes that preceded it.
    pub fn answer_after(&self) -> (Answer, Vec<NotifyInvalInodeOut>) {
        let mut bytes = vec![0; ANSWER_BYTES];
        let mut dropped = Vec::new();
        loop {
            let mut fds = [PollFd::new(&self.socket, PollFlags::IN)];
            let ready = poll(&mut fds, Some(&PATIENCE)).expect("it can be waited for");
            assert!(ready > 0, "no answer");
            let (len, _) = recv(&self.socket, &mut bytes, RecvFlags::empty()).expect("an answer");
            let (header, body) = OutHeader::read_from_prefix(&bytes[..len]).expect("a header");
            assert_eq!(header.len as usize, len, "the header tells the length");
            if header.unique != 0 {
                assert!((-4095..=0).contains(&header.error), "{header:?}");
                assert!(header.error == 0 || body.is_empty(), "{header:?}");
                let answer = Answer { unique: header.unique, errno: -header.error, body: body.to_vec() };
                return (answer, dropped);
            }
            if header.error == NOTIFY_INVAL_INODE {
                dropped.push(NotifyInvalInodeOut::read_from_bytes(body).expect("what is to be dropped"));
            }
        }
    }

    /// The snapshots that are looked into.
    pub fn views(&self) -> Arc<Views> {
        Arc::clone(&self.ctldir.upgrade().expect("it is mounted").views)
    }

    /// Does something in the environment, beside the session.
    pub fn block_on<T>(&self, work: impl Future<Output = T>) -> T {
        self.env.block_on(work)
    }

    pub fn pool(&self) -> &Arc<Pool> {
        &self.pool
    }

    /// Hangs up, and waits until the session has ended.
    pub fn hang_up(self) {
        drop(self.socket);
        assert!(self.ended.wait(Duration::from_secs(60)), "what was written is stable by now");
        self.env.block_on(self.pool.close(PoolState::Exported)).expect("nobody uses it");
    }
}
