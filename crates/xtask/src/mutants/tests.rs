use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use super::{MARK, Mutant, list, root, tree};

/// Fewer mutants than this are a mistake in the list.
const MUTANTS_MIN: usize = 44;

fn read(name: &str) -> String {
    fs::read_to_string(root().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn names(of: impl Fn(&Mutant) -> &'static str) -> BTreeSet<&'static str> {
    list::mutants().map(of).collect()
}

#[test]
fn each_mutant_has_a_name_of_its_own_and_a_switch() {
    let count = list::mutants().count();
    assert!(count >= MUTANTS_MIN, "{count} mutants");
    assert_eq!(names(|mutant| mutant.name).len(), count);
    for mutant in list::mutants() {
        assert!(mutant.new.contains(MARK), "{}: always on", mutant.name);
        assert!(!mutant.old.contains(MARK), "{}", mutant.name);
        assert!(mutant.name.bytes().all(|byte| byte == b'-' || byte.is_ascii_lowercase()), "{}", mutant.name);
        assert!(mutant.what.ends_with('.') && !mutant.what.contains('|'), "{}", mutant.name);
    }
}

#[test]
fn each_mutant_can_be_planted() {
    let plant = |mutant: &Mutant| mutant.planted(&read(mutant.file)).err();
    let refused: Vec<String> = list::mutants().filter_map(plant).collect();
    assert!(refused.is_empty(), "{refused:#?}");
    let planted = tree::planted(&root()).unwrap_or_else(|error| panic!("together: {error}"));
    for mutant in list::mutants() {
        let text = &planted[Path::new(mutant.file)];
        assert!(text.contains(&format!("on == \"{}\"", mutant.name)), "{}: another replaced it", mutant.name);
    }
}

/// Whether a file below `dir` has this text.
fn is_below(dir: &Path, text: &str) -> bool {
    let entries = fs::read_dir(dir).unwrap_or_else(|error| panic!("{}: {error}", dir.display()));
    entries.map(|entry| entry.expect("an entry").path()).any(|path| match path.is_dir() {
        true => is_below(&path, text),
        false => {
            path.extension().is_some_and(|end| end == "rs")
                && fs::read_to_string(&path).is_ok_and(|source| source.contains(text))
        }
    })
}

#[test]
fn each_lane_has_its_test() {
    for mutant in list::mutants() {
        let package = mutant.lane.package.trim_start_matches("sawmill-");
        let dir = root().join("crates").join(package);
        let test = format!("fn {}()", mutant.lane.filter);
        assert!(is_below(&dir, &test), "{}: {package} has no test {}", mutant.name, mutant.lane.filter);
    }
}

#[test]
fn each_mutant_is_in_the_documentation() {
    let text = read("docs/testing.md");
    for mutant in list::mutants() {
        let row = format!("| `{}` | {} | `{}` |", mutant.name, mutant.what, mutant.lane.shown());
        assert!(text.contains(&row), "docs/testing.md lacks this row:\n{row}");
    }
}
