//! How much of what a pool has is idle, from looks at what it uses.

use super::policy::Idle;

/// Parts of a period for each of which the most that was used is kept.
const PARTS: usize = 4;

/// After a search that found nothing, such a part of a period passes.
const RESTS: u64 = 8;

/// What was used at most in the last period, and how far what is idle has gone back.
///
/// What was not needed for a whole period is idle. From then on it goes back evenly over half a
/// period, so that all of it is gone within two, and a step is as small as looks are frequent.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Decline {
    /// The period that the marks are for.
    period: Option<Idle>,
    /// When the current part began, and the most of each part, the current one first.
    part_began: u64,
    marks: [u64; PARTS + 1],
    /// The last look.
    looked: u64,
    /// The most that was idle since something was, and what may go back by now.
    most_idle_bytes: u64,
    due_bytes: u64,
    /// When the pool last grew for want of memory: what was in use then, and what was reserved
    /// from then on. So much is needed again for as much use, as free memory lies in pieces.
    grown: (u64, u64),
    /// Before this nothing is looked for again: the last time nothing was found.
    rests_until: u64,
    /// Looks without a period.
    looks: u64,
}

impl Decline {
    /// Looks at a moment, in the unit of the period: `high_bytes` were enough since the last look.
    /// Gives what may go back now of what is above `keep_bytes`; at least `step_bytes` if any, once so
    /// many are due.
    pub(crate) fn look(
        &mut self,
        period: (Idle, u64),
        now: u64,
        high_bytes: u64,
        reserved_bytes: u64,
        (keep_bytes, step_bytes): (u64, u64),
    ) -> u64 {
        let (kind, length) = period;
        if self.period != Some(kind) {
            let grown = self.grown;
            *self =
                Self { period: Some(kind), part_began: now, looked: now, grown, ..Self::default() };
            self.marks = [reserved_bytes; PARTS + 1];
        }
        let part = (length / PARTS as u64).max(1);
        let passed = now.saturating_sub(self.part_began) / part;
        if passed > 0 {
            // What was seen now was used at some time in between: it counts for all of that.
            let parts = usize::try_from(passed).unwrap_or(usize::MAX).min(PARTS + 1);
            self.marks.rotate_right(parts % (PARTS + 1));
            self.marks.iter_mut().take(parts).for_each(|mark| *mark = high_bytes);
            self.part_began += passed * part;
        }
        if let Some(current) = self.marks.first_mut() {
            *current = (*current).max(high_bytes);
        }
        let elapsed = now.saturating_sub(self.looked);
        self.looked = self.looked.max(now);
        let used_bytes = self.marks.iter().copied().max().unwrap_or(0);
        let (at_bytes, took_bytes) = self.grown;
        let as_much = used_bytes >= at_bytes - at_bytes / 8;
        let needed_bytes = used_bytes.max(if as_much { took_bytes } else { 0 }).max(keep_bytes);
        let idle_bytes = reserved_bytes.saturating_sub(needed_bytes);
        if idle_bytes == 0 {
            (self.most_idle_bytes, self.due_bytes) = (0, 0);
            return 0;
        }
        self.most_idle_bytes = self.most_idle_bytes.max(idle_bytes);
        let share = u128::from(self.most_idle_bytes) * u128::from(elapsed)
            / u128::from((length / 2).max(1));
        let share = u64::try_from(share).unwrap_or(u64::MAX);
        // What could not go when it was due goes by and by, too.
        let most = share.saturating_mul(2).max(step_bytes);
        self.due_bytes = self.due_bytes.saturating_add(share).min(most).min(idle_bytes);
        self.due_bytes
    }

    /// Notes that the pool grew since it had too little: what was in use, and what is reserved
    /// now.
    pub(crate) fn note_growth(&mut self, used_bytes: u64, reserved_bytes: u64) {
        self.grown = (used_bytes, reserved_bytes);
    }

    /// Looks where there is no period: all that is idle may go back at once.
    pub(crate) fn look_at_once(&mut self) {
        if self.period.is_some() {
            // What was in its unit means nothing here.
            *self = Self { grown: self.grown, ..Self::default() };
        }
        self.looks += 1;
        self.looked = self.looks;
    }

