//! The client's own id of a request that makes something: a repeat with the same id and the same arguments makes
//! nothing more, and one with other arguments is refused.

use sha2::{Digest, Sha256};

/// Longest id of a request, in characters.
pub const REQUEST_ID_MAX_CHARS: usize = 64;

/// Why a client's id of a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadRequest {
    /// It is none.
    #[error("an id of a request has 1 to {REQUEST_ID_MAX_CHARS} letters, digits or _.:-")]
    Malformed,
    /// It stands for another request.
    #[error("this id was used for a request with other arguments")]
    Reused,
}

/// A client's id of a request, and a print of what was asked for under it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) id: String,
    pub(super) hash: String,
}

impl Request {
    /// Takes an id and all arguments that came with it.
    pub(super) fn new(id: &str, arguments: &[&str]) -> Result<Self, BadRequest> {
        let fits = (1..=REQUEST_ID_MAX_CHARS).contains(&id.len())
            && id
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"_.:-".contains(&b));
        if !fits {
            return Err(BadRequest::Malformed);
        }
        let mut hash = Sha256::new();
        for argument in arguments {
            // With its length before it, an argument cannot run over into the next.
            hash.update((argument.len() as u64).to_be_bytes());
            hash.update(argument.as_bytes());
        }
        Ok(Self {
            id: id.to_owned(),
            hash: hex::encode(hash.finalize()),
        })
    }

    /// Refuses the id unless it was used with the same arguments.
    pub(super) fn require_same(&self, hash: Option<&str>) -> Result<(), BadRequest> {
        if hash == Some(self.hash.as_str()) {
            Ok(())
        } else {
            Err(BadRequest::Reused)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_print_of_a_request_tells_arguments_apart() {
        let request = |arguments: &[&str]| Request::new("r-1", arguments).unwrap();
        assert_eq!(request(&["ab", "c"]), request(&["ab", "c"]));
        assert_ne!(request(&["ab", "c"]).hash, request(&["a", "bc"]).hash);
        let kept = request(&["ab"]);
        assert_eq!(request(&["ab"]).require_same(Some(&kept.hash)), Ok(()));
        assert_eq!(
            request(&["abc"]).require_same(Some(&kept.hash)),
            Err(BadRequest::Reused)
        );
    }

    #[test]
    fn an_id_of_a_request_is_short_and_plain() {
        for id in ["", "a b", "ä", &"a".repeat(65)] {
            assert_eq!(Request::new(id, &[]), Err(BadRequest::Malformed), "{id}");
        }
        assert!(Request::new(&"a".repeat(64), &[]).is_ok());
    }
}
