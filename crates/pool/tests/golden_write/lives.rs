//! Snapshots, clones and quotas that OpenZFS made: promoted, rolled back, destroyed, heeded.

use std::sync::Arc;

use dsl::{DatasetName, DslError};
use pool::{Pool, PoolError};
use zpl::{Cred, NewNode, QuotaFor, QuotaOf, WriteFlags, Zfs, ZplError};

use crate::world::World;

/// What cannot be done to a dataset or snapshot as things are.
fn is_refused(error: &PoolError) -> bool {
    matches!(
        error,
        PoolError::Dsl(
            DslError::HasClones { .. }
                | DslError::HasHolds { .. }
                | DslError::HasSnapshots { .. }
                | DslError::HasChildren { .. }
                | DslError::NotClone { .. }
                | DslError::NotLatest { .. }
                | DslError::Exists { .. }
                | DslError::InUse { .. }
        )
    )
}

/// Whether it was done.
fn done(result: Result<(), PoolError>) -> bool {
    match result {
        Ok(()) => true,
        Err(error) if is_refused(&error) => false,
        Err(error) => panic!("{error}"),
    }
}

async fn heads(pool: &Pool) -> Vec<DatasetName> {
    pool.dsl().list("whirl").await.unwrap()
}

async fn snapshots(pool: &Pool) -> Vec<String> {
    let mut all = Vec::new();
    for head in heads(pool).await {
        all.extend(pool.dsl().snapshots(&head).await.unwrap().into_iter().map(|snapshot| snapshot.name));
    }
    all
}

/// Promotes all that can be; how many were.
async fn promote_all(pool: &Arc<Pool>) -> usize {
    let mut count = 0;
    for head in heads(pool).await {
        count += usize::from(done(pool.promote(head.name).await));
    }
    count
}

/// Releases and destroys all that can be; how often something was done.
async fn take_apart(pool: &Arc<Pool>) -> usize {
    let mut count = 0;
    for name in snapshots(pool).await {
        for (tag, _) in pool.holds(&name).await.unwrap() {
            pool.release(tag, vec![name.clone()]).await.unwrap();
        }
        if pool.dsl().resolve(&name).await.is_ok() {
            count += usize::from(done(pool.destroy_snapshots(vec![name], false).await));
        }
    }
    for head in heads(pool).await {
        for mark in pool.bookmarks(&head.name).await.unwrap() {
            pool.destroy_bookmark(mark.name).await.unwrap();
            count += 1;
        }
    }
    count
}

/// Imports a copy of a golden pool, gives all its datasets a snapshot more, and changes, rolls back and takes apart what
/// can be; `zdb` judges it all along. `kept` hold what they did all the while.
fn lived_through(name: &str, kept: &[&str], judge: fn(&World, &str)) {
    let world = World::copy_of(name);
    let before: Vec<_> = world.read_only(|pool| kept.iter().map(|of| world.contents(pool, of)).collect());
    let pool = world.import();
    world.run(async {
        let ours: Vec<String> = heads(&pool).await.iter().map(|head| format!("{}@ours", head.name)).collect();
        pool.snapshot(ours.clone(), Vec::new()).await.unwrap();
        for (head, snapshot) in heads(&pool).await.into_iter().zip(&ours) {
            if let Ok(fs) = pool.filesystem(&head.name).await {
                let made = fs.zfs.create(fs.zfs.root(), b"goes", NewNode::File, 0o644, Cred::default());
                match made.await {
                    Ok(made) => {
                        let data = [7; 300_000];
                        fs.zfs.write(made.object, 0, &data, WriteFlags::default()).await.unwrap();
                    }
                    // File systems of older versions are only read.
                    Err(error) => assert!(matches!(error, ZplError::ReadOnly), "{error}"),
                }
                drop(fs);
                pool.sync_now().await.unwrap();
                pool.rollback(head.name, snapshot.clone()).await.unwrap();
            }
        }
    });
    world.export(&pool);
    judge(&world, "rolled back");
    let pool = world.import();
    world.run(async {
        let mut count = promote_all(&pool).await;
        while let more @ 1.. = take_apart(&pool).await {
            count += more;
        }
        assert!(count > 1, "{count} things were done");
        while pool.dsl().has_destroyed().await.unwrap() {
            pool.sync_now().await.unwrap();
        }
    });
    for (name, before) in kept.iter().zip(before) {
        assert!(world.contents(&pool, name) == before, "{name} has changed");
    }
    world.export(&pool);
    judge(&world, "taken apart");
}

