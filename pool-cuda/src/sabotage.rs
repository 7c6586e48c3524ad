//! Protections that can be taken out, to show that the models notice.
//!
//! Built with `--cfg pool_sabotage`, as models alone are, a program does without the one that the
//! environment variable `POOL_SABOTAGE` names. Without this `cfg` none is ever out, and the compiler
//! removes the rest.

use crate::sync::Ordering;

/// A protection that can be taken out.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Switch {
    /// What was done with a pool is not seen behind the count of a buffer. (`relaxed_count`)
    Count,
    /// What was done under a lock is not seen by who takes it next. (`relaxed_leave`)
    Leave,
    /// The frequent side makes no fence. (`skipped_light_fence`)
    Light,
    /// The rare side makes no fence. (`skipped_heavy_fence`)
    Heavy,
    /// Nobody is told that a handle is about to be unmapped. (`unmarked_leaving`)
    Leaving,
    /// A handle that could not be unmapped is not opened to who came meanwhile. (`skipped_late`)
    Late,
}

impl Switch {
    /// Whether it is taken out.
    #[inline]
    pub(crate) fn is_out(self) -> bool {
        #[cfg(pool_sabotage)]
        {
            let name = match self {
                Self::Count => "relaxed_count",
                Self::Leave => "relaxed_leave",
                Self::Light => "skipped_light_fence",
                Self::Heavy => "skipped_heavy_fence",
                Self::Leaving => "unmarked_leaving",
                Self::Late => "skipped_late",
            };
            std::env::var("POOL_SABOTAGE").is_ok_and(|chosen| chosen == name)
        }
        #[cfg(not(pool_sabotage))]
        {
            let _ = self;
            false
        }
    }

    /// The ordering that it protects by; none if it is taken out.
    #[inline]
    pub(crate) fn or_relaxed(self, ordering: Ordering) -> Ordering {
        if self.is_out() { Ordering::Relaxed } else { ordering }
    }
}
