//! Feature switches in the API. Administrators only.

use async_graphql::{Context, Enum, InputObject, Object, Result, SimpleObject};
use chrono::{DateTime, Utc};
use domain::switches::{Switch, SwitchState};
use domain::users::Role;

use crate::context::ContextExt;
use crate::error::api_error;
use crate::scalars::time;

/// A feature that can be switched off.
#[derive(Clone, Copy, PartialEq, Eq, Enum)]
#[graphql(remote = "Switch")]
pub enum FeatureSwitchName {
    /// Shops in the order of what they sold; without it they come newest first.
    ShopsBySales,
    /// Shops by a part of their name; without it nothing is found.
    ShopSearch,
    /// Shops around a place; without it nothing is found.
    ShopsNearby,
    /// Hot notes as of two seconds ago; without it they are as of ten minutes ago.
    HotBlogs,
    /// Figures that are counted while somebody waits; without them, only those that were computed.
    Statistics,
}

/// A feature switch as it stands.
#[derive(SimpleObject)]
pub struct FeatureSwitch {
    /// Which.
    name: FeatureSwitchName,
    /// Whether the feature is on.
    on: bool,
    /// When it was set; null when nobody ever did, and then it is on.
    updated_at: Option<DateTime<Utc>>,
}

impl From<SwitchState> for FeatureSwitch {
    fn from(state: SwitchState) -> Self {
        Self {
            name: state.switch.into(),
            on: state.is_on,
            updated_at: state.updated_at_ms.map(time),
        }
    }
}

/// Reading switches.
#[derive(Default)]
pub struct SwitchQuery;

#[Object]
impl SwitchQuery {
    /// Every feature switch. Administrators.
    async fn feature_switches(&self, ctx: &Context<'_>) -> Result<Vec<FeatureSwitch>> {
        ctx.require_role(&[Role::Admin])?;
        Ok(ctx
            .services()
            .switches
            .all()
            .into_iter()
            .map(Into::into)
            .collect())
    }
}

/// A switch to set.
#[derive(InputObject)]
pub struct SetFeatureSwitchInput {
    /// Which.
    name: FeatureSwitchName,
    /// Whether the feature is to be on.
    on: bool,
}

/// A switch that was set.
#[derive(SimpleObject)]
pub struct SetFeatureSwitchPayload {
    /// The switch as it is now.
    feature_switch: FeatureSwitch,
}

/// Setting switches.
#[derive(Default)]
pub struct SwitchMutation;

#[Object]
impl SwitchMutation {
    /// Switches a feature on or off, on all nodes within a second. Reads that are off answer with less and are named in
    /// `extensions.degraded`; flash sales go on. Administrators.
    async fn set_feature_switch(
        &self,
        ctx: &Context<'_>,
        input: SetFeatureSwitchInput,
    ) -> Result<SetFeatureSwitchPayload> {
        let admin = ctx.require_role(&[Role::Admin])?.user_id;
        let set = ctx
            .services()
            .switches
            .set(input.name.into(), input.on, admin.0);
        Ok(SetFeatureSwitchPayload {
            feature_switch: set.await.map_err(api_error)?.into(),
        })
    }
}
