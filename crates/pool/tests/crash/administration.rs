//! The power is cut while a pool is made, administered and exported: at each flush, in several ways.

use std::sync::Arc;
use std::time::Duration;

use dsl::PropValue;
use env::BoxFuture;
use pool::{Inherit, Pool, PoolError, PoolSpec, VolumeSpec};
use sim::{CrashImage, Sim};
use vdev::PoolState;

use crate::cuts::{CLOSE, Cuts, FILE_BYTES, contents, write};
use crate::ground::quiet;
use crate::shape::{LOG, MIRROR, POOL, Shape};
use crate::space;
use crate::story::{Tell, run, tell};

/// Of the images of a pool that is made, one in so many.
const MADE_ONE_IN: usize = 3;
/// While there are permissions `zdb` takes what they lie in for lost (2.3.2).
const DELEGATE: &str = "delegate permissions";
const TAKE_BACK: &str = "take them back";

type Change = (&'static str, fn(Arc<Pool>) -> BoxFuture<'static, Result<(), PoolError>>);

/// All that is done to a pool before it is closed.
const CHANGES: [Change; 34] = [
    ("create a file system", |pool| {
        Box::pin(async move {
            let props = vec![("recordsize".to_owned(), PropValue::Number(8192))];
            pool.create_filesystem("whirl/made", props).await
        })
    }),
    ("create one below it", |pool| {
        Box::pin(async move { pool.create_filesystem("whirl/made/below", Vec::new()).await })
    }),
    ("fill it", |pool| {
        Box::pin(async move {
            let fs = pool.filesystem("whirl/made/below").await?;
            write(&fs.zfs, b"large", 8 * FILE_BYTES).await;
            pool.set_prop("whirl/made/below", "atime", Some(PropValue::Number(0))).await
        })
    }),
    ("limit what is below", |pool| {
        Box::pin(async move { pool.set_prop(POOL, "snapshot_limit", Some(PropValue::Number(9))).await })
    }),
    ("make snapshots", |pool| {
        Box::pin(
            async move { pool.snapshot(texts(["whirl/made@s", "whirl/made/below@s"]), Vec::new()).await },
        )
    }),
    ("hold them", |pool| {
        Box::pin(
            async move { pool.hold("tag".to_owned(), texts(["whirl/made@s", "whirl/made/below@s"])).await },
        )
    }),
    ("make a bookmark", |pool| {
        Box::pin(async move { pool.bookmark("whirl/made@s".to_owned(), "whirl/made#b".to_owned()).await })
    }),
    ("clone one", |pool| {
        Box::pin(async move {
            let (of, name) = ("whirl/made/below@s".to_owned(), "whirl/clone".to_owned());
            pool.clone_snapshot(of, name, Vec::new()).await
        })
    }),
    ("promote the clone", |pool| Box::pin(async move { pool.promote("whirl/clone".to_owned()).await })),
    ("rename a snapshot", |pool| {
        Box::pin(async move {
            pool.rename_snapshots(vec![("whirl/made@s".to_owned(), "whirl/made@t".to_owned())]).await
        })
    }),
    ("change what it was made of", |pool| {
        Box::pin(async move {
            let fs = pool.filesystem("whirl/made").await?;
            write(&fs.zfs, b"goes", FILE_BYTES).await;
            pool.sync_now().await
        })
    }),
    ("roll back", |pool| {
        Box::pin(async move { pool.rollback("whirl/made".to_owned(), "whirl/made@t".to_owned()).await })
    }),
    ("destroy a snapshot once its hold is gone", |pool| {
        Box::pin(async move { pool.destroy_snapshots(texts(["whirl/made@t"]), true).await })
    }),
    ("release it", |pool| {
        Box::pin(async move { pool.release("tag".to_owned(), texts(["whirl/made@t"])).await })
    }),
    ("destroy the bookmark", |pool| {
        Box::pin(async move { pool.destroy_bookmark("whirl/made#b".to_owned()).await })
    }),
    ("set a property", |pool| {
        Box::pin(async move { pool.set_prop("whirl/made", "compression", Some(PropValue::Number(15))).await })
    }),
    ("inherit it", |pool| {
        Box::pin(async move { pool.inherit_prop("whirl/made", "compression", Inherit::default()).await })
    }),
    (DELEGATE, |pool| Box::pin(async move { pool.allow("whirl/made".to_owned(), permissions()).await })),
    (TAKE_BACK, |pool| {
        Box::pin(async move {
            let all = permissions().into_keys().map(|key| (key, None)).collect();
            pool.unallow("whirl/made".to_owned(), all).await
        })
    }),
    ("rename", |pool| Box::pin(async move { pool.rename_dataset("whirl/made", "whirl/moved").await })),
    ("destroy", |pool| Box::pin(async move { pool.destroy_filesystem("whirl/moved/below").await })),
    ("create a volume", |pool| {
        Box::pin(async move {
            let spec = VolumeSpec { size_bytes: 1 << 20, block_bytes: 8192 };
            let reserved = ("refreservation".to_owned(), PropValue::Number(2 << 20));
            pool.create_volume("whirl/volume", spec, vec![reserved]).await
        })
    }),
    ("make it smaller", |pool| {
        Box::pin(async move {
            let volume = pool.open_volume("whirl/volume").await?;
            volume.write(0, &contents(1 << 20), true).await?;
            pool.resize_volume("whirl/volume", 1 << 19).await
        })
    }),
    ("destroy it", |pool| Box::pin(async move { pool.destroy_filesystem("whirl/volume").await })),
    ("set a property of the pool", |pool| {
        Box::pin(async move { pool.set_pool_prop("failmode", Some(PropValue::Number(1))).await })
    }),
    ("set its comment", |pool| Box::pin(async move { pool.set_comment(Some("a remark".to_owned())).await })),
    ("enable a feature", |pool| {
        Box::pin(async move { pool.enable_feature(&dsl::features::HEAD_ERRLOG).await })
    }),
    ("begin a scrub", |pool| Box::pin(async move { pool.scrub().await })),
    ("pause it", |pool| Box::pin(async move { pool.pause_scrub().await })),
    ("go on with it", |pool| Box::pin(async move { pool.scrub().await })),
    ("pause it again", |pool| Box::pin(async move { pool.pause_scrub().await })),
    ("cancel it", |pool| Box::pin(async move { pool.cancel_scrub().await })),
    ("scrub to the end", |pool| {
        Box::pin(async move {
            pool.scrub().await?;
            while pool.scan().is_none_or(|scan| scan.phys.end_time.get() == 0) {
                pool.env().sleep(Duration::from_millis(1)).await;
            }
            pool.sync_now().await
        })
    }),
    ("make a checkpoint", |pool| Box::pin(async move { pool.make_checkpoint().await })),
];

