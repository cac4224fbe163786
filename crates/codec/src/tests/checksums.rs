use ondisk::{ByteOrder, ChecksumKind};
use proptest::prelude::*;

use super::blocks;
use crate::{CodecError, Fletcher4, Salt, checksum, checksum::fletcher4, checksum_of, is_all_zero};

fn sum(kind: ChecksumKind, bytes: &[u8]) -> [u64; 4] {
    checksum(kind, bytes, Some(&Salt::new([0; 32]))).unwrap()
}

#[test]
fn fletcher_sums_are_what_a_hand_computes() {
    let words = |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<_>>();
    assert_eq!(sum(ChecksumKind::Fletcher4, &words(&[1, 2, 3])), [6, 10, 15, 21]);
    assert_eq!(sum(ChecksumKind::Fletcher4, &words(&[u32::MAX, 0, 0, 1])), {
        let max = u64::from(u32::MAX);
        [max + 1, 4 * max + 1, 10 * max + 1, 20 * max + 1]
    });
    let pairs = words(&[1, 0, 2, 0, 10, 0, 20, 0, 100, 0, 200, 0]);
    assert_eq!(sum(ChecksumKind::Fletcher2, &pairs), [111, 222, 1 + 11 + 111, 2 + 22 + 222]);
}

#[test]
fn digests_are_those_of_their_standards() {
    // FIPS 180-4's example "abc", and the first vector of BLAKE3 (a key of its own, no input).
    let sha256 = [0xba78_16bf_8f01_cfea, 0x4141_40de_5dae_2223, 0xb003_61a3_9617_7a9c, 0xb410_ff61_f200_15ad];
    assert_eq!(sum(ChecksumKind::Sha256, b"abc"), sha256);
    assert_eq!(sum(ChecksumKind::Label, b"abc"), sha256);
    let sha512_256 =
        [0x5304_8e26_8194_1ef9, 0x9b2e_29b7_6b4c_7dab, 0xe4c2_d0c6_34fc_6d46, 0xe0e2_f131_07e7_af23];
    assert_eq!(sum(ChecksumKind::Sha512, b"abc").map(u64::swap_bytes), sha512_256);
    let key = b"whats the Elvish word for friend";
    let blake3 = [0x92b2_b756_04ed_3c76, 0x1f9d_6f62_392c_8a92, 0x27ad_0ea3_f095_73e7, 0x83f1_498a_4ed6_0d26];
    assert_eq!(
        checksum(ChecksumKind::Blake3, b"", Some(&Salt::new(*key))).unwrap().map(u64::swap_bytes),
        blake3
    );
}

#[test]
fn what_is_not_checked_sums_to_zero() {
    assert_eq!(sum(ChecksumKind::Off, b"anything"), [0; 4]);
    assert_eq!(sum(ChecksumKind::Noparity, b"anything"), [0; 4]);
    assert_eq!(sum(ChecksumKind::Fletcher4, &[0; 4096]), [0; 4]);
}

#[test]
fn unsupported_kinds_are_refused_by_name() {
    for kind in [ChecksumKind::Inherit, ChecksumKind::On] {
        let error = checksum(kind, &[0; 512], Some(&Salt::new([0; 32]))).unwrap_err();
        assert_eq!(error, CodecError::UnsupportedChecksum(kind));
        assert!(error.to_string().contains(kind.name()));
    }
    for kind in ChecksumKind::ALL.into_iter().filter(|kind| kind.is_salted()) {
        assert_eq!(checksum(kind, &[0; 512], None), Err(CodecError::SaltMissing(kind)));
    }
}

#[test]
fn no_flipped_bit_goes_unseen() {
    let block: Vec<u8> = (0..1024u32).map(|at| ((at * at) >> 3) as u8).collect();
    let salt = Salt::new([1; 32]);
    for kind in ChecksumKind::ALL {
        let Ok(good) = checksum(kind, &block, Some(&salt)) else { continue };
        if good == [0; 4] {
            continue;
        }
        for bit in 0..block.len() * 8 {
            let mut bad = block.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert_ne!(checksum(kind, &bad, Some(&salt)).unwrap(), good, "{} bit {bit}", kind.name());
        }
    }
}

