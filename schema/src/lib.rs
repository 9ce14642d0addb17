//! The GraphQL face of LifeMate: types, descriptions, limits. It shapes; `domain` decides.

#![warn(missing_docs)]

pub mod context;
pub mod error;
pub mod limits;
pub mod pagination;
pub mod reviews;
pub mod scalars;

mod degraded;
mod loaders;
mod telemetry;

pub mod blogs;
pub mod chats;
pub mod feeds;
pub mod follows;
pub mod node;
pub mod notifications;
pub mod orders;
pub mod reminders;
pub mod shops;
pub mod sign_ins;
pub mod statistics;
pub mod switches;
pub mod uploads;
pub mod users;
pub mod visits;
pub mod vouchers;

use async_graphql::{
    MergedObject, MergedSubscription, ObjectType, SDLExportOptions, Schema, SchemaBuilder,
    SubscriptionType,
};
use domain::Services;

use limits::Limits;
use pagination::List;

/// Everything that can be read.
#[derive(MergedObject, Default)]
pub struct Query(
    node::NodeQuery,
    users::UserQuery,
    shops::ShopQuery,
    vouchers::VoucherQuery,
    blogs::BlogQuery,
    statistics::StatisticsQuery,
    switches::SwitchQuery,
);

/// Everything that can be done.
#[derive(MergedObject, Default)]
pub struct Mutation(
    users::mutation::UserMutation,
    shops::mutation::ShopMutation,
    vouchers::mutation::VoucherMutation,
    orders::OrderMutation,
    orders::waitlist::WaitlistMutation,
    reminders::ReminderMutation,
    notifications::NotificationMutation,
    follows::FollowMutation,
    chats::ChatMutation,
    orders::ClaimMutation,
    orders::RedeemMutation,
    reviews::ReviewMutation,
    sign_ins::SignInMutation,
    blogs::mutation::BlogMutation,
    blogs::like::LikeMutation,
    blogs::comment::CommentMutation,
    statistics::StatisticsMutation,
    switches::SwitchMutation,
    uploads::UploadMutation,
);

/// Everything that can be watched.
#[derive(MergedSubscription, Default)]
pub struct Subscription(
    orders::OrderSubscription,
    notifications::NotificationSubscription,
    chats::ChatSubscription,
    feeds::FeedSubscription,
);

/// The schema.
pub type ApiSchema = Schema<Query, Mutation, Subscription>;

/// Builds the schema over the domain.
pub fn build(services: Services, limits: Limits) -> ApiSchema {
    finish(bare(), services, limits)
}

/// Gives a schema the settings of ours: its limits, what it measures, and what it tells of degraded fields. Benchmarks
/// put other roots under them, to compare ours with.
pub fn finish<Q, M, S>(
    builder: SchemaBuilder<Q, M, S>,
    services: Services,
    limits: Limits,
) -> Schema<Q, M, S>
where
    Q: ObjectType + 'static,
    M: ObjectType + 'static,
    S: SubscriptionType + 'static,
{
    let mut builder = builder
        .limit_depth(limits.depth)
        .limit_complexity(limits.complexity)
        .limit_recursive_depth(limits.recursion)
        .limit_directives(limits.directives)
        .extension(telemetry::Telemetry::new())
        .extension(degraded::Degraded)
        .extension(visits::SiteVisits)
        .data(loaders::ById::new(services.clone()))
        .data(services);
    if limits.production {
        builder = builder.disable_introspection().disable_suggestions();
    }
    builder.finish()
}

/// The contract as `schema.graphql` has it.
pub fn sdl() -> String {
    let options = SDLExportOptions::new()
        .sorted_fields()
        .sorted_arguments()
        .sorted_enum_items()
        .include_specified_by();
    bare().finish().sdl_with_options(options)
}

fn bare() -> SchemaBuilder<Query, Mutation, Subscription> {
    Schema::build(
        Query::default(),
        Mutation::default(),
        Subscription::default(),
    )
    .register_output_type::<node::Node>()
    .override_output_type_description::<List<shops::Shop>>("A page of a list of shops.")
    .override_output_type_description::<shops::NearbyShops>("A page of a search around a place.")
    .override_output_type_description::<List<vouchers::Voucher>>("A page of a list of vouchers.")
    .override_output_type_description::<List<orders::Order>>("A page of a list of orders.")
    .override_output_type_description::<List<chats::Conversation>>(
        "A page of a list of conversations.",
    )
    .override_output_type_description::<List<chats::Message>>("A page of a history.")
    .override_output_type_description::<List<reviews::Review>>("A page of a list of reviews.")
    .override_output_type_description::<List<notifications::Notification>>(
        "A page of a list of notifications.",
    )
    .override_output_type_description::<feeds::Feed>("A page of a feed.")
    .override_output_type_description::<List<users::User>>("A page of a list of users.")
    .override_output_type_description::<List<blogs::Blog>>("A page of a list of notes.")
    .override_output_type_description::<List<blogs::comment::Comment>>(
        "A page of the comments on a note.",
    )
}
