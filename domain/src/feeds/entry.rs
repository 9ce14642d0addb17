//! A note as feeds know it: when, which, whose. Its words are in `blogs`.

use std::fmt;

use crate::blogs::{BlogId, BlogKey};
use crate::users::UserId;

/// Hexadecimal digits of a time: enough for some thousand years.
const TIME_DIGITS: usize = 12;
/// Hexadecimal digits of an id.
const ID_DIGITS: usize = 16;

/// A note as feeds know it, ordered as they are: by time, then by note.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Entry {
    pub(super) created_at: i64,
    pub(super) blog: BlogId,
    pub(super) author: UserId,
}

impl Entry {
    pub(super) fn new((blog, author, created_at): (i64, i64, i64)) -> Self {
        Self {
            created_at,
            blog: BlogId(blog),
            author: UserId(author),
        }
    }

    /// Reads it as an inbox holds it; `None` when that is none.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let number = |from: usize, digits: usize| {
            i64::from_str_radix(text.get(from..from + digits)?, 16).ok()
        };
        Some(Self {
            created_at: number(0, TIME_DIGITS)?,
            blog: BlogId(number(TIME_DIGITS, ID_DIGITS)?),
            author: UserId(number(TIME_DIGITS + ID_DIGITS, ID_DIGITS)?),
        })
    }

    pub(super) fn key(&self) -> BlogKey {
        BlogKey {
            created_at: self.created_at,
            id: self.blog,
        }
    }
}

/// As an inbox holds it: its bytes have the order of entries.
impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{:016x}", beginning(&self.key()), self.author.0)
    }
}

/// What the entry of a note begins with, whoever wrote it: everything older is below it.
pub(super) fn beginning(key: &BlogKey) -> String {
    format!("{:012x}{:016x}", key.created_at, key.id.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bytes_of_entries_have_their_order() {
        let numbers = [
            (1, 9, 5),
            (2, 1, 5),
            (i64::MAX, 1, 5),
            (1, i64::MAX, 6),
            (3, 3, 1_800_000_000_000),
        ];
        let entries = numbers.map(Entry::new);
        let texts = entries.map(|entry| entry.to_string());
        assert!(entries.is_sorted() && texts.is_sorted());
        for (entry, text) in entries.iter().zip(&texts) {
            assert_eq!(Entry::parse(text).as_ref(), Some(entry));
            assert!(*text > beginning(&entry.key()));
        }
        assert!(texts[0] < beginning(&entries[1].key()));
        assert_eq!(Entry::parse("!token"), None);
        assert_eq!(Entry::parse(""), None);
    }
}
