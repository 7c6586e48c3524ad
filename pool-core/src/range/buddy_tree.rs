//! Binary buddy over 64 equal pieces, as 127 bits.
//!
//! A tree has a bit for each buddy of each order from 0 (a piece) to 6 (all 64 of them), set
//! while that buddy is free and is not half of a larger free one. Order 0 has bits 0 to 63,
//! order 1 bits 64 to 95, and so on to bit 126: the smallest free buddy of an order or more is
//! the first bit set from that order's first.

/// The order of a whole tree.
pub(crate) const TREE_ORDER: u32 = 6;

/// The bits of a tree.
pub(crate) type Tree = [u64; 2];

/// A tree in which nothing is free.
pub(crate) const FULL: Tree = [0, 0];

/// The first bit of an order.
#[inline(always)]
const fn base(order: u32) -> u32 {
    128 - (128 >> order)
}

/// The order of a bit.
#[inline(always)]
const fn order_at(bit: u32) -> u32 {
    TREE_ORDER - (127 - bit).ilog2()
}

#[inline(always)]
fn is_set(tree: &Tree, bit: u32) -> bool {
    tree[bit as usize / 64] >> (bit % 64) & 1 != 0
}

#[inline(always)]
fn flip(tree: &mut Tree, bit: u32) {
    tree[bit as usize / 64] ^= 1 << (bit % 64);
}

/// One more than the order of the largest free buddy; zero if nothing is free.
#[inline(always)]
pub(crate) fn rank(tree: &Tree) -> u32 {
    if tree[1] != 0 { order_at(64 + tree[1].ilog2()) + 1 } else { u32::from(tree[0] != 0) }
}

/// Takes the leftmost piece of order `order` of the smallest free buddy of order `at_least` or
/// more, itself at least `order`; returns its index among those of its order. At most six splits.
#[inline(always)]
pub(crate) fn take(tree: &mut Tree, order: u32, at_least: u32) -> Option<u32> {
    let bit = if at_least == 0 && tree[0] != 0 {
        tree[0].trailing_zeros()
    } else {
        let from = base(at_least.max(1)) - 64;
        let inner = tree[1] >> from << from;
        if inner == 0 {
            return None;
        }
        64 + inner.trailing_zeros()
    };
    flip(tree, bit);
    let mut now = order_at(bit);
    let mut index = bit - base(now);
    while now > order {
        now -= 1;
        index *= 2;
        flip(tree, base(now) + index + 1);
    }
    Some(index)
}

/// Frees a buddy and merges it with its free buddies, at most six times. False if that makes the
/// whole tree free: then it is left full, for the whole may be half of something larger.
#[inline(always)]
pub(crate) fn give(tree: &mut Tree, order: u32, index: u32) -> bool {
    let (mut order, mut index) = (order, index);
    while order < TREE_ORDER && is_set(tree, base(order) + (index ^ 1)) {
        flip(tree, base(order) + (index ^ 1));
        index /= 2;
        order += 1;
    }
    if order == TREE_ORDER {
        return false;
    }
    flip(tree, base(order) + index);
    true
}

/// The same where nothing larger is above: the whole may be a free buddy of the tree.
#[inline(always)]
pub(crate) fn give_up_to_whole(tree: &mut Tree, order: u32, index: u32) {
    if !give(tree, order, index) {
        flip(tree, base(TREE_ORDER));
    }
}

/// Every free buddy: its order and index.
pub(crate) fn free_buddies(tree: &Tree) -> impl Iterator<Item = (u32, u32)> + '_ {
    (0..127).filter(|&bit| is_set(tree, bit)).map(|bit| (order_at(bit), bit - base(order_at(bit))))
}

/// Whether a buddy is free, by itself or as a part of a larger one.
pub(crate) fn is_free(tree: &Tree, order: u32, index: u32) -> bool {
    (order..=TREE_ORDER).any(|above| is_set(tree, base(above) + (index >> (above - order))))
}

/// Takes a free buddy that is not free by itself but as a part of a larger one, or is.
pub(crate) fn take_at(tree: &mut Tree, order: u32, index: u32) {
    let Some(mut above) =
        (order..=TREE_ORDER).find(|&above| is_set(tree, base(above) + (index >> (above - order))))
    else {
        return;
    };
    flip(tree, base(above) + (index >> (above - order)));
    while above > order {
        above -= 1;
        flip(tree, base(above) + ((index >> (above - order)) ^ 1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Free pieces as bits: what a tree says, piece by piece.
    fn pieces(tree: &Tree) -> u64 {
        free_buddies(tree).fold(0, |pieces, (order, index)| {
            let run = u64::MAX >> (64 - (1u32 << order)) << (index << order);
            assert_eq!(pieces & run, 0, "two free buddies overlap");
            pieces | run
        })
    }

    /// The largest order with an aligned run of free pieces, plus one.
    fn rank_of(pieces: u64) -> u32 {
        (0..=TREE_ORDER)
            .rev()
            .find(|&order| {
                let run = u64::MAX >> (64 - (1u32 << order));
                (0..64 >> order).any(|i| pieces >> (i << order) & run == run)
            })
            .map_or(0, |order| order + 1)
    }

    #[test]
    fn takes_and_gives_against_a_map_of_pieces() {
        let mut tree = FULL;
        give_up_to_whole(&mut tree, TREE_ORDER, 0);
        let mut map = u64::MAX;
        let mut live = [None; 64];
        let mut random = 0x9E37_79B9_7F4A_7C15_u64;
        for _ in 0..200_000 {
            random = random.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
            let slot = (random >> 58) as usize;
            if let Some((order, index)) = live[slot].take() {
                let run = u64::MAX >> (64 - (1u32 << order)) << (index << order);
                give_up_to_whole(&mut tree, order, index);
                map |= run;
            } else {
                let order = (random >> 32) as u32 % 8 % 7;
                let at_least = order.max((random >> 40) as u32 % 7);
                let fits = rank_of(map) > at_least;
                let taken = take(&mut tree, order, at_least);
                assert_eq!(taken.is_some(), fits);
                if let Some(index) = taken {
                    let run = u64::MAX >> (64 - (1u32 << order)) << (index << order);
                    assert_eq!(map & run, run, "a piece taken twice");
                    assert_eq!((index << order) % (1 << at_least), 0, "unaligned");
                    map &= !run;
                    live[slot] = Some((order, index));
                }
            }
            assert_eq!(pieces(&tree), map);
            assert_eq!(rank(&tree), rank_of(map), "{map:#x}");
        }
    }

    #[test]
    fn a_part_can_be_taken_out_of_a_larger_buddy() {
        for order in 0..=TREE_ORDER {
            for index in 0..64 >> order {
                let mut tree = FULL;
                give_up_to_whole(&mut tree, TREE_ORDER, 0);
                assert!(is_free(&tree, order, index));
                take_at(&mut tree, order, index);
                assert!(!is_free(&tree, order, index));
                let run = u64::MAX >> (64 - (1u32 << order)) << (index << order);
                assert_eq!(pieces(&tree), !run);
                give_up_to_whole(&mut tree, order, index);
                assert_eq!(tree, [0, 1 << 62]);
            }
        }
    }
}
