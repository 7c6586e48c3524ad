//! What a pool does by policy, as plain data: what it takes at its start, how it uses memory
//! again, when it gives memory back, and how it grows.
//!
//! Each choice has a test on the simulated device (`tests/policies`) that shows its effect; the
//! figures here are from there. A hit makes no call of the device under any of them.
//!
//! # Preallocation
//!
//! | choice | what it does | what it costs | what it saves | when to take it |
//! | --- | --- | --- | --- | --- |
//! | [`Nothing`](Preallocation::Nothing) (default) | grows from the first request on | a call of the device for each step: 50 up to 3 GiB | memory that is not needed | nothing is known of the program |
//! | [`Bytes`](Preallocation::Bytes) | one arena at the start | its bytes, from the start | all 50 calls; one piece instead of many | the need is known, by [`SizeHint`] or the [advice](crate::Pool::advice) of a run |
//! | [`AllBut`](Preallocation::AllBut) | all that is free, less a margin | all others' memory | as above | the device is the program's own |
//! | [`OnDemand`](Preallocation::OnDemand) | one arena at the first request | a slow first request | the start of programs that never ask | libraries |
//! | [`warms_later`](Settings::warms_later) | any of these, in parts | blocks of a part's size at most, where ranges cannot be made longer | the wait at the start | a server that is to answer soon |
//!
//! # Reuse
//!
//! | choice | what it does | what it costs | what it saves | when to take it |
//! | --- | --- | --- | --- | --- |
//! | [best fit](crate::Placement::BestFit) (default) | the smallest run that fits; small blocks in spans | 9 % of padding over sizes of all magnitudes | needs 1.18 of the peak on a mixed load | always, but for what follows |
//! | [first fit](crate::Placement::FirstFit) | the lowest run that fits | no spans: each small block takes a lock | the highest block ends at 1.3 of what is live, where the others reach 5 | the end of the memory is to go back |
//! | [buddy](crate::Placement::Buddy) | powers of two, aligned to their size | 33 % of padding; needs 1.40 of the peak | one split or merge a bit of a size | sizes are powers of two |
//! | [`tolerance_percent`](Reuse::tolerance_percent) 12 | a run that is hardly longer is given whole | blocks 2 % larger | free runs under 16 KiB: 3 instead of 47 | sizes vary a little from step to step |
//! | [`Affinity::key`] | a block goes to the request with the key that it had | 0.6 µs a pair; up to [64 MiB](Reuse::shelf_bytes) lie on shelves | 16 places for 16 layers over 100 steps, instead of 320 | buffers that are registered, or hot in a cache |
//! | [`Affinity::lifetime`] | arenas of its own for what lives long, or short | up to an arena for each lifetime and stream | half of what is kept after a trim (92 to 42 MiB) | what lives long is made amid what does not |
//!
//! # Reclaim
//!
//! | choice | what it does | what it costs | what it saves | when to take it |
//! | --- | --- | --- | --- | --- |
//! | [`Deferred::Queue`] (default) | what waits is looked after in batches | memory waits up to the bound | fences: one a stream for 100 frees | always, but for what follows |
//! | [`Deferred::AtOnce`] | at each free that has to wait | a fence and a query for each | memory is back soonest | memory is short, frees are few |
//! | [`CoolDown::Off`] (default) | a freed block serves its own stream at once | nothing | calls, waits | always, but to find faults |
//! | [`CoolDown::UntilDone`] | it rests until the host has seen its work done; a device that checks reports every use | no free is a hit; a full pool waits on the host | finds a use after a free on one stream, which is silent without it | tests, a part of a fleet |
//! | [`watermark_bytes`](Reclaim::watermark_bytes) | idle arenas above it go back at the next tick | calls to get them again | other processes' memory | loads that fall for good |
//! | [`decay`](Reclaim::decay) | the same once they were idle for a period, evenly over the next half | memory for up to two periods | a load that rises again within a period gets nothing anew: 8 calls in 20 rounds | loads that rise and fall |
//! | [`free_floor_bytes`](Reclaim::free_floor_bytes) | idle arenas go back until so much is free on the device | one question of the device a tick | others' refusals, by exactly the shortfall in whole arenas | a device shared with other processes |
//!
//! # Growth
//!
//! | choice | what it does | what it costs | what it saves | when to take it |
//! | --- | --- | --- | --- | --- |
//! | [`Steps::Fixed`] (default) | as much each time | 32 calls up to 2 GiB, by 64 MiB | at most a step lies idle | in general |
//! | [`Steps::Doubling`] | as much again as there is, within bounds | up to as much again lies idle | 6 calls | the need is large and unknown |
//! | [`Steps::AsRequested`] | what the request needs | 125 calls; many pieces | nothing lies idle (2,000 of 2,048 MiB) | few, large, lasting blocks |
//! | [`Way::InPlace`] (first) | an arena is made longer | it goes back only whole | 959 MiB in one piece serve what takes 7,666 MiB in 15 arenas | where ranges can be made longer |
//! | [`Way::Overflow`] (second) | another arena | free memory in pieces | each goes back by itself | elsewhere |
//! | [`Way::Migration`] (third, from 30 %) | movable blocks are copied together | 3 to 10 MiB copied for 16 MiB of 64; a lock or two a guard | the refusal | a fixed limit, blocks whose address is read anew at each use |
//! | [`Way::Never`] | takes a way's place | the request | the copies, or the memory | addresses are kept elsewhere |
//! | [`ahead`](Growth::ahead) (80 %, 64 MiB) | grows before it has to, at ticks and calls that are no hits | up to 64 MiB lie idle | the wait for the driver, with a thread that [keeps up](crate::Pool#method.keep_up) | always, but at an exact fit |
//! | [`short_from_bytes`](Settings::short_from_bytes) | free memory lies together from so many bytes on, as at a limit | 0.07 to 0.3 waits an operation | half of what streams reserve (736 to 384 MiB) | several streams, memory dearer than waits |
//!
//! # Pages
//!
//! | choice | what it does | what it costs | what it saves | when to take it |
//! | --- | --- | --- | --- | --- |
//! | [`Pages`] | memory goes where blocks lie, and follows what falls free, without a copy | addresses for four times the memory; at the smallest limit a page moved in 24 operations (`gnn_train`), or in 170 (`gpt2_train`) | 1.003 to 1.04 of the peak are enough where arenas need 1.016 to 1.23 | the device maps pages, and memory is dear |
//! | [`Handles::Graded`] (default) | large handles where much is taken at once | a large one moves only whole | calls of the device at the start and in large growths | in general |
//! | [`Handles::Smallest`] | every page moves by itself | a call for every page | nothing is pinned by a neighbour | under a tight limit |
//!
//! # From run to run, and pool to pool
//!
//! | choice | what it does | what it costs | what it saves | when to take it |
//! | --- | --- | --- | --- | --- |
//! | [`Pool::advice`](crate::Pool::advice) | settings for the next run, with reasons | nothing on a hit | 5 to 92 calls become one; 1.2 to 2.6 of the smallest capacity become at most 1.31 | at the end of a typical run |
//! | a [quota](crate::budget::Share::quota_bytes) | a pool never has more | refusals | others' memory | a pool that must not crowd others |
//! | a [guarantee](crate::budget::Share::guaranteed_bytes) | lent while it is not used, back on demand | the lifetime of the borrower's blocks and at most 64 of its calls | 56 of 96 MiB that a fixed division leaves idle | services beside batch work |

mod affinity;
mod growth;
mod pages;
mod preallocation;
mod reclaim;
mod reuse;
mod settings;
mod size_hint;

pub use affinity::{Affinity, Lifetime};
pub use growth::{Ahead, Growth, Steps, Way};
pub use pages::{Handles, Pages};
pub use preallocation::Preallocation;
pub use reclaim::{CoolDown, Decay, Deferred, Idle, Reclaim};
pub use reuse::Reuse;
pub use settings::Settings;
pub use size_hint::SizeHint;
