//! The map of every granule: whose it is.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use pool_core::Block;

use super::finding::Finding;

/// The name of a live block in the map; never zero and never given twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark(core::num::NonZeroU64);

impl Mark {
    /// The mark of the `count`-th block of a thread, one of `threads`.
    ///
    /// # Example
    ///
    /// ```
    /// use pool_mock::stress::Mark;
    ///
    /// assert_ne!(Mark::new(0, 1, 2), Mark::new(1, 0, 2));
    /// ```
    #[must_use]
    pub const fn new(count: u64, thread: u32, threads: u32) -> Self {
        let number = count.wrapping_mul(threads as u64).wrapping_add(thread as u64);
        Self(core::num::NonZeroU64::MIN.saturating_add(number))
    }

    /// The mark as a number.
    #[must_use]
    pub const fn number(self) -> u64 {
        self.0.get()
    }
}

/// One word a granule: zero, or the mark of the live block that it belongs to.
///
/// The words are relaxed, so that the map brings no order of its own between threads: that a
/// granule's former holder has cleared it must follow from the allocator's order alone.
///
/// # Example
///
/// ```
/// use pool_core::{OffsetAllocator, RangeConfig};
/// use pool_mock::stress::{Mark, Shadow};
///
/// let mut range = OffsetAllocator::new(&RangeConfig::new(1 << 20))?;
/// let block = range.allocate(1000)?;
/// let shadow = Shadow::new(range.capacity_bytes(), range.granule_bytes());
/// let (mark, other) = (Mark::new(0, 0, 1), Mark::new(1, 0, 1));
/// shadow.fill(&block, mark)?;
/// assert!(shadow.fill(&block, other).is_err(), "it overlaps a live block: itself");
/// assert!(shadow.clear(&block, other).is_err());
/// shadow.clear(&block, mark)?;
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Shadow {
    granule_bytes: u64,
    words: Vec<AtomicU64>,
}

impl Shadow {
    /// A map for a range of `capacity_bytes` in granules of `granule_bytes`.
    #[must_use]
    pub fn new(capacity_bytes: u64, granule_bytes: u64) -> Self {
        let words = (0..capacity_bytes / granule_bytes).map(|_| AtomicU64::new(0)).collect();
        Self { granule_bytes, words }
    }

    /// Marks the granules of a block that was just handed out.
    ///
    /// # Errors
    ///
    /// [`Finding::Overlap`] if one is another live block's, [`Finding::Outside`] if one is not in
    /// the range.
    pub fn fill(&self, block: &Block, mark: Mark) -> Result<(), Finding> {
        for (word, offset_bytes) in self.words_of(block)? {
            word.compare_exchange(0, mark.number(), Relaxed, Relaxed)
                .map_err(|other| Finding::Overlap { offset_bytes, mark: mark.number(), other })?;
        }
        Ok(())
    }

    /// Clears the granules of a block that is about to be freed.
    ///
    /// # Errors
    ///
    /// [`Finding::Lost`] if one does not carry the block's mark, [`Finding::Outside`] if one is
    /// not in the range.
    pub fn clear(&self, block: &Block, mark: Mark) -> Result<(), Finding> {
        for (word, offset_bytes) in self.words_of(block)? {
            word.compare_exchange(mark.number(), 0, Relaxed, Relaxed)
                .map_err(|other| Finding::Lost { offset_bytes, mark: mark.number(), other })?;
        }
        Ok(())
    }

    /// The words of a block, each with its granule's offset.
    fn words_of(&self, block: &Block) -> Result<impl Iterator<Item = (&AtomicU64, u64)>, Finding> {
        let outside =
            Finding::Outside { offset_bytes: block.offset_bytes(), size_bytes: block.size_bytes() };
        let index = |bytes: u64| usize::try_from(bytes / self.granule_bytes).ok();
        let words = index(block.offset_bytes())
            .zip(block.offset_bytes().checked_add(block.size_bytes()).and_then(index))
            .and_then(|(start, end)| self.words.get(start..end))
            .ok_or(outside)?;
        let offsets = (0..).map(|at| block.offset_bytes() + at * self.granule_bytes);
        Ok(words.iter().zip(offsets))
    }
}