#[test]
fn snapshots_and_clones_of_openzfs_are_taken_apart() {
    lived_through("g10-snapshots-clones", &["whirl"], World::check);
    lived_through("g23-removed", &["whirl/fs"], World::check);
}

#[test]
fn bookmarks_that_count_and_redacted_clones_are_taken_apart() {
    lived_through("g27-quotas", &["whirl/fs"], World::check_blocks);
}

#[test]
fn snapshots_of_a_pool_of_version_28_are_taken_apart() {
    lived_through("g18-v28", &["whirl", "whirl/fs"], World::check);
}

/// Makes and writes files by somebody until one is refused; the bytes until then.
async fn fill(pool: &Pool, zfs: &Zfs, cred: Cred) -> u64 {
    let noise: Vec<u8> = (0..125_000_u32).flat_map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
    for count in 0..100 {
        let name = format!("of {} {} {count}", cred.uid, cred.gid);
        let result = async {
            let made = zfs.create(zfs.root(), name.as_bytes(), NewNode::File, 0o644, cred).await?;
            zfs.write(made.object, 0, &noise, WriteFlags::default()).await
        };
        match result.await {
            Ok(_) => pool.sync_now().await.unwrap(),
            Err(ZplError::QuotaExceeded) => return count * noise.len() as u64,
            Err(error) => panic!("{error}"),
        }
    }
    panic!("nothing stopped it");
}

#[test]
fn quotas_that_openzfs_set_are_heeded() {
    let world = World::copy_of("g27-quotas");
    let pool = world.import();
    let zfs = world.zfs(&pool, "whirl/fs");
    assert_eq!(zfs.quotas_of((QuotaOf::User, QuotaFor::Space)), [(1000, 10 << 20)]);
    assert_eq!(zfs.quotas_of((QuotaOf::Group, QuotaFor::Space)), [(1001, 20 << 20)]);
    assert_eq!(zfs.quotas_of((QuotaOf::User, QuotaFor::Objects)), [(1000, 500)]);
    assert_eq!(zfs.quotas_of((QuotaOf::Project, QuotaFor::Space)), [(77, 5 << 20)]);
    let by = |uid, gid| Cred { uid, gid, ..Cred::default() };
    world.run(async {
        let user = fill(&pool, &zfs, by(1000, 5)).await;
        assert!((9 << 20..11 << 20).contains(&user), "user 1000 got {user} bytes");
        let group = fill(&pool, &zfs, by(5, 1001)).await;
        assert!((18 << 20..21 << 20).contains(&group), "group 1001 got {group} bytes");
        zfs.set_quota((QuotaOf::User, QuotaFor::Space), 1000, 12 << 20).await.unwrap();
        let more = fill(&pool, &zfs, Cred { uid: 1000, gid: 6, umask: 0o77 }).await;
        assert!(more > 0, "a larger quota leaves room");
    });
    drop(zfs);
    world.export(&pool);
    world.check_blocks("filled");
}

/// Which file systems have livelists.
async fn listed(pool: &Pool) -> Vec<String> {
    let mut listed = Vec::new();
    for head in heads(pool).await {
        if pool.dsl().has_livelist(&head).await.unwrap() {
            listed.push(head.name);
        }
    }
    listed
}

#[test]
fn livelists_of_openzfs_go_on_and_free_their_clones() {
    let world = World::copy_of("g10-snapshots-clones");
    let pool = world.import();
    let clones = world.run(async {
        let clones = listed(&pool).await;
        for name in &clones {
            // Volumes keep theirs as they are.
            let Ok(fs) = pool.filesystem(name).await else { continue };
            let made = fs.zfs.create(fs.zfs.root(), b"little", NewNode::File, 0o644, Cred::default()).await;
            fs.zfs.write(made.unwrap().object, 0, &[7; 600], WriteFlags::default()).await.unwrap();
            pool.sync_now().await.unwrap();
            fs.zfs.unlink(fs.zfs.root(), b"little").await.unwrap();
            pool.sync_now().await.unwrap();
        }
        assert!(!clones.is_empty() && listed(&pool).await == clones, "{clones:?}");
        clones
    });
    world.export(&pool);
    world.check("written to");
    let pool = world.import();
    world.run(async {
        let mut count = 0;
        for name in &clones {
            count += usize::from(done(pool.destroy_filesystem(name).await));
        }
        assert!(count > 0, "none of {clones:?} could be destroyed");
        while pool.dsl().has_destroyed().await.unwrap() {
            pool.sync_now().await.unwrap();
        }
    });
    world.export(&pool);
    world.check("destroyed");
}
