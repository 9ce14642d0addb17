//! Errors as clients see them: each with a code, none longer than a screen, nothing of ours inside. What the domain's
//! own errors say is `schema::error`.

use async_graphql::{ErrorExtensionValues, Response, ServerError, Value};
use domain::infra::fault::Faulty;
use schema::context::RequestMeta;

/// Characters of a message; the parser would quote the whole query.
const LONGEST_MESSAGE: usize = 300;
/// A query of nothing but mistakes has as many errors as fields.
const MOST_ERRORS: usize = 20;
const INTERNAL: &str = "something went wrong on our side";

/// An answer that only says what went wrong before anything ran.
pub(super) fn refusal(code: &str, message: &str) -> Response {
    Response::from_errors(vec![coded(code, message)])
}

/// What a client is told about a bug of ours.
pub(super) fn internal(meta: &RequestMeta) -> Response {
    let mut error = coded("INTERNAL", INTERNAL);
    extend(&mut error, "requestId", meta.request_id.as_str());
    Response::from_errors(vec![error])
}

/// What a client is told whose answer takes too long.
pub(super) fn try_later() -> Response {
    let mut error = coded(
        "TRY_LATER",
        "the answer takes too long; what was asked for may still happen",
    );
    extend(&mut error, "retryAfterMs", 1000);
    Response::from_errors(vec![error])
}

/// An error of the domain, as `schema` shows it.
pub(super) fn of_domain(error: &impl Faulty) -> Response {
    let error = schema::error::fault_error(error);
    let mut shown = ServerError::new(error.message, None);
    shown.extensions = error.extensions;
    Response::from_errors(vec![shown])
}

/// A document that cannot be read: the position is kept, the quoted query is not.
pub(super) fn unreadable(error: ServerError) -> Response {
    let expected = error
        .message
        .lines()
        .rev()
        .find_map(|line| line.trim().strip_prefix("= "));
    let message = format!(
        "the document cannot be read: {}",
        expected.unwrap_or("syntax error")
    );
    let mut shown = coded("BAD_INPUT", &message);
    shown.locations = error.locations;
    Response::from_errors(vec![shown])
}

/// Gives every error its code and cuts it to size. An error that nobody gave a code is ours, unless it is the
/// library's word about the request itself.
pub(super) fn shape(mut response: Response, meta: &RequestMeta) -> Response {
    response.errors.truncate(MOST_ERRORS);
    for error in &mut response.errors {
        match code_of(error) {
            Some("INTERNAL") => extend(error, "requestId", meta.request_id.as_str()),
            Some(_) => {}
            None if is_about_the_request(error) => {
                let code = if is_about_size(error) {
                    "TOO_COMPLEX"
                } else {
                    "BAD_INPUT"
                };
                extend(error, "code", code);
                if let Some(argument) = wrong_argument(&error.message) {
                    extend(error, "argument", argument);
                }
            }
            None => {
                tracing::error!(
                    request.id = meta.request_id,
                    trace.id = meta.trace_id,
                    error = error.message,
                    "a field failed"
                );
                error.message = INTERNAL.to_owned();
                extend(error, "code", "INTERNAL");
                extend(error, "requestId", meta.request_id.as_str());
            }
        }
        cut(&mut error.message);
    }
    response
}

/// `extensions.code` of the first error.
pub(super) fn code(response: &Response) -> Option<&str> {
    code_of(response.errors.first()?)
}

fn code_of(error: &ServerError) -> Option<&str> {
    match error.extensions.as_ref()?.get("code")? {
        Value::String(code) => Some(code),
        _ => None,
    }
}

/// Before execution nothing has a path; during it, only what is wrong with arguments and variables is the caller's.
fn is_about_the_request(error: &ServerError) -> bool {
    let beginnings = ["Failed to parse \"", "Expected input type \"", "Variable "];
    error.path.is_empty()
        || beginnings
            .iter()
            .any(|beginning| error.message.starts_with(beginning))
}

/// The path of the argument that the validation says is wrong: it stands in its words alone.
fn wrong_argument(message: &str) -> Option<String> {
    let (path, why) = message
        .strip_prefix("Invalid value for argument \"")?
        .split_once('"')?;
    let missing = why
        .strip_prefix(", field \"")
        .filter(|rest| rest.ends_with("is required but not provided"))
        .and_then(|rest| rest.split_once('"'));
    Some(match missing {
        Some((field, _)) => format!("{path}.{field}"),
        None => path.to_owned(),
    })
}

fn is_about_size(error: &ServerError) -> bool {
    let words = [
        "too complex",
        "too deep",
        "recursion depth",
        "number of directives",
    ];
    words.iter().any(|words| error.message.contains(words))
}

fn coded(code: &str, message: &str) -> ServerError {
    let mut error = ServerError::new(message, None);
    cut(&mut error.message);
    extend(&mut error, "code", code);
    error
}

fn extend(error: &mut ServerError, name: &str, value: impl Into<Value>) {
    error
        .extensions
        .get_or_insert_with(ErrorExtensionValues::default)
        .set(name, value);
}

fn cut(message: &mut String) {
    if let Some((end, _)) = message.char_indices().nth(LONGEST_MESSAGE) {
        message.truncate(end);
        message.push('…');
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use async_graphql::{PathSegment, Response, ServerError};
    use schema::context::RequestMeta;

    use super::{LONGEST_MESSAGE, code, refusal, shape};

    fn shaped(message: &str, path: Vec<PathSegment>) -> Response {
        let meta = RequestMeta {
            ip: IpAddr::V4(Ipv4Addr::LOCALHOST),
            device_id: None,
            request_id: "r".to_owned(),
            trace_id: "t".to_owned(),
        };
        let error = ServerError {
            path,
            ..ServerError::new(message, None)
        };
        shape(Response::from_errors(vec![error]), &meta)
    }

    #[test]
    fn every_error_has_a_code() {
        let field = || vec![PathSegment::Field("a".to_owned())];
        assert_eq!(
            code(&shaped("Unknown field", Vec::new())),
            Some("BAD_INPUT")
        );
        assert_eq!(
            code(&shaped("Query is too complex.", Vec::new())),
            Some("TOO_COMPLEX")
        );
        assert_eq!(
            code(&shaped("Failed to parse \"Int\": no", field())),
            Some("BAD_INPUT")
        );
        let ours = shaped("a table is missing", field());
        assert_eq!(code(&ours), Some("INTERNAL"));
        assert!(!ours.errors[0].message.contains("table"));
    }

    #[test]
    fn what_the_validation_refuses_names_its_argument() {
        let argument = |message: &str| {
            let shaped = shaped(message, Vec::new());
            let extensions = shaped.errors[0].extensions.clone().unwrap();
            extensions.get("argument").map(ToString::to_string)
        };
        for (message, expected) in [
            (
                r#"Invalid value for argument "first", expected type "Int""#,
                "\"first\"",
            ),
            (
                r#"Invalid value for argument "input.sale", field "total" of type "Int!" is required but not provided"#,
                "\"input.sale.total\"",
            ),
            (
                r#"Invalid value for argument "input", unknown field "x" of type "Y""#,
                "\"input\"",
            ),
        ] {
            assert_eq!(argument(message).as_deref(), Some(expected));
        }
        assert_eq!(argument("Unknown field \"x\""), None);
    }

    #[test]
    fn a_long_message_is_cut_between_characters() {
        let response = refusal("BAD_INPUT", &"é".repeat(1000));
        assert_eq!(
            response.errors[0].message.chars().count(),
            LONGEST_MESSAGE + 1
        );
    }
}
