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
