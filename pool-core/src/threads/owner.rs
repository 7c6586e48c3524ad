//! Who may use a block again: an opaque number.

/// Whom a cached block waits for: an opaque number, by which the layer above names a stream.
///
/// A cached block serves again only requests of the owner that it was freed for; blocks of
/// [`Owner::CLEAN`] wait for nobody. That lasts while the block is cached: what goes to the centre
/// (large blocks, and those that a full or flushed cache gives back) serves anyone. Who needs more
/// makes sure before the free that a block is clean.
///
/// # Example
///
/// ```
/// use pool_core::threads::Owner;
///
/// assert_eq!(Owner::default(), Owner::CLEAN);
/// assert_ne!(Owner(7), Owner::CLEAN);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Owner(pub u32);

impl Owner {
    /// Nobody: the block is clean.
    pub const CLEAN: Self = Self(0);
}
