//! Command lines of programs that drive ZFS, with the exit code and the form that the program parses: Proxmox, zrepl,
//! sanoid, syncoid, zfs-autobackup, znapzend, ZFSBootMenu, initramfs scripts, OpenEBS, democratic-csi, go-zfs, Incus,
//! TrueNAS, Ansible and exporters. The tests mount no file system.
#![forbid(unsafe_code)]

mod place;

use std::process::Stdio;

use place::{Place, Printed};

/// What a program expects of the output.
#[derive(Clone, Copy)]
enum Form {
    /// The program does not read the output.
    Any,
    /// The command prints nothing.
    Nothing,
    /// The command prints exactly this text.
    Is(&'static str),
    /// At least one line, each with so many fields between tabs.
    Tabs(usize),
    /// At least one line, each with so many fields between blanks.
    Blanks(usize),
    /// All of these are in the output, or in what went to standard error.
    Has(&'static [&'static str]),
}

use Form::{Any, Blanks, Has, Is, Nothing, Tabs};

type Line = (&'static str, i32, Form);

const GO_ZFS: &str = "zfs list -rHp -t filesystem -o name,origin,used,available,mountpoint,compression,type,volsize,\
     quota,referenced,written,logicalused,usedbydataset tank";

const PROXMOX: &[Line] = &[
    ("zpool list -o name -H tank", 0, Is("tank\n")),
    ("zfs list -o name,volsize,origin,type,refquota -t volume,filesystem -d1 -Hp tank", 0, Blanks(5)),
    ("zfs get -o value -Hp available,used tank", 0, Tabs(1)),
    ("zfs create -s -b 16k -V 1024k tank/vm-100-disk-0", 0, Nothing),
    ("zfs create -o acltype=posixacl -o xattr=sa -o refquota=1024k tank/subvol-100-disk-0", 0, Nothing),
    ("zfs snapshot tank/vm-100-disk-0@__base__", 0, Nothing),
    ("zfs clone tank/vm-100-disk-0@__base__ tank/vm-101-disk-0 -o refreservation=none", 0, Nothing),
    ("zfs set volsize=2048k tank/vm-100-disk-0", 0, Nothing),
    ("zfs set refquota=none tank/subvol-100-disk-0", 0, Nothing),
    (
        "zfs list -H -r -t snapshot -o name -S creation tank/vm-100-disk-0",
        0,
        Is("tank/vm-100-disk-0@__base__\n"),
    ),
    ("zfs list -Hp -r -t snapshot -o name,guid,creation tank/vm-100-disk-0", 0, Tabs(3)),
    ("zfs destroy -r tank/vm-100-disk-0", 1, Has(&["has dependent clones"])),
    ("zfs destroy -r tank/vm-9", 1, Has(&["cannot open 'tank/vm-9': dataset does not exist\n"])),
    ("zfs send -RpvU -- tank/vm-100-disk-0@__base__", 0, Any),
    ("zfs get -H name tank/vm-100-disk-0", 0, Is("tank/vm-100-disk-0\tname\ttank/vm-100-disk-0\t-\n")),
    ("zfs rollback tank/vm-100-disk-0@__base__", 0, Nothing),
    ("zpool list -HpPLo name,size,alloc,free,frag,dedup,health", 0, Tabs(7)),
    ("zpool list -vHPL tank", 0, Any),
    ("zpool status -P tank", 0, Has(&["\n\ttank ", "\n\t  mirror-0 ", "\n\t    W/d1 "])),
    ("zfs set compression=on tank", 0, Nothing),
];

const ZREPL: &[Line] = &[
    ("zfs snapshot tank/fs@z1 tank/vol@z1", 0, Nothing),
    ("zfs snapshot tank/fs@z2", 0, Nothing),
    ("zfs list -H -p -o name,guid,createtxg -r -d 1 -t snapshot,bookmark -s createtxg tank/fs", 0, Tabs(3)),
    ("zfs get -Hp -o name,property,value,source -r -t filesystem,volume used,mountpoint tank", 0, Tabs(4)),
    ("zfs send -n -v -P -p -L -c -e tank/fs@z1", 0, Has(&["full\ttank/fs@z1\t", "\nsize\t"])),
    (
        "zfs send -n -v -P -i tank/fs@z1 tank/fs@z2",
        0,
        Has(&["incremental\ttank/fs@z1\ttank/fs@z2\t", "\nsize\t"]),
    ),
    ("zfs recv -A tank/fs", 1, Has(&["does not have any resumable receive state to abort"])),
    ("zfs hold zrepl tank/fs@z1", 0, Nothing),
    ("zfs holds -H tank/fs@z1", 0, Tabs(3)),
    (
        "zfs destroy tank/fs@z1",
        1,
        Is(
            "cannot destroy snapshot tank/fs@z1: it's being held. Run 'zfs holds -r tank/fs@z1' to see holders.\n",
        ),
    ),
    ("zfs release zrepl tank/fs@z1", 0, Nothing),
    ("zfs bookmark tank/fs@z1 tank/fs#m", 0, Nothing),
    ("zfs bookmark tank/fs@z1 tank/fs#m", 1, Has(&["cannot create bookmark 'tank/fs#m': bookmark exists"])),
    ("zfs send", 2, Has(&["receive_resume_token"])),
    ("zfs receive", 2, Has(&["receive -A <filesystem|volume>"])),
    ("zfs destroy", 2, Has(&["<filesystem|volume>@<snap>[%<snap>][,...]"])),
    ("zfs list nope/a", 1, Is("cannot open 'nope/a': dataset does not exist\n")),
    ("zpool get -H -p -o value feature@extensible_dataset tank", 0, Is("active\n")),
];

const SNAPSHOTTERS: &[Line] = &[
    // sanoid, syncoid, findoid
    ("zfs get -Hrpt snapshot creation tank", 0, Tabs(4)),
    ("zfs get -H -t snapshot '' ''", 2, Any),
    ("zfs list -d0 -H -oname", 0, Is("tank\n")),
    ("zfs get -Hpd 1 -t snapshot,bookmark type,guid,creation tank/fs", 0, Tabs(4)),
    ("zfs send -nvP tank/fs@z1", 0, Has(&["\nsize\t"])),
    ("zpool list -o name,size,cap,health,free tank", 0, Blanks(5)),
    ("zfs list -H -t filesystem -o mountpoint,mounted", 0, Tabs(2)),
    // zfs-autobackup
    ("zfs get -H -ovalue -p written@z1 tank/fs", 0, Tabs(1)),
    ("zfs send -L -e -c --raw -v -P -p -i @z1 tank/fs@z2", 0, Any),
    ("zfs send -L zfs_autobackup_option_test", 1, Any),
    ("zfs send --no-such-option zfs_autobackup_option_test", 2, Any),
    ("zfs get -t volume,filesystem -Hp -o name,value,source autobackup:x", 0, Tabs(3)),
    ("zpool get -H -p all tank", 0, Tabs(4)),
    ("zfs destroy -d tank/fs@z2", 0, Nothing),
    // znapzend
    ("zfs get -H -s local,inherited -o name,property,value,source all tank/fs", 0, Tabs(4)),
    ("zfs snapshot tank/fs@a", 0, Nothing),
    ("zfs snapshot tank/fs@b", 0, Nothing),
    ("zfs list -H -o name -t snapshot -s creation -d 1 tank/fs", 0, Is("tank/fs@z1\ntank/fs@a\ntank/fs@b\n")),
    ("zfs destroy -r tank/fs@a,b,c", 0, Nothing),
];

const BOOT: &[Line] = &[
    // ZFSBootMenu, initramfs
    ("zpool get all -H -o name,property", 0, Tabs(2)),
    ("zpool list -H -o bootfs tank", 0, Is("-\n")),
    ("zpool list -H -o feature@encryption tank", 0, Tabs(1)),
    ("zfs list -H -o name,canmount,mountpoint,org.zfsbootmenu:active -S name", 0, Tabs(4)),
    ("zfs get -H -o source -s inherited compression tank/fs", 0, Tabs(1)),
    ("zfs clone -o mountpoint=/ -o canmount=noauto tank/fs@z1 tank/boot", 0, Nothing),
    ("zfs get -o property,value -s local,received -H all tank/boot", 0, Tabs(2)),
    ("zpool list -H -obootfs", 0, Is("-\n")),
    ("zpool get -H -o value name,guid tank", 0, Tabs(1)),
    ("zfs list -oname -tfilesystem -H -r", 0, Tabs(1)),
    ("zfs load-key -L prompt tank/fs", 1, Has(&["'zfs load-key' is not supported yet"])),
    ("zfs change-key -i tank/fs", 1, Has(&["'zfs change-key' is not supported yet"])),
];

const CLUSTERS: &[Line] = &[
    // OpenEBS, democratic-csi
    ("zfs list -d 1 -s name -o name,guid,available,used -H -p", 0, Tabs(4)),
    ("zfs create -s -V 1M -b 16K -o dedup=off -o compression=on tank/pvc-1", 0, Nothing),
    ("zfs create -o quota=1M -o recordsize=4k -o mountpoint=legacy tank/pvc-2", 0, Nothing),
    ("zfs get -pH -o value volsize tank/pvc-1", 0, Is("1048576\n")),
    ("zfs snapshot tank/pvc-1@s", 0, Nothing),
    ("zfs clone -o compression=off tank/pvc-1@s tank/pvc-3", 0, Nothing),
    ("zfs get -Hp -o name,property,value,received,source used,compression tank/pvc-1", 0, Tabs(5)),
    ("zfs create -p -s -b 16K -V 1M -o org:k=v tank/a/b", 0, Nothing),
    ("zfs list -r -Hp -t snapshot -o name,used tank", 0, Tabs(2)),
    ("zfs destroy -r -f tank/pvc-3", 0, Nothing),
    // go-zfs (Docker, containerd, podman)
    (GO_ZFS, 0, Tabs(13)),
    (
        "zpool get -Hp name,health,allocated,size,free,readonly,dedupratio,fragmentation,freeing,leaked tank",
        0,
        Tabs(4),
    ),
    ("zfs clone -p -o mountpoint=legacy tank/fs@z1 tank/layer", 0, Nothing),
    ("zfs destroy -R tank/layer", 0, Nothing),
    // Incus
    ("zfs get -H -p -r -o value clones tank/fs", 0, Tabs(1)),
    ("zfs get -H -p -r -o name,value -t snapshot guid tank", 0, Tabs(2)),
    ("zpool set autotrim=on tank", 0, Nothing),
    ("zfs send -R -w -c -L tank/fs@z1", 0, Any),
    // TrueNAS
    (
        "zpool status -jP --json-int tank",
        0,
        Has(&["\"pools\":{\"tank\"", "\"vdev_type\":", "\"read_errors\":0"]),
    ),
    ("zpool status -jP --json-int nope", 1, Has(&["no such pool"])),
    (
        "zfs list -o used,avail -j --json-int -d 0",
        0,
        Has(&["\"used\":{\"value\":", "\"available\":{\"value\":"]),
    ),
];

const EXPORTERS: &[Line] = &[
    // Ansible
    ("zpool get version tank", 0, Has(&["\ntank  version   -  "])),
    ("zfs list -t all tank/fs", 0, Blanks(5)),
    ("zfs get -H -p -o property,source all tank/fs", 0, Tabs(2)),
    ("zfs get -H -p -r -d 1 -t filesystem -o name,property,value used tank", 0, Tabs(3)),
    ("zpool get -H -o name,property,value all", 0, Tabs(3)),
    ("zpool status -P -L tank", 0, Any),
    ("zpool create -n -d -f -o ashift=12 -O compression=on -m none test W/l1", 0, Any),
    ("zpool add -n tank mirror W/l1 W/l2", 0, Any),
    ("zfs allow -u root mount tank/fs", 0, Nothing),
    ("zfs unallow -u root mount tank/fs", 0, Nothing),
    // exporters, munin
    ("zfs get -Hprt filesystem -o name,property,value used,available tank", 0, Tabs(3)),
    ("zpool get -Hpo name,property,value size,free tank", 0, Tabs(3)),
    ("zpool list -Ho name", 0, Is("tank\n")),
    ("zpool list -p", 0, Has(&["NAME ", " CKPOINT ", " HEALTH "])),
    ("zpool list -p -v -L tank", 0, Any),
    ("zfs get -H -p -r -t filesystem,volume used,usedbysnapshots tank", 0, Tabs(4)),
    ("zpool list -H -o name,dedup", 0, Tabs(2)),
    ("zfs get -H -o name,value compressratio", 0, Tabs(2)),
    // the manual of OpenZFS
    ("zfs list -H -o all tank/fs", 0, Any),
    ("zfs get -H -o received compression tank/fs", 0, Is("-\n")),
    ("zfs send -D tank/fs@z1", 0, Has(&["WARNING: deduplicated"])),
    ("zfs send -V tank/fs@z1", 0, Any),
];

/// Runs a command line, in which `''` stands for an empty word. The bytes of a stream go to `/dev/null`.
fn run(place: &Place, line: &str) -> Printed {
    let mut command = place.command(&line.replace("''", ""));
    for _ in line.matches("''") {
        command.arg("");
    }
    let is_stream = line.starts_with("zfs send ") && !line.contains("-n");
    if !is_stream {
        return place.print(&mut command);
    }
    let null = std::fs::File::create("/dev/null").expect("it is there");
    let output = command.stdout(Stdio::from(null)).output().expect("it runs");
    let err = String::from_utf8(output.stderr).expect("text");
    Printed { out: String::new(), err, code: output.status.code().unwrap_or(-1) }
}

/// Returns a description of the difference if the output does not have the form.
fn complaint(printed: &Printed, form: Form) -> Option<String> {
    let Printed { out, err, .. } = printed;
    let fields = |count: usize, split: fn(&str) -> usize| {
        let wrong = out.lines().find(|line| split(line) != count);
        wrong.map(str::to_owned).or_else(|| out.is_empty().then(|| "nothing".to_owned()))
    };
    match form {
        Any => None,
        Nothing => (!out.is_empty() || !err.is_empty()).then(|| format!("{out}{err}")),
        Is(text) => (*out != text && *err != text).then(|| format!("{out}{err}")),
        Tabs(count) => fields(count, |line| line.split('\t').count()),
        Blanks(count) => fields(count, |line| line.split_whitespace().count()),
        Has(texts) => {
            let lacks = |text: &&&str| !out.contains(**text) && !err.contains(**text);
            texts.iter().find(lacks).map(|text| format!("no {text:?} in {out}{err}"))
        }
    }
}

#[test]
fn programs_that_drive_zfs_get_the_exit_code_and_the_form_that_they_expect() {
    let place = Place::with_files();
    place.ok("zpool create -O mountpoint=none tank mirror W/d1 W/d2");
    for line in ["create tank/fs", "create -s -V 4M tank/vol", "set autobackup:x=true tank/fs"] {
        place.ok(&format!("zfs {line}"));
    }
    let mut wrong = Vec::new();
    for (line, code, form) in [PROXMOX, ZREPL, SNAPSHOTTERS, BOOT, CLUSTERS, EXPORTERS].concat() {
        let printed = run(&place, line);
        if printed.code != code {
            wrong.push(format!("{line}: exit code {} and not {code}: {}", printed.code, printed.err));
        } else if let Some(why) = complaint(&printed, form) {
            wrong.push(format!("{line}: {why}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn values_that_came_with_a_stream_are_a_column() {
    let place = Place::with_files();
    place.ok("zpool create -m none tank W/d1");
    place.ok("zfs create -o compression=gzip -o org:x=y tank/a");
    place.ok("zfs snapshot tank/a@s");
    let stream = place.command("zfs send -p tank/a@s").output().expect("it runs").stdout;
    let file = place.path("stream");
    std::fs::write(&file, stream).expect("written");
    let mut receive = place.command("zfs receive -u tank/b");
    receive.stdin(std::fs::File::open(&file).expect("there"));
    assert_eq!(place.print(&mut receive).code, 0);
    place.ok("zfs set compression=zle tank/b");
    place.ok("zfs create tank/b/below");
    let shown =
        |name: &str| place.ok(&format!("zfs get -H -o value,received,source compression,org:x,quota {name}"));
    assert_eq!(shown("tank/b"), "zle\tgzip\tlocal\ny\ty\treceived\nnone\t-\tdefault\n");
    assert_eq!(
        shown("tank/b/below"),
        "zle\t-\tinherited from tank/b\ny\t-\tinherited from tank/b\nnone\t-\tdefault\n"
    );
    let all = place.ok("zfs get -o all compression tank/b");
    assert_eq!(
        all,
        "NAME    PROPERTY     VALUE  RECEIVED  SOURCE\ntank/b  compression  zle    gzip      local\n"
    );
    let json = place.ok("zfs get -j org:x tank/b");
    assert!(json.contains("\"source\":{\"type\":\"RECEIVED\",\"data\":"), "{json}");
}

#[test]
fn a_list_of_few_properties_is_the_same_as_one_of_all() {
    let place = Place::with_files();
    place.ok("zpool create -m none tank W/d1");
    place.ok("zfs create tank/a");
    place.ok("zfs create -s -V 8M tank/a/v");
    for snapshot in ["tank/a@2", "tank/a@1", "tank/a/v@x"] {
        place.ok(&format!("zfs snapshot {snapshot}"));
    }
    place.ok("zfs bookmark tank/a@1 tank/a#m");
    let cheap = "name,type,creation,createtxg,guid,objsetid,used,referenced,compressratio,refcompressratio,\
         logicalreferenced,defer_destroy";
    for scope in [
        "-t snapshot",
        "-t snapshot -d 1 tank/a",
        "-t all -r tank",
        "tank/a@1",
        "-t volume,snapshot -r tank/a",
    ] {
        // `written` needs more than what the MOS has of a snapshot.
        let few = place.ok(&format!("zfs list -Hp -o {cheap} {scope}"));
        let all = place.ok(&format!("zfs list -Hp -o {cheap},written {scope}"));
        let without_last = |line: &str| line.rsplit_once('\t').map(|(most, _)| most.to_owned());
        let all: Vec<_> = all.lines().filter_map(without_last).collect();
        assert_eq!(few.lines().collect::<Vec<_>>(), all, "{scope}");
        assert!(!all.is_empty(), "{scope}");
    }
    assert_eq!(place.ok("zfs list -H -o name -t snapshot -d 1 tank/a"), "tank/a@2\ntank/a@1\n");
    assert_eq!(place.ok("zfs list -H -o name -t bookmark -r tank"), "tank/a#m\n");
    assert_eq!(place.ok("zfs list -H -o name -d 1 tank"), "tank\ntank/a\n");
    assert_eq!(place.ok("zfs list -H -o name -s createtxg -t snapshot"), "tank/a@2\ntank/a@1\ntank/a/v@x\n");
    assert_eq!(place.ok("zfs list -H -o name -S name -t snapshot"), "tank/a@2\ntank/a@1\ntank/a/v@x\n");
}
