//! Lines of cells: a heading, and what each log had to do.

use crate::number::number;
use crate::{Field, Scale};
use control::LogInfo;

/// Whose figures a line has.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// The time of day.
    pub time: &'a str,
    /// Pool.
    pub pool: &'a str,
    /// Dataset, by its full name.
    pub dataset: &'a str,
    /// Its objset, as OpenZFS names it: in hexadecimal.
    pub objset: &'a str,
}

/// Which columns there are, and how they are told apart.
#[derive(Clone, Debug)]
pub struct Table {
    /// In this order.
    pub fields: Vec<&'static Field>,
    /// Follows each cell.
    pub separator: String,
    /// Figures are those of a second of so many; else those since the import.
    pub seconds: Option<u64>,
}

impl Table {
    /// Whether a field's figures are divided by the seconds they were made in.
    fn is_rate(&self, field: &Field) -> bool {
        self.seconds.is_some() && matches!(field.scale, Scale::Count | Scale::Bytes)
    }

    /// The line above the figures.
    #[must_use]
    pub fn heading(&self) -> String {
        self.line(|field| {
            let name = format!("{}{}", field.name, if self.is_rate(field) { "/s" } else { "" });
            format!("{name:>0$}", field.width)
        })
    }

    /// What a log had to do.
    #[must_use]
    pub fn row(&self, subject: &Subject<'_>, log: &LogInfo) -> String {
        self.line(|field| match field.scale {
            Scale::Text => format!("{:>1$}", subject.text(field.name), field.width),
            scale => {
                let seconds = if self.is_rate(field) { self.seconds.unwrap_or(1).max(1) } else { 1 };
                number((field.value)(log) / seconds, scale, field.width)
            }
        })
    }

    fn line(&self, cell: impl Fn(&Field) -> String) -> String {
        let cells = self.fields.iter().map(|field| format!("{}{}", cell(field), self.separator));
        cells.chain(["\n".to_owned()]).collect()
    }
}

impl Subject<'_> {
    fn text(&self, field: &str) -> &str {
        match field {
            "time" => self.time,
            "pool" => self.pool,
            "obj" => self.objset,
            _ => self.dataset,
        }
    }
}

#[cfg(test)]
mod tests;
