//! The replay tool, looked on at: lines where the output is a pipe, a view on a terminal.

use std::process::{Command, Output, Stdio};

mod support;

use support::Folder;

fn replay(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_replay")).arg("--watch").args(arguments).output().unwrap()
}

#[test]
fn a_pipe_gets_lines_without_escapes() {
    for (arguments, title, known) in [
        (&[][..], "multi_stream, best-fit: ", "largest free "),
        (&["--placement", "buddy"], "multi_stream, buddy: ", "failures 0"),
        (&["--pool"], "multi_stream, on a pool: ", "hits 9"),
        (&["--pages"], "multi_stream, on a pool: ", "largest free -"),
        (&["--pool", "--threads", "3"], "multi_stream, on a pool: ", "waits "),
    ] {
        let output = replay(arguments);
        assert!(output.status.success(), "{arguments:?}");
        assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(!text.contains('\u{1b}'), "{text}");
        assert!(text.ends_with('\n'));
        for line in text.lines() {
            assert!(line.starts_with(title), "{line}");
            assert!(line.contains(" operations, ") && line.contains("reserved "), "{line}");
        }
        let last = text.lines().last().unwrap();
        let all = if arguments.contains(&"3") { "5,790" } else { "1,930" };
        assert!(last.contains(&format!(": {all} of {all} operations")), "{last}");
        assert!(last.contains(known), "{last}");
    }
}

#[test]
fn a_slow_replay_tells_how_it_goes() {
    let output = replay(&["--speed", "1000"]);
    let text = String::from_utf8(output.stdout).unwrap();
    let done = text.lines().map(|line| {
        let (_, course) = line.split_once(": ").unwrap();
        let (done, _) = course.split_once(" of ").unwrap();
        done.replace(',', "").parse::<u32>().unwrap()
    });
    let done: Vec<u32> = done.collect();
    assert!(done.len() >= 2 && done.is_sorted(), "{text}");
    // No faster than was asked for.
    assert!(done[0] < 1930, "{text}");
}

#[test]
fn refusals_and_damage_are_not_well() {
    let folder = Folder::new();
    let log = "Action,Pointer,Size,Stream\nallocate,0xa0,100000,0\nallocate,0xb0,100000,0\n";
    let path = folder.file("two.csv", log);
    let path = path.to_str().unwrap();
    let output = replay(&["--capacity", "150000", path]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stdout).contains("failures 1"));

    let output = replay(&["--speed", "recorded", path]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("the log has no times"));

    let output = replay(&["no such file"]);
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn it_is_as_slow_as_the_program_was_if_asked() {
    let folder = Folder::new();
    let log = "Thread,Time,Action,Pointer,Size,Stream\n\
               1,10:00:00.000000,allocate,0xa0,1000,0\n\
               1,10:00:01.200000,free,0xa0,1000,0\n";
    let path = folder.file("slow.csv", log);
    let output = replay(&["--speed", "recorded", "--pool", path.to_str().unwrap()]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.starts_with("slow, on a pool: 1 of 2 operations, "), "{text}");
}

#[test]
fn a_name_is_no_command() {
    let folder = Folder::new();
    let log = "Action,Pointer,Size,Stream\nallocate,0xa0,1000,0\n";
    let path = folder.file("a\u{1b}[2Jb.csv", log);
    let output = replay(&[path.to_str().unwrap()]);
    assert!(output.stdout.starts_with(b"a?[2Jb, best-fit: 1 of 1 operations"));
}