fn permissions() -> dsl::Permissions {
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    let of = [("ul$7", names(&["snapshot", "mount"])), ("s-$@set", names(&["create"]))];
    of.map(|(key, granted)| (key.to_owned(), granted)).into()
}

fn texts<const N: usize>(names: [&str; N]) -> Vec<String> {
    names.map(str::to_owned).to_vec()
}

/// Makes all the changes to a pool that is new, and closes it in the end.
fn live(cuts: &mut Cuts, end: PoolState) {
    let (pool, mut before) = cuts.make();
    for (name, change) in CHANGES {
        cuts.with_zdb = ![DELEGATE, TAKE_BACK].contains(&name);
        let (done, recording) = cuts.record(name, change(Arc::clone(&pool)));
        done.expect("nothing is in its way");
        before = cuts.judge(name, &recording, before);
    }
    let (closed, recording) = cuts.record(CLOSE, pool.close(end));
    closed.expect("nothing is in its way");
    let after = cuts.judge(CLOSE, &recording, before);
    assert_eq!(after.last(), Some(&format!("{:?}", Some(end))));
}

#[test]
fn a_power_cut_amid_administration_leaves_what_was_or_what_is_to_be() {
    let _tell = Tell;
    for (shape, seed, end) in [(&LOG, 60_000, PoolState::Exported), (&MIRROR, 60_001, PoolState::Destroyed)] {
        let mut life = Cuts::new(shape, seed);
        live(&mut life, end);
        let (images, cuts, judged) = (life.images, life.cuts.len(), life.judged_by_zdb);
        println!("\"{}\": {images} images of {cuts} cuts, {judged} times judged by zdb", shape.name);
        assert!(cuts > 60 && images > 250, "{images} images of {cuts} cuts");
        assert!(judged > 5, "{judged} times judged");
    }
}

/// Whether there is a pool after a power cut while it was made; where there is none, one can be made.
async fn is_made(shape: &Shape, sim: &Sim, image: &CrashImage) -> bool {
    let found = shape.import(sim, quiet(), false).await;
    let is_there = found.is_ok();
    let pool = match found {
        Ok(pool) => pool,
        Err(error) => {
            assert!(!image.is_after("made"), "it was made: {error}");
            let vdevs = shape.vdevs_from(0);
            let spec = PoolSpec {
                name: POOL.into(),
                stored_name: None,
                vdevs,
                root_props: Vec::new(),
                comment: None,
                force: true,
            };
            Pool::create(sim.env(), spec, quiet()).await.expect("a pool is made of what was none")
        }
    };
    pool.filesystem(POOL).await.expect("its file system is there");
    space::check(&pool).await;
    pool.close(PoolState::Exported).await.expect("it closes");
    is_there
}

#[test]
fn a_power_cut_while_a_pool_is_made_leaves_it_whole_or_none() {
    let _tell = Tell;
    for (shape, seed) in [(&LOG, 60_100), (&MIRROR, 60_101)] {
        let life = Cuts::new(shape, seed);
        let (made, recording) =
            life.record("made", async { shape.create(&life.sim, quiet()).await.sync_now().await });
        made.expect("nothing is in its way");
        let mut seen = [0; 2];
        for image in recording.crash_images().step_by(MADE_ONE_IN) {
            tell(format!("seed {seed}, \"{}\", {}", shape.name, image.story()));
            let sim = image.boot(seed);
            sim.stop_recording();
            let is_there = run(&sim, is_made(shape, &sim, &image));
            if seen[usize::from(is_there)] == 0 {
                space::judged_by_zdb(shape, &sim);
            }
            seen[usize::from(is_there)] += 1;
        }
        println!("\"{}\": {seen:?}, none and whole", shape.name);
        assert!(seen[0] > 20 && seen[1] > 20, "{seen:?}: both were seen");
    }
}
