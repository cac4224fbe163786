//! What is watched, and what keys change of it.

use control::{Failure, PoolInfo};
use live::{Interval, Look, Monitor, Point};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// Points that are kept: two hours at one a second, in some 3 MB.
const POINTS: usize = 7_200;
/// Points in a column, from one zoom to the next.
const ZOOMS: [usize; 3] = [1, 5, 30];

/// What the thread that looks has seen.
pub struct Seen {
    /// The pools that are open.
    pub pools: Vec<PoolInfo>,
    /// A look at the one that was wanted, if that is open.
    pub look: Option<Look>,
}

/// What a key leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// Something else is shown, perhaps.
    GoOn,
    /// Another pool is wanted, at once.
    LookNow,
    /// The end.
    Quit,
}

/// See the module.
pub struct Watching {
    monitor: Monitor,
    /// What was there when somebody paused, which is shown then; looks go on behind it.
    held: Option<Box<Monitor>>,
    wanted: Option<String>,
    pools: Vec<PoolInfo>,
    /// The place in the list of pools, while somebody chooses.
    choosing: Option<usize>,
    zoom: usize,
    error: Option<String>,
    rating: Option<advise::Rating>,
}

impl Watching {
    /// The pool of this name, or the first one.
    pub fn new(wanted: Option<String>, rating: Option<advise::Rating>) -> Self {
        Self {
            monitor: Monitor::new(POINTS, rating),
            held: None,
            wanted,
            pools: Vec::new(),
            choosing: None,
            zoom: 0,
            error: None,
            rating,
        }
    }

    /// The pool to look at, if it is known which.
    pub fn wanted(&self) -> Option<&str> {
        self.wanted.as_deref()
    }

    /// The daemon has answered, or not.
    pub fn see(&mut self, seen: Result<Seen, Failure>) {
        let Seen { pools, look } = match seen {
            Ok(seen) => seen,
            Err(failure) => return self.error = Some(failure.to_string()),
        };
        self.pools = pools;
        let name = self.wanted.clone().unwrap_or_default();
        match look {
            // It may have been asked for before another pool was chosen.
            Some(look) if self.wanted.is_none() || look.pool.name == name => {
                self.error = None;
                self.wanted = Some(look.pool.name.clone());
                self.monitor.look(look);
            }
            Some(_) => {}
            None if name.is_empty() => self.error = Some("no pools are open".to_owned()),
            None => self.error = Some(format!("cannot open '{name}': no such pool")),
        }
    }

    /// The daemon has not answered for so many seconds.
    pub fn waits(&mut self, seconds: u64) {
        self.error = Some(format!("no answer for {seconds} s"));
    }

    /// A key was pressed.
    pub fn press(&mut self, key: KeyEvent) -> Then {
        let with_control = key.modifiers.contains(KeyModifiers::CONTROL);
        match (key.code, self.choosing) {
            (KeyCode::Char('c'), _) if with_control => return Then::Quit,
            (KeyCode::Char('q'), _) => return Then::Quit,
            (KeyCode::Enter, Some(place)) => return self.choose(place),
            (KeyCode::Up | KeyCode::Char('k'), Some(place)) => self.choosing = Some(place.saturating_sub(1)),
            (KeyCode::Down | KeyCode::Char('j'), Some(place)) => {
                self.choosing = Some((place + 1).min(self.pools.len().saturating_sub(1)));
            }
            (KeyCode::Esc | KeyCode::Char('o'), Some(_)) => self.choosing = None,
            (KeyCode::Char('o'), None) => self.choosing = Some(self.place()),
            (KeyCode::Char('p' | ' '), None) => self.pause(),
            (KeyCode::Char('z'), None) => self.zoom = (self.zoom + 1) % ZOOMS.len(),
            _ => {}
        }
        Then::GoOn
    }

    fn pause(&mut self) {
        self.held = match self.held.take() {
            Some(_) => None,
            None => Some(Box::new(self.monitor.clone())),
        };
    }

    /// Where the pool that is watched is in the list.
    fn place(&self) -> usize {
        self.pools.iter().position(|pool| Some(&pool.name) == self.wanted.as_ref()).unwrap_or(0)
    }

    fn choose(&mut self, place: usize) -> Then {
        self.choosing = None;
        let Some(pool) = self.pools.get(place).filter(|pool| Some(&pool.name) != self.wanted.as_ref()) else {
            return Then::GoOn;
        };
        let wanted = Some(pool.name.clone());
        let (pools, zoom) = (std::mem::take(&mut self.pools), self.zoom);
        *self = Self { pools, zoom, ..Self::new(wanted, self.rating) };
        Then::LookNow
    }

    fn shown(&self) -> &Monitor {
        self.held.as_deref().unwrap_or(&self.monitor)
    }

    /// The last look that is shown.
    pub fn last(&self) -> Option<&Look> {
        self.shown().last()
    }

    /// The last interval that is shown.
    pub fn now(&self) -> Option<&Interval> {
        self.shown().now.as_ref()
    }

    /// The last columns of what is drawn over time, so many at most.
    pub fn columns(&self, most: usize) -> Vec<Point> {
        self.shown().series.columns(most, ZOOMS[self.zoom])
    }

    /// Points in a column.
    pub fn points_each(&self) -> usize {
        ZOOMS[self.zoom]
    }

    /// Somebody has paused.
    pub fn is_paused(&self) -> bool {
        self.held.is_some()
    }

    /// Why nothing new is shown.
    pub fn error(&self) -> Option<&str> {
        self.error.as_deref()
    }

    /// The pools, and the place of the one that somebody is about to choose.
    pub fn choice(&self) -> Option<(&[PoolInfo], usize)> {
        self.choosing.map(|place| (self.pools.as_slice(), place.min(self.pools.len().saturating_sub(1))))
    }
}
