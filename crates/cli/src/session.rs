//! One run of a command: where it prints and whom it asks.

use control::{
    Call, Client, ClientError, DaemonStatus, DaemonStatusCall, Failure, PoolNote, RunPaths, Said, UnderWay,
};
use device::RealMachine;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::io::{self, Write};
use std::os::fd::BorrowedFd;
use std::sync::Arc;

/// Why a command ends early.
#[derive(Debug)]
pub enum Stop {
    /// Wrong words: the reason, then usage, exit code 2.
    Usage(String),
    /// Refused, or went wrong.
    Failed(Failure),
    /// Nobody reads what is printed.
    Closed,
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

impl From<io::Error> for Stop {
    fn from(_: io::Error) -> Self {
        Self::Closed
    }
}

/// How a command ends: its exit code, or early.
pub type Outcome = Result<u8, Stop>;

/// Wrong words.
pub fn usage<T>(reason: impl Into<String>) -> Result<T, Stop> {
    Err(Stop::Usage(reason.into()))
}

/// Where a command prints and whom it asks.
pub struct Session {
    paths: RunPaths,
    client: Client,
    out: Box<dyn Write>,
    command: String,
    /// Pools whose history has this command.
    noted: RefCell<BTreeSet<String>>,
}

impl Session {
    /// Speaks to the daemon of these paths, starting it when there is none.
    pub fn new(paths: RunPaths, out: Box<dyn Write>) -> Self {
        let client = Client::new(paths.socket()).telling(tell);
        Self { client, paths, out, command: String::new(), noted: RefCell::default() }
    }

    /// With the command as the history of pools is to have it.
    pub fn saying(self, command: String) -> Self {
        Self { command, ..self }
    }

    /// What was typed, and by whom.
    pub fn said(&self) -> Said {
        Said { command: self.command.clone(), uid: rustix::process::getuid().as_raw().into() }
    }

    /// Where the daemon's files are.
    pub fn paths(&self) -> &RunPaths {
        &self.paths
    }

    /// Standard output. A terminal gets no control characters of names and values.
    pub fn out(&mut self) -> &mut dyn Write {
        &mut *self.out
    }

    /// Standard output for contents of files and volumes, which a terminal gets as they are.
    pub fn contents(&mut self) -> io::Result<io::Stdout> {
        self.out.flush()?;
        Ok(crate::terminal::contents())
    }

    /// Prints what a failure has to tell, and goes on; gives its exit code.
    pub fn complain(&mut self, failure: &Failure) -> u8 {
        for line in &failure.stdout {
            _ = writeln!(self.out, "{line}");
        }
        _ = self.out.flush();
        for line in &failure.stderr {
            eprintln!("{line}");
        }
        failure.exit
    }

    /// Asks the daemon; starts it first when nobody listens. A question is asked again when
    /// the daemon is lost over it; a change never is, so first it is made sure that the
    /// daemon lives: one that was just killed still accepts connections for a moment.
    pub fn ask<C: Call>(&self, call: &C) -> Result<C::Answer, Stop> {
        let answer = self.ask_unnoted(call)?;
        if let Some(subject) = call.subject().filter(|_| !call.is_dry()) {
            self.note(engine::names::pool_of(subject));
        }
        Ok(answer)
    }

    /// The same, and no history tells of it.
    pub fn ask_unnoted<C: Call>(&self, call: &C) -> Result<C::Answer, Stop> {
        if let Some(shows) = self.shown_by::<C>() {
            let may_ask = C::PUBLIC || call.delegated().is_some();
            let answer = if may_ask { shows.call(call) } else { Err(call.denied().into()) };
            return answer.map_err(failed);
        }
        if C::LOOKS {
            return self.look(call);
        }
        self.look(&DaemonStatusCall {})?;
        self.ask_running(call).map_err(failed)
    }

    /// Returns root's daemon if that daemon shows its pools to this user, without the right to
    /// change them. Returns nothing if the user's own daemon has pools or would open pools, or if
    /// the request makes or imports a pool.
    fn shown_by<C: Call>(&self) -> Option<Client> {
        if self.paths.is_roots() {
            return Some(Client::new(self.paths.public_socket()));
        }
        let system = Client::new(self.paths.system()?.public_socket());
        let has_own = || {
            let cached =
                engine::PoolCache::at(Arc::new(RealMachine::default()), self.paths.pool_cache()).load();
            let has_pools = |own: DaemonStatus| !own.pools.is_empty() || !own.failed.is_empty();
            self.ask_running(&DaemonStatusCall {}).is_ok_and(has_pools)
                || !cached.is_ok_and(|pools| pools.is_empty())
        };
        (!C::FOUNDS && system.answers() && !has_own()).then_some(system)
    }

