//! Where a range keeps its nodes and the tables of its spans: lent by the caller, or chunks
//! from the heap.

use super::config::Shape;
use super::error::Metadata;
use super::node::Node;

mod borrowed;
#[cfg(feature = "alloc")]
mod chunked;

pub use borrowed::Borrowed;
#[cfg(feature = "alloc")]
pub use chunked::Chunked;

/// No span.
pub(crate) const NO_SPAN: u32 = u32::MAX;

/// Where metadata is kept: [`Borrowed`] or, with the feature `alloc`, `Chunked`.
///
/// Sealed: the engine relies on its exact behaviour.
pub trait Storage: sealed::Tables {}

impl<S: sealed::Tables> Storage for S {}

pub(crate) mod sealed {
    use super::{Metadata, Node, Shape};

    /// Nodes by index. Indices come from the nodes themselves, so that one out of bounds is a
    /// fault of this crate.
    pub trait Nodes {
        fn node(&self, index: u32) -> &Node;

        fn node_mut(&mut self, index: u32) -> &mut Node;

        /// How many nodes there are.
        fn count(&self) -> u32;
    }

    impl Nodes for [Node] {
        #[inline(always)]
        fn node(&self, index: u32) -> &Node {
            &self[index as usize]
        }

        #[inline(always)]
        fn node_mut(&mut self, index: u32) -> &mut Node {
            &mut self[index as usize]
        }

        #[inline(always)]
        fn count(&self) -> u32 {
            self.len() as u32
        }
    }

    /// The tables behind a range.
    pub trait Tables: Nodes {
        /// Whether [`replenish`](Self::replenish) can help.
        const GROWS: bool;

        /// All nodes as one slice, if they are: the way that a request takes, in which a node
        /// is found in one step.
        fn slice(&mut self) -> Option<&mut [Node]>;

        /// How many spans there are tables for.
        fn span_slots(&self) -> u32;

        /// The words of the span in a slot, as many as the shape says.
        fn span(&self, slot: u32) -> &[u64];

        fn span_mut(&mut self, slot: u32) -> &mut [u64];

        /// Whether the map can name the span in a place, counted from offset zero.
        fn has_span_place(&self, place: u32) -> bool;

        /// The slot of the span in a place, or `NO_SPAN`.
        fn span_at(&self, place: u32) -> u32;

        /// Of a place that the map can name.
        fn set_span_at(&mut self, place: u32, slot: u32);

        /// Adds what is missing. False if it cannot be had: everything is as before.
        fn replenish(&mut self, shape: &Shape, missing: Metadata) -> bool;
    }
}
