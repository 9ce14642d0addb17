//! Who answers operations: a schema, whatever its roots are. The transport asks it, and knows nothing of its types.

use std::sync::Arc;

use async_graphql::{ObjectType, Request, Response, Schema, SubscriptionType};
use futures_util::future::{BoxFuture, FutureExt};
use futures_util::stream::{BoxStream, StreamExt};

type Execute = dyn Fn(Request) -> BoxFuture<'static, Response> + Send + Sync;
type Stream = dyn Fn(Request) -> BoxStream<'static, Response> + Send + Sync;

/// A schema without its types. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Answers {
    execute: Arc<Execute>,
    stream: Arc<Stream>,
}

impl Answers {
    /// Those of a schema.
    pub(crate) fn of<Q, M, S>(schema: Schema<Q, M, S>) -> Self
    where
        Q: ObjectType + 'static,
        M: ObjectType + 'static,
        S: SubscriptionType + 'static,
    {
        let streaming = schema.clone();
        Self {
            execute: Arc::new(move |request| {
                let schema = schema.clone();
                async move { schema.execute(request).await }.boxed()
            }),
            stream: Arc::new(move |request| streaming.execute_stream(request).boxed()),
        }
    }

    /// Runs a query or a mutation.
    pub(super) async fn execute(&self, request: Request) -> Response {
        (self.execute)(request).await
    }

    /// Runs a subscription; a query or a mutation is a stream of one answer.
    pub(super) fn execute_stream(&self, request: Request) -> BoxStream<'static, Response> {
        (self.stream)(request)
    }
}
