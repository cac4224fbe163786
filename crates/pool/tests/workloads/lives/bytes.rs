//! Changes of a volume, and of the bytes that it should hold.

use std::sync::Arc;

use pool::{Pool, Volume, ZvolError};

use crate::dice::Dice;

/// Blocks that a volume with blocks of a size has at most.
pub const fn blocks_max(block_bytes: u32) -> u64 {
    if block_bytes > 16 << 10 { 20 } else { 200 }
}

pub async fn contents(volume: &Volume) -> Vec<u8> {
    let mut bytes = vec![0; volume.size_bytes() as usize];
    assert_eq!(volume.read(0, &mut bytes).await.unwrap(), bytes.len());
    bytes
}

/// A write, a range freed, or another size.
pub async fn change(pool: &Arc<Pool>, name: &str, block_bytes: u32, bytes: &mut Vec<u8>, dice: &mut Dice) {
    match dice.below(14) {
        0..9 => write(pool, name, block_bytes, bytes, dice).await,
        9..12 => free(pool, name, block_bytes, bytes, dice).await,
        _ => resize(pool, name, block_bytes, bytes, dice).await,
    }
}

/// A range of a volume: whole blocks or not.
fn range(block_bytes: u32, size: usize, dice: &mut Dice) -> (usize, usize) {
    let block = block_bytes as usize;
    let at = dice.below(size as u64) as usize;
    let len = dice.below(block as u64 * 5) as usize;
    match dice.below(3) {
        0 => (at, len.min(size - at)),
        1 => (at / block * block, block),
        _ => (at / block * block, len.next_multiple_of(block).min(size - at / block * block)),
    }
}

async fn write(pool: &Arc<Pool>, name: &str, block_bytes: u32, bytes: &mut [u8], dice: &mut Dice) {
    let (at, len) = range(block_bytes, bytes.len(), dice);
    let data = dice.bytes(len);
    let volume = pool.open_volume(name).await.unwrap();
    volume.write(at as u64, &data, dice.below(2) == 0).await.unwrap();
    bytes[at..at + len].copy_from_slice(&data);
    let past = volume.write(volume.size_bytes() - 1, &[1, 2], false).await;
    assert!(matches!(past, Err(ZvolError::TooFar { .. })), "{past:?}");
}

async fn free(pool: &Arc<Pool>, name: &str, block_bytes: u32, bytes: &mut [u8], dice: &mut Dice) {
    let (at, mut len) = range(block_bytes, bytes.len(), dice);
    if dice.below(4) == 0 {
        len = bytes.len() - at;
    }
    let volume = pool.open_volume(name).await.unwrap();
    volume.free(at as u64, len as u64, dice.below(2) == 0).await.unwrap();
    bytes[at..at + len].fill(0);
}

async fn resize(pool: &Arc<Pool>, name: &str, block_bytes: u32, bytes: &mut Vec<u8>, dice: &mut Dice) {
    let size = (1 + dice.below(blocks_max(block_bytes))) * u64::from(block_bytes);
    pool.resize_volume(name, size).await.unwrap();
    bytes.resize(size as usize, 0);
    let refused = pool.resize_volume(name, size + 1).await;
    assert!(refused.is_err(), "no part of a block");
}
