//! What a thread asks for next.

use fastrand::Rng;
use pool_core::Request;

/// Sizes of up to so much are small.
const SMALL_BYTES: u64 = 16 << 10;

/// One request in so many is large.
const LARGE_ONE_IN: u32 = 64;

/// One request in so many has an alignment above the granule.
const ALIGNED_ONE_IN: u32 = 64;

/// A request, and what it asks for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wish {
    pub(crate) size_bytes: u64,
    pub(crate) align_bytes: u64,
}

impl Wish {
    /// Small sizes as often in each power of two, some larger ones, some aligned.
    pub(crate) fn draw(numbers: &mut Rng, largest_bytes: u64) -> Self {
        let small_bytes = SMALL_BYTES.min(largest_bytes).max(1);
        let size_bytes = if largest_bytes > SMALL_BYTES && numbers.u32(..LARGE_ONE_IN) == 0 {
            Self::below_a_power_of_two(numbers, SMALL_BYTES, largest_bytes)
        } else {
            Self::below_a_power_of_two(numbers, 1, small_bytes)
        };
        let aligned = numbers.u32(..ALIGNED_ONE_IN) == 0;
        let align_bytes = if aligned { 1 << numbers.u32(9..=16) } else { 1 };
        Self { size_bytes, align_bytes }
    }

    /// A size between two limits, in each power of two with the same chance.
    fn below_a_power_of_two(numbers: &mut Rng, least: u64, most: u64) -> u64 {
        let power = numbers.u32(least.ilog2()..=most.ilog2());
        let floor = (1 << power).max(least);
        numbers.u64(floor..=(2 * floor - 1).min(most))
    }

    pub(crate) fn request(self) -> Request {
        Request::new(self.size_bytes).align_bytes(self.align_bytes)
    }
}
