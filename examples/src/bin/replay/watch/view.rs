//! A replay as it runs: slowed to its pace, and shown a few times a second.

use core::time::Duration;
use std::{
    env,
    io::{self, IsTerminal, Write},
    thread,
    time::Instant,
};

use super::{
    figures::Figures,
    frame::frame,
    ground::Ground,
    pace::Pace,
    screen::{Screen, Wish},
};

/// How long a frame stands at least on a terminal, and a line elsewhere.
const FRAME: Duration = Duration::from_millis(100);
const LINE: Duration = Duration::from_secs(1);

/// What a replay looks like at a moment. The course of it is filled in.
pub(super) type Look = (Figures, Ground);

/// Where a replay is shown, and what has become of it.
#[derive(Debug)]
pub(super) struct View {
    title: String,
    pace: Pace,
    /// The terminal; without it, lines are written.
    screen: Option<Screen>,
    total: usize,
    done: usize,
    begun: Instant,
    /// When it was shown for the last time.
    shown: Option<Instant>,
    end: Option<End>,
}

/// Why it ended before the replay did.
#[derive(Debug)]
enum End {
    Asked,
    Failed(io::Error),
}

impl View {
    /// Of a replay of so many calls, which begins now.
    pub(super) fn open(title: &str, pace: Pace, total: usize) -> io::Result<Self> {
        let is_dumb = env::var_os("TERM").is_some_and(|term| term == "dumb");
        let screen =
            if io::stdout().is_terminal() && !is_dumb { Some(Screen::open()?) } else { None };
        // A file may be called anything.
        let title = title.replace(char::is_control, "?");
        let begun = Instant::now();
        // Of lines the first comes once there is something to tell.
        let shown = screen.is_none().then_some(begun);
        Ok(Self { title, pace, screen, total, done: 0, begun, shown, end: None })
    }

    /// A call was made. Shows how things look if it is time to, and waits until the next call is due.
    pub(super) fn after(&mut self, call: usize, look: impl Fn() -> Look) {
        self.done = call + 1;
        if let Err(error) = self.keep_pace(look) {
            self.end = Some(End::Failed(error));
        }
    }

    /// Whether the replay is to end.
    pub(super) fn is_done(&self) -> bool {
        self.end.is_some()
    }

    /// Gives the terminal back, and leaves the last figures on it.
    pub(super) fn close(mut self, look: Look) -> io::Result<()> {
        if let Some(End::Failed(error)) = self.end {
            return Err(error);
        }
        self.screen = None;
        self.line(look)
    }

    fn keep_pace(&mut self, look: impl Fn() -> Look) -> io::Result<()> {
        let pause = if self.screen.is_some() { FRAME } else { LINE };
        let due = if self.done < self.total { self.pace.due(self.done) } else { Duration::ZERO };
        loop {
            let is_old = self.shown.is_none_or(|shown| shown.elapsed() >= pause);
            if is_old {
                self.show(look())?;
            }
            let left = due.saturating_sub(self.begun.elapsed());
            // To ask for keys takes far longer than a call does: with each frame is often enough.
            if is_old || !left.is_zero() {
                let stands = self.shown.map_or(Duration::ZERO, |shown| shown.elapsed());
                self.rest(left.min(pause.saturating_sub(stands)))?;
            }
            if left.is_zero() || self.is_done() {
                return Ok(());
            }
        }
    }

    /// Waits, or until there is a key or another size, if that is sooner.
    fn rest(&mut self, most: Duration) -> io::Result<()> {
        match &mut self.screen {
            None => thread::sleep(most),
            Some(screen) => match screen.wait(most)? {
                None => {}
                Some(Wish::End) => self.end = Some(End::Asked),
                Some(Wish::Redraw) => self.shown = None,
            },
        }
        Ok(())
    }

    fn show(&mut self, look: Look) -> io::Result<()> {
        if self.screen.is_none() {
            self.line(look)?;
        } else {
            let (figures, ground) = self.with_course(look);
            if let Some(screen) = &mut self.screen {
                screen.draw(&frame(&self.title, &figures, &ground, Screen::size()))?;
            }
        }
        self.shown = Some(Instant::now());
        Ok(())
    }

    fn line(&self, look: Look) -> io::Result<()> {
        let (figures, _) = self.with_course(look);
        let mut out = io::stdout().lock();
        writeln!(out, "{}: {}", self.title, figures.line())?;
        out.flush()
    }

    fn with_course(&self, (figures, ground): Look) -> Look {
        let (done, total, elapsed) = (self.done, self.total, self.begun.elapsed());
        (Figures { done, total, elapsed, ..figures }, ground)
    }
}
