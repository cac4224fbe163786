//! What probes try to reach: files, sockets and a process, all of root.

use std::fs::{self, Permissions};
use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::{Path, PathBuf};

use confine::PoolUser;
use oracle::needs::Need;
use rustix::fs::{CWD, Dev, FileType, Mode, mknodat};
use tempfile::TempDir;

/// The number of the process whose user the tests take.
pub const NUMBER: u64 = 3;

/// A directory of which everybody may change everything, and the sockets of this process.
pub struct World {
    dir: TempDir,
    tcp: TcpListener,
    _abstract: UnixListener,
    _by_path: UnixListener,
}

impl World {
    /// `None` where tests that need root are left out.
    pub fn new() -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            Need::Root.is_missing("only root can give up rights");
            return None;
        }
        let dir = TempDir::new().expect("a directory");
        let path = dir.path().to_owned();
        open_to_all(&path);
        file(&path.join("roots"), 0o600);
        file(&path.join("handed-over"), 0o600);
        fs::create_dir(path.join("mount")).expect("made");
        node_of_a_disk(&path.join("disk"));
        let name = SocketAddr::from_abstract_name(abstract_name(&path)).expect("a name");
        let by_path = UnixListener::bind(path.join("socket")).expect("bound");
        fs::set_permissions(path.join("socket"), Permissions::from_mode(0o666)).expect("permissions");
        Some(Self {
            tcp: TcpListener::bind("127.0.0.1:0").expect("bound"),
            _abstract: UnixListener::bind_addr(&name).expect("bound"),
            _by_path: by_path,
            dir,
        })
    }

    /// Makes the files anew that a process before has changed.
    pub fn renew(&self) {
        ["everybodys", "victim", "another-victim"]
            .iter()
            .for_each(|name| file(&self.dir().join(name), 0o666));
    }

    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    pub fn port(&self) -> u16 {
        self.tcp.local_addr().expect("bound").port()
    }

    pub fn user(&self) -> u32 {
        PoolUser::nth(NUMBER).expect("a user").id()
    }
}

/// The abstract name of the socket of a world.
pub fn abstract_name(dir: &Path) -> Vec<u8> {
    dir.as_os_str().as_encoded_bytes().to_vec()
}

fn open_to_all(path: &Path) {
    fs::set_permissions(path, Permissions::from_mode(0o777)).expect("permissions");
}

fn file(path: &Path, mode: u32) {
    fs::write(path, [7; 4096]).expect("written");
    fs::set_permissions(path, Permissions::from_mode(mode)).expect("permissions");
}

/// A node that everybody may read, for a block device that can be opened.
fn node_of_a_disk(path: &Path) {
    let disk =
        fs::read_dir("/dev").expect("devices").filter_map(|entry| Some(entry.ok()?.path())).find(is_disk);
    let device: Dev = fs::metadata(disk.expect("a block device")).expect("there").rdev();
    mknodat(CWD, path, FileType::BlockDevice, Mode::from_raw_mode(0o600), device).expect("a node");
    fs::set_permissions(path, Permissions::from_mode(0o444)).expect("permissions");
}

fn is_disk(path: &PathBuf) -> bool {
    use std::os::unix::fs::FileTypeExt;
    fs::metadata(path).is_ok_and(|found| found.file_type().is_block_device()) && fs::File::open(path).is_ok()
}
