//! Streams that break off while they are received, and go on.

use std::path::PathBuf;
use std::sync::Arc;

use env::Env;
use ondisk::send::{ResumePoint, ResumeState};
use pool::{ImportSpec, Pool, PoolError, ReceiveOrder, ReceiveRefusal};
use stream::{Form, Resume};
use units::ObjectId;
use vdev::PoolState;

use crate::received::{Receiving, refusal, stream_called, tuning};

fn kept(order: &mut ReceiveOrder) {
    order.resumable = true;
}

impl Receiving {
    fn part_of(&self, head: &str) -> Option<ResumeState> {
        self.run(async {
            let head = self.ours.dsl().resolve(head).await.expect("there");
            self.ours.resume_state(&head).await.expect("readable")
        })
    }

    /// What is left of a snapshot of whirl/fs to be sent.
    fn rest(&self, name: &str, from: Option<&str>, form: Form, point: ResumePoint) -> Vec<u8> {
        let resume = Resume { object: ObjectId::new(point.object), offset: point.offset };
        self.send_from(&self.theirs, name, from, form, Some(resume))
    }

    fn reopen(&mut self) {
        self.run(self.ours.close(PoolState::Exported)).expect("closes");
        let spec = ImportSpec {
            paths: vec![PathBuf::from(self.dir.path()).join("a.img")],
            name: Some("tank".into()),
            ..ImportSpec::default()
        };
        let env: Arc<dyn Env> = self.env.clone();
        self.ours = self.run(Pool::import(env, &spec, tuning())).expect("imports");
    }
}

fn broke_off(result: Result<(), PoolError>) {
    assert!(matches!(result, Err(PoolError::Stream(_))), "{result:?}");
}

#[test]
fn what_is_kept_of_a_stream_is_what_openzfs_keeps_of_it() {
    let mut world = Receiving::new();
    let token =
        std::fs::read_to_string(oracle::golden::path("g30-streams").join("token.txt")).expect("golden");
    let theirs = stream::token_state(&token).expect("a token");
    // What `head -c 700000` had of it.
    broke_off(world.receive_as(&stream_called("full")[..700_000], "tank/part@1", kept));
    assert_eq!(world.part_of("tank/part"), Some(theirs.clone()));
    world.reopen();
    assert_eq!(world.part_of("tank/part"), Some(theirs));
    world.receive_as(&stream_called("resumed"), "tank/part@1", kept).expect("the rest");
    world.assert_same("whirl/fs@1", "tank/part@1");
    assert_eq!(world.part_of("tank/part"), None);
    world.check();
}

#[test]
fn a_stream_that_breaks_off_is_gone_on_with() {
    let mut world = Receiving::new();
    let whole = Form { large_blocks: true, embedded: true, compressed: true };
    for (form, head) in [(Form::default(), "tank/pieces"), (whole, "tank/whole")] {
        for (snapshot, from) in [("@1", None), ("@2", Some("whirl/fs@1")), ("@3", Some("whirl/fs@2"))] {
            let (name, ours) = (format!("whirl/fs{snapshot}"), format!("{head}{snapshot}"));
            let mut stream = world.send(&world.theirs, &name, from, form);
            let mut last = None;
            for turn in 0..4 {
                broke_off(world.receive_as(&stream[..stream.len() / 2], &ours, kept));
                let state = world.part_of(head).expect("some of it");
                assert_eq!(state.toname, name);
                let now = (state.point.object, state.point.offset);
                assert!(last <= Some(now) && (turn > 0 || now > (1, 0)), "{ours}: {last:?}, {now:?}");
                last = Some(now);
                if turn % 2 == 1 {
                    world.reopen();
                    assert_eq!(world.part_of(head), Some(state.clone()), "what is kept stays");
                }
                stream = world.rest(&name, from, form, state.point);
            }
            world.receive_as(&stream, &ours, kept).expect("the rest");
            world.assert_same(&name, &ours);
            assert_eq!(world.part_of(head), None);
        }
        assert_eq!(world.contents(&world.ours, head), world.contents(&world.ours, &format!("{head}@3")));
    }
    world.check();
}

#[test]
fn only_what_goes_on_where_a_part_ends_is_received_and_parts_are_given_up_when_asked() {
    let world = Receiving::new();
    let (full, incr, rest) = (stream_called("full"), stream_called("incr"), stream_called("resumed"));
    let nothing = ReceiveRefusal::NothingToResume;
    assert_eq!(refusal(world.receive(&rest, "tank/fs@1")), ReceiveRefusal::NoDestination);
    world.receive(&full, "tank/fs@1").expect("a full stream");
    assert_eq!(refusal(world.receive(&rest, "tank/fs@1")), ReceiveRefusal::ResumesExisting);
    broke_off(world.receive_as(&full[..300_000], "tank/part@1", kept));
    assert_eq!(refusal(world.receive(&rest, "tank/part@1")), nothing, "it goes on somewhere else");
    let part = world.part_of("tank/part").expect("it was kept").point;
    let further = ResumePoint { offset: part.offset + (128 << 10), ..part };
    let gap = world.rest("whirl/fs@1", None, Form::default(), further);
    assert_eq!(refusal(world.receive(&gap, "tank/part@1")), nothing, "it goes on further in the same object");
    assert_eq!(refusal(world.receive(&full, "tank/part@1")), ReceiveRefusal::Exists);
    let force = |order: &mut ReceiveOrder| order.force = true;
    assert_eq!(refusal(world.receive_as(&full, "tank/part@1", force)), ReceiveRefusal::HasPart);
    broke_off(world.receive_as(&incr[..incr.len() / 2], "tank/fs@2", kept));
    assert!(world.part_of("tank/fs").is_some());
    assert_eq!(refusal(world.receive(&incr, "tank/fs@2")), ReceiveRefusal::HasPart);
    let destroyed = world.run(world.ours.destroy_filesystem("tank/fs"));
    let has_snapshots = |error: &dsl::DslError| matches!(error, dsl::DslError::HasSnapshots { .. });
    assert!(matches!(destroyed, Err(PoolError::Dsl(error)) if has_snapshots(&error)));
    assert!(world.part_of("tank/fs").is_some(), "who cannot be destroyed keeps it");
    // Nothing has come of one that ends before its first record.
    broke_off(world.receive_as(&full[..700], "tank/none@1", kept));
    let abort = |name: &str| world.run(world.ours.abort_receive(name));
    abort("tank/fs").expect("there is one");
    abort("tank/part").expect("there is one");
    assert_eq!(refusal(abort("tank/fs")), nothing);
    assert_eq!(world.names(), ["tank", "tank/fs", "tank/fs@1"]);
    world.receive(&incr, "tank/fs@2").expect("there is room for it now");
    // Without the wish to keep it the rest of a part takes the part with it.
    broke_off(world.receive_as(&full[..700_000], "tank/part@1", kept));
    broke_off(world.receive(&rest[..rest.len() / 2], "tank/part@1"));
    // A part goes with its dataset.
    broke_off(world.receive_as(&full[..700_000], "tank/part@1", kept));
    world.run(world.ours.create_filesystem("tank/old", Vec::new())).expect("made");
    let both = |order: &mut ReceiveOrder| (order.force, order.resumable) = (true, true);
    broke_off(world.receive_as(&full[..700_000], "tank/old@1", both));
    world.run(world.ours.destroy_filesystem("tank/old")).expect("destroyed");
    assert_eq!(world.names(), ["tank", "tank/fs", "tank/fs@1", "tank/fs@2", "tank/part"]);
    world.check();
}
