//! The end of a range, moved up and down.

use super::allocator::{Free, OffsetAllocator};
use super::buddies::Buddies;
use super::error::EndError;
use super::storage::Storage;

impl<S: Storage> OffsetAllocator<S> {
    /// Adds bytes at the end of the range, a whole number of granules. Returns the new capacity.
    ///
    /// Lent storage knows as many places for spans as the range had when it was made: no span is
    /// opened beyond them.
    ///
    /// # Errors
    ///
    /// [`EndError`]; the range is as before.
    ///
    /// # Complexity
    ///
    /// As a free; under buddy placement as one for each bit of the growth.
    ///
    /// # Example
    ///
    /// ```
    /// use pool_core::{OffsetAllocator, RangeConfig};
    ///
    /// let mut range = OffsetAllocator::new(&RangeConfig::new(1 << 20))?;
    /// assert!(range.allocate(3 << 20).is_err());
    /// assert_eq!(range.grow(2 << 20)?, 3 << 20);
    /// assert!(range.allocate(3 << 20).is_ok());
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    pub fn grow(&mut self, bytes: u64) -> Result<u64, EndError> {
        self.with_metadata(|range| range.grow_by(bytes))
    }

    fn grow_by(&mut self, bytes: u64) -> Result<u64, EndError> {
        let more = self.whole_granules(bytes)?;
        let capacity = self.shape.capacity;
        let most = (1 << 32) - capacity;
        if more > most {
            return Err(EndError::TooLarge { bytes, most_bytes: self.shape.bytes(most) });
        }
        let grown = match &mut self.free {
            Free::Runs(runs, _) => runs.grow(&mut self.table, capacity, more),
            Free::Buddies(buddies) => buddies.grow(&mut self.table, capacity, more),
        };
        grown.map_err(EndError::OutOfMetadata)?;
        self.shape.capacity = capacity + more;
        Ok(self.capacity_bytes())
    }

    /// Takes bytes away from the end of the range, a whole number of granules, if they are free.
    /// Returns the new capacity, at least one granule.
    ///
    /// # Errors
    ///
    /// [`EndError`]; the range is as before.
    ///
    /// # Complexity
    ///
    /// As a free; under buddy placement as one for each bit of the capacity.
    ///
    /// # Example
    ///
    /// ```
    /// use pool_core::{EndError, OffsetAllocator, RangeConfig};
    ///
    /// let mut range = OffsetAllocator::new(&RangeConfig::new(3 << 20))?;
    /// let block = range.allocate(1 << 20)?;
    /// assert_eq!(range.shrink(1 << 20)?, 2 << 20);
    /// let in_use = EndError::InUse { bytes: 3 << 19, free_bytes: 1 << 20 };
    /// assert_eq!(range.shrink(3 << 19), Err(in_use));
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    pub fn shrink(&mut self, bytes: u64) -> Result<u64, EndError> {
        self.with_metadata(|range| range.shrink_by(bytes))
    }

    fn shrink_by(&mut self, bytes: u64) -> Result<u64, EndError> {
        let less = self.whole_granules(bytes)?;
        let capacity = self.shape.capacity;
        let tail = self.free_tail().min(capacity - 1);
        if less > tail {
            return Err(EndError::InUse { bytes, free_bytes: self.shape.bytes(tail) });
        }
        match &mut self.free {
            Free::Runs(runs, spans) => {
                let run = self.table.free_neighbour(self.table.chain.last);
                let run_len = run.map_or(0, |run| self.table.storage.node(run).len());
                if less > run_len
                    && let Some(span) = spans.close_empty(&mut self.table)
                {
                    runs.release_span(&mut self.table, span);
                }
                runs.shrink(&mut self.table, less);
            }
            Free::Buddies(buddies) => {
                buddies.shrink(&mut self.table, capacity, less).map_err(EndError::OutOfMetadata)?;
            }
        }
        self.shape.capacity = capacity - less;
        Ok(self.capacity_bytes())
    }

    /// Makes a call again with the metadata that it lacked, as long as there are more to be had.
    fn with_metadata(
        &mut self,
        call: impl Fn(&mut Self) -> Result<u64, EndError>,
    ) -> Result<u64, EndError> {
        loop {
            match call(self) {
                Err(EndError::OutOfMetadata(missing)) if self.add_metadata(missing) => {}
                result => return result,
            }
        }
    }

    fn whole_granules(&self, bytes: u64) -> Result<u64, EndError> {
        match bytes >> self.shape.granule_shift {
            0 => Err(EndError::BelowGranule { bytes, granule_bytes: self.granule_bytes() }),
            granules => Ok(granules),
        }
    }

    /// Free granules at the end of the range.
    fn free_tail(&self) -> u64 {
        match &self.free {
            Free::Runs(_, spans) => {
                let end = self.shape.capacity;
                if let Some((start, run_end)) = Self::run_over_empty_span(&self.table, spans)
                    && run_end == end
                {
                    return end - start;
                }
                let run = self.table.free_neighbour(self.table.chain.last);
                run.map_or(0, |run| self.table.storage.node(run).len())
            }
            Free::Buddies(_) => Buddies::free_tail(&self.table),
        }
    }
}
