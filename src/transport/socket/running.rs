//! One operation of a socket, in a task of its own, so that a slow one holds up no other. What it does is `schema`.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use async_graphql::parser::types::OperationType;
use async_graphql::{Request, Response};
use futures_util::stream::BoxStream;
use futures_util::{FutureExt, StreamExt};
use schema::context::RequestMeta;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::Outgoing;
use super::message::ServerMessage;
use super::operations::Begun;
use crate::transport::operation::{self, Body, Prepared, Viewer};
use crate::transport::{App, trouble};

/// A stream that nobody wants any more is let go between two events, because a database future must not be dropped
/// half-way. One that is silent for this long is waiting for an event and is let go, too.
const SETTLE_LIMIT: Duration = Duration::from_secs(5);
/// The same while the server stops.
const SETTLE_LIMIT_WHEN_CLOSING: Duration = Duration::from_secs(1);

/// The way of an operation to its client.
pub(super) struct Line {
    pub(super) operation: Begun,
    pub(super) outbox: mpsc::Sender<Outgoing>,
}

impl Line {
    /// `false`: nobody listens any more.
    async fn say(&self, message: ServerMessage<'_>) -> bool {
        let Some(text) = message.text() else {
            return true;
        };
        let sent = self
            .operation
            .stop
            .run_until_cancelled(self.outbox.send(Outgoing::Message {
                of: self.operation.ticket.clone(),
                text,
            }))
            .await;
        matches!(sent, Some(Ok(())))
    }

    /// Nothing was executed.
    async fn refuse(&self, refused: &Response) {
        let id = self.operation.ticket.id.clone();
        self.last(Some(ServerMessage::Error {
            id: &id,
            payload: &refused.errors,
        }))
        .await;
    }

    /// The id is free for the client from here on.
    async fn last(&self, message: Option<ServerMessage<'_>>) {
        let text = message.and_then(|message| message.text());
        let of = self.operation.ticket.clone();
        let last = self.outbox.send(Outgoing::Last { of, text });
        self.operation.stop.run_until_cancelled(last).await;
    }
}

/// Starts an operation; it ends by itself, or when its line is stopped.
pub(super) fn start(app: &Arc<App>, viewer: Viewer, request: Request, line: Line) {
    let app = Arc::clone(app);
    let tasks = app.tasks.clone();
    tasks.spawn(async move {
        metrics::gauge!("lifemate_subscriptions").increment(1);
        match operation::prepare(request) {
            Ok(Prepared {
                request,
                kind: OperationType::Subscription,
            }) => follow(&app, &viewer, request, &line).await,
            Ok(Prepared { request, .. }) => answer(&app, &viewer, request, &line).await,
            Err(refused) => line.refuse(&refused).await,
        }
        drop(line);
        metrics::gauge!("lifemate_subscriptions").decrement(1);
    });
}

/// A query or a mutation: one answer.
async fn answer(app: &Arc<App>, viewer: &Viewer, request: Request, line: &Line) {
    let response = operation::run(app, request, viewer).await;
    if operation::is_request_error(&response) {
        return line.refuse(&response).await;
    }
    if line
        .say(ServerMessage::Next {
            id: &line.operation.ticket.id,
            payload: Body::of(&response),
        })
        .await
    {
        let id = line.operation.ticket.id.clone();
        line.last(Some(ServerMessage::Complete { id: &id })).await;
    }
}

/// A subscription: events until it completes, or nobody wants it.
async fn follow(app: &Arc<App>, viewer: &Viewer, request: Request, line: &Line) {
    let mut stream = app.answers.execute_stream(viewer.attach(request));
    let outcome = AssertUnwindSafe(relay(&mut stream, line, &viewer.meta))
        .catch_unwind()
        .await;
    let id = line.operation.ticket.id.clone();
    match outcome {
        Ok(End::Completed) => line.last(Some(ServerMessage::Complete { id: &id })).await,
        Ok(End::Refused(response)) => line.refuse(&response).await,
        Ok(End::Unwanted) => settle(&app.closing, stream).await,
        Err(_) => {
            tracing::error!(
                request.id = viewer.meta.request_id,
                trace.id = viewer.meta.trace_id,
                "a subscription panicked"
            );
            let response = trouble::internal(&viewer.meta);
            if line
                .say(ServerMessage::Next {
                    id: &id,
                    payload: Body::of(&response),
                })
                .await
            {
                line.last(Some(ServerMessage::Complete { id: &id })).await;
            }
        }
    }
}

enum End {
    Completed,
    Refused(Box<Response>),
    Unwanted,
}

async fn relay(stream: &mut BoxStream<'static, Response>, line: &Line, meta: &RequestMeta) -> End {
    let mut first = true;
    loop {
        match line.operation.stop.run_until_cancelled(stream.next()).await {
            None => return End::Unwanted,
            Some(None) => return End::Completed,
            Some(Some(response)) => {
                let response = trouble::shape(response, meta);
                if first && operation::is_request_error(&response) {
                    return End::Refused(Box::new(response));
                }
                if !line
                    .say(ServerMessage::Next {
                        id: &line.operation.ticket.id,
                        payload: Body::of(&response),
                    })
                    .await
                {
                    return End::Unwanted;
                }
            }
        }
        first = false;
    }
}

async fn settle(closing: &CancellationToken, mut stream: BoxStream<'static, Response>) {
    let between_events = AssertUnwindSafe(stream.next()).catch_unwind();
    let server_closes = async {
        closing.cancelled().await;
        tokio::time::sleep(SETTLE_LIMIT_WHEN_CLOSING).await;
    };
    tokio::select! {
        // Whatever comes, nobody is there to hear it.
        _ = between_events => {}
        () = tokio::time::sleep(SETTLE_LIMIT) => {}
        () = server_closes => {}
    }
}
