use crate::pages::Pages;
use crate::rng::Rng;

#[test]
fn pages_behave_like_plain_bytes_and_copies_are_apart() {
    const LEN: usize = 3 << 20;
    let mut rng = Rng::new(1, 1);
    let (mut pages, mut plain) = (Pages::default(), vec![0_u8; LEN]);
    let mut copies = Vec::new();
    for round in 0..300_u64 {
        let offset = rng.index(LEN);
        let len = rng.index((LEN - offset).min(20_000) + 1);
        let bytes = vec![round as u8; len];
        pages.write(offset as u64, &bytes);
        plain[offset..offset + len].copy_from_slice(&bytes);
        if round % 100 == 0 {
            copies.push((pages.clone(), plain.clone()));
        }
    }
    copies.push((pages, plain));
    for (pages, plain) in copies {
        let mut back = vec![0xff; LEN];
        pages.read(0, &mut back);
        assert!(back == plain);
    }
}

#[test]
fn contents_are_the_same_when_their_digests_are() {
    const PLACES: [u64; 5] = [0, 5000, 70_000, 1 << 20, 2 << 20];
    let put = |order: [usize; 5]| {
        let mut pages = Pages::default();
        for n in order {
            pages.write(PLACES[n], &[n as u8 + 1; 3000]);
            let _ = pages.digest();
        }
        pages
    };
    let (one, other) = (put([0, 1, 2, 3, 4]), put([4, 2, 0, 3, 1]));
    assert_eq!(one.digest(), other.digest());
    for at in PLACES {
        let mut changed = one.clone();
        changed.write(at + 17, &[0x80]);
        assert_ne!(changed.digest(), one.digest());
        changed.write(at + 17, &[PLACES.iter().position(|&place| place == at).expect("a place") as u8 + 1]);
        assert_eq!(changed.digest(), one.digest());
    }
    let mut moved = Pages::default();
    moved.write(4096, &[1; 3000]);
    let mut first = Pages::default();
    first.write(0, &[1; 3000]);
    assert_ne!(moved.digest(), first.digest());
    first.write(0, &[0; 4096]);
    first.write(9 << 20, &[0; 10]);
    assert_eq!(first.digest(), Pages::default().digest());
}
