//! Answers that were given up in part: which fields, told in `extensions.degraded`.

use std::collections::BTreeSet;
use std::sync::Arc;

use async_graphql::extensions::{
    Extension, ExtensionContext, ExtensionFactory, NextExecute, NextPrepareRequest,
};
use async_graphql::{Context, Request, Response, ServerResult, Value, async_trait};
use domain::switches::Switch;
use parking_lot::Mutex;

use crate::context::ContextExt;

/// The fields of one operation that were answered with less.
#[derive(Clone, Default)]
struct Fields(Arc<Mutex<BTreeSet<String>>>);

/// Whether a feature is off; then the field is told as degraded.
pub(crate) fn is_off(ctx: &Context<'_>, switch: Switch, field: &'static str) -> bool {
    let off = !ctx.services().switches.is_on(switch);
    if off {
        tell(ctx, field);
    }
    off
}

/// Tells a field as degraded.
pub(crate) fn tell(ctx: &Context<'_>, field: &'static str) {
    if let Some(fields) = ctx.data_opt::<Fields>() {
        fields.0.lock().insert(field.to_owned());
    }
}

/// Notes that the field was answered while the cache's Redis was away: from a copy or the database, whose copies may
/// be behind other servers' writes.
pub(crate) fn note_missing_redis(ctx: &Context<'_>) {
    if ctx.services().infra().cache.is_without_redis()
        && let Some(fields) = ctx.data_opt::<Fields>()
    {
        fields.0.lock().insert(ctx.field().name().to_owned());
    }
}

/// Tells degraded fields in the answer.
pub(crate) struct Degraded;

impl ExtensionFactory for Degraded {
    fn create(&self) -> Arc<dyn Extension> {
        Arc::new(Operation::default())
    }
}

#[derive(Default)]
struct Operation {
    fields: Fields,
}

#[async_trait::async_trait]
impl Extension for Operation {
    async fn prepare_request(
        &self,
        ctx: &ExtensionContext<'_>,
        request: Request,
        next: NextPrepareRequest<'_>,
    ) -> ServerResult<Request> {
        next.run(ctx, request.data(self.fields.clone())).await
    }

    async fn execute(
        &self,
        ctx: &ExtensionContext<'_>,
        operation_name: Option<&str>,
        next: NextExecute<'_>,
    ) -> Response {
        let response = next.run(ctx, operation_name).await;
        let fields: Vec<Value> = self
            .fields
            .0
            .lock()
            .iter()
            .map(|f| Value::from(f.as_str()))
            .collect();
        if fields.is_empty() {
            return response;
        }
        response.extension("degraded", Value::List(fields))
    }
}
