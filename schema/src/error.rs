//! How trouble is shown: a message for people and `extensions.code` for programs. Three families: the caller's
//! fault, try later, ours.

use async_graphql::{Error, ErrorExtensions};
use domain::infra::fault::{Fault, Faulty, RETRY_AFTER};

/// Shows an error of the domain; what is ours is logged here, once, and shown without detail.
pub fn api_error(error: impl Faulty) -> Error {
    fault_error(&error)
}

/// As `api_error`, for an error that is kept.
pub fn fault_error(error: &impl Faulty) -> Error {
    let retry = |code, message: String, after: std::time::Duration| {
        let retry_after_ms = u64::try_from(after.as_millis()).unwrap_or(u64::MAX);
        coded(code, message).extend_with(|_, e| e.set("retryAfterMs", retry_after_ms))
    };
    match error.fault() {
        Fault::Unauthenticated => unauthenticated(),
        Fault::Forbidden => coded("FORBIDDEN", error.to_string()),
        Fault::NotFound => coded("NOT_FOUND", error.to_string()),
        Fault::BadInput { argument } => bad_input(argument, error.to_string()),
        Fault::RateLimited { retry_after } => retry("RATE_LIMITED", error.to_string(), retry_after),
        Fault::TryLater { retry_after } => retry("TRY_LATER", error.to_string(), retry_after),
        Fault::Busy { retry_after } => {
            tracing::debug!(error = %error, "a request met others at a row");
            retry(
                "TRY_LATER",
                "busy right now; try again".to_owned(),
                retry_after,
            )
        }
        Fault::Unavailable => {
            tracing::warn!(error = %error, "a request failed because a store is away");
            let message = "a part of the service is away".to_owned();
            retry("UNAVAILABLE", message, RETRY_AFTER)
        }
        Fault::Internal => {
            tracing::error!(error = %error, "a request failed");
            coded("INTERNAL", "internal error")
        }
    }
}

/// An error with a code.
pub fn coded(code: &'static str, message: impl Into<String>) -> Error {
    Error::new(message).extend_with(|_, e| e.set("code", code))
}

/// An argument is wrong; `argument` is its path.
pub fn bad_input(argument: &str, message: impl Into<String>) -> Error {
    coded("BAD_INPUT", message).extend_with(|_, e| e.set("argument", argument))
}

/// Nobody is signed in.
pub fn unauthenticated() -> Error {
    coded("UNAUTHENTICATED", "sign in first")
}

/// The viewer may not do this.
pub fn forbidden() -> Error {
    coded("FORBIDDEN", "you may not do this")
}

/// No such thing, or not one the viewer may know of.
pub fn not_found() -> Error {
    coded("NOT_FOUND", "no such thing")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Stores(Fault);

    impl std::error::Error for Stores {}

    impl std::fmt::Display for Stores {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("1205 (HY000): Lock wait timeout exceeded")
        }
    }

    impl Faulty for Stores {
        fn fault(&self) -> Fault {
            self.0
        }
    }

    #[test]
    fn the_words_of_a_store_are_not_for_the_caller() {
        let retry_after = RETRY_AFTER;
        for (fault, code) in [
            (Fault::Busy { retry_after }, "\"TRY_LATER\""),
            (Fault::Unavailable, "\"UNAVAILABLE\""),
            (Fault::Internal, "\"INTERNAL\""),
        ] {
            let shown = api_error(Stores(fault));
            assert!(!shown.message.contains("1205"), "{}", shown.message);
            let extensions = shown.extensions.unwrap();
            assert_eq!(extensions.get("code").unwrap().to_string(), code);
            let waits = extensions.get("retryAfterMs").is_some();
            assert_eq!(waits, fault != Fault::Internal);
        }
    }
}
