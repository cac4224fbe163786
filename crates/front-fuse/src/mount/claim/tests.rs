use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::PathBuf;
use std::process::Command;

use oracle::needs::Need;
use rustix::thread::gettid;

use super::super::tests::{USER, alone, attach, mount_over, users};
use super::*;

const GROUP: u32 = 12_077;

fn user() -> UserIds {
    UserIds { uid: USER, gids: vec![USER] }
}

fn asked(user: &UserIds, place: &Path, how: PlaceChoice) -> Result<bool, String> {
    may_claim(user, place, None, how).map_err(|error| error.to_string())
}

fn chosen(place: &Path) -> Result<bool, String> {
    asked(&user(), place, PlaceChoice::Chosen)
}

/// A directory of root's with these permissions.
fn roots(dir: &Path, mode: u32) -> PathBuf {
    fs::create_dir_all(dir).expect("made");
    fs::set_permissions(dir, Permissions::from_mode(mode)).expect("permissions");
    dir.to_owned()
}

#[test]
fn a_user_claims_what_the_user_owns_or_can_make() {
    alone("mount::claim::tests::a_user_claims_what_the_user_owns_or_can_make", |dir| {
        let home = users(&dir.join("home"));
        for place in [home.clone(), home.join("new"), home.join("new/deep"), home.join("a/b")] {
            assert_eq!(chosen(&place), Ok(true), "{}", place.display());
        }
        let (etc, shared) = (roots(&dir.join("etc"), 0o755), roots(&dir.join("shared"), 0o1777));
        roots(&home.join("roots"), 0o777);
        for place in [Path::new("/"), &etc, &etc.join("new"), &shared, &home.join("roots"), &dir.join("new")]
        {
            assert_eq!(chosen(place), Ok(false), "{}", place.display());
        }
        assert_eq!(chosen(&shared.join("new")), Ok(true), "everybody makes directories there");
        assert!(!shared.join("new").exists(), "nothing is made");
        users(&roots(&dir.join("closed"), 0o700).join("inner"));
        assert_eq!(chosen(&dir.join("closed/inner")), Ok(false), "the way is closed to the user");
        assert_eq!(chosen(&dir.join("closed/inner/new")), Ok(false));
        assert_eq!(chosen(&home.join("../etc")), Ok(false));
        let around = home.join("missing/../../etc");
        assert_eq!(chosen(&around), Err("'..' follows a directory that is missing".to_owned()));
        fs::set_permissions(&home, Permissions::from_mode(0o500)).expect("permissions");
        assert_eq!(chosen(&home), Ok(false), "the user may not change it");
        let root = UserIds { uid: 0, gids: vec![0] };
        assert_eq!(asked(&root, &etc, PlaceChoice::Chosen), Ok(false), "root of a container, for example");
    });
}

#[test]
fn a_claim_follows_the_links_that_a_mount_follows() {
    alone("mount::claim::tests::a_claim_follows_the_links_that_a_mount_follows", |dir| {
        let home = users(&dir.join("home"));
        symlink(&home, roots(&dir.join("roots"), 0o755).join("link")).expect("a link");
        assert_eq!(chosen(&dir.join("roots/link/new")), Ok(true));
        symlink(&home, home.join("link")).expect("a link");
        let words =
            format!("'{}' is a symbolic link that uid {USER} may change", home.join("link").display());
        assert_eq!(chosen(&home.join("link/new")), Err(words));
        // Below an altroot, a link stays inside.
        let altroot = roots(&dir.join("alt"), 0o755);
        users(&altroot.join("home"));
        symlink("/home", altroot.join("link")).expect("a link");
        let claimed = |place: &Path| {
            may_claim(&user(), place, Some(&altroot), PlaceChoice::Chosen).map_err(|error| error.to_string())
        };
        assert_eq!(claimed(&altroot.join("link/new")), Ok(true));
        assert_eq!(claimed(&altroot.join("new")), Ok(false));
        assert!(claimed(&home).is_err(), "it is outside");
    });
}