    /// Whether to look for arenas at all: not soon after none was found.
    pub(crate) fn is_awake(&self) -> bool {
        self.looked >= self.rests_until
    }

    /// Notes what went back. If it was nothing, the next search is a part of the period later:
    /// what is idle lies between live blocks.
    pub(crate) fn note(&mut self, period: u64, gone_bytes: u64) {
        self.due_bytes = self.due_bytes.saturating_sub(gone_bytes);
        if gone_bytes == 0 {
            self.rests_until = self.looked.saturating_add((period / RESTS).max(1));
        }
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::*;

    const LENGTH: u64 = 1000;
    const PERIOD: (Idle, u64) = (Idle::For(Duration::from_nanos(LENGTH)), LENGTH);

    /// Gives everything back that may, at looks so far apart; when it was all gone, and the most
    /// at a time.
    fn run(apart: u64, arena: u64) -> (u64, u64) {
        let mut decline = Decline::default();
        let (mut reserved, mut largest) = (1000, 0);
        let mut now = 0;
        while now < 5000 {
            decline.look(PERIOD, now, 1000, reserved, (0, arena));
            now += apart;
        }
        let fell = now;
        while reserved > 100 {
            let due = decline.look(PERIOD, now, 100, reserved, (0, arena));
            let gone = due / arena * arena;
            reserved -= gone;
            largest = largest.max(gone);
            if due >= arena {
                decline.note(LENGTH, gone);
            }
            now += apart;
            assert!(now - fell < 4 * LENGTH, "{reserved} left");
        }
        (now - apart - fell, largest)
    }

    #[test]
    fn what_is_idle_is_gone_within_two_periods_and_in_small_steps() {
        for (apart, most) in [(10, 30), (50, 100), (100, 190), (250, 450), (500, 900), (1000, 900)]
        {
            let (time, largest) = run(apart, 10);
            assert!(time <= 2 * LENGTH, "{apart} apart: {time}");
            assert!(largest <= most, "{apart} apart: {largest} at a time");
        }
    }

    #[test]
    fn one_use_in_a_period_keeps_what_it_used() {
        let mut decline = Decline::default();
        for now in (0..20_000).step_by(10) {
            let high = if now % 900 == 0 { 800 } else { 100 };
            let due = decline.look(PERIOD, now, high, 1000, (0, 10));
            assert!(due <= 200, "{due} at {now}");
        }
    }

    #[test]
    fn what_as_much_use_took_before_stays() {
        let mut decline = Decline::default();
        decline.note_growth(500, 900);
        let mut due_at = |used, now| decline.look(PERIOD, now, used, 1000, (0, 10));
        for now in 0..50 {
            assert!(due_at(440, now * 100) <= 100, "900 were needed for 500");
        }
        for now in 50..80 {
            due_at(400, now * 100);
        }
        assert!(due_at(400, 8000) > 100, "for 400 they were not");
    }

    #[test]
    fn a_period_that_ends_leaves_nothing_behind() {
        let mut decline = Decline::default();
        decline.look(PERIOD, 1 << 40, 0, 1000, (0, 10));
        decline.note(LENGTH, 0);
        assert!(!decline.is_awake());
        decline.look_at_once();
        assert!(decline.is_awake());
        // And begins anew when it comes back: at first nothing is known to be idle.
        assert_eq!(decline.look(PERIOD, 1 << 41, 0, 1000, (0, 10)), 0);
    }

    #[test]
    fn no_time_runs_backwards_or_over() {
        let mut decline = Decline::default();
        for now in [u64::MAX, 0, 5, u64::MAX, 3] {
            assert!(decline.look(PERIOD, now, 1, u64::MAX, (0, 1)) < u64::MAX);
            decline.note(LENGTH, 0);
        }
        let none = (Idle::Requests(0), 0);
        decline.look(none, 0, 0, 10, (0, 1));
        assert_eq!(decline.look(none, 9, 0, 10, (3, 1)), 7);
    }
}
