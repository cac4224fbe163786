//! Lost columns as unknowns of linear equations.

use super::field::{inverse, multiply, power_of_two};
use super::kernel::{add_multiple, generate};
use super::{Known, Lost, PARITIES_MAX};

/// Weights by equation and unknown; only the corner that is used matters.
type Matrix = [[u8; PARITIES_MAX]; PARITIES_MAX];

/// Fills in the lost columns from as many parities.
pub(super) fn reconstruct(lost: &mut [Lost<'_>], data: &[&[u8]], known: &[Known<'_>]) {
    let syndromes = syndromes(data, known);
    let mut weights = Matrix::default();
    for (row, known) in weights.iter_mut().zip(known) {
        for (weight, lost) in row.iter_mut().zip(&*lost) {
            *weight = power_of_two(known.parity * (data.len() - 1 - lost.index));
        }
    }
    let solution = inverted(weights, lost.len());
    for (lost, factors) in lost.iter_mut().zip(&solution) {
        lost.bytes.fill(0);
        for (syndrome, factor) in syndromes.iter().zip(factors) {
            add_multiple(lost.bytes, syndrome, *factor);
        }
    }
}

/// What the lost columns alone contribute to each known parity.
fn syndromes(data: &[&[u8]], known: &[Known<'_>]) -> Vec<Vec<u8>> {
    let len = known[0].bytes.len();
    let parities = known.iter().map(|known| known.parity).max().map_or(0, |highest| highest + 1);
    let mut sums = vec![vec![0; len]; parities];
    let mut slices: Vec<&mut [u8]> = sums.iter_mut().map(Vec::as_mut_slice).collect();
    generate(&mut slices, data);
    let syndrome = |known: &Known<'_>| {
        let mut sum = std::mem::take(&mut sums[known.parity]);
        add_multiple(&mut sum, known.bytes, 1);
        sum
    };
    known.iter().map(syndrome).collect()
}

/// The inverse of the upper left `size` rows and columns, by Gauss and Jordan.
///
/// # Panics
/// When there is none, as for one parity given twice.
fn inverted(mut matrix: Matrix, size: usize) -> Matrix {
    let mut result = Matrix::default();
    for (at, row) in result.iter_mut().enumerate() {
        row[at] = 1;
    }
    for at in 0..size {
        let pivot = (at..size).find(|row| matrix[*row][at] != 0).expect("different parities are independent");
        matrix.swap(at, pivot);
        result.swap(at, pivot);
        let scale = inverse(matrix[at][at]);
        for weight in matrix[at].iter_mut().chain(&mut result[at]) {
            *weight = multiply(*weight, scale);
        }
        for other in (0..size).filter(|other| *other != at) {
            let factor = matrix[other][at];
            subtract(&mut matrix, other, at, factor);
            subtract(&mut result, other, at, factor);
        }
    }
    result
}

/// `rows[from] -= factor * rows[row]`; subtraction is addition here.
fn subtract(rows: &mut Matrix, from: usize, row: usize, factor: u8) {
    let subtrahend = rows[row];
    for (weight, other) in rows[from].iter_mut().zip(subtrahend) {
        *weight ^= multiply(factor, other);
    }
}
