//! What can be drawn with: colours or none, all characters or ASCII alone.

use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Span;

/// Characters of increasing density, from nothing to the fullest.
const DENSITIES: [char; 10] = [' ', '.', ':', '-', '=', '+', '*', '#', '%', '@'];
/// The same as heights, where there is more than ASCII.
const HEIGHTS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// Their colours: from seldom to often.
const COLOURS: [Color; 5] = [Color::Blue, Color::Cyan, Color::Green, Color::Yellow, Color::Red];

/// What a terminal can show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ink {
    /// Colours are wanted.
    pub colour: bool,
    /// There is more than ASCII.
    pub unicode: bool,
}

impl Ink {
    /// Black on white, as typewriters have it.
    pub const PLAIN: Self = Self { colour: false, unicode: false };

    /// Something that leads: a title.
    pub fn title(self, text: impl Into<String>) -> Span<'static> {
        Span::styled(text.into(), Style::new().add_modifier(Modifier::BOLD))
    }

    /// Something that is not well.
    pub fn alarm(self, text: impl Into<String>) -> Span<'static> {
        let style = Style::new().add_modifier(Modifier::BOLD | Modifier::REVERSED);
        Span::styled(text.into(), self.coloured(style, Color::Red))
    }

    /// A key that may be pressed.
    pub fn key(self, text: impl Into<String>) -> Span<'static> {
        Span::styled(text.into(), self.coloured(Style::new().add_modifier(Modifier::BOLD), Color::Cyan))
    }

    /// The row that is chosen.
    pub fn chosen(self, text: impl Into<String>) -> Span<'static> {
        Span::styled(text.into(), Style::new().add_modifier(Modifier::REVERSED))
    }

    /// A bar that fills so much of a width; what is not nothing is seen.
    pub fn bar(self, share: f64, width: usize) -> Span<'static> {
        let full = (share.clamp(0.0, 1.0) * width as f64).round() as usize;
        let seen = if share > 0.0 { full.max(1) } else { 0 };
        let mark = if self.unicode { "█" } else { "#" };
        Span::styled(mark.repeat(seen.min(width)), self.coloured(Style::new(), Color::Green))
    }

    /// One cell of a heat map.
    pub fn heat(self, count: u64, most: u64) -> Span<'static> {
        let level = live::density(count, most, DENSITIES.len() - 1);
        let colour = COLOURS[level * (COLOURS.len() - 1) / (DENSITIES.len() - 1)];
        Span::styled(DENSITIES[level].to_string(), self.coloured(Style::new(), colour))
    }

    /// Values as heights, one column for each; none is higher than the highest.
    pub fn spark(self, values: &[f64]) -> Span<'static> {
        let marks: &[char] = if self.unicode { &HEIGHTS } else { &DENSITIES };
        let most = values.iter().copied().fold(0.0, f64::max);
        let mark = |value: &f64| match *value > 0.0 {
            true => marks[((value / most) * (marks.len() - 1) as f64).ceil() as usize],
            false => marks[0],
        };
        Span::styled(values.iter().map(mark).collect::<String>(), self.coloured(Style::new(), Color::Green))
    }

    fn coloured(self, style: Style, colour: Color) -> Style {
        if self.colour { style.fg(colour) } else { style }
    }
}
