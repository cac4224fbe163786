use super::*;
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
    assert_eq!(text("zinject"), ".so man1/sawmill-zinject.1\n");
}

#[test]
fn no_two_pages_share_a_file() {
    assert_eq!(by_name().len(), pages().len());
}
