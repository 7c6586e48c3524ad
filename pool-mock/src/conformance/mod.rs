//! Whether a device does what [`Device`](pool_core::device::Device) says: a list of cases that any
//! device can be put through.
//!
//! What `Device` offers is not enough to tell: a fence that is done too early looks like any other
//! until somebody looks at the bytes. So the device's author writes a second small trait, [`Trial`]:
//! slow work that marks bytes, and a look at them. Then one line is the whole suite:
//!
//! ```
//! use pool_mock::conformance;
//! use pool_mock::device::{SimConfig, SimDevice};
//!
//! conformance::check(|| SimDevice::new(SimConfig::new().memory_bytes(1 << 30))).unwrap();
//! ```
//!
//! With libtest-mimic, or whatever else lists tests, each of [`cases`] is one:
//!
//! ```
//! use pool_mock::conformance::{Suite, Verdict, cases};
//! use pool_mock::device::{SimConfig, SimDevice};
//!
//! for case in cases::<SimDevice>() {
//!     let device = SimDevice::new(SimConfig::new().memory_bytes(1 << 30));
//!     let verdict = Suite::new().run_case(case, move || device);
//!     assert!(!matches!(verdict, Verdict::Broken(_)), "{}: {verdict}", case.name);
//! }
//! ```
//!
//! A case that does not end is a broken rule, too: it is given up after a while.
//!
//! | module | its one job |
//! | --- | --- |
//! | `trial` | [`Trial`], [`Pace`]: what a device is tried with |
//! | `suite` | [`Suite`]: runs cases, and none for ever |
//! | `case` | [`Case`]: a rule, and what it needs |
//! | `report` | [`Report`], [`Verdict`], [`Breach`]: what came of it |
//! | `world` | what a case works with, and gives back |
//! | `words`, `memory`, `streams`, `fences`, `copies`, `pages`, `pools` | the cases, by what they are about |
//! | `simulated` | the simulated device's own [`Trial`] |

mod case;
mod copies;
mod fences;
mod memory;
mod pages;
mod pools;
mod report;
mod simulated;
mod streams;
mod suite;
mod trial;
mod words;
mod world;

pub use case::{Case, cases};
pub use report::{Breach, Nonconforming, Report, Verdict};
pub use suite::{Suite, check};
pub use trial::{Pace, Trial};
