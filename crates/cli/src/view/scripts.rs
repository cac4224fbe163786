//! What scripts say of leaves (`-c`), as columns behind those of a table.
//!
//! ```text
//!   vendor=ATA          a column, and its value for this leaf
//!   no such device      what is no column ends what a script says, and stands behind the columns
//! ```

use std::fmt::Write;

/// What is shown where a script said nothing.
const NOTHING: &str = "-";

/// What scripts say of one leaf.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Said {
    columns: Vec<(String, String)>,
    lines: Vec<String>,
}

impl Said {
    /// Takes in what a script printed. Of a column the first value counts.
    pub fn take(&mut self, text: &str) {
        for line in text.lines() {
            let Some((column, value)) = line.split_once('=') else {
                self.lines.push(line.to_owned());
                return;
            };
            if self.value(column).is_none() {
                self.columns.push((column.to_owned(), value.to_owned()));
            }
        }
    }

    fn value(&self, column: &str) -> Option<&str> {
        self.columns.iter().find(|(name, _)| name == column).map(|(_, value)| value.as_str())
    }
}

/// What scripts say of all leaves.
#[derive(Clone, Debug, Default)]
pub struct ScriptColumns {
    said: Vec<((String, String), Said)>,
    /// Each column and its width.
    columns: Vec<(String, usize)>,
}

impl ScriptColumns {
    /// Of leaves by the pool's name and the leaf's path.
    pub fn new(said: Vec<((String, String), Said)>) -> Self {
        let mut columns: Vec<(String, usize)> = Vec::new();
        for (name, value) in said.iter().flat_map(|(_, said)| &said.columns) {
            match columns.iter_mut().find(|(known, _)| known == name) {
                Some((_, width)) => *width = (*width).max(value.len()),
                None => columns.push((name.clone(), name.len().max(value.len()))),
            }
        }
        Self { said, columns }
    }

    /// The names of the columns, behind those of the table.
    pub fn heading(&self) -> String {
        self.each(|name, width| format!("{name:>width$}"))
    }

    /// The line below the names.
    pub fn dashes(&self) -> String {
        self.each(|_, width| "-".repeat(width))
    }

    fn each(&self, cell: impl Fn(&str, usize) -> String) -> String {
        let one = |(name, width): &(String, usize)| format!("  {}", cell(name, *width));
        self.columns.iter().map(one).collect()
    }

    /// The row of a leaf.
    pub fn row(&self, pool: &str, path: &str) -> String {
        let of_leaf = |((of, leaf), _): &&((String, String), Said)| of == pool && leaf == path;
        let Some((_, said)) = self.said.iter().find(of_leaf) else { return "  ".to_owned() };
        let shown = |name: &str| {
            let value = said.value(name).filter(|value| !value.trim().is_empty());
            value.unwrap_or(NOTHING).to_owned()
        };
        let mut text = self.each(|name, width| format!("{:>width$}", shown(name)));
        let gap = if self.columns.is_empty() { "" } else { "  " };
        if self.columns.is_empty() {
            text.push_str("  ");
        }
        said.lines.iter().for_each(|line| _ = write!(text, "{gap}{line}"));
        text
    }

    /// The columns that a leaf of any pool has, and its values.
    pub fn values(&self, path: &str) -> impl Iterator<Item = (&str, &str)> {
        let of_leaf = self.said.iter().find(|((_, leaf), _)| leaf == path);
        let said = of_leaf.into_iter().flat_map(|(_, said)| &said.columns);
        said.map(|(name, value)| (name.as_str(), value.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(leaves: &[(&str, &str)]) -> ScriptColumns {
        let one = |(path, text): &(&str, &str)| {
            let mut said = Said::default();
            said.take(text);
            (("p".to_owned(), (*path).to_owned()), said)
        };
        ScriptColumns::new(leaves.iter().map(one).collect())
    }

    #[test]
    fn values_stand_below_the_names_of_their_columns() {
        let all = of(&[("/a", "vendor=ATA\nsize=10G\n"), ("/b", "vendor=Seagate\nsize= \nvendor=x\n")]);
        assert_eq!(all.heading(), "   vendor  size");
        assert_eq!(all.dashes(), "  -------  ----");
        assert_eq!(all.row("p", "/a"), "      ATA   10G");
        assert_eq!(all.row("p", "/b"), "  Seagate     -");
        assert_eq!(all.row("q", "/b"), "  ");
    }

    #[test]
    fn the_first_line_that_is_no_column_is_the_last_that_is_shown() {
        let all = of(&[("/a", "x=1\nnot there\ny=2\n")]);
        assert_eq!((all.heading().as_str(), all.row("p", "/a").as_str()), ("  x", "  1  not there"));
        let alone = of(&[("/a", "not there\n")]);
        assert_eq!((alone.heading().as_str(), alone.row("p", "/a").as_str()), ("", "  not there"));
    }
}
