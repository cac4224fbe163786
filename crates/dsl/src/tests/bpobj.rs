use dmu::SpaceDelta;
use ondisk::bpobj::BpobjPhys;
use ondisk::{Blkptr, BlkptrParts, ChecksumKind, CompressionKind, Dva, ObjectType};
use units::{Asize, Level, Lsize, ObjectId, Psize, Txg, VdevId, VdevOffset};
use zerocopy::FromBytes;

use super::world::World;
use crate::Bpobj;

/// A block that can be told from others.
fn block(number: u64) -> Blkptr {
    let dva = Dva {
        vdev: VdevId::new(0),
        offset: VdevOffset::new(number * 4096),
        asize: Asize::new(4096),
        gang: false,
    };
    let parts = BlkptrParts {
        dvas: [dva, Dva::default(), Dva::default()],
        lsize: Lsize::new(8192),
        psize: Psize::new(4096),
        compression: CompressionKind::Lz4,
        checksum_kind: ChecksumKind::Fletcher4,
        object_type: ObjectType::PLAIN_FILE_CONTENTS,
        level: Level::new(0),
        birth: Txg::new(7 + number),
        physical_birth: Txg::new(7 + number),
        fill: 3,
        checksum: [1, 2, 3, 4],
        ..BlkptrParts::default()
    };
    parts.to_blkptr()
}

fn places(bps: &[Blkptr]) -> Vec<(u64, u64)> {
    bps.iter().map(|bp| (bp.dva(0).offset.get() / 4096, bp.birth().get())).collect()
}

#[test]
fn a_bpobj_gives_back_what_it_took() {
    let world = World::new();
    world.env.block_on(async {
        let mos = world.dsl.mos();
        let tx = world.tx();
        let list = Bpobj::create(mos, &tx, 16 << 10).await.unwrap();
        let blocks: Vec<Blkptr> = (1..=3000).map(block).collect();
        for part in blocks.chunks(700) {
            list.append(&tx, part).await.unwrap();
        }
        drop(tx);
        world.sync().await;
        let list = Bpobj::open(mos, list.object()).await.unwrap();
        assert_eq!(
            list.space(),
            SpaceDelta { used: 3000 * 4096, compressed: 3000 * 4096, uncompressed: 3000 * 8192 }
        );
        assert_eq!(places(&world.dsl.bpobj_entries(list.object()).await.unwrap()), places(&blocks));
        let tx = world.tx();
        let mut taken = Vec::new();
        loop {
            let part = list.take(&tx, 512).await.unwrap();
            if part.is_empty() {
                break;
            }
            taken.extend(part);
        }
        let mut taken = places(&taken);
        taken.sort_unstable();
        assert_eq!(taken, places(&blocks));
        assert!(list.is_empty());
        assert_eq!(list.space(), SpaceDelta::default());
        list.append(&tx, &blocks[..5]).await.unwrap();
        world.dsl.bpobj_clear(&tx, list.object()).await.unwrap();
        assert!(world.dsl.bpobj_entries(list.object()).await.unwrap().is_empty());
    });
}

#[test]
fn entries_are_stored_without_checksum_and_fill() {
    let world = World::new();
    world.env.block_on(async {
        let tx = world.tx();
        let list = Bpobj::create(world.dsl.mos(), &tx, 4096).await.unwrap();
        list.append(&tx, &[block(5)]).await.unwrap();
        let stored = world.dsl.bpobj_entries(list.object()).await.unwrap()[0];
        assert_eq!((stored.fill(), stored.checksum()), (0, [0; 4]));
        assert!(stored.dva(0) == block(5).dva(0) && stored.psize() == block(5).psize());
    });
}

/// OpenZFS lists whole bpobjs in others when snapshots are destroyed.
#[test]
fn lists_in_lists_are_emptied_too_and_go() {
    let world = World::new();
    world.env.block_on(async {
        let mos = world.dsl.mos();
        let before = world.objects().await;
        let tx = world.tx();
        let (top, sub) =
            (Bpobj::create(mos, &tx, 4096).await.unwrap(), Bpobj::create(mos, &tx, 4096).await.unwrap());
        top.append(&tx, &[block(1), block(2)]).await.unwrap();
        sub.append(&tx, &[block(3), block(4), block(5)]).await.unwrap();
        let names = mos.allocate(&tx, &dmu::DnodeSpec::new(ObjectType::BPOBJ_SUBOBJ, 4096)).await.unwrap();
        names.write(&tx, 0, &sub.object().get().to_le_bytes()).await.unwrap();
        let dnode = mos.hold(top.object()).await.unwrap();
        let mut bonus = dnode.bonus();
        let mut phys = BpobjPhys::decode(&bonus).unwrap();
        phys.subobjs.set(names.object().get());
        phys.subobj_count.set(1);
        for (counter, of_sub) in [
            (&mut phys.bytes, sub.space().used),
            (&mut phys.compressed, sub.space().compressed),
            (&mut phys.uncompressed, sub.space().uncompressed),
        ] {
            counter.set(counter.get() + of_sub as u64);
        }
        let bytes = <[u8; 56]>::read_from_bytes(zerocopy::IntoBytes::as_bytes(&phys)).unwrap();
        bonus.copy_from_slice(&bytes[..48]);
        dnode.set_bonus(&tx, ObjectType::BPOBJ_HDR, &bonus).unwrap();

        let top = Bpobj::open(mos, top.object()).await.unwrap();
        assert_eq!(places(&world.dsl.bpobj_entries(top.object()).await.unwrap()).len(), 5);
        assert_eq!(top.take(&tx, 3).await.unwrap().len(), 3);
        assert_eq!(top.take(&tx, 3).await.unwrap().len(), 2);
        assert!(top.take(&tx, 3).await.unwrap().is_empty());
        top.free(&tx).await.unwrap();
        drop(tx);
        assert_eq!(world.objects().await, before);
    });
}

#[test]
fn a_list_that_contains_itself_is_refused() {
    let world = World::new();
    world.env.block_on(async {
        let mos = world.dsl.mos();
        let tx = world.tx();
        let list = Bpobj::create(mos, &tx, 4096).await.unwrap();
        let names = mos.allocate(&tx, &dmu::DnodeSpec::new(ObjectType::BPOBJ_SUBOBJ, 4096)).await.unwrap();
        names.write(&tx, 0, &list.object().get().to_le_bytes()).await.unwrap();
        let dnode = mos.hold(list.object()).await.unwrap();
        let mut bonus = dnode.bonus();
        bonus[32..40].copy_from_slice(&names.object().get().to_le_bytes());
        bonus[40] = 1;
        dnode.set_bonus(&tx, ObjectType::BPOBJ_HDR, &bonus).unwrap();
        let list = Bpobj::open(mos, list.object()).await.unwrap();
        assert!(list.take(&tx, 10).await.is_err());
        assert!(world.dsl.bpobj_entries(list.object()).await.is_err());
        assert!(Bpobj::open(mos, ObjectId::new(1)).await.is_err());
    });
}
