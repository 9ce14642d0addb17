//! Counts operations by kind and outcome, and how long they take. Never by anything a client can choose.

use std::sync::Arc;
use std::time::Instant;

use async_graphql::extensions::{
    Extension, ExtensionContext, ExtensionFactory, NextExecute, NextParseQuery,
};
use async_graphql::parser::types::{ExecutableDocument, OperationType};
use async_graphql::{Response, ServerResult, Value, Variables, async_trait};
use parking_lot::Mutex;

/// Makes one counter an operation.
pub(crate) struct Telemetry;

impl Telemetry {
    /// Counts from now on, and says what is counted.
    pub(crate) fn new() -> Self {
        metrics::describe_counter!(
            "lifemate_graphql_operations_total",
            "Operations, by kind and by the code of their first error"
        );
        metrics::describe_histogram!(
            "lifemate_graphql_operation_seconds",
            "From the start of an operation's execution to its answer, by kind"
        );
        Self
    }
}

impl ExtensionFactory for Telemetry {
    fn create(&self) -> Arc<dyn Extension> {
        Arc::new(Operation {
            kind: Mutex::new("unknown"),
        })
    }
}

struct Operation {
    kind: Mutex<&'static str>,
}

#[async_trait::async_trait]
impl Extension for Operation {
    async fn parse_query(
        &self,
        ctx: &ExtensionContext<'_>,
        query: &str,
        variables: &Variables,
        next: NextParseQuery<'_>,
    ) -> ServerResult<ExecutableDocument> {
        let document = next.run(ctx, query, variables).await?;
        let kind = document
            .operations
            .iter()
            .next()
            .map_or("unknown", |(_, operation)| match operation.node.ty {
                OperationType::Query => "query",
                OperationType::Mutation => "mutation",
                OperationType::Subscription => "subscription",
            });
        *self.kind.lock() = kind;
        Ok(document)
    }

    async fn execute(
        &self,
        ctx: &ExtensionContext<'_>,
        operation_name: Option<&str>,
        next: NextExecute<'_>,
    ) -> Response {
        let began = Instant::now();
        let response = next.run(ctx, operation_name).await;
        let kind = *self.kind.lock();
        metrics::counter!("lifemate_graphql_operations_total", "operation" => kind, "code" => code(&response)).increment(1);
        metrics::histogram!("lifemate_graphql_operation_seconds", "operation" => kind)
            .record(began.elapsed().as_secs_f64());
        response
    }
}

/// The code of the first error, one of the documented ones.
fn code(response: &Response) -> &'static str {
    const CODES: [&str; 10] = [
        "UNAUTHENTICATED",
        "FORBIDDEN",
        "NOT_FOUND",
        "BAD_INPUT",
        "BAD_CURSOR",
        "RATE_LIMITED",
        "TRY_LATER",
        "TOO_COMPLEX",
        "UNAVAILABLE",
        "INTERNAL",
    ];
    let Some(error) = response.errors.first() else {
        return "OK";
    };
    let found = error.extensions.as_ref().and_then(|e| e.get("code"));
    let Some(Value::String(found)) = found else {
        return "INVALID";
    };
    CODES
        .iter()
        .find(|code| *code == found)
        .copied()
        .unwrap_or("OTHER")
}
