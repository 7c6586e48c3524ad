//! What is drawn of a moment, as lines of text.

use super::{figures::Figures, ground::Ground};
use crate::row::human;

/// A figure has so many columns for its name and its value, and so many behind them.
const NAME_COLUMNS: usize = 12;
const VALUE_COLUMNS: usize = 11;
const GAP_COLUMNS: usize = 3;

/// The map has so many lines at most.
const MAP_LINES: usize = 6;

/// What each part of the addresses is drawn as, from nothing to all of it taken.
const FILLS: [char; 5] = ['·', '░', '▒', '▓', '█'];
const LEGEND: &str = "taken: · none, ░ ▒ ▓ some, █ all";
const KEYS: &str = "q ends it";

/// The lines of a frame: at most `height` of at most `width` characters.
pub(super) fn frame(
    title: &str,
    figures: &Figures,
    ground: &Ground,
    (width, height): (usize, usize),
) -> Vec<String> {
    let mut lines = vec![title.to_owned(), bar(figures, width), String::new()];
    lines.extend(columns(figures, width));
    lines.push(String::new());
    // Its head, the legend and the keys.
    let left = height.saturating_sub(lines.len() + 3);
    lines.extend(map(ground, width, left.min(MAP_LINES)));
    lines.push(KEYS.to_owned());
    lines.truncate(height);
    lines.iter().map(|line| plain(line, width)).collect()
}

/// How far the replay is, behind a bar of what that leaves of the width, at most a third.
fn bar(figures: &Figures, width: usize) -> String {
    let course = figures.course();
    let columns = width.saturating_sub(course.len() + 1).min(width / 3);
    let done = figures.done.min(figures.total) as u128;
    let whole = figures.total.max(1) as u128;
    let filled = usize::try_from(columns as u128 * done / whole).unwrap_or(columns);
    let (full, empty) = ("█".repeat(filled), "░".repeat(columns - filled));
    format!("{full}{empty} {course}")
}

/// The figures, side by side where there is room.
fn columns(figures: &Figures, width: usize) -> Vec<String> {
    let one = NAME_COLUMNS + VALUE_COLUMNS + GAP_COLUMNS;
    let side_by_side = ((width + GAP_COLUMNS) / one).max(1);
    let rows = figures.named();
    let rows = rows.chunks(side_by_side).map(|row| {
        let row =
            row.iter().map(|(name, value)| format!("{name:NAME_COLUMNS$}{value:>VALUE_COLUMNS$}"));
        row.collect::<Vec<_>>().join(&" ".repeat(GAP_COLUMNS))
    });
    rows.collect()
}

/// The map of the addresses with a head and a legend.
fn map(ground: &Ground, width: usize, most_lines: usize) -> Vec<String> {
    let shares = ground.shares(width * most_lines);
    if shares.is_empty() {
        return Vec::new();
    }
    let narrow = |bytes: u128| u64::try_from(bytes).unwrap_or(u64::MAX);
    let bytes = ground.bytes();
    let mut lines = vec![format!(
        "{} of addresses, {} a cell",
        human(narrow(bytes)),
        human(narrow(bytes / shares.len() as u128)),
    )];
    let of_line = |line: &[u32]| line.iter().map(|share| fill(*share)).collect();
    lines.extend(shares.chunks(width.max(1)).map(of_line));
    lines.push(LEGEND.to_owned());
    lines
}

/// What a share of 256ths is drawn as.
fn fill(share: u32) -> char {
    match share {
        0 => FILLS[0],
        1..86 => FILLS[1],
        86..171 => FILLS[2],
        171..256 => FILLS[3],
        _ => FILLS[4],
    }
}

