//! What a pool does by policy, as plain data: what it takes at its start, how it uses memory
//! again, when it gives memory back, and how it grows.

mod affinity;
mod growth;
mod preallocation;
mod reclaim;
mod reuse;
mod settings;
mod size_hint;

pub use affinity::{Affinity, Lifetime};
pub use growth::{Ahead, Growth, Steps, Way};
pub use preallocation::Preallocation;
pub use reclaim::{CoolDown, Decay, Deferred, Idle, Reclaim};
pub use reuse::Reuse;
pub use settings::Settings;
pub use size_hint::SizeHint;
