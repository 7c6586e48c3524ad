//! Faults on demand: which call is to fail, and with what.

use std::collections::BTreeMap;

use pool_core::device::Call;

use super::error::SimError;

/// How a call fails on demand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Fault {
    /// The call fails, and another may succeed.
    #[default]
    Plain,
    /// The device says that it has no memory.
    OutOfMemory,
    /// The call fails, and no other succeeds any more.
    Fatal,
}

/// What is to fail.
#[derive(Debug, Default)]
pub(super) struct Faults {
    fault: Fault,
    /// The number of the call that fails.
    at: Option<u64>,
    /// Kinds that fail, and how often still; `None`: always.
    kinds: BTreeMap<Call, Option<u64>>,
    /// How many were injected.
    injected: u64,
}

impl Faults {
    pub(super) const fn fail_with(&mut self, fault: Fault) {
        self.fault = fault;
    }

    pub(super) const fn fail_at(&mut self, number: u64) {
        self.at = Some(number);
    }

    pub(super) fn fail_kind(&mut self, call: Call, times: Option<u64>) {
        self.kinds.insert(call, times);
    }

    pub(super) fn clear(&mut self) {
        self.at = None;
        self.kinds.clear();
    }

    pub(super) const fn injected(&self) -> u64 {
        self.injected
    }

    /// The error that this call is to fail with.
    pub(super) fn strike(&mut self, call: Call, number: u64) -> Option<SimError> {
        if self.at == Some(number) {
            self.at = None;
        } else {
            match self.kinds.get_mut(&call)? {
                None => {}
                Some(0) => return None,
                Some(times) => *times -= 1,
            }
        }
        self.injected += 1;
        Some(match self.fault {
            Fault::Plain => SimError::Injected { call, number },
            Fault::OutOfMemory => SimError::InjectedOutOfMemory { call, number },
            Fault::Fatal => SimError::Fatal,
        })
    }
}
