use super::*;

const ROOM: u64 = RECORD_BYTES_MAX;

fn write(to: u64) -> Shape {
    // Anywhere in a file, by its length.
    Shape::Splittable { base: to % 3 * 700, from: 0, to }
}

/// Every record is laid out whole and in order, and no block is overfull.
fn check(shapes: &[Shape], first_room: u64, blocks: &[BlockPlan]) {
    let mut pieces = blocks.iter().flat_map(|block| &block.pieces);
    for (record, shape) in shapes.iter().enumerate() {
        match *shape {
            Shape::Whole(bytes) => {
                let piece = Piece { record, from: 0, data: 0, bytes, is_last: true };
                assert_eq!(pieces.next(), Some(&piece));
            }
            Shape::Splittable { base, mut from, to } => {
                while from < to {
                    let piece = pieces.next().expect("the write goes on");
                    assert_eq!((piece.record, piece.from), (record, from));
                    from += piece.data;
                    assert_eq!(piece.is_last, from == to);
                    assert!(piece.is_last || (base + from).is_multiple_of(SECTOR_BYTES), "within a sector");
                }
            }
        }
    }
    assert_eq!(pieces.next(), None);
    for (i, block) in blocks.iter().enumerate() {
        let room = if i == 0 { first_room } else { ROOM };
        assert!(block.used <= room);
        assert_eq!(block.used, block.pieces.iter().map(|piece| piece.bytes).sum::<u64>());
        assert!(block.block_bytes() <= BLOCK_BYTES_MAX);
    }
}

#[test]
fn what_fits_the_first_block_takes_one() {
    let blocks = plan(&[write(4096), Shape::Whole(120)], 8192 - 184);
    assert_eq!(blocks.len(), 1);
    assert_eq!(blocks[0].block_bytes(), 8192);
}

#[test]
fn a_write_is_split_where_a_block_ends() {
    let data = |base| -> Vec<u64> {
        let blocks = plan(&[Shape::Splittable { base, from: 0, to: 8192 }], 4096 - 184);
        blocks.iter().flat_map(|block| &block.pieces).map(|piece| piece.data).collect()
    };
    // 3720 bytes would fit: the file's sector ends before.
    assert_eq!(data(0), [3584, 4608]);
    assert_eq!(data(100), [3484, 4708]);
}

#[test]
fn a_nearly_full_block_takes_no_splinter_of_a_write() {
    let blocks = plan(&[Shape::Whole(3000), write(8192)], 4096 - 184);
    assert_eq!(blocks[0].pieces.len(), 1);
    assert_eq!(blocks[1].pieces[0].data, 8192);
}

#[test]
fn nothing_to_lay_out_is_one_empty_block() {
    assert_eq!(plan(&[], 100), [BlockPlan::default()]);
}

proptest::proptest! {
    #[test]
    fn any_records_are_laid_out_whole_and_in_order(
        seeds in proptest::collection::vec((proptest::bool::ANY, 1_u64..400_000), 0..30),
        blocks in 1_u64..32,
    ) {
        let shapes: Vec<Shape> = seeds
            .into_iter()
            .map(|(is_write, n)| if is_write { write(n) } else { Shape::Whole((n % ROOM) & !7) })
            .collect();
        let first_room = blocks * 4096 - 184;
        check(&shapes, first_room, &plan(&shapes, first_room));
    }
}

#[test]
fn a_burst_is_forgotten_after_a_few_small_batches() {
    let mut sizes = SizeHistory::default();
    assert_eq!(sizes.expected(|| true), BLOCK_BYTES_MIN);
    sizes.note(1 << 30);
    assert_eq!(sizes.expected(|| true), BLOCK_BYTES_MAX);
    for _ in 0..8 {
        sizes.note(8192);
    }
    assert_eq!(sizes.expected(|| true), 8192);
}

#[test]
fn where_nothing_is_flushed_most_batches_fill_the_block() {
    let mut sizes = SizeHistory::default();
    for bytes in [12, 20, 100, 24, 16, 60, 24, 12] {
        sizes.note(bytes << 10);
    }
    assert_eq!(sizes.expected(|| true), 100 << 10);
    assert_eq!(sizes.expected(|| false), 12 << 10);
    sizes.note(28 << 10);
    assert_eq!(sizes.expected(|| false), 16 << 10);
}
