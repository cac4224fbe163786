//! A page on a free port, over pools that are made up, and whoever asks it.

use crate::fake::Fake;
use control::RunPaths;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;
use web::{Page, Token, loopback};

pub struct World {
    directory: tempfile::TempDir,
    address: SocketAddr,
    _runtime: tokio::runtime::Runtime,
}

/// What came back.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: String,
}

impl Answer {
    fn of(text: &str) -> Self {
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((text, ""));
        let mut lines = head.lines();
        let status = lines.next().and_then(|line| line.split(' ').nth(1)?.parse().ok());
        let headers = lines.filter_map(|line| line.split_once(": "));
        let headers = headers.map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()));
        Self { status: status.expect("a status"), headers: headers.collect(), body: body.to_owned() }
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str())
    }
}

impl World {
    pub fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.expect("a runtime");
        let paths = RunPaths::under(directory.path());
        let page = runtime.block_on(Page::bind(loopback("0").expect("an address"), &paths)).expect("a page");
        let address = page.address();
        runtime.spawn(page.serve(Arc::new(Fake)));
        Self { directory, address, _runtime: runtime }
    }

    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// The token, from its file.
    pub fn token(&self) -> String {
        let path = RunPaths::under(self.directory.path()).web_token();
        Token::read(&path).expect("read").expect("a token").secret().to_owned()
    }

    /// The header of a program that knows the token.
    pub fn bearer(&self) -> String {
        format!("Authorization: Bearer {}", self.token())
    }

    pub fn get(&self, path: &str, headers: &[&str]) -> Answer {
        self.ask("GET", path, "localhost", headers)
    }

    pub fn ask(&self, method: &str, path: &str, host: &str, headers: &[&str]) -> Answer {
        let more: String = headers.iter().map(|line| format!("{line}\r\n")).collect();
        let request = format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{more}\r\n");
        self.send(&request)
    }

    /// Sends a request as it is.
    pub fn send(&self, request: &str) -> Answer {
        let mut stream = TcpStream::connect(self.address).expect("connects");
        stream.set_read_timeout(Some(Duration::from_secs(30))).expect("a time limit");
        stream.write_all(request.as_bytes()).expect("sends");
        let mut text = String::new();
        stream.read_to_string(&mut text).expect("an answer");
        Answer::of(&text)
    }
}
