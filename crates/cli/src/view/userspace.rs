//! What `zfs userspace`, `groupspace` and `projectspace` print.

use control::{Account, Owner, Used};
use engine::nice;
use std::cmp::Ordering;

/// A column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    /// Whether it is a user, a group or a project.
    Type,
    /// Name or number.
    Name,
    /// Space used.
    Used,
    /// Limit of that.
    Quota,
    /// Objects used.
    ObjectsUsed,
    /// Limit of those.
    ObjectsQuota,
}

/// All columns, by what they are called for `-o`.
pub const FIELDS: [(&str, Field); 6] = [
    ("type", Field::Type),
    ("name", Field::Name),
    ("used", Field::Used),
    ("quota", Field::Quota),
    ("objused", Field::ObjectsUsed),
    ("objquota", Field::ObjectsQuota),
];

/// How the table is to look.
#[derive(Clone, Debug)]
pub struct Look {
    /// Columns.
    pub fields: Vec<Field>,
    /// For programs: no heading, tabs.
    pub scripted: bool,
    /// Exact numbers.
    pub exact: bool,
}

/// A row: an account, and what it is called.
#[derive(Clone, Debug)]
pub struct Row {
    /// What is used.
    pub account: Account,
    /// The name of whom it is of, where one is shown.
    pub name: Option<String>,
}

impl Row {
    fn word(&self) -> &'static str {
        match self.account.owner {
            Owner::User => "POSIX User",
            Owner::Group => "POSIX Group",
            Owner::Project => "Project",
        }
    }

    /// Groups come before users, and those before projects.
    fn standing(&self) -> u8 {
        match self.account.owner {
            Owner::Group => 0,
            Owner::User => 1,
            Owner::Project => 2,
        }
    }

    fn space(&self) -> Used {
        self.account.space.unwrap_or_default()
    }

    /// Compares two rows by a column. Only these four are sorted by.
    pub fn compare(&self, other: &Self, by: Field) -> Ordering {
        match by {
            Field::Type => self.standing().cmp(&other.standing()),
            Field::Name => match (&self.name, &other.name) {
                (Some(name), Some(other)) => name.cmp(other),
                // What has a name counts as 0.
                _ => self.number().cmp(&other.number()),
            },
            Field::Used => self.space().used.cmp(&other.space().used),
            Field::Quota => self.space().quota.cmp(&other.space().quota),
            Field::ObjectsUsed | Field::ObjectsQuota => Ordering::Equal,
        }
    }

    fn number(&self) -> u64 {
        if self.name.is_some() { 0 } else { self.account.id }
    }

    fn cell(&self, field: Field, exact: bool) -> String {
        let Account { space, objects, .. } = self.account;
        let told = |value: Option<u64>, is_quota: bool, nice: fn(u64) -> String| match value {
            None => "-".to_owned(),
            Some(value) if exact => value.to_string(),
            Some(0) if is_quota => "none".to_owned(),
            Some(value) => nice(value),
        };
        match field {
            Field::Type => self.word().to_owned(),
            Field::Name => self.name.clone().unwrap_or_else(|| self.account.id.to_string()),
            Field::Used => told(space.map(|space| space.used), false, nice::bytes),
            Field::Quota => told(space.map(|space| space.quota), true, nice::bytes),
            Field::ObjectsUsed => told(objects.map(|objects| objects.used), false, nice::number),
            Field::ObjectsQuota => told(objects.map(|objects| objects.quota), true, nice::number),
        }
    }
}

/// The whole output; nothing at all where nobody uses anything.
pub fn table(rows: &[Row], look: &Look) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let heading = look.fields.iter().map(|field| title(*field)).collect();
    let cells = rows.iter().map(|row| look.fields.iter().map(|field| row.cell(*field, look.exact)).collect());
    let cells: Vec<Vec<String>> = cells.collect();
    if look.scripted {
        return cells.iter().map(|row| format!("{}\n", row.join("\t"))).collect();
    }
    let lines: Vec<Vec<String>> = std::iter::once(heading).chain(cells).collect();
    let width = |place: usize| lines.iter().map(|line| line[place].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..look.fields.len()).map(width).collect();
    let padded = |line: &Vec<String>| {
        let cells = line.iter().zip(&look.fields).zip(&widths).map(|((cell, field), width)| match field {
            Field::Type | Field::Name => format!("{cell:width$}"),
            _ => format!("{cell:>width$}"),
        });
        format!("{}\n", cells.collect::<Vec<_>>().join("  "))
    };
    lines.iter().map(padded).collect()
}

fn title(field: Field) -> String {
    let found = FIELDS.iter().find(|(_, other)| *other == field);
    found.map_or_else(String::new, |(name, _)| name.to_uppercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(owner: Owner, id: u64, name: Option<&str>, used: u64) -> Row {
        let space = Some(Used { used, quota: if id == 0 { 0 } else { 10 << 20 } });
        let objects = (owner != Owner::Project).then_some(Used { used: 1025, quota: 0 });
        Row { account: Account { owner, id, space, objects }, name: name.map(str::to_owned) }
    }

    #[test]
    fn columns_are_as_openzfs_prints_them() {
        let rows = [row(Owner::User, 0, Some("root"), 851_456), row(Owner::User, 1000, None, 2048)];
        let fields = FIELDS.map(|(_, field)| field).to_vec();
        let look = Look { fields, scripted: false, exact: false };
        let text = "TYPE        NAME  USED  QUOTA  OBJUSED  OBJQUOTA\n\
                    POSIX User  root  832K   none    1.00K      none\n\
                    POSIX User  1000    2K    10M    1.00K      none\n";
        assert_eq!(table(&rows, &look), text);
        let look = Look { scripted: true, exact: true, ..look };
        let text = "POSIX User\troot\t851456\t0\t1025\t0\nPOSIX User\t1000\t2048\t10485760\t1025\t0\n";
        assert_eq!(table(&rows, &look), text);
        assert_eq!(table(&[], &look), "");
    }

    #[test]
    fn the_last_column_is_padded_too() {
        let rows = [row(Owner::Project, 77, None, 0)];
        let look = Look { fields: vec![Field::ObjectsUsed, Field::Name], scripted: false, exact: false };
        assert_eq!(table(&rows, &look), "OBJUSED  NAME\n      -  77  \n");
    }

    #[test]
    fn names_sort_as_text_and_numbers_as_numbers() {
        let (joe, two, ten) = (
            row(Owner::User, 5, Some("joe"), 1),
            row(Owner::User, 2, None, 9),
            row(Owner::User, 10, None, 3),
        );
        assert_eq!(two.compare(&ten, Field::Name), Ordering::Less);
        assert_eq!(joe.compare(&two, Field::Name), Ordering::Less);
        assert_eq!(two.compare(&ten, Field::Used), Ordering::Greater);
        assert_eq!(row(Owner::Group, 9, None, 0).compare(&two, Field::Type), Ordering::Less);
    }
}
