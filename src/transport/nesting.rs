//! How deep brackets stand in each other in a document, counted before the parser sees it: the parser recurses with
//! each of them, and a kilobyte of brackets is deeper than a thread's stack. Where a document is no GraphQL the count
//! means nothing; the parser says so then, without recursing.

/// Brackets in each other; the introspection of GraphiQL has 17.
pub(super) const DEEPEST: usize = 64;

/// The most brackets of any kind that are open at once. Those in strings and comments do not count.
pub(super) fn depth(document: &str) -> usize {
    let (mut rest, mut open, mut deepest) = (document, 0_usize, 0);
    while let Some(first) = rest.chars().next() {
        let taken = match first {
            '"' => string_length(rest),
            '#' => rest.find(['\n', '\r']).unwrap_or(rest.len()),
            _ => first.len_utf8(),
        };
        match first {
            '{' | '[' | '(' => open += 1,
            '}' | ']' | ')' => open = open.saturating_sub(1),
            _ => {}
        }
        deepest = Ord::max(deepest, open);
        rest = &rest[taken..];
    }
    deepest
}

/// Bytes of the string that a text begins with, its quotes included. One that does not end on its line ends with it: the
/// parser refuses it.
fn string_length(text: &str) -> usize {
    if let Some(block) = text.strip_prefix("\"\"\"") {
        let ends = block.match_indices("\"\"\"");
        let end = ends
            .map(|(at, _)| at)
            .find(|at| !block[..*at].ends_with('\\'));
        return end.map_or(text.len(), |at| at + 6);
    }
    let mut is_escaped = false;
    for (at, char) in text.char_indices().skip(1) {
        match char {
            '\n' | '\r' => return at,
            '"' if !is_escaped => return at + 1,
            _ => is_escaped = char == '\\' && !is_escaped,
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brackets_of_all_kinds_count_together() {
        assert_eq!(depth(""), 0);
        assert_eq!(depth("{ a b { c } }"), 2);
        assert_eq!(depth("{ a(b: [{ c: [1] }]) { d } e { f } }"), 5);
        assert_eq!(depth("query($a: [[Int]] = [[1]]) { a }"), 3);
        assert_eq!(depth("}}}{"), 1);
        assert_eq!(depth(&"[".repeat(10_000)), 10_000);
    }

    #[test]
    fn brackets_in_strings_and_comments_do_not() {
        assert_eq!(depth(r#"{ a(b: "[[[[") }"#), 2);
        assert_eq!(depth(r#"{ a(b: "\"[[[[", c: "\\", d: [1]) }"#), 3);
        assert_eq!(depth("{ a(b: \"\"\"[[ \" [[ \\\"\"\" [[\n[[\"\"\") }"), 2);
        assert_eq!(depth("{ # [[[[ \" \n a # ]]]]\r b { c } }"), 2);
        assert_eq!(depth("{ a(b: \"é[\") { c } }"), 2);
    }

    #[test]
    fn what_only_looks_like_a_string_hides_nothing() {
        // Empty, then a bracket; a string that does not end on its line; a block that does not end.
        assert_eq!(depth(r#"{ a(b: "", c: [[1]]) }"#), 4);
        assert_eq!(depth("{ a(b: \"x\n [[1]]) }"), 4);
        assert_eq!(depth("{ a(b: \"\"\"[[1]]"), 2);
        assert_eq!(depth("{ # \"\n a(b: [[1]]) }"), 4);
    }
}
