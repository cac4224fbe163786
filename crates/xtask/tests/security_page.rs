//! docs/security.md says what the code is: its places, its tests, its `unsafe`, its parsers.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Parts that the page leaves out of the names of files in its tables.
const CRATES: &str = "crates";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn page() -> String {
    fs::read_to_string(root().join("docs/security.md")).expect("the page")
}

/// The cells of the tables with this heading, a row each.
fn rows(page: &str, heading: &str) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        if line == heading {
            let table = lines.by_ref().skip(1).take_while(|line| line.starts_with('|'));
            rows.extend(table.map(|line| line.trim_matches('|').split(" | ").map(str::to_owned).collect()));
        }
    }
    assert!(!rows.is_empty(), "{heading}");
    rows
}

/// What stands between backquotes.
fn quoted(cell: &str) -> impl Iterator<Item = &str> {
    cell.split('`').skip(1).step_by(2)
}

/// All files below a directory with this end of their names.
fn files_below(dir: &Path, end: &str, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).expect("a directory") {
        let path = entry.expect("an entry").path();
        match path.is_dir() {
            true => files_below(&path, end, found),
            false if path.to_string_lossy().ends_with(end) => found.push(path),
            false => {}
        }
    }
}

fn sources() -> Vec<(PathBuf, String)> {
    let mut files = Vec::new();
    files_below(&root().join(CRATES), ".rs", &mut files);
    files.into_iter().map(|path| (path.clone(), fs::read_to_string(path).expect("text"))).collect()
}

fn is_word(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|letter| letter.is_alphanumeric() || letter == '_')
}

/// True if a text has a word, and not only as a part of another one.
fn has_word(text: &str, word: &str) -> bool {
    let is_letter = |letter: char| letter.is_alphanumeric() || letter == '_';
    text.match_indices(word)
        .any(|(at, _)| !text[..at].ends_with(is_letter) && !text[at + word.len()..].starts_with(is_letter))
}

/// Where a path of the page is: in a crate's `src`, in a crate, or in the project.
fn place(path: &str) -> Option<PathBuf> {
    [root().join(CRATES).join(path), root().join(path)].into_iter().find(|place| place.exists())
}

#[test]
fn each_place_in_the_code_is_there() {
    let page = page();
    let (mut checked, mut missing) = (0, Vec::new());
    for row in rows(&page, "| what must hold | code | test |") {
        let mut text = String::new();
        for name in quoted(&row[1]) {
            if name.contains('/') || name.ends_with(".rs") {
                let place = place(name).unwrap_or_else(|| panic!("{name} is not there"));
                text = if place.is_file() { fs::read_to_string(place).expect("text") } else { String::new() };
            } else if let Some(word) = name.rsplit("::").next().filter(|word| is_word(word)) {
                checked += 1;
                if !text.is_empty() && !has_word(&text, word) {
                    missing.push(format!("{name}: {}", row[1]));
                }
            }
        }
    }
    assert!(missing.is_empty(), "not in their files:\n{}", missing.join("\n"));
    assert!(checked > 40, "{checked} places");
}

#[test]
fn each_test_is_there() {
    let page = page();
    let sources = sources();
    let mut checked = 0;
    for row in rows(&page, "| what must hold | code | test |") {
        for name in quoted(&row[2]) {
            match name.contains('/') {
                true => assert!(root().join(name).exists(), "{name}"),
                false if name.contains('_') => {
                    let is_there = sources.iter().any(|(_, text)| has_word(text, &format!("fn {name}")));
                    assert!(is_there, "no test is called {name}");
                    checked += 1;
                }
                false => {}
            }
        }
    }
    assert!(checked > 40, "{checked} tests");
}

#[test]
fn the_unsafe_places_are_counted() {
    // Put together, so that this file has none of them.
    let keyword = ["un", "safe"].concat();
    let kinds = [" {", " fn", " impl", " trait", " extern", "("].map(|rest| format!("{keyword}{rest}"));
    let has_place = |line: &&str| {
        kinds.iter().any(|kind| {
            let mut found = line.match_indices(kind.as_str());
            found.any(|(at, _)| {
                !line[..at].ends_with(|letter: char| letter.is_alphanumeric() || letter == '_')
            })
        })
    };
    let mut counted: BTreeMap<String, usize> = BTreeMap::new();
    for (path, text) in sources() {
        let path = path.strip_prefix(root().join(CRATES)).expect("of a crate").to_owned();
        let name = path.components().next().expect("a crate").as_os_str().to_string_lossy().into_owned();
        let places = text.lines().filter(has_place).count();
        if places > 0 {
            *counted.entry(name).or_default() += places;
        }
    }
    let told: BTreeMap<String, usize> = rows(&page(), "| crate | places | what for |")
        .iter()
        .filter_map(|row| Some((quoted(&row[0]).next()?.to_owned(), row[1].trim().parse().ok()?)))
        .collect();
    assert_eq!(counted, told);
}

#[test]
fn each_parser_is_a_crate_and_each_fuzz_target_is_there() {
    let targets = fs::read_to_string(root().join("crates/fuzz/src/targets.rs")).expect("targets");
    let mut unnamed: Vec<&str> =
        targets.split("name: \"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    let page = page();
    for row in rows(&page, "| crate | bytes | fuzz target | other tests |") {
        for name in quoted(&row[0]) {
            assert!(root().join(CRATES).join(name).is_dir(), "{name} is no crate");
        }
        for target in quoted(&row[2]) {
            assert!(targets.contains(&format!("name: \"{target}\"")), "{target} is no fuzz target");
            unnamed.retain(|name| *name != target);
        }
    }
    assert!(unnamed.is_empty(), "the page does not name the fuzz targets {unnamed:?}");
}

#[test]
fn the_number_of_packages_is_told() {
    let lock = fs::read_to_string(root().join("Cargo.lock")).expect("a list of packages");
    let count = lock.matches("[[package]]").count();
    let page = page();
    let words = page.split("`Cargo.lock` lists about ").nth(1).expect("the page counts packages");
    let told: usize = words.split(' ').next().and_then(|word| word.parse().ok()).expect("a number");
    assert!(told.abs_diff(count) <= 10, "the page says about {told} packages, and there are {count}");
}
