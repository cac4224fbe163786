use super::*;
use crate::golden;
use std::os::unix::process::ExitStatusExt;

fn output(code: i32, stdout: &str) -> Output {
    Output { status: ExitStatusExt::from_raw(code << 8), stdout: stdout.into(), stderr: Vec::new() }
}

#[test]
fn a_clean_answer_is_passed_on() {
    let clean = "Traversing all blocks to verify checksums and verify nothing leaked ...\n\
                 \tNo leaks (block sum matches space maps exactly)\n";
    assert_eq!(judge("zdb".into(), &output(0, clean)).unwrap(), clean);
}

/// Lines as OpenZFS 2.3 prints them, most of them without failing.
#[test]
fn each_complaint_is_heard() {
    let complaints = [
        "leaked space: vdev 0, offset 0x0, size 512",
        "block traversal size 1024 != alloc 2048 (leaked 1024)",
        "zdb_blkptr_cb: Got error 52 reading <54, 8, 0, 1> DVA[0]=<0:0:200> -- skipping",
        "block claim error 1: DVA[0]=<0:0:200>",
        "ERROR: DOUBLE ALLOC: 0 [0:200] 0:0 LOG_SM",
        "               0 L0 0:0:200 (ERROR: Block pointer type (19) does not match dnode type (20))",
        "\tFailed to get handle for SA znode",
        "\tUNKNOWN OBJECT TYPE",
        "MOS object 12 (DSL directory) leaked",
        "MOS object 12 referenced but not allocated",
        "LZ4 compression feature refcount mismatch: 1 consumers != 0 refcount",
        "space map refcount mismatch: expected 3 != actual 2",
        "failed to hold dataset 'whirl/fs': No such file or directory",
        "got error 5 from dmu_read",
        "ASSERT at module/zfs/dnode.c:1",
        "zdb: can't open 'whirl': Input/output error",
        "\tUnable to unpack SA xattr",
    ];
    for line in complaints {
        let said = judge("zdb".into(), &output(0, &format!("all is well\n{line}\nall is well\n")));
        let Err(ZdbError::Unhappy { verdict, output, .. }) = said else { panic!("not heard: {line}") };
        assert_eq!(verdict, line);
        assert!(output.starts_with("all is well") && output.ends_with("all is well"));
    }
}

#[test]
fn what_was_written_to_a_file_is_no_complaint() {
    let record = "\t\tTX_WRITE            len    300, txg 15, seq 1\n\t\t\tfoid 2, offset 0, length 9\n\t\t\te r r o r FFFFFFBAD 1\n";
    assert!(judge("zdb".into(), &output(0, record)).is_ok());
}

#[test]
fn the_name_of_a_file_is_no_complaint() {
    let names = ["\t\t1b76ce92cbad = 643 (type: Regular File)", "\tpath\t/objects/bad/leaked"];
    for line in names {
        assert!(judge("zdb".into(), &output(0, line)).is_ok(), "{line}");
    }
    assert!(judge("zdb".into(), &output(0, "\tpath\t???<object not found> error")).is_err());
}

#[test]
fn numbers_of_obsolete_bytes_are_no_complaint() {
    let of = |kind: &str| {
        format!(
            "       142    1   128K   128K     3K     512   128K  100.00  {kind}\n\tdnode flags: USED_BYTES \n\tdnode maxblkid: 0\n\tUNKNOWN OBJECT TYPE\n"
        )
    };
    assert!(judge("zdb".into(), &output(0, &of("uint32"))).is_ok());
    for kind in ["UNKNOWN", "ZFS plain file"] {
        assert!(judge("zdb".into(), &output(0, &of(kind))).is_err(), "{kind}");
    }
}

#[test]
fn an_account_whose_number_reads_like_a_word_is_no_complaint() {
    for line in ["\t\tobj-968b6bad = 1 ", "\t\t968b6bad = 512 "] {
        assert!(judge("zdb".into(), &output(0, line)).is_ok(), "{line}");
    }
    assert!(judge("zdb".into(), &output(0, "\t\tbad = block ")).is_err());
}

#[test]
fn a_failure_without_a_word_is_heard() {
    assert!(judge("zdb".into(), &output(1, "")).is_err());
}

#[test]
fn a_sound_pool_gives_no_offence() {
    for name in ["g03-mirror-log", "g14-dirty-zil-slog"] {
        let dir = golden::path(name);
        let records = Zdb::new(&dir, "whirl").check_closely().unwrap();
        assert_eq!(name == "g14-dirty-zil-slog", records.contains_key("TX_WRITE"), "{records:?}");
    }
}
