//! Prints GB/s of each function over a 128 KiB block: `cargo bench -p sawmill-codec`.
#![forbid(unsafe_code)]

use std::{
    hint::black_box,
    time::{Duration, Instant},
};

use codec::parity::{Known, Lost, PARITIES_MAX, generate, reconstruct};
use codec::{Salt, checksum, compress_into, decompress_into, is_all_zero, worthwhile_limit};
use ondisk::{ChecksumKind, CompressionKind};

const BLOCK_BYTES: usize = 128 << 10;
const RUN: Duration = Duration::from_millis(200);

/// The best of three runs.
fn throughput(what: &str, mut once: impl FnMut()) {
    let mut best = 0f64;
    for _ in 0..3 {
        let (start, mut count) = (Instant::now(), 0u64);
        while start.elapsed() < RUN {
            (0..8).for_each(|_| once());
            count += 8;
        }
        best = best.max((count * BLOCK_BYTES as u64) as f64 / start.elapsed().as_secs_f64());
    }
    println!("{what:<24} {:>8.2} GB/s", best / 1e9);
}

/// About as compressible as program text: words out of a small vocabulary.
fn text() -> Vec<u8> {
    let words = ["vdev ", "metaslab ", "the ", "of ", "block\n", "uberblock ", "txg ", "and ", "0x1f3a "];
    let mut state = 1u64;
    let mut text = Vec::new();
    while text.len() < BLOCK_BYTES {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        text.extend_from_slice(words[(state >> 33) as usize % words.len()].as_bytes());
        text.extend_from_slice(&((state >> 50) as u16 % 100).to_string().into_bytes());
    }
    text.truncate(BLOCK_BYTES);
    text
}

/// GB/s of data, of a stripe of eight data columns.
fn parity(block: &[u8]) {
    let columns: Vec<&[u8]> = block.chunks(BLOCK_BYTES / 8).collect();
    let mut sums = vec![vec![0; BLOCK_BYTES / 8]; PARITIES_MAX];
    for count in 1..=PARITIES_MAX {
        let mut slices: Vec<&mut [u8]> = sums.iter_mut().take(count).map(Vec::as_mut_slice).collect();
        throughput(&format!("parity {count}"), || generate(&mut slices, black_box(&columns)));
    }
    for count in 1..=PARITIES_MAX {
        let known: Vec<_> = (0..count).map(|parity| Known { parity, bytes: &sums[parity] }).rev().collect();
        let left: Vec<&[u8]> =
            columns.iter().enumerate().map(|(at, &column)| if at < count { &[] } else { column }).collect();
        let mut back = vec![vec![0; BLOCK_BYTES / 8]; count];
        throughput(&format!("reconstruct {count}"), || {
            let places = back.iter_mut().enumerate();
            let mut lost: Vec<_> = places.map(|(index, bytes)| Lost { index, bytes }).collect();
            reconstruct(&mut lost, black_box(&left), &known);
        });
    }
}

fn main() {
    let block = text();
    parity(&block);
    let salt = Salt::new([7; 32]);
    for kind in ChecksumKind::ALL {
        if checksum(kind, &block, Some(&salt)).is_ok_and(|sum| sum != [0; 4]) && !kind.is_embedded() {
            throughput(kind.name(), || {
                let _ = black_box(checksum(kind, black_box(&block), Some(&salt)));
            });
        }
    }
    let zeros = vec![0; BLOCK_BYTES];
    throughput("is_all_zero", || {
        black_box(is_all_zero(black_box(&zeros)));
    });
    let mut stored = vec![0; worthwhile_limit(BLOCK_BYTES)];
    let mut back = vec![0; BLOCK_BYTES];
    for kind in CompressionKind::ALL {
        let Some(len) = compress_into(kind, &block, &mut stored) else { continue };
        throughput(&format!("{} compress", kind.name()), || {
            black_box(compress_into(kind, black_box(&block), &mut stored));
        });
        throughput(&format!("{} decompress", kind.name()), || {
            decompress_into(kind, black_box(&stored[..len]), &mut back).expect("compressed just now");
        });
        println!("{:<24} {:>8.2} to 1", "", BLOCK_BYTES as f64 / len as f64);
    }
}