#[test]
fn groups_and_acls_count_for_a_claim() {
    alone("mount::claim::tests::groups_and_acls_count_for_a_claim", |dir| {
        let project = roots(&dir.join("project"), 0o775);
        chown(&project, Some(0), Some(GROUP)).expect("given");
        assert_eq!(chosen(&project.join("new")), Ok(false));
        for gids in [vec![USER, GROUP], vec![GROUP]] {
            let member = UserIds { uid: USER, gids };
            assert_eq!(asked(&member, &project.join("new"), PlaceChoice::Chosen), Ok(true));
            assert_eq!(asked(&member, &project, PlaceChoice::Chosen), Ok(false), "it is root's");
        }
        let nobody_knows = UserIds { uid: USER, gids: Vec::new() };
        let home = users(&dir.join("home"));
        assert!(asked(&nobody_knows, &home, PlaceChoice::Chosen).is_err(), "a mode may lock out a group");
        let acl = Command::new("setfacl").args(["-m", &format!("u:{USER}:rwx")]).arg(&project).status();
        match acl {
            Ok(status) if status.success() => assert_eq!(chosen(&project.join("new")), Ok(true)),
            other => Need::Program("setfacl").is_missing(&format!("no ACL is set: {other:?}")),
        }
    });
}

#[test]
fn an_inherited_place_hides_nothing_of_others() {
    alone("mount::claim::tests::an_inherited_place_hides_nothing_of_others", |dir| {
        let top = roots(&dir.join("top"), 0o755);
        let inherited = |name: &str| asked(&user(), &top.join(name), PlaceChoice::Inherited);
        roots(&top.join("empty"), 0o700);
        roots(&top.join("etc/below"), 0o755);
        users(&users(&top.join("home")).join("below"));
        mount_over(&roots(&top.join("mounted"), 0o755));
        fs::write(top.join("file"), "x").expect("written");
        for (name, free) in [
            ("new", true),
            ("new/deep", true),
            ("empty", true),
            ("home", true),
            ("etc", false),
            ("mounted", false),
        ] {
            assert_eq!(inherited(name), Ok(free), "{name}");
        }
        assert!(inherited("file").is_err(), "nothing can be mounted there");
    });
}

#[test]
fn a_place_that_does_not_answer_is_given_up() {
    alone("mount::claim::tests::a_place_that_does_not_answer_is_given_up", |dir| {
        // The walk asks for a name, and nobody serves the file system.
        let _mounted = attach(&dir.join("silent"));
        let words = "its file system does not answer";
        let ask = || chosen(&dir.join("silent/new"));
        thread::scope(|scope| {
            let asking: Vec<_> = (0..QUESTIONS_OF_USER_MAX).map(|_| scope.spawn(ask)).collect();
            asking
                .into_iter()
                .for_each(|one| assert_eq!(one.join().expect("no panic"), Err(words.to_owned())));
        });
        assert!(ask().is_err_and(|error| error.starts_with("too many requests")));
        let other = UserIds { uid: USER + 1, gids: vec![USER + 1] };
        let shared = roots(&dir.join("shared"), 0o1777);
        assert_eq!(asked(&other, &shared.join("new"), PlaceChoice::Chosen), Ok(true), "others are answered");
    });
}

#[test]
fn a_thread_with_rights_of_a_user_gets_no_signal() {
    alone("mount::claim::tests::a_thread_with_rights_of_a_user_gets_no_signal", |_| {
        let (tell, told) = mpsc::channel();
        let (end, ended) = mpsc::channel::<()>();
        let thread = thread::spawn(move || {
            with_rights_of(user(), move || {
                tell.send(gettid().as_raw_nonzero()).expect("somebody waits");
                ended.recv()
            })
        });
        let kill = format!("kill -0 {}", told.recv().expect("a number"));
        let ids = [format!("--reuid={USER}"), format!("--regid={USER}"), "--clear-groups".to_owned()];
        let output = Command::new("setpriv").args(ids).args(["sh", "-c", &kill]).output().expect("it runs");
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && error.contains("not permitted"), "{error}");
        end.send(()).expect("it waits");
        thread.join().expect("no panic").expect("root may").expect("told");
    });
}
