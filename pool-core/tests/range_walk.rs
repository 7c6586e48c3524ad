//! A walk step by step lists what the list does, and goes on in a range that changes.

use pool_core::{
    Cursor, Handle, Node, OffsetAllocator, Options, Piece, Placement, RangeConfig, Request, Spans,
};
use proptest::prelude::*;

const GRANULES: u64 = 1024;

/// The first granule of a piece and the one behind it.
fn extent(piece: &Piece) -> (u64, u64) {
    let (offset_bytes, size_bytes) = match piece {
        Piece::Live(block) => (block.offset_bytes(), block.size_bytes()),
        Piece::Free { offset_bytes, size_bytes } => (*offset_bytes, *size_bytes),
        _ => panic!("{piece:?}"),
    };
    (offset_bytes / 256, (offset_bytes + size_bytes) / 256)
}

/// One operation, and a hint that may be anything.
type Step = (u64, usize, u32, bool);

/// Hints that name nodes, and some that name none.
fn hints() -> impl Strategy<Value = u32> {
    prop_oneof![9 => 0..64u32, 1 => any::<u32>()]
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    proptest::collection::vec((1..40u64, 0..64usize, hints(), any::<bool>()), 1..200)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_walk_lists_what_the_list_does(
        placement in proptest::sample::select(&[
            Placement::BestFit, Placement::FirstFit, Placement::Buddy,
        ]),
        steps in steps(),
    ) {
        let mut nodes = vec![Node::UNUSED; 2048];
        let mut span_words = vec![0; 4096];
        let config = RangeConfig::new(GRANULES * 256)
            .placement(placement)
            .spans(Spans::Sized { span_bytes: 128 * 256, small_bytes: 16 * 256 });
        let mut range = OffsetAllocator::in_storage(&config, &mut nodes, &mut span_words).unwrap();
        let mut live: Vec<Handle> = Vec::new();
        let mut moving = Cursor::default();
        for (granules, pick, hint, outside) in steps {
            let options = if outside { Options::OUTSIDE_SPANS } else { Options::empty() };
            if pick < live.len() {
                range.free(live.swap_remove(pick)).unwrap();
            } else if let Ok(block) = range.allocate(Request::new(granules * 256).options(options)) {
                live.push(block.handle());
            }
            let listed: Vec<Piece> = range.blocks().collect();

            let mut cursor = Cursor { offset_bytes: 0, hint };
            let walked: Vec<Piece> = core::iter::from_fn(|| range.next_piece(&mut cursor)).collect();
            prop_assert_eq!(&walked, &listed);

            // Any offset with any hint, and the pieces at both sides of the end.
            for granule in [pick as u64 * 16, GRANULES - 1] {
                let expected = listed.iter().find(|piece| {
                    let (start, end) = extent(piece);
                    start <= granule && granule < end
                });
                let offset_bytes = granule * 256 + 255;
                let found = range.piece_at(offset_bytes);
                prop_assert_eq!(found.as_ref(), expected);
                let hinted = range.next_piece(&mut Cursor { offset_bytes, hint });
                prop_assert_eq!(hinted.as_ref(), expected);
            }
            prop_assert_eq!(range.piece_at(GRANULES * 256), None);
            prop_assert_eq!(range.piece_at(u64::MAX), None);

            // A walk that the operations overtake still moves on.
            let before = moving.offset_bytes;
            if let Some(piece) = range.next_piece(&mut moving) {
                let (start, end) = extent(&piece);
                prop_assert!(start * 256 <= before && before < end * 256);
                prop_assert_eq!(moving.offset_bytes, end * 256);
                prop_assert!(listed.contains(&piece));
            } else {
                prop_assert_eq!(before, GRANULES * 256);
                moving = Cursor::default();
            }
        }
    }
}
