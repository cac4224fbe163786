//! Where each panel goes on a screen.
//!
//! ```text
//!  pool, keys                                   1
//!  commits and bytes a second, over time        2
//!  latency over time                            6 and more
//!  stages              | log block sizes        8 and more
//!  log devices                                  4 and more
//!  datasets            | processes              3 and more
//! ```
//! These are 24 rows. What a larger screen has beside goes to devices that would not be seen, then to the others.

use crate::Ink;
use crate::panels::{devices, head, latency, pools, rates, sizes, stages, users};
use crate::watching::Watching;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::Line;
use ratatui::widgets::Paragraph;

/// Rows of a screen on which all can be seen.
const ROWS: u16 = 24;

/// Rows of what may have more or fewer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Rows {
    heat: u16,
    middle: u16,
    devices: u16,
    users: u16,
}

impl Rows {
    /// On a screen of so many rows, with so many lines about devices.
    fn of(rows: u16, devices: usize) -> Self {
        let mut spare = rows.saturating_sub(ROWS);
        let mut take = |most: u16| {
            let taken = spare.min(most);
            spare -= taken;
            taken
        };
        let devices = 4 + take(u16::try_from(devices).unwrap_or(u16::MAX).saturating_sub(4));
        let share = rows.saturating_sub(ROWS) / 3;
        let users = 3 + take(share.min(7));
        let heat = 6 + take(10);
        let middle = 8 + take(7);
        // What is left over goes to who uses the log.
        let users = users + take(u16::MAX);
        Self { heat, middle, devices, users }
    }
}

/// Draws all of it.
pub fn draw(frame: &mut Frame<'_>, ink: Ink, watching: &Watching) {
    let area = frame.area();
    let mut page = Page { frame, area, row: 0 };
    let width = usize::from(area.width);
    page.put(1, vec![head::line(ink, watching, width)]);
    if let Some((all, chosen)) = watching.choice() {
        let rows = area.height.saturating_sub(1);
        return page.put(rows, pools::lines(ink, all, chosen, width, rows.into()));
    }
    let now = watching.now();
    let columns = watching.columns(rates::room(width));
    let point = now.map(live::Interval::point);
    let Rows { heat, middle, devices: device_rows, users: user_rows } =
        Rows::of(area.height, devices::wanted(now));
    page.put(2, rates::lines(ink, &columns, point.as_ref(), width));
    page.put(heat, latency::heat(ink, &columns, now, width, heat.into()));
    let (left, right) = halves(width);
    page.put_both(middle, stages::lines(ink, now, left), sizes::lines(ink, now, right, middle.into()));
    page.put(device_rows, devices::lines(ink, now, width, device_rows.into()));
    let datasets = users::datasets(ink, now, left, user_rows.into());
    page.put_both(user_rows, datasets, users::processes(ink, now, right, user_rows.into()));
}

/// Two columns with a gap between them.
fn halves(width: usize) -> (usize, usize) {
    let left = width.saturating_sub(2) / 2;
    (left, width.saturating_sub(2) - left)
}

/// A screen that is filled from above.
struct Page<'a, 'b> {
    frame: &'a mut Frame<'b>,
    area: Rect,
    row: u16,
}

impl Page<'_, '_> {
    fn put(&mut self, rows: u16, lines: Vec<Line<'static>>) {
        self.put_at(0, self.area.width, rows, lines);
        self.row = self.row.saturating_add(rows);
    }

    fn put_both(&mut self, rows: u16, left: Vec<Line<'static>>, right: Vec<Line<'static>>) {
        let (first, second) = halves(self.area.width.into());
        let (first, second) = (first as u16, second as u16);
        self.put_at(0, first, rows, left);
        self.put_at(first.saturating_add(2), second, rows, right);
        self.row = self.row.saturating_add(rows);
    }

    fn put_at(&mut self, x: u16, width: u16, rows: u16, lines: Vec<Line<'static>>) {
        let area = Rect { x: self.area.x + x, y: self.area.y + self.row, width, height: rows };
        self.frame.render_widget(Paragraph::new(lines), area);
    }
}
