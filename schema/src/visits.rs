//! Visits in the API: who is counted when, and how counts are shown.

use std::collections::HashMap;
use std::sync::Arc;

use async_graphql::dataloader::Loader;
use async_graphql::extensions::{Extension, ExtensionContext, ExtensionFactory, NextExecute};
use async_graphql::{Context, Enum, Response, async_trait};
use domain::Services;
use domain::users::Session;
use domain::visits::{Count, Period, Subject};

use crate::context::{ContextExt, RequestMeta};
use crate::degraded::tell;
use crate::loaders::{ById, by_id};
use crate::users::Date;

/// How many days are counted together. Who comes on several of them is one visitor.
#[derive(Clone, Copy, PartialEq, Eq, Enum)]
#[graphql(remote = "domain::visits::Period")]
pub enum VisitPeriod {
    /// The day alone.
    Day,
    /// The seven days that end with it.
    Week,
    /// The thirty days that end with it.
    Month,
}

impl Loader<Count> for ById {
    type Value = u64;
    type Error = Arc<domain::visits::Error>;

    async fn load(&self, keys: &[Count]) -> Result<HashMap<Count, u64>, Self::Error> {
        let counted = self.services.visits.unique(keys).await.map_err(Arc::new)?;
        Ok(keys.iter().copied().zip(counted).collect())
    }
}

/// Counts the reader of a shop that there is.
pub(crate) fn visit_shop(ctx: &Context<'_>, shop: i64) {
    let (meta, visits) = (ctx.meta(), &ctx.services().visits);
    let user = ctx.viewer().map(|session| session.user_id.0);
    let visitor = visits.visitor(user, meta.device_id.as_deref(), meta.ip);
    visits.record(Subject::Shop(shop), visitor);
}

/// How many visited a shop; 0, and told as degraded, when the counts are away.
pub(crate) async fn visitors_of_shop(
    ctx: &Context<'_>,
    shop: i64,
    day: Option<Date>,
    period: Option<VisitPeriod>,
) -> i32 {
    let count = Count {
        subject: Subject::Shop(shop),
        day: day.map_or_else(|| ctx.services().visits.today(), |day| day.0),
        period: period.map(Period::from).unwrap_or_default(),
    };
    match by_id(ctx).load_one(count).await {
        Ok(found) => i32::try_from(found.unwrap_or(0)).unwrap_or(i32::MAX),
        Err(e) => {
            tracing::debug!(error = %e, "visitors cannot be counted now");
            tell(ctx, "uniqueVisitors");
            0
        }
    }
}

/// Counts whoever runs an operation as a visitor of the site.
pub(crate) struct SiteVisits;

impl ExtensionFactory for SiteVisits {
    fn create(&self) -> Arc<dyn Extension> {
        Arc::new(Self)
    }
}

#[async_trait::async_trait]
impl Extension for SiteVisits {
    async fn execute(
        &self,
        ctx: &ExtensionContext<'_>,
        operation_name: Option<&str>,
        next: NextExecute<'_>,
    ) -> Response {
        let services = ctx.data_opt::<Services>();
        let meta = ctx.data_opt::<RequestMeta>();
        if let (Some(services), Some(meta)) = (services, meta) {
            let session = ctx.data_opt::<Option<Session>>().and_then(Option::as_ref);
            let user = session.map(|session| session.user_id.0);
            let visits = &services.visits;
            let visitor = visits.visitor(user, meta.device_id.as_deref(), meta.ip);
            visits.record(Subject::Site, visitor);
            if user.is_some() {
                visits.record(Subject::Accounts, visitor);
            }
        }
        next.run(ctx, operation_name).await
    }
}
