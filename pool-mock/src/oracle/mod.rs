//! The reference that a range is judged by: a slow model with a map of every granule.
//!
//! A [`Case`] is the shape of a range and a list of operations. [`check`] drives a real
//! [`OffsetAllocator`](pool_core::OffsetAllocator) and the model through it and answers with the
//! first [`Discrepancy`]. The model derives free blocks from its own map and the list of spans,
//! never from what the range says is free, so a block that the range has lost is found missing.
//!
//! [`decode`] turns any bytes into a case: the same interpreter serves cargo-fuzz, property tests
//! and hand-written sequences.
//!
//! # Example
//!
//! ```
//! use pool_mock::oracle::{check, Case, Operation, Shape, Size, Verify};
//!
//! let case = Case {
//!     shape: Shape::new(324),
//!     operations: vec![
//!         Operation::allocate(Size::Granules(255)),
//!         Operation::allocate(Size::Granules(67)),
//!     ],
//! };
//! let summary = check(&case, Verify::EachStep)?;
//! assert_eq!(summary.served, 3, "these, and the whole range at the end");
//! # Ok::<(), pool_mock::oracle::Discrepancy>(())
//! ```

mod check;
mod discrepancy;
mod drive;
mod generate;
mod model;
mod operation;
mod shape;
mod subject;

pub use check::{Summary, Verify, check};
pub use discrepancy::{Discrepancy, Finding};
pub use generate::{RECORD_BYTES, SHAPE_BYTES, decode};
pub use model::{Demand, Model, Promise, Stretch};
pub use operation::{Case, Forgery, Operation, Size};
pub use shape::{NodeBudget, Shape, Storage};
