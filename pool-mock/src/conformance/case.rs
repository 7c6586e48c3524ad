//! A rule, and how it is tried.

use core::fmt;

use pool_core::device::Capabilities;

use super::report::Outcome;
use super::trial::Trial;
use super::world::World;
use super::{copies, fences, memory, pages, pools, streams, words};

/// One thing that every device has to do.
pub struct Case<D> {
    /// What is tried: a theme and a name, as a test has it.
    pub name: &'static str,
    /// What the device must be able to do for it to be tried.
    pub needs: Capabilities,
    /// The rule, in words.
    pub rule: &'static str,
    pub(super) run: Run<D>,
}

/// What a case does, and with what.
pub(super) enum Run<D> {
    /// It works with the device's parts.
    Parts(fn(&World<D>) -> Outcome),
    /// It has the device.
    Whole(fn(D) -> Outcome),
}

impl<D> Clone for Run<D> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<D> Copy for Run<D> {}

impl<D> Clone for Case<D> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<D> Copy for Case<D> {}

impl<D> fmt::Debug for Case<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Case").field("name", &self.name).finish_non_exhaustive()
    }
}

/// The cases of a module: each function with what it needs and the rule that it is about.
macro_rules! listed {
    ($theme:literal, $run:ident: $($function:ident, $needs:expr, $rule:literal;)*) => {
        /// The cases of this theme.
        pub(super) fn cases<D: $crate::conformance::Trial>()
            -> Vec<$crate::conformance::Case<D>> {
            use pool_core::device::Capabilities as C;
            vec![$($crate::conformance::Case {
                name: concat!($theme, "::", stringify!($function)),
                needs: { const NEEDS: &[C] = &$needs; NEEDS.iter().copied().collect() },
                rule: $rule,
                run: $crate::conformance::case::Run::$run($function),
            },)*]
        }
    };
}
pub(super) use listed;

/// All cases.
///
/// # Example
///
/// ```
/// use pool_mock::conformance::cases;
/// use pool_mock::device::SimDevice;
///
/// for case in cases::<SimDevice>() {
///     println!("{}: {}", case.name, case.rule);
/// }
/// ```
#[must_use]
pub fn cases<D: Trial>() -> Vec<Case<D>> {
    [
        words::cases(),
        memory::cases(),
        streams::cases(),
        fences::cases(),
        copies::cases(),
        pages::cases(),
        pools::cases(),
    ]
    .concat()
}
