use super::*;
use crate::tests::world::World;
use env::RamDevice;
use futures::executor::block_on;

const PLACE: LeafOffset = LeafOffset::new(8 << 20);
const LABEL: LeafOffset = LeafOffset::new(0);

/// A device of 32 MiB whose byte at `PLACE` is 2, as these faults make it.
fn device(injections: &[&Arc<Injection>]) -> (Arc<dyn Device>, RamDevice) {
    let ram = RamDevice::new(32 << 20);
    block_on(ram.write(PLACE, bytes(2), Durability::Cached)).expect("memory takes all");
    let orders = Injections::default();
    injections.iter().for_each(|one| orders.add(Arc::clone(one)));
    let env = World::with(&[], 0).env();
    (orders.put_before(Arc::new(ram.clone()), &env, || 4 << 20..28 << 20), ram)
}

fn bytes(byte: u8) -> Vec<BufSlice> {
    vec![BufSlice::from(IoBuf::copy_of(&[byte; 512]))]
}

fn byte(device: &dyn Device) -> Result<u8, DeviceError> {
    block_on(device.read(PLACE, 512)).map(|buf| buf[0])
}

fn always(fault: Fault) -> Arc<Injection> {
    Injection::new(fault, Requests::All, u32::MAX, false)
}

#[test]
fn without_orders_a_leaf_asks_its_device() {
    let (env, orders) = (World::with(&[], 0).env(), Injections::default());
    let ram: Arc<dyn Device> = Arc::new(RamDevice::new(1 << 20));
    assert!(Arc::ptr_eq(&ram, &orders.put_before(Arc::clone(&ram), &env, || 0..0)));
    let gone = always(Fault::Gone);
    orders.add(Arc::clone(&gone));
    assert!(!Arc::ptr_eq(&ram, &orders.put_before(Arc::clone(&ram), &env, || 0..0)));
    assert!(orders.forbid_opening(&*env));
    orders.remove(&gone);
    assert!(Arc::ptr_eq(&ram, &orders.put_before(Arc::clone(&ram), &env, || 0..0)));
    assert!(!orders.forbid_opening(&*env));
}

#[test]
fn each_fault_does_what_it_is_called() {
    // What a write says, what is there then, and what a read says of the 2 that was there.
    let said = |fault| {
        let (device, ram) = device(&[&always(fault)]);
        let write = block_on(device.write(PLACE, bytes(6), Durability::Cached)).is_ok();
        let there = byte(&ram).expect("memory answers");
        block_on(ram.write(PLACE, bytes(2), Durability::Cached)).expect("memory takes all");
        (write, there, byte(&*device).ok(), block_on(device.flush()).is_ok())
    };
    assert_eq!(said(Fault::Failed), (false, 6, None, false));
    assert_eq!(said(Fault::Gone), (false, 6, None, false));
    assert_eq!(said(Fault::NotDone), (false, 2, None, false));
    assert_eq!(said(Fault::Lost), (true, 2, Some(0), true));
    assert_eq!(said(Fault::Flipped), (true, 6, Some(3), true));
    let (device, _) = device(&[&always(Fault::Gone)]);
    assert!(matches!(byte(&*device), Err(DeviceError::Gone)));
    assert!(block_on(device.read(LABEL, 512)).is_ok(), "labels are left out");
}

#[test]
fn a_fault_is_injected_as_often_as_was_said() {
    let tenth = Injection::new(Fault::Failed, Requests::Read, u32::MAX / 10, false);
    let (device, _) = device(&[&tenth]);
    let failed = (0..1000).filter(|_| byte(&*device).is_err()).count();
    assert!((50..150).contains(&failed), "{failed}");
    assert!(block_on(device.write(PLACE, bytes(1), Durability::Cached)).is_ok(), "it is for reads");
    assert_eq!(tenth.counts(), (1000, failed as u64));
    let once = Injection::new(Fault::Failed, Requests::Read, u32::MAX, true);
    let (device, _) = super::tests::device(&[&once]);
    assert_eq!([byte(&*device).is_ok(), byte(&*device).is_ok()], [false, true], "the second is a retry");
}

#[test]
fn each_lane_of_a_delay_has_one_request_at_a_time() {
    let delay = |millis, lanes| always(Fault::Delayed { latency: Duration::from_millis(millis), lanes });
    let (ten, twenty) = (delay(10, 1), delay(25, 2));
    let (env, ram) = (World::with(&[], 0).env(), Arc::new(RamDevice::new(1 << 20)));
    let injections = vec![Arc::clone(&ten), Arc::clone(&twenty)];
    let injected = Injected { device: ram, env, injections, data: 0..1 << 20, tries: AtomicU64::new(0) };
    let matching: Vec<_> = injected.injections.iter().collect();
    let ends: Vec<u128> =
        (0..5).filter_map(|_| Some(injected.delayed_until(&matching)?.as_millis())).collect();
    assert_eq!(ends, [10, 20, 25, 25, 30], "one lane of 10 ms, two of 25 ms");
}