    /// Whom bytes are asked of, or sent to: somebody lives there.
    fn passes<C: Call>(&self, call: &C) -> Result<Client, Stop> {
        match self.shown_by::<C>() {
            Some(shows) if call.delegated().is_some() => return Ok(shows),
            Some(_) => return Err(call.denied().into()),
            None => self.look(&DaemonStatusCall {})?,
        };
        self.paths.check().map_err(|error| failed(ClientError::Untrusted(error)))?;
        Ok(self.client.clone())
    }

    /// Asks for bytes and writes them to standard output as they come; `watch` is told how many, `broken` makes a failure
    /// of what keeps them from being written.
    pub fn pass_on<C: Call>(
        &mut self,
        call: &C,
        watch: &mut dyn FnMut(usize),
        broken: impl FnOnce(&io::Error) -> Failure,
    ) -> Result<C::Answer, Stop> {
        let client = self.passes(call)?;
        let mut out = Watched { out: &mut *self.out, watch };
        client.call_for_bytes(call, &mut out).map_err(|error| match error {
            ClientError::Sink(error) => Stop::Failed(broken(&error)),
            error => failed(error),
        })
    }

    /// Asks, and has the daemon read from `source` what that is about.
    pub fn pass_in<C: Call>(&mut self, call: &C, source: BorrowedFd<'_>) -> Result<C::Answer, Stop> {
        let client = self.passes(call)?;
        let answer = client.call_with_source(call, source).map_err(failed)?;
        if let Some(subject) = call.subject().filter(|_| !call.is_dry()) {
            self.note(engine::names::pool_of(subject));
        }
        Ok(answer)
    }

    /// Notes the command in a pool's history, once. What was done is done, noted or not.
    pub fn note(&self, pool: &str) {
        if self.noted.borrow_mut().insert(pool.to_owned()) {
            let note = PoolNote { pool: pool.to_owned(), said: self.said(), maker: None };
            _ = match self.shown_by::<PoolNote>() {
                Some(shows) => shows.call(&note),
                None => self.ask_running(&note),
            };
        }
    }

    fn look<C: Call>(&self, call: &C) -> Result<C::Answer, Stop> {
        match self.ask_running(call) {
            Err(ClientError::Unreachable { .. } | ClientError::Lost(_)) => {
                daemon::start(&self.paths).map_err(|e| Stop::Failed(e.failure()))?;
                self.ask_running(call).map_err(failed)
            }
            answer => answer.map_err(failed),
        }
    }

    /// Asks what looks, as [`Self::ask`] does, but starts nothing: `None` when nobody is there who could answer.
    pub fn ask_if_running<C: Call>(&self, call: &C) -> Result<Option<C::Answer>, Stop> {
        match self.ask_whoever_runs(call) {
            Err(ClientError::Unreachable { .. } | ClientError::Lost(_)) => Ok(None),
            answer => answer.map(Some).map_err(failed),
        }
    }

    /// Asks what only looks, of a daemon that may be another user's. Nothing is started.
    pub fn ask_whoever_runs<C: Call>(&self, call: &C) -> Result<C::Answer, ClientError> {
        match self.shown_by::<C>() {
            Some(shows) => shows.call(call),
            None => self.ask_running(call),
        }
    }

    /// Asks the user's own daemon if there is one.
    pub fn ask_running<C: Call>(&self, call: &C) -> Result<C::Answer, ClientError> {
        self.paths.check().map_err(ClientError::Untrusted)?;
        self.client.call(call)
    }
}

/// Output with somebody who is told how much it is.
struct Watched<'a> {
    out: &'a mut dyn Write,
    watch: &'a mut dyn FnMut(usize),
}

impl Write for Watched<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let len = self.out.write(bytes)?;
        (self.watch)(len);
        Ok(len)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// What a command waits for. Until its turn comes it can be given up, and then nothing of it is done.
fn tell(change: &UnderWay) {
    let UnderWay { pool, what, millis } = change;
    eprintln!("waiting for pool '{pool}' ({what} for {} s so far); ^C gives up waiting", millis / 1000);
}

fn failed(error: ClientError) -> Stop {
    Stop::Failed(as_failure(error))
}

/// A broken connection, as a failure with its causes.
pub fn as_failure(error: ClientError) -> Failure {
    match error {
        ClientError::Refused(failure) => failure,
        error => {
            let mut line = error.to_string();
            let mut cause = std::error::Error::source(&error);
            while let Some(next) = cause {
                line = format!("{line}: {next}");
                cause = next.source();
            }
            Failure::new(control::FailureKind::Other, line)
        }
    }
}
