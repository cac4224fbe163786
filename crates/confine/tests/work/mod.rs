//! Probes of what an engine does: each succeeds in a confined process as in a free one.

use std::fs;
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use io_uring::opcode;
use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{FallocateFlags, fallocate, fdatasync, fstat, fstatfs, statx};
use rustix::pipe::{SpliceFlags, pipe, splice};
use rustix::process::{Resource, getpid, getrlimit, setrlimit, test_kill_process};
use rustix::thread::{sched_getaffinity, sched_setaffinity, set_name};

use crate::process::{Place, Probe};
use crate::ring::{fd, operation};

pub const PROBES: &[Probe] = &[
    ("threads", |_| {
        let thread = std::thread::Builder::new().name("worker".to_owned()).spawn(|| set_name(c"another"))?;
        Ok(thread.join().map_err(|_| io::ErrorKind::Other)??)
    }),
    ("its own figures", |_| {
        let files = [
            "status",
            "maps",
            "cgroup",
            "mountinfo",
            "fdinfo/0",
            "stat",
            "limits",
            "environ",
            "smaps_rollup",
        ];
        files.iter().try_for_each(|file| fs::read(format!("/proc/self/{file}")).map(drop))?;
        ["task", "fd"].iter().try_for_each(|list| fs::read_dir(format!("/proc/self/{list}")).map(drop))
    }),
    ("figures of the system", |_| {
        ["/proc/meminfo", "/proc/sys/vm/max_map_count", "/sys/kernel/mm/transparent_hugepage/enabled"]
            .iter()
            .try_for_each(|file| fs::read(file).map(drop))
    }),
    ("a file that it was given", |at| {
        at.file.write_all_at(&[1; 512], 0)?;
        let mut bytes = [0; 512];
        at.file.read_exact_at(&mut bytes, 0)?;
        fallocate(&at.file, FallocateFlags::KEEP_SIZE, 0, 8192)?;
        fdatasync(&at.file)?;
        at.file.sync_all()?;
        at.file.set_len(4096)?;
        fstat(&at.file)?;
        fstatfs(&at.file)?;
        statx(&at.file, c"", rustix::fs::AtFlags::EMPTY_PATH, rustix::fs::StatxFlags::ALL)?;
        at.file.try_clone().map(drop)
    }),
    ("a file that it was given, by a ring", |at| {
        let mut bytes = [0_u8; 512];
        let read = opcode::Read::new(fd(at.file.as_raw_fd()), bytes.as_mut_ptr(), 512);
        operation(&read.build())?;
        operation(&opcode::Fsync::new(fd(at.file.as_raw_fd())).build()).map(drop)
    }),
    ("pipes", |_| {
        let ((from, to), (from_2, to_2)) = (pipe()?, pipe()?);
        rustix::pipe::fcntl_setpipe_size(&to, 1 << 20)?;
        rustix::io::write(&to, b"bytes")?;
        splice(&from, None, &to_2, None, 5, SpliceFlags::empty())?;
        let mut bytes = [0; 5];
        rustix::io::read(&from_2, &mut bytes)?;
        Ok(())
    }),
    ("a pair of sockets", |_| {
        let (mut here, mut there) = UnixStream::pair()?;
        here.write_all(b"x")?;
        there.read_exact(&mut [0])?;
        here.shutdown(std::net::Shutdown::Both)
    }),
    ("events", |_| Ok(eventfd(0, EventfdFlags::CLOEXEC).map(drop)?)),
    ("signals to itself", |_| Ok(test_kill_process(getpid())?)),
    ("processors", |_| Ok(sched_setaffinity(None, &sched_getaffinity(None)?)?)),
    ("the number of its descriptors", |_| Ok(setrlimit(Resource::Nofile, getrlimit(Resource::Nofile))?)),
    ("memory", |_| {
        let mut bytes = vec![0_u8; 64 << 20];
        bytes.resize(128 << 20, 1);
        Ok(())
    }),
    ("a backtrace", |_| {
        let trace = std::backtrace::Backtrace::force_capture().to_string();
        // The name of a function, from the program's own file.
        if trace.contains("run_if_started") { Ok(()) } else { Err(io::Error::other(trace)) }
    }),
    ("a panic that is caught", |_| match std::panic::catch_unwind(|| panic!("on purpose")) {
        Err(_) => Ok(()),
        Ok(()) => Err(io::ErrorKind::Other.into()),
    }),
    ("a runtime", runtime),
];

/// A server that accepts from a listener of before, with timers, signals and blocking work.
fn runtime(at: &Place) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        at.listener.set_nonblocking(true)?;
        let listener = tokio::net::UnixListener::from_std(at.listener.try_clone()?)?;
        let mut ended = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::hangup())?;
        rustix::process::kill_process(getpid(), rustix::process::Signal::HUP)?;
        ended.recv().await;
        let timed = tokio::time::timeout(Duration::from_millis(20), listener.accept()).await;
        if timed.is_ok() {
            return Err(io::Error::other("nobody connects"));
        }
        tokio::task::spawn_blocking(|| fs::read("/proc/self/status")).await??;
        let (here, there) = tokio::net::UnixStream::pair()?;
        here.writable().await?;
        here.try_write(b"x")?;
        there.readable().await?;
        there.peer_cred().map(drop)
    })
}
