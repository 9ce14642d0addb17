//! Following people in the API: the lists of a user, and the two mutations.

use async_graphql::{Context, ID, InputObject, Object, Result, SimpleObject};
use domain::follows::{Follow, FollowKey};
use domain::users::UserId;

use crate::context::ContextExt;
use crate::error::{api_error, fault_error, not_found};
use crate::limits::{FOLLOW_WRITES, Limited};
use crate::loaders::{CountsOf, FollowOf, by_id};
use crate::pagination::{List, Page};
use crate::scalars::parse_id;
use crate::users::User;

/// The arguments of a list: `first` and `after`.
type Wanted = (Option<i32>, Option<String>);

/// The list `User.followers`.
pub(crate) async fn followers(
    ctx: &Context<'_>,
    user: UserId,
    (first, after): Wanted,
) -> Result<List<User>> {
    let page = Page::new(ctx, format!("followers:{user}"), first, after)?;
    let follows = &ctx.services().follows;
    let found = follows.followers_after(user, page.after, page.load()).await;
    let found = found.map_err(api_error)?;
    people(ctx, &page, found, |follow| UserId(follow.follower_id)).await
}

/// The list `User.following`.
pub(crate) async fn following(
    ctx: &Context<'_>,
    user: UserId,
    (first, after): Wanted,
) -> Result<List<User>> {
    let page = Page::new(ctx, format!("following:{user}"), first, after)?;
    let follows = &ctx.services().follows;
    let found = follows.following_after(user, page.after, page.load()).await;
    let found = found.map_err(api_error)?;
    people(ctx, &page, found, |follow| UserId(follow.followee_id)).await
}

/// The list `User.followsInCommon`.
pub(crate) async fn in_common(
    ctx: &Context<'_>,
    user: UserId,
    (first, after): Wanted,
) -> Result<List<User>> {
    let Some(viewer) = ctx.viewer().map(|session| session.user_id) else {
        return Ok(List::new(false, false));
    };
    let kind = format!("follows-in-common:{viewer}:{user}");
    let page: Page<UserId> = Page::new(ctx, kind, first, after)?;
    let follows = &ctx.services().follows;
    let common = follows
        .in_common(viewer, user, page.after, page.load())
        .await
        .map_err(api_error)?;
    let cards = by_id(ctx).load_many(common.iter().copied()).await;
    let cards = cards.map_err(|e| fault_error(&*e))?;
    let shown = common.into_iter().filter_map(|id| cards.get(&id).cloned());
    let items: Vec<_> = shown.collect();
    Ok(page.list_with(
        ctx,
        items,
        |card| UserId(card.id),
        |card| (User::new(card), async_graphql::connection::EmptyFields),
    ))
}

async fn people(
    ctx: &Context<'_>,
    page: &Page<FollowKey>,
    found: Vec<Follow>,
    who: impl Fn(&Follow) -> UserId,
) -> Result<List<User>> {
    let cards = by_id(ctx).load_many(found.iter().map(&who)).await;
    let cards = cards.map_err(|e| fault_error(&*e))?;
    let shown = found.into_iter().filter_map(|follow| {
        let card = cards.get(&who(&follow)).cloned()?;
        Some((FollowKey::of(&follow), card))
    });
    let items: Vec<_> = shown.collect();
    Ok(page.list_with(
        ctx,
        items,
        |(key, _)| *key,
        |(_, card)| (User::new(card), async_graphql::connection::EmptyFields),
    ))
}

/// Whether the viewer follows a user.
pub(crate) async fn is_followed_by_viewer(ctx: &Context<'_>, user: UserId) -> Result<bool> {
    let Some(viewer) = ctx.viewer().map(|session| session.user_id) else {
        return Ok(false);
    };
    let pair = FollowOf::followed_by(viewer, user);
    let found = by_id(ctx).load_one(pair).await;
    Ok(found.map_err(|e| fault_error(&*e))?.is_some())
}

/// Whether the viewer and a user follow each other.
pub(crate) async fn is_mutual(ctx: &Context<'_>, user: UserId) -> Result<bool> {
    let Some(viewer) = ctx.viewer().map(|session| session.user_id) else {
        return Ok(false);
    };
    let pairs = [
        FollowOf::followed_by(viewer, user),
        FollowOf::follower_of(viewer, user),
    ];
    let found = by_id(ctx).load_many(pairs).await;
    Ok(found.map_err(|e| fault_error(&*e))?.len() == pairs.len())
}

/// How many follow a user, and how many they follow.
pub(crate) async fn counts(ctx: &Context<'_>, user: UserId) -> Result<(i32, i32)> {
    let found = by_id(ctx).load_one(CountsOf(user)).await;
    let found = found.map_err(|e| fault_error(&*e))?;
    let number = |count: i64| i32::try_from(count).unwrap_or(i32::MAX);
    Ok(found.map_or((0, 0), |counts| {
        (number(counts.followers), number(counts.following))
    }))
}

/// Whom to follow.
#[derive(InputObject)]
pub struct FollowInput {
    /// The user.
    user_id: ID,
}

/// Somebody is followed.
#[derive(SimpleObject)]
pub struct FollowPayload {
    /// The user who is followed now.
    user: User,
}

/// Whom to follow no more.
#[derive(InputObject)]
pub struct UnfollowInput {
    /// The user.
    user_id: ID,
}

/// Somebody is not followed any more.
#[derive(SimpleObject)]
pub struct UnfollowPayload {
    /// The user who is not followed any more.
    user: User,
}

/// Following and unfollowing.
#[derive(Default)]
pub struct FollowMutation;

#[Object]
impl FollowMutation {
    /// Follows a user: their notes are in the viewer's feed from now on, those that are there already too. Once more
    /// changes nothing. For users.
    ///
    /// `NOT_FOUND` when there is no such user; `BAD_INPUT` when it is the viewer.
    #[graphql(guard = "Limited(&FOLLOW_WRITES)")]
    async fn follow(&self, ctx: &Context<'_>, input: FollowInput) -> Result<FollowPayload> {
        let session = ctx.require_viewer()?;
        let user = UserId(parse_id(&input.user_id, "User", "input.userId")?);
        let done = ctx.services().follows.follow(session, user).await;
        done.map_err(api_error)?;
        let user = shown(ctx, user).await?;
        Ok(FollowPayload { user })
    }

    /// Follows a user no more: their notes leave the viewer's feed. Once more changes nothing. For users.
    ///
    /// `NOT_FOUND` when there is no such user; `BAD_INPUT` when it is the viewer.
    #[graphql(guard = "Limited(&FOLLOW_WRITES)")]
    async fn unfollow(&self, ctx: &Context<'_>, input: UnfollowInput) -> Result<UnfollowPayload> {
        let session = ctx.require_viewer()?;
        let user = UserId(parse_id(&input.user_id, "User", "input.userId")?);
        let done = ctx.services().follows.unfollow(session, user).await;
        done.map_err(api_error)?;
        let user = shown(ctx, user).await?;
        Ok(UnfollowPayload { user })
    }
}

async fn shown(ctx: &Context<'_>, user: UserId) -> Result<User> {
    let card = by_id(ctx).load_one(user).await;
    let card = card.map_err(|e| fault_error(&*e))?;
    card.map(User::new).ok_or_else(not_found)
}
