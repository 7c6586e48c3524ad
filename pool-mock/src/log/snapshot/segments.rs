//! Which memory a program was ever given: the segments of a log that has none.

use std::collections::BTreeMap;

/// What a device maps at least; memory within one such page was got together.
const PAGE_SHIFT: u32 = 21;

/// Runs of pages in which any block ever was. Holds an entry a run.
#[derive(Debug, Default)]
pub(super) struct Segments {
    /// By the first page.
    runs: BTreeMap<u64, Run>,
}

#[derive(Clone, Copy, Debug)]
struct Run {
    /// The page behind the last.
    end: u64,
    stream: u64,
}

/// A run of memory, in bytes. Its end can be one past what 64 bits hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Segment {
    /// The first address.
    pub(super) first: u64,
    pub(super) start: i128,
    pub(super) end: i128,
    /// The stream that first used it, or its lower part.
    pub(super) stream: u64,
}

impl Segments {
    /// Takes note of a block. What would reach past the last address ends there.
    pub(super) fn cover(&mut self, address: u64, size_bytes: u64, stream: u64) {
        let mut start = address >> PAGE_SHIFT;
        let last = address.saturating_add(size_bytes.saturating_sub(1)) >> PAGE_SHIFT;
        let mut run = Run { end: last + 1, stream };
        // The run that begins before this one, if they meet.
        if let Some((&first, &before)) = self.runs.range(..=start).next_back()
            && before.end >= start
        {
            if before.end >= run.end {
                return;
            }
            (start, run.stream) = (first, before.stream);
        }
        // Those that begin within it or just behind it.
        while let Some((&first, &within)) = self.runs.range(start..=run.end).next() {
            self.runs.remove(&first);
            run.end = run.end.max(within.end);
            if first == start {
                run.stream = within.stream;
            }
        }
        self.runs.insert(start, run);
    }

    /// All of them, in the order of their addresses.
    pub(super) fn iter(&self) -> impl Iterator<Item = Segment> {
        let bytes = |page| i128::from(page) << PAGE_SHIFT;
        self.runs.iter().map(move |(&start, &Run { end, stream })| Segment {
            first: start << PAGE_SHIFT,
            start: bytes(start),
            end: bytes(end),
            stream,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: u64 = 1 << PAGE_SHIFT;

    fn runs(segments: &Segments) -> Vec<(u64, u64, u64)> {
        let page = |bytes: i128| u64::try_from(bytes >> PAGE_SHIFT).unwrap();
        segments.iter().map(|run| (page(run.start), page(run.end), run.stream)).collect()
    }

    #[test]
    fn runs_that_meet_are_one() {
        let mut segments = Segments::default();
        segments.cover(4 * PAGE, 1, 1);
        segments.cover(6 * PAGE + 7, PAGE, 2);
        assert_eq!(runs(&segments), [(4, 5, 1), (6, 8, 2)]);
        segments.cover(PAGE - 1, 2, 3);
        assert_eq!(runs(&segments), [(0, 2, 3), (4, 5, 1), (6, 8, 2)]);
        segments.cover(5 * PAGE, PAGE, 4);
        assert_eq!(runs(&segments), [(0, 2, 3), (4, 8, 1)]);
        segments.cover(6 * PAGE, 1, 5);
        assert_eq!(runs(&segments), [(0, 2, 3), (4, 8, 1)]);
        segments.cover(0, 20 * PAGE, 6);
        assert_eq!(runs(&segments), [(0, 20, 3)]);
        segments.cover(u64::MAX, u64::MAX, 7);
        assert_eq!(segments.iter().last().unwrap().end, 1 << 64);
        segments.cover(0, u64::MAX, 8);
        assert_eq!(segments.iter().count(), 1);
    }
}