/// So much of a line as fits, with nothing that a terminal would obey.
fn plain(line: &str, width: usize) -> String {
    line.chars().take(width).map(|c| if c.is_control() { '?' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::{super::figures::OfPool, *};

    fn figures() -> Figures {
        Figures {
            done: 300,
            total: 1200,
            elapsed: Duration::from_millis(2500),
            live_bytes: 48 << 20,
            reserved_bytes: 80 << 20,
            free_bytes: 24 << 20,
            largest_free_bytes: Some(16 << 20),
            failures: 0,
            pool: Some(OfPool {
                deferred_bytes: 8 << 20,
                cached_bytes: 1 << 20,
                requests: 200,
                hits: 198,
                growths: 2,
                waits: 7,
            }),
        }
    }

    fn ground() -> Ground {
        let mib = |start: u64, bytes: u64| (start << 20, bytes << 20);
        Ground {
            arenas: vec![mib(0, 40), mib(64, 40)],
            taken: vec![mib(0, 30), mib(37, 1), mib(64, 26)],
        }
    }

    #[test]
    fn frames_of_any_width() {
        for (size, lines) in [((40, 24), NARROW), ((80, 24), USUAL), ((200, 12), WIDE)] {
            let frame = frame("gpt2, on a pool", &figures(), &ground(), size);
            assert_eq!(frame, lines, "{size:?}\n{}", frame.join("\n"));
        }
    }

    const NARROW: &[&str] = &[
        "gpt2, on a pool",
        "██░░░░░░░ 300 of 1,200 operations, 2.5 s",
        "",
        "live           48.0 MiB",
        "deferred        8.0 MiB",
        "cached          1.0 MiB",
        "reserved       80.0 MiB",
        "free           24.0 MiB",
        "largest free   16.0 MiB",
        "hits             99.0 %",
        "growths               2",
        "waits                 7",
        "failures              0",
        "",
        "80.0 MiB of addresses, 341.3 KiB a cell",
        "████████████████████████████████████████",
        "████████████████████████████████████████",
        "██████████·····················███······",
        "████████████████████████████████████████",
        "██████████████████████████████████████··",
        "········································",
        "taken: · none, ░ ▒ ▓ some, █ all",
        "q ends it",
    ];
    const USUAL: &[&str] = &[
        "gpt2, on a pool",
        "██████░░░░░░░░░░░░░░░░░░░░ 300 of 1,200 operations, 2.5 s",
        "",
        "live           48.0 MiB   deferred        8.0 MiB   cached          1.0 MiB",
        "reserved       80.0 MiB   free           24.0 MiB   largest free   16.0 MiB",
        "hits             99.0 %   growths               2   waits                 7",
        "failures              0",
        "",
        "80.0 MiB of addresses, 170.7 KiB a cell",
        "████████████████████████████████████████████████████████████████████████████████",
        "████████████████████████████████████████████████████████████████████████████████",
        "████████████████████··········································██████············",
        "████████████████████████████████████████████████████████████████████████████████",
        "████████████████████████████████████████████████████████████████████████████····",
        "················································································",
        "taken: · none, ░ ▒ ▓ some, █ all",
        "q ends it",
    ];
    const WIDE: &[&str] = &[
        "gpt2, on a pool",
        "████████████████░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░ 300 of 1,200 operations, 2.5 s",
        "",
        "live           48.0 MiB   deferred        8.0 MiB   cached          1.0 MiB   reserved       80.0 MiB   free           24.0 MiB   largest free   16.0 MiB   hits             99.0 %",
        "growths               2   waits                 7   failures              0",
        "",
        "80.0 MiB of addresses, 136.5 KiB a cell",
        "████████████████████████████████████████████████████████████████████████████████████████████████████████████████████████████████████████████████████████████████████████████████████████████████████████",
        "█████████████████████████····················································▒███████···············████████████████████████████████████████████████████████████████████████████████████████████████████",
        "███████████████████████████████████████████████████████████████████████████████████████████████·········································································································",
        "taken: · none, ░ ▒ ▓ some, █ all",
        "q ends it",
    ];

    #[test]
    fn a_low_window_has_no_map() {
        let frame = frame("gpt2, on a pool", &figures(), &ground(), (80, 10));
        assert_eq!(frame.len(), 9);
        assert_eq!(frame[8], KEYS);
    }

    #[test]
    fn without_memory_there_is_no_map() {
        let frame = frame("a range", &Figures::default(), &Ground::default(), (80, 24));
        assert_eq!(
            frame,
            [
                "a range",
                "░░░░░░░░░░░░░░░░░░░░░░░░░░ 0 of 0 operations, 0.0 s",
                "",
                "live                0 B   reserved            0 B   free                0 B",
                "largest free          -   failures              0",
                "",
                "q ends it",
            ]
        );
    }

    #[test]
    fn figures_that_overflow_are_clipped_to_the_window() {
        let figures = Figures {
            done: usize::MAX,
            total: 1,
            elapsed: Duration::MAX,
            live_bytes: u64::MAX,
            reserved_bytes: u64::MAX,
            free_bytes: u64::MAX,
            largest_free_bytes: Some(u64::MAX),
            failures: u64::MAX,
            pool: Some(OfPool {
                deferred_bytes: u64::MAX,
                cached_bytes: u64::MAX,
                requests: 1,
                hits: u64::MAX,
                growths: u64::MAX,
                waits: u64::MAX,
            }),
        };
        let all = (0, u64::MAX);
        let ground = Ground { arenas: vec![all; 3], taken: vec![all] };
        for width in 0..=200 {
            for height in 0..=30 {
                let frame = frame("a name\x1b[2J", &figures, &ground, (width, height));
                assert!(frame.len() <= height);
                for line in &frame {
                    assert!(line.chars().count() <= width, "{line}");
                    assert!(!line.contains(char::is_control), "{line:?}");
                }
            }
        }
    }
}
