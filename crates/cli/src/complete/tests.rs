use super::*;

/// What is offered behind a line; its last word is begun.
fn offered(line: &str) -> Vec<Offer> {
    let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
    let (last, words) = words.split_last().expect("a word");
    let begins =
        |offer: &Offer| !matches!(offer, Offer::Word { text, .. } if !text.starts_with(last.as_str()));
    offers(words, last).into_iter().filter(begins).collect()
}

fn texts(line: &str) -> Vec<String> {
    let text = |offer| match offer {
        Offer::Word { text, .. } => text,
        other => format!("{other:?}"),
    };
    offered(line).into_iter().map(text).collect()
}

#[test]
fn every_command_of_every_program_is_offered() {
    for program in PROGRAMS {
        let all = texts(&format!("{} ", program.typed()));
        for command in program.commands {
            assert!(
                all.iter().any(|text| text == command.spec.name),
                "{} {}",
                program.name,
                command.spec.name
            );
        }
    }
    assert!(texts("/usr/sbin/zpool cr").contains(&"create".to_owned()));
}

#[test]
fn every_flag_of_every_command_is_offered() {
    for program in PROGRAMS {
        for command in program.commands {
            let all = texts(&format!("{} {} -", program.typed(), command.spec.name));
            for name in command.spec.flags.iter().flat_map(|flag| flag.names()) {
                assert!(all.contains(&name), "{} {} {name}", program.name, command.spec.name);
            }
        }
    }
}

#[test]
fn operands_and_values_are_what_their_names_say() {
    assert_eq!(texts("zpool status "), ["Names(Pools)"]);
    assert_eq!(texts("zpool status p1 "), ["Names(Pools)"]);
    assert_eq!(texts("zpool create "), [""; 0]);
    assert_eq!(texts("zpool create tank "), ["Files"]);
    assert_eq!(texts("zpool create tank /a /b "), ["Files"]);
    assert_eq!(texts("zpool create -o ashi"), ["ashift="]);
    assert_eq!(texts("zpool create -O compression=zle"), ["compression=zle"]);
    assert_eq!(texts("zpool create -R "), ["Files"]);
    assert_eq!(texts("zpool list -T "), ["d", "u"]);
    assert_eq!(texts("zpool list -o name,heal"), ["name,health"]);
    assert_eq!(texts("zfs set logbias="), ["logbias=latency", "logbias=throughput"]);
    assert!(texts("zfs set logbias=latency ").contains(&"Names(Datasets)".to_owned()));
    assert_eq!(texts("zfs get logb"), ["logbias"]);
    assert_eq!(texts("zfs get logbias "), ["Names(Datasets)"]);
    assert_eq!(texts("zfs rollback "), ["Names(Snapshots)"]);
    assert_eq!(texts("zfs clone p1@a "), ["Names(Datasets)"]);
    assert_eq!(texts("zfs hold keep "), ["Names(Snapshots)"]);
    assert_eq!(texts("zfs bookmark p1@a "), ["Names(Datasets)"]);
    assert_eq!(texts("sawmill bench zil --main a "), ["Files"]);
    assert_eq!(texts("sawmill completions z"), ["zsh"]);
    assert_eq!(texts("sawmill help zpool cr"), ["create"]);
    assert_eq!(texts("sawmill help da"), ["daemon"]);
    assert_eq!(texts("zpool bogus "), [""; 0]);
}