proptest! {
    #[test]
    fn fletcher4_kernels_agree_with_the_plain_sum(bytes in prop::collection::vec(any::<u8>(), 0..3000)) {
        let words = &bytes[..bytes.len() & !3];
        let plain = fletcher4::plain([0; 4], words);
        prop_assert_eq!(fletcher4::fletcher4(&bytes), plain);
        #[cfg(target_arch = "x86_64")]
        prop_assert!(fletcher4::x86::sum(words).is_none_or(|sums| sums == plain));
    }

    #[test]
    fn fletcher4_in_pieces_equals_fletcher4_at_once(
        pieces in prop::collection::vec(prop::collection::vec(any::<u32>(), 0..200), 0..6)
    ) {
        let pieces: Vec<Vec<u8>> =
            pieces.iter().map(|words| words.iter().flat_map(|word| word.to_le_bytes()).collect()).collect();
        let mut running = Fletcher4::new();
        pieces.iter().for_each(|piece| running.update(piece));
        prop_assert_eq!(running.finish(), fletcher4::plain([0; 4], &pieces.concat()));
    }

    #[test]
    fn joining_long_stretches_wraps_as_the_sums_do(n in any::<u32>(), sums in any::<[u64; 4]>()) {
        // Behind n zero words each order grows by what the lower ones add at every step.
        let steps = u64::from(n % 5000);
        let mut expected = sums;
        for _ in 0..steps {
            for order in 1..4 {
                expected[order] = expected[order].wrapping_add(expected[order - 1]);
            }
        }
        prop_assert_eq!(fletcher4::join(sums, [0; 4], steps), expected);
    }

    #[test]
    fn only_zeros_are_all_zero(bytes in blocks()) {
        prop_assert_eq!(is_all_zero(&bytes), bytes.iter().all(|&byte| byte == 0));
    }
}

#[test]
fn one_bit_anywhere_is_not_all_zero() {
    let mut bytes = [0; 300];
    assert!(is_all_zero(&bytes) && is_all_zero(&[]));
    for at in 0..bytes.len() {
        bytes[at] = 0x10;
        assert!(!is_all_zero(&bytes), "{at}");
        bytes[at] = 0;
    }
}

#[test]
#[should_panic(expected = "fletcher4 over 6 bytes")]
fn a_piece_of_a_word_panics() {
    Fletcher4::new().update(&[0; 6]);
}

#[test]
fn fletcher4_of_a_block_longer_than_a_stretch_is_exact() {
    let block: Vec<u8> =
        (0..(17u32 << 20) / 4).flat_map(|at| at.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
    assert_eq!(fletcher4::fletcher4(&block), fletcher4::plain([0; 4], &block));
}

#[test]
fn a_big_endian_machine_sums_its_own_words() {
    let words = [1_u32, 2, 3, 4, 5, 6, 7, 8];
    let theirs: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
    let ours: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let of =
        |kind, bytes: &[u8]| checksum_of(ByteOrder::Big, kind, bytes, Some(&Salt::new([3; 32]))).unwrap();
    assert_eq!(of(ChecksumKind::Fletcher4, &theirs), sum(ChecksumKind::Fletcher4, &ours));
    let pairs: Vec<u8> = [1_u64, 2, 3, 4].iter().flat_map(|word| word.to_be_bytes()).collect();
    assert_eq!(of(ChecksumKind::Fletcher2, &pairs), [4, 6, 5, 8]);
    assert_eq!(of(ChecksumKind::Sha256, b"abc"), sum(ChecksumKind::Sha256, b"abc"));
    assert_eq!(of(ChecksumKind::Sha512, b"abc").map(u64::swap_bytes), sum(ChecksumKind::Sha512, b"abc"));
}
