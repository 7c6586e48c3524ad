//! Protections that can be taken out, to show that models, fuzzing and tests notice.
//!
//! They are listed where they are: `threads::sabotage`, `pool::sabotage`. Built with
//! `--cfg pool_sabotage`, as tests alone are, a program does without the one that the environment
//! variable `POOL_SABOTAGE` names; if that is not set, or empty, with all. Without this `cfg` none is
//! ever out, and the compiler removes the rest.

use crate::sync::Ordering;

/// A protection that can be taken out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Switch(&'static str);

impl Switch {
    pub(crate) const fn new(name: &'static str) -> Self {
        Self(name)
    }

    /// Whether it is taken out.
    #[cfg(not(pool_sabotage))]
    #[inline]
    pub(crate) const fn is_out(self) -> bool {
        let Self(_name) = self;
        false
    }

    /// Whether it is taken out.
    #[cfg(pool_sabotage)]
    pub(crate) fn is_out(self) -> bool {
        chosen::switch() == Some(self.0)
    }

    /// The ordering that it protects by; none if it is taken out.
    #[inline]
    pub(crate) fn or_relaxed(self, ordering: Ordering) -> Ordering {
        if self.is_out() { Ordering::Relaxed } else { ordering }
    }
}

/// Switches, each with what it takes out and its name.
macro_rules! switches {
    ($($(#[$doc:meta])* $switch:ident = $name:literal;)*) => {
        $(
            $(#[$doc])*
            pub(crate) const $switch: crate::sabotage::Switch =
                crate::sabotage::Switch::new($name);
        )*

        /// All of them.
        #[cfg(pool_sabotage)]
        pub(crate) const NAMES: &[&str] = &[$($name),*];
    };
}

pub(crate) use switches;

/// Which one the environment says.
#[cfg(pool_sabotage)]
mod chosen {
    use std::sync::OnceLock;

    /// Read once.
    pub(super) fn switch() -> Option<&'static str> {
        static CHOSEN: OnceLock<Option<&'static str>> = OnceLock::new();
        *CHOSEN.get_or_init(|| {
            let name = std::env::var("POOL_SABOTAGE").ok().filter(|name| !name.is_empty())?;
            let known = crate::threads::SWITCHES.iter().chain(crate::pool::SWITCHES);
            let found = known.copied().find(|&known| known == name);
            assert!(found.is_some(), "there is no switch '{name}'");
            found
        })
    }
}
