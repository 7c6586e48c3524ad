//! A request in granules, checked against the range it is made of.

use super::config::Shape;
use super::error::AllocError;
use super::request::{AT_PLACE, Options, Request};

/// What a request needs, in granules.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Need {
    /// 1 to the range's capacity.
    pub(crate) len: u64,
    /// A power of two, 1 to 2^32: an offset below that is a multiple of 2^32 granules is zero,
    /// which every alignment divides.
    pub(crate) align: u64,
    pub(crate) options: Options,
    /// A free block longer than this serves only whole; or the place that it wants.
    pub(crate) split_limit: u64,
}

impl Need {
    #[inline]
    pub(crate) fn of(request: &Request, shape: &Shape) -> Result<Self, AllocError> {
        let size_bytes = request.size_bytes;
        if size_bytes == 0 {
            return Err(AllocError::ZeroSize);
        }
        if !request.align_bytes.is_power_of_two() {
            return Err(AllocError::Alignment { align_bytes: request.align_bytes });
        }
        // Rounded up without an addition that could wrap.
        let len = ((size_bytes - 1) >> shape.granule_shift) + 1;
        if len > shape.capacity {
            let capacity_bytes = shape.bytes(shape.capacity);
            return Err(AllocError::TooLarge { size_bytes, capacity_bytes });
        }
        let align = (request.align_bytes >> shape.granule_shift).clamp(1, 1 << 32);
        let split_limit = request.split_limit_bytes >> shape.granule_shift;
        Ok(Self { len, align, options: request.options, split_limit })
    }

    /// The length of a request for no more than a size, if it is one that can fit: what most
    /// requests are.
    #[inline(always)]
    pub(crate) fn plain_len(request: &Request, shape: &Shape) -> Option<u64> {
        let plain = request.align_bytes.is_power_of_two()
            && request.align_bytes >> shape.granule_shift <= 1
            && request.options.is_empty();
        if plain { Self::len_of(request.size_bytes, shape) } else { None }
    }

    /// The length of so many bytes, if it is one that can fit.
    #[inline(always)]
    pub(crate) fn len_of(size_bytes: u64, shape: &Shape) -> Option<u64> {
        let len = (size_bytes.checked_sub(1)? >> shape.granule_shift) + 1;
        (len <= shape.capacity).then_some(len)
    }

    #[inline]
    pub(crate) fn has(&self, options: Options) -> bool {
        self.options.intersects(options)
    }

    /// Whether any run that is long enough serves it from its start.
    #[inline]
    fn is_plain(&self) -> bool {
        self.align == 1 && !self.has(Options::HIGH_END | Options::LIMIT_SPLIT)
    }

    /// Whether a free block of this length may be split for it.
    #[inline]
    pub(crate) fn may_split(&self, block_len: u64) -> bool {
        !self.has(Options::LIMIT_SPLIT) || block_len <= self.split_limit
    }

    /// The place that it is to have and no other, if it wants one.
    #[inline]
    pub(crate) fn place(&self) -> Option<u64> {
        self.has(AT_PLACE).then_some(self.split_limit)
    }

    /// A length that holds the request wherever a block of it lies. Over 2^32 if none can.
    #[inline]
    pub(crate) fn sure_len(&self) -> u64 {
        self.len + (self.align - 1)
    }

    /// Where in a free run the request would lie, if the run may and can serve it.
    #[inline]
    pub(crate) fn place_in(&self, start: u64, len: u64) -> Option<u64> {
        if self.is_plain() {
            return (len >= self.len).then_some(start);
        }
        let end = start + len;
        let at = if self.has(Options::HIGH_END) {
            let at = end.checked_sub(self.len)? & !(self.align - 1);
            if at < start {
                return None;
            }
            at
        } else {
            let at = (start + (self.align - 1)) & !(self.align - 1);
            if at + self.len > end {
                return None;
            }
            at
        };
        (len == self.len || self.may_split(len)).then_some(at)
    }
}
