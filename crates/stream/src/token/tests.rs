use ondisk::send::{ResumeForm, ResumePoint};

use super::*;

/// What `zfs get receive_resume_token` of OpenZFS 2.3.2 gave of whirl/in/part, and `zfs send -t` took.
fn golden() -> String {
    std::fs::read_to_string(oracle::golden::path("g30-streams").join("token.txt")).expect("a golden token")
}

fn state() -> ResumeState {
    ResumeState {
        fromguid: 0x1234,
        toguid: u64::MAX,
        toname: "tank/fs@2".into(),
        point: ResumePoint { object: 7, offset: 1 << 40, bytes: 9 },
        form: ResumeForm { large_blocks: true, embedded: true, compressed: true, raw: true },
    }
}

#[test]
fn a_token_of_openzfs_is_understood() {
    let state = token_state(&golden()).expect("a token");
    let point = ResumePoint { object: 0x86, offset: 0, bytes: 0xa51b8 };
    assert_eq!(
        state,
        ResumeState {
            fromguid: 0,
            toguid: 0x5a74_fde7_8d09_2735,
            toname: "whirl/fs@1".into(),
            point,
            form: ResumeForm::default(),
        }
    );
    // Packed by another deflate, it may differ in its bytes, and tells the same list.
    let ours = token(&state);
    assert_eq!(token_list(&ours), token_list(&golden()));
}

#[test]
fn a_token_says_what_it_was_made_of() {
    assert_eq!(token_state(&token(&state())), Ok(state()));
}

#[test]
fn what_is_no_token_is_refused_in_the_words_of_openzfs() {
    let token = token(&state());
    let (head, packed) = token.rsplit_once('-').expect("parts");
    let mut other = packed.to_owned();
    other.replace_range(8..10, "00");
    for (token, want) in [
        ("", TokenError::Format),
        ("x-1-2-00", TokenError::Format),
        ("1-xyz-2-00", TokenError::Format),
        ("2-1-2-00", TokenError::Version("2".into())),
        (&format!("{head}-zz"), TokenError::Hex),
        (&format!("{head}-{other}"), TokenError::Checksum),
        (&format!("{head}-{}", &packed[..packed.len() - 8]), TokenError::Checksum),
        ("1-0-ffffffff-", TokenError::Packed),
    ] {
        assert_eq!(token_list(token), Err(want), "{token}");
    }
    let mut list = state().list();
    list.remove("toguid");
    assert!(ResumeState::from_list(&list).is_err());
}
