//! What the benchmarks share: other allocators behind pool-mock's `Placer`, and the programs that
//! are run on all of them.

pub mod churn;
pub mod contest;
pub mod crowd;
pub mod foreign;
pub mod ours;
pub mod subject;
pub mod table;
pub mod visits;
