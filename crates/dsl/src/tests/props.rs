use super::world::World;
use crate::{DatasetName, Dsl, DslError, PropValue, Property};

async fn get(dsl: &Dsl, of: &DatasetName, name: &str) -> Option<Property> {
    dsl.props(of).await.unwrap().into_iter().find(|prop| prop.name == name)
}

#[test]
fn a_property_is_inherited_until_it_is_set_nearer() {
    let world = World::new();
    world.env.block_on(async {
        let (a, b) = (world.create("tank/a").await, world.create("tank/a/b").await);
        let tx = world.tx();
        let set = async |at: &DatasetName, name, value| {
            world.dsl.set_prop(&tx, at.dir, name, &value).await.unwrap()
        };
        assert_eq!(get(&world.dsl, &b, "sync").await, None);
        set(&a, "sync", PropValue::Number(1)).await;
        let found = get(&world.dsl, &b, "sync").await.unwrap();
        assert_eq!(
            (found.value, found.set_on.as_str(), found.received),
            (PropValue::Number(1), "tank/a", false)
        );
        set(&b, "sync", PropValue::Number(2)).await;
        assert_eq!(get(&world.dsl, &b, "sync").await.unwrap().set_on, "tank/a/b");
        assert_eq!(get(&world.dsl, &a, "sync").await.unwrap().value, PropValue::Number(1));
        world.dsl.clear_prop(&tx, b.dir, "sync").await.unwrap();
        assert_eq!(get(&world.dsl, &b, "sync").await.unwrap().value, PropValue::Number(1));
        world.dsl.clear_prop(&tx, a.dir, "sync").await.unwrap();
        assert_eq!(get(&world.dsl, &b, "sync").await, None);
        set(&a, "org.example:by", PropValue::Text("hand".into())).await;
        let dsl = world.reopened().await;
        assert_eq!(get(&dsl, &b, "org.example:by").await.unwrap().value, PropValue::Text("hand".into()));
    });
}

#[test]
fn quotas_and_mount_switches_are_not_inherited() {
    let world = World::new();
    world.env.block_on(async {
        let (a, b) = (world.create("tank/a").await, world.create("tank/a/b").await);
        let tx = world.tx();
        for name in ["quota", "refquota", "reservation", "refreservation", "canmount"] {
            world.dsl.set_prop(&tx, a.dir, name, &PropValue::Number(2)).await.unwrap();
            assert!(get(&world.dsl, &a, name).await.is_some());
            assert_eq!(get(&world.dsl, &b, name).await, None);
        }
    });
}

#[test]
fn what_was_received_yields_to_what_is_set_and_to_an_explicit_inherit() {
    let world = World::new();
    world.env.block_on(async {
        let (a, b) = (world.create("tank/a").await, world.create("tank/a/b").await);
        let tx = world.tx();
        let zap = world.dsl.zap(world.dsl.dir(b.dir).await.unwrap().props.get()).await.unwrap();
        zap.add_u64(&tx, b"atime$recvd", 0).await.unwrap();
        world.dsl.set_prop(&tx, a.dir, "atime", &PropValue::Number(1)).await.unwrap();
        let found = get(&world.dsl, &b, "atime").await.unwrap();
        assert_eq!((found.value, found.received), (PropValue::Number(0), true));
        world.dsl.clear_prop(&tx, b.dir, "atime").await.unwrap();
        assert_eq!(get(&world.dsl, &b, "atime").await.unwrap().set_on, "tank/a");
        world.dsl.set_prop(&tx, b.dir, "atime", &PropValue::Number(0)).await.unwrap();
        assert_eq!(get(&world.dsl, &b, "atime").await.unwrap().set_on, "tank/a/b");
        // What newer software meant by a value counts, not what older software is told.
        zap.add_u64(&tx, b"redundant_metadata", 1).await.unwrap();
        zap.add_u64(&tx, b"redundant_metadata$iuv", 3).await.unwrap();
        assert_eq!(get(&world.dsl, &b, "redundant_metadata").await.unwrap().value, PropValue::Number(3));
    });
}

#[test]
fn names_of_user_properties_are_as_long_as_a_table_can_have_them() {
    let world = World::new();
    world.env.block_on(async {
        let a = world.create("tank/a").await;
        let tx = world.tx();
        let value = PropValue::Text("v".into());
        let named = |len: usize| "x:".to_owned() + &"a".repeat(len - 2);
        world.dsl.set_prop(&tx, a.dir, &named(255), &value).await.unwrap();
        assert_eq!(get(&world.dsl, &a, &named(255)).await.unwrap().value, value);
        assert!(world.dsl.set_prop(&tx, a.dir, &named(256), &value).await.is_err());
        // The name of a received property may get a suffix.
        world.dsl.set_received_prop(&tx, &a, &named(247), &value).await.unwrap();
        world.dsl.clear_prop(&tx, a.dir, &named(247)).await.unwrap();
        assert!(world.dsl.set_received_prop(&tx, &a, &named(248), &value).await.is_err());
    });
}

#[test]
fn properties_that_do_not_exist_or_values_of_the_wrong_kind_are_refused() {
    let world = World::new();
    world.env.block_on(async {
        let dir = world.create("tank/a").await.dir;
        let (number, text) = (PropValue::Number(1), PropValue::Text("x".into()));
        let long = PropValue::Text("x".repeat(8192));
        let cases = [
            ("nonsense", &number),
            ("used", &number),
            ("sync", &text),
            ("mountpoint", &number),
            ("user:prop", &number),
            ("user:prop", &long),
            ("sync$recvd", &number),
            ("", &text),
        ];
        for (name, value) in cases {
            let result = world.dsl.set_prop(&world.tx(), dir, name, value).await;
            assert!(matches!(result, Err(DslError::BadProperty { .. })), "{name}: {result:?}");
        }
    });
}
