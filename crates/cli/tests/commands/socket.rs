//! The socket, from both ends.

use control::{Client, ClientError, DaemonStatusCall, DaemonStop, FailureKind, PoolExport, PoolList, Server};
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;

struct Daemon {
    directory: tempfile::TempDir,
    thread: JoinHandle<()>,
}

impl Daemon {
    fn start() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let socket = directory.path().join("socket");
        let (ready, is_ready) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(async {
                let server = Server::bind(&socket).expect("listens");
                let server =
                    server.and_public(&socket.with_extension("look"), |_| Ok(Vec::new())).expect("listens");
                ready.send(()).expect("the test waits");
                server.serve(Arc::new(crate::fake::FakeService::default())).await.expect("serves");
            });
        });
        is_ready.recv().expect("it listens");
        Self { directory, thread }
    }

    fn socket(&self) -> PathBuf {
        self.directory.path().join("socket")
    }

    fn client(&self) -> Client {
        Client::new(self.socket())
    }

    /// Sends bytes as they are; gives what comes back until the server hangs up.
    fn raw(&self, bytes: &[u8]) -> String {
        let mut stream = UnixStream::connect(self.socket()).expect("connects");
        stream.write_all(bytes).expect("sends");
        Self::rest_of(stream)
    }

    /// Sends bytes and says that no more will come. The server takes that for a client
    /// that has gone, and may hang up before it has answered.
    fn raw_cut_off(&self, bytes: &[u8]) -> String {
        let mut stream = UnixStream::connect(self.socket()).expect("connects");
        stream.write_all(bytes).expect("sends");
        stream.shutdown(std::net::Shutdown::Write).expect("ends");
        Self::rest_of(stream)
    }

    fn rest_of(mut stream: UnixStream) -> String {
        stream.set_read_timeout(Some(std::time::Duration::from_secs(30))).expect("a time limit");
        let mut text = Vec::new();
        _ = stream.read_to_end(&mut text);
        String::from_utf8_lossy(&text).into_owned()
    }
}

#[test]
fn a_question_gets_an_answer_and_a_refusal_its_words() {
    let daemon = Daemon::start();
    assert_eq!(daemon.client().call(&PoolList::default()).expect("an answer"), []);
    let refusal = daemon.client().call(&PoolExport { pool: "nope".into(), ..PoolExport::default() });
    match refusal {
        Err(ClientError::Refused(failure)) => {
            assert_eq!(failure.kind, FailureKind::NoSuchPool);
            assert_eq!(failure.stderr, ["cannot open 'nope': no such pool"]);
            assert_eq!(failure.exit, 1);
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn garbage_on_the_socket_gets_an_error_and_the_server_lives_on() {
    let daemon = Daemon::start();
    let post = |path: &str, body: &str| {
        let length = body.len();
        daemon.raw(
            format!("POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}")
                .as_bytes(),
        )
    };
    assert!(post("/v1/pool/export", "{").starts_with("HTTP/1.1 400"));
    assert!(post("/v1/pool/export", "[1,2]").starts_with("HTTP/1.1 400"));
    assert!(post("/v1/pool/export", r#"{"pool":7}"#).starts_with("HTTP/1.1 400"));
    assert!(post("/v1/nothing", "{}").starts_with("HTTP/1.1 404"));
    assert!(
        daemon
            .raw(b"GET /v1/pool/list HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            .starts_with("HTTP/1.1 405")
    );
    daemon.raw(b"\x00\xff\x00garbage\r\n\r\n");
    daemon.raw_cut_off(b"POST /v1/pool/list HTTP/1.1\r\nContent-Length: 99999\r\n\r\n");
    assert_eq!(daemon.client().call(&PoolList::default()).expect("still answers"), []);
}

#[test]
fn the_socket_is_its_owners_alone() {
    let daemon = Daemon::start();
    let mode = std::fs::metadata(daemon.socket()).expect("a socket").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn a_stop_is_answered_before_the_server_ends() {
    let daemon = Daemon::start();
    let client = daemon.client();
    assert_eq!(client.call(&DaemonStatusCall {}).expect("status").pid, std::process::id());
    client.call(&DaemonStop {}).expect("an answer");
    daemon.thread.join().expect("the server ended");
    assert!(!client.answers());
}

#[test]
fn nobody_listening_is_told_apart_from_a_refusal() {
    let directory = tempfile::tempdir().expect("a directory");
    let client = Client::new(directory.path().join("socket"));
    assert!(matches!(client.call(&PoolList::default()), Err(ClientError::Unreachable { .. })));
}

#[test]
fn by_the_public_socket_everybody_may_look_and_nobody_may_change() {
    let daemon = Daemon::start();
    let public = daemon.socket().with_extension("look");
    assert_eq!(std::fs::metadata(&public).expect("is there").permissions().mode() & 0o777, 0o666);
    let client = Client::new(public);
    assert!(client.call(&PoolList::default()).is_ok());
    assert!(client.answers());
    let denied = |error: ClientError| match error {
        ClientError::Refused(failure) => (failure.kind, failure.stderr.concat()),
        error => panic!("{error}"),
    };
    let export = client.call(&PoolExport { pool: "p1".into(), ..PoolExport::default() });
    let words = "cannot export 'p1': permission denied".to_owned();
    assert_eq!(denied(export.expect_err("a change")), (FailureKind::Denied, words));
    let scan = client.call(&control::ImportScan::default());
    assert_eq!(denied(scan.expect_err("opens devices")).0, FailureKind::Denied);
    assert_eq!(denied(client.call(&DaemonStop {}).expect_err("a change")).0, FailureKind::Denied);
    assert!(daemon.client().answers(), "it was not stopped");
}
