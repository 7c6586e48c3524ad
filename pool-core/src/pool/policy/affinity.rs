//! What a request has in common with others.

/// How long a block will live, as far as the program knows.
///
/// Blocks of each kind have memory of their own, so that one that lives long does not lie between
/// such as come and go, and hold their memory apart once they are gone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Lifetime {
    /// As most: with the blocks of requests that say nothing.
    #[default]
    Usual,
    /// For a moment: what a step of the program needs and no later one.
    Short,
    /// As long as the program, or nearly: parameters, an optimizer's state, tables.
    Long,
}

/// What a request has in common with others: a key for its element type, the layer of a model that
/// it is for, or whatever the program likes; how long its block will live; and an alignment.
///
/// A block that was freed under a key serves the next request with the same key on its stream
/// rather than others, if it is hardly larger ([`Reuse`](super::Reuse) says how much) and aligned.
///
/// # Example
///
/// ```
/// use pool_core::{Affinity, Lifetime};
///
/// let weights = Affinity::new(7).lifetime(Lifetime::Long).align_bytes(4096);
/// assert_eq!((weights.key, weights.align_bytes), (7, 4096));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Affinity {
    /// What blocks have in common that serve each other's requests.
    pub key: u32,
    /// How long the block will live.
    pub lifetime: Lifetime,
    /// The alignment of every block under this affinity: a power of two; less than a granule means a
    /// granule. The larger of this and the request's own holds.
    pub align_bytes: u64,
}

impl Affinity {
    /// A key; of usual lifetime and alignment.
    ///
    /// # Example
    ///
    /// See [`Affinity`].
    #[must_use]
    pub const fn new(key: u32) -> Self {
        Self { key, lifetime: Lifetime::Usual, align_bytes: 1 }
    }

    /// The same for blocks that live so long.
    ///
    /// # Example
    ///
    /// See [`Affinity`].
    #[must_use]
    pub const fn lifetime(mut self, lifetime: Lifetime) -> Self {
        self.lifetime = lifetime;
        self
    }

    /// The same with an alignment.
    ///
    /// # Example
    ///
    /// See [`Affinity`].
    #[must_use]
    pub const fn align_bytes(mut self, align_bytes: u64) -> Self {
        self.align_bytes = align_bytes;
        self
    }
}
