//! The terminal, taken and given back; keys, and looks from a thread of their own.
//!
//! ```text
//!  this thread:  key, or an answer, or a second is over ─► Watching ─► draw
//!                    │ wanted                    ▲ seen
//!                    ▼                           │
//!  its thread:   asks the daemon, however long that takes
//! ```
//! The terminal is given back when [`run`] returns, in a panic of either thread, and at SIGTERM and SIGHUP.

use crate::screen::draw;
use crate::watching::{Seen, Then, Watching};
use crate::{Ink, Source};
use control::Failure;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use signal_hook::consts::{SIGHUP, SIGTERM};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender, TryRecvError};
use std::time::{Duration, Instant};

/// How long a key or an answer is waited for at a time.
const TURN: Duration = Duration::from_millis(50);

/// What to watch, and how.
#[derive(Clone, Debug)]
pub struct Options {
    /// The pool; the first one if none is named.
    pub pool: Option<String>,
    /// Looks are so far apart.
    pub period: Duration,
    /// What the terminal can show.
    pub ink: Ink,
    /// What log devices are rated for.
    pub rating: Option<advise::Rating>,
}

/// Watches until somebody quits. Where looks come from is made in the thread that looks.
///
/// # Errors
/// The terminal's.
pub fn run<S: Source>(source: impl FnOnce() -> S + Send + 'static, options: Options) -> io::Result<()> {
    let ends = Arc::new(AtomicBool::new(false));
    for signal in [SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&ends))?;
    }
    let looks = Looks::begin(source)?;
    // From here on a panic gives the terminal back before it is told of.
    let mut terminal = ratatui::try_init()?;
    let ended = watch(&mut terminal, &looks, options, &ends);
    // tmux, if it was resized meanwhile, would leave some of what was drawn.
    let cleared = terminal.clear();
    ratatui::try_restore()?;
    ended.and(cleared)
}

fn watch(
    terminal: &mut DefaultTerminal,
    looks: &Looks,
    options: Options,
    ends: &AtomicBool,
) -> io::Result<()> {
    let Options { pool, period, ink, rating } = options;
    let mut watching = Watching::new(pool, rating);
    let mut next = Instant::now();
    let mut asked: Option<Instant> = None;
    let mut is_new = true;
    while !ends.load(Ordering::Relaxed) {
        if asked.is_none() && Instant::now() >= next {
            looks.ask(watching.wanted())?;
            asked = Some(Instant::now());
            next = (next + period).max(Instant::now());
        }
        if let Some(seen) = looks.seen()? {
            watching.see(seen);
            (asked, is_new) = (None, true);
        }
        if let Some(since) = asked.map(|asked| asked.elapsed()).filter(|since| *since > LATE.max(period * 2))
        {
            watching.waits(since.as_secs());
            is_new = true;
        }
        if std::mem::take(&mut is_new) {
            terminal.draw(|frame| draw(frame, ink, &watching))?;
        }
        if event::poll(TURN)? {
            is_new = true;
            match event::read()? {
                Event::Key(key) if key.kind != KeyEventKind::Release => match watching.press(key) {
                    Then::Quit => break,
                    Then::LookNow => next = Instant::now(),
                    Then::GoOn => {}
                },
                _ => {}
            }
        }
    }
    Ok(())
}

/// An answer is late after so long.
const LATE: Duration = Duration::from_secs(2);

/// The thread that looks.
struct Looks {
    wanted: Sender<Option<String>>,
    seen: Receiver<Result<Seen, Failure>>,
}

impl Looks {
    fn begin<S: Source>(source: impl FnOnce() -> S + Send + 'static) -> io::Result<Self> {
        let (wanted, wants) = mpsc::channel::<Option<String>>();
        let (tell, seen) = mpsc::channel();
        let looks = move || {
            let mut source = source();
            while let Ok(pool) = wants.recv() {
                if tell.send(look(&mut source, pool.as_deref())).is_err() {
                    break;
                }
            }
        };
        std::thread::Builder::new().name("looks".to_owned()).spawn(looks)?;
        Ok(Self { wanted, seen })
    }

    /// Wants a look at a pool, or at the first one.
    fn ask(&self, pool: Option<&str>) -> io::Result<()> {
        self.wanted.send(pool.map(str::to_owned)).map_err(|_| gone())
    }

    /// What was answered, if anything was.
    fn seen(&self) -> io::Result<Option<Result<Seen, Failure>>> {
        match self.seen.try_recv() {
            Ok(seen) => Ok(Some(seen)),
            Err(TryRecvError::Empty) => Ok(None),
            Err(TryRecvError::Disconnected) => Err(gone()),
        }
    }
}

/// It has panicked, and has said so.
fn gone() -> io::Error {
    io::Error::other("the thread that looks has ended")
}

fn look(source: &mut impl Source, wanted: Option<&str>) -> Result<Seen, Failure> {
    let pools = source.pools()?;
    let is_meant = |name: &str| wanted.is_none_or(|wanted| wanted == name);
    let found = pools.iter().find(|pool| is_meant(&pool.name)).cloned();
    let look = found.map(|pool| source.look(pool)).transpose()?;
    Ok(Seen { pools, look })
}
