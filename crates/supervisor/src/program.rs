//! How a process of a pool is started.

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::mpsc;

use tokio::process::{Child, Command};
use tokio::runtime::Handle;

use crate::groups::PoolGroups;

/// A program that becomes the process of a pool. It finds its number and its memory in the environment. Its standard
/// input is the socket of its [`broker::Broker`]; the program ends when the other end is closed.
#[derive(Clone, Debug)]
pub struct PoolProgram {
    /// The file.
    pub path: PathBuf,
    /// Its name among the processes.
    pub name: OsString,
    /// Its words.
    pub words: Vec<OsString>,
    /// The variable for the number of the process.
    pub number: &'static str,
    /// The variable for the memory in bytes.
    pub memory: &'static str,
    /// The control groups of the processes.
    pub groups: Option<PoolGroups>,
}

impl PoolProgram {
    fn command(&self, number: u64, memory_bytes: u64, socket: OwnedFd) -> Command {
        let mut command = Command::new(&self.path);
        command
            .arg0(&self.name)
            .args(&self.words)
            .env(self.number, number.to_string())
            .env(self.memory, memory_bytes.to_string())
            .current_dir("/")
            .stdin(Stdio::from(socket));
        command
    }
}

/// Starts the processes of pools on a thread that lives as long as the daemon, because the kernel kills such a
/// process when the thread that has started the process ends (`confine`, "The end of the parent").
pub struct ProcessStarter {
    program: PoolProgram,
    orders: mpsc::Sender<Order>,
}

struct Order {
    command: Command,
    started: mpsc::SyncSender<io::Result<Child>>,
}

impl ProcessStarter {
    /// Starts the thread. A runtime of tokio must be entered, and its children are waited for there.
    ///
    /// # Errors
    /// The system has no thread left.
    pub fn new(program: PoolProgram) -> io::Result<Self> {
        let (orders, all) = mpsc::channel::<Order>();
        let runtime = Handle::current();
        let work = move || {
            let _entered = runtime.enter();
            for Order { mut command, started } in all {
                _ = started.send(command.spawn());
            }
        };
        std::thread::Builder::new().name("starter".to_owned()).spawn(work)?;
        Ok(Self { program, orders })
    }

    /// Puts the process of a pool into the control group of the pool, if there are such groups. A process that cannot
    /// enter the group works outside.
    pub(crate) fn enter_group(&self, pool: &str, pid: u32) {
        let Some(groups) = &self.program.groups else { return };
        if let Err(error) = groups.enter(pool, pid) {
            tracing::error!(pool, pid, %error, "the process of the pool is not in the control group of the pool");
        }
    }

    /// Starts the program with this socket.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn start(&self, number: u64, memory_bytes: u64, socket: OwnedFd) -> io::Result<Child> {
        let gone = || io::Error::other("the thread that starts processes is gone");
        let (started, answer) = mpsc::sync_channel(1);
        let command = self.program.command(number, memory_bytes, socket);
        self.orders.send(Order { command, started }).map_err(|_| gone())?;
        answer.recv().unwrap_or_else(|_| Err(gone()))
    }
}
