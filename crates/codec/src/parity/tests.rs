use proptest::prelude::*;

use super::field::{double, inverse, multiply, power_of_two};
use super::kernel::{add_multiple, add_multiple_plain, generate_plain};
use super::{Known, Lost, PARITIES_MAX, generate, reconstruct};

/// The field's product by long multiplication and division, without tables.
fn product(a: u8, b: u8) -> u8 {
    let mut long = 0_u16;
    for bit in 0..8 {
        if b >> bit & 1 == 1 {
            long ^= u16::from(a) << bit;
        }
    }
    for bit in (8..16).rev() {
        if long >> bit & 1 == 1 {
            long ^= 0x11d << (bit - 8);
        }
    }
    u8::try_from(long).expect("reduced")
}

/// Parity by the sums of the module's text, byte for byte.
fn by_definition(parity: usize, data: &[Vec<u8>], len: usize) -> Vec<u8> {
    let byte = |at: usize| {
        data.iter().enumerate().fold(0, |sum, (index, column)| {
            let weight = (0..parity * (data.len() - 1 - index)).fold(1, |weight, _| product(weight, 2));
            sum ^ product(weight, column.get(at).copied().unwrap_or(0))
        })
    };
    (0..len).map(byte).collect()
}

fn parities(data: &[Vec<u8>], count: usize) -> Vec<Vec<u8>> {
    let len = data.iter().map(Vec::len).max().unwrap_or(0);
    let mut sums = vec![vec![0xee; len]; count];
    let columns: Vec<&[u8]> = data.iter().map(Vec::as_slice).collect();
    generate(&mut sums.iter_mut().map(Vec::as_mut_slice).collect::<Vec<_>>(), &columns);
    sums
}

fn noise(len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    (0..len).map(|_| next()).collect()
}

/// All sets of `0..count` with at most `size` members.
fn subsets(count: usize, size: u32) -> impl Iterator<Item = Vec<usize>> {
    let masks = (0_u32..1 << count).filter(move |mask| mask.count_ones() <= size);
    masks.map(move |mask| (0..count).filter(|bit| mask >> bit & 1 == 1).collect())
}

#[test]
fn tables_agree_with_long_multiplication() {
    for a in 0..=255_u8 {
        assert_eq!(double(a), product(a, 2));
        for b in 0..=255_u8 {
            assert_eq!(multiply(a, b), product(a, b));
        }
        assert!(a == 0 || product(a, inverse(a)) == 1);
    }
    assert_eq!([0, 1, 8, 254, 255, 256].map(power_of_two), [1, 2, 0x1d, 142, 1, 2]);
}

/// Brings back the lost columns by every choice of parities that suffices.
fn lose(data: &[Vec<u8>], sums: &[Vec<u8>], lost: &[usize]) {
    for used in subsets(sums.len(), PARITIES_MAX as u32).filter(|used| used.len() >= lost.len()) {
        let mut found: Vec<Vec<u8>> = lost.iter().map(|index| vec![0x77; data[*index].len()]).collect();
        let left = |index| if lost.contains(&index) { &[][..] } else { &data[index][..] };
        let columns: Vec<&[u8]> = (0..data.len()).map(left).collect();
        let known: Vec<_> = used.iter().map(|&parity| Known { parity, bytes: &sums[parity] }).collect();
        let places = lost.iter().zip(&mut found);
        let mut places: Vec<_> = places.map(|(&index, bytes)| Lost { index, bytes }).collect();
        reconstruct(&mut places, &columns, &known);
        for (index, bytes) in lost.iter().zip(&found) {
            assert_eq!(bytes, &data[*index], "column {index} of {lost:?} by {used:?}");
        }
    }
}

#[test]
fn every_loss_that_can_be_repaired_is() {
    for columns in 1..=8 {
        // The last column is a sector short, as in a stripe that is not full.
        let len = |index| if index + 1 == columns { 96 } else { 200 };
        let data: Vec<_> = (0..columns).map(|index| noise(len(index), index as u64)).collect();
        for parity in 1..=PARITIES_MAX {
            let sums = parities(&data, parity);
            for lost in subsets(columns, parity as u32) {
                lose(&data, &sums, &lost);
            }
        }
    }
}

#[test]
fn the_widest_stripe_loses_any_three_of_its_ends() {
    let data: Vec<_> = (0..255).map(|index| noise(64, index)).collect();
    let sums = parities(&data, 3);
    for lost in [[0, 1, 2], [0, 127, 254], [252, 253, 254], [84, 85, 169]] {
        lose(&data, &sums, &lost);
    }
}

#[test]
#[should_panic(expected = "2 columns from 1 parities")]
fn more_losses_than_parities_are_not_tried() {
    let (mut a, mut b, parity) = ([0; 4], [0; 4], [0; 4]);
    let mut lost = [Lost { index: 0, bytes: &mut a }, Lost { index: 1, bytes: &mut b }];
    reconstruct(&mut lost, &[&[], &[]], &[Known { parity: 0, bytes: &parity }]);
}

fn columns() -> impl Strategy<Value = Vec<Vec<u8>>> {
    (1_usize..300, 1_usize..12).prop_flat_map(|(len, count)| {
        prop::collection::vec((0..=len, any::<u64>()), count).prop_map(move |columns| {
            let mut columns: Vec<_> = columns.into_iter().map(|(len, seed)| noise(len, seed)).collect();
            columns[0].resize(len, 0x5a);
            columns
        })
    })
}

proptest! {
    #[test]
    fn parity_kernels_agree_with_the_field_s_definition(data in columns(), count in 1_usize..=3) {
        let len = data[0].len();
        let expected: Vec<_> = (0..count).map(|parity| by_definition(parity, &data, len)).collect();
        prop_assert_eq!(&parities(&data, count), &expected);
        let mut plain = vec![vec![0xee; len]; count];
        let columns: Vec<&[u8]> = data.iter().map(Vec::as_slice).collect();
        generate_plain(&mut plain.iter_mut().map(Vec::as_mut_slice).collect::<Vec<_>>(), &columns);
        prop_assert_eq!(&plain, &expected);
    }

    #[test]
    fn multiples_agree_with_the_field_s_definition(
        to in prop::collection::vec(any::<u8>(), 0..300),
        from in prop::collection::vec(any::<u8>(), 0..300),
        factor in any::<u8>(),
    ) {
        let other = |at: usize| from.get(at).copied().unwrap_or(0);
        let expected: Vec<u8> = to.iter().enumerate().map(|(at, x)| x ^ product(other(at), factor)).collect();
        let (mut fast, mut plain) = (to.clone(), to);
        add_multiple(&mut fast, &from, factor);
        prop_assert_eq!(&fast, &expected);
        add_multiple_plain(&mut plain, &from, factor);
        prop_assert_eq!(&plain, &expected);
    }
}
