//! The terminal while a replay is watched.

use core::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};
use std::{
    io::{self, Stdout, Write},
    sync::Arc,
    time::Instant,
};

use crossterm::{
    cursor,
    event::{self, Event, KeyCode, KeyEventKind, KeyModifiers},
    execute, queue,
    style::Print,
    terminal::{self, BeginSynchronizedUpdate, ClearType, EndSynchronizedUpdate},
};
use signal_hook::{SigId, consts::TERM_SIGNALS, flag, low_level};

/// Of a terminal that does not know its size.
const USUAL_SIZE: (u16, u16) = (80, 24);

/// The terminal's other screen, with the keys unbuffered; the terminal is as it was once this ends.
/// Signals that would end the program are wishes that it ends.
#[derive(Debug)]
pub(super) struct Screen {
    out: Stdout,
    signals: Vec<SigId>,
    is_signalled: Arc<AtomicBool>,
}

/// What the person did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wish {
    /// The replay is to end.
    End,
    /// The window has another size.
    Redraw,
}

impl Screen {
    /// Takes the terminal.
    pub(super) fn open() -> io::Result<Self> {
        terminal::enable_raw_mode()?;
        // From here on it is given back however this ends.
        let mut screen =
            Self { out: io::stdout(), signals: Vec::new(), is_signalled: Arc::default() };
        for signal in TERM_SIGNALS {
            screen.signals.push(flag::register(*signal, screen.is_signalled.clone())?);
        }
        execute!(
            screen.out,
            terminal::EnterAlternateScreen,
            terminal::DisableLineWrap,
            cursor::Hide
        )?;
        Ok(screen)
    }

    /// Columns and lines.
    pub(super) fn size() -> (usize, usize) {
        let known = terminal::size().ok().filter(|(width, height)| *width > 0 && *height > 0);
        let (width, height) = known.unwrap_or(USUAL_SIZE);
        (width.into(), height.into())
    }

    /// Shows lines in place of what was there; in one piece, so that nothing flickers.
    pub(super) fn draw(&mut self, lines: &[String]) -> io::Result<()> {
        let mut text = Vec::new();
        queue!(text, BeginSynchronizedUpdate)?;
        for (row, line) in (0..).zip(lines) {
            queue!(text, cursor::MoveTo(0, row), Print(line))?;
            queue!(text, terminal::Clear(ClearType::UntilNewLine))?;
        }
        if let Ok(row) = u16::try_from(lines.len()) {
            queue!(text, cursor::MoveTo(0, row), terminal::Clear(ClearType::FromCursorDown))?;
        }
        queue!(text, EndSynchronizedUpdate)?;
        self.out.write_all(&text)?;
        self.out.flush()
    }

    /// Waits so long for a key or another size that matters.
    pub(super) fn wait(&mut self, most: Duration) -> io::Result<Option<Wish>> {
        let begun = Instant::now();
        while event::poll(most.saturating_sub(begun.elapsed()))? {
            if let Some(wish) = wish(&event::read()?) {
                return Ok(Some(wish));
            }
        }
        Ok(self.is_signalled.load(Ordering::Relaxed).then_some(Wish::End))
    }
}

impl Drop for Screen {
    /// Gives the terminal back; where that fails, there is no terminal any more.
    fn drop(&mut self) {
        let _ = execute!(
            self.out,
            cursor::Show,
            terminal::EnableLineWrap,
            terminal::LeaveAlternateScreen
        );
        let _ = terminal::disable_raw_mode();
        for signal in self.signals.drain(..) {
            low_level::unregister(signal);
        }
    }
}

/// What an event asks for. In raw mode Ctrl-C is a key like others.
fn wish(event: &Event) -> Option<Wish> {
    match event {
        Event::Key(key) if key.kind == KeyEventKind::Release => None,
        Event::Key(key) => match key.code {
            KeyCode::Char('q' | 'Q') => Some(Wish::End),
            KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => Some(Wish::End),
            _ => None,
        },
        Event::Resize(..) => Some(Wish::Redraw),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use crossterm::event::KeyEvent;

    use super::*;

    #[test]
    fn q_and_ctrl_c_end_it_and_other_keys_do_not() {
        let key = |c, modifiers| wish(&Event::Key(KeyEvent::new(KeyCode::Char(c), modifiers)));
        assert_eq!(key('q', KeyModifiers::NONE), Some(Wish::End));
        assert_eq!(key('Q', KeyModifiers::SHIFT), Some(Wish::End));
        assert_eq!(key('c', KeyModifiers::CONTROL), Some(Wish::End));
        assert_eq!(key('c', KeyModifiers::NONE), None);
        assert_eq!(key('x', KeyModifiers::NONE), None);
        assert_eq!(wish(&Event::Resize(1, 1)), Some(Wish::Redraw));
        assert_eq!(wish(&Event::FocusLost), None);
    }
}
