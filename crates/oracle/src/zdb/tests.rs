use super::*;
use std::os::unix::process::ExitStatusExt;

fn output(code: i32, stdout: &str) -> Output {
    Output { status: ExitStatusExt::from_raw(code << 8), stdout: stdout.into(), stderr: Vec::new() }
}

#[test]
fn a_clean_answer_is_passed_on() {
    let said = judge("zdb".into(), &output(0, "Traversing all blocks to verify nothing leaked ...\n\tNo leaks (block sum matches space maps exactly)\n"));
    assert!(said.unwrap().contains("No leaks"));
}

#[test]
fn a_leak_or_a_failure_is_never_taken_for_clean() {
    assert!(judge("zdb".into(), &output(0, "leaked space: vdev 0, offset 0x0, size 512\n")).is_err());
    assert!(judge("zdb".into(), &output(1, "")).is_err());
}
