//! What text from people may look like before it is stored. Stored text is raw: escaping is for whoever shows it.

use super::fault::{Fault, Faulty};

/// Why a text is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TextError {
    /// Fewer characters than needed; blanks at both ends do not count.
    #[error("needs at least {min_chars} characters that are not blank")]
    TooShort {
        /// The argument's path as the API names it.
        argument: &'static str,
        /// The least number of characters.
        min_chars: usize,
    },
    /// More characters than there is room for.
    #[error("takes at most {max_chars} characters")]
    TooLong {
        /// The argument's path as the API names it.
        argument: &'static str,
        /// The greatest number of characters.
        max_chars: usize,
    },
    /// A NUL, which databases and C programs cut or refuse.
    #[error("holds a NUL character")]
    Nul {
        /// The argument's path as the API names it.
        argument: &'static str,
    },
    /// A character that turns the direction of the text around it, and so could fake other people's words.
    #[error("holds a character that changes the direction of text")]
    DirectionControl {
        /// The argument's path as the API names it.
        argument: &'static str,
    },
}

impl TextError {
    /// The argument's path as the API names it, for example `input.nickname`.
    pub fn argument(&self) -> &'static str {
        match self {
            Self::TooShort { argument, .. }
            | Self::TooLong { argument, .. }
            | Self::Nul { argument }
            | Self::DirectionControl { argument } => argument,
        }
    }
}

impl Faulty for TextError {
    fn fault(&self) -> Fault {
        Fault::BadInput {
            argument: self.argument(),
        }
    }
}

/// Checks a text that a person wrote; `argument` is the path that an error names.
///
/// A character is a Unicode scalar value, so a text takes at most four times `max_chars` in bytes. Emoji, joiners and
/// line breaks are allowed.
///
/// # Errors
/// When the text is too short without the blanks at its ends, too long with them, or holds a NUL or a direction control.
pub fn check_text(
    argument: &'static str,
    text: &str,
    min_chars: usize,
    max_chars: usize,
) -> Result<(), TextError> {
    if text.chars().count() > max_chars {
        return Err(TextError::TooLong {
            argument,
            max_chars,
        });
    }
    if text.contains('\0') {
        return Err(TextError::Nul { argument });
    }
    if text.contains(is_direction_control) {
        return Err(TextError::DirectionControl { argument });
    }
    if text.trim().chars().count() < min_chars {
        return Err(TextError::TooShort {
            argument,
            min_chars,
        });
    }
    Ok(())
}

/// The characters with Unicode's property `Bidi_Control`.
fn is_direction_control(c: char) -> bool {
    matches!(c, '\u{061C}' | '\u{200E}' | '\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::{TextError, check_text};

    #[test]
    fn lengths_count_characters_not_bytes() {
        assert_eq!(check_text("input.city", "河内😀", 1, 3), Ok(()));
        assert_eq!(
            check_text("input.city", "河内市区", 1, 3),
            Err(TextError::TooLong {
                argument: "input.city",
                max_chars: 3
            })
        );
    }

    #[test]
    fn blanks_alone_are_no_text() {
        let refused = Err(TextError::TooShort {
            argument: "input.nickname",
            min_chars: 1,
        });
        assert_eq!(check_text("input.nickname", " \u{3000}\n", 1, 32), refused);
        assert_eq!(check_text("input.intro", "", 0, 200), Ok(()));
    }

    #[test]
    fn nul_and_direction_controls_are_refused() {
        assert_eq!(
            check_text("a", "x\0y", 1, 9),
            Err(TextError::Nul { argument: "a" })
        );
        for control in ['\u{202E}', '\u{2066}', '\u{200F}', '\u{061C}'] {
            let text = format!("x{control}y");
            assert_eq!(
                check_text("a", &text, 1, 9),
                Err(TextError::DirectionControl { argument: "a" }),
                "{control:?}"
            );
        }
    }

    #[test]
    fn joined_emoji_pass() {
        assert_eq!(check_text("a", "👩‍👩‍👧‍👦 🏳️‍🌈\nmới", 1, 32), Ok(()));
    }
}
