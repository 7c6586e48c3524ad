//! Sorting in few instructions.

/// Sorts in place. A heap sort, for it is told in a few lines: core's own sort of so few items would be an
/// eighth of a program that has nothing but a range.
///
/// Complexity: `n log n`, whatever the order.
pub(crate) fn sort<T: Ord>(items: &mut [T]) {
    for top in (0..items.len() / 2).rev() {
        sink(items, top);
    }
    for end in (1..items.len()).rev() {
        items.swap(0, end);
        sink(&mut items[..end], 0);
    }
}

/// Moves an item down a heap, whose items are no less than their two children.
fn sink<T: Ord>(heap: &mut [T], mut at: usize) {
    loop {
        let mut child = 2 * at + 1;
        if child + 1 < heap.len() && heap[child] < heap[child + 1] {
            child += 1;
        }
        if child >= heap.len() || heap[child] <= heap[at] {
            return;
        }
        heap.swap(at, child);
        at = child;
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::vec::Vec;

    use super::*;

    #[test]
    fn what_is_sorted_is_as_by_the_standard_sort() {
        let mut random = fastrand::Rng::with_seed(3);
        for len in (0..40).chain([255, 256, 257]) {
            for kinds in [1, 2, 10, 1000] {
                let mut items: Vec<u32> = (0..len).map(|_| random.u32(0..kinds)).collect();
                let mut expected = items.clone();
                expected.sort_unstable();
                sort(&mut items);
                assert_eq!(items, expected);
            }
        }
    }
}
