//! The device under a pool: what any accelerator's runtime can offer.
//!
//! | module | its one job |
//! | --- | --- |
//! | `traits` | [`Device`]: the calls that a pool makes |
//! | `capabilities` | [`Capabilities`]: which of them a device has |
//! | `failure` | [`Failure`], [`Severity`]: calls that did not do what they should |
//! | [`guide`] | how to write one |

mod capabilities;
mod failure;
pub mod guide {
    #![doc = include_str!("guide.md")]
}
mod traits;

pub use capabilities::Capabilities;
pub use failure::{Call, Failure, Severity};
pub use traits::{Device, MemoryInfo};
