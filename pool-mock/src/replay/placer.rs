//! What an allocator must do to be replayed on.

/// An allocator that a [`Script`](super::Script) can be replayed on.
///
/// # Example
///
/// ```
/// use pool_mock::replay::Placer;
///
/// /// Hands out offsets in a row and takes none back.
/// struct Bump {
///     next: u64,
///     capacity: u64,
/// }
///
/// impl Placer for Bump {
///     type Block = u64;
///
///     fn place(&mut self, granules: u64) -> Option<u64> {
///         let end = self.next.checked_add(granules).filter(|end| *end <= self.capacity)?;
///         Some(std::mem::replace(&mut self.next, end))
///     }
///
///     fn release(&mut self, _block: u64) {}
/// }
///
/// let mut bump = Bump { next: 0, capacity: 10 };
/// assert_eq!(bump.place(6), Some(0));
/// assert_eq!(bump.place(6), None);
/// ```
pub trait Placer {
    /// What names a live block.
    type Block;

    /// Serves a request of `granules`, at least one; `None` refuses it.
    fn place(&mut self, granules: u64) -> Option<Self::Block>;

    /// Takes back a block that [`place`](Self::place) handed out and that is live.
    fn release(&mut self, block: Self::Block);
}

/// A [`Placer`] that says where its blocks lie.
pub trait Locate: Placer {
    /// Where a live block lies, at its usable size.
    fn locate(&self, block: &Self::Block) -> Extent;
}

/// A stretch of a range, in granules.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Extent {
    /// Its first granule.
    pub offset_granules: u64,
    /// Its length.
    pub granules: u64,
}

impl Extent {
    /// The first granule behind it.
    ///
    /// ```
    /// use pool_mock::replay::Extent;
    ///
    /// assert_eq!(Extent { offset_granules: 3, granules: 4 }.end_granules(), 7);
    /// ```
    #[must_use]
    pub fn end_granules(&self) -> u64 {
        self.offset_granules.saturating_add(self.granules)
    }
}
