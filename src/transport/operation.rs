//! Runs one operation to its end, whoever waits for it, and shapes what came out. What it does is `schema`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_graphql::parser::types::OperationType;
use async_graphql::{Request, Response, ServerError, Value};
use domain::users::Session;
use schema::context::RequestMeta;
use serde::Serialize;

use super::App;
use super::caller::Credentials;
use super::{nesting, precheck, trouble};

/// An operation's answer is waited for this long; the operation itself goes on.
const ANSWER_LIMIT: Duration = Duration::from_secs(10);

/// Bytes of a document. Reading takes time by length; what people write is below a tenth, and values are variables.
const LONGEST_DOCUMENT: usize = 15_000;

/// For whom an operation runs.
#[derive(Clone)]
pub(super) struct Viewer {
    pub(super) meta: RequestMeta,
    /// `None`: signed out.
    pub(super) session: Option<Session>,
}

impl Viewer {
    /// Puts itself where resolvers look for it.
    pub(super) fn attach(&self, request: Request) -> Request {
        request.data(self.meta.clone()).data(self.session.clone())
    }
}

/// An operation that was read and may run.
pub(super) struct Prepared {
    pub(super) request: Request,
    pub(super) kind: OperationType,
}

/// Reads the document and checks its size. The refusal is boxed: it is far larger than what it stands for.
pub(super) fn prepare(mut request: Request) -> Result<Prepared, Box<Response>> {
    if request.query.len() > LONGEST_DOCUMENT {
        let message = format!("the document is longer than {LONGEST_DOCUMENT} bytes");
        return Err(Box::new(trouble::refusal("TOO_COMPLEX", &message)));
    }
    if nesting::depth(&request.query) > nesting::DEEPEST {
        let deepest = nesting::DEEPEST;
        let message = format!("the document has more than {deepest} brackets in each other");
        return Err(Box::new(trouble::refusal("TOO_COMPLEX", &message)));
    }
    let name = request.operation_name.clone();
    let document = request
        .parsed_query()
        .map_err(|e| Box::new(trouble::unreadable(e)))?;
    let kind = precheck::check(document, name.as_deref())
        .map_err(|refused| Box::new(trouble::refusal(refused.code, &refused.message)))?;
    Ok(Prepared { request, kind })
}

/// Finds the session of some credentials; none is fine, a bad one is an answer for the client.
pub(super) async fn authenticate(
    app: &App,
    credentials: Credentials,
) -> Result<Option<Session>, Response> {
    let token = match credentials {
        Credentials::None => return Ok(None),
        Credentials::Token(token) => token,
        Credentials::Unusable => {
            return Err(trouble::refusal(
                "UNAUTHENTICATED",
                "the authorization must be `Bearer <token>`",
            ));
        }
    };
    match app.services.users.authenticate(&token).await {
        Ok(Some(session)) => Ok(Some(session)),
        Ok(None) => Err(trouble::refusal(
            "UNAUTHENTICATED",
            "the token is unknown or has expired; log in again",
        )),
        Err(error) => Err(trouble::of_domain(&error)),
    }
}

/// Runs a query or a mutation of somebody who has said who he is.
pub(super) async fn run(app: &Arc<App>, request: Request, viewer: &Viewer) -> Response {
    let (request, answers) = (viewer.attach(request), app.answers.clone());
    to_the_end(
        app,
        &viewer.meta,
        async move { answers.execute(request).await },
    )
    .await
}

/// Finds out who asks, and runs a query or a mutation for him.
pub(super) async fn run_for(
    app: &Arc<App>,
    request: Request,
    meta: RequestMeta,
    credentials: Credentials,
) -> Response {
    let (asking, viewer) = (Arc::clone(app), meta.clone());
    let work = async move {
        match authenticate(&asking, credentials).await {
            Ok(session) => {
                asking
                    .answers
                    .execute(
                        Viewer {
                            meta: viewer,
                            session,
                        }
                        .attach(request),
                    )
                    .await
            }
            Err(refused) => refused,
        }
    };
    to_the_end(app, &meta, work).await
}

/// Works in a task of its own: a client that hangs up, or is told to try later, does not stop it half-way. A panic
/// inside is masked.
async fn to_the_end(
    app: &App,
    meta: &RequestMeta,
    work: impl Future<Output = Response> + Send + 'static,
) -> Response {
    let task = app.tasks.spawn(work);
    match tokio::time::timeout(ANSWER_LIMIT, task).await {
        Ok(Ok(response)) => trouble::shape(response, meta),
        Ok(Err(_)) => {
            // The panic's own words are on standard error; they may hold what logs must not.
            tracing::error!(
                request.id = meta.request_id,
                trace.id = meta.trace_id,
                "an operation panicked"
            );
            trouble::internal(meta)
        }
        Err(_) => {
            let waited_secs = ANSWER_LIMIT.as_secs();
            tracing::warn!(
                request.id = meta.request_id,
                waited_secs,
                "an operation takes too long, its client was told to try later"
            );
            trouble::try_later()
        }
    }
}

/// Whether nothing was executed: such an answer has no `data` key, not even a null one.
pub(super) fn is_request_error(response: &Response) -> bool {
    response.data == Value::Null
        && !response.errors.is_empty()
        && response.errors.iter().all(|error| error.path.is_empty())
}

/// The answer as it goes over the wire.
#[derive(Serialize)]
pub(super) struct Body<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<&'a Value>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    errors: &'a [ServerError],
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    extensions: &'a BTreeMap<String, Value>,
}

impl<'a> Body<'a> {
    /// Of a response of the library.
    pub(super) fn of(response: &'a Response) -> Self {
        let data = (!is_request_error(response)).then_some(&response.data);
        Self {
            data,
            errors: &response.errors,
            extensions: &response.extensions,
        }
    }
}

#[cfg(test)]
mod tests {
    use async_graphql::{Request, Response, Value};

    use super::super::trouble::{code, refusal};
    use super::{Body, prepare};

    #[test]
    fn a_refused_request_has_no_data_key() {
        let response = refusal("BAD_INPUT", "no");
        let body = serde_json::to_value(Body::of(&response)).unwrap();
        assert_eq!(
            body,
            serde_json::json!({ "errors": [{ "message": "no", "extensions": { "code": "BAD_INPUT" } }] })
        );
    }

    #[test]
    fn an_answer_of_null_is_an_answer() {
        let body = serde_json::to_value(Body::of(&Response::new(Value::Null))).unwrap();
        assert_eq!(body, serde_json::json!({ "data": null }));
    }

    #[test]
    fn an_unreadable_document_is_told_with_its_position_and_not_quoted() {
        let refused = prepare(Request::new(format!("{{ a {} (", "b ".repeat(5000))))
            .err()
            .unwrap();
        assert_eq!(code(&refused), Some("BAD_INPUT"));
        assert!(
            refused.errors[0].message.len() < 200 && !refused.errors[0].locations.is_empty(),
            "{:?}",
            refused.errors
        );
    }
}
