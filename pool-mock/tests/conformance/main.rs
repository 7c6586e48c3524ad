//! The conformance suite: devices that do as they should pass it, and those that break one rule fail
//! at that rule.

mod broken;
mod fault;
mod faults;
mod queues;
mod simulated;
