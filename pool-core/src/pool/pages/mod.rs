//! Memory in pages: physical memory goes where blocks lie, and what falls free elsewhere follows.
//!
//! The pool has one range of addresses, of which the device gives no memory by itself. What no memory
//! is behind is *bare*: a piece of the space that keeps the addresses, in which nothing is placed.
//! All else is as in any arena, so a hit knows nothing of pages. Only when nothing free serves a
//! request, pages are put behind addresses, or moved.
//!
//! | module | its one job |
//! | --- | --- |
//! | `table` | [`Paging`]: which handles of memory there are, and where |
//! | `window` | the addresses for a block that need the fewest pages |
//! | `draft` | what is to be done for a request: taken, under the lock, out of everybody's way |
//! | `front` | where the memory of a stream that grows for itself alone goes on |
//! | `moves` | when pages are moved though new ones could be had |
//! | `carry` | does it, call by call, with no lock held; undoes what was done if one fails |
//! | `keeper` | the space that keeps the addresses |
//! | `release` | pages that go back to the device |
//! | `sleep` | all of them, while addresses and blocks stay |

mod carry;
mod draft;
mod front;
mod keeper;
mod moves;
mod release;
mod sleep;
mod table;
mod window;

pub(super) use release::Amount;
pub(super) use table::Paging;
