//! A lock-free stack of small numbers: the one way in which magazines pass between threads.
//!
//! It is Treiber's stack over a fixed array of links, so that a link that is read is always
//! there, with a tag in the head that changes at each step: a thread that slept between its look
//! at the head and its exchange fails, also if the same number is on top again (ABA). The tag
//! has 32 bits: a thread would have to sleep while exactly 2^32 steps, or a multiple, pass on one
//! stack, which at the 10^7 steps a second that one head can do takes seven minutes within one
//! look and exchange.

use super::sabotage::{PUBLISH, RECEIVE, TAG_STEP};
use crate::sync::{AtomicU32, AtomicU64, Counter, Ordering};

/// No number.
const END: u32 = u32::MAX;

const TAG: u64 = 0xFFFF_FFFF << 32;

/// Gives the cell in which an item of a stack notes the one below it.
pub(crate) trait Links {
    /// The link of an item; the item is one that was pushed.
    fn link(&self, item: u32) -> &AtomicU32;
}

/// A stack of items, which are indices into some array of links.
#[derive(Debug)]
pub(crate) struct Stack {
    /// The tag, and the item on top.
    head: AtomicU64,
}

impl Stack {
    pub(crate) fn new() -> Self {
        Self { head: AtomicU64::new(END.into()) }
    }

    /// Whether there was nothing at the time of a look.
    pub(crate) fn is_empty(&self) -> bool {
        top(self.head.load(Ordering::Relaxed)) == END
    }

    /// Puts an item on top, which is in no stack.
    pub(crate) fn push(&self, links: &(impl Links + ?Sized), item: u32, retries: &Counter) {
        let mut head = self.head.load(Ordering::Relaxed);
        loop {
            links.link(item).store(top(head), Ordering::Relaxed);
            let new = tag_after(head) | u64::from(item);
            match self.head.compare_exchange(head, new, PUBLISH, Ordering::Relaxed) {
                Ok(_) => return,
                Err(changed) => head = changed,
            }
            retries.add_shared(1);
        }
    }

    /// Takes the item on top.
    pub(crate) fn pop(&self, links: &(impl Links + ?Sized), retries: &Counter) -> Option<u32> {
        let mut head = self.head.load(RECEIVE);
        loop {
            let item = top(head);
            if item == END {
                return None;
            }
            // Somebody else may have taken the item and changed its link: then the head has
            // another tag.
            let below = links.link(item).load(Ordering::Relaxed);
            let new = tag_after(head) | u64::from(below);
            match self.head.compare_exchange(head, new, RECEIVE, RECEIVE) {
                Ok(_) => return Some(item),
                Err(changed) => head = changed,
            }
            retries.add_shared(1);
        }
    }
}

fn top(head: u64) -> u32 {
    (head & !TAG) as u32
}

fn tag_after(head: u64) -> u64 {
    (head & TAG).wrapping_add(TAG_STEP)
}