#[test]
fn a_reader_that_has_seen_enough_ends_it() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_replay"))
        .args(["--watch", "--pool", "--speed", "500"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    assert!(output.stderr.is_empty());
}

#[test]
fn what_cannot_be_watched_is_refused() {
    for arguments in [
        &["--json"][..],
        &["--find-capacity"],
        &["--placement", "all"],
        &["--pool", "--pipeline", "a.csv"],
        &["a.csv", "b.csv"],
        &["--html", "a.html"],
        &["--speed", "0"],
    ] {
        assert_eq!(replay(arguments).status.code(), Some(2), "{arguments:?}");
    }
}

#[cfg(unix)]
mod terminal {
    use core::time::Duration;
    use std::{
        io::{Read, Write},
        process::{Child, ExitStatus},
        sync::mpsc::{self, Receiver},
        thread,
    };

    use pty_process::{
        Size,
        blocking::{Command, Pts, Pty},
    };
    use rustix::{
        io::dup,
        process::{Pid, Signal, kill_process},
        termios::{LocalModes, Termios, tcgetattr},
    };

    /// What begins and ends a frame, and gives the screen back.
    const BEGIN: &str = "\u{1b}[?2026h";
    const END: &str = "\u{1b}[?2026l";
    const BACK: &str = "\u{1b}[?1049l";

    /// A test that waits for longer has failed.
    const PATIENCE: Duration = Duration::from_mins(1);

    /// The program on a terminal of its own.
    struct Session {
        pty: Pty,
        // So that what the program wrote last can be read when it has ended.
        _pts: Pts,
        before: Termios,
        child: Child,
        chunks: Receiver<Vec<u8>>,
        seen: String,
    }

    impl Session {
        fn begin(arguments: &[&str]) -> Self {
            let (pty, pts) = pty_process::blocking::open().unwrap();
            pty.resize(Size::new(24, 80)).unwrap();
            let before = tcgetattr(&pty).unwrap();
            let child = Command::new(env!("CARGO_BIN_EXE_replay"))
                .args(["--watch"].iter().chain(arguments))
                .env("TERM", "xterm-256color")
                .spawn_borrowed(&pts)
                .unwrap();
            let mut reader = std::fs::File::from(dup(&pty).unwrap());
            let (sender, chunks) = mpsc::channel();
            thread::spawn(move || {
                let mut chunk = [0; 4096];
                while let Ok(read) = reader.read(&mut chunk) {
                    if read == 0 || sender.send(chunk[..read].to_vec()).is_err() {
                        break;
                    }
                }
            });
            Self { pty, _pts: pts, before, child, chunks, seen: String::new() }
        }

        /// Reads until what was seen is as it should be.
        fn wait(&mut self, what: &str, is_so: impl Fn(&str) -> bool) {
            let mut bytes = self.seen.clone().into_bytes();
            while !is_so(&self.seen) {
                let chunk = self.chunks.recv_timeout(PATIENCE);
                bytes.extend(chunk.unwrap_or_else(|_| panic!("no {what}: {:?}", self.seen)));
                // A chunk may end within a character.
                self.seen = String::from_utf8_lossy(&bytes).into_owned();
            }
        }

        fn press(&mut self, keys: &[u8]) {
            self.pty.write_all(keys).unwrap();
        }

        /// Waits for its end; the terminal is then as it was, and the last figures are on it.
        fn end(mut self) -> ExitStatus {
            self.wait("end", |seen| {
                seen.split_once(BACK).is_some_and(|(_, after)| after.contains("failures 0\r\n"))
            });
            let status = self.child.wait().unwrap();
            let after = tcgetattr(&self.pty).unwrap();
            assert_eq!(format!("{after:?}"), format!("{:?}", self.before));
            let last = |sequence| self.seen.rfind(sequence);
            assert!(last("\u{1b}[?25h") > last("\u{1b}[?25l"), "the cursor is there");
            assert!(last("\u{1b}[?7h") > last("\u{1b}[?7l"), "lines wrap");
            status
        }
    }

    /// The lines of the last whole frame, without what the terminal obeys.
    fn frame(seen: &str) -> Vec<String> {
        let Some((whole, _)) = seen.rsplit_once(END) else { return Vec::new() };
        let Some((_, frame)) = whole.rsplit_once(BEGIN) else { return Vec::new() };
        let mut lines = Vec::new();
        for part in frame.split("\u{1b}[").skip(1) {
            let (obeyed, text) =
                part.split_at(part.find(char::is_alphabetic).map_or(part.len(), |at| at + 1));
            // A place, which is where a line begins.
            if obeyed.ends_with('H') {
                lines.push(text.to_owned());
            }
        }
        lines
    }

    fn is_frame_of(width: usize, height: usize) -> impl Fn(&str) -> bool {
        move |seen| {
            let lines = frame(seen);
            let widest = lines.iter().map(|line| line.chars().count()).max();
            let is_map = |line: &String| line.ends_with(['·', '░', '▒', '▓', '█']);
            widest == Some(width) && lines.len() <= height + 1 && lines.iter().any(is_map)
        }
    }

    #[test]
    fn a_view_is_drawn_follows_the_window_and_ends_at_q() {
        for arguments in [&["--speed", "20"][..], &["--speed", "20", "--pool"]] {
            let mut session = Session::begin(arguments);
            session.wait("frame", is_frame_of(80, 24));
            let lines = frame(&session.seen);
            assert!(lines[0].starts_with("multi_stream, "), "{lines:?}");
            assert!(lines[1].contains(" of 1,930 operations, "), "{lines:?}");
            assert!(lines.iter().any(|line| line.contains("largest free")), "{lines:?}");
            let raw = tcgetattr(&session.pty).unwrap();
            assert!(!raw.local_modes.contains(LocalModes::ICANON));

            session.pty.resize(Size::new(20, 50)).unwrap();
            session.wait("narrow frame", is_frame_of(50, 20));
            session.press(b"x");
            session.press(b"q");
            assert!(session.end().success());
        }
    }

    #[test]
    fn ctrl_c_and_signals_end_it_as_q_does() {
        let mut session = Session::begin(&["--speed", "20"]);
        session.wait("frame", is_frame_of(80, 24));
        session.press(b"\x03");
        assert!(session.end().success());

        let mut session = Session::begin(&["--speed", "20"]);
        session.wait("frame", is_frame_of(80, 24));
        kill_process(Pid::from_child(&session.child), Signal::TERM).unwrap();
        assert!(session.end().success());
    }

    #[test]
    fn a_replay_that_ends_by_itself_leaves_its_figures() {
        let session = Session::begin(&["--pages"]);
        assert!(session.end().success());
    }

    #[test]
    fn a_terminal_that_knows_nothing_gets_lines() {
        let (mut pty, pts) = pty_process::blocking::open().unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_replay"))
            .arg("--watch")
            .env("TERM", "dumb")
            .stderr(std::process::Stdio::null())
            .spawn(pts)
            .unwrap();
        assert!(child.wait().unwrap().success());
        let mut text = Vec::new();
        // Where the other side has gone, a terminal gives an error for an end.
        let _ = pty.read_to_end(&mut text);
        let text = String::from_utf8(text).unwrap();
        assert!(text.starts_with("multi_stream, best-fit: 1,930 of 1,930 operations"), "{text}");
        assert!(!text.contains('\u{1b}'), "{text}");
    }
}
