//! Reads PTX as far as launches need it: the kernels' names, and the sizes of their arguments.

use std::collections::HashMap;

use crate::code;

/// The kernels of a text, with the sizes of their arguments in bytes.
pub(crate) fn kernels(text: &str) -> Result<HashMap<String, Vec<usize>>, i32> {
    let text = without_comments(text);
    if !text.split_whitespace().any(|word| word == ".version") {
        return Err(code::INVALID_PTX);
    }
    text.split(".entry").skip(1).map(kernel).collect()
}

/// A kernel, from behind its `.entry` on.
fn kernel(text: &str) -> Result<(String, Vec<usize>), i32> {
    let text = text.trim_start();
    let end = text.find(|letter: char| letter.is_whitespace() || "({".contains(letter));
    let (name, rest) = text.split_at(end.ok_or(code::INVALID_PTX)?);
    let Some(list) = rest.trim_start().strip_prefix('(') else {
        return Ok((name.to_owned(), Vec::new()));
    };
    let (list, _) = list.split_once(')').ok_or(code::INVALID_PTX)?;
    let arguments = list.split(',').map(str::trim).filter(|argument| !argument.is_empty());
    let sizes = arguments.map(|argument| argument_bytes(argument).ok_or(code::INVALID_PTX));
    Ok((name.to_owned(), sizes.collect::<Result<_, _>>()?))
}

/// The size of an argument, such as `.param .align 8 .b8 place[24]`.
fn argument_bytes(argument: &str) -> Option<usize> {
    let words = argument.split_whitespace().filter_map(|word| word.strip_prefix('.'));
    let mut unit = words.filter_map(|word| {
        let digits = word.strip_prefix(['b', 'u', 's', 'f'])?;
        let bits: usize = digits.parse().ok()?;
        Some(bits / 8)
    });
    let count = argument.split_once('[').map(|(_, rest)| {
        let (count, _) = rest.split_once(']')?;
        count.trim().parse::<usize>().ok()
    });
    unit.next_back()?.checked_mul(count.unwrap_or(Some(1))?)
}

/// A text with a space for each comment.
fn without_comments(text: &str) -> String {
    let mut kept = String::new();
    let mut rest = text;
    while let Some(start) = rest.find("//").into_iter().chain(rest.find("/*")).min() {
        kept.push_str(&rest[..start]);
        kept.push(' ');
        let is_line = rest[start..].starts_with("//");
        let (from, end) = if is_line { (start, "\n") } else { (start + 2, "*/") };
        let found = rest[from..].find(end);
        rest = found.map_or("", |place| &rest[from + place + end.len()..]);
    }
    kept + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_sizes_are_found_between_comments() {
        let text = "// .entry none\n.version 7.0\n/* .entry // */ .visible .entry first(\n\
            .param .u64 a, // pointer, \n .param .align 8 .b8 b[24],\n.param .u8 c\n) { ret; }\n\
            .entry second { ret; } .entry third() {}";
        let found = kernels(text).unwrap();
        assert_eq!(found.len(), 3);
        assert_eq!(found["first"], [8, 24, 1]);
        assert_eq!((found["second"].len(), found["third"].len()), (0, 0));
    }

    #[test]
    fn what_is_no_ptx_is_refused() {
        for text in ["", ".entry a() {}", "// .version 7.0", ".version 7.0 .entry a(.param .u64"] {
            assert_eq!(kernels(text), Err(code::INVALID_PTX), "{text}");
        }
    }
}
