//! The page: one file that has everything in it.

use std::io::{self, Write};

use base64::{engine::general_purpose::STANDARD, write::EncoderWriter};
use flate2::{Compression, write::DeflateEncoder};

use super::history::History;

/// What the page is made of. Words in double braces are put in.
const PAGE: &str = include_str!("../page/page.html");
const STYLE: &str = include_str!("../page/style.css");

/// The program of the page, in the order in which it is read.
const SCRIPTS: [&str; 14] = [
    include_str!("../page/inflate.js"),
    include_str!("../page/payload.js"),
    include_str!("../page/words.js"),
    include_str!("../page/series.js"),
    include_str!("../page/backing.js"),
    include_str!("../page/moments.js"),
    include_str!("../page/paint.js"),
    include_str!("../page/view.js"),
    include_str!("../page/timeline.js"),
    include_str!("../page/fragments.js"),
    include_str!("../page/map.js"),
    include_str!("../page/side.js"),
    include_str!("../page/keys.js"),
    include_str!("../page/main.js"),
];

/// Writes the page of a history. `out` needs no buffer.
///
/// No text of the history is in the page as it is, but for the title, which is escaped: the rest
/// is in the packed data, which is letters and digits.
///
/// # Errors
///
/// Whatever `out` refuses.
///
/// # Complexity
///
/// Linear in the events, most of it for the compression.
///
/// # Example
///
/// ```
/// let history = pool_report::History::new("<script>");
/// let mut page = Vec::new();
/// pool_report::write(&history, &mut page)?;
/// assert!(String::from_utf8_lossy(&page).contains("<title>&lt;script&gt;</title>"));
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn write(history: &History, mut out: impl Write) -> io::Result<()> {
    let mut rest = PAGE;
    while let Some((before, (word, after))) =
        rest.split_once("{{").and_then(|(before, inside)| Some((before, inside.split_once("}}")?)))
    {
        out.write_all(before.as_bytes())?;
        match word {
            "title" => out.write_all(escaped(history.title()).as_bytes())?,
            "style" => out.write_all(STYLE.as_bytes())?,
            "data" => write_data(history, &mut out)?,
            _ => SCRIPTS.iter().try_for_each(|script| out.write_all(script.as_bytes()))?,
        }
        rest = after;
    }
    out.write_all(rest.as_bytes())?;
    out.flush()
}

/// Deflated, in base64.
fn write_data(history: &History, out: &mut impl Write) -> io::Result<()> {
    let letters = EncoderWriter::new(out, &STANDARD);
    let mut packer = DeflateEncoder::new(letters, Compression::default());
    history.write(&mut packer)?;
    packer.finish()?.finish()?;
    Ok(())
}

/// A text as HTML has it.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            // No page has it.
            '\0' => escaped.push('\u{fffd}'),
            _ => escaped.push(letter),
        }
    }
    escaped
}
