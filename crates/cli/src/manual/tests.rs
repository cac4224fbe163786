use super::*;
use engine::props::{DATASET_PROPS, POOL_PROPS, PropDef};
use std::collections::BTreeMap;

fn by_name() -> BTreeMap<String, Page> {
    pages().into_iter().map(|page| (page.name.clone(), page)).collect()
}

#[test]
fn every_command_and_flag_is_in_a_page() {
    let pages = by_name();
    for program in PROGRAMS {
        let whole = &pages[&name(program, None)].text;
        for command in program.commands {
            let spec = &command.spec;
            let page = &pages[&name(program, Some(spec.name))].text;
            assert!(page.contains(&spec.about.replace('-', "\\-")), "{} {}", program.name, spec.name);
            assert!(whole.contains(&format!("\n.B \"{}", spec.name.replace('-', "\\-"))), "{}", spec.name);
            for name in spec.flags.iter().flat_map(|flag| flag.names()) {
                assert!(page.contains(&name.replace('-', "\\-")), "{} {} {name}", program.name, spec.name);
            }
        }
    }
}

#[test]
fn another_name_of_a_command_leads_to_its_page() {
    let pages = by_name();
    for command in PROGRAMS.iter().flat_map(|program| program.commands) {
        let Some(alias) = command.spec.alias else { continue };
        let page = pages.values().find(|page| page.name.ends_with(&format!("-{alias}"))).expect(alias);
        assert!(page.text.starts_with(".so man"), "{alias}");
    }
}

#[test]
fn what_is_called_by_a_link_has_a_page_of_that_name() {
    let pages = by_name();
    let text = |name: &str| pages[name].text.as_str();
    assert_eq!(text("zilstat"), ".so man1/sawmill-zilstat.1\n");
    assert_eq!(text("zed"), ".so man1/sawmill-zed.1\n");
    assert_eq!(text("zinject"), ".so man1/sawmill-zinject.1\n");
}

#[test]
fn no_two_pages_share_a_file() {
    assert_eq!(by_name().len(), pages().len());
}

/// The pages that have text of their own.
fn own_pages() -> impl Iterator<Item = Page> {
    pages().into_iter().filter(|page| !page.text.starts_with(".so "))
}

/// Pages whose items are the entries of a table, and the names of the entries.
fn tables() -> [(&'static str, Vec<&'static str>); 4] {
    let names = |defs: &'static [PropDef]| defs.iter().map(|def| def.name).collect();
    [
        ("zpoolprops.7", names(POOL_PROPS)),
        ("zfsprops.7", names(DATASET_PROPS)),
        ("vdevprops.7", crate::view::vdev_props::NAMES.to_vec()),
        ("zpool-features.7", dsl::FEATURES.iter().map(|feature| feature.name).collect()),
    ]
}

#[test]
fn pages_of_tables_name_each_entry_and_no_other() {
    for (page, names) in tables() {
        let chapters = markup::parse(texts::text(page).expect(page));
        let chapter = chapters.iter().find(|chapter| ["PROPERTIES", "FEATURES"].contains(&chapter.heading));
        let passages = chapter.expect("a list").passages.iter();
        let terms = passages.filter_map(|passage| match passage {
            Passage::Item(term, _) => Some(*term),
            _ => None,
        });
        assert_eq!(terms.collect::<Vec<_>>(), names, "{page}");
    }
}

#[test]
fn every_text_belongs_to_a_page_and_every_page_has_a_text() {
    let of_pages: Vec<String> = own_pages().map(|page| page.file()).collect();
    for (page, _) in texts::TEXTS {
        assert!(of_pages.iter().any(|of| of == page), "{page} is no page");
    }
    assert_eq!(of_pages.len(), texts::TEXTS.len());
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("manual");
    assert_eq!(fs::read_dir(directory).expect("texts").count(), texts::TEXTS.len());
}

#[test]
fn every_page_explains_itself_and_leads_to_others() {
    for page in own_pages() {
        assert!(page.text.contains(".SH DESCRIPTION\n"), "{}", page.file());
        assert!(page.text.contains(".SH SEE ALSO\n"), "{}", page.file());
        assert!(page.section == 7 || page.text.contains(".SH EXAMPLES\n"), "{}", page.file());
    }
    for found in examples() {
        let is_command = !found.page.ends_with(".7");
        assert!(!is_command || !found.examples.is_empty(), "{} has no example", found.page);
    }
}

/// Pages of other programs to which pages refer.
const OTHER_PAGES: &[&str] = &[
    "bash.1",
    "copy_file_range.2",
    "cp.1",
    "fdatasync.2",
    "fish.1",
    "fsync.2",
    "fusermount3.1",
    "man.1",
    "mkdir.1",
    "mount.8",
    "mv.1",
    "rmdir.1",
    "ssh.1",
    "sync.1",
    "sync.2",
    "syncfs.2",
    "umount.8",
    "zdb.8",
    "zsh.1",
];

#[test]
fn every_reference_leads_to_a_page() {
    let known: Vec<String> = pages().iter().map(Page::file).collect();
    for (page, text) in texts::TEXTS {
        let of_name = |c: char| c.is_ascii_alphanumeric() || "-._(".contains(c);
        let words = text.split(|c| !of_name(c)).filter_map(|word| word.split_once('('));
        for (name, section) in words.filter(|(name, section)| !name.is_empty() && section.len() == 1) {
            let file = format!("{name}.{section}");
            let is_known = known.contains(&file) || OTHER_PAGES.contains(&file.as_str());
            assert!(is_known || !section.chars().all(|c| c.is_ascii_digit()), "{page}: {file}");
        }
    }
}
