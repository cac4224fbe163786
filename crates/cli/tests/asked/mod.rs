//! HTTP, as plain as it can be asked: one request a connection.
#![allow(dead_code, reason = "each test program uses a part of it")]

use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// What came back.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: String,
}

/// Asks at an address such as `127.0.0.1:80`; `None` while nobody listens there.
pub fn tcp(address: &str, path: &str, headers: &[&str]) -> Option<Answer> {
    let stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(30))).expect("a time limit");
    ask(stream, path, headers)
}

/// Asks at a Unix socket.
pub fn unix(socket: &Path, path: &str, headers: &[&str]) -> Option<Answer> {
    ask(UnixStream::connect(socket).ok()?, path, headers)
}

fn ask(mut stream: impl Read + Write, path: &str, headers: &[&str]) -> Option<Answer> {
    let more: String = headers.iter().map(|line| format!("{line}\r\n")).collect();
    // The older version of the protocol has no answers in pieces.
    stream.write_all(format!("GET {path} HTTP/1.0\r\nHost: localhost\r\n{more}\r\n").as_bytes()).ok()?;
    let mut text = Vec::new();
    stream.read_to_end(&mut text).ok()?;
    let text = String::from_utf8(text).ok()?;
    let (head, body) = text.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    Some(Answer { status, head: head.to_owned(), body: body.to_owned() })
}

/// As it may stand in a query.
pub fn escaped(text: &str) -> String {
    text.bytes().fold(String::new(), |mut all, byte| {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => all.push(char::from(byte)),
            other => write!(all, "%{other:02X}").expect("a string takes all"),
        }
        all
    })
}
