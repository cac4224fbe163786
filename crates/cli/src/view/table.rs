//! Tables of columns, for people and for programs.

/// How one column is laid out.
#[derive(Clone, Debug)]
pub struct Column {
    /// Heading.
    pub title: String,
    /// Values stand at the right.
    pub right: bool,
    /// Least width.
    pub width: usize,
}

impl Column {
    /// A column as wide as its heading, values at the left.
    pub fn left(title: &str) -> Self {
        Self { title: title.to_owned(), right: false, width: title.len() }
    }
}

/// Pads each cell to its column, two blanks between, nothing after the last left-aligned one.
pub fn padded_line(columns: &[Column], cells: &[String]) -> String {
    let mut line = String::new();
    let last = columns.len().saturating_sub(1);
    for (place, (column, cell)) in columns.iter().zip(cells).enumerate() {
        if place > 0 {
            line.push_str("  ");
        }
        let width = column.width;
        match (column.right, place == last) {
            (true, _) => line.push_str(&format!("{cell:>width$}")),
            (false, false) => line.push_str(&format!("{cell:width$}")),
            (false, true) => line.push_str(cell),
        }
    }
    line.push('\n');
    line
}

/// Cells with one tab between.
pub fn tabbed_line(cells: &[String]) -> String {
    format!("{}\n", cells.join("\t"))
}

/// A whole table; `scripted` leaves out heading and padding.
pub fn table(mut columns: Vec<Column>, rows: &[Vec<String>], scripted: bool) -> String {
    if scripted {
        return rows.iter().map(|row| tabbed_line(row)).collect();
    }
    for (place, column) in columns.iter_mut().enumerate() {
        let widest = rows.iter().filter_map(|row| row.get(place)).map(|cell| cell.chars().count()).max();
        column.width = column.width.max(widest.unwrap_or(0));
    }
    let titles: Vec<String> = columns.iter().map(|c| c.title.clone()).collect();
    let head = padded_line(&columns, &titles);
    std::iter::once(head).chain(rows.iter().map(|row| padded_line(&columns, row))).collect()
}
